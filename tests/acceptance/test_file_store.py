"""The store without SQLite's own file: where that cannot be written, or where the operator says so."""

import json
import os
import shutil
import signal
import sys
import time

import pytest

from adderclaw.core.errors import StoreError
from adderclaw.storage import Store
from tests import lockless
from tests.acceptance.world import World, call, text


def broken(world: World) -> None:
    """A file system that refuses SQLite's second file, as some network mounts do."""
    world.cli.data.mkdir(exist_ok=True)
    (world.cli.data / "memory.sqlite-wal").mkdir()
    (world.cli.data / "memory.sqlite-wal" / "x").touch()
    (world.cli.data / "memory.sqlite-journal").mkdir()


def rows(world: World, sql: str) -> list[tuple[object, ...]]:
    store = Store.open(str(world.database), read_only=True)
    try:
        return [tuple(row) for row in store.read(sql)]
    finally:
        store.close()


def test_a_database_with_rows_is_never_put_aside(world: World) -> None:
    world.script(text("hi"))
    assert world.agent("hello").code == 0
    (world.cli.data / "memory.sqlite-wal").unlink(missing_ok=True)
    (world.cli.data / "memory.sqlite-shm").unlink(missing_ok=True)
    (world.cli.data / "memory.sqlite-wal").mkdir()
    done = world.agent("hello")
    assert done.code == 1
    assert not (world.cli.data / "memory.sqlite.files").exists()


@pytest.mark.parametrize("image", [b"rubbish", b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_image_is_an_error_and_stays_as_it_is(world: World, image: bytes) -> None:
    folder = world.cli.data / "memory.sqlite.files"
    folder.mkdir(parents=True)
    (folder / "store.image").write_bytes(image)
    world.script(text("hi"))
    done = world.agent("hello")
    assert done.code == 1, done.err
    assert (folder / "store.image").read_bytes() == image


def test_files_begin_with_the_rows_of_the_database_that_they_replace(world: World) -> None:
    world.script(call("Time"), text("done"))
    assert world.agent("hello").code == 0
    world.configure(more='[session]\nstore = "file"\n')
    world.script(call("Time"), text("done"), text("again"))
    done = world.cli("agent", "--continue", "-m", "and now?")
    assert (done.code, done.out) == (0, "again\n"), done.err
    assert len(rows(world, "SELECT 1 FROM runs")) == 2
    verified = world.cli("receipt", "verify")
    assert "no longer holds" not in verified.out, verified.out
    (world.cli.data / "memory.sqlite.files" / "store.image").unlink()
    lost = world.agent("and then?")
    assert (lost.code, "no new database is created" in lost.err) == (1, True), lost.err


def test_two_at_once_are_refused(world: World) -> None:
    world.configure()
    first = Store.open(str(world.database), in_files=True)
    try:
        with pytest.raises(StoreError, match="in use by another process"):
            Store.open(str(world.database))
    finally:
        first.close()
    Store.open(str(world.database)).close()


def test_where_sqlite_cannot_write_rows_are_kept_as_files_and_it_is_said(world: World) -> None:
    broken(world)
    world.script(call("Time"), text("done"))
    done = world.agent("hello")
    assert (done.code, done.out) == (0, "done\n"), done.err
    assert "rows are stored as files in" in done.err
    assert rows(world, "SELECT outcome FROM runs") == [("completed",)]
    assert os.stat(world.cli.data / "memory.sqlite.files" / "store.image").st_mode & 0o777 == 0o600
    assert world.cli("receipt", "verify").code == 0
    world.script(call("Time"), text("done"), text("again"))
    again = world.cli("agent", "--continue", "-m", "and now?")
    assert again.out == "again\n", again.err
    assert len(rows(world, "SELECT 1 FROM runs")) == 2


def test_a_killed_run_goes_on_from_files(world: World) -> None:
    world.configure(autonomy="full", more='[memory]\nbackend = "file"\n')
    world.script(call("Bash", command="sleep 30"), text("done"))
    process = world.cli.start("agent", "-m", "go")
    limit = time.monotonic() + 90
    image = world.cli.data / "memory.sqlite.files" / "store.image"
    while time.monotonic() < limit and not (image.exists() and rows(world, "SELECT 1 FROM tool_permission_log")):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = world.cli("agent", "--continue")
    assert (done.code, done.out) == (0, "done\n"), done.err
    assert not world.database.exists()


@pytest.fixture
def without_locks(world: World) -> World:
    """Every lock that the program asks for is refused from now on."""
    if not lockless.FCNTL or sys.platform != "linux":
        pytest.skip("only the kernel of Linux can be told to refuse locks")
    world.cli.before = (sys.executable, lockless.__file__)
    return world


def test_a_new_home_without_locks_keeps_files_and_says_so_at_once(without_locks: World) -> None:
    without_locks.script(call("Time"), text("done"))
    began = time.monotonic()
    done = without_locks.agent("hello")
    assert (done.code, done.out) == (0, "done\n"), done.err
    assert time.monotonic() - began < 15, "no lock is waited for"
    assert "has no working locks" in done.err
    assert 'store = "file"' in done.err
    doctor = without_locks.cli("doctor")
    assert not [line for line in doctor.out.splitlines() if line.startswith("broken   store")], doctor.out
    assert without_locks.cli("receipt", "verify").code == 0


def test_a_database_in_a_home_without_locks_names_the_file_store(world: World, request: pytest.FixtureRequest) -> None:
    world.script(call("Time"), text("done"))
    assert world.agent("hello").code == 0
    request.getfixturevalue("without_locks")
    began = time.monotonic()
    done = world.agent("hello")
    assert time.monotonic() - began < 15
    assert done.code == 1
    assert "has no working locks" in done.err
    assert 'store = "file"' in done.err
    doctor = world.cli("doctor")
    assert doctor.code == 1
    assert "broken   store" in doctor.out
    world.configure(more='[session]\nstore = "file"\n')
    again = world.agent("hello")
    assert (again.code, again.out) == (0, "done\n"), again.err


def test_without_locks_one_process_at_a_time_is_still_enforced(without_locks: World) -> None:
    without_locks.script(text("done"))
    assert without_locks.agent("hello").code == 0
    owner = without_locks.cli.data / "memory.sqlite.files" / "owner"
    owner.write_text(f"{os.uname().nodename} {os.getpid()}", encoding="utf-8")
    done = without_locks.agent("hello")
    assert done.code == 1
    assert f"If it has ended, remove {owner}" in done.err
    owner.write_text(f"{os.uname().nodename} 99999999", encoding="utf-8")  # a process that was killed
    assert without_locks.agent("hello").code == 0
    assert not owner.exists()


@pytest.mark.parametrize("where", ["home/.adderclaw", "elsewhere"])
def test_a_backup_holds_the_conversations_that_are_kept_as_files(world: World, where: str) -> None:
    folder = world.cli.home.parent / where
    world.configure(more=f'[session]\nstore = "file"\npath = "{folder}/mine"\n')
    world.script(call("Time"), text("done"))
    assert world.agent("remember the heliotrope").code == 0
    target = world.cli.home.parent / "kept.zip"
    done = world.cli("backup", str(target), "--output-format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["receipts"]["completeness"]["tool_calls"] == 1
    shutil.rmtree(folder / "mine.files")
    lost = world.agent("hello")
    assert lost.code == 1, "nothing new is created where receipts say that there was something"
    assert world.cli("restore", str(target), "--replace").code == 0
    if where == "elsewhere":
        world.configure(more='[session]\nstore = "file"\n')  # as a note of the restore says
    assert "heliotrope" in world.cli("memory", "search", "heliotrope").out
    assert "valid: 1 receipt" in world.cli("receipt", "verify").out
