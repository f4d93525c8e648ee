"""The MCP channel: each call of a client lives its whole life in one session, behind the same gate as any other."""

import asyncio
import os
import secrets
import sys
from collections.abc import Coroutine
from typing import Any

from adderclaw.agent.run import Options, Run, open_run, start
from adderclaw.agent.run.drive import drive, exit_code
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import TurnResult
from adderclaw.agent.tool_call.approvals import displayed_request, refuse_unaskable
from adderclaw.agent.tool_call.call import reached_limit, run_call
from adderclaw.clients.mcp_server import resources
from adderclaw.core.errors import UsageError
from adderclaw.core.events import EventRecord
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
from adderclaw.storage import transcript
from adderclaw.storage.telemetry.log import show_brief
from adderclaw.tools.mcp import answers, server
from adderclaw.tools.mcp.server import Caller, Offer

TOKEN = "ADDERCLAW_MCP_TOKEN"  # noqa: S105 - the name of a variable
TELL_SECONDS = 5.0
"""How long a client may take to be told of a call, before its result."""


class Asked:
    """The operator is the person behind the client, where the client can ask them; else nobody."""

    def __init__(self) -> None:
        self.caller: Caller | None = None

    async def approve(self, request: ApprovalRequest) -> Answer:
        if self.caller is None or not self.caller.can_be_asked:
            return Answer(approved=False, by="no_operator", comment="the client cannot ask anybody")
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
    """What the person fills in."""
    fields: Json = {"approve": {"type": "boolean", "title": "Approve", "default": False}}
    if request.registries:
        hosts = visible(", ".join(request.registries), keep_newlines=False)
        title = f"Let commands of this session reach {hosts}"
        fields["registries"] = {"type": "boolean", "title": title, "default": False}
    return {"type": "object", "properties": fields, "required": ["approve"]}


class Channel:
    """One session that serves calls, one at a time."""

    def __init__(self, run: Run, asked: Asked) -> None:
        self._run, self._asked = run, asked
        self._turn = asyncio.Lock()
        self._told: set[asyncio.Task[None]] = set()
        run.runtime.bus.add_sink("mcp", self._progress)
        run.runtime.bus.add_sink("brief", show_brief)

    @property
    def offer(self) -> Offer:
        environment = self._run.session.environment
        own = lambda: [tool for name, tool in environment.offered_tools.items() if not name.startswith("mcp__")]  # noqa: E731
        return Offer(own, self.call, resources=resources.of(self._run.session))

    async def call(self, name: str, arguments: Json, caller: Caller) -> ToolResult:
        session = self._run.session
        async with self._turn:
            self._asked.caller = caller
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
                if self._told:  # what belongs to a call is said before its result, or never
                    await asyncio.wait(set(self._told), timeout=TELL_SECONDS)
                return result
            finally:
                self._asked.caller = None

    def _progress(self, record: EventRecord) -> None:
        """What the client is told while a call runs: how far it is, and what an operator would see."""
        caller, payload = self._asked.caller, record.payload
        if caller is None:
            return
        match record.event_type:
            case "tool_progress":
                self._tell(caller.report(payload["progress"], payload["total"], payload["message"]))
            case "brief":
                self._tell(caller.say("notice", visible(payload["message"])))
            case "hook_message":
                self._tell(caller.say("notice", visible(payload["message"])))
            case "warning":
                self._tell(caller.say("warning", visible(payload["message"])))
            case _:
                pass

    def _tell(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(telling)
        self._told.add(task)
        task.add_done_callback(self._told.discard)


def serve(options: Options, http: str | None) -> int:
    """Serve until the client leaves, or a signal comes."""
    answers.silence_sdk_logging()
    asked = Asked()
    with open_run(start(options), asked, kind="mcp", channel="mcp") as run:
        return asyncio.run(_serve(run, asked, http))


async def _serve(run: Run, asked: Asked, http: str | None) -> int:
    sdk_server = server.build_server(Channel(run, asked).offer)

    async def live() -> TurnResult:
        if http is None:
            await server.serve_stdio(sdk_server)
        else:
            host, port = _place(http)
            await server.serve_http(sdk_server, host, port, _token(run), _ready)
        return TurnResult("completed", "")

    def code(result: TurnResult) -> int:
        return 0 if result.signal else exit_code(result)  # a signal is how a server is ended

    return (await drive(run, until_signal(run, live()), code=code)).exit_code


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--http: {text!r} is not HOST:PORT, such as 127.0.0.1:8765")
    return host.strip("[]") or "127.0.0.1", int(port)


def _token(run: Run) -> str:
    configured = os.environ.get(TOKEN, "").strip()
    token = configured or secrets.token_urlsafe(32)
    if not configured:
        # said once, to whoever sits here, before it is known to the redaction
        print(f"bearer token (set {TOKEN} to choose it): {token}", file=sys.stderr, flush=True)
    run.runtime.secrets.add(token)
    return token


def _ready(address: str) -> None:
    print(f"serving MCP on {address}", file=sys.stderr, flush=True)
