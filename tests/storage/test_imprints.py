"""Imprints: of what a run left, each byte that is changed later is found, and its row named."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from adderclaw.storage import Store
from adderclaw.storage.ledger import imprints

MUTABLE = {
    "receipts": {"archive"},
    "approvals": {
        "stays",
        "channel",
        "agent",
        "answered_who",
        "used_at",
        *("terminal", "questions_json", "replies_json", "kind"),  # under the answer's own signature
    },  # runs of before have none; receipts name who answered
    "model_calls": {"entry_sequence"},  # which entry a reply became: a link for the view of the memory
    "runs": {"began_json"},  # runs of before have none; a replay that begins elsewhere differs at once
    "background_tasks": {"told"},
    "conversations": {"last_active", "phase"},
    "workflows": {"config"},
}
"""What may change after a run has ended, or is read no more."""
FILLED: dict[str, tuple[str, Mapping[str, object]]] = {
    "conversations": ("c", {"id": "c", "project_dir": "/w"}),
    "sessions": ("s", {"session_id": "s", "conversation_id": "c"}),
    "runs": ("r", {"run_id": "r", "kind": "agent", "conversation_id": "c", "session_id": "s", "pid": 1}),
    "events": ("1", {"conversation_id": "c", "event_type": "warning", "detail": '{"run_id":"r"}'}),
    "transcript_entries": ("1", {"session_id": "s", "sequence": 0, "entry_type": "user", "payload_json": "{}"}),
    "opaque_blocks": ("1", {"entry_id": 1, "blocks_json": "[]"}),
    "model_calls": (
        "1",
        {"session_id": "s", "step": 1, "provider": "p", "model": "m", "request_hash": "h", "usage_json": "{}"}
        | {"attempts": 1, "latency_ms": 0.5, "status": "ok"},
    ),
    "tool_permission_log": ("1", {"session_id": "s", "tool_use_id": "t", "tool_name": "LS", "decision": "allow"}),
    "hook_invocations": (
        "1",
        {"session_id": "s", "conversation_id": "c", "hook_event": "Stop", "hook_ordinal": 0, "matcher": ""}
        | {"command": "true", "input_json": "{}", "started_at": "now"},
    ),
    "receipts": ("1", {"seq": 1, "receipt_hash": "h", "line": "{}", "end_offset": 3, "run_id": "r"}),
    "approvals": (
        "a",
        {"id": "a", "session_id": "s", "tool_use_id": "t", "tool": "LS", "risk": "low", "reason": "", "shown": ""}
        | {"plan_hash": "", "pid": 1, "created_at": "now", "answer": "yes"},
    ),
    "subagents": (
        "child",
        {"session_id": "child", "parent_id": "s", "tool_use_id": "t", "agent_type": "", "description": ""}
        | {"background": 0, "pid": 1, "outcome": "completed"},
    ),
    "background_tasks": ("b", {"id": "b", "session_id": "s", "kind": "shell", "title": "sleep", "ended_at": "now"}),
    "workflows": ("r", {"run_id": "r", "file": "", "name": "task", "digest": "", "inputs_json": "{}"}),
    "workflow_results": (
        "r 1 (step)",
        {"run_id": "r", "place": "1", "agent": "(step)", "goal": "", "session_id": "s", "result_json": "{}"},
    ),
}


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Store]:
    """What a run left, a row in every table that has some of it."""
    store = Store.open(str(tmp_path / "memory.sqlite"))
    with store.write() as cursor:
        for table, (_, row) in FILLED.items():
            marks = ", ".join("?" * len(row))
            cursor.execute(f"INSERT INTO {table}({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
        imprints.store_imprint(cursor, "r", {})
    assert list(imprints.changed_rows(store, "r", ended=True)) == []
    yield store
    store.close()


def columns(store: Store) -> Iterator[tuple[str, str]]:
    for table in FILLED:
        for row in store.read(f"PRAGMA table_info({table})"):
            yield table, row[1]


def test_a_change_of_any_column_is_found_and_the_row_named(left: Store) -> None:
    """Every column that there is: whoever adds one has to say here that it may change."""
    with closing(sqlite3.connect(left.path, autocommit=True)) as other:
        other.execute("PRAGMA ignore_check_constraints = ON")
        for table, column in columns(left):
            ((before,),) = other.execute(f"SELECT {column} FROM {table}").fetchall()
            other.execute(
                f"UPDATE {table} SET {column} = ?", (before + 1 if isinstance(before, int) else f"{before}x",)
            )
            found = list(imprints.changed_rows(left, "r", ended=True))
            other.execute(f"UPDATE {table} SET {column} = ?", (before,))
            if column in MUTABLE.get(table, ()):
                assert found == [], (table, column)
            else:
                row = f"{table} row {FILLED[table][0]}"
                assert found[0] in ((row, "changed"), (row, "missing")), (table, column)
                assert {now for _, now in found[1:]} <= {"not in the imprint"}, "under its new key"


def test_a_row_or_the_imprint_that_is_gone_is_named(left: Store) -> None:
    with left.write() as cursor:
        cursor.execute("DELETE FROM hook_invocations")
    assert list(imprints.changed_rows(left, "r", ended=True)) == [("hook_invocations row 1", "missing")]
    for text in ("{", "[]", '{"eventz":{}}', '{"events":[]}'):
        with left.write() as cursor:
            cursor.execute("UPDATE imprints SET rows_json = ?", (text,))
        assert list(imprints.changed_rows(left, "r", ended=True)) == [("imprint of the run", "changed")], text
    with left.write() as cursor:
        cursor.execute("DELETE FROM imprints")
    assert list(imprints.changed_rows(left, "r", ended=True)) == [("imprint of the run", "missing")]
    assert list(imprints.changed_rows(left, "r", ended=False)) == []


def test_a_row_that_is_added_and_an_imprint_that_is_emptied_are_named(left: Store) -> None:
    growing = ("events", "transcript_entries", "opaque_blocks", "model_calls", "tool_permission_log")
    growing += ("hook_invocations",)
    more: dict[str, Mapping[str, object]] = {
        "events": {},
        "hook_invocations": {"hook_ordinal": 7},
        "workflow_results": {"place": "2"},
    }
    with left.write() as cursor:
        for table, other in more.items():
            row = {**FILLED[table][1], **other}
            marks = ", ".join("?" * len(row))
            cursor.execute(f"INSERT INTO {table}({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    rows = ("events row 2", "hook_invocations row 2", "workflow_results row r 2 (step)")
    assert list(imprints.changed_rows(left, "r", ended=True)) == [(row, "not in the imprint") for row in rows]
    assert list(imprints.changed_rows(left, "r", ended=False)) == []
    with left.write() as cursor:
        cursor.execute("UPDATE imprints SET rows_json = '{}'")
    named = {row for row, _ in imprints.changed_rows(left, "r", ended=True)}
    assert named >= {f"{table} row {FILLED[table][0]}" for table in (*growing, "receipts", "runs", "workflows")}


def test_what_another_run_of_the_session_left_was_not_added(left: Store) -> None:
    with left.write() as cursor:
        cursor.execute(
            "INSERT INTO runs(run_id, kind, conversation_id, session_id, pid) VALUES ('n','agent','c','s',1)"
        )
        cursor.execute("INSERT INTO events(conversation_id, session_id, event_type, detail) VALUES ('c','s','w','{}')")
    assert list(imprints.changed_rows(left, "r", ended=True)) == [], "nobody knows what a run without an imprint left"
    with left.write() as cursor:
        imprints.store_imprint(cursor, "n", {"events": 1})
        assert list(imprints.changed_rows(left, "r", ended=True)) == []
        cursor.execute("INSERT INTO events(conversation_id, session_id, event_type, detail) VALUES ('c','s','w','{}')")
    assert list(imprints.changed_rows(left, "r", ended=True)) == [("events row 3", "not in the imprint")]


def test_going_on_with_a_run_blesses_no_change(left: Store) -> None:
    """What an earlier process left is as that one left it; rows of a run that goes on may change with it."""
    with left.write() as cursor:
        cursor.execute("UPDATE runs SET outcome = NULL, pid = 2")
        cursor.execute("UPDATE events SET timestamp = 'other'")
        cursor.execute(
            "INSERT INTO hook_invocations SELECT 2, session_id, conversation_id, hook_event, 1, matcher,"
            " command, NULL, NULL, input_json, 0, '', '', started_at, NULL, NULL FROM hook_invocations"
        )
    assert list(imprints.changed_rows(left, "r", ended=False)) == [("events row 1", "changed")]
    with left.write() as cursor:
        imprints.store_imprint(cursor, "r", {})
    assert list(imprints.changed_rows(left, "r", ended=True)) == [("events row 1", "changed")]
    with left.write() as cursor:
        cursor.execute("UPDATE hook_invocations SET stdout_text = 'other' WHERE id = 2")
    assert ("hook_invocations row 2", "changed") in list(imprints.changed_rows(left, "r", ended=True))


def test_rows_of_others_and_of_before_are_not_the_runs(left: Store) -> None:
    with left.write() as cursor:
        cursor.execute("DELETE FROM imprints")
        cursor.execute(
            "INSERT INTO events(conversation_id, session_id, event_type, detail) VALUES ('c', 'x', 'w', '{}')"
        )
        imprints.store_imprint(cursor, "r", {"events": 1, "transcript_entries": 1})
    with left.write() as cursor:
        cursor.execute("UPDATE events SET timestamp = 'other'")
        cursor.execute("UPDATE transcript_entries SET created_at = 'other'")
    since = {"events": 1, "transcript_entries": 1}
    assert list(imprints.changed_rows(left, "r", ended=True, since=since)) == []
