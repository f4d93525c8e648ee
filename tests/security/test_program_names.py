"""Programs are started by a path that `sandbox/programs.py` found, and never one from where a run may write."""

import ast
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adderclaw.core.errors import AdderClawError
from adderclaw.fleet import places, state
from adderclaw.sandbox import programs
from adderclaw.terminal import editor
from tests.acceptance.world import World, text
from tests.program import Cli

SOURCE = Path(programs.__file__).parent.parent
FINDERS = ("resolve", "on_system", "ran", "printed", "shell_of", "find")
"""Functions of ours whose first argument is a program's name."""
STARTERS = ("Popen", "Unconfined", "converse", "create_subprocess_exec", "check_output", "check_call", "run", "call")
FORBIDDEN = ("which", "create_subprocess_shell", "getoutput", "getstatusoutput", "popen", "system", "get_exec_path")
STARTED_OTHERWISE = (
    *("bwrap", "sandbox-exec", "systemctl", "journalctl", "launchctl", "crontab", "loginctl", "ps", "git", "ssh"),
    *("git-lfs", "rg", "gh", "node", "npm", "npx", "uv", "pip", "python3", "bash", "sh", "dash", "zsh", "pwsh"),
    *("powershell", "vi", "vim", "nano", "less", "xdg-open", "osascript", "notify-send", "secret-tool", "security"),
    *("tmux", "chromium", "playwright-mcp", "env", "adderclaw"),
)
"""Names that a setting, a variable, another program or a table brings; the literals of the source come on top."""


INSIDE = "sandbox/inside_test.py"
"""Runs within the sandbox of a test, and starts what the test's own shell would start there."""


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).as_posix() != INSIDE:
            yield path, ast.parse(path.read_text("utf-8"))


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def literal(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def first_words(argument: ast.expr, tree: ast.AST) -> Iterator[str]:
    """The literal program of an argv, also where the argv is a variable, a sum or a choice."""
    match argument:
        case ast.Tuple(elts=[first, *_]) | ast.List(elts=[first, *_]):
            yield literal(first)
        case ast.BinOp(left=left):
            yield from first_words(left, tree)
        case ast.IfExp(body=body, orelse=other):
            yield from first_words(body, tree)
            yield from first_words(other, tree)
        case ast.Starred(value=value):
            yield from first_words(value, tree)
        case ast.Name(id=name):
            for node in ast.walk(tree):
                match node:
                    case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                        yield from first_words(value, tree)
                    case ast.For(target=ast.Name(id=target), iter=ast.Tuple(elts=elements)) if target == name:
                        for element in elements:
                            yield from first_words(element, tree)
                    case ast.Assign(
                        targets=[ast.Tuple(elts=[ast.Name(id=target), *_])], value=ast.Tuple(elts=[one, *_])
                    ):
                        if target == name:
                            yield from first_words(one, tree)
                    case _:
                        pass
        case _:
            return


def bare_names(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        place, name = f"{path.relative_to(SOURCE)}:{node.lineno}", called(node)
        of_os = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in ("os", "posix", "shutil")
        if name in FORBIDDEN and (of_os or name in ("which", "create_subprocess_shell")):
            yield f"{place}: {name}"
        if of_os and name.startswith(("exec", "spawn", "posix_spawn")) and name.rstrip("e").endswith("p"):
            yield f"{place}: os.{name} searches PATH"
        if name in STARTERS and any(word.arg == "shell" and not literal(word.value) for word in node.keywords):
            yield f"{place}: shell=True"
        if name in STARTERS and node.args:
            words = (word for word in first_words(node.args[0], tree) if word and "/" not in word)
            yield from (f"{place}: {word!r} is started by its bare name" for word in words)


def test_no_program_is_started_by_its_bare_name() -> None:
    found = [line for path, tree in trees() for line in bare_names(path, tree)]
    assert not found, "find it by `programs.resolve` or `programs.on_system`:\n" + "\n".join(found)


def names() -> list[str]:
    """Each name that the source looks up, and each that reaches a start in another way."""
    found = set(STARTED_OTHERWISE)
    for _, tree in trees():
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
        found |= {literal(call.args[0]) for call in calls if called(call) in FINDERS}
    return sorted(name for name in found if name and name.replace("-", "").isalnum())


class Planted:
    """A workspace with a marker in the place of every program, in front of everything on PATH."""

    def __init__(self, root: Path) -> None:
        self.root, self.marker = root / "project", root / "ran"
        self.folders = [self.root / name for name in (".venv/bin", "node_modules/.bin", "bin")]
        for folder in self.folders:
            folder.mkdir(parents=True)
            for name in names():
                (folder / name).write_text(f'#!/bin/sh\necho "$0" >> {self.marker}\nexit 1\n', encoding="utf-8")
                (folder / name).chmod(0o755)
        self.path = os.pathsep.join((*map(str, self.folders), "bin", "", ".", "/usr/local/bin:/usr/bin:/bin"))

    def ran(self) -> str:
        return self.marker.read_text("utf-8") if self.marker.exists() else ""


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def is_outside(program: str | None, planted: Planted) -> bool:
    return program is None or not Path(program).is_relative_to(planted.root)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path / ".adderclaw"))
    (tmp_path / ".adderclaw").mkdir()
    return tmp_path


@pytest.mark.parametrize("where", ["in the project", "below it", "elsewhere, after a session", "elsewhere"])
def test_a_planted_program_is_not_found(
    planted: Planted, own_home: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", planted.path)
    below = planted.root / "src"
    below.mkdir()
    (planted.root / ".git").mkdir()
    monkeypatch.chdir({"in the project": planted.root, "below it": below}.get(where, own_home))
    if where == "elsewhere":  # what a tool of the project's language made is known without any session
        (planted.root / ".venv/pyvenv.cfg").touch()
        planted.folders[2].chmod(0o777)
    if where == "elsewhere, after a session":
        programs.remember_workspaces([str(planted.root)])
    for name in names():
        assert is_outside(programs.resolve_outside_sessions(name), planted), name
        if where == "elsewhere, after a session":
            assert is_outside(programs.resolve(name, [str(own_home / "other")]), planted), name
    assert programs.resolve_outside_sessions("sh") in ("/usr/bin/sh", "/bin/sh")


def test_a_link_into_a_workspace_of_another_session_is_not_followed(
    planted: Planted, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = own_home / "links"
    links.mkdir()
    (links / "git").symlink_to(planted.folders[0] / "git")
    monkeypatch.setenv("PATH", str(links))
    assert programs.resolve("git", []) == str(links / "git")
    programs.remember_workspaces([str(planted.root)])
    assert programs.resolve("git", []) is None
    assert programs.workspaces() == {str(planted.root)}


@pytest.mark.parametrize("root", ["/", "/usr", "/usr/bin"])
def test_a_session_in_the_systems_own_folders_hides_no_program(own_home: Path, root: str) -> None:
    """Else one session in `/` would leave all later ones without bubblewrap and git."""
    programs.remember_workspaces([root, str(own_home / "project")])
    assert programs.workspaces() == {str(own_home / "project")}
    (own_home / ".adderclaw/workspaces").write_bytes(f"{root}\0".encode())
    assert programs.workspaces() == frozenset()
    assert programs.resolve("sh", []) in ("/usr/local/bin/sh", "/usr/bin/sh", "/bin/sh")


def test_a_session_notes_its_folders(cli: Cli, tmp_path: Path) -> None:
    world = World(cli, tmp_path)
    further = tmp_path / "further"
    further.mkdir()
    world.configure(security=f'additional_directories = ["{further}"]')
    world.script(text("done"))
    assert world.agent("hi").code == 0
    noted = (world.cli.home / ".adderclaw/workspaces").read_bytes().split(b"\0")
    assert {os.fsencode(os.path.realpath(folder)) for folder in (world.workspace, further)} <= set(noted)


@pytest.mark.parametrize(
    "words",
    [
        ("service", "status"),
        ("service", "install", "--dry-run"),
        ("service", "logs"),
        ("uninstall",),
        ("plugin", "install", "https://127.0.0.1:9/plugin.git"),
        ("plugin", "install", "git@127.0.0.1:plugin.git"),
        ("memory", "set", "note"),
        ("schedule", "crontab"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_a_command_runs_nothing_of_the_project(cli: Cli, planted: Planted, words: tuple[str, ...]) -> None:
    cli.cwd = planted.root
    cli(*words, env={"PATH": planted.path, "EDITOR": "vi"})
    assert planted.ran() == ""


def test_the_fleet_runs_no_git_or_ssh_of_the_project(
    planted: Planted, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", planted.path)
    monkeypatch.chdir(planted.root)
    for url in ("https://127.0.0.1:9/x.git", "ssh://127.0.0.1:9/x.git"):
        with pytest.raises(AdderClawError):
            places.resolve_ref_to_commit(f"{url}@main", local=False)
        with pytest.raises(AdderClawError):
            state.clone(url, "0" * 40, str(own_home / "target"))
    assert planted.ran() == ""


def test_the_editor_is_none_of_the_project(planted: Planted, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", planted.path)
    monkeypatch.chdir(planted.root)
    for name in ("vi", "./bin/vi", str(planted.folders[0] / "vi")):
        monkeypatch.setenv("EDITOR", name)
        monkeypatch.delenv("VISUAL", raising=False)
        with contextlib.suppress(AdderClawError):  # where the machine has no vi
            assert is_outside(editor.command()[0], planted)
        editor.pin_editor()
        assert str(planted.root) not in os.environ.get("VISUAL", "") + os.environ.get("EDITOR", "/")
