"""Records on a session's tape what reaches its turns from outside, so that they can be replayed.

Replies, results and texts are in the store already and are not recorded twice. Items wait in memory and are written
with the next transaction, so that a step costs one or two more rows, however many steps there were before.
"""

import hashlib
import os
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import islice
from sqlite3 import Cursor
from typing import TYPE_CHECKING, Any

from adderclaw import __version__
from adderclaw.agent.session.session import Session
from adderclaw.agent.session.tape import Tape
from adderclaw.agent.tool_call.approvals import PersistentApprovals
from adderclaw.core.errors import AnswerPending, LimitError, ProviderError, Stopped, StoreError
from adderclaw.core.events import Bus
from adderclaw.core.history import media_json
from adderclaw.core.host import ASKED_BY_SERVERS, HookOutcome
from adderclaw.core.overseer import NO_SUPERVISOR
from adderclaw.core.questions import Answer
from adderclaw.core.tool_traits import NAMES
from adderclaw.core.types import ChatResponse, Clock, Json, TaskEnd, Tool, ToolResult
from adderclaw.storage import Store, runs, settings, tape
from adderclaw.storage.text import compact

if TYPE_CHECKING:
    from adderclaw.agent.session.instructions import File
    from adderclaw.agent.session.session import Attached, Chain, Rows, Session
    from adderclaw.agent.tool_call.permission_check import PreparedCall

type Head = Callable[["Session"], Callable[[Cursor], Json]]
"""Captures the state that a session begins with; the returned function writes it later."""

LONG = 1_000
"""Facts with at least this many characters are stored separately."""
_INSIDE: ContextVar["Recorder | None"] = ContextVar("inside", default=None)
"""The tape of the session whose tool or hook is running; only its result is recorded."""


class SeededIds:
    """Ids that are the same for the same seed, numbered by kind."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._counts: dict[str, int] = {}

    def __call__(self, kind: str) -> str:
        number = self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"{kind}-{hashlib.blake2b(f'{self.seed}:{kind}:{number}'.encode(), digest_size=8).hexdigest()}"


class _Batch:
    """Items that are written together."""

    def __init__(self) -> None:
        self.items: list[tuple[str, Json | Callable[[Cursor], Json]]] = []
        self.row: tuple[int, str, str] | None = None


class Recorder(Tape):
    records = True

    def __init__(self, store: Store, run_id: str, session_id: str, clock: Clock, head: Head) -> None:
        self._store, self._run_id, self._session_id = store, run_id, session_id
        self._clock, self._head = clock, head
        self._began = clock.monotonic()
        self._batch: _Batch | None = None
        self._waiting: list[tuple[str, Json | Callable[[Cursor], Json]]] = []
        self._next = (0, "")
        self._stopped = False
        self._looks = 0
        self._cwd = ""
        self._files = self._lent = 0
        self._permissions: object = None
        self._tools: set[str] = set()
        self.ids = SeededIds(os.urandom(8).hex())

    # -------------------------------------------------------------- the turns

    def begin_turn(self, session: "Session", message: str | None, *, single: bool, attached: "Attached") -> None:
        """A turn begins. Nothing is written before the first model call."""
        self._begin(session)
        clean_message = session.secrets.scrub(message) if message is not None else None
        body: Json = {"message": clean_message, "provider": session.provider.name, "model": session.model}
        if single:
            body["single"] = True
        if any(attached):
            texts = [session.secrets.scrub(text) for text in attached.texts]
            body["attached"] = {"texts": texts, "media": media_json(attached.media)}
        self._lent = 0
        self._add_with_head("turn", {**body, "budget": session.budget.state, "at": self._at()})

    def begin_driver(self, session: "Session", driver: str, inputs: Json) -> None:
        """A driver begins. Its inputs and what it reads outside determine its turns and calls."""
        self._begin(session)
        body = session.secrets.scrub_all(inputs)
        self._add_with_head("drive", {"driver": driver, **body, "budget": session.budget.state, "at": self._at()})

    def _add_with_head(self, kind: str, body: Json) -> None:
        """Add an item; if the head is not written yet, the item waits for it."""
        if self._waiting:
            self._looks = 0
            self._waiting.append((kind, body))
        else:
            self._add(kind, body)

    def _begin(self, session: "Session") -> None:
        if self._next[0]:
            return
        self._waiting.append(("head", self._head(session)))
        self._cwd, self._permissions = session.environment.context.workspace.cwd, session.config.permissions
        self._tools = set(session.environment.tools)
        self._next = tape.next_position(self._store, self._run_id, self._session_id)

    def end_turn(self, outcome: str) -> None:
        """A turn ended."""
        self._add("end", {"outcome": outcome})

    def begin_operation(self, kind: str, body: Json) -> None:
        """A person asked for an operation other than a turn: a compaction, a rewind, a goal."""
        if self._next[0]:
            self._add(kind, body)

    # -------------------------------------------------------------- a driver

    def read_outside(self, session: "Session", of: str, query: Json, look: Callable[[], Json]) -> Json:
        """Read external state for a driver. The driver gets it without secrets, as it is recorded."""
        answer: Json = session.secrets.scrub_all(look())
        self._fact(of, query, answer)
        return answer

    async def await_outside(self, session: "Session", of: str, query: Json, asking: Awaitable[Json]) -> Json:
        try:
            answer: Json = session.secrets.scrub_all(await asking)
        except CancelledError:
            self._add("fact", {"of": of, "given": query, "cut": "interrupted"})
            raise
        self._fact(of, query, answer, {"budget": session.budget.state, "at": self._at()})
        return answer

    def _fact(self, of: str, query: Json, answer: Json, used: Json | None = None) -> None:
        def written(cursor: Cursor) -> Json:
            """Long texts are stored separately, once for all runs that read the same."""
            text = compact(answer)
            known = {"found": answer} if len(text) < LONG else {"kept": tape.store_text(cursor, text)}
            return {"of": of, "given": query, **known, **(used or {})}

        self._add("fact", written)

    def offer_tools(self, tools: Mapping[str, Tool[Any]]) -> Mapping[str, Tool[Any]]:
        """The tools that a driver offers the model from now on."""
        self._tools = set(tools)
        return tools

    # -------------------------------------------------------------- the model

    async def ask_model(self, session: "Session", asking: Awaitable[ChatResponse]) -> ChatResponse:
        """Return the model's reply, and record what its row does not contain."""
        if _INSIDE.get() is self:
            return await asking
        # steps are numbered through the whole run, and children may have taken some since the last item
        sent: Json = {"sent": session.budget.steps} if session.budget.children else {}
        try:
            response = await asking
        except ProviderError as error:
            error_json = {"kind": error.kind, "message": str(error), "provider": error.provider}
            self._edge("chat", session, {**sent, "error": {**error_json, "retry_after": error.retry_after}})
            raise
        except (LimitError, Stopped, CancelledError) as error:
            self._edge("chat", session, {**sent, **_cut(error), "message": str(error)})
            raise
        empty = not response.final_text.strip() and not response.tool_calls
        self._edge("chat", session, {**sent, "empty": _reply(response)} if empty else sent)
        return response

    # -------------------------------------------------------------- calls

    def record_judgement(self, session: "Session", prepared_call: "PreparedCall") -> "PreparedCall":
        """Record the facts that a call was judged by, and the verdict."""
        from adderclaw.policy import facts

        self._changed(session)
        body: Json = {
            "id": prepared_call.call.id,
            "tool": prepared_call.tool.name if prepared_call.tool else "",
            "as": prepared_call.call.name,
        }
        decision = prepared_call.decision
        if prepared_call.error is not None:
            if prepared_call.tool is None or prepared_call.call.arguments is None:
                return prepared_call
            if prepared_call.tool.decode is None and prepared_call.tool.name in NAMES:
                return prepared_call  # a replay's decoding gives the same error
            body |= {
                "unfit": prepared_call.argument_error,
                "parameters": prepared_call.tool.parameters if prepared_call.tool.deferred else {},
            }
        elif prepared_call.case is None:
            body |= {"refused": decision.reason, "by": decision.by}
        else:
            case = prepared_call.case
            named = {fact.identity for fact in (*case.touch.reads, *case.touch.writes)} & case.protected_ids
            body["facts"] = facts.touch_to_json(case.touch)
            more: Json = {
                "phase": case.phase if case.phase != "idle" else None,
                "plan_approved": case.plan_approved,
                "recent": case.recent,
                "protected": sorted(pair for pair in named if pair is not None),
                "estop": case.estop,
                "free_reads": case.free_reads,
                "at_terminal": case.at_terminal,
                "unmasked": case.unmasked,
                "overlaps": prepared_call.prepared is not None and prepared_call.prepared.overlaps,
                "fails": session.secrets.scrub(prepared_call.fails),
                "hook": list(case.hook_opinion) if case.hook_opinion is not None else None,
                "lent": [rule.text for rule in session.environment.active_policy.lent_rules],
            }
            body |= {name: value for name, value in more.items() if value}
        self._add("touch", {**body, "verdict": [decision.verdict, decision.by, decision.risk]})
        return prepared_call

    def record_tool_arrival(self, why_not: str) -> None:
        self._add("arrive", {"why_not": why_not})

    async def ask_operator(self, session: "Session", asking: Awaitable[Answer]) -> Answer:
        try:
            answer = await asking
        except CancelledError:
            self.record_interruption("answer", session)
            raise
        except (AnswerPending, Stopped) as error:
            self._edge("answer", session, {"open": "stop" if isinstance(error, Stopped) else "nobody"})
            raise
        self._edge("answer", session, {"said": session.secrets.scrub_all(answer._asdict())})
        return answer

    async def wait_for_call(self, session: "Session", running: Awaitable[Any]) -> None:
        try:
            await super().wait_for_call(session, running)
        except CancelledError:
            self.record_interruption("together", session)
            raise

    def record_tool_result(self, session: "Session", result: ToolResult) -> None:
        body: Json = {"outcome": result.outcome, "length": len(session.secrets.scrub(result.content))}
        flags: Json = {"denial": result.denial, "unanswered": result.unanswered, "ends": result.ends}
        flags["changed_later"] = result.metadata.get("changed_later")
        flags["answered"] = result.metadata.get("answered")
        flags["ran"] = result.metadata.get("ran", False)
        if isinstance(code := result.metadata.get("exit_code"), int):
            body["exit"] = code
        self._edge("run", session, body | {name: value for name, value in flags.items() if value})

    def record_interruption(self, kind: str, session: "Session") -> None:
        """Record that a tool or a question was interrupted."""
        self._edge(kind, session, {"cut": "interrupted"})

    @contextmanager
    def inside_tool(self) -> Generator[None]:
        """Everything inside belongs to a tool or a hook: its result is recorded, not its steps."""
        token = _INSIDE.set(self)
        try:
            yield
        finally:
            _INSIDE.reset(token)

    async def hooked(self, event: str, run: Callable[[], Awaitable[HookOutcome]], session: "Session") -> HookOutcome:
        """Run the hooks of an event and record their outcome."""
        if _INSIDE.get() is self or event in ASKED_BY_SERVERS:
            return await run()
        try:
            with self.inside_tool():
                merged = await run()
        except BaseException as error:
            self._edge("hook", session, {"event": event, "cut": _cut(error)})
            raise
        merged_json: Json = {
            key: value for key, value in merged.__dict__.items() if value not in (None, "", (), {}, 0, False)
        }
        if merged.stop is not None:
            merged_json["stop"] = merged.stop
        self._edge("hook", session, {"event": event, "said": session.secrets.scrub_all(merged_json)})
        return merged

    # -------------------------------------------------------------- outside of the turns

    def record_task_ends(self, ended: list[TaskEnd]) -> None:
        self._add("news", {"ended": [list(end) for end in ended]})

    def record_wait(self, how: str) -> None:
        """Record that the turn waited for a background task: `ended` or `timeout`."""
        self._add("waited", {"how": how})

    def record_instructions(self, files: "list[File]") -> None:
        self._add("nested", {"files": [list(file) for file in files]})

    def record_notice(self, text: str) -> str:
        if text:
            self._add_with_head("lost", {"told": text})
        return text

    def watching(self, stopped: Callable[[], bool]) -> Callable[[], bool]:
        """Wrap the check of the emergency stop, to record each change."""

        def look() -> bool:
            now = stopped()
            if _INSIDE.get() is not self:
                self._looks += 1
                if now != self._stopped:
                    self._stopped = now
                    self._add("stop", {"set": now, "looks": self._looks})
            return now

        return look

    # -------------------------------------------------------------- writing

    def _changed(self, session: "Session") -> None:
        """Record permissions that changed and tools that were added since the last call."""
        if session.config.permissions is not self._permissions:
            from adderclaw.core.json_text import to_json

            self._permissions = session.config.permissions
            self._add("permissions", {"now": to_json(session.config.permissions)})
        if len(session.environment.active_policy.lent_rules) > self._lent:
            self._add(
                "lent", {"rules": [rule.text for rule in session.environment.active_policy.lent_rules[self._lent :]]}
            )
            self._lent = len(session.environment.active_policy.lent_rules)
        if len(session.environment.tools) != len(self._tools):
            new = [tool for name, tool in session.environment.tools.items() if name not in self._tools]
            self._tools = set(session.environment.tools)
            self._add("tools", {"new": [described(tool) for tool in new]})

    def _edge(self, kind: str, session: "Session", body: Json) -> None:
        """Record an item that may have taken time, cost something or changed the shell's directory."""
        cwd = session.environment.context.workspace.cwd
        if cwd != self._cwd:
            body["cwd"] = self._cwd = cwd
        if new := self._new_files(session.environment.context.files_read):
            body["files"] = new
        self._add(kind, {**body, "budget": session.budget.state, "at": self._at()})

    def _new_files(self, files: dict[str, str]) -> list[str]:
        """Files that the model has seen since the last call of this."""
        known = self._files if len(files) >= self._files else 0
        self._files = len(files)
        return list(islice(files, known, None))

    def _at(self) -> float:
        return round(self._clock.monotonic() - self._began, 4)

    def _add(self, kind: str, body: Json | Callable[[Cursor], Json]) -> None:
        self._looks = 0
        if not self._next[0]:
            return  # there is nothing to replay before the first turn
        if self._batch is None:
            batch = self._batch = _Batch()
            self._store.write_next(lambda cursor: self._write(cursor, batch))
        waiting, self._waiting = self._waiting, []
        self._batch.items += [*waiting, (kind, body)]

    def _write(self, cursor: Cursor, batch: _Batch) -> None:
        """Write a batch; called again with the same batch if its transaction was rolled back."""
        if self._batch is batch:
            self._batch = None
        items = [(kind, body(cursor) if callable(body) else body) for kind, body in batch.items]
        if batch.row is None:
            seq, previous = self._next
            text = tape.encode(items)
            seal = tape.row_seal(previous, text)
            batch.row, self._next = (seq, text, seal), (seq + 1, seal)
        tape.append(cursor, self._run_id, self._session_id, *batch.row)


def recorded_hooks(table: "Mapping[str, Chain]") -> "dict[str, Chain]":
    """Wrap a session's hooks, so that their outcomes are recorded on the tape of the session that fires them."""
    return {event: _recorded(event, chain) for event, chain in table.items()}


def _recorded(event: str, chain: "Chain") -> "Chain":
    async def fire(session: "Session", fields: Json, rows: "Rows | None") -> HookOutcome:
        def run() -> Awaitable[HookOutcome]:
            return chain(session, fields, rows)

        return await (session.tape.hooked(event, run, session) if isinstance(session.tape, Recorder) else run())

    return fire


def described(tool: Tool[Any]) -> Json:
    """What judging a call of a tool that is not built in needs to know about the tool."""
    return {"name": tool.name, "deferred": tool.deferred, "usable": tool.usable, "own": tool.decode is not None}


def _reply(response: ChatResponse) -> Json:
    return {
        "text": response.final_text,
        "usage": response.usage.as_json(),
        "stop_reason": response.stop_reason,
        "model": response.model,
        "provider": response.provider,
    }


def _cut(error: BaseException) -> Json:
    if isinstance(error, LimitError):
        return {"cut": "limit", "by": error.by}
    return {"cut": "stop" if isinstance(error, Stopped) else "interrupted"}


FORMAT = 1
"""The format of a tape; this version cannot replay any other."""
UNRECORDED = frozenset({"tool", "mcp"})
"""Kinds of runs that call tools without turns."""
GROWING = (
    "events",
    "transcript_entries",
    "opaque_blocks",
    "model_calls",
    "tool_permission_log",
    "hook_invocations",
)


class Recording:
    """The recording of a run: the tapes of its sessions, and the imprint of its rows when it ends."""

    def __init__(self, store: Store, bus: Bus, clock: Clock, stopped: Callable[[], bool], home: str) -> None:
        self._store, self._bus, self._clock = store, bus, clock
        self._stopped, self.home = stopped, home
        self.marks = _marks(store)
        """The last row of each growing table when the run began."""
        self._imprinted: dict[str, int] | None = None

    def attach(self, session: Session, channel: str) -> None:
        """Record what reaches this session from now on."""

        def head(of: Session) -> Callable[[Cursor], Json]:
            return _head(self, of, recorder.ids, channel)

        recorder = Recorder(session.store, self._bus.run_id, session.session_id, self._clock, head)
        session.tape, session.ids = recorder, recorder.ids
        session.environment.stopped = recorder.watching(self._stopped)

    def now(self) -> float:
        return self._clock.now()

    def imprint(self, cursor: Cursor) -> None:
        """Store a digest of the run's rows at its end, so that later changes are detected."""
        from adderclaw.storage.ledger import imprints

        run_id = self._bus.run_id
        imprints.store_imprint(cursor, run_id, tape.first_head(self._store, run_id).get("marks") or self.marks)
        self._imprinted = _marks(self._store)

    def imprint_late(self) -> None:
        """Store the digest again if rows were added since, such as by SessionEnd hooks."""
        if self._imprinted is None:
            return
        with suppress(StoreError), self._store.write() as cursor:  # a failure here must not change the run's outcome
            if _marks(self._store) != self._imprinted:
                self.imprint(cursor)


def _head(run: Recording, session: Session, ids: SeededIds, channel: str) -> Callable[[Cursor], Json]:
    """Capture the session's state now; it is written with the first reply, so that the first request does not wait."""
    environment, prompt, config = session.environment, session.prompt, session.config
    policy, workspace = environment.policy, environment.context.workspace
    body: Json = {
        "format": FORMAT,
        "version": __version__,
        "seed": ids.seed,
        "time": run.now(),
        "policy": [policy.autonomy, policy.autonomy_set, policy.mode],
        "tools": list(environment.tools),
        "late": [name for name, tool in environment.tools.items() if tool.deferred],
        "external": [described(tool) for name, tool in environment.tools.items() if name not in NAMES],
        "hooks": list(session.hooks),
        "announce": len(session.instructions.unannounced) if session.instructions is not None else None,
        "place": [workspace.root, list(workspace.extra), workspace.cwd],
        "free_reads": environment.context.free_reads,
        "confinement": environment.confinement,
        "at_terminal": environment.at_terminal,
        "stopped": environment.stopped(),
        "arrives": environment.wait_for_tool is not None,
        "channel": channel,
        "asks": isinstance(session.operator, PersistentApprovals),
        "receipts": session.ledger is not None,
        "agent": [session.agent_id, session.agent_type, session.depth],
        "began": session.start_source,
        "setup": session.setup_trigger,
        "due": list(session.state.due_texts),
        "cached": session.state.cached_tokens,
        "rounds": session.state.rounds,
        "plugins": [
            [plugin.name, plugin.plugin.version, plugin.plugin.sha256, plugin.root]
            for plugin in environment.kit.plugins
        ],
        "marks": run.marks,
        "home": run.home,
        "user_home": os.path.expanduser("~"),
        "history": session.state.history.digest(b""),
        "from": runs.table_positions(session.store.read, session.session_id),
    }
    if session.budget.cost_set_in:
        body["cost_set_in"] = session.budget.cost_set_in
    if session.supervisor is not NO_SUPERVISOR:
        body |= {"moves": True, "stays": session.state.stays}

    def write(cursor: Cursor) -> Json:
        from adderclaw.core.json_text import to_json
        from adderclaw.storage.text import compact

        specs = [[tool.name, tool.description, tool.parameters] for tool in prompt.tools]
        texts: Json = {
            "config": session.secrets.scrub_all(to_json(config)),
            "judged_by": environment.policy_inputs,
            "prompt": [prompt.system, specs, prompt.tool_choice, prompt.response_schema],
        }
        stored = {name: tape.store_text(cursor, compact(value)) for name, value in texts.items()}
        return {**body, **stored, "settings": settings.digest_of(cursor, f"effective:{session.session_id}")}

    return write


def _marks(store: Store) -> dict[str, int]:
    """The last row of each table that only grows."""
    return tape.last_rows(store, GROWING)
