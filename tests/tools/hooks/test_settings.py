"""Configured hooks as values: order, timeouts, shells."""

from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.plugins.installed import Plugin
from adderclaw.config.plugins.loaded_plugin import LoadedPlugin
from adderclaw.config.plugins.manifest import Manifest
from adderclaw.core.errors import ConfigError
from adderclaw.core.types import Json
from adderclaw.tools.hooks import scripts, settings
from adderclaw.tools.hooks.process import hook_argv
from adderclaw.tools.hooks.settings import Hook
from tests.rows import rows


def made(*entries: Json, environ: dict[str, str] | None = None, **more: Any) -> tuple[Hook, ...]:
    more = {"home": "/home/me/.adderclaw", "project": "/nowhere", **more}
    return settings.read_hooks(entries, origins={}, environ=environ or {}, **more)


def entry(event: str = "PreToolUse", **more: Any) -> Json:
    return {"hook_event_name": event, "command": "true", **more}


TIMEOUTS: list[tuple[Json, dict[str, str], float]] = [
    (entry(), {}, 600),
    (entry("Stop"), {}, 60),
    (entry("SessionEnd"), {}, 1.5),
    (entry(timeout=5), {"SDLC_HOOK_TIMEOUT_MS": "9000"}, 5),
    (entry(), {"SDLC_HOOK_TIMEOUT_MS": "9000"}, 9),
    (entry(), {"SDLC_HOOK_TIMEOUT_MS": "soon"}, 600),
    (entry(), {"SDLC_HOOK_TIMEOUT_MS": "0"}, 600),
    (entry(), {"SDLC_HOOK_TIMEOUT_MS": "-1"}, 600),
    (entry("SessionEnd"), {"SDLC_HOOK_TIMEOUT_MS": "9000"}, 1.5),
    (entry("SessionEnd"), {"SDLC_SESSIONEND_HOOK_TIMEOUT_MS": "3000"}, 3),
    (entry("SessionEnd", timeout=500), {}, 60),
    (entry("Stop", type="prompt", prompt="x"), {}, 30),
    (entry("Stop", type="agent", prompt="x"), {}, 60),
]


@rows(("given", "environ", "seconds"), TIMEOUTS)
def test_d58_whose_timeout_counts(given: Json, environ: dict[str, str], seconds: float) -> None:
    assert made(given, environ=environ)[0].seconds == seconds


def test_d51_one_order_over_all_events_with_what_is_the_same_and_adjacent_once() -> None:
    found = made(entry(), entry(), entry(shell="sh"), entry("Stop"), entry(**{"if": "Bash"}), entry())
    assert [hook.ordinal for hook in found] == [0, 1, 2, 3, 4]
    assert [hook.event for hook in found] == ["PreToolUse", "PreToolUse", "Stop", "PreToolUse", "PreToolUse"]
    assert [hook.ordinal for hook in settings.hooks_by_event(found)["PreToolUse"]] == [0, 1, 3, 4]


def loaded(root: Path, name: str) -> LoadedPlugin:
    (root / name).mkdir()
    return LoadedPlugin(Plugin(name, "", "", str(root / name), "", "enabled", Manifest(name)), str(root))


def test_d51_plugins_stand_between_the_settings_and_the_session(tmp_path: Path) -> None:
    one, two = loaded(tmp_path, "one"), loaded(tmp_path, "two")
    root = entry(command="${CLAUDE_PLUGIN_ROOT}/x")
    found = made(
        entry(command="settings"),
        entry(command="same"),
        brought=[(one, [entry(command="same"), root, root]), (two, [root, entry(command="${ADDERCLAW_PLUGIN_DATA}")])],
        of_session=[entry(command="session")],
        untrusted=[entry(command="untrusted")],
    )
    assert [(hook.ordinal, hook.command) for hook in found] == [
        (0, "settings"),
        (1, "same"),
        (2, f"{one.root}/x"),
        (3, f"{two.root}/x"),
        (4, two.data),
        (5, "session"),
        (6, "untrusted"),
    ]
    assert [hook.plugin and hook.plugin.name for hook in found] == [None, None, "one", "two", "two", None, None]
    assert [hook.skipped for hook in found[-2:]] == ["", "untrusted_workspace"]


def test_a_folder_that_a_shell_would_read_otherwise_is_left_to_the_shell(tmp_path: Path) -> None:
    odd = loaded(tmp_path, "a $(odd) 'one'")
    (shell,) = made(brought=[(odd, [entry(command="'${CLAUDE_PLUGIN_ROOT}/x'")])])
    assert shell.command == "'${CLAUDE_PLUGIN_ROOT}/x'"
    (plain,) = made(brought=[(odd, [entry(command="${CLAUDE_PLUGIN_ROOT}/x", args=["${CLAUDE_PLUGIN_DATA}"])])])
    assert plain.argv == (f"{odd.root}/x", odd.data)


def test_d61_what_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bash,) = made(entry(command="a b"))
    assert hook_argv(bash, ()) in (("/bin/bash", "-lc", "a b"), ("/usr/bin/bash", "-lc", "a b"))
    (sh,) = made(entry(command="a b", shell="sh"))
    assert hook_argv(sh, ())[1:] == ("-c", "a b")
    (power,) = made(entry(command="a b", shell="powershell"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="pwsh"):
        hook_argv(power, ())
    (tmp_path / "powershell").write_text("")
    (tmp_path / "powershell").chmod(0o755)
    said = ("-NoProfile", "-NonInteractive", "-Command", "a b")
    assert hook_argv(power, ()) == (str(tmp_path / "powershell"), *said)
    (other,) = made(entry(command="a b", shell="powershell"), powershell="pwsh-preview")
    with pytest.raises(FileNotFoundError, match=r"pwsh-preview .runtime.shell_windows. is not installed"):
        hook_argv(other, ())
    (tmp_path / "pwsh-preview").symlink_to("powershell")
    assert hook_argv(other, ()) == (str(tmp_path / "pwsh-preview"), *said)
    (exact,) = made(entry(command="prog", args=["${CLAUDE_PROJECT_DIR}/x", "$HOME"]))
    with scripts.prepare_hook(exact, scripts.HookWorkspace(("/p",))) as ready:
        assert hook_argv(ready, ()) == ("prog", "/p/x", "$HOME")
    (named,) = made({"hook_event_name": "Stop", "name": "check"})
    assert hook_argv(named, ()) == ("/home/me/.adderclaw/hooks/check",)


def test_d62_a_shell_that_is_not_there_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = Hook(0, "Stop", command="x", shell="no-such-shell", source="settings.json")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no-such-shell is not installed"):
        settings.require_shells([missing], ())
    settings.require_shells(made(entry(), entry(shell="sh"), entry(shell="powershell")), ())


@pytest.mark.parametrize("name", ["BashSecurity", "bash-security", ".adderclaw Protection"])
def test_the_baseline_is_no_hook(name: str) -> None:
    assert made({"hook_event_name": "PreToolUse", "name": name}) == ()


def test_a20_a_named_validator_is_the_operators_own_else_the_projects(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    own, theirs = home / "hooks" / "check", project / ".adderclaw" / "hooks" / "check"

    def found() -> str:
        (hook,) = made({"hook_event_name": "PreToolUse", "name": "check"}, home=str(home), project=str(project))
        assert hook.must_run
        return hook.argv[0]

    assert found() == str(own)
    theirs.parent.mkdir(parents=True)
    theirs.write_text("")
    assert found() == str(theirs)
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert found() == str(own), "a project does not stand in for the operator's own"
