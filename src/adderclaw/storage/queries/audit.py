"""The rows for an audit: who did what and who allowed it, without messages of conversations."""

from collections.abc import Iterator

from adderclaw.core.types import Json
from adderclaw.storage import Store

_RECORDS = {
    "session": "SELECT session_id, conversation_id, started_at FROM sessions ORDER BY started_at, session_id",
    "run": "SELECT run_id, kind, conversation_id, session_id, started_at, finished_at, outcome, exit_code, reason, cost"
    " FROM runs ORDER BY started_at, run_id",
    "permission": "SELECT session_id, tool_use_id, tool_name, decision, reason_json, created_at"
    " FROM tool_permission_log ORDER BY id",
    "question": "SELECT id, session_id, tool_use_id, tool, risk, reason, shown, plan_hash, created_at, answer,"
    " answered_by, answered_who, answered_at, comment, channel, used_at, replies_json FROM approvals"
    " ORDER BY created_at, id",
    "receipt": "SELECT archive, seq, receipt_hash, session_id, tool_use_id, run_id FROM receipts ORDER BY archive, seq",
    "settings": "SELECT scope, json, updated_at FROM settings_snapshot ORDER BY scope",
}


def records(store: Store) -> Iterator[tuple[str, Json]]:
    """Yields each record with its kind, all from one snapshot of the database."""
    with store.snapshot() as cursor:
        for kind, sql in _RECORDS.items():
            cursor.execute(sql)
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield kind, dict(zip(names, row, strict=True))
