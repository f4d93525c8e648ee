"""Rows on tasks and skills that were only partly kept: handovers, what is logged, and scripts that are no skill's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.acceptance.test_tasks import KEY, TASK, Place, command, decision, finish, script
from tests.acceptance.world import World, call, text

SHAPED = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
"""Has the form of a token; nobody loaded it."""


@pytest.fixture
def place(world: World) -> Place:
    made = Place(world)
    made.skill("release-notes", "Writes release notes from a list of changes", good="echo DONE-$1")
    made.skill("release-check", "Checks a release before it goes out")
    return made


def texts(value: object) -> Iterator[str]:
    """Every text in a tree of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts(list(cast(dict[str, object], value).values()))
    elif isinstance(value, list):
        for one in cast(list[object], value):
            yield from texts(one)


def test_25_s36_one_skill_after_the_other_and_why_is_logged(place: Place) -> None:
    ran = place.run(
        "anthropic",
        TASK,
        decision("release-notes", script("good.sh", "early"), why="It writes them."),
        decision("release-notes", script("good.sh", "notes")),
        decision("release-check", why="They are written; now they are to be checked."),
        decision("release-check", script("good.sh", "none of its own")),
        decision("release-check", finish("Checked.")),
    )
    assert (ran.code, ran.out) == (0, "Checked.\n"), ran.err
    first, second = ran.of("skill_invocation_started")
    assert (first["skill"], first["handoff_from"], first["rationale"]) == ("release-notes", "", "It writes them.")
    assert (second["skill"], second["handoff_from"]) == ("release-check", "release-notes")
    assert second["rationale"] == "They are written; now they are to be checked."
    assert [one["status"] for one in ran.of("skill_invocation_finished")] == ["handed_off", "completed"]
    assert "Read the instructions of release-notes first" in ran.asked(1), "instructions come before scripts"
    assert [one["stdout_summary"] for one in ran.of("skill_step_executed")] == ["DONE-notes"]


def test_25_s46_nothing_that_steers_or_opens_anything_is_logged(place: Place) -> None:
    place.world.cli.env["OTHER_KEY"] = KEY[::-1]
    place.skill("loud", "Writes loud release notes", shout=f"printf '\\033]0;evil\\007\\033[2J {KEY} {SHAPED}\\n'")
    steps = (
        decision("loud"),
        decision("loud", script("shout.sh"), command(f"echo {SHAPED}")),
        decision("loud", finish(f"BODY {KEY} {SHAPED} \033]0;evil\007")),
    )
    for flags in ((), ("--debug-llm", "true")):
        ran = place.run("anthropic", TASK, *steps, flags=flags)
        assert ran.code == 0, ran.err
        folders = [file for file in place.folder.glob("runs/*/**/*") if file.is_file()]
        logged = "".join(file.read_text(encoding="utf-8") for file in folders) + ran.err
        for secret in (KEY, SHAPED):
            assert secret not in logged
        assert "\033" not in logged + ran.out
        assert "\007" not in logged + ran.out
        assert not [text for text in texts(ran.trace) if "\033" in text or "\007" in text]
        assert ("FOLLOW-loud" in logged) == bool(flags), "bodies are kept where somebody asked for them"


def test_25_s47_scripts_outside_of_a_skills_folder_are_named_and_blocked(place: Place, tmp_path: Path) -> None:
    world = place.world
    (world.workspace / "outside.sh").write_text("#!/bin/sh\ntouch ran\n")
    place.skill("release-odd", "Writes odd release notes")
    file = world.workspace / "skills" / "release-odd" / "SKILL.md"
    file.write_text(file.read_text() + f"\nRun `../../outside.sh`, then `{tmp_path}/far.sh`.\n")
    (world.workspace / "skills" / "release-odd" / "scripts").mkdir(exist_ok=True)
    (world.workspace / "skills" / "release-odd" / "scripts" / "link.sh").symlink_to(world.workspace / "outside.sh")
    bad = [
        {"type": "call_skill", "params": {"script": way}}
        for way in ("../../outside.sh", "scripts/link.sh", "/bin/x.sh")
    ]
    for one in bad:
        ran = place.run(
            "anthropic", TASK, decision("release-odd"), decision("release-odd", one), decision("release-odd", one)
        )
        assert ran.code != 0
        assert not (world.workspace / "ran").exists()
    ran = place.run("anthropic", TASK, decision("release-odd"), decision("release-odd", finish("Nothing was run.")))
    blocked = json.dumps(ran.of("skill_disclosure_loaded"))
    assert "../../outside.sh" in blocked
    assert "outside the skill's folder" in blocked
    shown = world.cli("skills", "inspect", "release-odd").out
    assert "outside: ../../outside.sh" in shown
    world.configure("full")
    world.script(
        call("Skill", skill="release-odd"), call("Skill", skill="release-odd", file="../../outside.sh"), text("ok")
    )
    assert world.agent("go").code == 0
    loaded, refused = world.entries("tool_result")[-2:]
    blocked = f"Blocked because they are outside the skill's folder: ../../outside.sh, {tmp_path}/far.sh."
    assert blocked in loaded["content"]
    assert "leads out of the skill's folder" in refused["content"]
