"""The settings that a process runs on, as rows: its own copy, the last import, or the operator's own word."""

import hashlib
import json
import sqlite3
from typing import Any

from adderclaw.core.errors import StoreError
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.text import compact

EFFECTIVE = "effective"
_IMPORTED = "effective_imported_sha256"


def snapshot(cursor: sqlite3.Cursor, scope: str, settings: Json) -> None:
    _put(cursor, scope, compact(settings))


def read(store: Store, scope: str) -> Json | None:
    rows = store.read("SELECT json FROM settings_snapshot WHERE scope = ?", (scope,))
    return _parsed(store.path, scope, rows[0][0]) if rows else None


def digest_of(cursor: sqlite3.Cursor, scope: str) -> str | None:
    """What a row is known by; None where there is none."""
    row = cursor.execute("SELECT json FROM settings_snapshot WHERE scope = ?", (scope,)).fetchone()
    return _hash(row[0]) if row is not None else None


def digest_in(store: Store, scope: str) -> str | None:
    """The same, of a store that is only read."""
    rows = store.read("SELECT json FROM settings_snapshot WHERE scope = ?", (scope,))
    return _hash(rows[0][0]) if rows else None


def operator_settings(store: Store) -> Json | None:
    """The `effective` row, when it is not the one that we imported: then the operator put it there."""
    rows = store.read(
        "SELECT s.json, m.value FROM settings_snapshot s LEFT JOIN schema_meta m ON m.key = ? WHERE s.scope = ?",
        (_IMPORTED, EFFECTIVE),
    )
    if not rows or _hash(rows[0][0]) == rows[0][1]:
        return None
    return _parsed(store.path, EFFECTIVE, rows[0][0])


def import_effective(cursor: sqlite3.Cursor, settings: Json, *, replace_operators_own: bool = False) -> bool:
    """Makes the imported files the `effective` row; the operator's own row stands until it is to be replaced."""
    text = compact(settings)
    row = cursor.execute("SELECT json FROM settings_snapshot WHERE scope = ?", (EFFECTIVE,)).fetchone()
    known = cursor.execute("SELECT value FROM schema_meta WHERE key = ?", (_IMPORTED,)).fetchone()
    own = row is not None and (known is None or _hash(row[0]) != known[0])
    if own and not replace_operators_own:
        return False
    if own or row is None or row[0] != text:
        _put(cursor, EFFECTIVE, text)
        cursor.execute("INSERT OR REPLACE INTO schema_meta(key, value) VALUES (?, ?)", (_IMPORTED, _hash(text)))
    return True


def _put(cursor: sqlite3.Cursor, scope: str, text: str) -> None:
    cursor.execute(
        "INSERT OR REPLACE INTO settings_snapshot(scope, json, updated_at) VALUES (?, ?, datetime('now'))",
        (scope, text),
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _parsed(path: str, scope: str, text: str) -> Json:
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        raise _unusable(path, scope, str(error)) from error
    if not isinstance(value, dict):
        raise _unusable(path, scope, "it is not a JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _unusable(path: str, scope: str, why: str) -> StoreError:
    return StoreError(
        f"{path}: settings_snapshot row {scope!r} cannot be used ({why}): "
        "correct it, or run `adderclaw config reload` to import the files again"
    )
