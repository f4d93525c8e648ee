"""Permission modes: the operator's own counts in place of the autonomy, a project's only where it is stricter."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text


def settings(folder: Path, **permissions: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"permissions": permissions}), encoding="utf-8")


def wanted(world: World) -> None:
    """A model that edits, and then runs a command of medium risk."""
    edit = call("Write", file_path="a.txt", content="written\n")
    world.script(edit, call("Bash", command="touch b.txt"), text("done"))


def happened(world: World) -> tuple[bool, bool]:
    """Whether the file was written, and whether the command ran."""
    found = (world.workspace / "a.txt").exists(), (world.workspace / "b.txt").exists()
    for name in ("a.txt", "b.txt"):
        (world.workspace / name).unlink(missing_ok=True)
    return found


@pytest.mark.parametrize(
    ("mode", "effect"),
    [
        ("acceptEdits", (True, False)),
        ("bypassPermissions", (True, True)),
        ("default", (False, False)),
        ("plan", (False, False)),
    ],
)
def test_12_a_mode_of_the_operator_counts_after_init(world: World, mode: str, effect: tuple[bool, bool]) -> None:
    """By a flag and by settings.json, though the file that `init` writes says `supervised`."""
    (world.cli.data / "config.toml").unlink()
    assert world.cli("init").code == 0
    assert 'autonomy = "supervised"' in (world.cli.data / "config.toml").read_text()
    wanted(world)
    here = ("--workspace", str(world.workspace))
    done = world.agent("go", *here, "--permission-mode", mode)
    assert happened(world) == effect, done.err
    settings(world.cli.data, defaultMode=mode)
    done = world.agent("go", *here)
    assert happened(world) == effect, done.err
    shown = world.cli("config", "show", "--origin", cwd=world.workspace).out
    autonomy = next(line for line in shown.splitlines() if "security.autonomy" in line)
    assert ("full" in autonomy) == (mode == "bypassPermissions"), autonomy
    done = world.agent("go", *here, "--profile", "readonly")
    assert happened(world) == (False, False), "the stricter of two words of the operator holds"


@pytest.mark.parametrize("trusted", [False, True])
def test_12_a_mode_of_a_project_is_held_to_the_stricter(world: World, trusted: bool) -> None:
    for mode in ("acceptEdits", "bypassPermissions"):
        settings(world.workspace / ".adderclaw", defaultMode=mode)
        if trusted:
            assert world.cli("trust", str(world.workspace)).code == 0
        wanted(world)
        done = world.agent("go")
        assert happened(world) == (False, False), done.err
        assert f'defaultMode = "{mode}"' in done.err
    settings(world.cli.data, defaultMode="bypassPermissions")
    settings(world.workspace / ".adderclaw", defaultMode="plan")
    wanted(world)
    done = world.agent("go")
    assert happened(world) == (False, False), "a project may be stricter than its operator"


def test_12_bypass_is_no_projects_and_can_be_switched_off(world: World) -> None:
    """Also where nobody chose an autonomy, and the project is trusted."""
    config = (world.cli.data / "config.toml").read_text().replace('autonomy = "supervised"', "")
    world.cli.configure(config)
    settings(world.workspace / ".adderclaw", defaultMode="bypassPermissions")
    assert world.cli("trust", str(world.workspace)).code == 0
    wanted(world)
    done = world.agent("go")
    assert happened(world) == (False, False)
    assert "bypassPermissions can only be set" in done.err
    settings(world.cli.home / ".claude", defaultMode="bypassPermissions")
    for more in ("", "[compat]\nclaude = true\n"):
        world.cli.configure(config + more)
        done = world.agent("go")
        assert happened(world) == (False, False), "the settings of another program are not ours"
    settings(world.workspace / ".adderclaw", disableBypassPermissionsMode="disable")
    done = world.agent("go", "--permission-mode", "bypassPermissions")
    assert happened(world) == (False, False), done.err
    assert "disabled by disableBypassPermissionsMode" in done.err


def test_12_a_hook_sets_a_mode_but_no_bypass(world: World) -> None:
    hook = world.cli.home / "hook.py"

    def sets(mode: str) -> None:
        update = {"type": "setMode", "mode": mode, "destination": "session"}
        decision = {"behavior": "allow", "updatedPermissions": [update]}
        said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
        hook.write_text(f"print({json.dumps(json.dumps(said))})\n")

    entry = f'[[hooks]]\nhook_event_name = "PermissionRequest"\nmatcher = "Write"\ncommand = "python3 {hook}"\n'
    world.configure(more=entry)
    sets("acceptEdits")
    write = call("Write", file_path="a.txt", content="1\n")
    again = call("Edit", file_path="a.txt", old_string="1", new_string="2")
    world.script(write, again, call("Bash", command="touch b.txt"), text("done"))
    done = world.agent("go")
    assert (world.workspace / "a.txt").read_text() == "2\n", done.err
    assert happened(world) == (True, False)
    sets("bypassPermissions")
    wanted(world)
    done = world.agent("go")
    assert happened(world) == (True, False), "the hook allowed one call"
    assert "only there in a session that began with it" in done.err


def test_12_shift_tab_goes_through_the_modes(world: World) -> None:
    """default, acceptEdits, plan; bypassPermissions only where the session began with it."""
    edit = call("Write", file_path="a.txt", content="written\n")
    world.script(edit, text("first"), edit, text("second"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("AdderClaw in", "supervised")
        for mode, answer in (("acceptEdits", "first"), ("plan", "second")):
            terminal.press("BTab")
            terminal.wait(f"mode: {mode}")
            terminal.write("go")
            terminal.press("Enter")
            terminal.wait(answer)
        terminal.press("BTab")
        terminal.wait("mode: default")
        terminal.write("/exit")
        terminal.press("Enter")
        shown = terminal.wait("left with 0")
    assert "bypassPermissions" not in shown
    assert [row["decision"]["verdict"] for row in world.receipts()] == ["allow", "deny"], world.receipts()
    (run,) = world.rows("SELECT run_id FROM runs")
    proved = world.cli("replay", run[0], "--verify")
    assert proved.code == 0, proved.out + proved.err
    with Tmux(world, "agent", "--permission-mode", "bypassPermissions") as terminal:
        terminal.wait("AdderClaw in", "bypassPermissions")
        for mode in ("default", "acceptEdits", "plan", "bypassPermissions"):
            terminal.press("BTab")
            terminal.wait(f"mode: {mode}")
