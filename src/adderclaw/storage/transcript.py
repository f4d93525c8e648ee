"""The transcript: conversations, their sessions, the entries of each session in order, and full-text search."""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, cast

from adderclaw.core.errors import StoreError, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import Json, Phase
from adderclaw.storage import Store
from adderclaw.storage.text import compact, parse_row, plain

ENTRY_TYPES = frozenset(
    {
        "user",
        "assistant",
        "system",
        "tool_use",
        "tool_result",
        "progress",
        "attachment",
        "internal_hook",
        "content_replacement",
        "collapse_commit",
        "file_history_snapshot",
        "attribution_snapshot",
        "queue_operation",
        "speculation_accept",
        "ai_title",
    }
)
INDEXED_CHARS = {"user": 8192, "assistant": 8192, "tool_result": 2048}
"""How many characters of an entry are indexed; the slower substring search finds the rest. Tool results get fewer,
because indexing a page of source text costs more than storing its row."""


OPAQUE = frozenset({"opaque", "media"})
"""Blocks that are stored in a separate table, because the blocks of entries are a closed set."""


class Entry(NamedTuple):
    id: int
    sequence: int
    entry_type: str
    payload: Json
    tool_use_id: str | None
    created_at: str


class Conversation(NamedTuple):
    id: str
    project_dir: str
    created_at: str
    last_active: str
    phase: str
    entries: int
    title: str
    """The title that was set, or else the beginning of the first user message."""


class Hit(NamedTuple):
    conversation_id: str
    session_id: str
    entry_id: int
    role: str
    snippet: str
    score: float
    created_at: str


# ------------------------------------------------------------------ writing


def begin(cursor: sqlite3.Cursor, *, conversation_id: str, session_id: str, project_dir: str) -> None:
    """Create the rows of a session and its conversation, unless they exist."""
    cursor.execute(
        "INSERT INTO conversations(id, project_dir) VALUES (?, ?)"
        " ON CONFLICT(id) DO UPDATE SET last_active = datetime('now')",
        (conversation_id, plain(project_dir)),
    )
    cursor.execute(
        "INSERT OR IGNORE INTO sessions(session_id, conversation_id) VALUES (?, ?)", (session_id, conversation_id)
    )


def append(
    cursor: sqlite3.Cursor,
    session_id: str,
    entry_type: str,
    payload: Json,
    tool_use_id: str | None = None,
    parent: int | None = None,
) -> int:
    """Add the next entry of a session and return its sequence. The cost does not grow with the table."""
    if entry_type not in ENTRY_TYPES:
        raise StoreError(f"{entry_type!r} is no type of transcript entry: one of {', '.join(sorted(ENTRY_TYPES))}")
    text_json = compact({"_t": entry_type, **payload})
    entry_id, sequence = cursor.execute(
        "INSERT INTO transcript_entries(session_id, sequence, parent_entry_id, entry_type, payload_json, tool_use_id)"
        " VALUES (?, (SELECT coalesce(max(sequence) + 1, 0) FROM transcript_entries WHERE session_id = ?),"
        " ?, ?, ?, ?) RETURNING id, sequence",
        (session_id, session_id, parent, entry_type, text_json, tool_use_id and plain(tool_use_id)),
    ).fetchone()
    if (indexed := INDEXED_CHARS.get(entry_type)) and (text := text_of(payload)):
        cursor.execute("INSERT INTO transcript_fts(rowid, body) VALUES (?, ?)", (entry_id, plain(text[:indexed])))
    if entry_type == "user":
        cursor.execute(
            "UPDATE conversations SET last_active = datetime('now')"
            " WHERE id = (SELECT conversation_id FROM sessions WHERE session_id = ?)",
            (session_id,),
        )
    return sequence


def open_turn(cursor: sqlite3.Cursor, session_id: str, sequence: int, turn_id: str) -> None:
    """Begin a turn with this entry; it lasts until the next turn begins."""
    cursor.execute(
        "INSERT INTO turns(turn_id, session_id, first_sequence) VALUES (?, ?, ?)", (turn_id, session_id, sequence)
    )


def store_opaque(cursor: sqlite3.Cursor, session_id: str, sequence: int, blocks: list[Json]) -> None:
    """Store the provider-specific blocks, images and documents of an entry."""
    cursor.execute(
        "INSERT INTO opaque_blocks(entry_id, blocks_json)"
        " SELECT id, ? FROM transcript_entries WHERE session_id = ? AND sequence = ?",
        (compact(blocks), session_id, sequence),
    )


def copy(cursor: sqlite3.Cursor, source: str, session_id: str) -> None:
    """Copy a session; each entry refers to its original, which has the receipt."""
    cursor.execute(
        "INSERT INTO transcript_entries(session_id, sequence, parent_entry_id, entry_type, payload_json)"
        " SELECT ?, sequence, id, entry_type, payload_json FROM transcript_entries WHERE session_id = ?"
        " ORDER BY sequence",
        (session_id, source),
    )
    cursor.execute(
        "INSERT INTO opaque_blocks(entry_id, blocks_json)"
        " SELECT e.id, o.blocks_json FROM transcript_entries e JOIN opaque_blocks o ON o.entry_id = e.parent_entry_id"
        " WHERE e.session_id = ?",
        (session_id,),
    )


def clear(store: Store) -> int:
    """Delete transcripts and memories, bytes included; returns how many conversations. Ledger rows stay."""
    store.read("PRAGMA secure_delete = ON")
    with store.write() as cursor:
        (count,) = cursor.execute("SELECT count(*) FROM conversations").fetchone()
        cursor.execute("INSERT INTO transcript_fts(transcript_fts) VALUES ('delete-all')")
        for statement in (
            "DELETE FROM opaque_blocks",
            "DELETE FROM turns",
            "DELETE FROM background_tasks",
            "DELETE FROM subagents",
            "DELETE FROM todos",
            "DELETE FROM todo_links",
            "DELETE FROM todo_tasks",
            "DELETE FROM workflows",
            "DELETE FROM workflow_results",
            "DELETE FROM tape",
            "DELETE FROM tape_texts",
            "DELETE FROM imprints",
            "DELETE FROM transcript_entries",
            "UPDATE model_calls SET response_json = NULL, error = NULL",
            "DELETE FROM summaries",
            "DELETE FROM test_results",
            "DELETE FROM generated_tests",
            "DELETE FROM plan_criteria",
            "DELETE FROM plan_baselines",
            "DELETE FROM plans",
            "DELETE FROM state",
            "DELETE FROM task_ratings",
            "DELETE FROM events WHERE event_type <> 'receipts_archived'",
            "DELETE FROM sessions",
            "DELETE FROM conversations",
            "DELETE FROM unconfirmed_memories",
            "DELETE FROM memories",
            "DELETE FROM memories_fts",
            "UPDATE approvals SET shown = '', reason = '', comment = '', questions_json = '', replies_json = ''"
            " WHERE answer IS NOT NULL",
            "UPDATE notices SET body_json = '{}' WHERE state <> 'waiting'",
            "UPDATE runs SET answer = NULL, reason = NULL",
        ):
            cursor.execute(statement)
    store.read("PRAGMA wal_checkpoint(TRUNCATE)")
    return count


# ------------------------------------------------------------------ reading


def entries(store: Store, session_id: str) -> list[Entry]:
    rows = store.read(
        "SELECT id, sequence, entry_type, payload_json, tool_use_id, created_at FROM transcript_entries"
        " WHERE session_id = ? ORDER BY sequence",
        (session_id,),
    )
    return [
        Entry(row[0], row[1], row[2], parse_row(row[3], f"transcript_entries row {row[0]}"), row[4], row[5])
        for row in rows
    ]


def is_answered(store: Store, session_id: str) -> bool:
    """Whether the last turn of a session ended with an answer."""
    rows = store.read(
        "SELECT entry_type, payload_json FROM transcript_entries WHERE session_id = ?"
        " AND entry_type IN ('user', 'assistant', 'tool_use', 'tool_result') ORDER BY sequence DESC LIMIT 1",
        (session_id,),
    )
    if not rows or rows[0][0] != "assistant":
        return False
    return not any(block["type"] == "tool_use" for block in parse_row(rows[0][1], f"session {session_id}")["content"])


def next_sequence(store: Store, session_id: str) -> int:
    """The sequence number of a session's next entry."""
    sql = "SELECT coalesce(max(sequence) + 1, 0) FROM transcript_entries WHERE session_id = ?"
    return int(store.read(sql, (session_id,))[0][0])


def first_accepted_input(store: Store, session_id: str, tool: str) -> Json | None:
    """The input of the first successful call of a tool."""
    all_entries = entries(store, session_id)
    well = {
        entry.tool_use_id
        for entry in all_entries
        if entry.entry_type == "tool_result" and not entry.payload["is_error"]
    }
    calls = (entry.payload for entry in all_entries if entry.entry_type == "tool_use" and entry.tool_use_id in well)
    return next((call["input"] for call in calls if call["name"] == tool), None)


def command_outcomes(store: Store, session_id: str) -> dict[str, bool]:
    """The commands that a session ran, and whether each succeeded the last time."""
    all_entries = entries(store, session_id)
    wrong = {
        entry.tool_use_id: bool(entry.payload["is_error"]) for entry in all_entries if entry.entry_type == "tool_result"
    }
    ran = (entry for entry in all_entries if entry.entry_type == "tool_use" and entry.payload["name"] == BASH)
    return {
        str(entry.payload["input"].get("command")): not wrong[entry.tool_use_id]
        for entry in ran
        if entry.tool_use_id in wrong
    }


def without_rewound(entries: list[Entry]) -> list[Entry]:
    """The entries that still count: a rewind removes those between its target and itself."""
    remaining: list[Entry] = []
    for entry in entries:
        if entry.entry_type == "system" and entry.payload.get("subtype") == "rewind":
            remaining = [earlier for earlier in remaining if earlier.sequence < entry.payload["to"]]
        else:
            remaining.append(entry)
    return remaining


def opaque_blocks(store: Store, session_id: str) -> dict[int, list[Json]]:
    """Sequence of an entry → its opaque blocks."""
    rows = store.read(
        "SELECT e.sequence, o.blocks_json FROM opaque_blocks o JOIN transcript_entries e ON e.id = o.entry_id"
        " WHERE e.session_id = ?",
        (session_id,),
    )
    return {row[0]: parse_row(row[1], f"opaque_blocks of entry {row[0]}") for row in rows}


def sessions_of(store: Store, conversation_id: str) -> list[str]:
    """The sessions of a conversation, oldest first, without child sessions."""
    rows = store.read(
        "SELECT session_id FROM sessions WHERE conversation_id = ?"
        " AND session_id NOT IN (SELECT session_id FROM subagents) ORDER BY rowid",
        (conversation_id,),
    )
    return [row[0] for row in rows]


def workspace_of(store: Store, conversation_id: str) -> str:
    """The project folder of a conversation; empty if the conversation does not exist."""
    rows = store.read("SELECT project_dir FROM conversations WHERE id = ?", (conversation_id,))
    return str(rows[0][0]) if rows else ""


def is_known_project(store: Store, project_dir: str) -> bool:
    """Whether a conversation was ever held in this folder."""
    return bool(store.read("SELECT 1 FROM conversations WHERE project_dir = ? LIMIT 1", (project_dir,)))


def phase_and_approval(store: Store, conversation_id: str) -> tuple[Phase, bool]:
    """The phase of a conversation, and whether it has an approved plan."""
    rows = store.read(
        "SELECT c.phase, EXISTS(SELECT 1 FROM plans p WHERE p.conversation_id = c.id AND p.status = 'approved')"
        " FROM conversations c WHERE c.id = ?",
        (conversation_id,),
    )
    return (rows[0][0], bool(rows[0][1])) if rows else ("idle", False)


def state(store: Store, conversation_id: str, key: str) -> str | None:
    """The value that is stored for a conversation under a key."""
    rows = store.read("SELECT value FROM state WHERE conversation_id = ? AND key = ?", (conversation_id, key))
    return rows[0][0] if rows else None


def results_of(store: Store, session_id: str, tool_use_id: str) -> list[str]:
    """The results of a call, in order: models may reuse the id of a call."""
    rows = store.read(
        "SELECT json_extract(payload_json, '$.content') FROM transcript_entries"
        " WHERE session_id = ? AND tool_use_id = ? AND entry_type = 'tool_result' ORDER BY sequence",
        (session_id, tool_use_id),
    )
    return [str(row[0]) for row in rows]


def outcomes_of(store: Store, session_id: str, tool_use_id: str) -> list[tuple[str, str | None]]:
    """The outcome of each result of a call, and what denied it: models may reuse the id of a call."""
    rows = store.read(
        "SELECT json_extract(payload_json, '$.outcome'), json_extract(payload_json, '$.denied_by')"
        " FROM transcript_entries"
        " WHERE session_id = ? AND tool_use_id = ? AND entry_type = 'tool_result' ORDER BY sequence",
        (session_id, tool_use_id),
    )
    return [(row[0], row[1]) for row in rows]


def last_conversation(store: Store, project_dir: str | None) -> str | None:
    """The conversation with the last message, of one project or of all; manually run tools do not count."""
    rows = store.read(
        "SELECT s.conversation_id FROM transcript_entries e JOIN sessions s USING (session_id)"
        " JOIN conversations c ON c.id = s.conversation_id"
        " WHERE e.entry_type = 'user' AND c.project_dir = coalesce(?, c.project_dir)"
        " AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.conversation_id = c.id AND r.kind = 'tool')"
        " ORDER BY e.id DESC LIMIT 1",
        (project_dir,),
    )
    return rows[0][0] if rows else None


def has_messages(store: Store, session_id: str) -> bool:
    """Whether a session has a user message."""
    sql = "SELECT 1 FROM transcript_entries WHERE session_id = ? AND entry_type = 'user' LIMIT 1"
    return bool(store.read(sql, (session_id,)))


def conversation_of(store: Store, name: str) -> str | None:
    """The conversation with this id, or of the session or run with this id; a unique prefix is enough."""
    name = plain(name)
    exact = store.read(
        "SELECT id FROM conversations WHERE id = ?"
        " UNION SELECT conversation_id FROM sessions WHERE session_id = ?"
        " UNION SELECT conversation_id FROM runs WHERE run_id = ? LIMIT 1",
        (name, name, name),
    )
    if exact or not name:
        return exact[0][0] if exact else None
    rows = store.read(
        "SELECT id FROM conversations WHERE instr(id, ?) = 1"
        " UNION SELECT conversation_id FROM sessions WHERE instr(session_id, ?) = 1"
        " UNION SELECT conversation_id FROM runs WHERE instr(run_id, ?) = 1 LIMIT 4",
        (name, name, name),
    )
    if len(rows) > 1:
        raise UsageError(f"{name!r} matches several ids ({', '.join(row[0] for row in rows)}). Use a longer prefix")
    return rows[0][0] if rows else None


def by_id(store: Store, id: str) -> str | None:
    """The conversation with exactly this id, without prefixes, which could reveal other conversations."""
    rows = store.read("SELECT id FROM conversations WHERE id = ?", (plain(id),))
    return rows[0][0] if rows else None


def conversations(
    store: Store, limit: int, workspaces: Sequence[str] = (), *, begun: bool = False
) -> list[Conversation]:
    """Conversations, most recent first; only of these workspaces, if any are given; `begun`: only with a message."""
    conditions = [f"c.project_dir IN ({', '.join('?' * len(workspaces))})"] if workspaces else []
    if begun:
        conditions.append(
            "EXISTS (SELECT 1 FROM sessions s JOIN transcript_entries e USING (session_id)"
            " WHERE s.conversation_id = c.id AND e.entry_type = 'user')"
        )
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = store.read(  # only placeholders are interpolated
        "SELECT c.id, c.project_dir, c.created_at, c.last_active, c.phase,"  # noqa: S608
        " (SELECT count(*) FROM sessions s JOIN transcript_entries USING (session_id) WHERE s.conversation_id = c.id),"
        " (SELECT e.payload_json FROM sessions s JOIN transcript_entries e USING (session_id)"
        "  WHERE s.conversation_id = c.id AND e.entry_type = 'user' ORDER BY e.id LIMIT 1),"
        " (SELECT value FROM state t WHERE t.conversation_id = c.id AND t.key = 'title')"
        f" FROM conversations c{where} ORDER BY c.last_active DESC, c.rowid DESC LIMIT ?",
        (*map(plain, workspaces), limit),
    )
    return [Conversation(*tuple(row)[:6], title=row[7] or beginning(row[6])) for row in rows]


def set_title(cursor: sqlite3.Cursor, conversation_id: str, title: str) -> None:
    """Set the title of a conversation; an empty one removes it."""
    cursor.execute("DELETE FROM state WHERE conversation_id = ? AND key = 'title'", (conversation_id,))
    if title:
        cursor.execute(
            "INSERT INTO state(conversation_id, key, value) VALUES (?, 'title', ?)", (conversation_id, plain(title))
        )


def set_client(cursor: sqlite3.Cursor, conversation_id: str, client: str) -> None:
    """Store which client of a server opened a conversation: that client may continue it."""
    cursor.execute(
        "INSERT OR REPLACE INTO state(conversation_id, key, value) VALUES (?, 'client', ?)",
        (conversation_id, plain(client)),
    )


def client_of(store: Store, conversation_id: str) -> str:
    """The client that opened a conversation; empty if no client did."""
    rows = store.read("SELECT value FROM state WHERE conversation_id = ? AND key = 'client'", (conversation_id,))
    return str(rows[0][0]) if rows else ""


CHOICES = ("profile", "provider", "model")
"""The settings that a client may choose for a conversation."""


def store_choices(cursor: sqlite3.Cursor, conversation_id: str, chosen: Mapping[str, str]) -> None:
    """Store the client's choices for the later turns of a conversation."""
    for name in CHOICES:
        if name in chosen:
            cursor.execute(
                "INSERT OR REPLACE INTO state(conversation_id, key, value) VALUES (?, ?, ?)",
                (conversation_id, name, plain(chosen[name])),
            )
        else:
            cursor.execute("DELETE FROM state WHERE conversation_id = ? AND key = ?", (conversation_id, name))


def choices(store: Store, conversation_id: str) -> dict[str, str]:
    """The choices of the client for a conversation; settings left to the operator are absent."""
    rows = store.read("SELECT key, value FROM state WHERE conversation_id = ?", (conversation_id,))
    return {str(key): str(value) for key, value in rows if key in CHOICES}


def title(store: Store, conversation_id: str) -> str:
    """The title that was set; empty if there is none."""
    rows = store.read("SELECT value FROM state WHERE conversation_id = ? AND key = 'title'", (conversation_id,))
    return str(rows[0][0]) if rows else ""


def last_message_text(store: Store, conversation_id: str) -> str:
    """The text of the last message of either side."""
    rows = store.read(
        "SELECT e.payload_json FROM transcript_entries e JOIN sessions s USING (session_id)"
        " WHERE s.conversation_id = ? AND e.entry_type IN ('user', 'assistant') ORDER BY e.id DESC LIMIT 8",
        (conversation_id,),
    )
    return next((text for row in rows if (text := text_of(json.loads(row[0])).strip())), "")


def beginning(payload_json: str | None) -> str:
    """The first words of a message: the default title of a conversation."""
    return " ".join(text_of(json.loads(payload_json)).split())[:80] if payload_json else ""


def text_of(payload: Json) -> str:
    """The readable text of an entry."""
    content: Any = payload.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    blocks = (cast(Json, block) for block in cast(list[Any], content) if isinstance(block, dict))
    parts = (block.get("text") or block.get("content") for block in blocks)
    return "\n".join(part for part in parts if isinstance(part, str))


# ------------------------------------------------------------------ search

_WORD = re.compile(r"[^\W_]+")
_CANDIDATES = 200
_COLUMNS = (
    "SELECT s.conversation_id, e.session_id, e.id, e.entry_type, e.payload_json, e.created_at,"
    " julianday('now') - julianday(c.last_active) AS days"
)
_BY_WORDS = (
    ", bm25(transcript_fts) AS rank FROM transcript_fts JOIN transcript_entries e ON e.id = transcript_fts.rowid"
    " JOIN sessions s USING (session_id) JOIN conversations c ON c.id = s.conversation_id"
    " WHERE transcript_fts MATCH :match"
    " AND (:places IS NULL OR c.project_dir IN (SELECT value FROM json_each(:places))) ORDER BY rank LIMIT :limit"
)
_SUBSTRING = (
    ", -1.0 AS rank FROM transcript_entries e JOIN sessions s USING (session_id)"
    " JOIN conversations c ON c.id = s.conversation_id"
    " WHERE e.entry_type IN ('user', 'assistant', 'tool_result') AND e.payload_json LIKE :match ESCAPE '!'"
    " AND (:places IS NULL OR c.project_dir IN (SELECT value FROM json_each(:places))) ORDER BY e.id DESC LIMIT :limit"
)


def search(store: Store, query: str, limit: int, project: str | Sequence[str] | None = None) -> list[Hit]:
    """Entries that contain every word as a prefix, else the query as a substring, else any of its words.

    With a `project`, searches only the conversations in that folder or those folders.
    """
    named = [project] if isinstance(project, str) else project
    places = None if named is None else json.dumps(list(map(plain, named)))
    query = " ".join(plain(query).split())
    words = list(dict.fromkeys(_WORD.findall(query.lower())))[:32]
    return (
        _by_words(store, words, " AND ", limit, places)
        or _by_substring(store, query, limit, places)
        or (_by_words(store, words, " OR ", limit, places) if len(words) > 1 else [])
    )


def _by_words(store: Store, words: list[str], joined: str, limit: int, places: str | None) -> list[Hit]:
    if not words:
        return []
    # Words contain only letters and digits, so a quoted word is never an operator.
    match = joined.join(f'"{word}"*' for word in words)
    params = {"match": match, "places": places, "limit": max(limit, _CANDIDATES)}
    hits = [_hit(row, words) for row in store.read(_COLUMNS + _BY_WORDS, params)]
    hits.sort(key=lambda hit: (hit.score, hit.entry_id), reverse=True)
    return hits[:limit]


def _by_substring(store: Store, query: str, limit: int, places: str | None) -> list[Hit]:
    """Find rows by LIKE on their JSON, then check their decoded text."""
    needle = query.casefold()
    if not needle:
        return []
    pattern = "".join(map(_like, query))
    hits: list[Hit] = []
    params = {"match": f"%{pattern}%", "places": places, "limit": 10 * max(limit, _CANDIDATES)}
    for row in store.read(_COLUMNS + _SUBSTRING, params):
        if needle in " ".join(text_of(json.loads(row[4])).split()).casefold():
            hits.append(_hit(row, [needle]))
        if len(hits) == limit:
            break
    return hits


def _like(character: str) -> str:
    # LIKE folds the case of ASCII only, and JSON escapes some characters, so wildcards replace both kinds.
    if character in '"\\ ' or character < " ":
        return "%"
    if not character.isascii():
        return "_"
    return f"!{character}" if character in "%_!" else character


def _hit(row: sqlite3.Row, words: list[str]) -> Hit:
    recency = 1 + 1 / (1 + max(row["days"] or 0.0, 0.0) / 7)
    excerpt = snippet(text_of(json.loads(row[4])), words)
    return Hit(row[0], row[1], row[2], row[3], excerpt, round(-row["rank"] * recency, 9), row[5])


def snippet(text: str, words: list[str], width: int = 160) -> str:
    text = " ".join(text.split())
    folded = text.lower()
    at = min((index for word in words if (index := folded.find(word)) >= 0), default=0)
    start = max(0, at - width // 3)
    piece = text[start : start + width]
    return ("…" if start else "") + piece + ("…" if start + width < len(text) else "")


def log(
    cursor: sqlite3.Cursor, *, session_id: str, tool_use_id: str, tool_name: str, decision: str, reason: Json
) -> None:
    cursor.execute(
        "INSERT INTO tool_permission_log(session_id, tool_use_id, tool_name, decision, reason_json)"
        " VALUES (?, ?, ?, ?, ?)",
        (session_id, plain(tool_use_id), plain(tool_name), decision, compact(reason)),
    )
