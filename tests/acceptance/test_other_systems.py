"""macOS and Windows as Python shows them (tests/platforms), and the installed program on them.

None of it was run on a Mac or on Windows. On macOS a stand-in for `sandbox-exec` confines by bubblewrap.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text
from tests.platforms import DARWIN, SANDBOX_EXEC, WIN32
from tests.program import Cli
from tests.trial import bubblewrap

SECRET = "not for commands"
NO_PROC = ("--dev-bind", "/", "/", "--tmpfs", "/proc", "--")


@pytest.fixture
def mac(world: World) -> World:
    bubblewrap()
    world.cli.env["PYTHONPATH"] = DARWIN
    return world


@pytest.fixture
def belted(mac: World, tmp_path: Path) -> World:
    """With a `sandbox-exec`."""
    program = tmp_path / "bin" / "sandbox-exec"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {SANDBOX_EXEC} {bubblewrap()} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    mac.cli.env["PATH"] = f"{program.parent}:{mac.cli.env['PATH']}"
    return mac


def transcript(world: World) -> str:
    return "".join(str(row) for row in world.rows("SELECT * FROM transcript_entries"))


def checks(world: World) -> dict[str, dict[str, str]]:
    done = world.cli("doctor", "--output-format", "json", cwd=world.workspace)
    assert "Traceback" not in done.err
    return {check["name"]: check for check in json.loads(done.out)["checks"]}


def test_macos_without_a_sandbox_refuses_to_go_on_alone(mac: World) -> None:
    """Nor is there a /proc; every file tool works, and so does a command that the operator lets run unconfined."""
    mac.cli.before = (bubblewrap(), *NO_PROC)
    assert mac.cli("--version").code == 0
    assert mac.cli("init").code == 0
    found = checks(mac)["sandbox"]
    assert found["state"] == "warning"
    assert "seatbelt: `sandbox-exec` is not on PATH" in found["detail"]
    assert "bubblewrap" not in found["fix"], "there is none for macOS"
    mac.script(text("no"))
    refused = mac.agent("go", "--profile", "sandboxed")
    assert refused.code == 1
    assert "needs an OS sandbox, and none starts on this system" in refused.err
    assert "apt-get" not in refused.err
    mac.script(
        call("Write", file_path="a.txt", content="one\n"),
        call("Edit", file_path="a.txt", old_string="one", new_string="two"),
        call("Grep", pattern="two"),
        call("Bash", command="cat a.txt"),
        text("{{last_result}}"),
    )
    done = mac.agent("go", "--profile", "permissive")
    assert (done.code, done.out.strip()) == (0, "two"), done.err
    assert "this system has no /proc" in transcript(mac)


def test_macos_confines_commands_by_seatbelt(belted: World) -> None:
    (belted.cli.home / "secret").write_text(SECRET, encoding="utf-8")
    found = checks(belted)
    assert "seatbelt starts" in found["sandbox"]["detail"]
    assert "leaves its process group is not ended" in found["sandbox"]["detail"], "what does not hold is said"
    assert found["sandbox.accept"]["state"] == "warning"
    belted.script(text("no"))
    refused = belted.agent("go", "--profile", "sandboxed")
    assert refused.code == 1
    assert 'accept = "seatbelt"' in refused.err
    belted.configure(more='[sandbox]\naccept = "seatbelt"\n')
    assert checks(belted)["sandbox.accept"]["state"] == "ok"
    code = f"print(open({str(belted.cli.home / 'secret')!r}).read())"
    belted.script(
        call("Bash", command=f'python3 -c "{code}"'),
        call("Bash", command="python3 -c \"open('made.txt', 'w').write('by a command')\""),
        call("Grep", pattern="command"),
        text("{{last_result}}"),
    )
    done = belted.agent("go", "--profile", "sandboxed")
    assert done.code == 0, done.err
    assert "made.txt" in done.out
    assert SECRET not in transcript(belted)
    assert "FileNotFoundError" in transcript(belted)


def test_x_76_windows_itself_is_refused_in_one_sentence(cli: Cli) -> None:
    for arguments in (("--version",), ("doctor",), ("agent", "-m", "hello"), ("no-such-command",)):
        done = cli(*arguments, env={"PYTHONPATH": WIN32})
        assert (done.code, done.out) == (1, "")
        assert done.err.splitlines() == [done.err.strip()], "one line"
        assert "WSL" in done.err
        assert "wsl --install" in done.err
