"""The MCP server: each call of a client is a judged tool call of one session; also prompts and resources."""

import asyncio
import os
import re
import secrets
import sys
from collections.abc import Coroutine
from typing import Any

from adderclaw.agent.conversation.by_name import text_of
from adderclaw.agent.replay.trace_file import checked
from adderclaw.agent.run import Options, Run, open_run, start
from adderclaw.agent.run.drive import drive, exit_code
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.agent.tool_call.approvals import displayed_request, refuse_unaskable
from adderclaw.agent.tool_call.call import reached_limit, run_call
from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.core.events import EventRecord
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import (
    Answer,
    ApprovalRequest,
    QuestionRequest,
    Replies,
    answer_with,
    approval_with_registries,
)
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json, ToolCall, ToolResult
from adderclaw.storage import runs, transcript
from adderclaw.storage.queries import conversations
from adderclaw.storage.telemetry.log import show_brief
from adderclaw.tools.mcp import answers, server
from adderclaw.tools.mcp.resources import Document, Prompt, Resources
from adderclaw.tools.mcp.server import Caller, Offer

TOKEN = "ADDERCLAW_MCP_TOKEN"  # noqa: S105 - the name of a variable
TELL_SECONDS = 5.0
"""Seconds that notifications about a call may take before its result is sent."""
RUNS, RECEIPTS = "adderclaw://runs", "adderclaw://receipts"
RUN = f"{RUNS}/{{run_id}}"
SHOWN = 100
"""The number of runs and receipts that are listed."""
ARGUMENTS = "arguments"


class ClientOperator:
    """The operator is the client's user, if the client can ask them; else nobody."""

    def __init__(self) -> None:
        self.caller: Caller | None = None

    async def approve(self, request: ApprovalRequest) -> Answer:
        if self.caller is None or not self.caller.can_be_asked:
            return Answer(approved=False, by="no_operator", comment="the client cannot ask its user")
        if (refused := refuse_unaskable(request)) is not None:
            return refused
        seen = displayed_request(request)
        message = f"{seen.head}\n{seen.text}" if seen.is_step else f"{seen.head} wants to run: {seen.text}"
        form = await self.caller.ask("\n".join((message, *seen.marks)), _form(request)) or {}
        if request.registries and form.get("approve") is True and form.get("registries") is True:
            return approval_with_registries(request)
        return Answer(approved=form.get("approve") is True, by="operator")

    async def ask(self, request: QuestionRequest) -> Answer:
        if self.caller is None:
            return answer_with(None)
        replies: Replies = {}
        for question in request.questions:
            field: Json = {"type": "string", "title": question.header or "answer"}
            if question.options and not question.multi:
                field["enum"] = [option.label for option in question.options]
            form = await self.caller.ask(
                question.question, {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
            )
            if form is None:
                return answer_with(None)
            replies[question.question] = str(form.get("answer", ""))
        return answer_with(replies)


def _form(request: ApprovalRequest) -> Json:
    """The JSON schema of the form that the user fills in."""
    fields: Json = {"approve": {"type": "boolean", "title": "Approve", "default": False}}
    if request.registries:
        hosts = visible(", ".join(request.registries), keep_newlines=False)
        title = f"Allow commands of this session to reach {hosts}"
        fields["registries"] = {"type": "boolean", "title": title, "default": False}
    return {"type": "object", "properties": fields, "required": ["approve"]}


class Channel:
    """One session that serves calls, one at a time."""

    def __init__(self, run: Run, operator: ClientOperator) -> None:
        self._run, self._operator = run, operator
        self._turn = asyncio.Lock()
        self._notifying: set[asyncio.Task[None]] = set()
        run.runtime.bus.add_sink("mcp", self._progress)
        run.runtime.bus.add_sink("brief", show_brief)

    @property
    def offer(self) -> Offer:
        environment = self._run.session.environment
        own = lambda: [tool for name, tool in environment.offered_tools.items() if not name.startswith("mcp__")]  # noqa: E731
        return Offer(own, self.call, resources=session_resources(self._run.session))

    async def call(self, name: str, arguments: Json, caller: Caller) -> ToolResult:
        session = self._run.session
        async with self._turn:
            self._operator.caller = caller
            session.budget.restart_limits()
            call = ToolCall(session.ids("call"), name, session.secrets.scrub_all(arguments))
            with session.store.write() as cursor:
                content = [{"type": "text", "text": f"an MCP client calls {name}"}]
                entry: Json = {"uuid": session.ids("entry"), "content": content}
                sequence = transcript.append(cursor, session.session_id, "user", entry)
                transcript.open_turn(cursor, session.session_id, sequence, session.ids("turn"))
            try:
                spent = reached_limit(session)
                result = (await run_call(session, call, refusal=str(spent) if spent is not None else None)).result
                if self._notifying:  # the notifications about a call are sent before its result
                    await asyncio.wait(set(self._notifying), timeout=TELL_SECONDS)
                return result
            finally:
                self._operator.caller = None

    def _progress(self, record: EventRecord) -> None:
        """Notify the client about the progress of a running call, and of messages that an operator would see."""
        caller, payload = self._operator.caller, record.payload
        if caller is None:
            return
        match record.event_type:
            case "tool_progress":
                self._tell(caller.report(payload["progress"], payload["total"], payload["message"]))
            case "brief" | "hook_message":
                self._tell(caller.say("notice", visible(payload["message"])))
            case "warning":
                self._tell(caller.say("warning", visible(payload["message"])))
            case _:
                pass

    def _tell(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(telling)
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)


def serve(options: Options, http: str | None) -> int:
    """Serve until the client disconnects or a signal arrives; returns the exit code."""
    answers.silence_sdk_logging()
    operator = ClientOperator()
    with open_run(start(options), operator, kind="mcp", channel="mcp") as run:
        return asyncio.run(_serve(run, operator, http))


async def _serve(run: Run, operator: ClientOperator, http: str | None) -> int:
    sdk_server = server.build_server(Channel(run, operator).offer)

    def announce(address: str) -> None:
        print(f"serving MCP on {address}", file=sys.stderr, flush=True)

    async def serve_transport() -> TurnResult:
        if http is None:
            await server.serve_stdio(sdk_server)
        else:
            host, port = _place(http)
            await server.serve_http(sdk_server, host, port, _token(run), announce)
        return TurnResult("completed", "")

    def code(result: TurnResult) -> int:
        return 0 if result.signal else exit_code(result)  # a signal is the normal way to end a server

    return (await drive(run, until_signal(run, serve_transport()), code=code)).exit_code


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--http: {text!r} is not HOST:PORT, such as 127.0.0.1:8765")
    return host.strip("[]") or "127.0.0.1", int(port)


def _token(run: Run) -> str:
    configured = os.environ.get(TOKEN, "").strip()
    token = configured or secrets.token_urlsafe(32)
    if not configured:
        # printed once at the terminal, before redaction knows it
        print(f"bearer token (set {TOKEN} to choose it): {token}", file=sys.stderr, flush=True)
    run.runtime.secrets.add(token)
    return token


# ------------------------------------------------------------------ prompts and resources


def session_resources(session: Session) -> Resources:
    """The resources of a session: reading one changes nothing, and secrets are removed from all of them."""

    def prompts() -> list[Prompt]:
        kit = session.environment.kit
        listed = kit.skills.offered()[0] if kit.skills is not None else []
        return [Prompt(name, description[:1_000], (ARGUMENTS,)) for name, description in listed]

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        text, _ = await text_of(session, name, arguments.get(ARGUMENTS, ""))
        return session.secrets.scrub(text)

    def read(uri: str) -> tuple[str, str]:
        return canonical(session.secrets.clean(_document(session, uri))), "application/json"

    def complete(about: str, argument: str) -> list[str]:
        is_run_id = about == RUN and argument == "run_id"
        return [run.run_id for run in runs.listing(session.store, SHOWN, _places(session))] if is_run_id else []

    documents = (
        Document(RUNS, "runs", f"The last {SHOWN} runs in this workspace, and how each ended."),
        Document(RECEIPTS, "receipts", f"The last {SHOWN} receipts of tool calls in this workspace."),
    )
    return Resources(prompts, prompt, documents, (Document(RUN, "run", "One run, with its receipts."),), read, complete)


def _document(session: Session, uri: str) -> Json | list[Json]:
    store, places = session.store, _places(session)
    store.flush()
    if uri == RUNS:
        return [_shown(session, run) for run in runs.listing(store, SHOWN, places)]
    if uri == RECEIPTS:
        return runs.receipts_in(session.store, _places(session), SHOWN)
    match = re.fullmatch(re.escape(RUNS) + r"/([A-Za-z0-9-]{1,64})", uri)
    try:
        run = runs.get(store, match[1], places) if match else None
    except UsageError as error:
        raise PathRefused(str(error)) from None
    if run is None:
        raise PathRefused(f"there is no {uri[:200]!r}; there are: {RUNS}, {RECEIPTS}, {RUN}")
    return {**_shown(session, run), "receipts": runs.receipts(store, run.run_id, SHOWN)}


def _shown(session: Session, run: runs.Run) -> Json:
    return {**run._asdict(), "trace": checked(session.store, run).as_json()}


def _places(session: Session) -> tuple[str, ...]:
    """All names of the served workspace; clients cannot see the runs of other workspaces."""
    root = session.environment.context.workspace.root
    named = conversations.projects(session.store)
    return root, *(name for name in named if os.path.isabs(name) and followed(name) == root)
