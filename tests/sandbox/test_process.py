"""Children of tools: how they are ended, what is kept of what they print, what they see of us."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.sandbox import process
from adderclaw.sandbox.process import Finished
from adderclaw.sandbox.watchdog import watchdog

BASH = ("/bin/bash", "--norc", "--noprofile", "-c")


def bash(text: str, cwd: Path, *, timeout: float = 60.0, max_bytes: int = 1 << 20, stdin: bytes = b"") -> Finished:
    async def run() -> Finished:
        return await process.run(
            [*BASH, text],
            cwd=str(cwd),
            env=process.environment(workspace_roots=()),
            timeout=timeout,
            max_bytes=max_bytes,
            stdin=stdin,
        )

    return asyncio.run(run())


def pid_in(file: Path, *, within: float = 60.0) -> int:
    """The number that a child writes into a file when it is up."""
    wait_for(lambda: file.exists() and file.read_text().endswith("\n"), within, f"{file} to be written")
    return int(file.read_text())


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def gone(pid: int, within: float = 60.0) -> None:
    wait_for(lambda: not is_running(pid), within, f"process {pid} to be gone")


SURVIVORS = {
    "the command itself": "echo $$ > pid; exec sleep 1000",
    "a child of it": "sleep 1000 & echo $! > pid; wait",
    "a child that closed its streams": "sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > pid; sleep 900",
    "one that ignores TERM": "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done",
    "one that left the group": "setsid bash -c 'echo $$ > pid; exec sleep 1000' & sleep 900",
    "a daemon whose parent is gone": "(setsid bash -c 'echo $$ > pid; exec sleep 1000 >/dev/null 2>&1' &); sleep 900",
    "one without an environment": "env -i /bin/bash -c 'echo $$ > pid; exec sleep 1000'; sleep 900",
    "a child of one that left, without an environment": "setsid bash clear & sleep 900",
    "one that is stopped": "echo $$ > pid; kill -STOP $$",
}
"""What a command may leave behind, each writing its number to `pid`."""

CLEAR = "env -i /bin/bash -c 'echo $$ > pid; exec sleep 1000'\n:\n"
"""A script that waits for a child without any environment."""


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "clear").write_text(CLEAR)


survivors = pytest.mark.parametrize("text", SURVIVORS.values(), ids=SURVIVORS.keys())


# ------------------------------------------------------------------ ended by us


def outlasted(folder: Path, texts: dict[str, str], start: process.Starter | None = None) -> None:
    """Run all of them at once into a time limit: so it can be one that a busy machine's commands begin within."""

    async def limited(name: str, text: str) -> None:
        place = folder / name
        place.mkdir()
        (place / "clear").write_text(CLEAR)
        env = process.environment(workspace_roots=())
        done = await process.run([*BASH, text], cwd=str(place), env=env, timeout=5, start=start)
        assert done.timed_out, name
        assert done.returncode < 0, name

    async def every() -> None:
        await asyncio.gather(*(limited(name, text) for name, text in texts.items()))

    asyncio.run(every())


def test_a_time_limit_leaves_nothing_running(tmp_path: Path) -> None:
    outlasted(tmp_path, SURVIVORS)
    for name in SURVIVORS:
        gone(pid_in(tmp_path / name / "pid"))


@survivors
def test_cancelling_leaves_nothing_running_when_it_returns(text: str, tmp_path: Path) -> None:
    async def cancel() -> float:
        call = asyncio.ensure_future(
            process.run([*BASH, text], cwd=str(tmp_path), env=process.environment(workspace_roots=()), timeout=60)
        )
        await asyncio.to_thread(pid_in, tmp_path / "pid")
        began = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return time.monotonic() - began

    assert asyncio.run(cancel()) < 30
    gone(pid_in(tmp_path / "pid"), within=60)


def test_a_second_cancellation_kills_at_once(tmp_path: Path) -> None:
    async def cancel() -> None:
        text = SURVIVORS["one that ignores TERM"]
        call = asyncio.ensure_future(
            process.run([*BASH, text], cwd=str(tmp_path), env=process.environment(workspace_roots=()), timeout=60)
        )
        await asyncio.to_thread(pid_in, tmp_path / "pid")
        call.cancel()
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancel())
    assert not is_running(pid_in(tmp_path / "pid"))


@pytest.mark.parametrize(
    "text",
    [
        "sleep 1000 & echo $! > pid; echo said",
        "sleep 1000 >/dev/null 2>&1 & echo $! > pid; echo said",
        "setsid sleep 1000 & echo $! > pid; echo said",
        "setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid; echo said",
        "nohup sleep 1000 & echo $! > pid; disown; echo said",
    ],
)
def test_a_background_child_neither_holds_us_up_nor_stays(text: str, tmp_path: Path) -> None:
    began = time.monotonic()
    done = bash(text, tmp_path)
    assert (done.returncode, done.stdout) == (0, b"said\n")
    assert time.monotonic() - began < 30
    gone(pid_in(tmp_path / "pid"), within=60)


def test_one_call_ends_without_touching_another(tmp_path: Path) -> None:
    async def both() -> tuple[Finished, Finished]:
        env = process.environment(workspace_roots=())
        slow = process.run([*BASH, "setsid -w sleep 0.6; echo slow"], cwd=str(tmp_path), env=env, timeout=20)
        quick = process.run([*BASH, "sleep 1000"], cwd=str(tmp_path), env=env, timeout=0.1)
        return await asyncio.gather(slow, quick)

    slow, quick = asyncio.run(both())
    assert (slow.returncode, slow.stdout) == (0, b"slow\n")
    assert quick.timed_out


def test_a_group_that_is_asked_to_end_may_clean_up(tmp_path: Path) -> None:
    text = "trap 'echo bye; exit 7' TERM; echo up; sleep 1000 & wait"
    done = bash(text, tmp_path, timeout=3)
    assert done.timed_out
    assert (done.returncode, done.stdout) == (7, b"up\nbye\n")


# ------------------------------------------------------------------ ended without us

HOST = """
    import asyncio, sys
    from adderclaw.sandbox import process

    async def main():
        await process.run(["/bin/true"], cwd="/", env=process.environment(workspace_roots=()), timeout=60)
        env = process.environment(workspace_roots=())
        await process.run(["/bin/bash", "-c", sys.argv[1]], cwd=sys.argv[2], env=env, timeout=600)

    asyncio.run(main())
"""


def host(text: str, cwd: Path) -> "subprocess.Popen[bytes]":
    """A program of its own that runs one command, to be killed by the test."""
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(HOST), text, str(cwd)])


@survivors
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_program(text: str, number: signal.Signals, tmp_path: Path) -> None:
    with host(text, tmp_path) as program:
        pid = pid_in(tmp_path / "pid")
        assert is_running(pid)
        program.send_signal(number)
    gone(pid, within=60)


def test_the_watchdog_goes_with_the_program(tmp_path: Path) -> None:
    with host("echo $$ > pid; exec sleep 1000", tmp_path) as program:
        pid_in(tmp_path / "pid")
        dogs = watchdogs(program.pid)
        assert len(dogs) == 1
        program.kill()
    gone(dogs[0])


def watchdogs(parent: int) -> list[int]:
    """Those of a process that has one: a program that was started just now has no words for a moment."""
    wait_for(lambda: bool(_watchdogs(parent)), 60, "a watchdog")
    return _watchdogs(parent)


def _watchdogs(parent: int) -> list[int]:
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _is_watchdog_of(pid, parent)]


def _is_watchdog_of(pid: str, parent: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(status[1]) == parent and b"watchdog" in command


THREADS = """
    import threading
    from adderclaw.sandbox.watchdog import watchdog

    threads = [threading.Thread(target=watchdog) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("started", flush=True)
    input()
"""


def test_threads_that_start_it_at_once_start_one() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(THREADS)], stdin=pipe, stdout=pipe) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"started\n"
        assert len(watchdogs(program.pid)) == 1
        program.kill()


def test_a_watchdog_that_was_killed_is_replaced(tmp_path: Path) -> None:
    bash("true", tmp_path)
    dogs = watchdogs(os.getpid())
    for dog in dogs:
        os.kill(dog, signal.SIGKILL)
        gone(dog)
    bash("true", tmp_path)
    again = watchdogs(os.getpid())
    assert len(again) == 1
    assert again != dogs


# ------------------------------------------------------------------ what is kept


USED_AGAIN = """
import subprocess
from adderclaw.sandbox.watchdog import CALL_MARK, watchdog

dog = watchdog()
stranger = subprocess.Popen(["sleep", "600"])
dog.kill_marked(dog.new_mark())  # it is seen, and known as nobody's
stranger.kill()
stranger.wait()
open("/proc/sys/kernel/ns_last_pid", "w").write(str(stranger.pid - 1))
mark = dog.new_mark()
ours = subprocess.Popen(["sleep", "600"], env={CALL_MARK: mark})
assert ours.pid == stranger.pid, "the number was not used again"
dog.kill_marked(mark)
print(ours.wait(60))
"""


def test_a_number_that_was_a_strangers_before_does_not_hide_what_is_ours(needs: Callable[[str], str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes a namespace in which nobody else takes the number")
    own = [needs("unshare"), "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run([*own, sys.executable, "-c", USED_AGAIN], capture_output=True, text=True, timeout=90)
    assert done.stdout == "-9\n", done.stderr


def test_streams_are_kept_apart(tmp_path: Path) -> None:
    done = bash("echo out; echo err >&2; exit 3", tmp_path)
    assert done == Finished(3, b"out\n", b"err\n")


def test_each_stream_is_cut_and_the_rest_read_and_dropped(tmp_path: Path) -> None:
    done = bash("head -c 300000 /dev/zero; echo small >&2; echo end > reached", tmp_path, max_bytes=1000)
    assert (len(done.stdout), done.stdout_cut) == (1000, True)
    assert (done.stderr, done.stderr_cut) == (b"small\n", False)
    assert done.truncated
    assert (tmp_path / "reached").exists()


@pytest.mark.parametrize(("size", "cut"), [(999, False), (1000, False), (1001, True)])
def test_the_cut_is_exact(size: int, cut: bool, tmp_path: Path) -> None:
    done = bash(f"head -c {size} /dev/zero", tmp_path, max_bytes=1000)
    assert (len(done.stdout), done.stdout_cut) == (min(size, 1000), cut)


def test_a_flood_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    done = bash("yes >&2", tmp_path)
    assert done.flooded
    assert not done.timed_out
    assert done.stderr_cut
    assert len(done.stderr) == process.MAX_BYTES
    assert time.monotonic() - began < 30


def test_what_was_printed_before_the_time_limit_is_kept(tmp_path: Path) -> None:
    done = bash("echo first; sleep 1000", tmp_path, timeout=3)
    assert (done.timed_out, done.stdout) == (True, b"first\n")


def test_last_words_are_not_lost(tmp_path: Path) -> None:
    for size in (1, 65536, 200_000):
        assert len(bash(f"head -c {size} /dev/zero", tmp_path).stdout) == size


def test_input_is_given_whole_and_ends(tmp_path: Path) -> None:
    given = bytes(range(256)) * 4096
    done = bash("cat", tmp_path, stdin=given, max_bytes=len(given))
    assert done.stdout == given
    assert bash("cat", tmp_path).stdout == b""


def test_a_program_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    watchdog()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(process.StartFailed, match="nowhere"):
        asyncio.run(process.run(["/nowhere/program"], cwd=str(tmp_path), env={}, timeout=1, stdin=b"x"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_descriptor_and_no_zombie_is_left(tmp_path: Path) -> None:
    async def many() -> tuple[int, int]:
        env = process.environment(workspace_roots=())
        await process.run(["/bin/true"], cwd="/", env=env, timeout=60)
        before = len(os.listdir("/proc/self/fd"))
        for index in range(20):
            text = "sleep 1000" if index % 4 == 0 else "echo x"
            await process.run([*BASH, text], cwd="/", env=env, timeout=0.05 if index % 4 == 0 else 60)
        return before, len(os.listdir("/proc/self/fd"))

    def children() -> set[str]:
        found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return {pid for pid in found if not _is_watchdog_of(pid, os.getpid())}

    others = children()  # what earlier tests of this process have left is not ours to answer for
    before, after = asyncio.run(many())
    assert after == before
    assert children() <= others


# ------------------------------------------------------------------ what a child sees

HOSTILE = {
    "OPENAI_API_KEY": "sk-hunter2",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "GITHUB_TOKEN": "hunter2",
    "SSH_AUTH_SOCK": "/run/agent",
    "LD_PRELOAD": "/tmp/x.so",
    "LD_LIBRARY_PATH": "/tmp",
    "PYTHONPATH": "/tmp",
    "PYTHONSTARTUP": "/tmp/x.py",
    "NODE_OPTIONS": "--require /tmp/x.js",
    "BASH_ENV": "/tmp/x.sh",
    "ENV": "/tmp/x.sh",
    "BASH_FUNC_ls%%": "() { echo hijacked; }",
    "PERL5OPT": "-Mx",
    "GIT_DIR": "/tmp",
    "GIT_SSH_COMMAND": "/tmp/x",
    "GIT_EXTERNAL_DIFF": "/tmp/x",
    "PROMPT_COMMAND": "echo x",
    "SHELLOPTS": "xtrace",
    "IFS": "x",
    "ADDERCLAW_HOME": "/tmp/home",
}


def test_nothing_secret_and_nothing_that_loads_code_is_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    env = process.environment(workspace_roots=())
    assert HOSTILE.keys().isdisjoint(env)
    printed = bash("env; type ls", tmp_path).stdout.decode()
    assert not [value for value in ("hunter2", "hijacked", "/tmp/x") if value in printed]


def test_what_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LC_TIME": "de_DE.UTF-8", "TERM": "xterm", "TZ": "UTC", "HOME": "/home/somebody"}.items():
        monkeypatch.setenv(name, value)
    env = process.environment({"EXTRA": "1", "PAGER": "more"}, workspace_roots=())
    assert env["LC_TIME"] == "de_DE.UTF-8"
    assert (env["HOME"], env["TERM"], env["TZ"]) == ("/home/somebody", "xterm", "UTC")
    assert (env["GIT_TERMINAL_PROMPT"], env["GIT_PAGER"], env["DEBIAN_FRONTEND"]) == ("0", "cat", "noninteractive")
    assert (env["EXTRA"], env["PAGER"]) == ("1", "more")


def test_output_is_utf8_where_the_host_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LC_") or name == "LANG"]:
        monkeypatch.delenv(name)
    assert process.environment(workspace_roots=())["LANG"] == "C.UTF-8"
