"""The imprint of a run: a digest of each of its rows, so that later changes can be detected and named."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.text import compact

_HERE = "+session_id IN (SELECT value FROM json_each(:sessions))"
_OF_RUN = "run_id = :run"


class _Rows(NamedTuple):
    key: str
    columns: str
    """Columns that never change later; `receipt archive`, for example, changes `archive`."""
    whose: str
    """An SQL condition for the rows of the run."""
    grows: bool = True
    """Rows are only ever added. Otherwise they may change while the run continues."""


_TABLES: dict[str, _Rows] = {
    "events": _Rows(
        "id",
        "conversation_id, session_id, timestamp, event_type, detail",
        f"({_HERE} OR (json_valid(detail) AND json_extract(detail, '$.run_id') = :run))",
    ),
    "transcript_entries": _Rows(
        "id", "session_id, sequence, parent_entry_id, entry_type, payload_json, tool_use_id, created_at", _HERE
    ),
    "opaque_blocks": _Rows(
        "entry_id",
        "blocks_json",
        "(SELECT session_id FROM transcript_entries WHERE id = entry_id) IN (SELECT value FROM json_each(:sessions))",
    ),
    "model_calls": _Rows(
        "id",
        "session_id, step, provider, model, request_hash, response_json, usage_json, attempts, latency_ms, status,"
        " error, created_at, cost, run_id",
        _HERE,
    ),
    "tool_permission_log": _Rows("id", "session_id, tool_use_id, tool_name, decision, reason_json, created_at", _HERE),
    "hook_invocations": _Rows(
        "id",
        "session_id, conversation_id, hook_event, hook_ordinal, matcher, command, tool_use_id, tool_name, input_json,"
        " exit_code, stdout_text, stderr_text, started_at, completed_at, skipped_reason",
        _HERE,
    ),
    "receipts": _Rows("seq", "receipt_hash, line, end_offset, session_id, tool_use_id, run_id", _OF_RUN, grows=False),
    "approvals": _Rows(
        "id",
        "session_id, tool_use_id, tool, risk, reason, shown, plan_hash, pid, created_at, expires_at, answer,"
        " answered_by, answered_at, comment, mac",
        f"{_HERE} AND answer IS NOT NULL AND (used_at IS NOT NULL OR NOT stays)",  # some are answered after the run
        grows=False,
    ),
    "subagents": _Rows(
        "session_id",
        "parent_id, tool_use_id, agent_type, description, background, pid, started_at, finished_at, outcome, answer,"
        " reason",
        f"{_HERE} AND outcome IS NOT NULL",
        grows=False,
    ),
    "background_tasks": _Rows(
        "id",
        "session_id, kind, title, status, summary, began_at, ended_at, result",
        f"{_HERE} AND ended_at IS NOT NULL",
        grows=False,
    ),
    "sessions": _Rows("session_id", "conversation_id, started_at", _HERE, grows=False),
    "conversations": _Rows(
        "id",
        "project_dir, created_at",
        f"id IN (SELECT conversation_id FROM sessions WHERE {_HERE})",  # noqa: S608
        grows=False,
    ),
    "runs": _Rows(
        "run_id",
        "kind, conversation_id, session_id, pid, started_at, finished_at, outcome, exit_code, answer, usage_json,"
        " reason, cost, used_json, rounds",
        _OF_RUN,
        grows=False,
    ),
    "generated_tests": _Rows(
        "id", "plan_id, plan_hash, criterion, language, content, hash, session_id, created_at", _OF_RUN, grows=False
    ),
    "test_results": _Rows(
        "id",
        "test_id, test_hash, tree, tree_digest, exit_code, stdout, stderr, seconds, timed_out, seal, created_at",
        _OF_RUN,
        grows=False,
    ),
    "workflows": _Rows("run_id", "file, name, digest, inputs_json, said_json", _OF_RUN, grows=False),
    "workflow_results": _Rows(
        "run_id || ' ' || place || ' ' || agent", "goal, session_id, result_json, created_at", _OF_RUN, grows=False
    ),
}

ADDED = "not in the imprint"
MOVING = frozenset({"conversations", "workflows"})
"""Tables with the path of the workspace, which a fleet moves from machine to machine."""

type Imprint = dict[str, dict[str, str]]
"""Table → key of a row → its digest."""

_SESSIONS = """
    WITH RECURSIVE own(session_id) AS (
        SELECT session_id FROM runs WHERE run_id = :run
        UNION SELECT session_id FROM tape WHERE run_id = :run
        UNION SELECT child.session_id FROM subagents child JOIN own ON child.parent_id = own.session_id)
    SELECT session_id FROM own"""


def store_imprint(cursor: sqlite3.Cursor, run_id: str, since: Mapping[str, int]) -> None:
    """Stores the imprint of the rows that a run has added since these positions, and keeps that of its earlier part."""
    sessions = compact([row[0] for row in cursor.execute(_SESSIONS, {"run": run_id})])
    before = cursor.execute("SELECT rows_json FROM imprints WHERE run_id = ?", (run_id,)).fetchone()
    known = (_parse_imprint(before[0]) if before is not None else None) or {}
    imprint: Imprint = {}
    for name, rows in _TABLES.items():
        after = " AND rowid > :after" if rows.grows else ""
        sql = f"SELECT {rows.key}, {rows.columns} FROM {name} WHERE {rows.whose}{after}"  # noqa: S608 - constant names
        table_rows = cursor.execute(sql, {"run": run_id, "sessions": sessions, "after": since.get(name, 0)})
        digests = {str(row[0]): _digest(row) for row in table_rows} | (known.get(name, {}) if rows.grows else {})
        if digests:
            imprint[name] = digests
    cursor.execute("INSERT OR REPLACE INTO imprints VALUES (?, ?)", (run_id, compact(imprint)))


def changed_rows(
    store: Store,
    run_id: str,
    *,
    ended: bool,
    since: Mapping[str, int] | None = None,
    moved: tuple[str, str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yields each row that differs from the run's imprint, and how.

    `ended`: the run has ended and so must have an imprint; `since`: the last row of each table when it began; `moved`:
    the current and the former path of the workspace.
    """
    rows = store.read("SELECT rows_json FROM imprints WHERE run_id = ?", (run_id,))
    if not rows:
        if ended:
            yield "imprint of the run", "missing"
        return
    imprint = _parse_imprint(rows[0][0])
    if imprint is None:
        yield "imprint of the run", "changed"
        return
    for name, digests in imprint.items():
        if ended or _TABLES[name].grows:  # a run that continues may change the others
            yield from _compare_rows(store, name, digests, moved if name in MOVING else None)
    if ended:
        yield from _added_rows(store, run_id, imprint, since or {})


def _added_rows(store: Store, run_id: str, imprint: Imprint, since: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Rows of the run that are in no imprint: they were added later, or removed from the imprint."""
    sessions = compact([row[0] for row in store.read(_SESSIONS, {"run": run_id})])
    theirs = _imprint_of_others(store, run_id, sessions)
    for name, rows in _TABLES.items():
        if not rows.grows and rows.whose != _OF_RUN:  # later runs may settle what was left open
            continue
        own = imprint.get(name, {})
        after = " AND rowid > :after" if rows.grows else ""
        sql = f"SELECT {rows.key} FROM {name} WHERE {rows.whose}{after}"  # noqa: S608 - constant names
        row_keys = store.read(sql, {"run": run_id, "sessions": sessions, "after": since.get(name, 0)})
        last = max(map(int, own), default=0) if rows.grows and theirs is None else None
        for key in (str(row[0]) for row in row_keys):
            if key not in own and (theirs or {}).get(name, {}).get(key) is None and (last is None or int(key) <= last):
                yield f"{name} row {key}", ADDED


def _imprint_of_others(store: Store, run_id: str, sessions: str) -> Imprint | None:
    """The imprints of other runs of the same sessions; None if one of them has no imprint."""
    other_runs = store.read(
        "SELECT rows_json FROM runs LEFT JOIN imprints USING (run_id)"
        " WHERE run_id != :run AND session_id IN (SELECT value FROM json_each(:sessions))",
        {"run": run_id, "sessions": sessions},
    )
    combined: Imprint = {}
    for (text,) in other_runs:
        if text is None or (imprint := _parse_imprint(text)) is None:
            return None
        for name, digests in imprint.items():
            combined.setdefault(name, {}).update(digests)
    return combined


def _parse_imprint(text: str) -> Imprint | None:
    try:
        imprint: Any = json.loads(text)
    except ValueError:
        return None
    known = isinstance(imprint, dict) and all(
        name in _TABLES and isinstance(rows, dict) for name, rows in cast(dict[str, Any], imprint).items()
    )
    return cast(Imprint, imprint) if known else None


def _compare_rows(
    store: Store, name: str, digests: dict[str, str], moved: tuple[str, str] | None
) -> Iterator[tuple[str, str]]:
    rows = _TABLES[name]
    sql = f"SELECT {rows.key}, {rows.columns} FROM {name} WHERE {rows.key} IN (SELECT value FROM json_each(?))"  # noqa: S608
    now: dict[str, set[str]] = {}
    for row in store.read(sql, (compact(list(digests)),)):
        row = row if moved is None else [path_before_move(value, *moved) for value in row]
        now.setdefault(str(row[0]), set()).add(_digest(row))  # an archived log and the current one both start at 1
    for key, digest in digests.items():
        if digest not in now.get(key, ()):
            yield f"{name} row {key}", "changed" if key in now else "missing"


def path_before_move[T](value: T, now: str, then: str) -> T | str:
    """The former value of a path in a workspace that was moved."""
    if isinstance(value, str) and (value == now or value.startswith(f"{now}/")):
        return then + value[len(now) :]
    return value


def _digest(row: Iterable[Any]) -> str:
    _, *values = row
    return hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
