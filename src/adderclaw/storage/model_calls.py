"""One row per model call: what was asked (as a hash), what came back, what it cost."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict, cast

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.runs import workspace_condition
from adderclaw.storage.text import compact, parse_row, plain


class Call(NamedTuple):
    id: int
    session_id: str
    step: int
    provider: str
    model: str
    request_hash: str
    response: Json | None
    usage: Json
    attempts: int
    latency_ms: float
    status: str
    error: str | None
    created_at: str
    cost: float | None
    run_id: str | None


def record(
    cursor: sqlite3.Cursor,
    *,
    session_id: str,
    step: int,
    provider: str,
    model: str,
    request_hash: str,
    response: Json | None,
    usage: Json,
    attempts: int,
    latency_ms: float,
    status: str,
    error: str | None,
    cost: float | None = None,
    run_id: str | None = None,
    entry_sequence: int | None = None,
) -> None:
    """`entry_sequence` is that of the entry which the reply became."""
    cursor.execute(
        "INSERT INTO model_calls(session_id, step, provider, model, request_hash, response_json, usage_json,"
        " attempts, latency_ms, status, error, cost, run_id, entry_sequence)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session_id,
            step,
            plain(provider),
            plain(model),
            request_hash,
            None if response is None else compact(response),
            compact(usage),
            attempts,
            latency_ms,
            status,
            error and plain(error),
            cost,
            run_id,
            entry_sequence,
        ),
    )


def of_session(store: Store, session_id: str) -> list[Call]:
    rows = store.read(
        "SELECT id, session_id, step, provider, model, request_hash, response_json, usage_json, attempts, latency_ms,"
        " status, error, created_at, cost, run_id FROM model_calls WHERE session_id = ? ORDER BY id",
        (session_id,),
    )
    return [_call(row) for row in rows]


def _call(call_row: sqlite3.Row) -> Call:
    fields = list(call_row)
    row = f"model_calls row {fields[0]}"
    fields[6] = parse_row(fields[6], row) if fields[6] else None
    fields[7] = parse_row(fields[7], row)
    return Call(*fields)


# ------------------------------------------------------------------ what was used up

type By = Literal["run", "day", "model", "provider", "project", "conversation"]

_CONVERSATION_COLUMN = (
    "coalesce((SELECT c.{column} FROM sessions s JOIN conversations c ON c.id = s.conversation_id"
    " WHERE s.session_id = model_calls.session_id), '')"
)
_KEYS: dict[By, str] = {
    "run": "coalesce(run_id, '')",
    "day": "date(created_at)",
    "model": "model",
    "provider": "provider",
    "project": _CONVERSATION_COLUMN.format(column="project_dir"),
    "conversation": _CONVERSATION_COLUMN.format(column="id"),
}
_USAGE = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_SUMS = ", ".join(f"coalesce(sum(json_extract(usage_json, '$.{name}')), 0)" for name in _USAGE)


class UsageSum(TypedDict):
    """What the calls of one run, day, model, provider, project or conversation took together."""

    key: str
    """The run, day, model, provider, project or conversation; empty where none is known."""
    calls: int
    failed: int
    input_tokens: int
    """New ones: neither read from the provider's cache nor written to it."""
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: float | None
    """US dollars of the calls with a known price; null where none has one."""
    unpriced: int
    """Answered calls without a known price."""
    estimated: int
    """Calls whose tokens are an estimate, since the server did not count them."""
    latency_ms_mean: float
    latency_ms_p95: float
    """So long at most took 95 of 100."""


def _usage_sum(row: Iterable[Any]) -> UsageSum:
    return cast("UsageSum", dict(zip(UsageSum.__annotations__, row, strict=True)))


NO_USAGE = _usage_sum(("", 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0.0, 0.0))


def usage_sums(
    store: Store, by: By | None, since: str | None = None, *, daily: bool = False, workspaces: Sequence[str] = ()
) -> list[UsageSum]:
    """Sums by one key, the latest first, or one sum of all; `since` is a moment in UTC as SQLite writes it.

    `daily`: apart for each day, whose date and a blank then stand before the key. `places`: of these workspaces alone.
    """
    here, held = workspace_condition(workspaces)
    here = f"session_id IN (SELECT session_id FROM sessions WHERE {here})" if workspaces else here  # noqa: S608
    key = _KEYS[by] if by else "''"
    key = f"date(created_at) || ' ' || {key}" if daily else key
    # The place of a call among those of its key, by how long it took: the 95th of 100 is one of them, not a mean.
    calls = (
        f"SELECT {key} AS k, id, status, usage_json, cost, latency_ms,"  # noqa: S608 - names from above
        f" row_number() OVER (PARTITION BY {key} ORDER BY latency_ms) AS place,"
        f" (95 * count(*) OVER (PARTITION BY {key}) + 99) / 100 AS late"
        f" FROM model_calls WHERE created_at >= ? AND {here}"
    )
    rows = store.read(
        f"SELECT k, count(*), sum(status <> 'ok'), {_SUMS}, sum(cost), sum(status = 'ok' AND cost IS NULL),"  # noqa: S608
        " sum(coalesce(json_extract(usage_json, '$.estimated'), 0)),"
        f" avg(latency_ms), max(latency_ms) FILTER (WHERE place = late)"
        f" FROM ({calls}) GROUP BY k ORDER BY max(id) DESC",
        (since or "", *held),
    )
    return [_usage_sum(row) for row in rows]
