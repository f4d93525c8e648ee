"""The Python API: a program sends a message and receives the messages of the turn as they arrive.

`AgentClient(options).query("…")` is an async generator with `interrupt()`. It opens a conversation like any other
channel and runs the turn loop in it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

from adderclaw.agent.conversation import questions
from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run import Options, Resume, Run, open_run, start
from adderclaw.agent.run.drive import abandon_run, drive, require_script_finished
from adderclaw.agent.session import prompt
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.agent.tool_call.approvals import refuse_unaskable
from adderclaw.clients.python.channel import Channel, Handle, operator_of
from adderclaw.clients.python.new_messages import NewMessages
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.query import (
    AgentMessage,
    AssistantMessage,
    PartialMessage,
    QueryOptions,
    ResultMessage,
    SystemMessage,
    UserMessage,
)
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, Replies, answer_with
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Delta, Json, Message, Phase, Thinking, ToolResultBlock, ToolUseBlock
from adderclaw.flows.sdlc import conversation_phase as sdlc
from adderclaw.storage import memory
from adderclaw.storage.sdlc import phases

# ------------------------------------------------------------------ the client


class AgentClient:
    """Queries the agent. Each query is a new conversation unless it resumes one."""

    def __init__(self, options: QueryOptions | None = None) -> None:
        self.options = options or QueryOptions()

    def query(self, message: str, *, resume: str | None = None) -> "Query":
        """Start a turn, when the first message is requested. `resume`: the conversation to continue."""
        if not message.strip():
            raise UsageError("the message is empty; say what the agent should do")
        return Query(self.options, message, self.options.resume if resume is None else resume)

    async def questions(self, *, everything: bool = False, limit: int = 100) -> list[Json]:
        """The open questions in the operator's store, from any process; `everything`: also answered ones."""
        rows = questions.listed(self._store_path(), everything=everything, limit=limit)
        return [questions.as_json(row) for row in rows]

    async def answer(self, id: str, answer: bool | Replies, *, comment: str = "", plan: str = "") -> Json:
        """Answer a question: yes or no, or a reply to each of its parts. Raises AdderClawError if it does not count."""
        replies = None if isinstance(answer, bool) else answer
        approved = answer if isinstance(answer, bool) else True
        counts = questions.answered(
            self._store_path(), id, "python", approved=approved, replies=replies, comment=comment, plan=plan
        )
        return questions.as_json(counts)

    def sdlc(self, conversation: str | None = None) -> "Workflow":
        """The plan, phase and proof of a conversation; without an id, of the last one of the workspace."""
        return Workflow(self.options, conversation)

    def _store_path(self) -> str:
        options = options_of(self.options)
        return questions.store_path(options.config_file, options.workspace, options.overrides)


def run_channel(channel: Channel, options: QueryOptions | None = None, *, resume: str | None = None) -> int:
    """Open or resume a conversation for a channel and let it talk; returns the exit code at the end."""
    query_options = options or QueryOptions()
    runtime = start(options_of(query_options))
    opening: list[Run] = []

    def conversation() -> str:
        return opening[0].session.conversation_id if opening else ""

    conversation_id = query_options.resume if resume is None else resume
    again = Resume(conversation_id, go_on=False) if conversation_id is not None else None
    with open_run(runtime, operator_of(channel, conversation), kind="agent", channel=channel.name, again=again) as run:
        opening.append(run)
        return channel.start(Handle(channel, run))


class Workflow:
    """Phase, plan and proof of one conversation: the caller is the operator. Each method raises AdderClawError."""

    def __init__(self, options: QueryOptions, conversation: str | None) -> None:
        self._options, self._conversation = options, conversation

    async def status(self) -> Json:
        return await self._done(sdlc.phase_overview, looks=True)

    async def history(self) -> list[Json]:
        return await self._done(sdlc.history, looks=True)

    async def plans(self) -> list[Json]:
        return await self._done(sdlc.listed, looks=True)

    async def plan(self, text: str, *, new: bool = False) -> Json:
        """Store a new version of the plan as a draft. `new`: in a new conversation, which this object then uses."""

        def drafted(desk: sdlc.Desk, conversation: str) -> Json:
            return sdlc.plan(desk, conversation or None, text)

        plan: Json = await self._done(drafted, named=not new)
        self._conversation = str(plan["conversation"])
        return plan

    async def approve(self, what: Literal["plan", "report"], plan: int, *, new_baseline: bool = False) -> Json:
        """Approve the plan with this number, or its report, after a person has read it.

        `new_baseline` proves a new version of the plan against the workspace as it is.
        """
        seen = sdlc.Seen(what, plan)
        return await self._done(lambda desk, chosen: sdlc.approve(desk, chosen, seen, new_baseline=new_baseline))

    async def transition(self, phase: Phase) -> Json:
        return await self._done(lambda desk, chosen: sdlc.transition(desk, chosen, phases.phase_named(phase)))

    async def _done[T](self, work: Callable[[sdlc.Desk, str], T], *, looks: bool = False, named: bool = True) -> T:
        options = options_of(self._options)

        def within() -> T:
            with sdlc.opened(options.config_file, options.workspace, "python", looks=looks) as desk:
                return work(desk, sdlc.conversation(desk, self._conversation) if named else "")

        return await asyncio.to_thread(within)


class Query(AsyncGenerator["AgentMessage", None]):
    """The messages of one turn. Closing it early (`aclose()`) ends the turn cleanly."""

    def __init__(self, options: QueryOptions, message: str, resume: str | None) -> None:
        self._options, self._message, self._resume = options, message, resume
        self._turn: asyncio.Task[TurnResult] | None = None
        self._interrupted = False
        self._messages = self._run()

    async def interrupt(self) -> None:
        """End the turn now and stop its running work; the last message has the outcome `stopped`."""
        self._interrupted = True
        if self._turn is not None:
            self._turn.cancel()

    def __aiter__(self) -> "Query":
        return self

    async def __anext__(self) -> "AgentMessage":
        return await anext(self._messages)

    async def asend(self, value: None) -> "AgentMessage":
        return await self._messages.asend(value)

    async def athrow(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
        /,
    ) -> "AgentMessage":
        error = typ if isinstance(typ, BaseException) else val if isinstance(val, BaseException) else typ()
        return await self._messages.athrow(error.with_traceback(tb) if tb is not None else error)

    async def aclose(self) -> None:
        await self._messages.aclose()

    async def _run(self) -> AsyncGenerator["AgentMessage", None]:
        runtime = start(options_of(self._options))
        again = Resume(self._resume, go_on=False) if self._resume is not None else None
        operator = _Caller(self._options)
        with open_run(runtime, operator, kind="agent", channel="python", again=again) as run:
            _set_prompt(run.session, self._options)
            try:
                yield _system_message(run)
                messages = _MessageQueue(run.session, partial=self._options.include_partial_messages)
                runtime.bus.add_sink("python", messages.event)
                self._turn = asyncio.ensure_future(run_turn(run.session, self._message, messages.delta))
                self._turn.add_done_callback(lambda _turn: messages.end())
                if self._interrupted:
                    self._turn.cancel()
                while (message := await messages.queue.get()) is not None:
                    yield message
            except (GeneratorExit, asyncio.CancelledError):
                await _stopped(self._turn)
                await abandon_run(run)
                raise
            try:
                report = await drive(run, self._ended(run, self._turn))
            finally:
                await _stopped(self._turn)
            yield ResultMessage(**report.as_json())

    async def _ended(self, run: Run, turn: "asyncio.Task[TurnResult]") -> TurnResult:
        try:
            return require_script_finished(run, await turn)
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            return TurnResult("stopped", "", "interrupted by the program")
        except AdderClawError as error:
            return TurnResult("error", "", str(error))


async def _stopped(turn: "asyncio.Task[TurnResult] | None") -> None:
    """Cancel the turn and wait for its end."""
    if turn is not None and not turn.done():
        turn.cancel()
        await asyncio.wait({turn})


def options_of(options: QueryOptions) -> Options:
    settings: Json = dict(options.settings)
    if options.permission_mode is not None:
        settings["permissions"] = {**settings.get("permissions", {}), "defaultMode": options.permission_mode}
    if options.max_turns is not None:
        settings["runtime"] = {**settings.get("runtime", {}), "max_tool_rounds": options.max_turns}
    if options.allowed_tools is not None:
        settings["channels"] = {"cli": {"tools_allow": list(options.allowed_tools)}}
    own = {name: server for name, server in options.mcp_servers.items() if not isinstance(server, Mapping)}
    if servers := {name: server for name, server in options.mcp_servers.items() if name not in own}:
        settings["mcp_servers"] = {**settings.get("mcp_servers", {}), **servers}
    if options.hooks:
        settings["hooks"] = [*_listed(settings.get("hooks", ())), *_listed(options.hooks)]
    return Options(
        config_file=options.config_file,
        workspace=options.cwd,
        provider=options.provider,
        model=options.model,
        thinking=Thinking(options.effort),
        profile=options.profile,
        log_level="error",
        asks="must",
        here=True,
        overrides=settings,
        own_servers=own,
    )


def _listed(hooks: Sequence[Json] | Mapping[str, Sequence[Any]]) -> list[Json]:
    """Hooks by event as a list of groups that name their event; they are validated when all hooks are read."""
    if not isinstance(hooks, Mapping):
        return list(hooks)
    named = [(event, group) for event, groups in hooks.items() for group in groups]
    return [
        {"hook_event_name": event, **group} if isinstance(group, dict) else {"hook_event_name": event, "name": group}
        for event, group in named
    ]


def _set_prompt(session: Session, options: QueryOptions) -> None:
    system_prompt = options.system_prompt
    if system_prompt is None:
        return
    tools, root = session.environment.offered_tools.values(), session.environment.context.workspace.root
    instructions = session.secrets.scrub(session.instructions.text) if session.instructions is not None else ""
    if isinstance(system_prompt, str):
        notes = memory.context(session.store, root)
        session.prompt = prompt.compose_prompt(root, notes, tools, system=system_prompt, instructions=instructions)
    else:
        session.prompt = prompt.make_prompt(
            f"{session.prompt.system}\n\n{system_prompt['append']}", session.prompt.tools
        )


def _system_message(run: Run) -> SystemMessage:
    session = run.session
    return SystemMessage(
        session.conversation_id,
        session.session_id,
        run.run_id,
        session.environment.context.workspace.root,
        session.provider.name,
        session.model,
        tuple(session.environment.offered_tools),
    )


class _Caller:
    """The calling program is the operator."""

    def __init__(self, options: QueryOptions) -> None:
        self._options = options

    async def approve(self, request: ApprovalRequest) -> Answer:
        if self._options.can_use_tool is None:
            comment = "the calling program set no can_use_tool"
            return Answer(approved=False, by="no_operator", comment=comment)
        if (refused := refuse_unaskable(request)) is not None:
            return refused
        answer = await self._options.can_use_tool(request)
        return Answer(approved=answer, by="operator") if isinstance(answer, bool) else answer

    async def ask(self, request: QuestionRequest) -> Answer:
        asking = self._options.ask_user
        return answer_with(None if asking is None else await asking(request.questions))


class _MessageQueue:
    """The messages of a turn in order: parts as they arrive, and each message once it is in the history."""

    def __init__(self, session: Session, *, partial: bool) -> None:
        self._partial = partial
        self.queue: asyncio.Queue[AgentMessage | None] = asyncio.Queue()
        """Ends with None."""
        self._new = NewMessages(session, lambda message: self.queue.put_nowait(_redacted(message, session.secrets)))
        self.event = self._new.event

    def delta(self, delta: Delta) -> None:
        if self._partial:
            self.queue.put_nowait(PartialMessage(delta.kind, delta.text))

    def end(self) -> None:
        self._new.check()
        self.queue.put_nowait(None)


def _redacted(message: Message, secrets: Secrets) -> AgentMessage:
    """The message without text that looks like a secret; `can_use_tool` receives a call unchanged."""
    text, shown = secrets.redact(message.text), secrets.redact
    if message.role == "assistant":
        calls = [block.call for block in message.blocks if isinstance(block, ToolUseBlock)]
        clean = (replace(call, arguments=secrets.redact_all(call.arguments), raw=shown(call.raw)) for call in calls)
        return AssistantMessage(text, tuple(clean))
    results = (block for block in message.blocks if isinstance(block, ToolResultBlock))
    return UserMessage(text, tuple(block._replace(content=shown(block.content)) for block in results))


__all__ = ["AgentClient", "Query", "options_of"]
