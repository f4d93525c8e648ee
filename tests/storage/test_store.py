"""The database file: what is refused, how it is made, and several processes at once."""

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw import __version__
from adderclaw.core.errors import StoreError
from adderclaw.storage import Store, memory, transcript
from tests.program import Soak
from tests.storage.book import abandoned, child, codes, integrity


def not_a_database(path: Path) -> None:
    path.write_bytes(b"this is no database, whatever its name says " * 100)


def of_another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")


def of_a_newer_schema(path: Path) -> None:
    Store.open(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_meta SET value = '2' WHERE key = 'schema_version'")


def with_an_unknown_migration(path: Path) -> None:
    Store.open(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO schema_migrations(name) VALUES ('m999_future')")


def a_folder(path: Path) -> None:
    path.mkdir()


def cut_short(path: Path) -> None:
    Store.open(str(path)).close()
    os.truncate(path, 6000)


REFUSED = [
    (not_a_database, "is not a database"),
    (of_another_program, "another program"),
    (of_a_newer_schema, "another version of adderclaw"),
    (with_an_unknown_migration, "m999_future"),
    (a_folder, "cannot be opened"),
    (cut_short, "is damaged"),
]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(("spoil", "said"), REFUSED)
def test_refuses_in_one_line_and_leaves_the_file(
    tmp_path: Path, spoil: Callable[[Path], None], said: str, read_only: bool
) -> None:
    path = tmp_path / "memory.sqlite"
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError) as refused:
        Store.open(str(path), read_only=read_only)
    message = str(refused.value)
    assert said in message
    assert str(path) in message
    assert "\n" not in message
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_reading_creates_and_migrates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    with pytest.raises(StoreError, match="adderclaw init"):
        Store.open(str(path), read_only=True)
    assert list(tmp_path.iterdir()) == []
    path.touch()
    with pytest.raises(StoreError, match="adderclaw init"):
        Store.open(str(path), read_only=True)
    assert path.stat().st_size == 0


def test_a_reader_cannot_write(store: Store) -> None:
    reader = Store.open(store.path, read_only=True)
    with pytest.raises(StoreError, match="reading only"):
        reader.write()
    with pytest.raises(StoreError, match="cannot be written"):
        reader.read("DELETE FROM conversations")
    assert reader.read("SELECT count(*) FROM conversations")[0][0] == 1


def as_nobody(work: Callable[[], None]) -> None:
    def dropped() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        work()

    assert codes([child(dropped)]) == [0]


@pytest.mark.parametrize("exists", [False, True])
def test_refuses_a_folder_that_it_may_not_write(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    path = folder / "memory.sqlite"
    if exists:
        Store.open(str(path)).close()
        path.chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(0o755)

    def work() -> None:
        with pytest.raises(StoreError, match="writable"):
            Store.open(str(path))

    as_nobody(work)
    folder.chmod(0o755)


def test_what_may_not_be_written_can_still_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    path = folder / "memory.sqlite"
    Store.open(str(path)).close()
    path.chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(0o755)

    def work() -> None:
        assert transcript.conversations(Store.open(str(path), read_only=True), 5) == []

    as_nobody(work)
    folder.chmod(0o755)
    assert [file.name for file in folder.iterdir()] == ["memory.sqlite"]


def test_says_who_holds_it_when_the_wait_is_over(store: Store) -> None:
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.read("PRAGMA busy_timeout = 50")
    with pytest.raises(StoreError, match="locked by another process"), store.write():
        pass
    other.execute("ROLLBACK")
    with store.write() as cursor:
        cursor.execute("SELECT 1")


def test_a_full_disk_is_said_and_nothing_is_half_written(store: Store) -> None:
    pages = store.read("PRAGMA page_count")[0][0]
    store.read(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StoreError, match="disk is full"), store.write() as cursor:
        transcript.append(cursor, "session", "user", {"content": "x" * 400_000})
    assert transcript.entries(store, "session") == []
    store.read("PRAGMA max_page_count = 1000000")
    with store.write() as cursor:
        transcript.append(cursor, "session", "user", {"content": "still works"})


def test_the_specified_schema_and_pragmas(store: Store) -> None:
    tables = {row[0] for row in store.read("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables >= {
        *("schema_meta", "conversations", "sessions", "state", "plans", "summaries", "events", "task_ratings"),
        *("memories", "memories_fts", "transcript_entries", "hook_invocations", "tool_permission_log"),
        *("settings_snapshot", "model_calls", "runs", "receipts", "opaque_blocks", "transcript_fts"),
    }
    assert store.read("SELECT value FROM schema_meta WHERE key = 'schema_version'")[0][0] == "1"
    pragmas = {"foreign_keys": 1, "journal_mode": "wal", "busy_timeout": 30000, "synchronous": 1}
    for opened in (store, Store.open(store.path, read_only=True)):
        for name, value in pragmas.items():
            if opened is store or name != "synchronous":
                assert opened.read(f"PRAGMA {name}")[0][0] == value


def test_a_new_database_names_its_version_and_has_no_migration(store: Store) -> None:
    assert {row[0]: row[1] for row in store.read("SELECT * FROM schema_meta")} == {
        "schema_version": "1",
        "written_by": __version__,
    }
    assert store.read("SELECT * FROM schema_migrations") == []


def test_a_file_that_holds_only_the_specified_tables_is_adopted(tmp_path: Path) -> None:
    path = tmp_path / "seeded.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(Path(__file__).with_name("specified.sql").read_text())
        connection.execute("INSERT OR REPLACE INTO schema_meta VALUES ('schema_version', '1')")
        connection.execute("INSERT INTO conversations(id, project_dir) VALUES ('mine', '/p')")
        columns = "id, type, title, content, keywords, created_at, updated_at"
        connection.execute(f"INSERT INTO memories({columns}) VALUES ('m', 'n', 'fruit', 'an orchard', 'apples', 1, 1)")
    store = Store.open(str(path))
    assert transcript.conversation_of(store, "mine") == "mine"
    assert len(memory.find(store, "apples", 5)) == 1
    assert store.read("SELECT count(*) FROM runs")[0][0] == 0


def test_modes_are_the_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = Store.open(str(tmp_path / "deep" / "memory.sqlite"))
        with store.write() as cursor:
            transcript.begin(cursor, conversation_id="c", session_id="s", project_dir="/p")
    finally:
        os.umask(old)
    folder = tmp_path / "deep"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert names == {"memory.sqlite": 0o600, "memory.sqlite-wal": 0o600, "memory.sqlite-shm": 0o600}


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    Store.open(str(path)).close()
    path.chmod(0o644)
    Store.open(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    abandoned(store, lambda cursor: transcript.append(cursor, "session", "user", {"content": "gone"}))
    with pytest.raises(StoreError, match="FOREIGN KEY"), store.write() as cursor:
        transcript.append(cursor, "no such session", "user", {"content": "gone"})
    assert transcript.entries(store, "session") == []


def test_transactions_do_not_nest_and_the_outer_one_survives(store: Store) -> None:
    with store.write() as cursor:
        transcript.append(cursor, "session", "user", {"content": "kept"})
        with pytest.raises(StoreError, match="do not nest"), store.write():
            pass
    assert len(transcript.entries(store, "session")) == 1


INSERT_STATE = "INSERT INTO state(conversation_id, key, value) VALUES (?, ?, ?)"


def test_later_rows_ride_along_with_the_next_transaction(store: Store) -> None:
    store.write_later(INSERT_STATE, ("c", "a", "1"))
    assert store.read("SELECT * FROM state") == []
    with store.write():
        pass
    assert [tuple(row)[:3] for row in store.read("SELECT * FROM state")] == [("c", "a", "1")]


def test_later_rows_survive_a_rollback_and_a_bad_one_harms_nobody(store: Store) -> None:
    store.write_later(INSERT_STATE, ("c", "a", "1"))
    store.write_later(INSERT_STATE, ("c", "a", "same key"))
    store.write_later("INSERT INTO state(conversation_id, key) VALUES (?, ?)", ("c", None))
    store.write_later(INSERT_STATE, ("c", "b", "\ud800"))
    store.write_later(INSERT_STATE, ("c", "z", "last"))
    abandoned(store, lambda _: None)
    assert store.read("SELECT * FROM state") == []
    store.close()
    again = Store.open(store.path)
    assert {row[1] for row in again.read("SELECT * FROM state")} == {"a", "z"}


def test_later_does_not_grow_without_end(store: Store) -> None:
    for number in range(1000):
        store.write_later(INSERT_STATE, ("c", str(number), ""))
    assert store.read("SELECT count(*) FROM state")[0][0] >= 512


@pytest.mark.parametrize("round_", range(5))
def test_processes_that_create_the_file_at_once_all_succeed(tmp_path: Path, round_: int) -> None:
    path = tmp_path / "new" / "memory.sqlite"
    assert codes([child(lambda: Store.open(str(path)).close()) for _ in range(8)]) == [0] * 8
    assert integrity(path) == "ok"


def test_eight_writers_lose_nothing(tmp_path: Path) -> None:
    eight_writers(tmp_path / "memory.sqlite", 25)


@pytest.mark.soak
def test_eight_writers_lose_nothing_for_long(tmp_path: Path, soak: Soak) -> None:
    eight_writers(tmp_path / "memory.sqlite", len(soak.of(1000)))


def eight_writers(path: Path, rounds: int) -> None:
    def work(number: int) -> None:
        store = Store.open(str(path))
        with store.write() as cursor:
            transcript.begin(cursor, conversation_id=f"c{number % 2}", session_id=f"s{number % 4}", project_dir="/p")
        for turn in range(rounds):
            with store.write() as cursor:
                transcript.append(cursor, f"s{number % 4}", "user", {"content": f"writer{number} turn{turn}"})
        store.close()

    assert codes([child(lambda number=number: work(number)) for number in range(8)]) == [0] * 8
    store = Store.open(str(path), read_only=True)
    for session in range(4):
        entries = transcript.entries(store, f"s{session}")
        assert [entry.sequence for entry in entries] == list(range(2 * rounds))
        for number in (session, session + 4):
            mine = [entry.payload["content"] for entry in entries if f"writer{number} " in entry.payload["content"]]
            assert mine == [f"writer{number} turn{turn}" for turn in range(rounds)]
    store.close()
    assert integrity(path) == "ok"
