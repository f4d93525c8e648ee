"""Questions of runs: shows them to operators and passes the answers to the process that asks, on any machine.

A question that stays open ends the run's process, and the resumed run finds the answer in its store. For other
questions the process waits, and its worker gives its slot to another run.
"""

import hmac
import json
import os
from typing import Any

from adderclaw.agent.tool_call.approvals import BY_ROW, answer_row, matching_replies
from adderclaw.core import home_names
from adderclaw.core.decode import Invalid, decode
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import Answer, Replies
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.fleet import queue
from adderclaw.fleet.database import Cursor, Database, notify
from adderclaw.fleet.keys import Key
from adderclaw.fleet.leases import Lease, require
from adderclaw.storage import Store, approvals

DOOR = "fleet"
"""The webhook for signed answers, whose secret `adderclaw fleet webhook` creates."""
OPEN = "(r.state = 'waiting' OR (r.state = 'running' AND q.token = r.token)) AND q.answer IS NULL"
"""SQL: unanswered questions whose process still waits, or whose run waits."""
UNCHECKED = "this machine has no fleet key, so it could not check that a worker asked this"
FORGED = "the answer to {id} was not made with the fleet's key"


def open_question(home: str) -> Json | None:
    """The question that the run in this home waits for after its process ends; None if there is none."""
    return _read(home, "")


def question(home: str, id: str) -> Json | None:
    """A question that the run's process waits for."""
    return _read(home, id)


def _read(home: str, id: str) -> Json | None:
    store = Store.open(os.path.join(home, home_names.DATABASE), read_only=True)
    try:
        questions = [
            question for question in approvals.listing(store, everything=False, limit=20) if question.answer is None
        ]
        questions = [question for question in questions if question.id == id or (not id and question.stays)]
        return _as_json(questions[-1]) if questions else None
    finally:
        store.close()


def _as_json(asked: approvals.Approval) -> Json:
    return {
        "id": asked.id,
        "tool": asked.tool,
        "risk": asked.risk,
        "reason": asked.reason,
        "shown": asked.shown,
        "plan": asked.plan_hash,
        "agent": asked.agent,
        "terminal": bool(asked.terminal),
        "questions": asked.questions,
        "kind": asked.kind,
    }


def row_of(asked: Json, at: str = "") -> approvals.Approval:
    """A question as a row of approvals, for showing and answering it."""
    return approvals.Approval(
        id=asked["id"],
        session_id="",
        tool_use_id="",
        tool=asked["tool"],
        risk=asked["risk"],
        reason=asked["reason"],
        shown=asked["shown"],
        plan_hash=asked["plan"],
        pid=0,
        created_at=at,
        agent=asked.get("agent", ""),
        terminal=int(asked["terminal"]),
        questions=asked["questions"],
        kind=asked.get("kind", "call"),
    )


def ask(database: Database, key: Key, lease: Lease, asked: Json) -> None:
    """Stores a question that the run's process waits for."""

    def work(cursor: Cursor) -> None:
        require(cursor, lease)
        put(cursor, key, lease.run, asked, lease.token)
        notify(cursor, f"waiting {lease.run}")

    database.do(work)


def put(cursor: Cursor, key: Key, run_id: str, asked: Json, token: int = 0) -> None:
    """Stores a question with the worker's seal, so that it cannot be forged by writing rows.

    `token`: of the process that waits; 0 if the run waits.
    """
    cursor.execute(
        "INSERT INTO fleet.questions (run, id, question, token, seal) VALUES (%s, %s, %s::jsonb, %s, %s)"
        " ON CONFLICT DO NOTHING",
        (run_id, asked["id"], canonical(asked), token, _seal(key, run_id, asked)),
    )


def _seal(key: Key, run_id: str, asked: Json) -> str:
    return key.mac("questions", canonical([run_id, asked]))


def _require_sealed(key: Key, run_id: str, id: str, asked: Json, seal: str) -> None:
    if not hmac.compare_digest(seal.encode(), _seal(key, run_id, asked).encode()) or asked.get("id") != id:
        fix = "check who writes to the database; if its worker has another key, cancel the run and submit it again"
        raise AdderClawError(f"the question {id} of run {run_id} does not match its worker's seal; {fix}")


def given(database: Database, key: Key, lease: Lease, id: str, asked: Json | None) -> Json | None:
    """The answer to a question that a process waits for; None if there is none yet."""
    row = database.one(
        "SELECT id, question, answer, by, mac FROM fleet.questions WHERE run = %s AND id = %s AND answer IS NOT NULL",
        lease.run,
        id,
    )
    if row is None:
        return None
    why = _why_answer_is_invalid(key, lease.run, row, asked)
    return {"approved": False, "comment": why, "by": ""} if why else {**row.answer, "by": row.by}


def _why_answer_is_invalid(key: Key, run_id: str, row: Any, asked: Json | None) -> str:
    """Why an answer is not valid for what the run asks; empty if it is. Rows are untrusted."""
    mac = key.mac("answers", _signed(run_id, row.question, row.answer, row.by))
    if not hmac.compare_digest(str(row.mac).encode(), mac.encode()):
        return FORGED.format(id=row.id)
    if asked is None or row_of(row.question) != row_of(asked):
        return f"the answer to {row.id} is about another question"
    return ""


def answer(
    database: Database,
    key: Key,
    run_id: str,
    *,
    approved: bool,
    by: str,
    comment: str = "",
    replies: Replies | None = None,
    id: str = "",
) -> Json:
    """Answers a question of a run, by its id or the latest. The first answer counts, and the run continues at once."""

    def work(cursor: Cursor) -> Json:
        run = cursor.execute("SELECT * FROM fleet.runs WHERE id = %s FOR UPDATE", (run_id,)).fetchone()
        if run is None:
            raise UsageError(f"there is no run {run_id!r}; `adderclaw fleet list` lists them")
        asked = cursor.execute(
            "SELECT q.id, q.question, q.seal FROM fleet.questions q JOIN fleet.runs r ON r.id = q.run"  # noqa: S608 - ours
            f" WHERE q.run = %s AND {OPEN} AND (%s = '' OR q.id = %s) ORDER BY q.asked DESC LIMIT 1",
            (run_id, id, id),
        ).fetchone()
        if asked is None:
            what = f"the question {id}" if id else "an answer"
            raise AdderClawError(f"run {run_id} does not wait for {what}: it is {run.outcome or run.state}")
        _require_sealed(key, run_id, asked.id, asked.question, asked.seal)
        reply = _checked_answer(row_of(asked.question), approved=approved, comment=comment, replies=replies)
        cursor.execute(
            "UPDATE fleet.questions SET answer = %s::jsonb, by = %s, mac = %s, answered = now()"
            " WHERE run = %s AND id = %s",
            (canonical(reply), by, key.mac("answers", _signed(run_id, asked.question, reply, by)), run_id, asked.id),
        )
        if run.state == "waiting":
            queue.again(cursor, run)
        notify(cursor, f"answered {run_id}")
        return {"run_id": run_id, "question": asked.question, **reply}

    return database.do(work)


def _checked_answer(asked: approvals.Approval, *, approved: bool, comment: str, replies: Replies | None) -> Json:
    """The answer, checked against the question."""
    reply: Json = {"approved": approved, "comment": comment}
    if not approved:
        return reply
    if asked.terminal:
        raise AdderClawError(f"{asked.id}: only a person at a terminal may answer yes; fetch the run and answer there")
    if asked.questions:
        return {**reply, "replies": matching_replies(asked, replies)}
    if replies:
        raise UsageError(f"{asked.id} is answered with yes or no and takes no reply")
    return reply


def _signed(run_id: str, asked: Json, reply: Json, by: str) -> str:
    """The text of an answer and its question, for the MAC."""
    return canonical([run_id, asked, reply, by])


def take_answers(database: Database, key: Key, run_id: str, home: str) -> None:
    """Writes the answers into the run's own store, where the resumed run finds them."""
    rows = database.rows(
        "SELECT id, question, answer, by, mac FROM fleet.questions WHERE run = %s AND answer IS NOT NULL", run_id
    )
    path = os.path.join(home, home_names.DATABASE)
    if not rows or not os.path.exists(path):
        return
    store = Store.open(path)
    try:
        for row in rows:
            asked = approvals.get(store, row.id)
            if asked is None or asked.answer is not None or not asked.stays:
                continue
            if why := _why_answer_is_invalid(key, run_id, row, _as_json(asked)):
                raise AdderClawError(why)
            reply = Answer(bool(row.answer["approved"]), BY_ROW, str(row.answer["comment"]), who=f"{row.by} (fleet)")
            answer_row(store, lambda: key.receipts(run_id), asked, reply)
    finally:
        store.close()


def waiting(database: Database, key: Key | None) -> list[Json]:
    """Open questions, oldest first. A question without a valid seal is shown as an error.

    Without the key, seals cannot be checked, and each question says so.
    """
    rows = database.rows(
        "SELECT r.id, q.id AS question_id, q.question, q.seal, q.asked FROM fleet.runs r"  # noqa: S608
        f" JOIN fleet.questions q ON q.run = r.id WHERE {OPEN} ORDER BY q.asked"
    )
    return [{"run_id": row.id, "asked": row.asked.isoformat(), **_shown(key, row)} for row in rows]


def _shown(key: Key | None, row: Any) -> Json:
    try:
        if key is not None:
            _require_sealed(key, row.id, row.question_id, row.question, row.seal)
        else:
            _require_whole(row)
    except AdderClawError as error:
        unknown = approvals.Approval(row.question_id, "", "", "?", "high", str(error), "", "", 0, "", terminal=1)
        return _as_json(unknown)
    question: Json = row.question
    return question if key is not None else {**question, "unchecked": UNCHECKED}


@record
class _Question:
    """The format of `_as_json`."""

    id: str
    tool: str
    risk: str
    reason: str
    shown: str
    plan: str
    terminal: bool
    questions: str
    agent: str = ""
    kind: str = "call"


@record
class _Option:
    label: str
    description: str


@record
class _Part:
    question: str
    header: str
    options: list[_Option]
    multi: bool


def _require_whole(row: Any) -> None:
    """Refuses rows that are not questions, so that showing them does not fail."""
    try:
        asked = decode(_Question, row.question)
        decode(list[_Part], json.loads(asked.questions or "[]"))
    except (Invalid, ValueError, RecursionError) as error:
        raise AdderClawError(
            f"the question {row.question_id} of run {row.id} does not have the format of a question"
        ) from error


def questions_of_run(database: Database, key: Key | None, run_id: str) -> list[Json]:
    """All questions of a run with their answers. Anything without a valid seal is not shown."""
    rows = database.rows(
        "SELECT run AS id, id AS question_id, question, seal, answer, by, mac FROM fleet.questions WHERE run = %s"
        " ORDER BY asked",
        run_id,
    )
    return [{"id": row.question_id, "question": _shown(key, row), **_answer_text(key, row)} for row in rows]


def _answer_text(key: Key | None, row: Any) -> Json:
    if row.answer is None or key is None:
        return {"answer": row.answer, "by": row.by}
    mac = key.mac("answers", _signed(row.id, row.question, row.answer, row.by))
    if hmac.compare_digest(str(row.mac).encode(), mac.encode()):
        return {"answer": row.answer, "by": row.by}
    return {"answer": FORGED.format(id=row.question_id), "by": None}
