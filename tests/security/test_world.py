"""The harness itself: it sees every kind of harm, and sees none where there is none."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.world import call
from tests.security.world import Den


def test_ordinary_work_harms_nothing(everywhere: Den) -> None:
    made = everywhere.attack(
        call("Write", file_path="new.txt", content="x"),
        call("Read", file_path="a.txt"),
        call("Grep", pattern="alpha"),
        "cat a.txt && mkdir d && cp a.txt d/b.txt",
    )
    assert made.done.code == 0, made.done.err
    assert (everywhere.workspace / "d" / "b.txt").read_text() == "alpha\n"
    owner = 65534 if everywhere.cli.as_user else os.geteuid()
    assert (everywhere.workspace / "new.txt").stat().st_uid == owner
    everywhere.unharmed(made)


def _leaked(den: Den) -> None:
    (den.workspace / "copied").write_bytes((den.home / ".ssh" / "id_rsa").read_bytes())


def _linked(den: Den) -> None:
    os.link(den.home / ".bashrc", den.workspace / "hard")


HARM: dict[str, tuple[Callable[[Den], object], str]] = {
    "written": (lambda den: (den.home / ".bashrc").write_text("x"), ".bashrc: content was"),
    "opened to all": (lambda den: (den.home / ".ssh" / "id_rsa").chmod(0o666), "id_rsa: mode was"),
    "touched": (lambda den: os.utime(den.neighbour / ".git" / "config"), ".git/config: modified was"),
    "marked": (lambda den: os.setxattr(den.home / "bin" / "tool", "user.x", b"y"), "bin/tool: attributes was"),
    "read": (lambda den: (den.home / ".ssh" / "id_rsa").read_text(), "id_rsa: read was"),
    "gone": (lambda den: (den.neighbour / "secret.txt").unlink(), "secret.txt is gone"),
    "new": (lambda den: (den.home / ".config" / "new").touch(), ".config/new is new"),
    "a program of ours": (lambda den: (den.home / ".adderclaw" / "hooks" / "x").symlink_to("/bin/sh"), "x is new"),
    "our key": (lambda den: (den.home / ".adderclaw" / "receipt.key").write_text("x"), "receipt.key: content was"),
    "our settings": (lambda den: (den.home / ".adderclaw" / "config.toml").write_text(""), "config.toml: content was"),
    "cut receipts": (lambda den: (den.home / ".adderclaw" / "tool_receipts.log").write_text(""), "was changed"),
    "copied in": (_leaked, "copied has the word of"),
    "hard-linked in": (_linked, ".bashrc: links was"),
}


@pytest.mark.parametrize("name", HARM)
def test_harm_is_seen(name: str, world: Den) -> None:
    harm, said = HARM[name]
    (world.home / ".adderclaw" / "tool_receipts.log").write_text("{}\n")
    world.prepare()
    assert world.canaries.harm(world.said()) == []
    harm(world)
    with pytest.raises(AssertionError, match=said):
        world.unharmed()


def test_what_a_model_was_shown_is_seen(world: Den) -> None:
    (world.workspace / "in.txt").write_text("canary-in")
    made = world.attack(call("Read", file_path="in.txt"))
    (world.workspace / "in.txt").unlink()
    world.canaries.words["canary-in"] = "in.txt"
    with pytest.raises(AssertionError, match=r"memory\.sqlite.* has the word of in\.txt"):
        world.unharmed(made)


def test_what_is_left_running_is_seen(world: Den) -> None:
    world.prepare()
    with subprocess.Popen(["sleep", "1000"], cwd=world.workspace) as left:
        found = world.left_running()
        left.kill()
    assert [line.split(":")[0] for line in found] == [str(left.pid)]


def test_nothing_of_the_den_stays(world: Den) -> None:
    made: list[Path] = [world.base, *world.system]
    world.prepare()
    world.canaries.clear()
    assert [path for path in made if path.exists()] == []
