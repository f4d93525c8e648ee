"""Queries on the mirror of the current chain's receipts, newest first."""

import json
from collections.abc import Sequence

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.ledger.chain import BrokenReceipt, parse_receipt
from adderclaw.storage.runs import workspace_condition
from adderclaw.storage.text import plain


class ReceiptFilter(NamedTuple):
    """Conditions on receipts; None allows every value."""

    tool: str | None = None
    status: str | None = None
    risk: str | None = None
    conversation: str | None = None
    session: str | None = None
    run: str | None = None
    answered_by: str | None = None
    before: int | None = None
    """Only receipts with a lower number."""


class Mirrored(NamedTuple):
    seq: int
    line: str
    session_id: str | None
    tool_use_id: str | None
    run_id: str | None


_IN_LINE = {
    "tool": "tool",
    "status": "status",
    "risk": "risk",
    "conversation": "conversation_id",
    "answered_by": "decision.answered_by",
}


def listing(store: Store, receipt_filter: ReceiptFilter, limit: int, workspaces: Sequence[str] = ()) -> list[Mirrored]:
    """The matching receipts; only of calls in these workspaces, if any are given."""
    where, values = _in_workspaces(workspaces)
    for name, field in _IN_LINE.items():
        if (value := getattr(receipt_filter, name)) is not None:
            # A row that was changed may be invalid JSON; it then does not match, without an error.
            where.append(f"CASE WHEN json_valid(line) THEN json_extract(line, '$.{field}') END = ?")
            values.append(plain(value))
    if receipt_filter.session is not None:
        where.append("session_id = ?")
        values.append(plain(receipt_filter.session))
    if receipt_filter.run is not None:
        where.append("run_id = ?")
        values.append(plain(receipt_filter.run))
    if receipt_filter.before is not None:
        where.append("seq < ?")
        values.append(receipt_filter.before)
    return _select(store, f"{' AND '.join(where)} ORDER BY seq DESC LIMIT ?", (*values, limit))


def neighbors(store: Store, seq: int, workspaces: Sequence[str] = ()) -> list[Mirrored]:
    """A receipt with its predecessor and its successor."""
    where, values = _in_workspaces(workspaces)
    return _select(store, f"{' AND '.join(where)} AND seq BETWEEN ? AND ? ORDER BY seq", (*values, seq - 1, seq + 1))


def _in_workspaces(workspaces: Sequence[str]) -> tuple[list[str], list[object]]:
    if not workspaces:
        return ["archive = ''"], []
    here, held = workspace_condition(workspaces)
    return ["archive = ''", f"session_id IN (SELECT session_id FROM sessions WHERE {here})"], [*held]  # noqa: S608


def _select(store: Store, condition: str, values: Sequence[object]) -> list[Mirrored]:
    sql = f"SELECT seq, line, session_id, tool_use_id, run_id FROM receipts WHERE {condition}"  # noqa: S608 - constant text
    return [Mirrored(*row) for row in store.read(sql, values)]


def parse_row(row: Mirrored, key: bytes | None) -> tuple[Json, str]:
    """The fields of a receipt, and what is wrong with it; empty if nothing is."""
    try:
        if key is None:
            raise BrokenReceipt("the key is missing, so a forged receipt cannot be recognized")
        return parse_receipt(
            row.line.encode("utf-8", "replace"), seq=row.seq, previous_hash=None, key=key
        )._asdict(), ""
    except BrokenReceipt as broken:
        try:
            body: object = json.loads(row.line)
        except (ValueError, RecursionError):
            body = None
        return (body if isinstance(body, dict) else {}), str(broken)  # pyright: ignore[reportUnknownVariableType]
