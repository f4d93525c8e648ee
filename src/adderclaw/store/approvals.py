"""Pending approvals as rows: whoever answers first decides, exactly once, and what expires is denied.

A yes is signed with the operator's key, so that whoever can only write the database cannot give one.
"""

import hashlib
import hmac
import os
import sqlite3
from typing import Literal, NamedTuple

from adderclaw.errors import UsageError
from adderclaw.json_text import canonical
from adderclaw.store import Store
from adderclaw.store.text import iso, plain

type Word = Literal["yes", "no"]


class Approval(NamedTuple):
    id: str
    session_id: str
    tool_use_id: str
    tool: str
    risk: str
    reason: str
    shown: str
    plan_hash: str
    """Of exactly what is asked about; what runs has the same."""
    pid: int
    """The process that waits for the answer."""
    created_at: str
    expires_at: str | None
    answer: Word | None
    answered_by: str | None
    answered_at: str | None
    comment: str | None
    mac: str | None = None

    def is_signed(self, key: bytes) -> bool:
        """Whether its yes was given by somebody who has the key."""
        return hmac.compare_digest(sign(key, self, self.answered_by or ""), self.mac or "")

    @property
    def asked(self) -> tuple[str, ...]:
        """All that whoever answers goes by."""
        return (self.id, self.plan_hash, self.tool, self.risk, self.reason, self.shown)

    def state(self, now: float) -> str:
        """pending, yes, no, expired, or abandoned: the process that asked has ended without an answer."""
        if self.answer is not None:
            return self.answer
        if self.expires_at is not None and self.expires_at <= iso(now):
            return "expired"
        return "pending" if _alive(self.pid) else "abandoned"


_SELECT = (
    "SELECT id, session_id, tool_use_id, tool, risk, reason, shown, plan_hash, pid, created_at, expires_at,"
    " answer, answered_by, answered_at, comment, mac FROM approvals"
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
) -> None:
    """Write a question down. What an earlier process of this session asked and nobody answered is settled: no."""
    pid = os.getpid()
    cursor.execute(
        "UPDATE approvals SET answer = 'no', answered_by = 'abandoned', answered_at = ?"
        " WHERE session_id = ? AND answer IS NULL AND pid <> ?",
        (iso(now), session_id, pid),
    )
    expires = None if seconds is None else iso(now + seconds)
    texts = map(plain, (id, session_id, tool_use_id, tool, risk, reason, shown, plan_hash))
    cursor.execute(
        "INSERT INTO approvals(id, session_id, tool_use_id, tool, risk, reason, shown, plan_hash, pid, created_at,"
        " expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*texts, pid, iso(now), expires),
    )


def sign(key: bytes, asked: Approval, by: str) -> str:
    """What a yes to exactly this question is signed with: to what runs, and to what was shown of it."""
    signed = canonical(["approval", *asked.asked, "yes", by])
    return hmac.new(key, signed.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def answer(
    cursor: sqlite3.Cursor, id: str, word: Word, *, by: str, comment: str, now: float, mac: str | None = None
) -> bool:
    """Whether this answer is the one that counts: nobody answered before, and it is not too late for a yes."""
    cursor.execute(
        "UPDATE approvals SET answer = :word, answered_by = :by, answered_at = :now, comment = :comment, mac = :mac"
        " WHERE id = :id AND answer IS NULL AND (:word = 'no' OR expires_at IS NULL OR expires_at > :now)",
        {"word": word, "by": by, "now": iso(now), "comment": plain(comment), "mac": mac, "id": id},
    )
    return cursor.rowcount == 1


def get(store: Store, id: str) -> Approval | None:
    """The approval with this id, or the only one whose id begins so."""
    id = plain(id)
    rows = store.read(f"{_SELECT} WHERE id = ?", (id,))
    if not rows and id:
        rows = store.read(f"{_SELECT} WHERE instr(id, ?) = 1 LIMIT 4", (id,))
    if len(rows) > 1:
        raise UsageError(f"{id!r} begins several approvals ({', '.join(row[0] for row in rows)}): give more of the one")
    return Approval(*rows[0]) if rows else None


def listing(store: Store, *, everything: bool, limit: int) -> list[Approval]:
    """Those without an answer, or all; the oldest first."""
    where = "" if everything else " WHERE answer IS NULL"
    rows = store.read(f"{_SELECT}{where} ORDER BY created_at DESC, rowid DESC LIMIT ?", (limit,))
    return [Approval(*row) for row in reversed(rows)]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
