"""Plans, and the phase of a conversation, which each change of a plan carries along in its transaction."""

import hashlib
import sqlite3
from typing import NamedTuple

from adderclaw.store import Store
from adderclaw.store.text import compact, plain
from adderclaw.types import Phase


class Plan(NamedTuple):
    id: int
    content: str
    hash: str
    status: str
    created_at: str
    approved_at: str | None


_SELECT = "SELECT id, content, hash, status, created_at, approved_at FROM plans"


def last(store: Store, conversation_id: str, status: str | None = None) -> Plan | None:
    rows = store.read(
        f"{_SELECT} WHERE conversation_id = ? AND status = coalesce(?, status) ORDER BY id DESC LIMIT 1",
        (conversation_id, status),
    )
    return Plan(*rows[0]) if rows else None


def phase_of(store: Store, conversation_id: str) -> Phase:
    rows = store.read("SELECT phase FROM conversations WHERE id = ?", (conversation_id,))
    return rows[0][0] if rows else "idle"


def move(cursor: sqlite3.Cursor, conversation_id: str, phase: Phase, why: str) -> None:
    """The conversation enters a phase; the caller's transaction holds what the change rests on."""
    before = cursor.execute("SELECT phase FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
    cursor.execute(
        "UPDATE conversations SET phase = ?, last_active = datetime('now') WHERE id = ?", (phase, conversation_id)
    )
    detail = compact({"from": before[0] if before else None, "to": phase, "why": why})
    cursor.execute(
        "INSERT INTO events(conversation_id, event_type, detail) VALUES (?, 'phase_changed', ?)",
        (conversation_id, detail),
    )


def enter(cursor: sqlite3.Cursor, conversation_id: str) -> None:
    """A new cycle begins: what was planned before no longer counts."""
    cursor.execute(
        "UPDATE plans SET status = 'superseded' WHERE conversation_id = ? AND status IN ('draft', 'approved')",
        (conversation_id,),
    )
    move(cursor, conversation_id, "planning", "EnterPlanMode")


def draft(cursor: sqlite3.Cursor, conversation_id: str, content: str) -> int:
    """A plan to be approved; an earlier draft is superseded."""
    content = plain(content)
    cursor.execute(
        "UPDATE plans SET status = 'superseded' WHERE conversation_id = ? AND status = 'draft'", (conversation_id,)
    )
    (number,) = cursor.execute(
        "INSERT INTO plans(conversation_id, content, hash) VALUES (?, ?, ?) RETURNING id",
        (conversation_id, content, hashlib.sha256(content.encode()).hexdigest()),
    ).fetchone()
    return number


def approve(cursor: sqlite3.Cursor, number: int) -> bool:
    """Whether the plan was a draft until now."""
    cursor.execute(
        "UPDATE plans SET status = 'approved', approved_at = datetime('now') WHERE id = ? AND status = 'draft'",
        (number,),
    )
    return cursor.rowcount == 1


def implement(cursor: sqlite3.Cursor, conversation_id: str) -> bool:
    """planning → implement, which only an approved plan opens; whether it did."""
    (open_,) = cursor.execute(
        "SELECT EXISTS(SELECT 1 FROM plans WHERE conversation_id = ? AND status = 'approved')"
        " AND EXISTS(SELECT 1 FROM conversations WHERE id = ? AND phase = 'planning')",
        (conversation_id, conversation_id),
    ).fetchone()
    if open_:
        move(cursor, conversation_id, "implement", "the plan is approved")
    return bool(open_)
