"""A child that stays: what becomes of it when it misbehaves, and whom it shares the sandbox with."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import pytest

from adderclaw.sandbox import process
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.piped import KEPT_ERRORS, PipedProcess, start_piped
from tests.sandbox import escapes
from tests.sandbox.test_confinement import KINDS, running, started

ECHO = 'while read -r line; do echo "said $line"; done; echo bye >&2'


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    escapes.workspace(folder)
    return folder


@pytest.fixture(params=[*KINDS, "none"])
def box(request: pytest.FixtureRequest, root: Path) -> Generator[Box | None]:
    made = None if request.param == "none" else started(request.param, root)
    yield made
    if made is not None:
        made.close()


def with_child(text: str, box: Box | None, root: Path, use: Callable[[PipedProcess], Awaitable[None]]) -> PipedProcess:
    """Start bash with this text, use it, and end it whatever happens."""

    async def whole() -> PipedProcess:
        argv = ("/bin/bash", "--norc", "--noprofile", "-c", text)
        child = await start_piped(
            argv, cwd=str(root), env=process.environment(workspace_roots=()), start=box.start if box else None
        )
        try:
            await asyncio.wait_for(use(child), 90)
        finally:
            await child.stop()
            child.abandon()
        return child

    return asyncio.run(whole())


async def ask(child: PipedProcess, line: str) -> str:
    child.stdin.write(f"{line}\n".encode())
    await child.stdin.drain()
    return (await child.stdout.readline()).decode().rstrip("\n")


# ------------------------------------------------------------------ children that misbehave


def test_one_that_ends_by_itself_is_noticed(box: Box | None, root: Path) -> None:
    async def use(child: PipedProcess) -> None:
        assert await child.wait_ended() == 7
        assert await child.stdout.read() == b"last words\n"

    child = with_child("echo oops >&2; echo last words; exit 7", box, root, use)
    assert child.returncode == 7
    assert "oops" in child.errors


def test_one_that_will_not_end_is_killed(box: Box | None, root: Path) -> None:
    mark = f"{time.time_ns() % 10**9}.125"

    async def use(child: PipedProcess) -> None:
        assert await child.stdout.readline() == b"up\n"

    began = time.monotonic()
    child = with_child(f"trap '' TERM; setsid sleep {mark} & echo up; sleep {mark}; sleep {mark}", box, root, use)
    assert child.returncode is not None
    assert child.returncode < 0 or child.returncode > 128
    assert time.monotonic() - began < 30
    assert running(mark) == []


def test_one_that_complains_without_end_keeps_its_last_words(box: Box | None, root: Path) -> None:
    async def use(child: PipedProcess) -> None:
        assert await child.wait_ended() == 0
        for _ in range(6000):
            if "the end" in child.errors:
                return
            await asyncio.sleep(0.01)

    child = with_child("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo the end >&2", box, root, use)
    assert child.errors.rstrip().endswith("the end")
    assert len(child.errors) <= KEPT_ERRORS


def test_writing_to_one_that_is_gone(box: Box | None, root: Path) -> None:
    async def use(child: PipedProcess) -> None:
        await child.wait_ended()
        for _ in range(20):
            try:
                child.stdin.write(b"x" * 100_000)
                await child.stdin.drain()
            except OSError:
                return
            await asyncio.sleep(0.01)
        pytest.fail("nobody reads, and it was not said")

    with_child("exit 0", box, root, use)


@pytest.mark.parametrize("argv", [("/nowhere/server",), ("no-such-server-anywhere",)])
def test_one_that_cannot_be_started(argv: tuple[str, ...], box: Box | None, root: Path) -> None:
    async def whole() -> str:
        child = await start_piped(
            argv, cwd=str(root), env=process.environment(workspace_roots=()), start=box.start if box else None
        )
        await asyncio.wait_for(child.wait_ended(), 60)
        child.abandon()
        return child.errors

    try:
        said = asyncio.run(whole())
    except FileNotFoundError as error:
        said = str(error)
    assert "No such file" in said


def test_no_descriptor_is_left(box: Box | None, root: Path) -> None:
    async def use(child: PipedProcess) -> None:
        assert await ask(child, "x") == "said x"

    with_child(ECHO, box, root, use)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with_child(ECHO, box, root, use)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_the_session_ends_it(kind: str, root: Path) -> None:
    mark = f"{time.time_ns() % 10**9}.0625"
    box = started(kind, root)

    async def use(child: PipedProcess) -> None:
        assert await child.stdout.readline() == b"up\n"
        box.close()
        assert await child.wait_ended() == -signal.SIGKILL

    with_child(f"echo up; sleep {mark} & env -i setsid sleep {mark} & wait", box, root, use)
    assert running(mark) == []


# ------------------------------------------------------------------ beside the other commands


def test_it_answers_and_outlives_the_calls_beside_it(box: Box | None, root: Path) -> None:
    async def use(child: PipedProcess) -> None:
        assert await ask(child, "one") == "said one"
        for _ in range(3):
            text = "sleep 100 & setsid sleep 100 & echo ran"
            argv = ["/bin/bash", "-c", text]
            start = box.start if box else None
            done = await process.run(
                argv, cwd=str(root), env=process.environment(workspace_roots=()), timeout=60, start=start
            )
            assert done.stdout == b"ran\n"
            assert await ask(child, "two") == "said two"
        assert await ask(child, "x" * 3_000_000) == "said " + "x" * 3_000_000

    child = with_child(ECHO, box, root, use)
    assert child.returncode in (0, -signal.SIGTERM), "the end of its input, or the signal after it"


def test_a_server_is_reached_by_the_next_calls(root: Path) -> None:
    """One network, one /tmp and one home for all that a session starts."""
    box = started("bubblewrap", root)
    server = f"echo from the server > /tmp/left; exec {escapes.PYTHON} -u -m http.server 8124 --bind 127.0.0.1 2>&1"
    fetch = (
        f"{escapes.PYTHON} -c 'import urllib.request as u; "
        'print(u.urlopen("http://127.0.0.1:8124/a.txt").read().decode(), end="")\'; cat /tmp/left'
    )

    async def use(child: PipedProcess) -> None:
        assert b"Serving HTTP" in await child.stdout.readline()
        for _ in range(2):
            assert (await escapes.bash(fetch, box, root)).stdout == b"alpha\nfrom the server\n"

    with_child(server, box, root, use)
    box.close()
