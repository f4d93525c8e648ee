"""What makes a folder a plugin, what keeps it from being one, and what of it counts when."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.plugins import installed, tree
from adderclaw.config.plugins.manifest import Manifest
from adderclaw.core.errors import ConfigError
from tests.rows import rows

SEED = """\
name = "echo-plugin"
version = "0.1.0"
capabilities = ["tool"]
[[tools]]
name = "echo"
description = "Echoes input"
command = "./echo-plugin"
schema = { type = "object" }
"""
PROGRAM = "#!/bin/sh\ncat\n"


def put(folder: Path, files: dict[str, str]) -> Path:
    """Files by their paths; what begins with #! is a program."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        if content.startswith("#!"):
            path.chmod(0o755)
    return folder


def echo(home: Path) -> Path:
    """The seed's own plugin, put there by hand."""
    folder = home / "plugins" / "echo-plugin"
    return put(folder, {"manifest.toml": SEED, "echo-plugin": PROGRAM})


def trust(home: Path, name: str, **more: Any) -> None:
    found = installed.one(str(home), name)
    assert found is not None
    entry = {"sha256": found.sha256, "files": found.files, "enabled": True, **more}
    installed.record(str(home), name, entry)


def state(home: Path, name: str = "echo-plugin") -> str:
    found = installed.one(str(home), name)
    return found.state if found is not None else "none"


# ------------------------------------------------------------------ what counts


def test_without_a_registry_nothing_is_read_or_imported(tmp_path: Path) -> None:
    loaded = [name for name in sys.modules if name.startswith("adderclaw.config.plugin_")]
    for name in loaded:
        del sys.modules[name]
    echo(tmp_path)
    assert installed.active(str(tmp_path)) == ()
    assert not [name for name in sys.modules if name.startswith("adderclaw.config.plugin_")]


def test_a_folder_put_there_by_hand_is_known_and_untrusted(tmp_path: Path) -> None:
    echo(tmp_path)
    (found,) = installed.known(str(tmp_path))
    assert (found.name, found.version, found.state) == ("echo-plugin", "0.1.0", "untrusted")
    assert [tool.name for tool in found.manifest.tools] == ["echo"]
    assert installed.active(str(tmp_path)) == ()


def _append(path: Path) -> None:
    path.write_text(path.read_text() + "\n")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte": (lambda folder: _append(folder / "echo-plugin"), "~ echo-plugin"),
    "a new file": (lambda folder: (folder / "more").write_text(""), "+ more"),
    "a file less": (lambda folder: (folder / "notes.txt").unlink(), "- notes.txt"),
    "the right to be run": (lambda folder: (folder / "notes.txt").chmod(0o755), "~ notes.txt"),
    "another name": (lambda folder: (folder / "notes.txt").rename(folder / "n.txt"), "+ n.txt"),
    "a link in place of a file": (lambda folder: _linked(folder), "~ notes.txt"),
    "compiled code": (lambda folder: put(folder, {"__pycache__/x.pyc": "x"}), "+ __pycache__/x.pyc"),
}


def _linked(folder: Path) -> None:
    (folder / "notes.txt").unlink()
    (folder / "notes.txt").symlink_to("echo-plugin")


@rows("change", CHANGES)
def test_what_changed_since_it_was_trusted_counts_no_more(
    tmp_path_factory: pytest.TempPathFactory, change: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    folder = put(echo(home), {"notes.txt": "notes"})
    trust(home, "echo-plugin")
    assert [plugin.name for plugin in installed.active(str(home))] == ["echo-plugin"]
    make, said = CHANGES[change]
    make(folder)
    assert installed.active(str(home)) == ()
    (found,) = installed.enabled(str(home))
    assert found.state == "changed"
    assert any(problem.endswith(said) for problem in found.problems), found.problems


def test_one_that_is_turned_off_is_no_longer_active(tmp_path: Path) -> None:
    echo(tmp_path)
    trust(tmp_path, "echo-plugin", enabled=False)
    assert state(tmp_path) == "disabled"
    assert installed.active(str(tmp_path)) == ()


def test_one_whose_folder_is_gone_is_broken(tmp_path: Path) -> None:
    folder = echo(tmp_path)
    trust(tmp_path, "echo-plugin")
    shutil.rmtree(folder)
    assert state(tmp_path) == "broken"
    assert installed.active(str(tmp_path)) == ()


def test_plugins_come_by_name(tmp_path: Path) -> None:
    for name in ("b", "C", "a"):
        put(tmp_path / "plugins" / name, {"commands/x.md": "x"})
        trust(tmp_path, name)
    assert [plugin.name for plugin in installed.active(str(tmp_path))] == ["C", "a", "b"]


@rows("data", ["", "{", "[]", '{"plugins": []}', '{"plugins": {"echo-plugin": 7}}', "\0", "[" * 100_000])
def test_a_registry_that_cannot_be_understood_enables_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    echo(home)
    (home / "plugins.json").write_text(data)
    assert installed.active(str(home)) == ()
    assert state(home) == "untrusted"


def test_a_registry_that_cannot_be_understood_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "plugins.json").write_text("{")
    with pytest.raises(ConfigError, match="is invalid; correct it"):
        installed.record(str(tmp_path), "x", {})
    assert (tmp_path / "plugins.json").read_text() == "{"


def test_the_registry_is_no_link(tmp_path: Path) -> None:
    echo(tmp_path)
    trust(tmp_path, "echo-plugin")
    (tmp_path / "plugins.json").rename(tmp_path / "elsewhere.json")
    (tmp_path / "plugins.json").symlink_to("elsewhere.json")
    assert installed.active(str(tmp_path)) == ()


# ------------------------------------------------------------------ folders that are refused


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _many(folder: Path) -> None:
    for number in range(tree.MOST_FILES):
        os.close(os.open(folder / f"f{number}", os.O_CREAT | os.O_WRONLY))


def _large(folder: Path) -> None:
    with open(folder / "large", "wb") as file:
        file.truncate(tree.MOST_BYTES + 1)


def _deep(folder: Path) -> None:
    (folder / "/".join("d" * 40)).mkdir(parents=True)


def _link_by_way_of_another(folder: Path) -> None:
    """By its words it leads to a file of the plugin; really to one beside the plugin's folder."""
    for name in ("top", "deep/er/way"):
        (folder / name).mkdir(parents=True)
    (folder / "deep" / "outside").write_text("decoy")
    (folder.parent / "outside").write_text("not the plugin's")
    (folder / "deep" / "er" / "up").symlink_to("../../top")
    (folder / "link").symlink_to("deep/er/up/../../outside")
    assert (folder / "link").read_text() == "not the plugin's"


def _link(target: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "link").symlink_to(target)


def _named(name: str) -> Callable[[Path], None]:
    return lambda folder: os.close(os.open(os.fsencode(folder) + b"/" + os.fsencode(name), os.O_CREAT | os.O_WRONLY))


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link out": (_link("../../../outside"), "no file or folder of the plugin"),
    "an absolute link": (_link("/etc/passwd"), "no file or folder of the plugin"),
    "a link out by way of another": (_link_by_way_of_another, "no file or folder of the plugin"),
    "a link to nothing": (_link("nothing"), "no file or folder of the plugin"),
    "a link to itself": (_link("link"), "no file or folder of the plugin"),
    "a pipe": (_fifo, "neither a file, a folder nor a link"),
    "two cases": (lambda folder: put(folder, {"readme": "a", "README": "b"}), "one name on some systems"),
    "two forms": (lambda folder: (_named("é")(folder), _named("e\u0301")(folder)), "one name on some systems"),
    "a new line in a name": (_named("a\nb"), "nobody can see"),
    "a name that turns direction": (_named("a\u202egpj.sh"), "nobody can see"),
    "a name without width": (_named("a\u200bb"), "nobody can see"),
    "a name that is no UTF-8": (_named("a\udcff"), "nobody can see"),
    "an escape in a name": (_named("\x1b[2J"), "nobody can see"),
    "a long name": (_named("a" * 201), "more than 200 bytes"),
    "many files": (_many, "more than 2000 files"),
    "many bytes": (_large, "more than 32 MiB"),
    "deep folders": (_deep, "folders deep"),
}


@rows("what", REFUSED)
def test_a_folder_that_is_refused(tmp_path_factory: pytest.TempPathFactory, what: str) -> None:
    home = tmp_path_factory.mktemp("home")
    folder = echo(home)
    make, said = REFUSED[what]
    make(folder)
    found = installed.one(str(home), "echo-plugin")
    assert found is not None
    assert (found.state, found.sha256) == ("broken", "")
    assert said in found.problems[0]


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    echo(tmp_path / "elsewhere")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "echo-plugin").symlink_to(tmp_path / "elsewhere" / "plugins" / "echo-plugin")
    assert state(tmp_path) == "broken"


def test_a_link_inside_is_pinned_by_where_it_leads(tmp_path: Path) -> None:
    folder = put(echo(tmp_path), {"docs/a.md": "a"})
    (folder / "link.md").symlink_to("docs/a.md")
    found = installed.one(str(tmp_path), "echo-plugin")
    assert found is not None
    assert found.files["link.md"] == "link docs/a.md"


# ------------------------------------------------------------------ manifests


def read(tmp_path: Path, manifest: str, files: dict[str, str] | None = None) -> tuple[Manifest, tuple[str, ...]]:
    folder = tmp_path / "plugins" / "p"
    shutil.rmtree(folder, ignore_errors=True)
    found = installed.at(
        str(put(folder, {"manifest.toml": manifest, "run": PROGRAM, "plain": "no program", **(files or {})}))
    )
    return found.manifest, found.problems


HEAD = 'name = "p"\nversion = "1"\ncapabilities = ["tool"]\n'
TOOL = '[[tools]]\nname = "t"\ndescription = "d"\ncommand = "./run"\n'

WRONG: dict[str, tuple[str, str]] = {
    "no TOML": ("name = ", "line 1"),
    "nothing": ("", "name: is required"),
    "no name": (HEAD.replace('name = "p"\n', "") + TOOL, "name: is required"),
    "a path as its name": (HEAD.replace('"p"', '"../p"') + TOOL, "name: "),
    "a hidden name": (HEAD.replace('"p"', '".p"') + TOOL, "name: "),
    "an unknown key": (HEAD + "verison = 1\n" + TOOL, 'did you mean "version"'),
    "an unknown capability": (HEAD.replace("tool", "root") + TOOL, "is not allowed"),
    "a number as version": (HEAD.replace('"1"', "1") + TOOL, "expected text"),
    "tools that it does not name": (HEAD.replace('["tool"]', "[]") + TOOL, 'must name "tool"'),
    "no tool": (HEAD, "there must be one"),
    "two of one name": (HEAD + TOOL + TOOL.replace('"t"', '"T"'), "given twice"),
    "a tool's name": (HEAD + TOOL.replace('"t"', '"a b"'), "is not allowed"),
    "the name of an MCP tool": (HEAD + TOOL.replace('"t"', '"mcp__a__b"'), "is not allowed"),
    "no description": (HEAD + TOOL.replace('"d"', '" "'), "is empty"),
    "a program above": (HEAD + TOOL.replace("./run", "../run"), "name a file of the plugin"),
    "a program of the system": (HEAD + TOOL.replace("./run", "/bin/sh"), "name a file of the plugin"),
    "a way round": (HEAD + TOOL.replace("./run", "a/../../run"), "name a file of the plugin"),
    "a program with arguments": (HEAD + TOOL.replace("./run", "./run --fast"), "is not in the plugin"),
    "what is no program": (HEAD + TOOL.replace("./run", "./plain"), 'chmod +x "plain"'),
    "a folder": (HEAD + TOOL.replace("./run", "."), "is not in the plugin"),
    "a schema of a list": (HEAD + TOOL + 'schema = { type = "array" }', 'must be "object"'),
    "a schema that is text": (HEAD + TOOL + 'schema = "object"', "expected a table"),
    "a huge schema": (HEAD + TOOL + f'schema = {{ type = "object", title = "{"x" * 70_000}" }}', "more than 65536"),
    "a deep schema": (HEAD + TOOL + "schema = " + "{ a = " * 50 + "1" + " }" * 50, "nested more than"),
    "no time": (HEAD + TOOL + "timeout = 0", "from 0.1 to 3600"),
    "time without end": (HEAD + TOOL + "timeout = inf", "from 0.1 to 3600"),
    "many tools": (HEAD + "".join(TOOL.replace('"t"', f'"t{number}"') for number in range(65)), "more than 64"),
}


@rows("what", WRONG)
def test_a_manifest_that_is_refused_says_why(tmp_path_factory: pytest.TempPathFactory, what: str) -> None:
    text, said = WRONG[what]
    _, problems = read(tmp_path_factory.mktemp("home"), text)
    assert any(said in problem for problem in problems), problems


def test_every_problem_is_said_at_once(tmp_path: Path) -> None:
    _, problems = read(tmp_path, HEAD + TOOL.replace("./run", "../run").replace('"d"', '""'))
    assert len(problems) == 2


def test_a_program_that_is_a_link_is_refused(tmp_path: Path) -> None:
    folder = put(tmp_path / "p", {"manifest.toml": HEAD + TOOL.replace("run", "go"), "run": PROGRAM})
    (folder / "go").symlink_to("run")
    assert "is a link" in installed.at(str(folder)).problems[0]


def test_what_the_capabilities_do_not_name_does_not_count(tmp_path: Path) -> None:
    more = {"skills/s/SKILL.md": "x", ".mcp.json": '{"mcpServers": {"a": {"command": "x"}}}'}
    manifest, problems = read(tmp_path, HEAD + TOOL, more)
    assert (problems, manifest.skills, manifest.mcp_servers) == ((), (), {})
    assert len(manifest.unused) == 2
    manifest, _ = read(tmp_path, HEAD.replace('"tool"', '"tool", "skill"') + TOOL, more)
    assert (manifest.skills, manifest.mcp_servers) == (("skills/s",), {})


def test_the_layout_of_the_reference_with_further_places(tmp_path: Path) -> None:
    files = {
        **dict.fromkeys(("commands/a.md", "commands/sub/b.md", "more/c.md", "extra/d.md"), "x"),
        **dict.fromkeys(("skills/s/SKILL.md", "others/t/SKILL.md"), "x"),
        "hooks/hooks.json": '{"description": "d", "hooks": {"Stop": [1]}}',
        "config/h.json": '{"hooks": {"Stop": [2]}}',
        ".mcp.json": '{"one": {"command": "x"}}',
    }
    said = (
        '{"name": "q", "commands": ["./more/c.md"], "agents": "./extra", "skills": "./others/",'
        ' "hooks": ["./config/h.json", {"Stop": [3]}], "mcpServers": {"two": {"url": "https://x"}}, "lspServers": {}}'
    )
    found = installed.at(str(put(tmp_path / "p", {**files, ".claude-plugin/plugin.json": said})))
    assert found.problems == ()
    manifest = found.manifest
    assert manifest.name == "q"
    assert manifest.commands == ("commands/a.md", "commands/sub/b.md", "more/c.md")
    assert manifest.agents == ("extra/d.md",)
    assert manifest.skills == ("others/t", "skills/s")
    assert manifest.hooks == {"Stop": [1, 2, 3]}
    assert list(manifest.mcp_servers) == ["one", "two"]
    assert manifest.unused == ("lspServers",)


FOREIGN = {
    "a path out": ('{"name": "p", "commands": "../x"}', "not a path inside"),
    "a path of the system": ('{"name": "p", "skills": "/etc"}', "not a path inside"),
    "a place that is not there": ('{"name": "p", "agents": "./none"}', "neither a Markdown file"),
    "hooks elsewhere": ('{"name": "p", "hooks": "./../h.json"}', "not a JSON file"),
    "hooks as text": ('{"name": "p", "hooks": {"Stop": "x"}}', "expected a list"),
    "servers as a list": ('{"name": "p", "mcpServers": {"a": []}}', "expected a table"),
    "no name": ("{}", "name: is required"),
    "a name with a blank": ('{"name": "a b"}', "is not allowed"),
    "no JSON": ("{", "line 1"),
    "a list": ("[]", "must be a table"),
    "a key twice": ('{"name": "p", "name": "q"}', "given twice"),
}


@rows("what", FOREIGN)
def test_a_plugin_json_that_is_refused_says_why(tmp_path_factory: pytest.TempPathFactory, what: str) -> None:
    text, said = FOREIGN[what]
    folder = put(tmp_path_factory.mktemp("p"), {".claude-plugin/plugin.json": text})
    problems = installed.at(str(folder)).problems
    assert any(said in problem for problem in problems), problems


def test_a_folder_that_brings_nothing_is_no_plugin(tmp_path: Path) -> None:
    assert "there is neither" in installed.at(str(put(tmp_path / "p", {"README": "x"}))).problems[0]


def test_a_folder_of_another_name_than_the_plugins_is_broken(tmp_path: Path) -> None:
    echo(tmp_path).rename(tmp_path / "plugins" / "other")
    found = installed.one(str(tmp_path), "other")
    assert found is not None
    assert (found.state, "calls itself" in found.problems[-1]) == ("broken", True)
