"""Every transition from every phase to every phase, on what it rests, and who may not make it."""

import json
from contextlib import suppress
from itertools import product

import pytest

from adderclaw.core.errors import StoreError, UsageError
from adderclaw.core.types import Phase
from adderclaw.storage import Store
from adderclaw.storage.sdlc import phases, plans
from adderclaw.storage.sdlc.phases import MODEL, PHASES, Mover, TransitionRefused, transition

ANN = Mover("operator", "ann")
PLAN = "# Plan\n\nGo.\n\n## Success criteria\n\n- [C1] `tool` prints 1\n"
NEW = ["idle", "planning", "implement", "test", "verify", "done"]
REFUSED = {
    "idle": ["implement", "test", "verify", "done", "idle"],
    "planning": ["test", "verify", "done", "idle"],
    "implement": ["implement", "verify", "done", "idle"],
    "test": ["implement", "test", "done", "idle"],
    "verify": ["implement", "test", "verify", "idle"],
    "done": ["implement", "test", "verify", "done", "idle"],
}
"""What seed 003 §8.2 does not have."""
CONDITION = {
    ("planning", "implement"): "no plan of this conversation is approved",
    ("test", "verify"): "no plan of this conversation is approved",
    ("verify", "done"): "the operator must approve the report",
}
"""What a bare conversation lacks."""


def at(store: Store, phase: str, plan: str = "") -> None:
    with store.write() as cursor:
        cursor.execute("UPDATE conversations SET phase = ? WHERE id = 'conversation'", (phase,))
        if plan:
            assert plans.approve(cursor, plans.draft(cursor, "conversation", plan), "ann")


def moved(store: Store, to: Phase, by: Mover = ANN, **given: object) -> phases.Transition:
    with store.write() as cursor:
        return transition(cursor, "conversation", to, by=by, **given)  # pyright: ignore[reportArgumentType]


def rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in store.read(sql)]


def phase(store: Store) -> object:
    return rows(store, "SELECT phase FROM conversations")[0][0]


def events(store: Store) -> list[object]:
    return [row[0] for row in rows(store, "SELECT event_type FROM events ORDER BY id")]


# ------------------------------------------------------------------ the table


def test_d77_the_table_has_every_pair() -> None:
    assert list(PHASES) == NEW
    assert set(phases.TABLE) == set(product(PHASES, PHASES))
    assert {pair for pair, rule in phases.TABLE.items() if rule.allows is None} == {
        (before, to) for before, others in REFUSED.items() for to in others
    }


@pytest.mark.parametrize(("before", "to"), list(product(PHASES, PHASES)))
def test_d77_d82_every_transition_of_a_conversation_without_a_plan(store: Store, before: Phase, to: Phase) -> None:
    at(store, before)
    if to in REFUSED[before] or (before, to) in CONDITION:
        with pytest.raises(TransitionRefused, match=f"^{before} → {to} is refused: ") as refused:
            moved(store, to, approves=False)
        assert CONDITION.get((before, to), phases.TABLE[before, to].text) in str(refused.value)
        assert (phase(store), events(store)) == (before, [])
        return
    assert moved(store, to).phase == to
    assert phase(store) == to
    assert events(store)[0] == "phase_changed"
    (detail,) = rows(store, "SELECT detail FROM events WHERE event_type = 'phase_changed'")[0]
    found = json.loads(str(detail))
    assert (found["from"], found["to"], found["by"]) == (before, to, "ann")
    assert found["why"]


@pytest.mark.parametrize("by", [MODEL, Mover("operator", "")])
@pytest.mark.parametrize("approves", [True, False])
def test_d81_done_is_for_an_operator_with_a_name(store: Store, by: Mover, approves: bool) -> None:
    at(store, "verify", PLAN)
    with pytest.raises(TransitionRefused, match="the operator must approve the report"):
        moved(store, "done", by, approves=approves, tree="t")
    with pytest.raises(TransitionRefused, match="the operator must approve the report"):
        moved(store, "done", tree="t")
    assert phase(store) == "verify"


def test_d81_neither_gate_opens_without_proof(store: Store) -> None:
    at(store, "test", PLAN)
    for tree in ("", "t"):
        with pytest.raises(TransitionRefused, match="test → verify is refused: "):
            moved(store, "verify", tree=tree)
    at(store, "verify")
    with pytest.raises(TransitionRefused, match="verify → done is refused: "):
        moved(store, "done", tree="t", approves=True)


def test_a_plan_without_criteria_never_opens_verify(store: Store) -> None:
    at(store, "planning", "# Plan\nDo it.")
    assert "verify` stays closed" in moved(store, "implement", MODEL).notice
    assert "verify` stays closed" in moved(store, "test", MODEL).notice
    with pytest.raises(TransitionRefused, match="has no success criteria"):
        moved(store, "verify", tree="t")


def test_d80_implementation_complete_is_told_in_the_same_transaction(store: Store) -> None:
    at(store, "implement", PLAN)
    with suppress(KeyboardInterrupt), store.write() as cursor:
        transition(cursor, "conversation", "test", by=ANN)
        raise KeyboardInterrupt
    assert (phase(store), events(store)) == ("implement", ["plan_approved"])
    moved(store, "test")
    assert events(store) == ["plan_approved", "phase_changed", "implementation_complete"]


# ------------------------------------------------------------------ a plan that was changed

FORGED = [
    ("UPDATE plans SET content = content || 'x'", "differs from the approved text"),
    ("UPDATE plan_criteria SET text = 'it is there'", "differ from those in its text"),
    ("DELETE FROM plan_criteria", "differ from those in its text"),
    ("INSERT INTO plan_criteria VALUES (1, 'C2', 1, 9, 'x', 0, '')", "differ from those in its text"),
]


@pytest.mark.parametrize(("forged", "said"), FORGED)
@pytest.mark.parametrize(("before", "to"), [("implement", "test"), ("test", "verify"), ("verify", "done")])
def test_a_plan_that_was_edited_after_its_approval_opens_nothing(
    store: Store, forged: str, said: str, before: Phase, to: Phase
) -> None:
    at(store, before, PLAN)
    with store.write() as cursor:
        cursor.execute(forged)
    with pytest.raises(TransitionRefused, match=said):
        moved(store, to, tree="t", approves=True)
    assert phase(store) == before


def test_one_plan_counts_and_a_new_cycle_supersedes_it(store: Store) -> None:
    at(store, "planning", PLAN)
    at(store, "planning", PLAN + "- more\n")
    assert rows(store, "SELECT status FROM plans ORDER BY id") == [("superseded",), ("approved",)]
    with store.write() as cursor:
        found = plans.approved_plan(cursor, "conversation")
    assert found is not None
    assert (found.id, found.version) == (2, 2)
    moved(store, "planning")
    assert rows(store, "SELECT status FROM plans ORDER BY id") == [("superseded",), ("superseded",)]
    with pytest.raises(TransitionRefused, match="no plan of this conversation is approved"):
        moved(store, "implement")


# ------------------------------------------------------------------ what does not exist


@pytest.mark.parametrize("bogus", ["bogus", "", "DONE", "implement ", "test\n"])
def test_a_phase_that_does_not_exist_is_an_error(store: Store, bogus: str) -> None:
    at(store, bogus, PLAN)
    for to in PHASES:
        with pytest.raises(StoreError, match="is in the unknown phase"):
            moved(store, to, MODEL, tree="t", approves=True)
        if to != "planning":
            with pytest.raises(StoreError, match="sdlc transition planning --conversation conversation"):
                moved(store, to, tree="t", approves=True)
    with pytest.raises(StoreError, match="is in the unknown phase"):
        phases.phase_of(store, "conversation")
    assert moved(store, "planning").before == bogus  # the way back, by the operator's own hand
    assert phases.phase_of(store, "conversation") == "planning"


def test_what_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(UsageError, match="there is no conversation 'nobody'"), store.write() as cursor:
        transition(cursor, "nobody", "planning", by=ANN)
    with pytest.raises(UsageError, match="did you mean verify"):
        phases.phase_named("verfy")
    assert phases.phase_of(store, "nobody") == "idle"


# ------------------------------------------------------------------ two at once


def test_of_two_processes_one_moves(store: Store) -> None:
    other = Store.open(store.path)
    at(store, "implement")
    assert phases.phase_of(other, "conversation") == "implement"
    moved(store, "test", seen="implement")
    for seen in (None, "implement"):
        with pytest.raises(TransitionRefused):
            moved(other, "test", seen=seen)
    with pytest.raises(TransitionRefused, match="another process has changed that"):
        moved(other, "planning", seen="implement")
    assert events(store) == ["phase_changed", "implementation_complete"]
    other.close()
