"""What a person types and what a program pipes is understood as it was meant."""

import json

import pytest

from tests.acceptance.terminal import at_a_terminal
from tests.acceptance.world import World, call, text


def writes(world: World, *names: str) -> None:
    world.script(*(call("Write", file_path=name, content="x\n") for name in names), text("done"))


def written(world: World) -> list[str]:
    return sorted(path.name for path in world.workspace.glob("*.txt"))


# ------------------------------------------------------------------ 9: approvals


def test_09_what_was_typed_before_the_question_is_no_answer(world: World) -> None:
    writes(world, "a.txt")
    code, shown = at_a_terminal(world, "agent", "-m", "go", ahead="y\ny\n", typed=(("Approve? [y/N]", "n\n"),))
    assert (code, written(world)) == (3, []), shown
    assert [row["decision"]["by"] for row in world.receipts()] == ["operator"]


def test_09_between_two_questions_too(world: World) -> None:
    writes(world, "a.txt", "b.txt")
    twice = (("Approve? [y/N]", "y\ny\n"), ("Approve? [y/N]", "n\n"))
    _, shown = at_a_terminal(world, "agent", "-m", "go", typed=twice)
    assert written(world) == ["a.txt"], shown


def test_09_a_question_of_the_model_too(world: World) -> None:
    options = [{"label": "red", "description": ""}, {"label": "blue", "description": ""}]
    question = {"question": "Which?", "header": "Colour", "options": options, "multiSelect": False}
    world.script(call("AskUserQuestion", questions=[question]), text("{{last_result}}"))
    code, shown = at_a_terminal(world, "agent", "-m", "go", ahead="1\n", typed=(("own words:", "2\n"),))
    assert (code, "\u2192 blue" in shown) == (0, True), shown


def test_09_at_a_terminal_a_no_may_have_its_reason(world: World) -> None:
    writes(world, "a.txt")
    _, shown = at_a_terminal(world, "agent", "-m", "go", typed=(("Approve? [y/N]", "n not there\n"),))
    assert written(world) == [], shown
    assert "not there" in str(world.entries("tool_result"))


@pytest.mark.parametrize(
    "line", ["please write it", "yes please", "y n", " y", "Y", "YES", "y\t", "yy", "a b", "\x00y"]
)
def test_09_a_piped_line_that_is_no_answer_is_no_and_ends_the_asking(world: World, line: str) -> None:
    writes(world, "a.txt", "b.txt", "c.txt")
    done = world.agent("go", stdin=f"y\n{line}\ny\ny\n")
    assert (done.code, written(world)) == (3, ["a.txt"]), done.err
    assert "piped input is not an answer" in done.err
    assert [row["decision"]["by"] for row in world.receipts()] == ["operator", "no_operator", "no_operator"]


def test_09_piped_lines_that_are_answers_count(world: World) -> None:
    writes(world, *(f"{name}.txt" for name in "abcdef"))
    done = world.agent("go", stdin="y\nn\nyes\nno\n\ny\r\n")
    assert written(world) == ["a.txt", "c.txt", "f.txt"], done.err


# ------------------------------------------------------------------ 34: what is piped is one message


@pytest.mark.parametrize("arguments", [("agent",), ("agent", "-m", "-"), ("agent", "--message", "-")], ids=" ".join)
def test_34_what_is_piped_is_one_message(world: World, arguments: tuple[str, ...]) -> None:
    world.script(text("one answer"))
    lines = "".join(f"line {number}\n" for number in range(1_000)) + "/exit\n\xe9\U0001f40d\n"
    done = world.cli(*arguments, stdin=lines)
    assert (done.code, done.out) == (0, "one answer\n"), done.err
    assert world.rows("SELECT kind, outcome FROM runs") == [("agent", "completed")]
    assert world.rows("SELECT count(*) FROM model_calls") == [(1,)]
    (said,) = world.entries("user")
    assert json.dumps(lines.strip())[1:-1] in json.dumps(said)


def test_34_what_was_piped_as_the_message_answers_nothing(world: World) -> None:
    writes(world, "a.txt")
    done = world.cli("agent", stdin="write it\ny\ny\n")
    assert (done.code, written(world)) == (3, []), done.err


@pytest.mark.parametrize("arguments", [("agent",), ("agent", "-m", "-")], ids=" ".join)
@pytest.mark.parametrize("given", [b"", b" \n\n", b"x" * (1 << 20) + b"y"], ids=["nothing", "blank", "too much"])
def test_34_a_message_that_is_none_is_refused(world: World, arguments: tuple[str, ...], given: bytes) -> None:
    done = world.cli(*arguments, stdin=given)
    assert (done.code, done.out) == (2, ""), done.err
    assert "standard input: the message" in done.err
    assert not world.database.exists() or world.rows("SELECT * FROM runs") == []
