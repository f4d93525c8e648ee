"""No user steers a hook of /etc/adderclaw, and none of them is a program that a user chooses."""

import json
import os

import pytest

from tests.acceptance.test_managed import Managed, stops
from tests.acceptance.test_plugin_packages import hooks, plugin
from tests.acceptance.world import World, call, text

GUARD = "grep -q secret && { echo corp says no >&2; exit 2; } || true"


def guarding(command: str, more: str = "") -> str:
    return f'[[hooks]]\nhook_event_name = "PreToolUse"\nmatcher = "*"\ncommand = """{command}"""\n{more}\n'


def test_nothing_of_a_users_steers_a_managed_hook(world: World) -> None:
    """No variable and no profile of the shell, no hook like it without a say, none that changes the call after."""
    made = Managed(world)
    made.write(guarding(GUARD))
    (world.workspace / "secret.txt").write_text("s\n", encoding="utf-8")
    nothing = world.cli.home / "nothing.sh"
    nothing.write_text("exit 0\n", encoding="utf-8")
    fake = world.cli.home / "bin" / "grep"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    changed = json.dumps(
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"path": "secret.txt"}}}
    )
    plug = plugin(world.cli.home, "plug", **{"hooks/hooks.json": hooks(f"echo '{changed}'", matcher="*")})
    path = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    own = '[providers.models.local]\nkind = "mock"\nmodel = "mock"\n'
    wrong: list[str] = []
    for what, env, settings, options, asked in (
        ("BASH_ENV", {"BASH_ENV": str(nothing)}, "", (), "secret.txt"),
        ("PATH", {"PATH": path}, "", (), "secret.txt"),
        ("a profile", {}, "", (), "secret.txt"),
        ("a hook beside it", {}, guarding(GUARD, "async = true"), (), "secret.txt"),
        ("a plugin", {}, "", ("--plugin-dir", str(plug)), "a.txt"),
    ):
        (world.cli.home / ".bash_profile").write_text("exit 0\n" if what == "a profile" else "", encoding="utf-8")
        world.cli.configure(settings + own)
        world.script(call("file_read", path=asked), text("done"))
        world.cli.env |= env
        done = world.agent("read", *options)
        for name in env:
            del world.cli.env[name]
        if world.receipts()[-1]["status"] != "denied" or "corp says no" not in json.dumps(world.receipts()[-1]):
            wrong.append(f"{what}: {world.receipts()[-1]} {done.err}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("hook", ['name = "corp-check"', 'command = "x"\nshell = "powershell"'])
def test_a_managed_hook_is_no_program_that_a_user_chooses(world: World, hook: str) -> None:
    Managed(world).write(f'[[hooks]]\nhook_event_name = "PreToolUse"\n{hook}\n')
    stops(world.cli("config", "show"), "set command to the absolute path of a program, with args")
