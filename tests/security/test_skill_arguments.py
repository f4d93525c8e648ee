"""A model that fills the places of a trusted skill's `!` lines: what it adds is asked about like its own commands."""

import pytest

from tests.acceptance.world import call, text
from tests.security.world import Den

PLACES = {
    "in double quotes": ('!`echo "Hello $ARGUMENTS"`', "'\"; touch pwned; echo \"'"),
    "in single quotes": ("!`echo 'Hello $ARGUMENTS'`", '"; touch pwned; echo "'),
    "in code of its own": ('!`sh -c "$0 pwned"`', "touch"),
    "as the program": ("!`$0 pwned`", "touch"),
}


def skill(den: Den, body: str) -> None:
    path = den.cli.data / "skills" / "greet" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: greet\ndescription: Greets.\n---\nSay it. {body}\n")


@pytest.mark.parametrize("name", PLACES)
def test_what_the_model_adds_to_a_line_of_a_skill_is_asked_about(world: Den, name: str) -> None:
    body, given = PLACES[name]
    skill(world, body)
    world.script(call("Skill", skill="greet", args=given), text("done"))
    world.agent("go", "--workspace", str(world.workspace))
    assert not (world.workspace / "pwned").exists()
    assert world.receipts()[0]["decision"]["verdict"] == "deny", "nobody was there to ask"


def test_what_only_the_skill_says_runs_unasked_and_the_operator_may_say_yes_to_the_rest(world: Den) -> None:
    skill(world, "!`touch made` !`touch $0`")
    world.script(call("Skill", skill="greet", args="named"), text("done"))
    world.agent("go", "--workspace", str(world.workspace), stdin="y\n")
    assert (world.workspace / "made").exists()
    assert (world.workspace / "named").exists()


def test_no_skill_runs_raw_bash_unasked(world: Den) -> None:
    skill(world, "!`eval \"$(printf 'touch pwned')\"`")
    world.configure(security='raw_bash = "ask"')
    world.script(call("Skill", skill="greet"), text("done"))
    world.agent("go", "--workspace", str(world.workspace))
    assert not (world.workspace / "pwned").exists()
