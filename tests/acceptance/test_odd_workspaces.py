"""Workspaces that nobody had in mind: each works with a clear word, or is refused with one."""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text
from tests.program import Done, Soak

WORK = (call("file_write", path="made.txt", content="x"), call("Bash", command="wc -l made.txt"), call("LS", path="."))


def worked(world: World, place: Path, *more: str) -> Done:
    """Write, a command and a listing, all approved."""
    world.script(*WORK, text("done"))
    return world.agent("go", "--workspace", str(place), *more, stdin="y\n" * 9)


def results(world: World) -> list[str]:
    return [entry["content"] for entry in world.entries("tool_result")]


@pytest.mark.parametrize("folder", ["~", "/"])
def test_x82_the_home_and_the_root_are_refused_unless_the_flag_names_them(world: World, folder: str) -> None:
    world.cli.configure(f'workspace_dir = "{folder}"\n')
    given = world.cli.home if folder == "~" else Path("/")
    for command in (("agent", "-m", "hi"), ("tool", "run", "LS")):
        done = world.cli(*command, cwd=given if command[0] == "tool" else None)
        assert done.code == 2, done.err
        assert "or name it: `--workspace DIR`" in done.err
        assert "Traceback" not in done.err
    done = world.cli("agent", "-m", "hi", "--workspace", str(given))
    assert "may read and change everything in it that is not forbidden or protected" in done.err
    assert done.code == 0, done.err


def test_x82_the_first_line_says_which_folder_it_is_and_why(world: World) -> None:
    place = world.cli.cwd / "plain"
    place.mkdir()
    world.cli.configure("")
    world.script(text("hi"))
    here = f"{place} the current directory, which belongs to no project"
    for arguments, expected in (
        (("run", "--task", "hi", "--profile", "supervised"), here),
        (("agent", "-m", "hi"), f"{world.cli.home}/adderclaw-workspace the default workspace_dir"),
    ):
        done = world.cli(*arguments, cwd=place)
        assert done.err.splitlines()[0].split(" ", 1)[1] == f"workspace_path {expected}", done.err
    assert world.cli("tool", "run", "file_write", "--json", '{"path": "a", "content": "x"}', cwd=place).code == 0
    assert (place / "a").read_text() == "x"


def test_in_the_root_of_the_disk_no_command_runs(world: World) -> None:
    world.script(call("Bash", command="echo hi"), call("Read", file_path="/etc/passwd"), text("done"))
    world.agent("go", "--workspace", "/", stdin="y\n" * 9)
    command, read = results(world)
    assert "Bash failed: the workspace is /: a sandbox would protect nothing; choose a directory below it" in command
    assert "is forbidden" in read


def test_the_home_as_workspace_shows_no_key(world: World) -> None:
    keys = world.cli.home / ".ssh"
    keys.mkdir(mode=0o700)
    (keys / "id_rsa").write_text("canary-key\n")
    steps = [
        call("Read", file_path=".ssh/id_rsa"),
        call("Bash", command="cat .ssh/id_rsa"),
        call("Grep", pattern="canary-key"),
    ]
    world.script(*steps, text("done"))
    done = world.agent("go", "--workspace", str(world.cli.home), stdin="y\n" * 9)
    assert "this is your home directory" in done.err
    assert not any("canary-key" in one for one in results(world)), results(world)


def test_without_git(world: World) -> None:
    done = worked(world, world.workspace)
    assert done.code == 0, done.err
    assert "made.txt" in results(world)[-1]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Generator[Path]:
    """A file system of its own."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("whoever runs the tests cannot mount a file system")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_on_another_file_system(world: World, elsewhere: Path) -> None:
    assert elsewhere.stat().st_dev != world.cli.home.stat().st_dev
    done = worked(world, elsewhere)
    assert done.code == 0, done.err
    assert (elsewhere / "made.txt").read_text() == "x"
    world.script(call("Delete", path="made.txt"), text("done"))
    world.agent("go", "--workspace", str(elsewhere), stdin="y\n")
    assert not (elsewhere / "made.txt").exists()
    assert world.cli("checkpoint", "restore", "2", cwd=elsewhere).code == 0
    assert (elsewhere / "made.txt").read_text() == "x"


def test_a_device_folder_is_refused(world: World) -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("this machine has no /dev/shm")
    done = world.cli("tool", "run", "LS", "--workspace", "/dev/shm")
    assert done.code == 2
    assert "/dev/shm cannot be a workspace" in done.err


@pytest.fixture
def read_only(elsewhere: Path) -> Path:
    (elsewhere / "a.txt").write_text("a\n")
    subprocess.run(["mount", "-o", "remount,ro", elsewhere], check=True)
    return elsewhere


def test_read_only(world: World, read_only: Path) -> None:
    done = worked(world, read_only)
    written, _, listed = results(world)
    assert f"{read_only}/made.txt is on a read-only file system" in written
    assert "a.txt" in listed
    assert "Traceback" not in done.err
    assert done.code == 0, done.err


@pytest.mark.soak
def test_a_hundred_thousand_files(world: World, soak: Soak) -> None:
    if not soak.turn(4):
        return
    for folder in range(100):
        (world.workspace / f"d{folder}").mkdir()
        for number in range(1000):
            os.close(os.open(world.workspace / f"d{folder}" / f"f{number}", os.O_CREAT | os.O_WRONLY, 0o644))
    world.script(*WORK, call("Bash", command="touch beside.txt"), call("Glob", pattern="**/f999"), text("done"))
    done = world.cli("agent", "-m", "go", "--workspace", str(world.workspace), stdin="y\n" * 9, timeout=300)
    assert done.code == 0, done.err
    assert "has more than 50,000 files (checkpoints.max_files)" in done.err
    assert "d7/f999" in results(world)[-1]
