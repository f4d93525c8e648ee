"""A migration is applied once and as a whole: whatever stops it leaves the database as it was."""

import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from adderclaw import __version__
from adderclaw.core.errors import NotMigrated, StoreError
from adderclaw.storage import Store, transcript
from adderclaw.storage.migrations import apply_or_restore
from tests.trial import bubblewrap

COPY = "memory.sqlite.before-m001_colors"
OPEN = """
import sqlite3, sys
from adderclaw.core.errors import StoreError
from adderclaw.storage import Store
from tests.storage.test_migrations import MIGRATIONS
try:
    Store.open(sys.argv[1], migrations=MIGRATIONS).close()
except StoreError as error:
    sys.exit(str(error))
"""


def m001_colors(cursor: sqlite3.Cursor) -> None:
    cursor.execute("ALTER TABLE conversations ADD COLUMN color TEXT NOT NULL DEFAULT 'red'")
    cursor.execute("CREATE TABLE pages AS SELECT archive, seq, line FROM receipts")


def m002_shades(cursor: sqlite3.Cursor) -> None:
    cursor.execute("UPDATE conversations SET color = 'dark ' || color")


MIGRATIONS = {"m001_colors": m001_colors, "m002_shades": m002_shades}


def content(path: Path) -> list[str]:
    """Everything in it, whether it is in the file or in the log next to it."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [*connection.iterdump()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of the first schema, with a conversation in it."""
    store = Store.open(str(tmp_path / "memory.sqlite"))
    with store.write() as cursor:
        transcript.begin(cursor, conversation_id="mine", session_id="s", project_dir="/p")
    store.close()
    return tmp_path / "memory.sqlite"


def grow(path: Path, rows: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO receipts(archive, seq, receipt_hash, line, end_offset) VALUES ('old', ?, ?, ?, 0)",
            ((number, f"{number:064}", "x" * 2000) for number in range(rows)),
        )


def colors(store: Store) -> list[str]:
    return [row[0] for row in store.read("SELECT color FROM conversations")]


def test_a_database_is_copied_and_then_brought_up_to_date_once(path: Path) -> None:
    before = content(path)
    for _ in range(2):  # the second time nothing is left to do
        store = Store.open(str(path), migrations=MIGRATIONS)
        assert colors(store) == ["dark red"]
        assert [row[0] for row in store.read("SELECT name FROM schema_migrations ORDER BY rowid")] == [*MIGRATIONS]
        store.close()
    [copy] = path.parent.glob("*.before-*")
    assert copy.name == COPY
    assert copy.stat().st_mode & 0o777 == 0o600
    assert content(copy) == before


def test_only_the_missing_migration_is_applied(path: Path) -> None:
    Store.open(str(path), migrations={"m001_colors": m001_colors}).close()
    store = Store.open(str(path), migrations=MIGRATIONS)
    assert colors(store) == ["dark red"]
    store.close()
    assert {copy.name for copy in path.parent.glob("*.before-*")} == {COPY, "memory.sqlite.before-m002_shades"}


def test_a_new_database_has_all_migrations_and_needs_no_copy(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "memory.sqlite"), migrations=MIGRATIONS)
    assert colors(store) == []
    assert store.read("SELECT count(*) FROM schema_migrations")[0][0] == 2
    store.close()
    assert not [*tmp_path.glob("*.before-*")]


def test_a_file_store_is_brought_up_to_date(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.sqlite")
    store = Store.open(path, in_files=True)
    with store.write() as cursor:
        transcript.begin(cursor, conversation_id="mine", session_id="s", project_dir="/p")
    store.close()
    with pytest.raises(StoreError, match="adderclaw init"):
        Store.open(path, in_files=True, read_only=True, migrations=MIGRATIONS)
    store = Store.open(path, in_files=True, migrations=MIGRATIONS)
    assert colors(store) == ["dark red"]
    store.close()


def test_reading_migrates_nothing_and_names_the_command(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(NotMigrated, match=r"lacks m001_colors.*`adderclaw init` brings it up to date"):
        Store.open(str(path), read_only=True, migrations=MIGRATIONS)
    assert path.read_bytes() == before


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("name", ["m001_model_calls", "m999_from_the_future"])
def test_a_database_of_another_version_is_rejected_unchanged(path: Path, name: str, read_only: bool) -> None:
    """An unreleased one, and a later one."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO schema_migrations(name) VALUES (?)", (name,))
        connection.execute("INSERT OR REPLACE INTO schema_meta(key, value) VALUES ('written_by', '9.8.7')")
    path.with_name(f"{path.name}.before-{name}").write_bytes(b"copy")
    before = path.read_bytes()
    with pytest.raises(StoreError) as rejected:
        Store.open(str(path), read_only=read_only)
    message = str(rejected.value)
    parts = ("another version of adderclaw, 9.8.7", name, __version__, "adderclaw update", "adderclaw memory export")
    for part in (*parts, f"memory.sqlite.before-{name}"):
        assert part in message
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_the_database_as_it_was(path: Path) -> None:
    before = content(path)

    def fails(cursor: sqlite3.Cursor) -> None:
        cursor.execute("INSERT INTO no_such_table VALUES (1)")

    with pytest.raises(StoreError, match=r"could not be brought up to date .* is as it was; a copy is in .*before-"):
        Store.open(str(path), migrations={"m001_colors": m001_colors, "m002_fails": fails})
    assert content(path) == before == content(path.with_name(COPY))


def test_an_error_of_the_module_itself_fails_a_migration_as_any_other(tmp_path: Path) -> None:
    """Such an error has no code of SQLite's."""
    connection = sqlite3.connect(tmp_path / "old.db")
    cursor = connection.cursor()
    cursor.close()
    with pytest.raises(StoreError, match=r"Cannot operate on a closed cursor.*report this"):
        apply_or_restore(cursor, "old.db", "copy.db", MIGRATIONS)
    connection.close()


def test_without_room_for_the_copy_nothing_is_changed(path: Path) -> None:
    before, size = content(path), path.stat().st_size

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    command = [sys.executable, "-c", OPEN, str(path)]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True)
    assert "cannot be copied before that" in done.stderr
    assert "nothing was changed" in done.stderr
    assert content(path) == before
    assert not [*path.parent.glob("*.before-*")]
    Store.open(str(path), migrations=MIGRATIONS).close()


def test_a_full_disk_in_the_middle_leaves_all_as_it_was(path: Path) -> None:
    """On a small disk of its own, with a little more room each time: for no copy, for no migration, for all."""
    bwrap = bubblewrap()
    grow(path, 200)
    before, size = content(path), path.stat().st_size
    disk = path.parent / "disk"
    disk.mkdir()
    seen: set[str] = set()
    for room in range(0, 6 * size, 64 * 1024):
        back = path.parent / f"back{room}"
        back.mkdir()
        run = f'cp {path} {disk} && "$0" -c "$1" {disk}/{path.name}; code=$?; cp {disk}/{path.name}* {back}; exit $code'
        tmpfs = ["--size", str(size + room + (1 << 16)), "--tmpfs", str(disk)]
        command = [bwrap, "--dev-bind", "/", "/", *tmpfs, "sh", "-c", run, sys.executable, OPEN]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            seen.add("done")
            break
        assert content(back / path.name) == before, done.stderr
        assert "Traceback" not in done.stderr
        seen |= {words for words in ("nothing was changed", "is as it was; a copy is in") if words in done.stderr}
    assert seen == {"nothing was changed", "is as it was; a copy is in", "done"}


def kill_when(path: Path, condition: Callable[[], bool]) -> None:
    process = subprocess.Popen([sys.executable, "-c", OPEN, str(path)])
    while process.poll() is None and not condition():
        time.sleep(0)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("ending", [".unfinished", "colors"])
def test_killed_in_the_middle_it_is_as_it_was_and_done_by_the_next(path: Path, ending: str) -> None:
    """While the copy is made, and right after it, when the migrations begin."""
    grow(path, 20_000)
    before = content(path)
    kill_when(path, lambda: any(file.name.endswith(ending) for file in path.parent.glob(f"{COPY}*")))
    with closing(sqlite3.connect(path)) as connection:
        done = connection.execute("SELECT count(*) FROM schema_migrations").fetchone()[0]
    assert done == 2 or content(path) == before
    store = Store.open(str(path), migrations=MIGRATIONS)
    assert colors(store) == ["dark red"]
    assert store.read("SELECT count(*) FROM pages")[0][0] == 20_000
    store.close()
    [copy] = path.parent.glob(f"{COPY}*")
    assert content(copy) == before
