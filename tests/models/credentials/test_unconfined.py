"""Programs outside of every sandbox: nothing goes on and no descriptor stays open, however their block is left."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from adderclaw.models.credentials.unconfined import PIPE, Unconfined
from tests.models.credentials.making import gone

SOURCE = Path(__file__).parents[3] / "src" / "adderclaw"
WAITS = "sleep 60 & echo $$ $! > pids; wait"


def descriptors() -> set[str]:
    return {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if is_open(name)}


def is_open(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")  # the one that listed them is gone


def pids(folder: Path) -> list[int]:
    """Of the shell and of what it started, once they run."""
    file = folder / "pids"
    while not (file.exists() and file.read_text().endswith("\n")):
        time.sleep(0.01)
    return [int(word) for word in file.read_text().split()]


async def lasting(folder: Path) -> None:
    with Unconfined(("/bin/sh", "-c", WAITS), cwd=str(folder), stdout=PIPE, stderr=PIPE) as process:
        await asyncio.gather(process.head(100), process.complaint(100))
        await process.wait()


@pytest.mark.parametrize("turns", range(1, 6))
@pytest.mark.parametrize("times", [1, 2])
def test_cancelled_in_any_turn_of_the_loop_it_ends_with_its_children(turns: int, times: int, tmp_path: Path) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(lasting(tmp_path))
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task

    before = descriptors()
    asyncio.run(cancelled())
    time.sleep(0.1)
    started = tmp_path / "pids"
    assert not started.exists() or all(gone(int(pid)) for pid in started.read_text().split())
    assert descriptors() == before


@pytest.mark.parametrize("turns", range(1, 6))
def test_where_the_loop_ends_at_once_it_ends_with_its_children(turns: int, tmp_path: Path) -> None:
    """asyncio.run cancels every task that is left, ours and asyncio's own."""

    async def left() -> None:
        task = asyncio.create_task(lasting(tmp_path))
        for _ in range(turns):
            await asyncio.sleep(0)
        assert len(pids(tmp_path)) == 2, "it starts in the first step of its task"
        assert not task.done()

    asyncio.run(left())
    assert all(gone(pid) for pid in pids(tmp_path))


def test_an_error_inside_of_the_block_ends_it(tmp_path: Path) -> None:
    before = descriptors()

    def fails() -> None:
        with Unconfined(("/bin/sh", "-c", WAITS), cwd=str(tmp_path), stdin=PIPE, stdout=PIPE):
            raise ZeroDivisionError(pids(tmp_path))

    with pytest.raises(ZeroDivisionError):
        fails()
    assert all(gone(pid) for pid in pids(tmp_path))
    assert descriptors() == before


def test_one_that_cannot_start_leaves_nothing_open(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        Unconfined(("/no/such/program",), cwd=str(tmp_path), stdin=PIPE, stdout=PIPE)
    assert descriptors() == before


def test_what_it_put_into_the_background_outlives_its_own_end(tmp_path: Path) -> None:
    """A credential helper may start an agent that stays: `kill` is there for who wants none."""

    async def ended() -> int:
        command = "sleep 60 > /dev/null 2>&1 & echo $! > pids; echo no >&2; exit 3"
        with Unconfined(("/bin/sh", "-c", command), cwd=str(tmp_path), stdout=PIPE, stderr=PIPE) as process:
            assert await asyncio.gather(process.head(9), process.complaint(9)) == [b"", b"no\n"]
            return await process.wait()

    assert asyncio.run(ended()) == 3
    (pid,) = pids(tmp_path)
    os.kill(pid, 9)


def test_more_than_is_kept_is_read_all_the_same(tmp_path: Path) -> None:
    async def printed() -> tuple[bytes, bytes, int]:
        command = "read word; echo $word; yes | head -c 300000; (yes | head -c 300000; echo last) >&2"
        with Unconfined(("/bin/sh", "-c", command), cwd=str(tmp_path), stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
            process.write(b"first\n")
            out, err = await asyncio.gather(process.head(6), process.complaint(5))
            return out, err, await process.wait()

    assert asyncio.run(printed()) == (b"first\n", b"last\n", 0)


def test_no_program_is_started_by_asyncio() -> None:
    """Its start can be cancelled half-way, and leaves children behind."""
    found = [path for path in SOURCE.rglob("*.py") if "create_subprocess_" in path.read_text(encoding="utf-8")]
    assert found == []
