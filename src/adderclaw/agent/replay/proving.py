"""Verifies a recorded run: replays its sessions, and compares rows, receipts and events with the recording."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, cast

from adderclaw.agent.replay import playing
from adderclaw.agent.replay.edges import LOOP_PURPOSES
from adderclaw.agent.replay.playing import MALFORMED, Difference, Played, ReplayedFlows
from adderclaw.agent.replay.trace_file import Trace
from adderclaw.config.paths import followed
from adderclaw.core.errors import ConfigError, StoreError, UsageError
from adderclaw.core.json_text import to_json
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.storage import Store, model_calls, runs, subagents, tape, transcript, workflows
from adderclaw.storage.ledger import verify
from adderclaw.storage.ledger.imprints import path_before_move
from adderclaw.storage.queries import recordings
from adderclaw.storage.runs import Run
from adderclaw.storage.tape import DamagedTape
from adderclaw.storage.workflows import GoalResult, WorkflowStart

ENTRIES = frozenset({"user", "assistant", "system", "tool_use", "tool_result", "attachment"})
SOON = 0.01
"""Seconds by which the time of an event may be rounded; no process resumes another's run that fast."""
NOTHING: tuple[str, Json] = ("nothing", {})
MOST = 200
"""Characters of a value that a difference shows."""

type Named = tuple[str, Json]
"""A row's name in a difference, and the row."""


@record
class Proof:
    """The result of a verification."""

    run_id: str
    differences: tuple[Difference, ...]
    sessions: int
    steps: int
    calls: int
    notes: tuple[str, ...]

    @property
    def verified(self) -> bool:
        return not self.differences

    def as_json(self) -> Json:
        return {
            "run_id": self.run_id,
            "verified": self.verified,
            "sessions": self.sessions,
            "model_calls": self.steps,
            "tool_calls": self.calls,
            "differences": to_json(self.differences),
            "notes": list(self.notes),
        }


def prove(
    store: Store,
    run: Run,
    log_path: str,
    key_path: str,
    lines: list[Json] | None,
    trace: Trace | None,
    flows: ReplayedFlows,
) -> Proof:
    """Replay a run and compare. `lines`: the events of its events.jsonl, if the file exists; `trace`: whether that file
    was changed. `flows` runs the recorded flows again."""
    recorded = _recorded(store, run)
    differences: list[Difference] = []
    notes: list[str] = []
    steps = used = 0
    for session_id in recorded:
        checked = _Session(store, run, session_id, flows)
        checked.check(lines)
        differences += checked.found
        notes += checked.notes
        steps, used = steps + checked.steps, used + checked.calls
    differences += _chain(store, recorded, log_path, key_path)
    differences += _imprint(store, run)
    if trace is not None:
        differences += [
            Difference("events.jsonl", "as the run wrote it", "changed", difference) for difference in trace.differences
        ]
        notes += [f"events.jsonl: {note}" for note in trace.notes if lines is not None]
    if lines is None:
        notes.append("the run's events.jsonl does not exist; the events were compared with the table only")
    if run.outcome is None:
        notes.append("the run was interrupted; everything recorded until then was replayed")
    return Proof(run.run_id, tuple(map(_short, differences)), len(recorded), steps, used, tuple(notes))


def _recorded(store: Store, run: Run) -> list[str]:
    """The sessions of the run that have a tape; raises UsageError if the run cannot be replayed."""
    if run.status == "running":
        raise UsageError(f"run {run.run_id} is still running (process {run.pid}); verify it when it has ended")
    session_ids = tape.sessions(store, run.run_id)
    if session_ids:
        return session_ids
    if run.kind in ("tool", "mcp"):
        fix = "its receipts are checked by `adderclaw receipt verify`"
        raise UsageError(f"run {run.run_id} is a {run.kind} run: it has no turn to replay; {fix}")
    why = "it was cleared by `memory clear`, or ended before the model was asked"
    raise UsageError(f"run {run.run_id} has no tape to replay: {why}")


# ------------------------------------------------------------------ one session


class _Session:
    """One session of the run: replayed segment by segment, its rows compared."""

    def __init__(self, store: Store, run: Run, session_id: str, flows: ReplayedFlows) -> None:
        self._store, self._run, self._id, self._flows = store, run, session_id, flows
        self._who = "" if session_id == run.session_id else f"session {session_id}: "
        self.found: list[Difference] = []
        self.notes: list[str] = []
        self.steps = self.calls = 0

    def check(self, lines: list[Json] | None) -> None:
        try:
            self._check(lines)
        except DamagedTape as error:
            self._differ(str(error), "sealed", "changed")
        except StoreError as error:
            self._differ("course of the run", "as recorded", f"the replay cannot begin: {error}")
        except MALFORMED as error:
            self._differ("course of the run", "as recorded", f"a row was changed ({type(error).__name__}: {error})")

    def _check(self, lines: list[Json] | None) -> None:
        from tempfile import TemporaryDirectory

        segments = playing.segments(self._store, self._run.run_id, self._id)
        conversation = self._run.conversation_id
        results: dict[tuple[str, str], GoalResult] = {}
        begun: WorkflowStart | None = None
        whole = True
        for segment in segments:
            with TemporaryDirectory(prefix="adderclaw-replay-") as folder:
                played = playing.play(
                    self._store, self._run.run_id, conversation, self._id, segment, followed(folder), self._flows
                )
                self._compare(played, folder, last=segment is segments[-1])
                results |= workflows.goal_results(played.store, self._run.run_id)
                begun = begun or workflows.get(played.store, self._run.run_id)
                played.store.close()
            self._events(played, lines, last=segment is segments[-1])
            whole = whole and not played.ended
        self._settings(segments[-1].head)
        if not self._who:
            self.notes += _plugins_since(segments[-1].head)
        driven = any(kind == "drive" for segment in segments for kind, _ in segment.items)
        if driven and not self._who:
            self._transitions(begun, results, whole=whole)

    def _differ(self, where: str, recorded: object, replayed: object, note: str = "") -> None:
        self.found.append(Difference(self._who + where, recorded, replayed, note))

    def _compare(self, played: Played, folder: str, *, last: bool) -> None:
        for difference in played.differences:
            self._differ(difference.where, difference.recorded, difference.replayed, difference.note)
        if played.ended and not (played.killed and (not last or self._run.outcome is None or self._cut())):
            self._differ("course of the run", "as recorded", played.ended)
        whole, home = not played.ended, str(played.segment.head["home"])
        for kind, (table, read) in _READ.items():
            first, until = _range(played, table)
            recorded = read(self._store, self._id, first, until)
            self.steps += len(recorded) if kind == "model call" else 0
            self.calls += len(recorded) if kind == "receipt" else 0
            if played.killed and not last:
                recorded = _without_closings(recorded)
            # the replay's store also has the entries from before the segment
            replayed = read(played.store, self._id, first if table == "entries" else 0, None)
            self._rows(kind, recorded, _at_home(replayed, os.path.realpath(folder), home), whole)
        if self._run.outcome is not None and not self._who and whole and last:
            self._outcome(played)

    def _rows(
        self, kind: str, recorded: Sequence[tuple[str, Json]], replayed: Sequence[tuple[str, Json]], whole: bool
    ) -> None:
        """Compare rows field by field; if the replay ended early, only the rows that it reached."""
        pairs = zip_longest(recorded, replayed) if whole else zip(recorded, replayed, strict=False)
        for before, now in pairs:
            if before is None or now is None:
                name = (before or now or ("", {}))[0]
                self._differ(f"{kind} {name}", "there" if before else "missing", "there" if now else "missing")
                return
            for key in before[1]:
                if before[1][key] != now[1].get(key):
                    self._differ(f"{kind} {before[0]}, {key}", before[1][key], now[1].get(key))

    def _outcome(self, played: Played) -> None:
        run = self._run
        if not played.results or run.kind not in ("agent", "message", "task", "sop"):
            return
        last = played.results[-1]
        scripted = last.outcome == "completed" and runs.has_unplayed_steps(self._store, run)
        if run.outcome != last.outcome and not scripted:
            self._differ("outcome of the run", run.outcome, last.outcome, last.reason)
        if (run.answer or "") != last.answer:
            self._differ("answer of the run", run.answer, last.answer)

    def _settings(self, head: Json) -> None:
        """Compare the stored settings with those of the run, unless a later run of the session replaced them."""
        later = recordings.has_later_run(self._store, self._run.run_id, self._id)
        if later or head["settings"] is None:
            return
        from adderclaw.storage.settings import digest_in

        if (now := digest_in(self._store, f"effective:{self._id}")) != head["settings"]:
            self._differ(f"settings_snapshot row effective:{self._id}", head["settings"], now, "it was changed since")

    def _cut(self) -> bool:
        """Whether this is a child session whose process was killed."""
        row = recordings.end_of_subagent(self._store, self._id)
        return bool(self._who) and row is not None and (row[0] is None or row[1] == subagents.INTERRUPTED)

    def _transitions(self, begun: WorkflowStart | None, now: dict[tuple[str, str], GoalResult], *, whole: bool) -> None:
        """Compare the stored results of a driver's decisions and steps."""
        before = workflows.get(self._store, self._run.run_id)
        if before is not None and (moved := _moved(self._store, self._run, first=True)) is not None:
            before = before._replace(file=str(path_before_move(before.file, *moved)))
        if before != begun:
            self._differ(
                f"{self._run.kind} that the run started with", before and before.inputs, begun and begun.inputs
            )
        recorded = workflows.goal_results(self._store, self._run.run_id)
        for position, kind in {**recorded, **now}:
            then, again = (
                rows[position, kind].result if (position, kind) in rows else None for rows in (recorded, now)
            )
            if then != again and (whole or (then is not None and again is not None)):
                self._differ(f"stored result of {kind.strip('()')} {position}".strip(), then, again)

    # -------------------------------------------------------------- events

    def _events(self, played: Played, lines: list[Json] | None, *, last: bool) -> None:
        asides = self._asides()
        replayed = [(event.event_type, event.payload) for event in played.events]
        now = list(kernel_events(replayed, asides, hashed=True))
        first, until = _range(played, "events")
        sources = {"events": until_the_next_process(self._table(first, None if last else until))}
        if lines is not None:
            # the events of the run's own session show when a process begins
            mine = _of_process(lines, played.segment.head["time"])
            mine = [line for line in mine if line.get("session_id") == self._id]
            sources["events.jsonl"] = [(str(line.get("event_type")), as_object(line.get("payload"))) for line in mine]
        for name, recorded in sources.items():
            self._compare_events(name, list(kernel_events(recorded, asides, hashed=True)), now, whole=not played.ended)

    def _compare_events(
        self, name: str, recorded: list[tuple[str, Json]], now: list[tuple[str, Json]], *, whole: bool
    ) -> None:
        longest = max(len(recorded), len(now)) if whole else min(len(recorded), len(now))
        for number in range(longest):
            before, after = (events[number] if number < len(events) else NOTHING for events in (recorded, now))
            if before == after:
                continue
            if before[0] != after[0]:
                self._differ(f"{name}, event {number + 1}", before[0], after[0])
                return  # all further events would differ
            for key in sorted({*before[1], *after[1]}):
                values = before[1].get(key), after[1].get(key)
                if values[0] != values[1]:
                    self._differ(f"{name}, event {number + 1} ({before[0]}), {key}", *values)

    def _asides(self) -> frozenset[str]:
        """Hashes of requests that a tool or a hook made outside of the conversation."""
        rows = recordings.requests(self._store, self._run.run_id, self._id)
        return frozenset(row[0] for row in rows if row[1] not in LOOP_PURPOSES)

    def _table(self, first: int, until: int | None) -> list[tuple[str, Json]]:
        rows = recordings.events_of_run(self._store, self._run.run_id, self._id, first, until)
        return [(row["event_type"], as_object(json.loads(row["detail"]))) for row in rows]


def _plugins_since(head: Json) -> Iterator[str]:
    """A note for each plugin of the run that was changed or removed since: its work is replayed from the recording."""
    for name, version, sha256, folder in head.get("plugins", ()):
        from adderclaw.config.plugins.tree import survey

        called = f"the plugin {name}{f' {version}' if version else ''} ({sha256[:12]}) that the run used"
        try:
            now = survey(folder).sha256
        except ConfigError:
            yield f"{called} is missing or cannot be read; its work was replayed from the recording"
            continue
        if now != sha256:
            yield f"{called} has changed since (now {now[:12]}); its work was replayed from the recording"


def _of_process(lines: list[Json], began: float) -> list[Json]:
    """The events of the process whose tape begins at that time; each process begins with `run_started`."""
    stamp = datetime.fromtimestamp(began + SOON, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    own_lines: list[Json] = []
    for line in lines:
        if line.get("event_type") == "run_started":
            if str(line.get("timestamp")) > stamp:
                break
            own_lines = []
        own_lines.append(line)
    return own_lines


# ------------------------------------------------------------------ named rows


def _calls(store: Store, session_id: str, first: int, until: int | None) -> list[Named]:
    compared = ("run_id", "step", "request_hash", "provider", "model", "response", "usage", "attempts", "status")
    compared += ("error", "cost")
    rows = (row for row in model_calls.of_session(store, session_id) if first < row.id <= (until or row.id))
    calls = [row for row in rows if (row.response or {}).get("purpose") in LOOP_PURPOSES]
    return [(f"of step {row.step}", {name: getattr(row, name) for name in compared}) for row in calls]


def _entries(store: Store, session_id: str, first: int, until: int | None) -> list[Named]:
    """The entries as stored bytes, so that even a changed space is a difference."""
    rows = recordings.entries(store, session_id, first, until)
    named: list[Named] = []
    for _, sequence, kind, payload, used, blocks in rows:
        if kind in ENTRIES:
            of = f" of {used}" if used else ""
            body = {"type": kind, "payload": payload, "tool_use_id": used, "blocks": blocks}
            named.append((f"{sequence} ({kind}{of})", body))
    return named


def _permissions(store: Store, session_id: str, first: int, until: int | None) -> list[Named]:
    rows = recordings.permissions(store, session_id, first, until)
    return [(f"of {row[0]}", {"call": row[0], "tool": row[1], "decision": row[2], "reason": row[3]}) for row in rows]


def _receipts(store: Store, session_id: str, first: int, until: int | None) -> list[Named]:
    rows = recordings.receipts(store, session_id, first, until)
    named: list[Named] = []
    for seq, line, used, run in rows:
        try:
            body = as_object(json.loads(line))
        except ValueError:
            body = {}
        compared = ("tool", "args_hash", "result_hash", "status", "risk", "decision")
        named.append((f"{seq} of {used}", {"call": used, "run": run, **{key: body.get(key) for key in compared}}))
    return named


_READ: dict[str, tuple[str, Callable[[Store, str, int, int | None], list[Named]]]] = {
    "model call": ("calls", _calls),
    "entry": ("entries", _entries),
    "permission": ("permissions", _permissions),
    "receipt": ("receipts", _receipts),
}
"""Name of a row in a difference → its table in a segment's head, and the function that reads it."""


def _without_closings(rows: list[Named]) -> list[Named]:
    """The rows of a killed process, without the last ones, by which the next process closed interrupted calls."""
    closed: set[object] = set()
    while rows:
        row = rows[-1][1]
        call = row.get("tool_use_id") or row.get("call")
        payload = as_object(json.loads(row["payload"])) if row.get("type") == "tool_result" else {}
        if payload.get("resumed") or as_object(row.get("decision")).get("by") == "resume":
            closed.add(call)
        elif row.get("type") != "tool_use" or call not in closed:
            break
        rows = rows[:-1]
    return rows


def _at_home(rows: list[Named], folder: str, home: str) -> list[Named]:
    """The rows with the replay's folder replaced by the home of the run."""
    return [(name, json.loads(json.dumps(row).replace(folder, home))) for name, row in rows]


def _range(played: Played, table: str) -> tuple[int, int | None]:
    until = played.segment.until
    return played.segment.head["from"][table], until[table] if until is not None else None


# ------------------------------------------------------------------ changes since the run ended


def _imprint(store: Store, run: Run) -> Iterator[Difference]:
    """The rows that were changed, removed or added since the run ended."""
    from adderclaw.storage.ledger import imprints

    marks = tape.first_head(store, run.run_id).get("marks")
    ended = run.outcome is not None and marks is not None
    moved = _moved(store, run)
    for where, now in imprints.changed_rows(store, run.run_id, ended=ended, since=marks, moved=moved):
        if now == imprints.ADDED:
            yield Difference(where, "no such row", "a row", f"it is {now}: it was added, or the imprint was shortened")
        else:
            yield Difference(where, "as at the end of the run", now)


def _moved(store: Store, run: Run, *, first: bool = False) -> tuple[str, str] | None:
    """The path of a fleet run's workspace now, and its path in the run's last process, or its first. None if the
    workspace cannot have moved."""
    if not tape.first_head(store, run.run_id).get("moves"):
        return None
    try:
        items = (item for session in tape.sessions(store, run.run_id) for item in tape.read(store, run.run_id, session))
        heads = sorted((body for kind, body in items if kind == "head"), key=lambda head: head["time"])
        then = str(heads[0 if first else -1]["place"][0])
    except (DamagedTape, *MALFORMED):
        return None  # reported as another difference
    now = transcript.workspace_of(store, run.conversation_id)
    return (now, then) if now else None


def _chain(store: Store, sessions: list[str], log_path: str, key_path: str) -> Iterator[Difference]:
    """Verify the logs that contain the run's receipts."""
    for archive in recordings.archives(store, sessions):
        verification = verify.verify(log_path, store, key_path, archive=archive)
        if not verification.valid:
            where = f"receipt {verification.first_broken} of {archive or os.path.basename(log_path)}"
            yield Difference(where, "intact", "broken", verification.reason)


def _short(difference: Difference) -> Difference:
    """Shorten long values to the part around their first difference."""
    texts = [
        value if isinstance(value, str) else json.dumps(value) for value in (difference.recorded, difference.replayed)
    ]
    if max(map(len, texts)) <= MOST:
        return difference
    same = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, same - MOST // 4)
    recorded, replayed = (("…" if start else "") + text[start : start + MOST] for text in texts)
    return Difference(difference.where, recorded, replayed, difference.note)


# ------------------------------------------------------------------ comparable events

COMPARED = frozenset(
    {
        "turn_started",
        "turn_finished",
        "llm_request_sent",
        "llm_response_received",
        "llm_request_failed",
        "llm_retry_scheduled",
        "tool_requested",
        "tool_approved",
        "tool_denied",
        "tool_completed",
        "tool_failed",
        "receipt_written",
        "approval_requested",
        "approval_answered",
        "approval_expired",
        "loop_warning",
        "changed_later",
        "limit_reached",
        "estop_triggered",
        "context_compacted",
        "memory_persisted",
        "skill_catalog_loaded",
        "skill_prefilter_completed",
        "skill_disclosure_loaded",
        "prompt_budget_computed",
        "prompt_composed",
        "llm_decision_decoded",
        "skill_invocation_started",
        "skill_step_executed",
        "step_retry_scheduled",
        "skill_invocation_finished",
        "sop_step_started",
        "sop_step_retried",
        "sop_step_finished",
    }
)
"""Events of the loop, the policy, tool calls and drivers; others come from the edges, which are not replayed."""
TIMING = frozenset({"latency_ms", "duration_ms", "expires_at", "seconds"})
ASKED = "approval_requested"
NAMES = frozenset({"approval_id", "receipt_id", "seq", "text", "called"})
"""Fields that are not compared: numbers shared by several sessions, and texts that are compared as entries."""
ENDED = frozenset({"tool_completed", "tool_failed", "tool_denied"})
"""The last event of a call."""
IN_TOOL = ENDED | {"loop_warning", "changed_later", "tool_approved", "receipt_written"}
"""Events of the loop while tools run; any others come from within the tools."""
BEGINS = frozenset({"run_started", "subagent_started"})
"""The first event of a session in each process."""


def until_the_next_process(events: list[tuple[str, Json]]) -> list[tuple[str, Json]]:
    """The events without those of a process that resumed the run and closed open calls before its own tape began.

    Such a process begins with `run_started`, or `subagent_started` in a child session. An event of that kind belongs to
    this process only if no turn or driver of it has published anything before.
    """
    own = next((number for number, (kind, _) in enumerate(events) if kind in COMPARED), len(events))
    ends = (number for number, (kind, _) in enumerate(events) if number > own and kind in BEGINS)
    return events[: next(ends, None)]


def as_object(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def kernel_events(
    events: Sequence[tuple[str, Json]], asides: frozenset[str], hashed: bool
) -> Iterator[tuple[str, Json]]:
    """The events of the loop without timing; events from within a tool or a hook are left out."""
    in_turn, running, aside = False, 0, False
    for kind, payload in events:
        in_turn = in_turn or kind == "turn_started"
        if kind not in COMPARED or (kind == "receipt_written" and not in_turn and not running):
            continue  # before a turn, interrupted calls are closed
        in_turn = kind != "turn_finished" and in_turn
        if kind == "llm_request_sent":
            aside = payload.get("request_hash") in asides
        left_out = (running and kind not in IN_TOOL) or (aside and kind.startswith("llm_"))
        running = max(0, running + (kind == "tool_approved") - (kind in ENDED))
        if not left_out:
            unlike = TIMING | NAMES | {"run_id", "span_id", *(["plan_hash"] if kind == ASKED and not hashed else [])}
            body = {key: value for key, value in payload.items() if key not in unlike}
            yield kind, json.loads(json.dumps(body))
