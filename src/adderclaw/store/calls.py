"""One row per model call: what was asked (as a hash), what came back, what it cost."""

import json
import sqlite3
from typing import NamedTuple

from adderclaw.store import Store
from adderclaw.store.text import compact, plain
from adderclaw.types import Json


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
) -> None:
    cursor.execute(
        "INSERT INTO model_calls(session_id, step, provider, model, request_hash, response_json, usage_json,"
        " attempts, latency_ms, status, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        ),
    )


def of_session(store: Store, session_id: str) -> list[Call]:
    rows = store.read(
        "SELECT id, session_id, step, provider, model, request_hash, response_json, usage_json, attempts, latency_ms,"
        " status, error, created_at FROM model_calls WHERE session_id = ? ORDER BY id",
        (session_id,),
    )
    return [_call(row) for row in rows]


def _call(row: sqlite3.Row) -> Call:
    fields = list(row)
    fields[6] = json.loads(fields[6]) if fields[6] else None
    fields[7] = json.loads(fields[7])
    return Call(*fields)
