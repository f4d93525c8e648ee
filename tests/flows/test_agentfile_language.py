"""The Agentfile language as a table: what is accepted and as what, what is refused and with which words."""

import contextlib
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adderclaw.core.errors import UsageError
from adderclaw.flows.agentfile import show
from adderclaw.flows.agentfile.load import bind_inputs, load
from adderclaw.flows.agentfile.parse import KEYWORDS, lines_of, parse, pieces, statements
from adderclaw.flows.agentfile.variables import fill, names_in
from adderclaw.flows.agentfile.workflow import InvalidAgentfile, Workflow
from tests.rows import rows

HEAD = "NAME w\n"
G = 'GOAL g "do it"\n'
RUN = "RUN r USING g\n"


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "Agentfile"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(UsageError) as caught:
        load(str(written(tmp_path, text)))
    return str(caught.value).replace(str(tmp_path), "")


# ------------------------------------------------------------------ refused

SYNTAX = [
    ("GOALS g", "1:1: 'GOALS' is not a statement; did you mean GOAL?"),
    ("goal g", "1:1: keywords are written in capitals: GOAL"),
    ("hello", "1:1: 'hello' is not a statement; a line must begin with one of NAME, INPUT"),
    ("SECURITY strict", "1:10: SECURITY must be one of default, paranoid, research; use --profile for the rest"),
    ("SECURITY", "1:9: expected a name, and the line ends here"),
    ("SECURITY default\nSECURITY paranoid", "2:10: SECURITY is already set in line 1"),
    ("VERSION", "1:8: expected a number, a text in double quotes or a word, and the line ends here"),
    ("VERSION 1\nVERSION 2", "2:1: the workflow already has a VERSION, '1'"),
    ('GOAL g "x\n  y\n  z\nRUN r USING g', "1:8: this text has no closing quote"),
    ("GOAL g\nnot indented", "1:7: expected FROM or a text in double quotes, and the line ends here"),
    ("NAME", "1:5: expected a name, and the line ends here"),
    ("NAME a b", "1:8: expected the end of the line, found 'b'"),
    ('NAME "a"', "1:6: expected a name, found"),
    ("NAME 1a", "1:6: expected a name, found '1a'"),
    ("NAME a\nNAME b", "2:6: the workflow already has a NAME, 'a' in line 1"),
    ("NAME GOAL", "1:6: GOAL is a keyword and cannot be a name"),
    ("INPUT", "1:6: expected a name"),
    ("INPUT a DEFAULT", "1:16: expected a number, a text in double quotes or a word, and the line ends here"),
    ("INPUT a = 3", "1:9: expected DEFAULT or the end of the line, found '='"),
    ("INPUT a, b", "1:8: expected DEFAULT or the end of the line, found ','"),
    ('INPUT a DEFAULT "x', "1:17: this text has no closing quote"),
    ("AGENT a", "1:8: expected FROM or a text in double quotes, and the line ends here"),
    ("AGENT a FROM", "1:13: expected a path or a text in double quotes"),
    ("AGENT a agents/a.md", "1:9: expected FROM or a text in double quotes, found"),
    ('AGENT a "x" USING b', "1:13: expected \"->\", REQUIRES or the end of the line, found 'USING'"),
    ('AGENT a "x" REQUIRES', "1:21: expected a name or a text in double quotes"),
    ("GOAL", "1:5: expected a name"),
    ('GOAL "x"', "1:6: expected a name, found"),
    ("GOAL g", "1:7: expected FROM or a text in double quotes, and the line ends here"),
    ('GOAL g "x', "1:8: this text has no closing quote"),
    ('GOAL g """x\ny', '1:8: this text has no closing """'),
    ('GOAL g "x" ->', "1:14: expected a name"),
    ('GOAL g "x" -> a,', "1:17: expected a name"),
    ('GOAL g "x" USING', "1:17: expected a name"),
    ('GOAL g "x" USING a,', "1:20: expected a name"),
    ('GOAL g "x" USING a b', "1:20: expected"),
    ('GOAL g "x" WITHIN 3', "1:12: expected"),
    ('GOAL g "x" SUPERVISED ROBOT', '1:23: expected "->", HUMAN, SUPERVISED, UNSUPERVISED, USING or the end'),
    ('GOAL g "x" USING a -> b USING c', "1:1: USING is used twice in this statement; remove one"),
    ('GOAL g "x" SUPERVISED UNSUPERVISED', "1:1: SUPERVISED or UNSUPERVISED is used twice"),
    ('AGENT a "x" -> b REQUIRES c -> d', "1:1: -> is used twice"),
    ('AGENT a "x" -> b, c, b', "1:22: the output 'b' is listed twice after ->; remove one"),
    ('CONVERGE c "x" WITHIN 2 WITHIN 3', "1:1: WITHIN is used twice"),
    ('CONVERGE c "x" USING not-WITHIN', "1:1: CONVERGE needs WITHIN"),
    ('GOAL g "x" "y"', "1:12: expected"),
    ("GOAL g 'x'", "1:8: expected FROM or a text in double quotes, found"),
    ("GOAL g\u201cx\u201d", "1:7: expected FROM or a text in double quotes, found"),
    ("RUN", "1:4: expected a name"),
    ("RUN r", "1:6: expected USING, and the line ends here"),
    ("RUN r USING", "1:12: expected a name"),
    ("RUN r USING a b", "1:15: expected \",\", SUPERVISED, THEN, UNSUPERVISED or the end of the line, found 'b'"),
    ("RUN r USING USING", "1:13: USING is a keyword and cannot be a name"),
    ("RUN r USING g WITHIN 3", "1:15: expected"),
    ("LOOP l USING g", "1:1: LOOP needs WITHIN with the largest number of rounds, such as WITHIN 5"),
    ('CONVERGE c "x"', "1:1: CONVERGE needs WITHIN"),
    ("LOOP l USING g WITHIN", "1:22: expected a number or a variable such as $rounds"),
    ("LOOP l USING g WITHIN many", "1:23: expected a number or a variable such as $rounds, found 'many'"),
    ("LOOP l USING g WITHIN -3", "1:23: expected a number"),
    ("LOOP l USING g WITHIN 3.5", "1:23: expected a number"),
    ("LOOP l WITHIN 3 USING g", "1:8: expected USING"),
    ("SUPERVISED BY me", "1:12: expected HUMAN or the end of the line"),
    ("HUMAN", "1:1: 'HUMAN' is not a statement"),
    ('GOAL g\u00a0"x"', "1:7: this is not an ordinary space (U+00A0)"),
    ('GOAL g """one\ntwo""" "x', "2:8: this text has no closing quote"),
    ('GOAL g "x" USING a\x9bb', "1:19: this line has a control character (U+009B)"),
    ("NAME a\x07b", "1:7: this line has a control character (U+0007)"),
]


@rows(("text", "message"), SYNTAX, ids=[text[:30] for text, _ in SYNTAX])
def test_a_line_that_cannot_be_read_is_shown_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(InvalidAgentfile) as caught:
        parse(text)
    said = str(caught.value)
    assert f"Agentfile:{message}" in said
    assert "\n  " + text.split("\n")[caught.value.problems[0].line - 1] in said


MEANING = [
    (G + RUN, "1:1: the workflow has no NAME"),
    (HEAD + G + 'CONVERGE c "x" -> o USING g WITHIN 2\n', "a CONVERGE over goals cannot have outputs or a review"),
    (
        HEAD + G + 'CONVERGE c "x" USING g WITHIN 2 SUPERVISED\n',
        "a CONVERGE over goals cannot have outputs or a review",
    ),
    (HEAD + G, "1:1: the workflow has no RUN, LOOP or CONVERGE step"),
    (HEAD, "the workflow has no RUN, LOOP or CONVERGE step"),
    ("", "the workflow has no NAME"),
    ("# only a comment\n", "the workflow has no NAME"),
    (HEAD + G + G + RUN, "3:1: the goal 'g' is defined twice; the first is in line 2"),
    (HEAD + "INPUT a\nINPUT a\n" + G + RUN, "3:1: the input 'a' is defined twice"),
    (HEAD + 'AGENT a "x"\nAGENT a "y"\n' + G + RUN, "3:1: the agent 'a' is defined twice"),
    (HEAD + G + RUN + RUN, "4:1: the step 'r' is defined twice"),
    (HEAD + 'INPUT a\nGOAL g "x" -> a\n' + RUN, "3:1: the output 'a' of g would hide the input in line 2"),
    (HEAD + 'GOAL g "x" -> g\n' + RUN, "2:1: the output 'g' of g would hide the goal in line 2"),
    (HEAD + G + "RUN r USING h\n", "3:1: RUN r uses the goal 'h', which is not defined"),
    (
        HEAD + 'GOAL tests "x"\nRUN r USING test\n',
        "the goal 'test', which is not defined; did you mean tests?",
    ),
    (HEAD + RUN + G, "2:1: RUN r uses the goal 'g' before it is defined, in line 3; move the GOAL above the RUN"),
    (HEAD + G + "LOOP l USING h WITHIN 3\n", "3:1: LOOP l uses the goal 'h', which is not defined"),
    (HEAD + 'GOAL g "x" USING nobody\n' + RUN, "2:1: goal g uses the agent 'nobody', which is not defined"),
    (HEAD + 'AGENT a "x"\nGOAL g "x" USING a, a\n' + RUN, "3:1: goal g names the agent 'a' more than once"),
    (HEAD + G + "LOOP l USING g WITHIN 0\n", "WITHIN 0: a loop runs at least 1 and at most 10,000 rounds"),
    (HEAD + G + "LOOP l USING g WITHIN 1000000\n", "a loop runs at least 1 and at most 10,000 rounds"),
    (HEAD + G + "LOOP l USING g WITHIN $n\n", "3:1: LOOP l: WITHIN $n: no such variable"),
    (HEAD + "INPUT n DEFAULT many\n" + G + "LOOP l USING g WITHIN $n\n", "'many' is not a whole number"),
    (HEAD + 'GOAL g "use $nothing"\n' + RUN, "2:1: goal g uses $nothing, which is not defined"),
    (HEAD + 'INPUT feature\nGOAL g "use $featur"\n' + RUN, "uses $featur, which is not defined; did you mean feature?"),
    (
        HEAD + 'GOAL a "x $b"\nGOAL b "y"\nRUN r USING a, b\n',
        "uses $b, which has no value there: goal b does not run",
    ),
    (HEAD + 'AGENT p "of $x"\nGOAL g "x" USING p\n' + RUN, "agent p uses $x, which is not defined"),
    (HEAD + 'INPUT a DEFAULT "$zzz"\n' + G + RUN, "the default of a uses $zzz, which is not an input"),
    (HEAD + 'INPUT a DEFAULT "$a"\n' + G + RUN, "2:1: the default of a refers to itself"),
    (
        HEAD + 'INPUT a DEFAULT "$b"\nINPUT b DEFAULT "$c"\nINPUT c DEFAULT "$a"\n' + G + RUN,
        "4:1: the default of c refers to itself through ",
    ),
    (
        HEAD + G + "LOOP l USING g WITHIN 2\nLOOP m USING l WITHIN 2\n",
        "the goal 'l', which is a step; a step can only use goals",
    ),
    (HEAD + "AGENT a FROM .\n" + G + RUN, "2:14: FROM .: this folder has no SKILL.md"),
    (HEAD + "GOAL g FROM goals/none.md\n" + RUN, "2:13: FROM goals/none.md: "),
    (HEAD + "AGENT a FROM none.md\n" + G + RUN, "2:14: FROM none.md: "),
    (HEAD + "GOAL g FROM ../../etc/passwd\n" + RUN, "is outside the workflow's folder and the workspace"),
    (HEAD + "GOAL g FROM /etc/passwd\n" + RUN, "is outside the workflow's folder and the workspace"),
    (HEAD + G + 'CONVERGE c "$zzz" USING g WITHIN 2\n', "the condition of c uses $zzz, which is not defined"),
    ("NAME w\n" + "x" * (1 << 20), "is larger than"),
    (b"NAME w\xff\n", "is not UTF-8 text"),
    (b"NAME w\0\n", "is binary, not text"),
    ("NAME w\n" + G * 5001, "more than 5,000 statements"),
]


@pytest.mark.parametrize(("text", "message"), MEANING, ids=[message[:40] for _, message in MEANING])
def test_a_workflow_that_makes_no_sense_is_refused_with_its_own_message(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    assert message in refusal(tmp_path, text)


AT_ONCE = [
    ("GOAL g\nRUN r USING g, h\n", ["the workflow has no NAME", "expected FROM", "the goal 'h'"], 3),
    ('NAME\nGOAL g "x"\nRUN r USING g\n', ["expected a name"], 1),
    ('NAME w\nGOAL g "$a"\nINPUT a DEFAULT\nRUN r USING g\n', ["expected a number"], 1),
    (
        'NAME w\nGOAL g "$x $ref $out"\nGOAL h "y" -> out, ref USING\nLOOP l USING g WITHIN 0\n'
        "LOOP m USING g WITHIN $y\n",
        ["uses $x", "expected a name", "WITHIN 0", "WITHIN $y"],
        4,
    ),
    ('NAME w\nGOAL g "x"\nGOAL g "y"\nRUN r USING g\n', ["defined twice"], 1),
    ("NAME w\nGOAL g FROM none.md\nLOOP l USING g\nRUN r USING x\n", ["FROM none.md", "needs WITHIN", "goal 'x'"], 3),
]


@pytest.mark.parametrize(("text", "said", "count"), AT_ONCE, ids=[str(number) for number in range(len(AT_ONCE))])
def test_what_is_wrong_is_said_beside_what_cannot_be_read_and_nothing_that_only_follows_from_it(
    tmp_path: Path, text: str, said: list[str], count: int
) -> None:
    told = refusal(tmp_path, text)
    assert all(one in told for one in said)
    assert len(re.findall(r"^/Agentfile:\d+:", told, re.MULTILINE)) == count, told


MONSTERS = {
    "closing quotes": HEAD + 'GOAL g """' + '\\"""\n' * 150_000 + '"""\n' + RUN,
    "agents": HEAD + 'AGENT a "x"\nGOAL g "x" USING ' + ",".join("a" * 300_000) + "\n" + RUN,
    "goals": HEAD + G + "RUN r USING " + ",".join("g" * 300_000),
    "unknown goals": HEAD + "".join(f'GOAL g{n} "x"\n' for n in range(2_000)) + "RUN r USING x\n" * 2_000,
    "a long name": HEAD + 'GOAL g "$' + "a-" * 400_000 + '"\n' + RUN,
    "a long line": HEAD + 'GOAL g "x" ' + "b" * 900_000,
    "a goal again": f'{HEAD}GOAL g "{"$g " * 100_000}"\n' + "".join(f"RUN r{n} USING g,g\n" for n in range(900)),
}


@pytest.mark.parametrize("text", MONSTERS.values(), ids=MONSTERS)
def test_a_file_that_is_made_to_hold_us_up_is_done_with_in_seconds(tmp_path: Path, text: str) -> None:
    before = time.process_time()
    said = ""
    try:
        load(str(written(tmp_path, text)))
    except UsageError as error:
        said = str(error)
    assert len(said) < 60_000
    assert time.process_time() - before < 8


def test_values_do_not_grow_without_bound(tmp_path: Path) -> None:
    inputs = "".join(f'INPUT i{n} DEFAULT "$i{n + 1}$i{n + 1}"\n' for n in range(40)) + "INPUT i40 DEFAULT xxxxxxxx\n"
    with pytest.raises(UsageError, match="has over"):
        bind_inputs(load(str(written(tmp_path, HEAD + inputs + G + RUN))), {})
    with pytest.raises(UsageError, match="has over"):
        fill("$a" * 100, {"a": "x" * 100_000})


def test_defaults_name_each_other_in_any_order_and_may_have_dollar_signs(tmp_path: Path) -> None:
    chain = "".join(f'INPUT i{n} DEFAULT "$i{n + 1}"\n' for n in range(2_000)) + r'INPUT i2000 DEFAULT "\$x $$y"'
    assert bind_inputs(load(str(written(tmp_path, HEAD + chain + "\n" + G + RUN))), {})["i0"] == "$x $y"


def test_all_problems_of_a_file_are_said_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, "NAME\nGOAL\nRUN r USING\nLOOP l USING g\n")
    assert "(4 problems)" in said
    assert re.findall(r"Agentfile:(\d+):", said) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"\xff\xfe", "is not UTF-8"), (b"a\0b", "is binary"), (b"x" * 300_000, "is larger than")],
)
def test_a_prompt_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "p.md").write_bytes(content)
    assert message in refusal(tmp_path, HEAD + "AGENT a FROM p.md\n" + G + RUN)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "flow"
    inside.mkdir()
    (tmp_path / "secret").write_text("s3cret")
    (inside / "p.md").symlink_to(tmp_path / "secret")
    assert "is outside" in refusal(inside, HEAD + "GOAL g FROM p.md\n" + RUN)


@pytest.mark.parametrize("kind", ["directory", "fifo"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    import os

    os.mkfifo(tmp_path / "p.md") if kind == "fifo" else (tmp_path / "p.md").mkdir()
    assert "FROM p.md" in refusal(tmp_path, HEAD + "GOAL g FROM p.md\n" + RUN)


# ------------------------------------------------------------------ accepted


def first_goal(workflow: Workflow) -> tuple[object, ...]:
    goal = workflow.goals[0]
    return goal.path, goal.outcome, goal.outputs, goal.agents, goal.review


GOALS = [
    ('GOAL g "x"', (None, "x", (), (), None)),
    ('GOAL g ""', (None, "", (), (), None)),
    ('  GOAL\tg   "x"   ', (None, "x", (), (), None)),
    (r'GOAL g "a \"b\" \\ \n c"', (None, 'a "b" \\ \n c', (), (), None)),
    (r'GOAL g "costs \$5, \d"', (None, r"costs $$5, \d", (), (), None)),
    ('GOAL g "# no comment"  # comment', (None, "# no comment", (), (), None)),
    ('GOAL g """one\ntwo"""', (None, "one\ntwo", (), (), None)),
    ('GOAL g """\n# no comment\n"quoted"\n"""', (None, '# no comment\n"quoted"', (), (), None)),
    ("GOAL g FROM goals/a.md", ("goals/a.md", "", (), (), None)),
    ('GOAL g FROM "my goals/a.md"', ("my goals/a.md", "", (), (), None)),
    ("GOAL g FROM goals/a#1.md # comment", ("goals/a#1.md", "", (), (), None)),
    ('GOAL g "x" -> a', (None, "x", ("a",), (), None)),
    ('GOAL g "x" -> a,b , c', (None, "x", ("a", "b", "c"), (), None)),
    ('GOAL g "x" USING a', (None, "x", (), ("a",), None)),
    ('GOAL g "x" USING devils-advocate, b_2', (None, "x", (), ("devils-advocate", "b_2"), None)),
    ('GOAL g "x" -> o USING a SUPERVISED', (None, "x", ("o",), ("a",), "reviewer")),
    ('GOAL g "x" SUPERVISED HUMAN', (None, "x", (), (), "operator")),
    ('GOAL g "x" UNSUPERVISED USING a -> o', (None, "x", ("o",), ("a",), "nobody")),
    ('GOAL g "x" SUPERVISED HUMAN USING a, b', (None, "x", (), ("a", "b"), "operator")),
    ('GOAL g "x" UNSUPERVISED', (None, "x", (), (), "nobody")),
    ("GOAL g FROM a.md -> o USING p", ("a.md", "", ("o",), ("p",), None)),
    ('GOAL g "über \u00e9\u4e2d"', (None, "über \u00e9\u4e2d", (), (), None)),
    ('GOAL g "a\u2028b -> c USING d WITHIN 3 # e"', (None, "a\u2028b -> c USING d WITHIN 3 # e", (), (), None)),
    ('GOAL g "x"->a', (None, "x", ("a",), (), None)),
    ('GOAL g """say \\"""three\\""" times"""', (None, 'say """three""" times', (), (), None)),
    ("GOAL g FROM goals/a,b.md", ("goals/a,b.md", "", (), (), None)),
    ("GOAL g FROM ->.md", ("->.md", "", (), (), None)),
    ('GOAL G0_a-1 "x" USING b #c, d', (None, "x", (), ("b",), None)),
]


@rows(("text", "goal"), GOALS, ids=[text[:40] for text, _ in GOALS])
def test_a_goal_in_each_of_its_forms(text: str, goal: tuple[object, ...]) -> None:
    assert first_goal(parse(text)) == goal


INPUTS = [
    ("INPUT a", ("a", None)),
    ("INPUT a DEFAULT 5", ("a", "5")),
    ("INPUT a DEFAULT word", ("a", "word")),
    ("INPUT a-b DEFAULT ./src/x.py", ("a-b", "./src/x.py")),
    ('INPUT a DEFAULT "two words"', ("a", "two words")),
    ('INPUT a DEFAULT ""', ("a", "")),
    ("INPUT a DEFAULT 5 # five", ("a", "5")),
    ("INPUT a DEFAULT GOAL", ("a", "GOAL")),
    ("INPUT a DEFAULT x,y", ("a", "x,y")),
]


@rows(("text", "expected"), INPUTS, ids=[text for text, _ in INPUTS])
def test_an_input_in_each_of_its_forms(text: str, expected: tuple[str, str | None]) -> None:
    found = parse(text).inputs[0]
    assert (found.name, found.default) == expected


AGENTS = [
    ("AGENT a FROM p.md", ("p.md", "", None, ())),
    ('AGENT a "You are a"', (None, "You are a", None, ())),
    ('AGENT a FROM p.md REQUIRES "reasoning-heavy"', ("p.md", "", "reasoning-heavy", ())),
    ("AGENT a FROM p.md REQUIRES fast", ("p.md", "", "fast", ())),
    ('AGENT a """\nlong\n"""', (None, "long", None, ())),
    ('AGENT a "x" -> found, open-points REQUIRES fast', (None, "x", "fast", ("found", "open-points"))),
]


@pytest.mark.parametrize(("text", "expected"), AGENTS, ids=[text[:40] for text, _ in AGENTS])
def test_an_agent_in_each_of_its_forms(
    text: str, expected: tuple[str | None, str, str | None, tuple[str, ...]]
) -> None:
    found = parse(text).agents[0]
    assert (found.path, found.prompt, found.requires, found.outputs) == expected


STEPS = [
    (G + "RUN r USING g", [("RUN", "r", ("g",), None, "")]),
    (G + "RUN r USING g, g2", [("RUN", "r", ("g", "g2"), None, "")]),
    (G + "LOOP l USING g WITHIN 5", [("LOOP", "l", ("g",), 5, "")]),
    (G + "LOOP l USING g WITHIN $max-rounds", [("LOOP", "l", ("g",), "$max-rounds", "")]),
    ('CONVERGE c "until clean" WITHIN 3', [("LOOP", "c", ("c",), 3, "until clean")]),
    (G + 'CONVERGE c "all pass" USING g WITHIN 3', [("LOOP", "c", ("g",), 3, "all pass")]),
    ('AGENT a "x"\nCONVERGE c "clean" -> o USING a WITHIN $n', [("LOOP", "c", ("c",), "$n", "clean")]),
    ('AGENT a "x"\nCONVERGE c "clean" WITHIN $n SUPERVISED USING a', [("LOOP", "c", ("c",), "$n", "clean")]),
    (
        G + 'CONVERGE c "clean" WITHIN 3\nRUN r USING g, c, g2',
        [("RUN", "r", ("g",), None, ""), ("LOOP", "c", ("c",), 3, "clean"), ("RUN", "r", ("g2",), None, "")],
    ),
    (
        G + RUN + G.replace("g", "h", 1) + "LOOP l USING h WITHIN 2",
        [("RUN", "r", ("g",), None, ""), ("LOOP", "l", ("h",), 2, "")],
    ),
]


@rows(("text", "expected"), STEPS, ids=[text[-40:] for text, _ in STEPS])
def test_a_step_in_each_of_its_forms(text: str, expected: list[tuple[object, ...]]) -> None:
    found = [(step.kind, step.name, step.goals, step.limit, step.condition) for step in parse(text).steps]
    assert found == expected


@pytest.mark.parametrize("text", ["\ufeffNAME w\r\n" + G + RUN, "\n\n# x\nNAME my-flow_2\n" + G + RUN])
def test_bom_carriage_returns_comments_and_empty_lines_are_no_matter(tmp_path: Path, text: str) -> None:
    assert load(str(written(tmp_path, text))).goals[0].outcome == "do it"


def test_both_styles_of_order_and_files_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/a.md").write_text("You are a for $topic.\n")
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill/SKILL.md").write_text("skilled\n")
    text = (
        "NAME w\nINPUT topic\nAGENT a FROM agents/a.md\nAGENT s FROM skill\n"
        'GOAL one "see $topic" -> plan USING a, s\nRUN first USING one\n'
        'GOAL two "do $plan after $one"\nLOOP second USING two WITHIN 2\n'
    )
    workflow = load(str(written(tmp_path, text)))
    assert [agent.prompt for agent in workflow.agents] == ["You are a for $topic.", "skilled"]
    assert load(str(tmp_path)).name == "w"


# ------------------------------------------------------------------ variables

FILLED = [
    ("$a", "1"),
    ("${a}b", "1b"),
    ("$a-x", "1-x"),
    ("$a-b", "2"),
    ("$a-b-c", "2-c"),
    ("$$a", "$a"),
    ("$5 $ $-", "$5 $ $-"),
    ("$q", 'say "$a"\nand $$'),
]


@rows(("text", "expected"), FILLED)
def test_variables_are_filled_in_once(text: str, expected: str) -> None:
    assert fill(text, {"a": "1", "a-b": "2", "q": 'say "$a"\nand $$'}) == expected


@given(st.text(), st.text())
def test_what_a_value_says_is_never_looked_into(value: str, other: str) -> None:
    assert fill("[$a]", {"a": value, "b": other}) == f"[{value}]"


@given(st.text())
def test_a_text_without_dollars_stays_as_it_is(text: str) -> None:
    plain = text.replace("$", "")
    assert (fill(plain, {}), names_in(plain, ())) == (plain, [])


BINDING: list[tuple[dict[str, str], str]] = [
    ({}, "the input 'topic' is missing: give it with --input topic=VALUE"),
    ({"topic": "x", "topik": "y"}, "there is no input 'topik' (inputs: topic, n)"),
    ({"topic": "x", "n": "none"}, "the input 'n' is the limit of LOOP l: 'none' is not a whole number"),
    ({"topic": "x" * (1 << 21)}, "the input 'topic' is larger than"),
]


@pytest.mark.parametrize(("values", "message"), BINDING, ids=[message[:30] for _, message in BINDING])
def test_inputs_that_do_not_fit_are_refused(tmp_path: Path, values: dict[str, str], message: str) -> None:
    text = 'NAME w\nINPUT topic\nINPUT n DEFAULT 3\nGOAL g "of $topic"\nLOOP l USING g WITHIN $n\n'
    workflow = load(str(written(tmp_path, text)))
    with pytest.raises(UsageError, match=re.escape(message)):
        bind_inputs(workflow, values)


def test_defaults_may_name_inputs_but_not_each_other_in_a_circle(tmp_path: Path) -> None:
    text = 'NAME w\nINPUT a DEFAULT "$b!"\nINPUT b DEFAULT "x"\n' + G + RUN
    assert bind_inputs(load(str(written(tmp_path, text))), {}) == {"a": "x!", "b": "x"}
    assert bind_inputs(load(str(written(tmp_path, text))), {"b": "$a"}) == {"a": "$a!", "b": "$a"}
    open_end = parse('NAME w\nINPUT a DEFAULT "$b"\nINPUT b DEFAULT "$a"\n' + G + RUN)
    with pytest.raises(UsageError, match="refer to each other"):  # whoever binds what was never checked
        bind_inputs(open_end, {})


# ------------------------------------------------------------------ shown

UNTIDY = '# top\n\n\nNAME   w # it\nINPUT a\n  GOAL g   "a  b" ->x,y USING  p\nAGENT p "x"\nRUN r   USING g\n'
TIDY = '# top\n\nNAME w  # it\n\nINPUT a\n\nGOAL g "a  b" -> x, y USING p\n\nAGENT p "x"\n\nRUN r USING g\n'


def test_the_usual_form_keeps_the_meaning() -> None:
    assert show.format_text(UNTIDY) == TIDY
    assert show.format_text(TIDY) == TIDY


@rows("text", [text for text, _ in [*GOALS, *INPUTS, *AGENTS, *STEPS]])
def test_formatting_changes_nothing_but_the_form(text: str) -> None:
    tidy = show.format_text(text)
    assert show.format_text(tidy) == tidy
    before, after = parse(text), parse(tidy)
    assert [goal.outcome for goal in before.goals] == [goal.outcome for goal in after.goals]
    assert [first_goal(before)] == [first_goal(after)] if before.goals else True
    assert [(step.kind, step.goals, step.limit) for step in before.steps] == [
        (step.kind, step.goals, step.limit) for step in after.steps
    ]


def test_the_graph_has_every_goal_and_says_which_steps_repeat(tmp_path: Path) -> None:
    text = HEAD + 'AGENT p "x"\nGOAL a "x" USING p\nGOAL b "y"\nRUN r USING a, b\nLOOP l USING a WITHIN 2\n'
    drawn = show.graph(load(str(written(tmp_path, text))))
    assert drawn.count('["a"]') == 2
    assert "g1_0 -->|again| g1_0" in drawn
    assert json.loads(json.dumps(show.as_json(load(str(tmp_path)))))["steps"][1]["within"] == 2


def test_texts_and_names_do_not_break_the_graph(tmp_path: Path) -> None:
    hostile = 'a\\"]; end\nclick x <b>#quot;`|{}'
    text = HEAD + f'AGENT a-b "x"\nAGENT a_b "y"\nGOAL end """{hostile}""" USING a-b, a_b\n'
    text += f'CONVERGE c """{hostile}""" USING end WITHIN 2\n'
    drawn = show.graph(load(str(written(tmp_path, text))))
    assert len(re.findall(r"p0_0_\d+\(\(", drawn)) == len(set(re.findall(r"p0_0_\d+", drawn))) == 2
    for row in drawn.split("\n"):
        labels = re.findall(r'"([^"]*)"', row)
        assert row.count('"') == 2 * len(labels)
        assert not re.search(r"[<>`|{}\[\]]|&", "".join(labels))


PARTS = [
    "a",
    "b-1",
    "C_2",
    "->",
    ",",
    "3",
    "$n",
    '"x"',
    '""',
    '"""',
    '"',
    "\\",
    "#",
    "# c",
    "a,b",
    "p/q.md",
    "\n",
    " ",
    "\t",
]
TEXTS = ['"""one\n # two\n"""', '"say \\"hi\\" # -> USING"', "é", "\r\n", "\u2028"]
WORDS = st.sampled_from([*sorted(KEYWORDS), *PARTS, *TEXTS])
LINES = st.sampled_from([*(text for text, _ in [*GOALS, *INPUTS, *AGENTS, *STEPS]), "# a comment", "  # another", ""])


def meaning(text: str) -> object:
    workflow = parse(text)
    nouns = (*workflow.inputs, *workflow.agents, *workflow.goals, *workflow.steps)
    return workflow.name, workflow.review, [replace(noun, line=0) for noun in nouns]


def comments(text: str) -> list[str]:
    """Every comment, on a line of its own or after a statement, in order."""
    found, lines, number = list[str](), lines_of(text), 0
    begun = {line.number: line.text for line in statements(text)}
    while number < len(lines):
        number += 1
        if number in begun:
            found += [piece.rstrip() for piece in pieces(begun[number]) if piece.startswith("#")]
            number += begun[number].count("\n")
        elif lines[number - 1].strip():
            found.append(lines[number - 1].strip())
    return found


@given(st.lists(st.one_of(st.lists(WORDS).map(" ".join), st.lists(WORDS).map("".join), LINES), max_size=12))
def test_formatting_is_done_once_and_keeps_the_meaning_of_anything_that_parses(parts: list[str]) -> None:
    for text in ("\n".join(parts), *parts):
        try:
            before = meaning(text)
        except InvalidAgentfile:
            continue
        tidy = show.format_text(text)
        assert meaning(tidy) == before
        assert show.format_text(tidy) == tidy
        assert comments(tidy) == comments(text)


@given(st.text())
def test_whatever_a_file_says_it_is_read_or_refused(text: str) -> None:
    for whole in (text, f"GOAL g {text}", f'GOAL g "{text}"', f"INPUT a DEFAULT {text}"):
        with contextlib.suppress(InvalidAgentfile):
            parse(whole)


def test_fmt_waits_for_no_pipe_and_leaves_what_it_refuses_as_it_was(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from adderclaw.terminal.commands.agentfile import app

    pipe, binary, large = (tmp_path / name for name in ("pipe", "binary", "large"))
    os.mkfifo(pipe)
    binary.write_bytes(b'NAME x\nGOAL g "a\0b"\n')
    large.write_text("NAME x\n" + "# c\n" * 300_000)
    for file, says in ((pipe, "is not an ordinary file"), (binary, "is binary"), (large, "is larger than")):
        before = file.stat()
        error = CliRunner().invoke(app, ["fmt", str(file)]).exception
        assert isinstance(error, UsageError)
        assert says in str(error)
        now = file.stat()  # when it was last read does not count
        assert (now.st_ino, now.st_size, now.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
