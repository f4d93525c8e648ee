"""The operator's helper: what it may be, how it fails, and that nothing of it stays behind."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from adderclaw.core.errors import ProviderError
from adderclaw.core.redaction import Secrets
from adderclaw.models.credentials import key_helper
from adderclaw.models.credentials.key_helper import HelperFailed
from adderclaw.sandbox.programs import search_path
from tests.models.credentials.making import CLAUDE, Time, gone, run, sources
from tests.rows import rows

CANARY = "canary-5f2e77a1c0d94b7e"


@pytest.fixture(autouse=True)
def _home(home: Path) -> None:
    """Every test has its own."""


def ran(command: str, *, timeout: float = 5.0, workspace: str = "", secrets: Secrets | None = None) -> str:
    return run(
        key_helper.run(
            command, timeout=timeout, workspace=workspace, path=os.environ["PATH"], secrets=secrets or Secrets()
        )
    )


FAILS = [
    ("exit 3", "exit code 3"),
    ("kill -TERM $$", "signal 15"),
    ("true", "printed nothing"),
    ("echo '  '", "printed nothing"),
    ("echo one; echo two", "one word"),
    ("echo 'a key'", "one word"),
    ("printf 'k\\303\\274y12345'", "one word"),
    ("no-such-program-here", "exit code 127"),
    ("yes | head -c 200000 | tr -d '\\n'", "one word"),
]


@rows(("command", "says"), FAILS)
def test_fails(command: str, says: str) -> None:
    with pytest.raises(HelperFailed, match=says):
        ran(command)


LEAKS = [
    f"echo {CANARY} >&2; exit 1",
    f"echo 'cannot use {CANARY}: denied' >&2; exit 1",
    f"echo {CANARY}; echo {CANARY} >&2; exit 1",
    f"printf 'url https://u:{CANARY}@h/ token={CANARY} \"{CANARY}\"' >&2; exit 1",
    f"echo {CANARY} second word",
    f"echo {CANARY} >&2",
]


@pytest.mark.parametrize("command", LEAKS)
def test_what_it_printed_is_not_repeated(command: str) -> None:
    with pytest.raises(HelperFailed) as caught:
        ran(command)
    assert CANARY not in str(caught.value)
    assert CANARY[8:] not in str(caught.value)


def test_its_complaint_is_said() -> None:
    with pytest.raises(HelperFailed, match="the vault is locked"):
        ran("echo 'the vault is locked' >&2; exit 1")
    with pytest.raises(HelperFailed) as caught:
        ran("echo '\x1b[31m' >&2; exit 1")
    assert "\x1b" not in str(caught.value)


def test_it_has_a_time_limit_and_leaves_nothing_running(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(HelperFailed, match=r"within 4 seconds"):
        ran(f"sleep 60 & echo $! > {pid}; sleep 60", timeout=4)
    assert time.monotonic() - began < 30
    assert gone(int(pid.read_text()))


def test_a_background_child_does_not_hold_us(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(HelperFailed, match="within"):
        ran(f"echo the-key-1234; sleep 60 & echo $! > {pid}", timeout=4)
    assert gone(int(pid.read_text()))


def test_cancelling_kills_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def cancelled() -> None:
        task = asyncio.create_task(
            key_helper.run(
                f"echo $$ > {pid}; sleep 60", timeout=50, workspace="", path=os.environ["PATH"], secrets=Secrets()
            )
        )
        while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 - the other process only writes a file
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert gone(int(pid.read_text()))


def test_cancelling_while_it_starts_kills_all_of_it(tmp_path: Path) -> None:
    """The shell and what it started: neither is there when the call has returned."""
    pids = tmp_path / "pids"
    command = f"sleep 60 & echo $$ $! > {pids}; wait"

    async def cancelled() -> None:
        for turns in range(3, 12):  # from when it has been started until all of its pipes are known
            pids.unlink(missing_ok=True)
            task = asyncio.create_task(
                key_helper.run(command, timeout=50, workspace="", path=os.environ["PATH"], secrets=Secrets())
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            written(pids)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert all(gone(int(pid)) for pid in pids.read_text().split())

    run(cancelled())


def written(file: Path) -> None:
    while not (file.exists() and file.read_text()):
        time.sleep(0.01)


@pytest.mark.parametrize(
    "how", ["{path}", "sh {path}", "cat '{path}' | head -1", "~/{relative}", "./{relative}", "$WHERE"]
)
def test_the_workspace_holds_no_helper(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The agent may write there, and the helper runs outside the sandbox."""
    workspace = home / "work"
    workspace.mkdir()
    script = workspace / "key.sh"
    script.write_text("#!/bin/sh\necho the-key-1234\n")
    script.chmod(0o755)
    monkeypatch.setenv("WHERE", str(script))
    with pytest.raises(HelperFailed, match="lies in the workspace"):
        ran(how.format(path=script, relative="work/key.sh"), workspace=str(workspace))
    link = home / "link.sh"
    link.symlink_to(script)
    with pytest.raises(HelperFailed, match="lies in the workspace"):
        ran(str(link), workspace=str(workspace))


def test_it_runs_in_the_home_with_the_operators_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_OWN", "value")
    assert ran("printf '  %s-%s  \\n' \"$MY_OWN\" $(basename $(pwd))") == f"value-{home.name}"
    assert ran("cat; echo no-input-1") == "no-input-1"


# ------------------------------------------------------------------ as a source


def test_it_is_cached_for_its_time(home: Path) -> None:
    count = home / "count"
    command = f"echo x >> {count}; echo the-key-$(wc -l < {count} | tr -d ' ')-long"
    clock = Time()
    made = sources(home, time=clock, api_key_helper=command)

    def key() -> str:
        found = run(made.get("c", CLAUDE))
        assert found is not None
        return found.value

    assert [key(), key()] == ["the-key-1-long"] * 2
    clock.at += 299
    assert key() == "the-key-1-long"
    clock.at += 2
    assert key() == "the-key-2-long"
    made.refused("c")
    assert key() == "the-key-3-long"


def test_ten_at_once_run_it_once(home: Path) -> None:
    count = home / "count"
    made = sources(home, api_key_helper=f"echo x >> {count}; sleep 0.1; echo the-key-1234")

    async def all_at_once() -> None:
        await asyncio.gather(*(made.get("c", CLAUDE) for _ in range(10)))

    run(all_at_once())
    assert count.read_text() == "x\n"


def test_its_failure_is_an_authentication_failure(home: Path) -> None:
    with pytest.raises(ProviderError) as caught:
        run(sources(home, api_key_helper="exit 9").get("c", CLAUDE))
    assert caught.value.kind == "authentication_failed"
    assert not list(home.rglob("*"))


def test_a_helper_finds_no_program_of_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "workspace" / ".venv" / "bin"
    planted.mkdir(parents=True)
    (planted / "cat").write_text("#!/bin/sh\necho planted-1234\n")
    (planted / "cat").chmod(0o755)
    (tmp_path / "key").write_text("the-key-1234\n")
    monkeypatch.setenv("PATH", f"{planted}{os.pathsep}{os.environ['PATH']}")
    path = os.pathsep.join(search_path([str(tmp_path / "workspace")]))
    made = key_helper.run(f"cat {tmp_path}/key", timeout=50, workspace="", path=path, secrets=Secrets())
    assert run(made) == "the-key-1234"
