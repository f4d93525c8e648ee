"""The edges of a replayed session: everything that reached it from outside is read from its tape and rows."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from adderclaw.agent.session.instructions import File, Instructions
from adderclaw.agent.session.limits import Pace
from adderclaw.agent.session.session import Chain, Planning, Rows, Session
from adderclaw.config.schema import Permissions
from adderclaw.core.decode import Invalid, thaw
from adderclaw.core.errors import LimitError, ProviderError, Stopped
from adderclaw.core.events import Bus
from adderclaw.core.host import HookOutcome, ToolContext
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, answer_with
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Denial,
    Disabled,
    Json,
    MediaBlock,
    OnDelta,
    OpaqueBlock,
    Prepared,
    ProviderCapabilities,
    TaskEnd,
    Tool,
    ToolCall,
    ToolResult,
    Touch,
    Usage,
)
from adderclaw.policy import facts
from adderclaw.storage.model_calls import Call
from adderclaw.storage.tape import Item
from adderclaw.storage.transcript import Entry

WORDS = {
    "turn": "the next message",
    "end": "the end of the turn",
    "chat": "a reply from the model",
    "touch": "what a call touches",
    "run": "the result of a tool",
    "together": "an interruption of calls that run at the same time",
    "hook": "the answer of hooks",
    "answer": "the operator's answer",
    "arrive": "whether a late tool is available",
    "news": "the end of a background task",
    "waited": "the wait for a background task",
    "nested": "an instruction file",
    "stop": "a change of the emergency stop",
    "head": "a new start of the session",
    "compact": "a manual compaction",
    "rewind": "a rewind",
    "goal": "a change of the goal",
    "drive": "a driver",
    "fact": "external state that a driver read",
    "lost": "a notice for the model outside of the messages",
}
"""Kind of a tape's item → its name in messages."""
OUTSIDE = frozenset({"FileChanged", "ConfigChange"})
"""Hooks that changes on disk trigger, not the session."""
UNASKED = frozenset({"stop", "tools", "permissions", "lent"})
"""Items that the session does not ask for."""
SETTLED = UNASKED - {"stop"}
"""Items of these that apply as soon as the item before them was taken."""
METADATA = {"exit": "exit_code", **{name: name for name in ("ran", "changed_later", "answered")}}
"""Key of a result on the tape → its key in the result's metadata."""
LOOP_PURPOSES = frozenset({None, "compaction"})
"""Purposes of model calls that the loop itself makes; others belong to a tool or a hook."""


class Diverged(BaseException):
    """The loop asks for something other than what is recorded. Not an Exception, so that no turn catches it."""


class RanOut(BaseException):
    """The recording ends here: the process was killed, or the rest was removed."""


class Recorded:
    """The rows of one session that a replay reads."""

    def __init__(self, calls: list[Call], entries: list[Entry], opaque: dict[int, list[Json]]) -> None:
        self._replies = [call for call in calls if call.status == "ok" and _purpose(call) in LOOP_PURPOSES]
        self._assistant = [entry for entry in entries if entry.entry_type == "assistant"]
        self._results = [entry for entry in entries if entry.entry_type == "tool_result"]
        self._opaque = opaque

    def reply(self) -> ChatResponse:
        """The model's next reply, from its row and its entry."""
        if not self._replies:
            raise Diverged("the recording has a reply from the model, but model_calls has no row for it")
        row = self._replies.pop(0)
        response = row.response or {}
        blocks: list[Json] = []
        if _purpose(row) is None and self._assistant:
            blocks = self._opaque.get(self._assistant.pop(0).sequence, [])
        opaque = (OpaqueBlock(block["wire"], block["payload"]) for block in blocks if block["type"] == "opaque")
        calls = [
            ToolCall(recorded_call["id"], recorded_call["name"], recorded_call["arguments"], recorded_call["raw"])
            for recorded_call in response.get("tool_calls", ())
        ]
        calls += [ToolCall("", "", {})] * response.get("calls", 0)
        return ChatResponse(
            str(response.get("text", "")),
            tuple(calls),
            Usage(**row.usage),
            response.get("stop_reason", "end"),
            row.model,
            row.provider,
            tuple(opaque),
        )

    def content(self, tool_use_id: str) -> str:
        """The content of the result of a call that was not replayed yet."""
        contents = (str(entry.payload["content"]) for entry in self._results if entry.tool_use_id == tool_use_id)
        return next(contents, "")

    def result(self, tool_use_id: str, body: Json) -> ToolResult:
        while self._results:
            entry = self._results.pop(0)
            if entry.tool_use_id == tool_use_id:
                media = (block for block in self._opaque.get(entry.sequence, []) if block["type"] == "media")
                return ToolResult(
                    str(entry.payload["content"])[: body["length"]],
                    body["outcome"],
                    denial=Denial(*body["denial"]) if "denial" in body else None,
                    metadata={known: body[name] for name, known in METADATA.items() if name in body},
                    media=tuple(
                        MediaBlock(media_block["media_type"], media_block["data"], media_block["name"])
                        for media_block in media
                    ),
                    unanswered=body.get("unanswered", False),
                    ends=body.get("ends", False),
                    own="frame" not in entry.payload,
                    diff=str(entry.payload.get("diff", "")),
                )
        raise Diverged(f"the call {tool_use_id} ran, but the transcript has no tool_result for it")


def _purpose(call: Call) -> str | None:
    return (call.response or {}).get("purpose")


class Reel:
    """Plays a tape: returns each item when the loop asks for it, and raises an error where the two diverge."""

    def __init__(self, items: list[Item], recorded: Recorded, stored_text: Callable[[str], Any]) -> None:
        self._items, self._recorded, self._stored_text = items, recorded, stored_text
        self._place = self._looks = 0
        self.case: Json = {}
        """The recorded facts that the last call was judged by."""
        self.at = 0.0
        self.over = False
        """Whether the recording has ended or diverged."""
        self.stopped = False
        self.session: Session | None = None
        self.own_tools: dict[str, Tool[Any]] = {}

    @property
    def left(self) -> str:
        """The kind of the next item; empty at the end."""
        self._absorb("")
        return self._items[self._place][0] if self._place < len(self._items) else ""

    def comes(self, kind: str) -> bool:
        """Whether this is the kind of the next item that the session asks for. Nothing is taken or applied."""
        index = self._place
        while index < len(self._items) and self._items[index][0] in UNASKED:
            index += 1
        return index < len(self._items) and self._items[index][0] == kind

    def take(self, kind: str) -> Json:
        self._absorb(kind)
        if self._place >= len(self._items):
            self.over = True
            raise RanOut(f"the recording ends where {WORDS[kind]} should follow")
        next_kind, body = self._items[self._place]
        if next_kind != kind:
            self.over = True
            raise Diverged(f"the loop asks for {WORDS[kind]}, but the recording has {WORDS.get(next_kind, next_kind)}")
        self._place += 1
        self._looks = 0
        self._restore_state(body)
        # new tools and changed rules apply before the next item is taken
        while self._place < len(self._items) and self._items[self._place][0] in SETTLED:
            self._place += 1
            self._apply(*self._items[self._place - 1])
        return body

    def sending(self) -> None:
        """A request is sent: restore the run's step count, because children may have taken steps meanwhile."""
        kind, body = self._items[self._place] if self._place < len(self._items) else ("", {})
        if kind == "chat" and "sent" in body and self.session is not None:
            self.session.budget.steps = body["sent"]

    def looked(self) -> bool:
        """Whether the emergency stop was set at this check."""
        self._looks += 1
        if self._place < len(self._items):
            kind, body = self._items[self._place]
            if kind == "stop" and self._looks >= body["looks"]:
                self._absorb("")
        return self.stopped

    def _absorb(self, awaited: str) -> None:
        """Apply the items that the session does not ask for, up to the next one that it does."""
        while self._place < len(self._items):
            kind, body = self._items[self._place]
            outside = kind == "hook" and body["event"] in OUTSIDE
            if not outside and (kind == awaited or kind not in UNASKED):
                return
            self._place += 1
            self._apply(kind, body)

    def _apply(self, kind: str, body: Json) -> None:
        session = self.session
        if kind == "stop":
            self.stopped, self._looks = body["set"], 0
        elif kind == "permissions" and session is not None:
            now = thaw(Permissions, body["now"])
            session.config = replace(session.config, permissions=now)
            session.environment.active_policy.update(now, lambda path: path)
        elif kind == "lent" and session is not None:
            session.environment.active_policy.lend(body["rules"])
        elif kind == "tools" and session is not None:
            self.own_tools.update(
                {tool.name: tool for tool in (external(self, described) for described in body["new"])}
            )

    def _restore_state(self, body: Json) -> None:
        self.at = max(self.at, body.get("at", 0.0))
        if self.session is None:
            return
        if "budget" in body:
            self.session.budget.restore(body["budget"])
        if "cwd" in body:
            self.session.environment.context.workspace.cwd = body["cwd"]
        seen = (file for file in body.get("files", ()) if isinstance(file, str))  # a list is an instruction file
        self.session.environment.context.files_read.update(dict.fromkeys(seen, ""))

    # -------------------------------------------------------------- provider

    def reply(self) -> ChatResponse:
        body = self.take("chat")
        if error := body.get("error"):
            more = {"provider": error["provider"], "retry_after": error["retry_after"]}
            raise ProviderError(error["kind"], error["message"], **more)
        match body.get("cut"):
            case "limit":
                raise LimitError(body["message"], body.get("by", ""))
            case "stop":
                raise Stopped(body["message"])
            case "interrupted":
                raise asyncio.CancelledError
            case _:
                pass
        if (empty := body.get("empty")) is not None:
            usage, more = Usage(**empty["usage"]), (empty["model"], empty["provider"])
            return ChatResponse(empty["text"], (), usage, empty["stop_reason"], *more)
        return self._recorded.reply()

    # -------------------------------------------------------------- drivers

    def fact(self, of: str, query: Json) -> Json:
        body = self.take("fact")
        if (body["of"], body["given"]) != (of, query):
            here, there = f"{of} {canonical(query)}", f"{body['of']} {canonical(body['given'])}"
            raise Diverged(f"the driver reads {here}, but the recording has {there}")
        if "cut" in body:
            raise asyncio.CancelledError
        return self._stored_text(body["kept"]) if "kept" in body else body["found"]

    # -------------------------------------------------------------- tools

    def touched(self, name: str, ctx: ToolContext) -> Touch:
        body = self.case = self.take("touch")
        if (body["id"], body["tool"]) != (ctx.tool_use_id, name):
            here, there = f"{ctx.tool_use_id} ({name})", f"{body['id']} ({body['tool']})"
            raise Diverged(f"the call {here} is judged, but the recording continues with {there}")
        if "refused" in body:
            raise Disabled(body["by"], body["refused"])
        if "facts" not in body:
            raise Diverged(f"the arguments of call {ctx.tool_use_id} are valid, but in the recording they were not")
        self._looks = -1  # the check that belongs to this call comes next, but was counted before the call was recorded
        try:
            return facts.touch_from_json(body["facts"])
        except facts.InvalidFact as error:
            raise Diverged(f"the facts of call {ctx.tool_use_id} cannot be read: {error}") from error

    def fits(self, parameters: Json) -> None:
        """Raise the error that the tool's own decoder reported about the arguments, if any."""
        self._absorb("touch")
        if self._place >= len(self._items) or "unfit" not in self._items[self._place][1]:
            return
        body = self.take("touch")
        parameters.clear()
        parameters.update(body["parameters"])
        raise Invalid([("", body["unfit"])])

    def answered(self, tool_use_id: str) -> str:
        return self._recorded.content(tool_use_id)

    async def ran(self, tool_use_id: str) -> ToolResult:
        body = self.take("run")
        if "cut" in body:
            raise asyncio.CancelledError
        return self._recorded.result(tool_use_id, body)

    def prepared(self, name: str, ctx: ToolContext) -> Prepared:
        """A call with its recorded facts and result."""
        touch = self.touched(name, ctx)
        overlaps, fails = self.case.get("overlaps", False), self.case.get("fails", "")
        return Prepared(touch, lambda: self.ran(ctx.tool_use_id), overlaps, lambda: fails)


class ReplayBus(Bus):
    """The bus, which tells the reel when a request is sent."""

    reel: Reel

    def begin_span(self) -> None:
        self.reel.sending()
        super().begin_span()


class RecordedProvider:
    """A provider whose replies are the recorded ones."""

    def __init__(self, reel: Reel, name: str) -> None:
        self._reel, self.name = reel, name

    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities()

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:  # noqa: ARG002
        return self._reel.reply()

    async def count(self, request: ChatRequest) -> int | None:  # noqa: ARG002
        return None

    async def ready(self) -> None:
        return None

    async def close(self) -> None:
        return None


class RecordedOperator:
    """An operator whose answers are the recorded ones."""

    def __init__(self, reel: Reel) -> None:
        self._reel = reel

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        body = self._reel.take("answer")
        if "cut" in body:
            raise asyncio.CancelledError
        if body.get("open") == "stop":
            raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
        if "open" in body:
            return Answer(approved=False, by="no_operator")
        return Answer(**body["said"])

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        return answer_with(None)


class RecordedClock:
    """A clock that shows the time of the last item taken."""

    def __init__(self, reel: Reel, began: float) -> None:
        self._reel, self._began = reel, began

    def now(self) -> float:
        return self._began + self._reel.at

    def monotonic(self) -> float:
        return self._reel.at

    async def sleep(self, seconds: float) -> None:
        self._reel.at += seconds


class RecordedTasks:
    """Background tasks, of which only the recorded ends are known."""

    def __init__(self, reel: Reel) -> None:
        self._reel = reel

    def finished(self) -> list[TaskEnd]:
        return [TaskEnd(*end) for end in self._reel.take("news")["ended"]] if self._reel.comes("news") else []

    async def wait_for_needed(self) -> bool:
        if not self._reel.comes("waited"):
            return False
        if self._reel.take("waited")["how"] == "timeout":
            raise TimeoutError
        return True


class RecordedInstructions(Instructions):
    """Instruction files as they were recorded. None is read, because the recorded prompt has their text."""

    def __init__(self, reel: Reel, announced: int) -> None:
        self._reel = reel
        self.files = []
        self.unannounced = [File("", "User", "session_start", "")] * announced

    def load_nested(self, files_read: dict[str, str]) -> list[File]:  # noqa: ARG002
        if not self._reel.comes("nested"):
            return []
        files = [File(*file) for file in self._reel.take("nested")["files"]]
        self.unannounced += files
        return files

    def forget(self, paths: Iterable[str]) -> None:
        """Files that are loaded again are on the tape."""

    def mark_told(self, paths: Iterable[str]) -> None:
        """Files that were loaded before are on the tape."""


class RecordedPace(Pace):
    """The recorded counts of recent tool calls."""

    def __init__(self, reel: Reel) -> None:
        self._reel = reel

    def add(self, kind: str) -> None:
        """Nothing is counted."""

    def recent_count(self, kind: str) -> int:  # noqa: ARG002
        return int(self._reel.case.get("recent", 0))


# ------------------------------------------------------------------ parts of the session


def planning(reel: Reel) -> Planning:
    return Planning(reel.case.get("phase", "idle"), bool(reel.case.get("plan_approved")))


def protected(reel: Reel) -> frozenset[tuple[int, int]]:
    return frozenset((int(device), int(inode)) for device, inode in reel.case.get("protected", ()))


def chains(reel: Reel, events: Sequence[str]) -> Mapping[str, Chain]:
    return {event: _chain(reel, event) for event in events}


def _chain(reel: Reel, event: str) -> Chain:
    async def fire(session: Session, fields: Json, rows: Rows | None) -> HookOutcome:  # noqa: ARG001
        body = reel.take("hook")
        if body["event"] != event:
            raise Diverged(f"hooks of {event} run, but the recording has those of {body['event']}")
        if "cut" in body:
            raise asyncio.CancelledError
        merged: Json = {
            key: tuple(value) if key in ("context", "messages") else value for key, value in body["said"].items()
        }
        return HookOutcome(**merged)

    return fire


def replayed(reel: Reel, tool: Tool[Any]) -> Tool[Any]:
    """A built-in tool whose calls are judged again and have the recorded results."""
    parameters = dict(tool.parameters)
    own = tool.decode

    def decoded(arguments: Json) -> Any:
        reel.fits(parameters)
        assert own is not None
        return own(arguments)

    def prepare(_arguments: Any, ctx: ToolContext) -> Prepared:
        return reel.prepared(tool.name, ctx)

    now = replace(tool, prepare=prepare, parameters=parameters)
    return now if own is None else replace(now, decode=decoded)


def driven(reel: Reel, tool: Tool[Any]) -> Tool[Any]:
    """A tool of a driver that is replayed: it runs again, inside the replayed driver."""

    def prepare(arguments: Any, ctx: ToolContext) -> Prepared:
        prepared = tool.prepare(arguments, ctx)
        touch = reel.touched(tool.name, ctx)
        return Prepared(touch, lambda: again(prepared), overlaps=reel.case.get("overlaps", False))

    async def again(prepared: Prepared) -> ToolResult:
        if "cut" in reel.take("run"):
            raise asyncio.CancelledError
        return await prepared.run()

    return replace(tool, prepare=prepare)


def external(reel: Reel, known: Json) -> Tool[Any]:
    """A tool of an MCP server or a driver. Its arguments are valid if they were when recorded."""
    parameters: Json = {}
    name: str = known["name"]

    def decoded(arguments: Json) -> Any:
        reel.fits(parameters)
        return arguments

    def prepare(_arguments: Any, ctx: ToolContext) -> Prepared:
        return reel.prepared(name, ctx)

    more: Json = {"deferred": known["deferred"], "usable": known["usable"]}
    return Tool(name, cast(type[Any], dict), prepare, "", parameters, decode=decoded, **more)


type Late = Callable[[str], Awaitable[str]]


def arriving(reel: Reel) -> Late:
    async def arrive(_name: str) -> str:
        return str(reel.take("arrive")["why_not"])

    return arrive
