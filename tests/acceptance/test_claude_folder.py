"""What users of the reference product have counts here, too: at once where it denies, after trust where it allows."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text


def settings(world: World, name: str = "settings.json", **given: Any) -> Path:
    path = world.workspace / ".claude" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(given))
    return path


def command(world: World, name: str, content: str, top: str = ".claude") -> None:
    path = world.workspace / top / "commands" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def trust(world: World) -> str:
    done = world.cli("trust", str(world.workspace))
    assert done.code == 0, done.err
    return done.out


def decisions(world: World) -> list[tuple[str, str]]:
    return [(one["decision"]["verdict"], one["decision"]["by"]) for one in world.receipts()]


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_11_what_it_denies_and_asks_counts_at_once(world: World, name: str) -> None:
    settings(
        world,
        name,
        permissions={
            "deny": ["Read(./.env)", "Read(secrets/**)", "Read(/anchored.txt)", "Bash(git push:*)", "WebFetch"],
            "ask": ["Bash(ls:*)"],
        },
        sandbox={"filesystem": {"denyRead": ["./masked.txt"]}},
    )
    for path in (".env", "secrets/a", "deep/secrets/b", "anchored.txt", "masked.txt", "open.txt"):
        (world.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (world.workspace / path).write_text("canary\n")
    denied = (".env", "secrets/a", "deep/secrets/b", "anchored.txt", "masked.txt")
    reads = [call("Read", file_path=path) for path in (*denied, "open.txt")]
    world.script(*reads, call("Bash", command="cat .env"), call("Bash", command="ls"), text("done"))
    done = world.agent("go", "--workspace", str(world.workspace), stdin="n\n")
    found = decisions(world)
    assert [verdict for verdict, _ in found[:5]] == ["deny"] * 5, found
    assert found[5][0] == "allow"
    assert found[6][0] == "deny"
    assert found[7] == ("deny", "operator"), f"a look is asked about, since a rule says so: {done.err}"
    assert "canary" not in json.dumps(world.entries("tool_result")[:5])


def test_11_a_denial_that_cannot_be_read_is_no_denial_that_is_lost(world: World) -> None:
    for broken, said in (
        ("{", "its deny rules cannot be read, so nothing runs until you fix or remove the file"),
        (json.dumps({"permissions": {"deny": "Read(./.env)"}}), "permissions.deny"),
        (json.dumps({"permissions": ["Read"]}), "permissions"),
        (json.dumps({"permissions": {"ask": {"Read": 1}}}), "permissions.ask"),
    ):
        settings(world).write_text(broken)
        done = world.agent("go", "--workspace", str(world.workspace))
        assert done.code == 2, broken
        assert said in done.err


def test_11_the_rest_counts_after_trust_and_not_before(world: World) -> None:
    beside = world.workspace.with_name("beside")
    beside.mkdir()
    (beside / "b.txt").write_text("beside\n")
    log = world.cli.home / "heard"
    hook = {"matcher": "Write", "hooks": [{"type": "command", "command": f"cat >> {log}", "shell": "sh"}]}
    settings(
        world,
        permissions={
            "allow": ["Write(/made.txt)", "Bash(make:*)"],
            "additionalDirectories": ["../beside"],
            "defaultMode": "acceptEdits",
        },
        hooks={"PreToolUse": [hook]},
        env={"STAGE_NAME": "testing", "LD_PRELOAD": "x.so"},
    )
    steps = (
        call("Write", file_path="made.txt", content="x"),
        call("Read", file_path=str(beside / "b.txt")),
        call("Bash", command="env"),
        text("done"),
    )
    world.script(*steps)
    before = world.agent("go", "--workspace", str(world.workspace), stdin="n\ny\n")
    assert decisions(world)[0] == ("deny", "operator")
    assert decisions(world)[1][0] == "deny"
    assert not log.exists()
    assert "STAGE_NAME=" not in world.entries("tool_result")[2]["content"]
    assert "not trusted" in before.err
    shown = trust(world)
    for word in ("permissions.allow", "additionalDirectories", "env.STAGE_NAME", "hooks"):
        assert f"active: setting {'permissions.' if word.startswith('add') else ''}{word}" in shown, shown
    assert "LD_PRELOAD" not in shown.split("active:", 1)[1]
    world.script(*steps)
    after = world.agent("go", "--workspace", str(world.workspace), stdin="y\n")
    assert [verdict for verdict, _ in decisions(world)[3:]] == ["allow"] * 3, after.err
    assert json.loads(log.read_text())["hook_event_name"] == "PreToolUse"
    assert "STAGE_NAME=testing" in world.entries("tool_result")[5]["content"]
    assert "LD_PRELOAD" not in world.entries("tool_result")[5]["content"]


def test_11_every_key_without_effect_is_named_once(world: World) -> None:
    keys = ("fileSuggestion", "model", "outputStyle", "cleanupPeriodDays", "enabledPlugins", "somethingNew")
    settings(
        world,
        **dict.fromkeys(keys, "x"),
        env={"ANTHROPIC_AUTH_TOKEN": "sk-ant-api03-abcdefghijklmnop", "PATH": "/x"},
        permissions={"allow": ["Bash(curl -H 'Authorization: Bearer sk-ant-api03-abcdefghijklmnop' x)"]},
    )
    world.script(text("one"))
    first = world.agent("go", "--workspace", str(world.workspace))
    assert first.code == 0, first.err
    said = [line for line in first.err.splitlines() if "no effect here" in line and "config_path" not in line]
    assert len(said) == 1
    for key in keys:
        assert said[0].count(key) == 1
    for key in ("ANTHROPIC_AUTH_TOKEN", "PATH", "permissions.allow[0]"):
        assert key in first.err
    assert "abcdefghijklmnop" not in first.err
    world.script(text("two"))
    second = world.agent("go", "--workspace", str(world.workspace))
    again = [line for line in second.err.splitlines() if "no effect here" in line and "config_path" not in line]
    assert again == [], "it was said"
    assert "fileSuggestion" in world.cli("config", "show", "--workspace", str(world.workspace)).out, (
        "and can be asked for"
    )


def test_11_commands_are_slash_commands(world: World) -> None:
    command(world, "greet.md", "---\ndescription: Greets.\nargument-hint: NAME\n---\nSay hello to $ARGUMENTS.\n")
    command(world, "web/deploy.md", "Deploy $0 to $1 now.\n")
    command(world, "own.md", "Ours: $ARGUMENTS\n", top=".adderclaw")
    world.script(text("one"), text("two"), text("three"))
    lines = ("/greet my friend", "/web:deploy 'a b' prod", "/own x", "/skills", "/exit")
    done = world.cli.typed("agent", "--workspace", str(world.workspace), stdin="".join(f"{line}\n" for line in lines))
    assert done.code == 0, done.err
    sent = [json.dumps(entry["content"]) for entry in world.entries("user")]
    assert "Say hello to my friend." in sent[0]
    assert "Deploy a b to prod now." in sent[1]
    assert "Ours: x" in sent[2]
    assert "/greet" in done.out
    assert "Greets." in done.out


def test_11_lines_of_a_trusted_command_run_through_the_gate(world: World) -> None:
    (world.workspace / "state.txt").write_text("42 apples\n")
    body = "State: !`cat state.txt`\n\n```!\nprintf '%s' $ARGUMENTS\n```\n!`rm state.txt` !`cat $1`\n"
    command(world, "state.md", f"---\nallowed-tools: Write\n---\n{body}")
    shown = trust(world)
    assert "active: command's tools .claude/commands/state.md: Write" in shown
    assert "active: command's lines .claude/commands/state.md" in shown
    world.script(call("Write", file_path="w.txt", content="x"), text("one"))
    lines = ("/state 'a; touch pwned' 'x;touch pwned'", "/exit")
    done = world.cli.typed("agent", "--workspace", str(world.workspace), stdin="".join(f"{line}\n" for line in lines))
    assert done.code == 0, done.err
    sent = json.dumps(world.entries("user")[0]["content"])
    assert "42 apples" in sent
    assert "a; touch pwned" in sent, "what was typed is data"
    assert "rm is in forbidden_commands" in sent or "forbidden" in sent
    assert not (world.workspace / "pwned").exists()
    assert (world.workspace / "state.txt").exists()
    assert (world.workspace / "w.txt").read_text() == "x", "allowed-tools hold for the turn"
    statuses = [(one["tool"], one["status"]) for one in world.receipts()]
    assert len(statuses) == 5, statuses
    # a changed byte, and none of it counts
    command(world, "state.md", f"---\nallowed-tools: Write\n---\n{body} ")
    world.script(text("two"))
    world.cli.typed("agent", "--workspace", str(world.workspace), stdin="/state x\n/exit\n")
    assert "was not run: this project is not trusted" in json.dumps(world.entries("user")[-1]["content"])


def test_11_skills_and_agents_are_found(world: World) -> None:
    skill = world.workspace / ".claude" / "skills" / "tidy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidies up.\n---\nTidy the folder.\n")
    agent = world.workspace / ".claude" / "agents" / "looker.md"
    agent.parent.mkdir(parents=True)
    agent.write_text("---\nname: looker\ndescription: Looks.\ntools: Read\nhooks: x\nmcpServers: y\n---\nLook.\n")
    trust(world)
    world.script(call("Skill", skill="tidy"), text("done"))
    world.agent("go", "--workspace", str(world.workspace))
    assert "Tidy the folder." in world.entries("tool_result")[0]["content"]
    done = world.cli.typed("agent", "--workspace", str(world.workspace), stdin="/agents\n/exit\n")
    assert "looker" in done.out
    assert "these have no effect here: hooks, mcpServers" in done.err


@pytest.fixture
def mine(world: World) -> World:
    """An operator who has a `~/.claude` of their own."""
    home = world.cli.home / ".claude"
    for name, content in {
        "commands/mine.md": "My own words: $ARGUMENTS\n",
        "skills/own/SKILL.md": "---\nname: own\ndescription: Mine.\n---\nMy skill.\n",
        "agents/helper.md": "---\nname: helper\ndescription: Helps.\n---\nHelp.\n",
        "settings.json": json.dumps(
            {
                "permissions": {
                    "deny": ["Read(./.env)", "Read(/notes/**)"],
                    "allow": ["Write(./made.txt)"],
                    "defaultMode": "bypassPermissions",
                },
                "env": {"STAGE_NAME": "mine", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
                "model": "opus",
            }
        ),
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    (home / "notes").mkdir()
    (home / "notes" / "n.txt").write_text("note")
    (world.workspace / ".env").write_text("canary")
    return world


def test_11_the_operators_own_folder_counts_where_they_say_so(mine: World) -> None:
    steps = (
        call("Write", file_path="made.txt", content="x"),
        call("Read", file_path=".env"),
        call("Bash", command="env"),
        call("Skill", skill="own"),
        text("done"),
    )
    mine.script(*steps)
    mine.agent("go", stdin="n\ny\n")
    assert [one["status"] for one in mine.receipts()][:2] == ["denied", "allowed"], "nothing of it counts unasked"
    assert "STAGE_NAME" not in mine.entries("tool_result")[2]["content"]
    assert "My skill" not in json.dumps(mine.entries("tool_result"))
    mine.configure(more="[compat]\nclaude = true\n")
    mine.script(*steps)
    done = mine.agent("go", stdin="y\n")
    assert [one["status"] for one in mine.receipts()][4:6] == ["allowed", "denied"], done.err
    results = mine.entries("tool_result")[4:]
    assert "STAGE_NAME=mine" in results[2]["content"]
    assert "ANTHROPIC_BASE_URL" not in results[2]["content"]
    assert "My skill." in results[3]["content"]
    assert "bypassPermissions can only be set" in done.err
    shown = json.loads(mine.cli("config", "show", "--output-format", "json").out)["config"]
    assert shown["permissions"]["defaultMode"] is None
    assert f"Read(/{mine.cli.home}/.claude/notes/**)" in shown["permissions"]["deny"], "`/` is seen from its own file"
    mine.script(text("hello"))
    done = mine.cli.typed("agent", stdin="/mine yes\n/agents\n/exit\n")
    assert "My own words: yes" in json.dumps(mine.entries("user")[-1])
    assert "helper" in done.out


def test_11_no_project_lets_the_operators_own_folder_count(mine: World) -> None:
    (mine.workspace / "agent.toml").write_text("[compat]\nclaude = true\n")
    trust(mine)
    mine.script(call("Bash", command="env"), text("done"))
    done = mine.agent("go", "--workspace", str(mine.workspace), stdin="y\n")
    assert "STAGE_NAME" not in mine.entries("tool_result")[0]["content"]
    assert "cannot weaken the baseline" in done.err


def test_11_servers_that_a_settings_file_disables_are_not_started(world: World) -> None:
    ran = world.workspace / "ran"
    server = {"command": "touch", "args": [str(ran)]}
    (world.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"one": server, "two": server}}))
    settings(world, disabledMcpjsonServers=["one", "two"], enableAllProjectMcpServers=True)
    trust(world)
    world.script(call("mcp__one__x"), text("done"))
    world.agent("go", "--workspace", str(world.workspace))
    assert not ran.exists()
    assert os.path.exists(world.workspace / ".mcp.json")


def test_11_onboard_asks_before_the_operators_own_folder_counts(mine: World) -> None:
    config = mine.cli.data / "config.toml"
    plain = config.read_text()
    setup = ("onboard", "--provider", "mock", "--model", "mock", "--autonomy", "supervised")
    assert mine.cli(*setup, "--yes").code == 0
    assert "compat" not in config.read_text(), "nobody was asked"
    done = mine.cli(*setup, "--yes", "--claude")
    assert f"{mine.cli.home}/.claude is used here too" in done.out, done.err
    assert "claude = true" in config.read_text()
    config.write_text(plain)
    done = mine.cli.typed(*setup, stdin="")
    assert "here too? [y/N]" in done.err
    assert "claude = true" not in config.read_text(), "the end of the input is no yes"
