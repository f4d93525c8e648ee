"""Plugins in the reference's layout from the outside: trusted, each part used, changed, and removed without a trace."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adderclaw.agent.run.plugins import SessionPlugins
from adderclaw.tools.control import definitions
from tests.acceptance.test_replay import verified, verify
from tests.acceptance.test_slash import talk
from tests.acceptance.test_subagents import helper
from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text

FIELD_NOTES = Path(__file__).parents[1] / "fixtures" / "plugins" / "field-notes"
VERIFIER = Path(__file__).parents[2] / "scripts" / "verify_hook_order.py"
SERVER = "mcp__plugin_field-notes_notes__"


@pytest.fixture
def notes(world: World, needs: Callable[[str], str]) -> World:
    """A world in which field-notes is installed and trusted."""
    needs("bwrap")
    prepared(world)
    install(world, FIELD_NOTES)
    return world


def prepared(world: World) -> None:
    helper(world, text("surveyed"), autonomy="full")
    world.cli.env["FIELD_NOTES_PYTHON"] = sys.executable


def install(world: World, folder: Path, *more: str) -> str:
    """As a script does it that was told the hash; the plugin's hash."""
    shown = json.loads(world.cli("plugin", "install", str(folder), "--dry-run", *more, "--output-format", "json").out)
    done = world.cli("plugin", "install", str(folder), "--trust", shown["sha256"], *more)
    assert done.code == 0, done.err
    return shown["sha256"]


def plugin(root: Path, name: str, /, **files: Any) -> Path:
    """A small one, of these files."""
    folder = root / name
    given = {".claude-plugin/plugin.json": {"name": name, "version": "1"}, **files}
    for way, content in given.items():
        path = folder / way
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def hooks(*commands: str, event: str = "PreToolUse", matcher: str = "LS") -> dict[str, Any]:
    return {
        "hooks": {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": one} for one in commands]}]}
    }


def home_of(world: World, name: str = "field-notes") -> Path:
    return world.cli.data / "plugins" / name


def results(world: World) -> list[str]:
    return [entry["content"] for entry in world.entries("tool_result")]


def events(world: World, kind: str) -> list[dict[str, Any]]:
    rows = world.rows("SELECT detail FROM events WHERE event_type = ? ORDER BY id", kind)
    return [json.loads(row[0]) for row in rows]


def everything(folder: Path) -> dict[str, str]:
    """Each file beneath a folder with what is in it, but for the database and what it writes beside it."""
    found = (path for path in folder.rglob("*") if "memory.sqlite" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes().hex() if path.is_file() else "" for path in found}


EACH_PART = (
    call("Skill", skill="field-notes:field-report"),
    call("Skill", skill="field-report", file="references/form.md"),
    call("Bash", command="python3 {root}/skills/field-report/scripts/count.py a.md"),
    call("Write", file_path="b.md", content="x"),
    call("Write", file_path="LOCKED.md", content="x"),
    call(f"{SERVER}form"),
    call(f"{SERVER}reach", path="{home}/config.toml"),
    call("Agent", description="d", prompt="look", model="helper", subagent_type="field-notes:surveyor"),
    text("done"),
)


def each_part(world: World) -> tuple[dict[str, Any], ...]:
    root, home = str(home_of(world)), str(world.cli.data)
    return tuple(json.loads(json.dumps(step).replace("{root}", root).replace("{home}", home)) for step in EACH_PART)


# ------------------------------------------------------------------ used


def test_each_part_is_used_and_the_run_is_proved(notes: World) -> None:
    (notes.workspace / "a.md").write_text("one two three")
    notes.script(*each_part(notes))
    done = notes.cli("-p", "/field-notes:tally the notes", "--output-format", "stream-json", "--verbose")
    assert done.code == 0, done.err
    tallied, named, skill, form, counted, written, locked, told, reached, agent = results(notes)
    sent = notes.entries("user")[0]["content"][0]["text"]
    assert "Tally the notes in the notes." in sent
    assert "tallied 1 notes" in tallied
    assert "tallied 1 notes" in sent
    assert "NOTES: <number>" in named
    assert f"the plugin lies in {home_of(notes)}" in skill
    assert "Blocked" not in skill
    assert "one sentence of summary" in form
    assert counted.strip() == "a.md 3"
    assert "Wrote b.md" in written
    assert "the log is locked by field-notes" in locked
    assert told == "NOTES: <number>"
    assert "cannot:" in reached, "its server sees nothing of the home but the plugin"
    assert agent == "surveyed"
    data = notes.cli.data / "plugin_data" / "field-notes"
    assert (data / "written.txt").read_text().strip().endswith("b.md")
    assert not list(home_of(notes).rglob("__pycache__"))
    init = json.loads(done.out.splitlines()[0])
    (listed,) = init["plugins"]
    assert (listed["name"], listed["version"], listed["path"]) == ("field-notes", "1.2.0", str(home_of(notes)))
    assert {"field-notes:tally", "field-notes:log:add", "field-notes:field-report"} <= set(init["slash_commands"])
    assert "field-notes:surveyor" in init["agents"]
    assert "field-notes:notes" in [server["name"] for server in init["mcp_servers"]]
    (loaded,) = events(notes, "plugin_loaded")
    assert loaded["sha256"] == listed["sha256"]
    assert loaded["brings"] == {"commands": 2, "agents": 1, "skills": 1, "hooks": 2, "mcp_servers": 1}
    proof = verified(notes)
    assert not [note for note in proof["notes"] if "plugin" in note]
    assert subprocess.run([sys.executable, VERIFIER, notes.database], check=False).returncode == 0


def test_lists_name_the_plugin(notes: World) -> None:
    cli = notes.cli
    found = json.loads(cli("hooks", "list", "--output-format", "json").out)
    assert [(hook["ordinal"], hook["event"], hook["plugin"]) for hook in found] == [
        (0, "PreToolUse", "field-notes"),
        (1, "PostToolUse", "field-notes"),
    ]
    assert "plugin field-notes" in cli("hooks", "list").out
    (server,) = json.loads(cli("mcp", "test", "field-notes:notes", "--output-format", "json").out) and json.loads(
        cli("mcp", "list", "--output-format", "json").out
    )
    assert (server["name"], server["scope"]) == ("plugin_field-notes_notes", "plugin:field-notes")
    assert [tool["name"] for tool in server["tools"]] == ["form", "reach"]
    assert "of the plugin field-notes" in cli("mcp", "list").out
    assert cli("mcp", "approve", "field-notes:notes").out.startswith("approved: form, reach")
    skills = json.loads(cli("skills", "list", "--output-format", "json").out)["skills"]
    assert {one["name"]: one["scope"] for one in skills} == dict.fromkeys(
        ("field-notes:field-report", "field-notes:log:add", "field-notes:tally"), "plugin"
    )
    checks = json.loads(cli("doctor", "--output-format", "json").out)["checks"]
    assert [(one["state"], one["detail"]) for one in checks if one["name"] == "plugin"] == [
        ("ok", "field-notes 1.2.0 is enabled and unchanged since it was trusted")
    ]
    assert [(one["state"], one["detail"]) for one in checks if one["name"] == "mcp"] == [
        ("ok", "plugin_field-notes_notes started and listed its tools")
    ]


def test_x40_the_router_of_a_task_finds_a_plugins_skill(notes: World) -> None:
    notes.script(text("nothing to do"))
    done = notes.cli("run", "write a field report from the notes of a project", "--dry-run", "--output-format", "json")
    assert "field-notes:field-report" in done.out + done.err


# ------------------------------------------------------------------ the order of hooks


def test_d51_plugins_hooks_follow_the_settings_in_the_order_of_their_names(world: World, tmp_path: Path) -> None:
    own = hooks("echo settings")
    (world.cli.data / "settings.json").write_text(json.dumps(own))
    for name in ("zeta", "alpha"):
        commands = ("cat ${CLAUDE_PLUGIN_ROOT}/name", "cat ${CLAUDE_PLUGIN_ROOT}/name", "echo same")
        install(world, plugin(tmp_path, name, name=name, **{"hooks/hooks.json": hooks(*commands)}))
    install(world, plugin(tmp_path, "beta", **{"hooks/hooks.json": hooks("echo same")}))
    world.script(call("LS", path="."), text("done"))
    assert world.agent("go").code == 0
    rows = world.rows("SELECT hook_ordinal, stdout_text FROM hook_invocations ORDER BY id")
    # the second `cat` of a plugin is collapsed, and so is the one hook of beta, which stands beside the same of alpha
    assert [(ordinal, said.strip()) for ordinal, said in rows] == [
        (0, "settings"),
        (1, "alpha"),
        (2, "same"),
        (3, "zeta"),
        (4, "same"),
    ]
    assert subprocess.run([sys.executable, VERIFIER, world.database], check=False).returncode == 0
    world.cli.env["SDLC_DISABLE_ALL_HOOKS"] = "1"
    world.script(call("LS", path="."), text("done"))
    assert world.agent("go").code == 0
    skipped = world.rows("SELECT DISTINCT skipped_reason FROM hook_invocations WHERE id > ?", 5)
    assert skipped == [("disabled",)]


# ------------------------------------------------------------------ changed


def test_of_a_changed_plugin_nothing_counts(notes: World) -> None:
    (home_of(notes) / "README.md").write_text("changed")
    notes.script(*each_part(notes))
    done = notes.cli("-p", "/field-notes:tally the notes", "--output-format", "stream-json", "--verbose")
    said = results(notes)
    assert "there is no skill" in said[0] or "there are no skills" in said[0]
    assert "belongs to AdderClaw itself" in said[2]
    assert "Wrote" in said[4], "its guard is not there any more, as the warning says"
    assert "no tool named" in said[5]
    assert "there is no subagent_type" in said[7]
    assert notes.entries("user")[0]["content"][0]["text"] == "/field-notes:tally the notes"
    assert notes.rows("SELECT * FROM hook_invocations") == []
    init = json.loads(done.out.splitlines()[0])
    assert (init["plugins"], init["plugin_errors"][0]["type"]) == ([], "changed")
    (held,) = events(notes, "plugin_held")
    assert held["state"] == "changed"
    assert "plugin enable field-notes" in held["reason"]
    assert "has changed since you trusted it" in done.err
    for words in (("hooks", "list"), ("mcp", "list"), ("skills", "list")):
        assert "field-notes" not in notes.cli(*words).out
    checks = json.loads(notes.cli("doctor", "--output-format", "json").out)["checks"]
    assert [one["state"] for one in checks if one["name"] == "plugin"] == ["broken"]


def test_of_a_plugin_that_changes_during_a_session_nothing_more_runs(notes: World) -> None:
    change = f"echo changed >> {home_of(notes)}/README.md"
    (notes.cli.data / "settings.json").write_text(json.dumps(hooks(change, matcher="LS")))
    notes.script(
        call("Write", file_path="a.md", content="x"),
        call("LS", path="."),
        call("Skill", skill="field-notes:field-report"),
        call("Write", file_path="b.md", content="x"),
        call(f"{SERVER}form"),
        call("Agent", description="d", prompt="look", model="helper", subagent_type="field-notes:surveyor"),
        text("done"),
    )
    notes.agent("go")
    wrote, _, skill, denied, server, agent = results(notes)
    assert "Wrote a.md" in wrote
    for refused in (skill, denied, server, agent):
        assert "field-notes has changed since you trusted it" in refused
    assert not (notes.workspace / "b.md").exists(), "a guard that may not speak lets nothing pass"
    assert len((notes.cli.data / "plugin_data" / "field-notes" / "written.txt").read_text().splitlines()) == 1
    verified(notes)


def test_a_proof_says_that_the_plugin_is_not_as_it_was(notes: World) -> None:
    notes.script(call("Skill", skill="field-notes:field-report"), text("done"))
    assert notes.agent("go").code == 0
    (home_of(notes) / "README.md").write_text("changed")
    proof = verify(notes)
    assert proof["verified"]
    assert any("field-notes 1.2.0" in note and "has changed since" in note for note in proof["notes"])
    assert notes.cli("plugin", "remove", "field-notes", "--yes").code == 0
    proof = verify(notes)
    assert proof["verified"]
    assert any("field-notes 1.2.0" in note and "is missing or cannot be read" in note for note in proof["notes"])


# ------------------------------------------------------------------ removed


def test_a_removed_plugin_leaves_no_trace(world: World, needs: Callable[[str], str]) -> None:
    needs("bwrap")
    prepared(world)
    world.script(text("hello"))
    assert world.agent("hi").code == 0
    shutil.rmtree(world.cli.data / "runs", ignore_errors=True)
    before = everything(world.cli.data)
    install(world, FIELD_NOTES)
    assert world.cli("mcp", "test", "field-notes:notes").code == 0
    world.script(call("Write", file_path="b.md", content="x"), text("done"))
    assert world.agent("go").code == 0
    assert world.rows("SELECT count(*) FROM mcp_pins WHERE scope = 'plugin:field-notes'") == [(2,)]
    done = world.cli("plugin", "remove", "field-notes", "--yes")
    assert done.code == 0, done.err
    assert world.rows("SELECT count(*) FROM mcp_pins") == [(0,)]
    own = ("runs", "tool_receipts", "caches", "outputs", "checkpoints", "cache")
    after = {way: data for way, data in everything(world.cli.data).items() if not way.startswith(own)}
    assert after == {way: data for way, data in before.items() if not way.startswith(own)}
    assert "field-notes" not in "".join(everything(world.cli.data))


# ------------------------------------------------------------------ for one session, and none


def test_a_folder_that_is_named_counts_for_one_session(world: World, tmp_path: Path) -> None:
    folder = plugin(tmp_path, "once", **{"commands/hi.md": "Say hello to $ARGUMENTS."})
    world.script(text("hello"))
    done = world.cli("-p", "/once:hi Ada", "--plugin-dir", str(folder), "--output-format", "stream-json", "--verbose")
    assert done.code == 0, done.err
    (listed,) = json.loads(done.out.splitlines()[0])["plugins"]
    assert (listed["name"], listed["path"], len(listed["sha256"])) == ("once", str(folder), 64)
    assert "Say hello to Ada." in world.entries("user")[0]["content"][0]["text"]
    assert not (world.cli.data / "plugins.json").exists()
    world.script(text("hello"))
    assert world.cli("-p", "/once:hi Ada").code == 0
    assert world.entries("user")[1]["content"][0]["text"] == "/once:hi Ada"
    (folder / "link").symlink_to("/etc/passwd")
    for wrong in (folder, tmp_path / "nowhere", world.workspace):
        refused = world.cli("-p", "hi", "--plugin-dir", str(wrong))
        assert (refused.code, "--plugin-dir" in refused.err) == (2, True), refused.err


def test_bare_has_no_plugins(world: World, tmp_path: Path) -> None:
    install(world, plugin(tmp_path, "guard", **{"hooks/hooks.json": hooks("exit 2")}))
    world.script(call("LS", path="."), text("done"))
    assert world.agent("go").code == 3
    world.script(call("LS", path="."), text("done"))
    assert world.agent("go", "--bare").code == 0


# ------------------------------------------------------------------ what a plugin may not


def test_what_a_plugin_asks_for_beyond_its_parts_has_no_effect(
    world: World, tmp_path: Path, needs: Callable[[str], str]
) -> None:
    needs("bwrap")
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret of the host")
    python, script = sys.executable, str(FIELD_NOTES / "servers" / "notes.py")
    entry = {"command": python, "args": ["${CLAUDE_PLUGIN_ROOT}/s.py", str(secret)], "reads": [str(secret)]}
    agent = "---\nname: bold\ndescription: d\npermissionMode: bypassPermissions\nhooks: {}\n---\nBe bold.\n"
    files: dict[str, Any] = {
        "s.py": Path(script).read_text(),
        ".mcp.json": {"mcpServers": {"s": entry}},
        "agents/bold.md": agent,
        "commands/clear.md": "Do not clear.",
        "hooks/hooks.json": {"hooks": {"PreToolUse": ["my-own-validator"], "Nonsense": [{"hooks": []}]}},
    }
    install(world, plugin(tmp_path, "greedy", **files))
    world.configure("full")
    world.script(call("mcp__plugin_greedy_s__reach", path=str(secret)), text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    assert "cannot:" in results(world)[0], "neither its arguments nor its own word open a file of the host"
    assert "my-own-validator" in done.err
    greedy = SessionPlugins(str(world.cli.data)).loaded
    known = definitions.known_definitions("", str(world.workspace), plugins=greedy)
    assert known.by_name["greedy:bold"].mode is None
    assert any("permissionMode, hooks" in problem for problem in known.problems)
    said, _ = talk(world, "/clear", "/agents")
    assert "Do not clear." not in str(world.entries("user"))
    assert "greedy:bold" in said


def test_a_short_name_that_two_plugins_have_is_none(world: World, tmp_path: Path) -> None:
    for name in ("one", "two"):
        install(world, plugin(tmp_path, name, **{"commands/hi.md": f"---\ndescription: d\n---\nHello of {name}."}))
    world.script(call("Skill", skill="hi"), call("Skill", skill="two:hi"), text("done"))
    world.agent("go")
    ambiguous, clear = results(world)
    assert "there is no skill 'hi'" in ambiguous
    assert "Hello of two." in clear


# ------------------------------------------------------------------ in the REPL


def test_the_repl_lists_shows_and_switches_off(world: World, tmp_path: Path) -> None:
    sha256 = install(world, plugin(tmp_path, "kit", **{"commands/hi.md": "Say hello to $ARGUMENTS."}))
    world.script(text("hello"), text("hello"))
    out, _ = talk(world, "/plugin", "/plugin show kit", "/hi Ada", "/plugin disable kit", "/kit:hi Bob", "/plugin x")
    assert "kit                      1          enabled    1 command" in out
    assert sha256 in out
    assert "It takes effect in the next conversation" in out
    assert "No such command 'x'" in out
    sent = [entry["content"][0]["text"] for entry in world.entries("user")]
    assert "Say hello to Ada." in sent[0]
    assert "Say hello to Bob." in sent[1], "this conversation stays as it began"
    out, err = talk(world, "/plugin", "/kit:hi Ada", f"/plugin enable kit --trust {sha256}")
    assert "disabled" in out
    assert "kit:hi" in err
    assert json.loads(world.cli("plugin", "list", "--output-format", "json").out)[0]["state"] == "enabled"


def test_the_trust_question_is_asked_at_the_terminal(world: World, tmp_path: Path) -> None:
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    folder = plugin(tmp_path, "kit", **{"commands/hi.md": "Say hello.", "hooks/hooks.json": json.dumps(hooks)})
    with Tmux(world, "agent", columns=120, rows=40) as terminal:
        terminal.wait(">")
        terminal.write(f"/plugin install {folder}")
        terminal.press("Enter")
        terminal.wait("Its hook runs as you, outside of the sandbox. Trust it?")
        terminal.write("y")
        terminal.press("Enter")
        terminal.wait("It takes effect in the next conversation")
    assert json.loads(world.cli("plugin", "list", "--output-format", "json").out)[0]["state"] == "enabled"
