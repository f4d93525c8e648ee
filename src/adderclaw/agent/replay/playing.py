"""Replays the recorded turns of a session through the same loop, tool call and policy, in a separate store."""

import asyncio
import json
import os
import re
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from adderclaw import tools
from adderclaw.agent.loop import compaction, goals, resume
from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.replay import edges
from adderclaw.agent.replay.edges import Diverged, RanOut, Recorded, RecordedClock, Reel
from adderclaw.agent.replay.recorder import FORMAT, Recorder, SeededIds
from adderclaw.agent.session import prompt
from adderclaw.agent.session.limits import Budget, LoopDetector
from adderclaw.agent.session.session import (
    ActivePolicy,
    Attached,
    Session,
    State,
    ToolEnvironment,
    TurnResult,
    policy_of,
)
from adderclaw.agent.tool_call.approvals import PersistentApprovals
from adderclaw.agent.tool_call.permission_check import PreparedCall, unfit_call
from adderclaw.config.model_facts.catalogue import Prices
from adderclaw.config.schema import Config
from adderclaw.core import home_names
from adderclaw.core.decode import thaw
from adderclaw.core.errors import AdderClawError, AnswerPending, UsageError
from adderclaw.core.events import EventRecord
from adderclaw.core.host import ToolContext
from adderclaw.core.overseer import NO_SUPERVISOR, RunSupervisor
from adderclaw.core.record import record
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json, Tool, ToolSpec, Workspace
from adderclaw.policy.case import Policy
from adderclaw.storage import Store, model_calls, runs, tape, transcript
from adderclaw.storage.ledger.ledger import Ledger
from adderclaw.storage.model_calls import Call
from adderclaw.storage.queries import recordings
from adderclaw.storage.tape import DamagedTape, Item
from adderclaw.storage.transcript import Entry

type ReplayedFlows = Mapping[str, Callable[[Session, Json], Awaitable[TurnResult]]]
"""Runs a flow again from its recorded beginning, by the name of its driver. The flows provide it."""

MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""What reading a changed row may raise; everything that is replayed is untrusted."""


@record
class Difference:
    """One difference between the recording and its replay, or between two parts of the recording."""

    where: str
    recorded: object
    replayed: object
    note: str = ""


class Segment(NamedTuple):
    """The part of a session that one process ran: from one head of its tape to the next."""

    head: Json
    items: list[Item]
    until: Json | None
    """Table → where the next segment begins; None for the last segment."""


class Played(NamedTuple):
    """The result of replaying one segment."""

    segment: Segment
    store: Store
    events: list[EventRecord]
    results: list[TurnResult]
    differences: list[Difference]
    ended: str
    """Where and why the replay ended early; empty if everything was replayed."""
    killed: bool
    """Whether the recording itself ends before the turn does."""


# ------------------------------------------------------------------ reading


def segments(store: Store, run_id: str, session_id: str) -> list[Segment]:
    """The segments of a session's tape; raises DamagedTape."""
    items = tape.read(store, run_id, session_id)
    starts = [index for index, (kind, _) in enumerate(items) if kind == "head"]
    if not starts or starts[0]:
        raise DamagedTape(f"the tape of session {session_id} does not begin with its head")
    for start in starts:
        if (tape_format := items[start][1].get("format")) != FORMAT:
            version = items[start][1].get("version")
            raise UsageError(
                f"the tape of session {session_id} has format {tape_format} (adderclaw {version}), not {FORMAT}"
            )
    ends = [*starts[1:], len(items)]
    later = [*(items[start][1]["from"] for start in starts[1:]), _next_run(store, run_id, session_id)]
    return [
        Segment(items[start][1], items[start + 1 : end], until)
        for start, end, until in zip(starts, ends, later, strict=True)
    ]


def _next_run(store: Store, run_id: str, session_id: str) -> Json | None:
    """Where the next run of the same session began, from its row or its tape; None if there is none."""
    if (began := runs.next_run_positions(store, run_id, session_id)) is not None:
        return began
    next_run = recordings.next_taped_run(store, run_id, session_id)
    return tape.read(store, next_run, session_id)[0][1]["from"] if next_run else None


def config_of(store: Store, head: Json) -> Config:
    return thaw(Config, _stored_json(store, head["config"]))


def initial_policy(store: Store, head: Json, config: Config) -> Policy:
    """The policy that the segment began with."""
    policy = policy_of(config, policy_inputs(store, head))
    autonomy, autonomy_set, mode = head["policy"]
    return replace(policy, autonomy=autonomy, autonomy_set=autonomy_set, mode=mode)


def policy_inputs(store: Store, head: Json) -> Json:
    """The inputs of the policy other than the configuration."""
    return _stored_json(store, head["judged_by"])


def _stored_json(store: Store, digest: str) -> Any:
    try:
        return json.loads(tape.text_of(store, digest))
    except ValueError as error:
        raise DamagedTape(f"tape_texts row {digest[:12]}… is not JSON: {error}") from error


def rows_of(store: Store, session_id: str, segment: Segment) -> tuple[list[Call], list[Entry]]:
    """The model calls and entries of a segment."""
    first, until = segment.head["from"], segment.until
    asked = [
        call
        for call in model_calls.of_session(store, session_id)
        if call.id > first["calls"] and (until is None or call.id <= until["calls"])
    ]
    all_entries = transcript.entries(store, session_id)
    entries = [
        entry
        for entry in all_entries
        if entry.sequence >= first["entries"] and (until is None or entry.sequence < until["entries"])
    ]
    return asked, entries


# ------------------------------------------------------------------ replaying


def play(
    store: Store,
    run_id: str,
    conversation_id: str,
    session_id: str,
    segment: Segment,
    folder: str,
    flows: ReplayedFlows,
) -> Played:
    """Replay one segment in a separate store below `folder`. Nothing is executed, and nothing else is written."""
    asked, entries = rows_of(store, session_id, segment)
    recorded = Recorded(asked, entries, transcript.opaque_blocks(store, session_id))
    reel = Reel(segment.items, recorded, lambda digest: _stored_json(store, digest))
    own = Store.open(os.path.join(folder, home_names.DATABASE))
    differences: list[Difference] = []

    def differ(where: str, recorded: object, replayed: object, note: str) -> None:
        differences.append(Difference(where, recorded, replayed, note))

    events: list[EventRecord] = []
    session = _session(store, own, reel, segment.head, (run_id, conversation_id, session_id), folder)
    session.bus.add_sink("replay", events.append)
    session.bus.stop_buffering()
    session.tape = ReplayTape(own, reel, edges.RecordedClock(reel, 0.0), differ)
    _preload(store, own, session, segment.head["from"]["entries"])
    results: list[TurnResult] = []
    ended, killed = "", False
    try:
        asyncio.run(_turns(session, reel, segment.head, results, differences, flows))
    except Diverged as error:
        ended = str(error)
    except RanOut as error:
        ended, killed = str(error), True
    except AdderClawError as error:
        ended = f"the replay cannot continue: {error}"
    except MALFORMED as error:
        ended = f"the replay cannot continue: a row was changed ({type(error).__name__}: {error})"
    finally:
        if session.ledger is not None:
            session.ledger.close()
    own.flush()
    return Played(segment, own, events, results, differences, ended, killed)


async def _turns(
    session: Session,
    reel: Reel,
    head: Json,
    results: list[TurnResult],
    differences: list[Difference],
    flows: ReplayedFlows,
) -> None:
    fresh = True
    while kind := reel.left:
        if kind == "hook":  # SessionEnd hooks after the last turn
            reel.take("hook")
            continue
        if kind not in ("turn", "compact", "rewind", "drive", "goal"):
            raise Diverged(f"the turn has ended, but the recording continues with {edges.WORDS.get(kind, kind)}")
        body = reel.take(kind)
        if fresh and head["from"]["entries"]:
            without_message = kind == "turn" and body["message"] is None
            resume.restore_session(session, go_on=without_message or body.get("driver") == "sop")
            session.environment.context.workspace.cwd = head["place"][2]
        if fresh and (digest := session.state.history.digest(b"")) != head["history"]:
            where = f"history that the run began with (entries before {head['from']['entries']})"
            differences.append(Difference(where, head["history"], digest))
        fresh = False
        if kind == "compact":
            if "model" in body:
                session.model, session.provider = body["model"], edges.RecordedProvider(reel, body["provider"])
            await compaction.compact(session, "manual", body["instructions"])
        elif kind == "rewind":
            resume.rewind_to(session, body["to"])
        elif kind == "goal":
            goals.set_goal(session, body["words"])
        elif kind == "drive":
            results.append(await _replay_driver(session, body, flows))
        else:
            await _turn(session, reel, body, results, differences)


async def _replay_driver(session: Session, body: Json, flows: ReplayedFlows) -> TurnResult:
    """Run the driver again with the recorded replies and external state."""
    if body["driver"] not in flows:
        raise Diverged(f"this version has no driver {body['driver']!r}")
    assert isinstance(session.tape, ReplayTape)
    session.tape.driven = True
    try:
        return await flows[body["driver"]](session, body)
    except asyncio.CancelledError:
        return TurnResult("stopped", "", "interrupted")
    finally:
        session.tape.driven = False


async def _turn(
    session: Session, reel: Reel, body: Json, results: list[TurnResult], differences: list[Difference]
) -> None:
    session.model, session.provider = body["model"], edges.RecordedProvider(reel, body["provider"])
    try:
        recorded_attachments: Json = body.get("attached", {})
        attached = Attached(
            tuple(recorded_attachments.get("texts", ())), resume.media_blocks(recorded_attachments.get("media", []))
        )
        result = await run_turn(session, body["message"], single=body.get("single", False), attached=attached)
    except asyncio.CancelledError:
        result = TurnResult("stopped", "", "interrupted")
        outcome = ""
    except AnswerPending as error:
        result = TurnResult("needs_input", "", str(error))
        outcome = ""
    else:
        outcome = result.outcome
    results.append(result)
    recorded = reel.take("end")["outcome"]
    if recorded != outcome:
        where = f"outcome of turn {len(results)}"
        differences.append(Difference(where, recorded or "interrupted", outcome or "interrupted", result.reason))


def _preload(store: Store, own: Store, session: Session, before: int) -> None:
    """Copy the entries from before the segment into the replay's store."""
    with own.write() as cursor:
        transcript.begin(
            cursor, conversation_id=session.conversation_id, session_id=session.session_id, project_dir="replay"
        )
        opaque = transcript.opaque_blocks(store, session.session_id)
        for entry in transcript.entries(store, session.session_id):
            if entry.sequence >= before:
                break
            payload = {key: value for key, value in entry.payload.items() if key != "_t"}
            transcript.append(cursor, session.session_id, entry.entry_type, payload, entry.tool_use_id)
            if blocks := opaque.get(entry.sequence):
                transcript.store_opaque(cursor, session.session_id, entry.sequence, blocks)


def _session(store: Store, own: Store, reel: Reel, head: Json, ids: tuple[str, str, str], folder: str) -> Session:
    run_id, conversation_id, session_id = ids
    config = config_of(store, head)
    clock, secrets, seeded_ids = edges.RecordedClock(reel, head["time"]), Secrets(), SeededIds(head["seed"])
    bus = edges.ReplayBus(clock, seeded_ids, secrets.clean)
    bus.reel = reel
    bus.run_id, bus.conversation_id, bus.session_id = run_id, conversation_id, session_id
    system, specs, tool_choice, schema = _stored_json(store, head["prompt"])
    reel.stopped = head["stopped"]
    policy = initial_policy(store, head, config)
    environment = _tool_environment(policy, own, reel, head, config, (conversation_id, session_id))
    operator: Any = edges.RecordedOperator(reel)
    if head["asks"] and not head["agent"][2]:  # a child's questions are asked by its top session
        operator = PersistentApprovals(
            operator,
            own,
            session_id,
            clock=clock,
            ids=seeded_ids,
            scrub=secrets.scrub,
            stopped=lambda: False,
            seconds=config.security.approval_timeout_seconds or None,
            key=lambda: b"",
            tell=bus.publish,
        )
    agent_id, agent_type, depth = head["agent"]
    session = Session(
        config=config,
        environment=environment,
        store=own,
        ledger=Ledger.open(f"{folder}/receipts.log", own, f"{folder}/key", clock=clock, ids=seeded_ids)
        if head["receipts"]
        else None,
        bus=bus,
        provider=edges.RecordedProvider(reel, ""),
        model="",
        prompt=prompt.make_prompt(
            system,
            tuple(ToolSpec(*spec) for spec in specs),
            tool_choice=tool_choice,
            response_schema=schema,
        ),
        operator=operator,
        budget=Budget(config.limits, clock, Prices(config), cost_set_in=head.get("cost_set_in", "")),
        state=State(
            LoopDetector(config.runtime.loop_warn_at, config.runtime.loop_stop_at),
            due_texts=list(head["due"]),
            cached_tokens=head["cached"],
            rounds=head.get("rounds", 0),
            stays=head.get("stays", False),
        ),
        clock=clock,
        ids=seeded_ids,
        secrets=secrets,
        home=folder,
        hooks=edges.chains(reel, head["hooks"]),
        instructions=edges.RecordedInstructions(reel, head["announce"]) if head["announce"] is not None else None,
        agent_id=agent_id,
        agent_type=agent_type,
        depth=depth,
        start_source=head["began"],
        setup_trigger=head["setup"],
        supervisor=RunSupervisor() if head.get("moves") else NO_SUPERVISOR,
    )
    reel.session = session
    return session


def _tool_environment(
    policy: Policy, own: Store, reel: Reel, head: Json, config: Config, ids: tuple[str, str]
) -> ToolEnvironment:
    root, extra, cwd = head["place"]
    kit = tools.Kit(config, own, edges.RecordedClock(reel, 0.0))
    everything = tools.builtin_tools(kit)
    outside = {known["name"]: known for known in head["external"]}
    for name in head["tools"]:
        if name in outside:
            reel.own_tools[name] = edges.external(reel, outside[name])
        elif name in everything:
            tool = everything[name]
            late = name in head["late"] if "late" in head else tool.deferred
            reel.own_tools[name] = edges.replayed(reel, replace(tool, deferred=late))
    return ToolEnvironment(
        tools=reel.own_tools,
        kit=kit,
        active_policy=ActivePolicy(policy),
        context=ToolContext(*ids, Workspace(root, tuple(extra), cwd), free_reads=head["free_reads"]),
        stopped=reel.looked,
        planning=lambda: edges.planning(reel),
        protected_ids=lambda: edges.protected(reel),
        confinement=head["confinement"],
        at_terminal=bool(head.get("at_terminal")),
        unmasked=lambda _touch: bool(reel.case.get("unmasked")),
        pace=edges.RecordedPace(reel),
        wait_for_tool=edges.arriving(reel) if head["arrives"] else None,
        background=edges.RecordedTasks(reel),
    )


# ------------------------------------------------------------------ the tape of a replayed session

type Differ = Callable[[str, object, object, str], None]
"""Reports a difference: where, what was recorded, what was replayed, and a note."""

HINT = re.compile(r"; did you mean \w+\?")
"""The suggestion for an unknown tool's name. Another version may suggest another name, which is not a difference."""


class LazyCall[T]:
    """Starts a coroutine only when it is awaited."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, Any, T]:
        return self._run().__await__()


class ReplayTape(Recorder):
    """Takes the recorder's place in a replay: records nothing, and compares what happens with the recording."""

    def __init__(self, store: Store, reel: Reel, clock: RecordedClock, differ: Differ) -> None:
        super().__init__(store, "", "", clock, lambda _session: lambda _cursor: {})
        self._reel, self._differ = reel, differ
        self._turns = 0
        self.driven = False
        """Whether a driver is being replayed, which begins its own turns."""

    def begin_turn(self, session: Session, message: str | None, *, single: bool, attached: Attached) -> None:  # noqa: ARG002 - no driver attaches anything
        """Take a driver's turn from the tape; `_turns` has taken any other turn already."""
        if not self.driven:
            return
        body = self._reel.take("turn")
        self._turns += 1
        session.model, session.provider = body["model"], edges.RecordedProvider(self._reel, body["provider"])
        before, now = (body["message"], body.get("single", False)), (message, single)
        if before != now:
            self._differ(f"prompt of turn {self._turns}", before[0], now[0], "")

    def end_turn(self, outcome: str) -> None:
        if not self.driven or self._reel.over:
            return
        before = self._reel.take("end")["outcome"]
        if before != outcome:
            where = f"outcome of turn {self._turns}"
            self._differ(where, before or "interrupted", outcome or "interrupted", "")

    def begin_driver(self, session: Session, driver: str, inputs: Json) -> None:
        """`_turns` has taken the driver from the tape already."""

    def read_outside(self, session: Session, of: str, query: Json, look: Callable[[], Json]) -> Json:  # noqa: ARG002
        return self._reel.fact(of, query)

    async def await_outside(self, session: Session, of: str, query: Json, asking: Awaitable[Json]) -> Json:  # noqa: ARG002
        if (close := getattr(asking, "close", None)) is not None:
            close()  # the coroutine is not awaited
        return self._reel.fact(of, query)

    def record_notice(self, text: str) -> str:  # noqa: ARG002 - the recorded text is used
        return str(self._reel.take("lost")["told"]) if self._reel.comes("lost") else ""

    def offer_tools(self, tools: Mapping[str, Tool[Any]]) -> Mapping[str, Tool[Any]]:
        """The driver's own tools are judged with their recorded facts."""
        own = self._reel.own_tools
        return {name: tool if own.get(name) is tool else edges.driven(self._reel, tool) for name, tool in tools.items()}

    def start_call[T](self, run: Callable[[], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        """Parallel calls were recorded in their order and are replayed in it, one after another."""
        return LazyCall(run)

    async def wait_for_call(self, session: Session, running: Awaitable[Any]) -> None:  # noqa: ARG002
        """Interrupt the wait if the recording says so; otherwise the call's result comes next."""
        if self._reel.comes("together"):
            self._reel.take("together")
            raise CancelledError

    def record_judgement(self, session: Session, prepared_call: PreparedCall) -> PreparedCall:  # noqa: ARG002
        if prepared_call.case is not None:
            now = [prepared_call.decision.verdict, prepared_call.decision.by, prepared_call.decision.risk]
            before = self._reel.case.get("verdict")
            if now != before:
                where = f"verdict on call {prepared_call.call.id} ({prepared_call.call.name})"
                self._differ(where, before, now, prepared_call.decision.reason)
        if prepared_call.tool is None and prepared_call.error is not None:
            recorded = self._reel.answered(prepared_call.call.id)
            if HINT.sub("", recorded) == HINT.sub("", prepared_call.error):
                return unfit_call(prepared_call.call, None, recorded)
        return prepared_call
