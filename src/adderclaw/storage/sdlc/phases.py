"""The phases of a conversation: the allowed transitions with their conditions, and the function that performs them."""

import sqlite3
from collections.abc import Callable
from typing import Literal

from adderclaw.core.errors import DeniedError, StoreError, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.suggestions import did_you_mean
from adderclaw.core.types import PHASES, Phase
from adderclaw.storage import Store
from adderclaw.storage.sdlc import criteria, plans, proof
from adderclaw.storage.sdlc.plans import Plan


class TransitionRefused(DeniedError):
    """A transition that the table or its condition refuses."""


class Mover(NamedTuple):
    """Who requests a transition. A model can never act as an operator."""

    kind: Literal["model", "operator"]
    name: str = ""


MODEL = Mover("model", "the model")


class Rule(NamedTuple):
    """A row of the table. `allows` returns why the transition is refused now; without it, it never happens, and `text`
    says why."""

    text: str
    allows: "Callable[[TransitionRequest], list[str]] | None" = None


class Transition(NamedTuple):
    before: str
    phase: Phase
    plan: Plan | None
    notice: str = ""
    """A hint for the caller."""


class TransitionRequest(NamedTuple):
    """A transition whose condition is being checked, in its database transaction."""

    cursor: sqlite3.Cursor
    plan: Plan | None
    by: Mover
    tree: str
    approves: bool


# ------------------------------------------------------------------ conditions


def _always(_move: TransitionRequest) -> list[str]:
    return []


def _approved(move: TransitionRequest) -> list[str]:
    if move.plan is not None:
        return []
    return ["no plan of this conversation is approved; approve one with `/plan approve` or `adderclaw sdlc approve`"]


def _unaltered(move: TransitionRequest) -> list[str]:
    """Also passes without a plan: then the tests have nothing to prove, and `verify` stays closed."""
    return [] if move.plan is None else plans.alteration_reasons(move.cursor, move.plan)


def _proved(move: TransitionRequest) -> list[str]:
    if move.plan is None:
        return ["no plan of this conversation is approved, so there is nothing to prove"]
    if reasons := plans.alteration_reasons(move.cursor, move.plan):
        return reasons
    if not criteria.of_plan(move.cursor, move.plan.id):
        return [f"plan {move.plan.id} has no success criteria, so there is nothing to prove; add them to a new plan"]
    return proof.open_reasons(move.cursor, move.plan, move.tree)


def _accepted(move: TransitionRequest) -> list[str]:
    if move.by.kind != "operator" or not move.by.name or not move.approves:
        return ["the operator must approve the report with `adderclaw sdlc approve` at a terminal"]
    return _proved(move)


# ------------------------------------------------------------------ the table

_CYCLE = Rule("a new plan begins; what was planned before no longer counts", _always)
_HERE = Rule("the conversation is there already")
_UNPLANNED = Rule("nothing is planned: `planning` comes first, and an approved plan opens `implement`")
_PLANNING = Rule("the plan is not carried out yet: its approval opens `implement`, then comes `test`")
_BYPASS = Rule("the tests are not bypassed: `test` comes first")
_NO_REST = Rule("a conversation with a plan goes on to `done`, or begins another with `planning`")
_FIX_IN_TEST = Rule("what a test finds is mended within `test`; for another plan, begin with `planning`")
_REVIEW = Rule("the results are in front of the operator: approve them, or begin again with `planning`")
_UNVERIFIED = Rule("the report is not bypassed: `verify` comes first")
_COMPLETED = Rule("the plan is completed: another change begins with `planning`")

TABLE: dict[tuple[Phase, Phase], Rule] = {
    ("idle", "idle"): _HERE,
    ("idle", "planning"): _CYCLE,
    ("idle", "implement"): _UNPLANNED,
    ("idle", "test"): _UNPLANNED,
    ("idle", "verify"): _UNPLANNED,
    ("idle", "done"): _UNPLANNED,
    ("planning", "idle"): _NO_REST,
    ("planning", "planning"): _CYCLE,
    ("planning", "implement"): Rule("the plan is approved", _approved),
    ("planning", "test"): _PLANNING,
    ("planning", "verify"): _PLANNING,
    ("planning", "done"): _PLANNING,
    ("implement", "idle"): _NO_REST,
    ("implement", "planning"): _CYCLE,
    ("implement", "implement"): _HERE,
    ("implement", "test"): Rule("the implementation is complete", _unaltered),
    ("implement", "verify"): _BYPASS,
    ("implement", "done"): _BYPASS,
    ("test", "idle"): _NO_REST,
    ("test", "planning"): _CYCLE,
    ("test", "implement"): _FIX_IN_TEST,
    ("test", "test"): _HERE,
    ("test", "verify"): Rule("every criterion is proved", _proved),
    ("test", "done"): _UNVERIFIED,
    ("verify", "idle"): _NO_REST,
    ("verify", "planning"): _CYCLE,
    ("verify", "implement"): _REVIEW,
    ("verify", "test"): _REVIEW,
    ("verify", "verify"): _HERE,
    ("verify", "done"): Rule("the operator approves the report", _accepted),
    ("done", "idle"): _COMPLETED,
    ("done", "planning"): _CYCLE,
    ("done", "implement"): _COMPLETED,
    ("done", "test"): _COMPLETED,
    ("done", "verify"): _COMPLETED,
    ("done", "done"): _HERE,
}
"""Every phase to every phase."""


# ------------------------------------------------------------------ reading


def phase_named(text: str) -> Phase:
    """The phase with this name. Raises UsageError for an unknown one."""
    if (phase := _known(text)) is None:
        raise UsageError(f"there is no phase {text[:40]!r}{did_you_mean(text, PHASES)}; there are {', '.join(PHASES)}")
    return phase


def _known(text: str) -> Phase | None:
    return next((phase for phase in PHASES if phase == text), None)


def unknown_phase_error(conversation_id: str, text: str) -> StoreError:
    return StoreError(
        f"the conversation {conversation_id} is in the unknown phase {text[:40]!r}, which another program wrote; "
        f"`adderclaw sdlc transition planning --conversation {conversation_id}` starts a new plan"
    )


def phase_of(store: Store, conversation_id: str) -> Phase:
    """The phase; `idle` for a conversation without a row. Raises StoreError for an unknown phase."""
    rows = store.read("SELECT phase FROM conversations WHERE id = ?", (conversation_id,))
    if not rows:
        return "idle"
    if (phase := _known(rows[0][0])) is None:
        raise unknown_phase_error(conversation_id, str(rows[0][0]))
    return phase


def phase_text(store: Store, conversation_id: str) -> str:
    """The phase for display, which never fails."""
    rows = store.read("SELECT phase FROM conversations WHERE id = ?", (conversation_id,))
    text = str(rows[0][0]) if rows else "idle"
    return text if _known(text) else f"{visible(text[:40], keep_newlines=False)!r} DOES NOT EXIST"


class Change(NamedTuple):
    """One row of the history."""

    id: int
    timestamp: str
    event: str
    detail: str


def history(store: Store, conversation_id: str) -> list[Change]:
    """The changes of a conversation's phase, oldest first."""
    rows = store.read(
        "SELECT id, timestamp, event_type, detail FROM events WHERE conversation_id = ? AND event_type IN"
        " ('phase_changed', 'implementation_complete', 'plan_approved', 'report_approved') ORDER BY id",
        (conversation_id,),
    )
    return [Change(*row) for row in rows]


# ------------------------------------------------------------------ changing


def transition(
    cursor: sqlite3.Cursor,
    conversation_id: str,
    to: Phase,
    *,
    by: Mover,
    seen: str | None = None,
    tree: str = "",
    approves: bool = False,
    why: str = "",
) -> Transition:
    """Moves a conversation to a phase, in the caller's transaction. Raises TransitionRefused.

    `seen`: the phase that the caller's decision is based on; if it has changed since, nothing happens. `tree`: the
    digest of the current workspace, for the gates that need it. `approves`: the operator saw and approves the report.
    """
    text = _phase_text(cursor, conversation_id)
    if seen is not None and seen != text:
        raise TransitionRefused(
            f"{text} → {to} is refused: the conversation was in {seen}, but another process has changed that"
        )
    plan = plans.approved_plan(cursor, conversation_id)
    rule = _rule(conversation_id, text, to, by)
    if reasons := _reasons(rule, TransitionRequest(cursor, plan, by, tree, approves)):
        problems = reasons[0] if len(reasons) == 1 else "".join(f"\n- {reason}" for reason in reasons)
        raise TransitionRefused(f"{text} → {to} is refused: {problems}")
    cursor.execute(
        "UPDATE conversations SET phase = ?, last_active = datetime('now') WHERE id = ? AND phase = ?",
        (to, conversation_id, text),
    )
    detail = {"from": text, "to": to, "why": why or rule.text, "by": by.name or by.kind}
    plans.event(cursor, conversation_id, "phase_changed", detail)
    return Transition(text, to, plan, _update_plan_rows(cursor, conversation_id, to, plan, by))


def refusal_reasons(cursor: sqlite3.Cursor, conversation_id: str, to: Phase, *, by: Mover, tree: str = "") -> list[str]:
    """Why the transition would be refused now; empty if it would not."""
    rule = _rule(conversation_id, _phase_text(cursor, conversation_id), to, by)
    return _reasons(
        rule, TransitionRequest(cursor, plans.approved_plan(cursor, conversation_id), by, tree, approves=False)
    )


def begin_planning(cursor: sqlite3.Cursor, conversation_id: str, number: int, *, by: Mover) -> None:
    """Starts the phase planning with a plan that was drafted in plan mode."""
    transition(cursor, conversation_id, "planning", by=by, why="a plan was drafted in plan mode")
    plans.restore_draft(cursor, number)


def _phase_text(cursor: sqlite3.Cursor, conversation_id: str) -> str:
    row = cursor.execute("SELECT phase FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
    if row is None:
        raise UsageError(f"there is no conversation {conversation_id!r}: see `adderclaw memory list`")
    return str(row[0])


def _reasons(rule: Rule, moving: TransitionRequest) -> list[str]:
    return [rule.text] if rule.allows is None else rule.allows(moving)


def _rule(conversation_id: str, text: str, to: Phase, by: Mover) -> Rule:
    before = _known(text)
    if before is not None:
        return TABLE[before, to]
    if (
        to == "planning" and by.kind == "operator"
    ):  # the way out of an unknown phase: nothing is written until a plan is approved
        return _CYCLE
    raise unknown_phase_error(conversation_id, text)


def _update_plan_rows(cursor: sqlite3.Cursor, conversation_id: str, to: Phase, plan: Plan | None, by: Mover) -> str:
    """Updates the rows of plans after a transition; returns a hint for the caller."""
    if to == "planning":
        plans.supersede(cursor, conversation_id)
    elif to == "test":
        detail: dict[str, object] = {"plan": plan.id if plan else None, "by": by.name or by.kind}
        plans.event(cursor, conversation_id, "implementation_complete", detail)
        if plan is None:
            return "no plan of this conversation is approved, so there is nothing to prove and `verify` stays closed"
    elif to == "done" and plan is not None:
        plans.event(cursor, conversation_id, "report_approved", {"plan": plan.id, "hash": plan.hash, "by": by.name})
        plans.complete(cursor, plan.id)
    if to in ("implement", "test") and plan is not None and not criteria.of_plan(cursor, plan.id):
        return f"plan {plan.id} has no success criteria, so nothing can be proved and `verify` stays closed"
    return ""
