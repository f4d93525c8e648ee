"""What `memory forget` and `memory clear` leave, column by column: nothing of what was said in a conversation."""

from collections.abc import Callable

import pytest

from adderclaw.storage import Store, tape, transcript
from adderclaw.terminal import notes

WORD = "heliotrope"
KNOWN = {
    "conversation_id": "conversation",
    "session_id": "session",
    "run_id": "run",
    "answer": "yes",
    "outcome": "completed",
    "phase": "idle",
    "began_json": None,
    "finished_at": None,
    "payload_json": f'{{"content": "{WORD}"}}',
    "entry_type": "user",
    "state": "sent",
    "plan_id": 1,
    "test_id": 1,
    "entry_id": 1,
}
UNDO = {"checkpoint_blobs", "checkpoint_changes", "checkpoints"}  # it has limits of its own
RECORDS = {"hook_invocations", "receipts", "tool_permission_log", "traces"}
OTHERS = {"clients", "deliveries", "later_changes", "later_sessions", "later_state", "mcp_pins", "scenario_checks"} | {
    "schedule_runs", "schedule_ticks", "schedules", "schema_meta", "schema_migrations", "settings_snapshot",
}  # fmt: skip
STAYS = UNDO | RECORDS | OTHERS
WORDS = {
    "approvals": {"shown", "reason", "comment", "questions_json", "replies_json"},
    "model_calls": {"response_json", "error"},
    "notices": {"body_json"},
    "runs": {"reason"},
}
"""Tables whose rows stay, and the columns with what was said; `runs.answer` has its own test."""
NOTES = {"memories", "unconfirmed_memories"}


def filled(store: Store) -> None:
    """A row of one conversation in every table, with a word wherever text fits."""
    store.read("PRAGMA foreign_keys = OFF")
    store.read("PRAGMA ignore_check_constraints = ON")
    for table in tables(store):
        if table in ("schema_meta", "schema_migrations"):
            continue
        columns = [(row[1], row[2]) for row in store.read(f"PRAGMA table_info({table})")]
        row = {name: KNOWN.get(name, 1 if kind in ("INTEGER", "REAL") else WORD) for name, kind in columns}
        row |= {"id": "conversation"} if table == "conversations" else {}
        row |= {"parent_entry_id": None} if table == "transcript_entries" else {}
        with store.write() as cursor:
            marks = ", ".join("?" * len(row))
            sql = f"INSERT OR REPLACE INTO {table}({', '.join(row)}) VALUES ({marks})"
            cursor.execute(sql, tuple(row.values()))
    store.read("PRAGMA foreign_keys = ON")
    store.read("PRAGMA ignore_check_constraints = OFF")


def tables(store: Store) -> list[str]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '*_fts*' AND name NOT GLOB 'sqlite_*'"
    return [row[0] for row in store.read(sql)]


def forget(store: Store) -> None:
    notes.forget_conversation(store, "conversation")


def clear(store: Store) -> None:
    transcript.clear(store)


@pytest.mark.parametrize(("way", "stays"), [(forget, NOTES), (clear, set[str]())])
def test_no_word_of_a_conversation_is_left(store: Store, way: Callable[[Store], None], stays: set[str]) -> None:
    filled(store)
    way(store)
    left = {
        f"{table}.{column}"
        for table in tables(store)
        if table not in STAYS and table not in stays
        for row in store.read(f"SELECT * FROM {table}")
        for column in row.keys()  # noqa: SIM118 - of a row, not of a mapping
        if WORD in str(row[column]) and column in WORDS.get(table, (column,))
    }
    assert left == set()
    assert store.read("SELECT count(*) FROM runs WHERE answer IS NOT NULL")[0][0] == 0


def test_a_text_that_another_recording_needs_stays(store: Store) -> None:
    with store.write() as cursor:
        shared, own = tape.store_text(cursor, "shared"), tape.store_text(cursor, "own")
        tape.append(cursor, "run", "session", 1, tape.encode([("fact", {"kept": shared}), ("f", {"kept": own})]), "")
        tape.append(cursor, "other", "elsewhere", 1, tape.encode([("fact", {"kept": shared})]), "")
    forget(store)
    assert [row[0] for row in store.read("SELECT digest FROM tape_texts")] == [shared]
