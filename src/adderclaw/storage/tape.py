"""The tape of a session: external inputs of its turns that are stored nowhere else, so that it can be replayed."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Sequence
from typing import Any

from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.text import compact, plain

type Item = tuple[str, Json]
"""The kind of an input and its data."""

FIRST = "0" * 64
_DIGEST = re.compile(r'"([0-9a-f]{64})"')


class DamagedTape(Exception):
    """A row of a tape is missing or was changed; the message says which."""


def row_seal(previous: str, text: str) -> str:
    """The seal of a row: a hash over its text and the seal before it."""
    return hashlib.sha256(f"{previous}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def last_rows(store: Store, tables: Sequence[str]) -> dict[str, int]:
    """The last row id of each of these append-only tables."""
    sql = "SELECT " + ", ".join(f"(SELECT coalesce(max(rowid), 0) FROM {name})" for name in tables)  # noqa: S608
    return dict(zip(tables, store.read(sql)[0], strict=True))


def next_position(store: Store, run_id: str, session_id: str) -> tuple[int, str]:
    """Where a tape continues: the number of its next row and the seal of its last one."""
    rows = store.read(
        "SELECT seq, seal FROM tape WHERE run_id = ? AND session_id = ? ORDER BY seq DESC LIMIT 1", (run_id, session_id)
    )
    return (rows[0][0] + 1, rows[0][1]) if rows else (1, FIRST)


def first_head(store: Store, run_id: str) -> Json:
    """The head of the first session of a run; empty if there is no readable tape."""
    rows = store.read(
        "SELECT items_json FROM tape WHERE rowid = (SELECT min(rowid) FROM tape WHERE run_id = ?)", (run_id,)
    )
    try:
        return dict(json.loads(rows[0][0])).get("head", {}) if rows else {}
    except (ValueError, TypeError):
        return {}


def heads(store: Store, session_id: str) -> list[Json]:
    """The head of a session in each run that it was part of; empty if one cannot be read."""
    rows = store.read("SELECT items_json FROM tape WHERE session_id = ? AND seq = 1", (session_id,))
    try:
        return [dict(json.loads(text)).get("head", {}) for (text,) in rows]
    except (ValueError, TypeError):
        return []


def append(cursor: sqlite3.Cursor, run_id: str, session_id: str, seq: int, text: str, seal: str) -> None:
    cursor.execute(
        "INSERT OR REPLACE INTO tape(run_id, session_id, seq, items_json, seal) VALUES (?, ?, ?, ?, ?)",
        (run_id, session_id, seq, text, seal),
    )


def encode(items: list[Item]) -> str:
    return compact(items)


def store_text(cursor: sqlite3.Cursor, text: str) -> str:
    """Store a long text that many sessions share once; returns its digest."""
    text = plain(text)
    known = hashlib.sha256(text.encode()).hexdigest()
    cursor.execute("INSERT OR IGNORE INTO tape_texts(digest, text) VALUES (?, ?)", (known, text))
    return known


def remove_unused_texts(cursor: sqlite3.Cursor) -> None:
    """Delete the texts that no tape refers to any more. Reads every tape."""
    used: set[str] = set()
    for (items,) in cursor.execute("SELECT items_json FROM tape"):
        used.update(_DIGEST.findall(items))
    texts = [row for row in cursor.execute("SELECT digest FROM tape_texts") if row[0] not in used]
    cursor.executemany("DELETE FROM tape_texts WHERE digest = ?", texts)


def text_of(store: Store, known: str) -> str:
    rows = store.read("SELECT text FROM tape_texts WHERE digest = ?", (known,))
    if not rows:
        raise DamagedTape(f"tape_texts lacks the text {known[:12]}…, which the tape names")
    text: str = rows[0][0]
    if hashlib.sha256(text.encode()).hexdigest() != known:
        raise DamagedTape(f"tape_texts row {known[:12]}… was changed: it is no longer what its digest says")
    return text


def sessions(store: Store, run_id: str) -> list[str]:
    """The sessions of a run that have a tape, oldest first."""
    rows = store.read("SELECT session_id FROM tape WHERE run_id = ? GROUP BY session_id ORDER BY min(rowid)", (run_id,))
    return [row[0] for row in rows]


def read(store: Store, run_id: str, session_id: str) -> list[Item]:
    """Every item of a tape; raises DamagedTape if a row is missing or was changed."""
    rows = store.read(
        "SELECT seq, items_json, seal FROM tape WHERE run_id = ? AND session_id = ? ORDER BY seq", (run_id, session_id)
    )
    items: list[Item] = []
    seal = FIRST
    for number, (seq, text, stored_seal) in enumerate(rows, 1):
        if seq != number:
            raise DamagedTape(f"tape row {number} of session {session_id} is missing")
        seal = row_seal(seal, text)
        if seal != stored_seal:
            raise DamagedTape(f"tape row {number} of session {session_id} was changed: its seal does not fit")
        row_items: list[Any] = json.loads(text)
        items += [(kind, body) for kind, body in row_items]
    return items
