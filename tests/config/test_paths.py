"""Where a path leads is told without raising, and what cannot be told is refused."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from adderclaw import policy as gate
from adderclaw.config.paths import UNRESOLVED, beneath, followed, settled
from adderclaw.core.types import PathFact, Touch
from adderclaw.policy.case import Case, Policy
from adderclaw.sandbox import programs


def test_a_path_is_followed_as_python_follows_it(tmp_path: Path) -> None:
    """Whether it has a link in it or none, however it is written, there or not."""
    for name in ("real/deep", "gone (deleted)"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "real/file").write_text("")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file (deleted)").symlink_to("real/file")
    (tmp_path / "nowhere").symlink_to("not there")
    os.mkfifo(tmp_path / "pipe")
    names = (
        *("real", "real/deep", "real/file", "pipe", "gone (deleted)", "file (deleted)", "link", "link/deep", "nowhere"),
        *("link/file", "link/..", "real/../link/deep", "real/", "real//deep", "./real", "missing", "real/file/x", "ü"),
    )
    paths = [f"{tmp_path}/{name}" for name in names]
    for path in (*paths, "/", "//", "/proc/self", "/proc/self/root", "/dev/fd/0", "/dev/stdin", ".", "real", ""):
        assert followed(path) == os.path.realpath(path), path


@pytest.mark.parametrize("path", ["a\0b", "\0", "a\ud800/b"])
def test_what_no_file_can_be_called_leads_nowhere(path: str, tmp_path: Path) -> None:
    assert followed(str(tmp_path / path)) == UNRESOLVED
    assert not programs.is_inside(followed(str(tmp_path / path)), [str(tmp_path)])
    with pytest.raises(OSError, match="the path cannot be resolved"):
        settled(str(tmp_path / path))


def test_names_that_are_too_long_and_links_in_a_circle_do_not_raise(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    for name in ("x" * 5_000, "one", "one/more", "/".join(["d"] * 3_000)):
        assert beneath(followed(str(tmp_path / name)), str(tmp_path))


def test_a_link_that_is_swapped_meanwhile_does_not_raise(tmp_path: Path) -> None:
    door, done = tmp_path / "door", threading.Event()

    def swap() -> None:
        while not done.is_set():
            with suppress(OSError):
                door.symlink_to("elsewhere")
                door.unlink()
                door.mkdir()
                door.rmdir()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = {followed(str(door / "x")) for _ in range(2_000)}
    finally:
        done.set()
        thread.join()
    assert found <= {UNRESOLVED, str(door / "x"), str(tmp_path / "elsewhere/x")}


@pytest.mark.parametrize("tool", ["Read", "Write", "Bash"])
def test_the_gate_refuses_it_in_every_mode(tool: str) -> None:
    fact = PathFact("door", "/ws/door", UNRESOLVED)
    policy = Policy("/ws", ("/ws",), autonomy="full", workspace_only=False, mode="bypassPermissions")
    for touch in (Touch(reads=(fact,)), Touch(writes=(fact,))):
        assert gate.judge(Case(tool, tool, {}, touch, policy)).verdict == "deny"


def test_a_program_of_which_that_cannot_be_told_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path / "bin"), UNRESOLVED)))
    assert programs.search_path(["/ws"]) == (str(tmp_path / "bin"),)
