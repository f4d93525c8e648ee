"""Plays a case through the loop and the gate as they are now, under the present rules, and names what differs."""

import json
import os
from collections.abc import Iterator
from dataclasses import fields, replace
from tempfile import TemporaryDirectory

from adderclaw.config import Loaded
from adderclaw.config.paths import followed
from adderclaw.config.schema import Config, Permissions
from adderclaw.errors import StoreError, UsageError
from adderclaw.gate.case import Policy
from adderclaw.kernel.policy import policy_of
from adderclaw.record import record
from adderclaw.replay import cases, playing, told
from adderclaw.replay.cases import Case
from adderclaw.replay.edges import ASIDE
from adderclaw.replay.playing import MALFORMED, Played, Rules
from adderclaw.replay.rejudging import Judged, judged_in
from adderclaw.store import Store, runs, tape
from adderclaw.store.queries import recordings
from adderclaw.store.runs import Run
from adderclaw.store.tape import Damaged
from adderclaw.types import Json

UNCOMPARED = frozenset({"request_hash", "plan_hash", "by", "reason"})
"""What rests on the words of a prompt or of a rule: verdicts are compared by themselves."""
VERDICT = "verdict on call "
UNCHOSEN = ("default", "permissions.defaultMode in ")
"""How the origin of an autonomy begins that nobody chose beside the mode."""

NOTHING: tuple[str, Json] = ("nothing", {})


@record
class Changed:
    """One point in which the run would go another way now."""

    where: str
    before: object
    after: object
    session_id: str
    tool_use_id: str = ""
    by: str = ""
    """The rule or the part of the policy that decides now."""
    reason: str = ""

    def as_json(self) -> Json:
        return dict(self.__dict__)


@record
class Comparison:
    """What playing a case found."""

    run_id: str
    sessions: int
    calls: int
    differences: tuple[Changed, ...]
    notes: tuple[str, ...]

    @property
    def same(self) -> bool:
        return not self.differences

    def as_json(self) -> Json:
        shown = [one.as_json() for one in self.differences]
        counts = {"sessions": self.sessions, "tool_calls": self.calls}
        return {
            "run_id": self.run_id,
            "same": self.same,
            **counts,
            "differences": shown,
            "notes": list(self.notes),
        }


# ------------------------------------------------------------------ rules


class Present(Rules):
    """The present configuration and policy.toml files, at the place where the run was recorded.

    What the command line said of the run stays: its limits, `--max-turns`, `--profile`, the permission mode.
    """

    def __init__(self, store: Store, loaded: Loaded) -> None:
        super().__init__(store)
        self._loaded = loaded

    def config(self, head: Json) -> Config:
        then, now = super().config(head), self._loaded.config
        runtime = replace(now.runtime, max_turns=then.runtime.max_turns)
        return replace(now, limits=then.limits, runtime=runtime)

    def policy(self, head: Json) -> Policy:
        then, now = super().config(head), self.config(head)
        made_of = playing.judged_by(self.store, head)
        before = policy_of(then, {**made_of, "real": dict(made_of["real"])})
        origin = self._loaded.origins.get("security.autonomy", "default")
        made_of |= {"policies": list(self._loaded.policies), "autonomy_set": not origin.startswith(UNCHOSEN)}
        if made_of.get("profile") == then.runtime.profile:  # which a run without a flag has
            made_of["profile"] = now.runtime.profile
        made = policy_of(now, made_of)
        autonomy, autonomy_set, mode = head["policy"]
        if (autonomy, mode) == (before.autonomy, before.mode):
            return made
        return replace(made, autonomy=autonomy, autonomy_set=autonomy_set, mode=mode)  # it was changed by hand

    def permissions(self, head: Json, granted: Permissions) -> Permissions:
        """The present ones, and what the operator granted over those of then."""
        then, now = super().config(head).permissions, self._loaded.config.permissions
        made: Json = {}
        for one in fields(Permissions):
            before, after, present = (getattr(given, one.name) for given in (then, granted, now))
            if isinstance(present, list):
                made[one.name] = [*present, *(rule for rule in after if rule not in before and rule not in present)]
            else:
                made[one.name] = present if after == before else after
        return Permissions(**made)


# ------------------------------------------------------------------ playing


def check(case: Case, loaded: Loaded | None) -> Comparison:
    """Play a case under the present rules (None: under its own). Raises UsageError where it cannot be played."""
    with TemporaryDirectory(prefix="adderclaw-case-") as folder:
        store = Store.open(os.path.join(folder, "case.sqlite"))
        try:
            run = cases.fill(store, case)
            rules = Rules(store) if loaded is None else Present(store, loaded)
            return _compared(store, run, rules)
        except (Damaged, StoreError, RecursionError, *MALFORMED) as error:
            said = str(error) if isinstance(error, (Damaged, StoreError)) else f"{type(error).__name__}: {error}"
            raise UsageError(f"the case was damaged: {said}") from error
        finally:
            store.close()


def _compared(store: Store, run: Run, rules: Rules) -> Comparison:
    found: list[Changed] = []
    notes: list[str] = []
    calls = 0
    sessions = tape.sessions(store, run.run_id)
    for session_id in sessions:
        judged = judged_in(store, run, session_id, rules)
        calls += len(judged)
        found += [_verdict(one) for one in judged if one.changes]
        notes += [
            f"call {one.tool_use_id} ({one.tool}) is {one.after} as before, now by {one.after_by} (was {one.before_by})"
            for one in judged
            if not one.changes and one.before_by != one.after_by
        ]
        found += _played(store, run, session_id, rules)
    return Comparison(run.run_id, len(sessions), calls, tuple(found), tuple(notes))


def _verdict(one: Judged) -> Changed:
    where = f"{VERDICT}{one.tool_use_id} ({one.tool})"
    return Changed(where, one.before, one.after, one.session_id, one.tool_use_id, one.after_by, one.reason)


def _played(store: Store, run: Run, session_id: str, rules: Rules) -> Iterator[Changed]:
    segments = playing.segments(store, run.run_id, session_id)
    for segment in segments:
        last = segment is segments[-1]
        with TemporaryDirectory(prefix="adderclaw-replay-") as folder:
            ids = run.run_id, run.conversation_id, session_id
            played = playing.play(store, *ids, segment, followed(folder), rules)
            played.store.close()
        for one in played.differences:
            if not one.where.startswith(VERDICT):  # those are judged apart, all of them
                yield Changed(one.where, one.recorded, one.replayed, session_id, reason=one.note)
        if played.ended and not (played.killed and (not last or session_id != run.session_id)):
            yield Changed("course of the run", "as recorded", played.ended, session_id)
        yield from _events(store, run, played, session_id, last=last)
        if last and session_id == run.session_id and not played.ended:
            yield from _outcome(store, run, played)


def _events(store: Store, run: Run, played: Played, session_id: str, *, last: bool) -> Iterator[Changed]:
    """The first event that is another one; from there on everything is."""
    segment = played.segment
    first, until = segment.head["from"]["events"], None if last or segment.until is None else segment.until["events"]
    rows = recordings.events(store, session_id, first, until)
    recorded = told.until_the_next_process([(row[0], told.as_object(json.loads(row[1]))) for row in rows])
    asides = frozenset(
        hash for hash, purpose in recordings.requests(store, run.run_id, session_id) if purpose not in ASIDE
    )
    before = _without_words(told.kernel_events(recorded, asides, hashed=False))
    again = [(event.event_type, dict(event.payload)) for event in played.events]
    after = _without_words(told.kernel_events(again, asides, hashed=False))
    longest = min(len(before), len(after)) if played.ended else max(len(before), len(after))
    for number in range(longest):
        then, now = (events[number] if number < len(events) else NOTHING for events in (before, after))
        if then != now:
            same = then[0] == now[0]
            shown = ({key: body[key] for key in body if then[1].get(key) != now[1].get(key)} for _, body in (then, now))
            was, came = shown if same else (then[0], now[0])
            of = f" ({then[0]})" if same else ""
            used = str(then[1].get("tool_use_id", ""))
            yield Changed(f"event {number + 1}{of}", was, came, session_id, used)
            return


def _without_words(events: Iterator[tuple[str, Json]]) -> list[tuple[str, Json]]:
    return [(kind, {key: value for key, value in body.items() if key not in UNCOMPARED}) for kind, body in events]


def _outcome(store: Store, run: Run, played: Played) -> Iterator[Changed]:
    if not played.results or run.kind not in ("agent", "message", "task", "sop"):
        return
    ended = played.results[-1]
    scripted = ended.outcome == "completed" and runs.left_steps(store, run)
    if run.outcome != ended.outcome and not scripted:
        yield Changed("outcome of the run", run.outcome, ended.outcome, run.session_id, reason=ended.reason)
    if (run.answer or "") != ended.answer:
        yield Changed("answer of the run", run.answer, ended.answer, run.session_id)
