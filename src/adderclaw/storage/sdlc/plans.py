"""Plans of a conversation. Each change is a new version, and only the approved plan counts."""

import hashlib
import sqlite3
from collections.abc import Mapping

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.sdlc import criteria
from adderclaw.storage.text import compact, plain


class Plan(NamedTuple):
    id: int
    content: str
    hash: str
    status: str
    created_at: str
    approved_at: str | None
    version: int
    """The number of the plan in its conversation, from 1."""


_SELECT = (
    "SELECT id, content, hash, status, created_at, approved_at,"
    " (SELECT count(*) FROM plans o WHERE o.conversation_id = plans.conversation_id AND o.id <= plans.id) FROM plans"
)
_LAST = f"{_SELECT} WHERE conversation_id = ? AND status = coalesce(?, status) ORDER BY id DESC LIMIT 1"


def last(store: Store, conversation_id: str, status: str | None = None) -> Plan | None:
    rows = store.read(_LAST, (conversation_id, status))
    return Plan(*rows[0]) if rows else None


def listing(store: Store, conversation_id: str) -> list[Plan]:
    """All plans of a conversation, oldest first."""
    return [Plan(*row) for row in store.read(f"{_SELECT} WHERE conversation_id = ? ORDER BY id", (conversation_id,))]


def last_conversation(store: Store, project_dir: str) -> str | None:
    """The last active conversation, without those that tools and tests started. It may have no message yet."""
    rows = store.read(
        "SELECT id FROM conversations c WHERE project_dir = ? AND NOT EXISTS (SELECT 1 FROM runs r"
        " WHERE r.conversation_id = c.id AND r.kind IN ('tool', 'proof'))"
        " ORDER BY last_active DESC, rowid DESC LIMIT 1",
        (project_dir,),
    )
    return rows[0][0] if rows else None


def approved_plan(cursor: sqlite3.Cursor, conversation_id: str) -> Plan | None:
    """The approved plan, which implementation, tests and report are based on."""
    row = cursor.execute(_LAST, (conversation_id, "approved")).fetchone()
    return None if row is None else Plan(*row)


def alteration_reasons(cursor: sqlite3.Cursor, plan: Plan) -> list[str]:
    """How the stored plan differs from the approved one; empty if it does not."""
    again = "approve it again: `adderclaw sdlc transition planning`, then `sdlc plan` and `sdlc approve`"
    if hash_of(plan.content) != plan.hash:
        return [f"plan {plan.id} differs from the approved text (by its hash): {again}"]
    try:
        expected = criteria.parse(plan.content)
    except criteria.BadPlan as error:
        return [f"the success criteria of plan {plan.id} cannot be read ({error}): {again}"]
    if criteria.of_plan(cursor, plan.id) != expected:
        return [f"the stored criteria of plan {plan.id} differ from those in its text: {again}"]
    return []


def hash_of(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def draft(cursor: sqlite3.Cursor, conversation_id: str, content: str) -> int:
    """Stores a plan to be approved, which supersedes an earlier draft. Raises BadPlan."""
    content = plain(content)
    parsed = criteria.parse(content)
    cursor.execute(
        "UPDATE plans SET status = 'superseded' WHERE conversation_id = ? AND status = 'draft'", (conversation_id,)
    )
    (number,) = cursor.execute(
        "INSERT INTO plans(conversation_id, content, hash) VALUES (?, ?, ?) RETURNING id",
        (conversation_id, content, hash_of(content)),
    ).fetchone()
    criteria.insert_all(cursor, number, parsed)
    return number


def restore_draft(cursor: sqlite3.Cursor, number: int) -> None:
    """Makes a plan a draft again after the start of the phase planning superseded it."""
    cursor.execute("UPDATE plans SET status = 'draft' WHERE id = ? AND status = 'superseded'", (number,))


def approve(cursor: sqlite3.Cursor, number: int, by: str) -> bool:
    """Approves a draft and supersedes the plan approved before. Returns False if the plan is not a draft."""
    row = cursor.execute(
        "UPDATE plans SET status = 'approved', approved_at = datetime('now') WHERE id = ? AND status = 'draft'"
        " RETURNING conversation_id, hash",
        (number,),
    ).fetchone()
    if row is None:
        return False
    cursor.execute(
        "UPDATE plans SET status = 'superseded' WHERE conversation_id = ? AND status = 'approved' AND id <> ?",
        (row[0], number),
    )
    event(cursor, row[0], "plan_approved", {"plan": number, "hash": row[1], "by": by})
    return True


def supersede(cursor: sqlite3.Cursor, conversation_id: str) -> None:
    """Supersedes all earlier plans at the start of a new cycle."""
    cursor.execute(
        "UPDATE plans SET status = 'superseded' WHERE conversation_id = ? AND status IN ('draft', 'approved')",
        (conversation_id,),
    )


def complete(cursor: sqlite3.Cursor, number: int) -> None:
    cursor.execute(
        "UPDATE plans SET status = 'completed', completed_at = datetime('now') WHERE id = ? AND status = 'approved'",
        (number,),
    )


def event(cursor: sqlite3.Cursor, conversation_id: str, kind: str, detail: Mapping[str, object]) -> None:
    cursor.execute(
        "INSERT INTO events(conversation_id, event_type, detail) VALUES (?, ?, ?)",
        (conversation_id, kind, compact(detail)),
    )
