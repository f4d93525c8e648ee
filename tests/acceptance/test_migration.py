"""A database of an earlier version that cannot be brought up to date is as it was, whatever stopped that."""

import resource
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.test_recorded_before import ARCHIVE
from tests.acceptance.world import World
from tests.program import PROGRAM
from tests.trial import bubblewrap

COPY = "memory.sqlite.before-"


@pytest.fixture
def old(world: World) -> World:
    """A home that the version before wrote."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(world.cli.home.parent / "before", filter="data")
    shutil.rmtree(world.cli.data)
    (world.cli.home.parent / "before" / "home" / ".adderclaw").rename(world.cli.data)
    world.configure()
    return world


def content(path: Path) -> list[str]:
    """Everything in it, but that it lies in one file or also in the log beside it."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [*connection.iterdump()]


def grow(world: World, rows: int) -> None:
    with closing(sqlite3.connect(world.database)) as connection, connection:
        connection.executemany(
            "INSERT INTO receipts(archive, seq, receipt_hash, line, end_offset) VALUES ('old', ?, ?, ?, 0)",
            ((number, f"{number:064}", "x" * 2000) for number in range(rows)),
        )


def test_what_stands_in_the_way_of_a_step_leaves_all_as_it_was(old: World) -> None:
    with closing(sqlite3.connect(old.database)) as connection, connection:
        connection.execute("ALTER TABLE approvals ADD COLUMN used_at TEXT")
    before = content(old.database)
    done = old.cli("init")
    assert done.code != 0
    assert "could not be brought up to date" in done.err
    assert "and is as it was; a copy is in" in done.err
    [copy] = old.cli.data.glob(f"{COPY}*")
    assert str(copy) in done.err
    assert content(old.database) == before == content(copy)
    assert "Traceback" not in done.err


def test_a_database_of_an_earlier_version_is_nothing_to_move_away(old: World) -> None:
    done = old.cli("doctor")
    assert "move the file away" not in done.out
    assert "`adderclaw init` brings it up to date and keeps all" in done.out
    assert old.cli("init").code == 0
    assert "earlier version" not in old.cli("doctor").out


def test_without_room_for_the_copy_nothing_is_changed(old: World) -> None:
    before, size = content(old.database), old.database.stat().st_size

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    command = [str(PROGRAM), "init"]
    done = subprocess.run(command, env=old.cli.env, cwd=old.workspace, preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode != 0
    assert "cannot be copied before that" in done.stderr
    assert "nothing was changed" in done.stderr
    assert content(old.database) == before
    assert not [*old.cli.data.glob(f"{COPY}*")]
    assert old.cli("init").code == 0


def test_a_full_disk_in_the_middle_leaves_all_as_it_was(old: World) -> None:
    """On a small disk of its own, with a little more room each time: for no copy, for no step, for all."""
    bwrap = bubblewrap()
    before, source = content(old.database), old.cli.data
    kept = source.with_name("kept")
    source.rename(kept)
    source.mkdir()
    base = sum(file.stat().st_size + 4096 for file in kept.rglob("*")) + (1 << 16)
    seen: set[str] = set()
    for room in range(0, 2 * (kept / "memory.sqlite").stat().st_size, 40 * 1024):
        back = source.with_name(f"back{room}")
        back.mkdir()
        run = f"cp -r {kept}/. {source} && {PROGRAM} init; code=$?; cp {source}/memory.sqlite* {back}; exit $code"
        disk = ["--size", str(base + room), "--tmpfs", str(source)]
        command = [bwrap, "--dev-bind", "/", "/", *disk, "--chdir", str(old.workspace), "sh", "-c", run]
        done = subprocess.run(command, env=old.cli.env, capture_output=True, text=True)
        if done.returncode == 0:
            seen.add("done")
            break
        assert content(back / "memory.sqlite") == before, done.stderr
        assert "Traceback" not in done.stderr
        seen |= {word for word in ("nothing was changed", "is as it was; a copy is in") if word in done.stderr}
    assert seen == {"nothing was changed", "is as it was; a copy is in", "done"}


def _killed(world: World, when: Callable[[], bool]) -> None:
    process = world.cli.start("init")
    while process.poll() is None and not when():
        time.sleep(0)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("end", [".unfinished", ""])
def test_killed_in_the_middle_it_is_as_it_was_and_done_by_the_next(old: World, end: str) -> None:
    """While the copy is made, and right after it, when the steps begin."""
    grow(old, 20_000)
    before = content(old.database)
    _killed(old, lambda: any(name.name.endswith(end or "later") for name in old.cli.data.glob(f"{COPY}*")))
    with closing(sqlite3.connect(old.database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        steps = {row[0] for row in connection.execute("SELECT name FROM schema_migrations")}
    assert "m036_later" in steps or content(old.database) == before
    assert old.cli("init").code == 0
    assert not [*old.cli.data.glob(f"{COPY}*.unfinished")]
    assert old.rows("SELECT count(*) FROM receipts WHERE archive = 'old'") == [(20_000,)]
    [copy] = old.cli.data.glob(f"{COPY}*")
    assert content(copy) == before
