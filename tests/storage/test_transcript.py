"""Entries in order, conversations found again, and what clearing leaves."""

import json
import time
from typing import Any

import pytest

from adderclaw.core.errors import StoreError, UsageError
from adderclaw.storage import Store, memory, model_calls, runs, transcript
from adderclaw.storage.transcript import ENTRY_TYPES
from tests.storage.book import Book, abandoned


def say(store: Store, session_id: str, text: str, entry_type: str = "user") -> int:
    with store.write() as cursor:
        return transcript.append(cursor, session_id, entry_type, {"content": [{"type": "text", "text": text}]})


def begin(store: Store, conversation_id: str, session_id: str, project_dir: str = "/p") -> None:
    with store.write() as cursor:
        transcript.begin(cursor, conversation_id=conversation_id, session_id=session_id, project_dir=project_dir)


@pytest.mark.parametrize("entry_type", ["", "User", "tool", "user; DROP TABLE sessions", "message"])
def test_an_unknown_type_is_refused(store: Store, entry_type: str) -> None:
    with pytest.raises(StoreError, match="no type of transcript entry"):
        say(store, "session", "x", entry_type)
    assert transcript.entries(store, "session") == []


def test_an_entry_needs_its_session(store: Store) -> None:
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        say(store, "nowhere", "x")


@pytest.mark.parametrize("entry_type", sorted(ENTRY_TYPES))
def test_every_type_says_itself(store: Store, entry_type: str) -> None:
    say(store, "session", "x", entry_type)
    assert transcript.entries(store, "session")[0].payload["_t"] == entry_type


def test_the_payload_is_compact_json(store: Store) -> None:
    with store.write() as cursor:
        result = {"tool_use_id": "t1", "content": "line1\n3 lines é", "is_error": False}
        transcript.append(cursor, "session", "tool_result", result, "t1")
    (row,) = store.read("SELECT payload_json, tool_use_id, created_at FROM transcript_entries")
    assert row[0] == ('{"_t":"tool_result","tool_use_id":"t1","content":"line1\\n3 lines é","is_error":false}')
    assert row[1] == "t1"
    assert len(row[2]) == len("2026-05-12 14:00:00")


NASTY = ["\ud800 alone", "pair \ud83d\ude00", "nul \x00 in it", "𝕌𝕟𝕚", "\x1b[31m", "\u202e", "", "x" * 1_000_000]


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_any_text_can_be_kept(store: Store, text: str) -> None:
    say(store, "session", text)
    kept = transcript.entries(store, "session")[0].payload["content"][0]["text"]
    assert kept == "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def test_sequences_begin_at_nought_and_have_no_gaps(store: Store) -> None:
    begin(store, "conversation", "other")
    assert [say(store, "session", "x") for _ in range(3)] == [0, 1, 2]
    assert [say(store, "other", "x") for _ in range(2)] == [0, 1]
    abandoned(store, lambda cursor: transcript.append(cursor, "session", "user", {}))
    assert say(store, "session", "x") == 3


def test_parents_are_kept(store: Store) -> None:
    say(store, "session", "x")
    first = transcript.entries(store, "session")[0].id
    with store.write() as cursor:
        transcript.append(cursor, "session", "assistant", {}, parent=first)
    assert store.read("SELECT parent_entry_id FROM transcript_entries ORDER BY id")[1][0] == first


def test_opaque_blocks_come_back_with_their_entry(store: Store) -> None:
    blocks: list[dict[str, Any]] = [{"wire": "anthropic", "payload": {"type": "thinking", "signature": "ß"}}]
    say(store, "session", "x")
    with store.write() as cursor:
        sequence = transcript.append(cursor, "session", "assistant", {"content": []})
        transcript.store_opaque(cursor, "session", sequence, blocks)
    assert transcript.opaque_blocks(store, "session") == {1: blocks}
    assert "thinking" not in json.dumps([entry.payload for entry in transcript.entries(store, "session")])


def test_the_last_conversation_is_the_one_last_spoken_in(store: Store) -> None:
    begin(store, "a", "sa", "/one")
    begin(store, "b", "sb", "/two")
    say(store, "sb", "x")
    say(store, "sa", "later, in the same second")
    assert transcript.last_conversation(store, None) == "a"
    assert transcript.last_conversation(store, "/two") == "b"
    assert transcript.last_conversation(store, "/none") is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("conv-abc1", "conv-abc1"),
        ("sess-1", "conv-abc1"),
        ("conv-abd", "conv-abd2"),
        ("sess-2", "conv-abd2"),
        ("conv", "conv"),
        ("CONV-ABC1", None),
        ("nothing", None),
        ("", None),
        ("%", None),
        ("conv_ab", None),
    ],
)
def test_a_conversation_is_found_by_id_session_or_beginning(store: Store, name: str, found: str | None) -> None:
    begin(store, "conv-abc1", "sess-1")
    begin(store, "conv-abd2", "sess-2")
    begin(store, "conv", "sess-3")
    assert transcript.conversation_of(store, name) == found


def test_an_ambiguous_beginning_is_refused_with_the_choices(store: Store) -> None:
    begin(store, "conv-abc1", "sess-1")
    begin(store, "conv-abd2", "sess-2")
    with pytest.raises(UsageError, match=r"conv-abc1, conv-abd2"):
        transcript.conversation_of(store, "conv-ab")


def test_conversations_are_listed_with_what_they_began_with(store: Store) -> None:
    say(store, "session", "fix\n  the   build")
    say(store, "session", "done", "assistant")
    (talk,) = transcript.conversations(store, 10)
    assert (talk.id, talk.entries, talk.title) == ("conversation", 2, "fix the build")
    assert transcript.sessions_of(store, "conversation") == ["session"]


def test_clearing_takes_transcripts_and_memories_and_leaves_the_ledger(book: Book) -> None:
    store = book.store
    book.write(2)
    say(store, "session", "unforgettable")
    with store.write() as cursor:
        sequence = transcript.append(cursor, "session", "assistant", {})
        transcript.store_opaque(cursor, "session", sequence, [{"x": 1}])
        memory.put(cursor, "k", "unforgettable")
        transcript.log(cursor, session_id="session", tool_use_id="t", tool_name="Read", decision="allow", reason={})
        model_calls.record(
            cursor, session_id="session", step=1, provider="p", model="m", request_hash="h",
            response={"text": "unforgettable"}, usage={}, attempts=1, latency_ms=1.0, status="ok", error=None,
        )  # fmt: skip
        runs.begin(cursor, run_id="r", kind="agent", conversation_id="conversation", session_id="session", pid=1)
        runs.finish(cursor, run_id="r", outcome="completed", exit_code=0, answer="unforgettable", usage={}, reason=None)
    assert transcript.clear(store) == 1
    assert transcript.conversations(store, 10) == []
    assert transcript.search(store, "unforgettable", 10) == []
    assert memory.find(store, "unforgettable", 10) == []
    assert book.mirrored() == 2
    assert store.read("SELECT count(*) FROM tool_permission_log")[0][0] == 1
    assert book.verify().valid
    store.close()
    assert b"unforgettable" not in book.database.read_bytes()


def test_clearing_does_not_take_the_square_of_the_time(store: Store) -> None:
    with store.write() as cursor:
        last = None
        for _ in range(5000):
            transcript.append(cursor, "session", "progress", {}, parent=last)
            last = cursor.execute("SELECT max(id) FROM transcript_entries").fetchone()[0]
    began = time.monotonic()
    transcript.clear(store)
    assert time.monotonic() - began < 30


def test_a_session_can_begin_again_after_clearing(store: Store) -> None:
    transcript.clear(store)
    begin(store, "conversation", "session")
    assert say(store, "session", "fresh start") == 0
    assert len(transcript.search(store, "fresh", 5)) == 1
