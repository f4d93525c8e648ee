"""Approvals as rows: the first answer counts, exactly once, whoever and however many they are."""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adderclaw.agent.session.clock import SystemClock
from adderclaw.agent.tool_call.approvals import (
    BY_ROW,
    AnswerRejected,
    PersistentApprovals,
    answer_row,
    displayed_request,
)
from adderclaw.core.errors import UsageError
from adderclaw.core.questions import (
    Answer,
    ApprovalRequest,
    Kind,
    Operator,
    Option,
    Question,
    QuestionRequest,
    Replies,
    answer_with,
)
from adderclaw.storage import Store, approvals, transcript
from adderclaw.storage.approvals import Approval
from tests.storage.book import child, codes, numbered


def ask(
    store: Store,
    id: str = "approval-1",
    *,
    now: float = 1000.0,
    seconds: float | None = None,
    plan: str = "h" * 64,
    ours: tuple[str, ...] = (),
) -> approvals.Approval:
    with store.write() as cursor:
        return approvals.ask(
            cursor,
            id=id,
            session_id="session",
            tool_use_id="t",
            tool="Write",
            risk="medium",
            reason="why",
            shown="what",
            plan_hash=plan,
            now=now,
            seconds=seconds,
            ours=ours,
        )


def answer(
    store: Store, word: approvals.Answer, *, by: str = "me", now: float = 1001.0, id: str = "approval-1"
) -> bool:
    with store.write() as cursor:
        return approvals.answer(cursor, id, word, by=by, comment="", now=now)


def row(store: Store, id: str = "approval-1") -> approvals.Approval:
    found = approvals.get(store, id)
    assert found is not None
    return found


def test_a_second_answer_does_not_count(store: Store) -> None:
    ask(store)
    assert answer(store, "no", by="first")
    assert not answer(store, "yes", by="second")
    assert (row(store).answer, row(store).answered_by) == ("no", "first")


def test_an_answer_to_no_question_does_not_count(store: Store) -> None:
    assert not answer(store, "yes")


def test_a_late_yes_does_not_count(store: Store) -> None:
    ask(store, seconds=5)
    assert row(store).state(1004) == "pending"
    assert row(store).state(1005) == "expired"
    assert not answer(store, "yes", now=1005)
    assert answer(store, "no", now=1006, by="timeout")


def left(store: Store, **given: Any) -> None:
    """A question of a process that has ended."""

    def work() -> None:
        ask(Store.open(store.path), "approval-old", **given)

    assert codes([child(work)]) == [0]


def test_what_a_dead_process_asked_about_another_call_is_settled_by_the_next(store: Store) -> None:
    left(store)
    assert row(store, "approval-old").state(1001) == "left"
    assert ask(store, "approval-new", plan="other").id == "approval-new"
    assert (row(store, "approval-old").answer, row(store, "approval-old").answered_by) == ("no", "abandoned")
    assert row(store, "approval-new").answer is None


def test_a_yes_to_another_call_cannot_be_used_later(store: Store) -> None:
    left(store)
    assert answer(store, "yes", id="approval-old")
    assert ask(store, "approval-new", plan="other").answer is None
    assert row(store, "approval-old").used_at is not None
    assert ask(store, "approval-third", ours=("approval-new",)).id == "approval-third"


def test_the_same_call_takes_up_the_row_that_was_left(store: Store) -> None:
    left(store, seconds=60)
    again = ask(store, "approval-new", now=1010, seconds=60)
    assert (again.id, again.answer, again.expires_at) == ("approval-old", None, row(store, "approval-old").expires_at)
    assert row(store, "approval-old").state(1010) == "pending", "this process waits for it now"
    assert approvals.get(store, "approval-new") is None


@pytest.mark.parametrize(("word", "id"), [("yes", "approval-new"), ("no", "approval-old")])
def test_a_yes_that_was_left_counts_until_its_expiry(store: Store, word: approvals.Answer, id: str) -> None:
    left(store, seconds=60)
    assert answer(store, word, id="approval-old")
    assert ask(store, "approval-new", now=1060).id == id


def test_an_answer_is_used_once(store: Store) -> None:
    ask(store)
    with store.write() as cursor:
        assert not approvals.mark_used(cursor, "approval-1", 1001), "there is no answer yet"
    assert answer(store, "yes")
    with store.write() as cursor:
        assert [approvals.mark_used(cursor, "approval-1", 1001) for _ in range(2)] == [True, False]
    assert ask(store, "approval-2").id == "approval-2"


def test_an_id_may_be_cut_but_not_ambiguous(store: Store) -> None:
    ask(store, "approval-ab")
    ask(store, "approval-ac", ours=("approval-ab",))
    assert row(store, "approval-ab").id == "approval-ab"
    with pytest.raises(UsageError, match="several"):
        approvals.get(store, "approval-a")


def test_many_processes_one_answer(store: Store, tmp_path: Path) -> None:
    ask(store)
    start = time.time() + 0.2

    def one(number: int) -> None:
        mine = Store.open(store.path)
        time.sleep(max(0.0, start - time.time()))
        won = answer(mine, "yes" if number % 2 else "no", by=f"process {number}")
        (tmp_path / f"won-{number}").write_text("yes" if won else "")
        mine.close()

    pids = [child(lambda number=number: one(number)) for number in range(12)]
    assert codes(pids) == [0] * 12
    winners = [number for number in range(12) if (tmp_path / f"won-{number}").read_text()]
    assert len(winners) == 1
    assert row(store).answered_by == f"process {winners[0]}"


def test_clearing_forgets_what_was_shown_and_keeps_what_waits(store: Store) -> None:
    ask(store, "approval-old")
    answer(store, "yes", id="approval-old")
    ask(store, "approval-new", ours=("approval-old",))
    transcript.clear(store)
    assert (row(store, "approval-old").shown, row(store, "approval-old").answer) == ("", "yes")
    assert row(store, "approval-new").shown == "what"


# ------------------------------------------------------------------ the operator who waits beside the row


class Slow:
    """Answers after a while, or never."""

    def __init__(self, seconds: float, *, approved: bool = True) -> None:
        self.seconds, self.approved = seconds, approved
        self.cancelled = False

    async def ask(self, request: QuestionRequest) -> Answer:
        return answer_with(None)

    async def approve(self, request: ApprovalRequest) -> Answer:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Answer(self.approved, "operator", "said here")


KEY = b"k" * 32
REQUEST = ApprovalRequest("Write", "medium", "why sk-secret", "what sk-secret", "t", plan_hash="p" * 64)


def durable(store: Store, operator: Operator, **given: Any) -> PersistentApprovals:
    settings: dict[str, Any] = {"seconds": None, "stopped": lambda: False, "key": lambda: KEY, **given}
    settings.setdefault("tell", list[Any]().append)
    return PersistentApprovals(
        operator,
        store,
        "session",
        clock=SystemClock(),
        ids=numbered(),
        scrub=lambda text: text.replace("sk-secret", "[redacted]"),
        **settings,
    )


def test_the_operator_here(store: Store) -> None:
    given = asyncio.run(durable(store, Slow(0)).approve(REQUEST))
    assert given == Answer(True, "operator", "said here")
    kept = row(store)
    assert (kept.answer, kept.answered_by, kept.plan_hash) == ("yes", "operator", "p" * 64)
    assert (kept.reason, kept.shown) == ("why [redacted]", "what [redacted]")


def test_another_process_is_first(store: Store) -> None:
    operator = Slow(60)

    async def both() -> Answer:
        waiting = asyncio.ensure_future(durable(store, operator).approve(REQUEST))
        await asyncio.sleep(0.05)
        pid = child(lambda: _answer_elsewhere(store.path))
        assert codes([pid]) == [0]
        return await waiting

    given = asyncio.run(both())
    assert given == Answer(True, "elsewhere", "")
    assert operator.cancelled


def _answer_elsewhere(path: str) -> None:
    mine = Store.open(path)
    mac = signed(row(mine))
    with mine.write() as cursor:
        assert approvals.answer(cursor, "approval-1", "yes", by="elsewhere", comment="", now=time.time(), mac=mac)
    mine.close()


def signed(asked: approvals.Approval, key: bytes = KEY, by: str = "elsewhere", other: Any = None) -> str:
    return approvals.sign(key, asked._replace(**(other or {})), by)


FORGED: dict[str, Callable[[approvals.Approval], str | None]] = {
    "none": lambda _: None,
    "empty": lambda _: "",
    "of another key": lambda asked: signed(asked, b"x" * 32),
    "of another question": lambda asked: signed(asked, other={"id": "approval-2"}),
    "of another plan": lambda asked: signed(asked, other={"plan_hash": "q" * 64}),
    "of another name": lambda asked: signed(asked, by="operator"),
    "to another text": lambda asked: signed(asked, other={"shown": "ls"}),
    "to another reason": lambda asked: signed(asked, other={"reason": "harmless"}),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_yes_that_is_not_signed_is_a_no(store: Store, name: str) -> None:
    """Whoever can only write the database has no key."""
    said = answered_in_the_database(store, "mac = ?", lambda asked: (FORGED[name](asked),))
    assert "not signed" in said.comment


@pytest.mark.parametrize("column", ["shown", "reason", "tool", "risk", "plan_hash"])
def test_a_yes_to_a_question_that_was_changed_is_a_no(store: Store, column: str) -> None:
    """The operator saw something harmless and signed that: it is not what was asked."""
    change = f"{column} = 'harmless', mac = ?"
    said = answered_in_the_database(store, change, lambda asked: (signed(asked, other={column: "harmless"}),))
    assert "the question was changed" in said.comment


def test_a_call_cannot_be_made_to_look_like_a_step(store: Store) -> None:
    """Of a step no risk is shown."""
    seen = answered_in_the_database(
        store, "kind = 'step', mac = ?", lambda asked: (signed(asked, other={"kind": "step"}),)
    )
    assert "the question was changed" in seen.comment


@pytest.mark.parametrize(
    ("kind", "head"), [("call", "SOP x, step y (medium risk: why)"), ("step", "SOP x, step y asks: why")]
)
def test_a_step_is_known_by_its_kind_and_not_by_its_name(store: Store, kind: Kind, head: str) -> None:
    asked = ApprovalRequest("SOP x, step y", "medium", "why", "what", "t", kind=kind)
    asyncio.run(durable(store, Slow(0)).approve(asked))
    assert [displayed_request(asked).head, displayed_request(row(store)).head] == [head] * 2


def answered_in_the_database(
    store: Store, change: str, given: Callable[[approvals.Approval], tuple[str | None, ...]]
) -> Answer:
    async def forged() -> Answer:
        waiting = asyncio.ensure_future(durable(store, Slow(60)).approve(REQUEST))
        await asyncio.sleep(0.02)
        made = given(row(store))
        with store.write() as cursor:
            cursor.execute(f"UPDATE approvals SET answer = 'yes', answered_by = 'elsewhere', {change}", made)
        return await waiting

    said = asyncio.run(forged())
    assert (said.approved, said.by) == (False, "no_operator")
    return said


def test_the_operator_here_is_second(store: Store) -> None:
    """Both answer between two looks at the row: the one in the row counts."""

    async def both() -> Answer:
        waiting = asyncio.ensure_future(durable(store, Slow(0.1)).approve(REQUEST))
        await asyncio.sleep(0.02)
        assert answer(store, "no", by="elsewhere", now=time.time())
        return await waiting

    assert asyncio.run(both()) == Answer(False, "elsewhere", "")


@pytest.mark.parametrize(
    ("given", "by"), [({"seconds": 0.1}, "timeout"), ({"stopped": lambda: True}, "estop")], ids=["expiry", "stop"]
)
def test_nobody_answers(store: Store, given: dict[str, Any], by: str) -> None:
    said = asyncio.run(durable(store, Slow(60), **given).approve(REQUEST))
    assert (said.approved, said.by) == (False, by)
    assert (row(store).answer, row(store).answered_by) == ("no", by)


def test_a_yes_after_the_expiry_is_a_no(store: Store) -> None:
    said = asyncio.run(durable(store, Slow(0.15), seconds=0.05).approve(REQUEST))
    assert (said.approved, said.by) == (False, "timeout")


def test_an_interruption_settles_the_row(store: Store) -> None:
    async def interrupted() -> None:
        waiting = asyncio.ensure_future(durable(store, Slow(60)).approve(REQUEST))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await waiting

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    assert (row(store).answer, row(store).answered_by) == ("no", "interrupted")


def test_a_removed_row_is_a_no(store: Store) -> None:
    async def removed() -> Answer:
        waiting = asyncio.ensure_future(durable(store, Slow(60)).approve(REQUEST))
        await asyncio.sleep(0.05)
        with store.write() as cursor:
            cursor.execute("DELETE FROM approvals")
        return await waiting

    assert not asyncio.run(removed()).approved


class Broken:
    """An operator who fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def approve(self, request: ApprovalRequest) -> Answer:
        raise self.error

    async def ask(self, request: QuestionRequest) -> Answer:
        raise self.error


def test_an_operator_who_is_gone_says_no(store: Store) -> None:
    said = asyncio.run(durable(store, Broken(BrokenPipeError("gone"))).approve(REQUEST))
    assert (said.approved, said.by) == (False, "no_operator")
    assert (row(store).answer, row(store).answered_by) == ("no", "no_operator")


def test_an_operator_who_fails_leaves_no_open_question(store: Store) -> None:
    with pytest.raises(KeyError):
        asyncio.run(durable(store, Broken(KeyError("oops"))).approve(REQUEST))
    assert (row(store).answer, row(store).answered_by) == ("no", "interrupted")


@pytest.mark.parametrize(
    ("operator", "seconds", "told"),
    [
        (Slow(0), None, ["approval_requested", "approval_answered"]),
        (Slow(0, approved=False), None, ["approval_requested", "approval_answered"]),
        (Slow(60), 0.05, ["approval_requested", "approval_expired", "approval_answered"]),
        (Broken(OSError("x")), None, ["approval_requested", "approval_answered"]),
    ],
    ids=["yes", "no", "expired", "gone"],
)
def test_questions_and_answers_are_told(
    store: Store, operator: Slow | Broken, seconds: float | None, told: list[str]
) -> None:
    heard: list[Any] = []
    said = asyncio.run(durable(store, operator, seconds=seconds, tell=heard.append).approve(REQUEST))
    assert [event["event_type"] for event in heard] == told
    assert {event["approval_id"] for event in heard} == {"approval-1"}
    assert (heard[-1]["approved"], heard[-1]["by"]) == (said.approved, said.by)


def test_what_is_told_says_nothing_of_the_room_that_who_is_asked_reads_of(store: Store) -> None:
    """A replay compares what was told: a sentence for the person who is asked is none of it."""
    heard: list[Any] = []
    request = replace(REQUEST, room="it runs with the network off")
    asyncio.run(durable(store, Slow(0), tell=heard.append).approve(request))
    assert "network" not in heard[0]["reason"]
    assert row(store).reason.endswith("; it runs with the network off")
    assert displayed_request(request).reason.endswith("; it runs with the network off")


# ------------------------------------------------------------------ who may answer what


async def while_asked(asking: Awaitable[Answer], store: Store, act: Callable[[Approval], None]) -> Answer:
    """What comes of a question while which somebody else acts on its row."""
    task = asyncio.ensure_future(asking)
    await asyncio.sleep(0)  # the row is written before anything is waited for
    (waiting,) = approvals.listing(store, everything=False, limit=9)
    act(waiting)
    return await task


def test_raw_bash_that_a_person_is_asked_about_is_approved_at_a_terminal_alone(store: Store) -> None:
    def act(asked: Approval) -> None:
        with pytest.raises(AnswerRejected, match="only a person at a terminal"):
            answer_row(store, lambda: KEY, asked, Answer(True, BY_ROW))
        answer_row(store, lambda: KEY, asked, Answer(True, BY_ROW), at_terminal=True)

    raw = replace(REQUEST, at_terminal=True)
    assert asyncio.run(while_asked(durable(store, Slow(600)).approve(raw), store, act)).approved


def test_a_row_that_no_longer_says_so_is_approved_by_nobody(store: Store) -> None:
    def act(asked: Approval) -> None:
        with store.write() as cursor:
            cursor.execute("UPDATE approvals SET terminal = 0")
        answer_row(store, lambda: KEY, asked._replace(terminal=0), Answer(True, BY_ROW))

    raw = replace(REQUEST, at_terminal=True)
    given = asyncio.run(while_asked(durable(store, Slow(600)).approve(raw), store, act))
    assert (given.approved, given.by) == (False, "no_operator")


def test_everybody_may_say_no_to_it(store: Store) -> None:
    def act(asked: Approval) -> None:
        answer_row(store, lambda: KEY, asked, Answer(False, BY_ROW))

    raw = replace(REQUEST, at_terminal=True)
    assert not asyncio.run(while_asked(durable(store, Slow(600)).approve(raw), store, act)).approved


COLOUR = QuestionRequest((Question("Which sk-secret?", "H", (Option("red"), Option("blue"))),), "MCP server x")


def test_what_a_server_asks_is_a_row_without_what_the_person_answered(store: Store) -> None:
    given = asyncio.run(durable(store, Replying({"Which sk-secret?": "my address"})).ask(COLOUR))
    assert given.replies == {"Which sk-secret?": "my address"}
    (kept,) = approvals.listing(store, everything=True, limit=9)
    assert (kept.answer, kept.replies, kept.used_at is not None) == ("yes", "", True)
    assert "sk-secret" not in kept.questions + kept.shown


def test_what_a_server_asked_is_not_answered_when_its_process_has_ended(store: Store) -> None:
    with store.write() as cursor:
        asked = approvals.ask(
            cursor,
            id="question-1",
            session_id="session",
            tool_use_id="",
            tool="MCP server x",
            risk="low",
            reason="why",
            shown="Which?",
            plan_hash="p" * 64,
            now=1.0,
            seconds=None,
            questions='[{"question":"Which?","header":"H","options":[],"multi":false}]',
        )
        gone = subprocess.Popen(["true"])
        gone.wait()
        cursor.execute("UPDATE approvals SET pid = ?", (gone.pid,))
    left = approvals.get(store, asked.id)
    assert left is not None
    with pytest.raises(AnswerRejected, match="has ended"):
        answer_row(store, lambda: KEY, left, Answer(True, BY_ROW, replies={"Which?": "x"}))


class Replying:
    """An operator who answers questions."""

    def __init__(self, replies: Replies) -> None:
        self.replies = replies

    async def approve(self, request: ApprovalRequest) -> Answer:
        return Answer(False, "operator")

    async def ask(self, request: QuestionRequest) -> Answer:
        return answer_with(self.replies)
