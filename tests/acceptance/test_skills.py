"""Skills as a person meets them: the commands, the Skill tool, /NAME, and what a skill may never do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_replay import verified
from tests.acceptance.world import World, call, text

BODY = "# Greet\n\nSay hello to $ARGUMENTS.\n\nSee references/how.md.\n"


def skill(root: Path, name: str = "greet", head: str = "", body: str = BODY) -> Path:
    folder = root / name
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Greets people by name.\n{head}---\n{body}")
    (folder / "references" / "how.md").write_text("Warmly.\n")
    return folder


def results(world: World) -> list[str]:
    return [entry["content"] for entry in world.entries("tool_result")]


# ------------------------------------------------------------------ commands


def test_list_shows_what_can_be_used_and_what_cannot(world: World) -> None:
    root = world.workspace / "skills"
    skill(root)
    skill(root, "other", 'version: "2"\n')
    (root / "empty").mkdir()
    (root / "hidden").mkdir()
    (root / "hidden" / "SKILL.md").write_text("---\nname: hidden\ndescription: a\x1b[2J\u202eb: c\n---\n")
    skill(world.cli.data / "skills")
    done = world.cli("skills", "list", cwd=world.workspace)
    assert done.code == 0, done.err
    assert "greet                        user     Greets people by name." in done.out
    assert "note: fields that the specification does not define: version" in done.out
    assert "empty                        invalid" in done.out
    assert "greet appears twice" in done.out
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    told = json.loads(world.cli("skills", "list", "--output-format", "json", cwd=world.workspace).out)
    assert [one["name"] for one in told["skills"]] == ["greet", "other"]
    assert {one["name"] for one in told["invalid"]} == {"empty", "hidden"}
    assert told["duplicates"][0]["ignored"] == str(root / "greet")


def test_no_skills_and_a_folder_that_is_not_there(world: World) -> None:
    assert "there are no skills" in world.cli("skills", "list").out
    done = world.cli("skills", "list", "--skills-dir", "nowhere")
    assert (done.code, "'nowhere' is not a folder" in done.err) == (2, True)


def test_inspect(world: World) -> None:
    folder = skill(world.workspace / "skills", head="allowed-tools: Read\n", body=f"{BODY}\n```\nbash ../out.sh\n```\n")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "go.sh").write_text("# Goes.\n")
    here = ("--skills-dir", str(world.workspace / "skills"))
    done = world.cli("skills", "inspect", "greet", "--show-frontmatter", "--show-sections", *here)
    for line in ("frontmatter:", "    allowed-tools: Read", "# Greet (", "script scripts/go.sh (bash): Goes."):
        assert line in done.out, done.out
    told = json.loads(world.cli("skills", "inspect", "greet", "--output-format", "json", *here).out)
    assert told["outside"] == ["../out.sh"]
    assert told["references_index"] == ["references/how.md", "scripts/go.sh"]
    assert "frontmatter" not in told
    wrong = world.cli("skills", "inspect", "gret", *here)
    assert (wrong.code, "did you mean 'greet'" in wrong.err or "greet" in wrong.err) == (2, True)


@pytest.mark.parametrize("path", ["skills/greet", "skills/greet/SKILL.md", "skills"])
def test_validate_says_valid(world: World, path: str) -> None:
    skill(world.workspace / "skills")
    done = world.cli("skills", "validate", path, cwd=world.workspace)
    assert (done.code, done.out) == (0, f"valid: {world.workspace}/skills/greet\n")


def test_validate_says_what_is_wrong(world: World) -> None:
    (world.workspace / "Bad").mkdir()
    (world.workspace / "Bad" / "SKILL.md").write_text("---\nname: Bad\n---\n")
    done = world.cli("skills", "validate", "Bad", "--output-format", "json", cwd=world.workspace)
    assert done.code == 1
    told = json.loads(done.out)
    assert told["valid"] is False
    assert len(told["skills"][0]["diagnosis"]) == 2
    assert world.cli("skills", "validate", "nowhere").code == 2


# ------------------------------------------------------------------ the Skill tool


def test_without_skills_there_is_no_tool(world: World) -> None:
    world.script(call("Skill", skill="greet"), text("done"))
    world.agent("hi")
    assert "there are no skills" in results(world)[0]


def test_the_model_is_told_of_skills_and_loads_one(world: World) -> None:
    folder = skill(world.workspace / "skills")
    world.script(
        call("Skill", skill="greet", args="Anna"),
        call("Skill", skill="greet", file="references/how.md"),
        call("Skill", skill="greet", file="../../secret.txt"),
        call("Skill", skill="great"),
        text("done"),
    )
    (world.workspace / "secret.txt").write_text("SECRET")
    assert world.agent("greet Anna").code == 0
    body, piece, outside, unknown = results(world)
    assert "Say hello to Anna." in body
    assert str(folder) in body
    assert "references/how.md" in body
    assert "Warmly." in piece
    assert "SECRET" not in outside
    assert "leads out of the skill's folder" in outside
    assert "there is no skill 'great'; similar ones: greet" in unknown
    assert [entry["is_error"] for entry in world.entries("tool_result")] == [False, False, True, True]
    assert [one["tool"] for one in world.receipts()] == ["Skill"] * 4
    told = json.loads(world.cli("tool", "list", "--output-format", "json").out)
    assert "\n- greet: Greets people by name." in next(one for one in told if one["name"] == "Skill")["description"]


def test_skills_of_the_operator_are_read_though_they_lie_outside_of_the_workspace(world: World) -> None:
    skill(world.cli.data / "skills")
    world.script(
        call("Skill", skill="greet"), call("Read", file_path=str(world.cli.data / "skills/greet/SKILL.md")), text("ok")
    )
    world.agent("hi")
    loaded, read = results(world)
    assert "Say hello to" in loaded
    assert "Say hello to" in read, "the folder of a skill may be read, too"


@pytest.mark.parametrize("rule", ["Skill", "Skill(greet)", "Skill(greet *)", "Read(./skills/**)"])
def test_a_deny_rule_holds(world: World, rule: str) -> None:
    skill(world.workspace / "skills")
    world.configure(more=f'[permissions]\ndeny = ["{rule}"]')
    world.script(call("Skill", skill="greet"), text("ok"))
    world.agent("hi")
    assert "Denied" in results(world)[0]
    assert "Say hello" not in results(world)[0]


def test_only_a_person_calls_some(world: World) -> None:
    skill(world.workspace / "skills", head="disable-model-invocation: true\n")
    world.script(call("Skill", skill="greet"), text("ok"))
    world.agent("hi")
    assert "only a person may call" in results(world)[0]


# ------------------------------------------------------------------ allowed-tools

WRITE: dict[str, Any] = {"file_path": "out.txt", "content": "x"}


def test_what_a_skill_asks_for_counts_only_when_it_is_trusted(world: World) -> None:
    skill(world.workspace / "skills", head="allowed-tools: Write\neffort: max\n")
    steps = (call("Skill", skill="greet"), call("Write", **WRITE), text("ok"))
    world.script(*steps)
    world.agent("before trust")
    assert "allowed-tools are ignored" in results(world)[0]
    assert "its effort is ignored: this project's skills are not trusted" in results(world)[0]
    assert "Denied" in results(world)[1]
    assert not (world.workspace / "out.txt").exists()
    assert world.cli("trust", str(world.workspace)).code == 0
    world.script(*steps)
    world.agent("after trust")
    assert (world.workspace / "out.txt").read_text() == "x"
    (world.workspace / "out.txt").unlink()
    (world.workspace / "skills" / "greet" / "references" / "how.md").write_text("changed")
    world.script(*steps)
    world.agent("after a change")
    assert not (world.workspace / "out.txt").exists()


def test_it_holds_for_the_turn_and_lifts_no_deny_and_no_guard(world: World) -> None:
    skill(world.cli.data / "skills", head="allowed-tools: Write\n")
    outside = world.workspace.parent / "outside.txt"
    world.configure(more='[permissions]\ndeny = ["Write(./denied.txt)"]')
    world.script(
        call("Skill", skill="greet"),
        call("Write", file_path="denied.txt", content="x"),
        call("Write", file_path=str(outside), content="x"),
        call("Write", file_path=".git/config", content="x"),
        call("Write", **WRITE),
        text("first turn"),
        call("Write", file_path="later.txt", content="x"),
        text("second turn"),
    )
    done = world.cli.typed("agent", stdin="one\ntwo\nn\n/exit\n")
    assert done.code == 0, done.err
    assert (world.workspace / "out.txt").exists()
    for path in (
        world.workspace / "denied.txt",
        outside,
        world.workspace / "later.txt",
        world.workspace / ".git/config",
    ):
        assert not path.exists(), path
    verified(world)


# ------------------------------------------------------------------ in a conversation


def test_a_person_calls_a_skill_by_its_name(world: World) -> None:
    skill(world.workspace / "skills")
    skill(world.workspace / "skills", "silent", "user-invocable: false\n")
    world.script(text("Hello, Anna!"))
    done = world.cli.typed("agent", stdin="/skills\n/greet Anna\n/silent\n/gret\n/exit\n")
    assert "/greet                    Greets people by name." in done.out
    assert "Hello, Anna!" in done.out
    assert "Say hello to Anna." in json.dumps(world.entries("user"))
    assert "is no command" in done.err
    assert "there is no command /gret" in done.err


def test_a_hook_may_refuse_it(world: World) -> None:
    skill(world.workspace / "skills")
    hook = '[[hooks.UserPromptExpansion]]\nmatcher = "greet"\n[[hooks.UserPromptExpansion.hooks]]\ntype = "command"\n'
    world.configure(more=f'{hook}command = "echo not today >&2; exit 2"')
    done = world.cli.typed("agent", stdin="/greet Anna\n/exit\n")
    assert "not today" in done.err
    assert not world.entries("user")


def test_a_skill_survives_compaction(world: World) -> None:
    skill(world.workspace / "skills", body="# Greet\n\nNEVER FORGET THIS LINE.\n")
    world.script(call("Skill", skill="greet"), text("one"), text("two"), text("SUMMARY"), text("three"))
    done = world.cli.typed("agent", stdin="first\nsecond\n/compact\nthird\n/exit\n")
    assert done.code == 0, done.err
    (boundary,) = [one for one in world.entries("system") if one.get("subtype") == "compact_boundary"]
    assert "NEVER FORGET THIS LINE." in boundary["skills"][0]
    assert re.search(r"<skills-in-use(-[0-9a-f]+)?>", boundary["content"])
    verified(world)


def test_26_a_description_that_is_too_long_is_a_warning(world: World) -> None:
    folder = world.workspace / "skills" / "long"
    folder.mkdir(parents=True)
    words = "reads tables " * 100
    (folder / "SKILL.md").write_text(f"---\nname: long\ndescription: {words}\n---\nThe long one's text.\n")
    listed = world.cli("skills", "list", "--workspace", str(world.workspace)).out
    assert "only the first 1024 are used" in listed
    assert "invalid" not in listed
    world.script(call("Skill", skill="long"), text("done"))
    done = world.agent("go", "--workspace", str(world.workspace))
    assert "The long one's text." in world.entries("tool_result")[0]["content"]
    assert "the skill long: description: it has 1299 characters" in done.err
    assert world.cli("skills", "validate", str(folder)).code == 1, "the specification objects to it as ever"
