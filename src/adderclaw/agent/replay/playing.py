"""Replays the recorded turns of a session through the same loop, call and gate, in a store of their own."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from adderclaw import tools
from adderclaw.agent.loop import compaction, goals, resume
from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.replay import edges
from adderclaw.agent.replay.checking import Checking
from adderclaw.agent.replay.edges import Diverged, RanOut, Recorded, Reel
from adderclaw.agent.replay.recorder import SeededIds
from adderclaw.agent.replay.recording import FORMAT
from adderclaw.agent.session import prompt
from adderclaw.agent.session.limits import Budget, LoopDetector
from adderclaw.agent.session.policy_inputs import policy_of
from adderclaw.agent.session.session import ActivePolicy, Attached, Session, State, ToolEnvironment, TurnResult
from adderclaw.agent.tool_call.approvals import PersistentApprovals
from adderclaw.config.model_facts.catalogue import Prices
from adderclaw.config.schema.settings import Config
from adderclaw.core import home_names
from adderclaw.core.decode import thaw
from adderclaw.core.errors import AdderClawError, AnswerPending, UsageError
from adderclaw.core.events import EventRecord
from adderclaw.core.overseer import NO_SUPERVISOR, RunSupervisor
from adderclaw.core.record import record
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json, ToolContext, ToolSpec, Workspace
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
"""What a row makes of itself that is no longer as it was written: all that is replayed is untrusted."""


@record
class Difference:
    """One point in which the recording and its replay, or two parts of the recording, do not agree."""

    where: str
    recorded: object
    replayed: object
    note: str = ""

    def as_json(self) -> Json:
        return dict(self.__dict__)


class Segment(NamedTuple):
    """A session as one process ran it: from one beginning of its tape to the next."""

    head: Json
    items: list[Item]
    until: Json | None
    """Where the next one begins, table by table; None for the last."""


class Played(NamedTuple):
    """What came of the replay of one segment."""

    segment: Segment
    store: Store
    events: list[EventRecord]
    results: list[TurnResult]
    differences: list[Difference]
    ended: str
    """Empty when all was replayed; else where and why it ended before."""
    killed: bool
    """The recording itself ends before the turn does."""


# ------------------------------------------------------------------ reading


def segments(store: Store, run_id: str, session_id: str) -> list[Segment]:
    """Raises Damaged."""
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
    """Where the next run of the same session began: its tape says so, and its row even if it never got an answer."""
    if (began := runs.next_run_positions(store, run_id, session_id)) is not None:
        return began
    next_run = recordings.next_taped_run(store, run_id, session_id)
    return tape.read(store, next_run, session_id)[0][1]["from"] if next_run else None


def config_of(store: Store, head: Json) -> Config:
    return thaw(Config, _kept(store, head["config"]))


def policy_then(store: Store, head: Json, config: Config) -> Policy:
    """The policy that the segment began with."""
    policy = policy_of(config, judged_by(store, head))
    autonomy, autonomy_set, mode = head["policy"]
    return replace(policy, autonomy=autonomy, autonomy_set=autonomy_set, mode=mode)


def judged_by(store: Store, head: Json) -> Json:
    """What the policy was made of beside the configuration."""
    return _kept(store, head["judged_by"])


def _kept(store: Store, known: str) -> Any:
    try:
        return json.loads(tape.text_of(store, known))
    except ValueError as error:
        raise DamagedTape(f"tape_texts row {known[:12]}… is no JSON: {error}") from error


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
    """Replay one segment in a store of its own below `folder`; nothing is executed, and nothing else is written."""
    asked, entries = rows_of(store, session_id, segment)
    recorded = Recorded(asked, entries, transcript.opaque_blocks(store, session_id))
    reel = Reel(segment.items, recorded, lambda known: _kept(store, known))
    own = Store.open(os.path.join(folder, home_names.DATABASE))
    differences: list[Difference] = []

    def differ(where: str, recorded: object, replayed: object, note: str) -> None:
        differences.append(Difference(where, recorded, replayed, note))

    events: list[EventRecord] = []
    session = _session(store, own, reel, segment.head, (run_id, conversation_id, session_id), folder)
    session.bus.add_sink("replay", events.append)
    session.bus.stop_buffering()
    session.tape = Checking(own, reel, edges.Moments(reel, 0.0), differ)
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
        ended = f"the replay cannot go on: {error}"
    except MALFORMED as error:
        ended = f"the replay cannot go on: a row is not as it was written ({type(error).__name__}: {error})"
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
        if kind == "hook":  # SessionEnd, after everything
            reel.take("hook")
            continue
        if kind not in ("turn", "compact", "rewind", "drive", "goal"):
            raise Diverged(f"the turn is over, and the recording goes on with {edges.WORDS.get(kind, kind)}")
        body = reel.take(kind)
        if fresh and head["from"]["entries"]:
            unheard = kind == "turn" and body["message"] is None
            resume.restore_session(session, go_on=unheard or body.get("driver") == "sop")
            session.environment.context.workspace.cwd = head["place"][2]
        if fresh and (digest := session.state.history.digest(b"")) != head["history"]:
            where = f"history that the run began with (entries before {head['from']['entries']})"
            differences.append(Difference(where, head["history"], digest))
        fresh = False
        if kind == "compact":
            if "model" in body:
                session.model, session.provider = body["model"], edges.Script(reel, body["provider"])
            await compaction.compact(session, "manual", body["instructions"])
        elif kind == "rewind":
            resume.rewind_to(session, body["to"])
        elif kind == "goal":
            goals.set_goal(session, body["words"])
        elif kind == "drive":
            results.append(await _driven(session, body, flows))
        else:
            await _turn(session, reel, body, results, differences)


async def _driven(session: Session, body: Json, flows: ReplayedFlows) -> TurnResult:
    """Let the driver decide again, from what the model said and what it looked up."""
    if body["driver"] not in flows:
        raise Diverged(f"this version has no driver {body['driver']!r}")
    assert isinstance(session.tape, Checking)
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
    session.model, session.provider = body["model"], edges.Script(reel, body["provider"])
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
    """What had been said before the segment began."""
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
    clock, secrets, made_ids = edges.Moments(reel, head["time"]), Secrets(), SeededIds(head["seed"])
    bus = edges.Told(clock, made_ids, secrets.clean)
    bus.reel = reel
    bus.run_id, bus.conversation_id, bus.session_id = run_id, conversation_id, session_id
    system, specs, tool_choice, schema = _kept(store, head["prompt"])
    reel.stopped = head["stopped"]
    environment = _scene(policy_then(store, head, config), own, reel, head, config, (conversation_id, session_id))
    operator: Any = edges.Answers(reel)
    if head["asks"] and not head["agent"][2]:  # what a child asks is told by the session that a person began
        operator = PersistentApprovals(
            operator,
            own,
            session_id,
            clock=clock,
            ids=made_ids,
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
        ledger=_ledger(own, clock, made_ids, folder) if head["receipts"] else None,
        bus=bus,
        provider=edges.Script(reel, ""),
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
        ids=made_ids,
        secrets=secrets,
        home=folder,
        hooks=edges.chains(reel, head["hooks"]),
        instructions=edges.Files(reel, head["announce"]) if head["announce"] is not None else None,
        agent_id=agent_id,
        agent_type=agent_type,
        depth=depth,
        start_source=head["began"],
        setup_trigger=head["setup"],
        supervisor=RunSupervisor() if head.get("moves") else NO_SUPERVISOR,
    )
    reel.session = session
    return session


def _ledger(own: Store, clock: edges.Moments, ids: SeededIds, folder: str) -> Ledger:
    return Ledger.open(os.path.join(folder, "receipts.log"), own, os.path.join(folder, "key"), clock=clock, ids=ids)


def _scene(policy: Policy, own: Store, reel: Reel, head: Json, config: Config, ids: tuple[str, str]) -> ToolEnvironment:
    root, extra, cwd = head["place"]
    kit = tools.Kit(config, own, edges.Moments(reel, 0.0))
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
        pace=edges.Paced(reel),
        wait_for_tool=edges.arriving(reel) if head["arrives"] else None,
        background=edges.Ends(reel),
    )
