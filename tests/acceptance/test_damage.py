"""A damaged, missing, empty or older database is never backed up, restored or replaced without a word."""

import hashlib
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_backup import rewritten
from tests.acceptance.world import World, call, text

PAGE = 4096


@pytest.fixture
def used(world: World) -> World:
    """A home with a few hundred pages, and a good backup of it."""
    names = [f"{number}.txt" for number in range(8)]
    for name in names:
        (world.workspace / name).write_text(f"hello {name}\n" * 300, encoding="utf-8")
    for number in range(3):
        world.script(*[call("file_read", path=name) for name in names], text("done " * 200))
        assert world.agent(f"look {number}").code == 0
    done = world.cli("backup", str(kept(world)))
    assert done.code == 0, done.err
    return world


def kept(world: World) -> Path:
    return world.cli.home.parent / "kept copy.zip"


def with_random_page(data: bytes, page: int, seed: int) -> bytes:
    start = (page - 1) * PAGE
    return data[:start] + random.Random(seed).randbytes(PAGE) + data[start + PAGE :]


def names_the_way_back(world: World, said: str) -> bool:
    return "adderclaw doctor" in said and f"adderclaw restore '{kept(world)}' --replace" in said


def test_a_backup_finds_every_damaged_page_and_keeps_the_old_backup(used: World) -> None:
    good, before = used.database.read_bytes(), kept(used).read_bytes()
    choice = random.Random(12)
    for seed in range(18):
        page = choice.randrange(1, len(good) // PAGE + 1)
        used.database.write_bytes(with_random_page(good, page, seed))
        done = used.cli("backup", str(kept(used)), "--replace")
        assert done.code == 1, f"page {page}: {done.out}"
        assert f"{used.database} is damaged" in done.err, f"page {page}: {done.err}"
        assert names_the_way_back(used, done.err), f"page {page}: {done.err}"
        assert kept(used).read_bytes() == before
    doctor = used.cli("doctor")
    assert doctor.code == 1
    assert f"{used.database} is damaged" in doctor.out
    assert names_the_way_back(used, f"adderclaw doctor {doctor.out}")


@pytest.mark.parametrize("table", ["sqlite_master", "conversations", "transcript_entries", "receipts", "runs"])
def test_a_run_that_meets_damage_names_doctor_and_the_last_good_backup(used: World, table: str) -> None:
    with closing(sqlite3.connect(used.database)) as database:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        page = 1 if table == "sqlite_master" else database.execute(sql, (table,)).fetchone()[0]
    used.database.write_bytes(with_random_page(used.database.read_bytes(), page, 7))
    used.script(call("file_read", path="1.txt"), text("done"))
    done = used.cli("agent", "--continue", "-m", "go on")
    assert done.code == 1, done.out
    assert f"{used.database} is damaged" in done.err
    assert names_the_way_back(used, done.err), done.err
    assert "Traceback" not in done.err


def test_damage_without_a_backup_says_that_there_is_none(used: World) -> None:
    used.database.write_bytes(with_random_page(used.database.read_bytes(), 1, 7))
    kept(used).unlink()
    assert "does not exist any more" in used.cli("runs", "list").err
    (used.cli.data / "memory.sqlite.last-backup").unlink()
    assert "no backup of it is known" in used.cli("runs", "list").err


def test_a_damaged_database_in_a_backup_is_not_restored(used: World) -> None:
    def damaged(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
        data = with_random_page(files["store/memory.sqlite"], 122, 3)
        files["store/memory.sqlite"] = data
        manifest["files"]["store/memory.sqlite"]["sha256"] = hashlib.sha256(data).hexdigest()

    home = used.cli.home / "again"
    done = used.cli("restore", str(rewritten(kept(used), damaged)), "--to", str(home))
    assert done.code == 1
    assert "the database in it is damaged" in done.err
    assert not home.exists()


def without_tables(world: World) -> None:
    """As the file is where the log beside it was lost before anything was copied into it."""
    world.database.unlink()
    with closing(sqlite3.connect(world.database)) as database:
        database.execute("PRAGMA journal_mode = WAL")


def missing(world: World) -> None:
    world.database.unlink()


def empty(world: World) -> None:
    world.database.write_bytes(b"")


LOST = {"missing": missing, "empty": empty, "without tables": without_tables}


@pytest.mark.parametrize("how", LOST)
def test_a_database_that_was_lost_is_not_replaced_by_a_new_one(used: World, how: str) -> None:
    LOST[how](used)
    before = kept(used).read_bytes()
    used.script(text("done"))
    writers = (["agent", "-m", "go on"], ["init"], ["backup", str(kept(used)), "--replace"], ["runs", "list"])
    for command in writers:
        done = used.cli(*command)
        assert done.code == 1, f"{command}: {done.out}"
        assert f"{used.log} has receipts of its calls" in done.err, f"{command}: {done.err}"
        assert f"adderclaw restore '{kept(used)}' --replace" in done.err
        assert kept(used).read_bytes() == before
    assert not used.database.exists() or used.database.stat().st_size <= PAGE
    assert "receipts of its calls" in used.cli("doctor").out
    assert used.cli("restore", str(kept(used)), "--replace").code == 0
    assert "valid: 24 receipts" in used.cli("receipt", "verify").out


def test_a_lost_database_is_given_up_by_archiving_its_receipts(used: World) -> None:
    used.database.unlink()
    assert used.cli("receipt", "archive", "--yes").code == 0
    used.script(call("file_read", path="1.txt"), text("done"))
    assert used.agent("begin again").code == 0


def test_a_database_lost_at_another_place_is_noticed_too(world: World) -> None:
    """A disk that is not mounted."""
    disk = world.cli.home / "disk"
    world.configure(more=f'[memory]\npath = "{disk}/mine.sqlite"\n')
    world.script(call("file_list", path="."), text("done"))
    assert world.agent("look").code == 0
    disk.rename(world.cli.home / "unmounted")
    for _ in range(2):
        world.script(call("file_list", path="."), text("done"))
        done = world.agent("look again")
        assert done.code == 1, done.out
        assert f"{world.log} has receipts of its calls" in done.err


def test_a_lost_wal_is_reported_by_doctor_by_backup_and_by_the_next_run(used: World) -> None:
    used.script(call("file_read", path="1.txt"), call("file_read", path="2.txt"), call("Bash", command="sleep 60"))
    used.configure(autonomy="full")
    process = used.cli.start("agent", "-m", "go")
    limit = time.monotonic() + 60
    while len(used.receipts_so_far()) < 26 and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    used.database.with_name("memory.sqlite-wal").unlink()
    before = kept(used).read_bytes()
    doctor = used.cli("doctor")
    assert doctor.code == 1
    assert "lacks 2 of the 26 receipts" in doctor.out
    done = used.cli("backup", str(kept(used)), "--replace")
    assert done.code == 1
    assert "the database lacks 2 of 26 receipts" in done.err
    assert kept(used).read_bytes() == before
    used.script(text("done"))
    again = used.agent("what was I doing?")
    assert again.code == 0, again.err
    assert "its -wal file was lost" in again.err
    assert names_the_way_back(used, again.err)


def test_a_lost_wal_of_a_conversation_without_receipts_is_reported(used: World) -> None:
    with closing(sqlite3.connect(used.database)) as open_elsewhere:
        open_elsewhere.execute("SELECT count(*) FROM runs").fetchone()
        wal, shm = (used.database.with_name(f"memory.sqlite-{name}") for name in ("wal", "shm"))
        kept_shm = shm.read_bytes()
    wal.unlink(missing_ok=True)
    shm.write_bytes(kept_shm)
    assert used.cli("memory", "list").code == 0, "reading leaves the evidence to doctor and the next run"
    assert f"{wal} was removed" in used.cli("doctor").out
    used.script(text("done"))
    done = used.agent("hello")
    assert f"{wal} was removed" in done.err
    assert names_the_way_back(used, done.err)
    assert "held the last changes" not in used.agent("hello").err
