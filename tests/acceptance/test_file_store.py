"""The store without SQLite's own file: where that cannot be written, or where the operator says so."""

import os
import signal
import time

import pytest

from adderclaw.errors import StoreError
from adderclaw.store import Store
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
    assert "rows are kept as files in" in done.err
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
