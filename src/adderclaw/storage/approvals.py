"""Questions as rows: the first answer decides and is used once, also by a resumed call; expired questions are denied.

A yes is signed with the operator's key, so that a program that can only write to the database cannot forge one.
"""

import hashlib
import hmac
import json
import os
import sqlite3
from collections.abc import Container, Sequence
from typing import Literal

from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store, locks
from adderclaw.storage.text import iso, plain

type Answer = Literal["yes", "no"]


class Approval(NamedTuple):
    id: str
    session_id: str
    tool_use_id: str
    tool: str
    risk: str
    reason: str
    shown: str
    plan_hash: str
    """The hash of the plan that the question shows; only a plan with this hash runs."""
    pid: int
    """The process that waits for the answer."""
    created_at: str
    expires_at: str | None = None
    answer: Answer | None = None
    answered_by: str | None = None
    answered_at: str | None = None
    comment: str | None = None
    mac: str | None = None
    channel: str = ""
    """The channel that asked: cli, repl, rpc, …"""
    agent: str = ""
    """The kind of subagent that asked; empty for the session's own agent."""
    answered_who: str | None = None
    """The person who answered, and where."""
    used_at: str | None = None
    """When a process acted on the answer. A yes is used once."""
    terminal: int = 0
    """1: only a person at a terminal may say yes."""
    questions: str = ""
    """The questions as JSON; empty for a yes-or-no question."""
    replies: str = ""
    """The answers to `questions` as JSON."""
    stays: int = 0
    """1: the question waits for an answer even after the process that asked has ended."""
    kind: str = "call"
    """call or step: `questions.Kind`."""

    def is_signed(self, key: bytes) -> bool:
        """Whether the yes was signed with this key."""
        mac = sign(key, self, self.answered_by or "", self.answered_who or "", self.replies)
        return hmac.compare_digest(mac, self.mac or "")

    @property
    def is_resumable(self) -> bool:
        """Whether a resumed conversation asks the question again: a call does, an MCP server's question does not."""
        return not self.questions or bool(self.tool_use_id)

    @property
    def reply_values(self) -> dict[str, str] | None:
        """The answers to the questions, or None if there are no answers."""
        return json.loads(self.replies) if self.replies else None

    @property
    def question_identity(self) -> tuple[str, ...]:
        """The fields that identify a question, so that a resumed call finds the one it asked before."""
        who = (self.session_id, self.tool_use_id, self.agent)
        marks = [word for word, there in (("terminal", self.terminal), ("step", self.kind == "step")) if there]
        more = (*marks, *((self.questions,) if self.questions else ()))
        return (*who, self.plan_hash, self.tool, self.risk, self.reason, self.shown, *more)

    @property
    def signed_fields(self) -> tuple[str, ...]:
        """The fields of the question that the signature of an answer covers."""
        return (self.id, self.expires_at or "", *self.question_identity)

    def is_late(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= iso(now)

    def state(self, now: float) -> str:
        """pending, yes, no, expired, or left: the process that asked has ended; a resumed one can use the answer."""
        if self.answer is not None:
            return self.answer
        if self.is_late(now):
            return "expired"
        return "pending" if self.stays or locks.is_alive(self.pid) else "left"


_SELECT = (
    "SELECT id, session_id, tool_use_id, tool, risk, reason, shown, plan_hash, pid, created_at, expires_at,"
    " answer, answered_by, answered_at, comment, mac, channel, agent, answered_who, used_at, terminal, questions_json,"
    " replies_json, stays, kind FROM approvals"
)


def ask(
    cursor: sqlite3.Cursor,
    *,
    id: str,
    session_id: str,
    tool_use_id: str,
    tool: str,
    risk: str,
    reason: str,
    shown: str,
    plan_hash: str,
    now: float,
    seconds: float | None,
    channel: str = "",
    agent: str = "",
    ours: Container[str] = (),
    terminal: bool = False,
    questions: str = "",
    stays: bool = False,
    kind: str = "call",
) -> Approval:
    """Store a question, or reuse the same question of an ended process, answered or not.

    `ours` are the open questions of this process. Questions of ended processes about other calls are answered with no.
    A question that `stays` is reused even after it has expired.
    """
    new = Approval(
        id=plain(id),
        session_id=plain(session_id),
        tool_use_id=plain(tool_use_id),
        tool=plain(tool),
        risk=plain(risk),
        reason=plain(reason),
        shown=plain(shown),
        plan_hash=plain(plan_hash),
        pid=os.getpid(),
        created_at=iso(now),
        expires_at=None if seconds is None else iso(now + seconds),
        channel=plain(channel),
        agent=plain(agent),
        terminal=int(terminal),
        questions=plain(questions),
        stays=int(stays),
        kind=kind,
    )
    same = _find_same(cursor, new, ours, now, stays=stays)
    _settle_abandoned(cursor, new, ours, same)
    if same is not None:
        return same
    cursor.execute(
        "INSERT INTO approvals(id, session_id, tool_use_id, tool, risk, reason, shown, plan_hash, pid, created_at,"
        " expires_at, channel, agent, terminal, questions_json, stays, kind)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*new[:11], new.channel, new.agent, new.terminal, new.questions, new.stays, new.kind),
    )
    return new


def _find_same(
    cursor: sqlite3.Cursor, new: Approval, ours: Container[str], now: float, *, stays: bool
) -> Approval | None:
    """The same unused question of an ended process: not expired, unless it stays or was answered with no."""
    sql = f"{_SELECT} WHERE session_id = ? AND used_at IS NULL ORDER BY rowid DESC"
    rows = [Approval(*row) for row in cursor.execute(sql, (new.session_id,))]
    same = (row for row in rows if row.id not in ours and row.question_identity == new.question_identity)
    return next((row for row in same if row.answer == "no" or stays or not row.is_late(now)), None)


def _settle_abandoned(cursor: sqlite3.Cursor, new: Approval, ours: Container[str], same: Approval | None) -> None:
    """Close the open questions of the session's ended processes, except the one that is reused."""
    rows = cursor.execute("SELECT id FROM approvals WHERE session_id = ? AND used_at IS NULL", (new.session_id,))
    for (id,) in rows.fetchall():
        if same is not None and id == same.id:
            cursor.execute("UPDATE approvals SET pid = ? WHERE id = ? AND answer IS NULL", (new.pid, id))
        elif id not in ours:
            cursor.execute(
                "UPDATE approvals SET answered_by = iif(answer IS NULL, 'abandoned', answered_by),"
                " answered_at = coalesce(answered_at, :now), answer = coalesce(answer, 'no'), used_at = :now"
                " WHERE id = :id",
                {"now": new.created_at, "id": id},
            )


def mark_used(cursor: sqlite3.Cursor, id: str, now: float) -> bool:
    """Mark an answer as used; returns whether it was unused: each answer is used once."""
    cursor.execute(
        "UPDATE approvals SET used_at = ? WHERE id = ? AND answer IS NOT NULL AND used_at IS NULL", (iso(now), id)
    )
    return cursor.rowcount == 1


def sign(key: bytes, asked: Approval, by: str, who: str = "", replies: str = "") -> str:
    """The signature of a yes to this question: it covers what runs, what was shown, and who answered."""
    signed = canonical(["approval", *asked.signed_fields, "yes", by, who, *([replies] if replies else [])])
    return hmac.new(key, signed.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def answer(
    cursor: sqlite3.Cursor,
    id: str,
    word: Answer,
    *,
    by: str,
    comment: str,
    now: float,
    mac: str | None = None,
    who: str = "",
    used: bool = False,
    replies: str = "",
) -> bool:
    """Store an answer; returns whether it was accepted: only the first answer is, and a yes only before it expires.

    `used`: the answer goes to the waiting process, which acts on it at once.
    """
    cursor.execute(
        "UPDATE approvals SET answer = :word, answered_by = :by, answered_at = :now, comment = :comment, mac = :mac,"
        " answered_who = :who, used_at = iif(:used, :now, NULL), replies_json = :replies"
        " WHERE id = :id AND answer IS NULL AND (:word = 'no' OR expires_at IS NULL OR expires_at > :now)",
        {
            "word": word,
            "by": by,
            "now": iso(now),
            "comment": plain(comment),
            "mac": mac,
            "id": id,
            "who": plain(who),
            "used": used,
            "replies": plain(replies),
        },
    )
    return cursor.rowcount == 1


def used_by_call(store: Store, session_id: str, tool_use_id: str) -> str:
    """The id of the question whose answer allowed a call; empty if no question was asked."""
    rows = store.read(
        "SELECT id FROM approvals WHERE session_id = ? AND tool_use_id = ? AND answer = 'yes' AND used_at IS NOT NULL"
        " ORDER BY rowid DESC LIMIT 1",
        (session_id, tool_use_id),
    )
    return str(rows[0][0]) if rows else ""


def open_question(store: Store, session_id: str) -> Approval | None:
    """The latest lasting question of a session whose answer is not used yet."""
    sql = f"{_SELECT} WHERE session_id = ? AND used_at IS NULL AND stays ORDER BY rowid DESC LIMIT 1"
    rows = store.read(sql, (session_id,))
    return Approval(*rows[0]) if rows else None


def is_waiting(store: Store, session_id: str) -> bool:
    """Whether a question of a session has no answer."""
    return bool(store.read("SELECT 1 FROM approvals WHERE session_id = ? AND answer IS NULL LIMIT 1", (session_id,)))


def decided_sops(store: Store, now: str) -> list[str]:
    """Ids of unfinished SOP runs with an unused question that was answered or has expired."""
    rows = store.read(
        # Each tick runs this query: start from the few open questions, because there may be many runs.
        "SELECT DISTINCT r.run_id FROM approvals a INDEXED BY idx_approvals_open CROSS JOIN runs r"
        " ON r.session_id = a.session_id WHERE r.kind = 'sop' AND a.stays AND a.used_at IS NULL"
        " AND (a.answer IS NOT NULL OR a.expires_at <= ?)"
        " AND (r.outcome IS NULL OR r.outcome IN ('needs_input', 'stopped')) ORDER BY r.rowid",
        (now,),
    )
    return [row[0] for row in rows]


def get(store: Store, id: str) -> Approval | None:
    """The approval with this id or unique prefix."""
    id = plain(id)
    rows = store.read(f"{_SELECT} WHERE id = ?", (id,))
    if not rows and id:
        rows = store.read(f"{_SELECT} WHERE instr(id, ?) = 1 LIMIT 4", (id,))
    if len(rows) > 1:
        raise UsageError(f"{id!r} matches several approvals ({', '.join(row[0] for row in rows)}). Use a longer prefix")
    return Approval(*rows[0]) if rows else None


def listing(
    store: Store, *, everything: bool, limit: int, workspaces: Sequence[str] = (), conversation: str | None = None
) -> list[Approval]:
    """Open questions, or all with `everything`, oldest first; only those of these workspaces or this conversation."""
    conditions, values = ["1" if everything else "answer IS NULL"], list[str | int]()
    if workspaces or conversation is not None:
        of = [f"c.project_dir IN ({', '.join('?' * len(workspaces))})"] if workspaces else []
        of += ["c.id = ?"] if conversation is not None else []
        sessions = "SELECT s.session_id FROM sessions s JOIN conversations c ON c.id = s.conversation_id"
        conditions.append(f"session_id IN ({sessions} WHERE {' AND '.join(of)})")
        values += [*map(plain, workspaces), *([plain(conversation)] if conversation is not None else [])]
    sql = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY created_at DESC, rowid DESC LIMIT ?"
    rows = store.read(sql, (*values, limit))
    return [Approval(*row) for row in reversed(rows)]
