"""Patterns from outside (rules, globs, policy files, schemas) mean what they say, and none of them takes long."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from adderclaw.config.foreign import json_schema
from adderclaw.core import glob_patterns
from adderclaw.core.glob_patterns import gitignore_tree
from adderclaw.core.types import PathFact
from adderclaw.policy import rules
from adderclaw.policy.hosts import covers
from adderclaw.policy.legacy.shell import patterns, values
from adderclaw.policy.rules import Anchors, InvalidRule
from adderclaw.sandbox.workspace import globs
from adderclaw.tools.hooks.matching import matches as hook_matches
from adderclaw.tools.mcp import definitions
from tests.rows import rows

HERE = Anchors("/ws", "/ws", "/home/u")

# ------------------------------------------------------------------ they mean what they say


def names_match(pattern: str, name: str) -> bool:
    return re.fullmatch("".join({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)) for c in pattern), name) is not None


def by_definition(pattern: tuple[str, ...], path: tuple[str, ...], *, within: bool) -> bool:
    """What a pattern of names and `**` means, name by name. `within`: what lies in what matches, matches too."""

    @cache
    def match(left: int, right: int) -> bool:
        if left == len(pattern):
            return right == len(path) or within
        if pattern[left] == "**":
            if left == len(pattern) - 1:
                return right < len(path)
            return match(left + 1, right) or (right < len(path) and match(left, right + 1))
        return right < len(path) and names_match(pattern[left], path[right]) and match(left + 1, right + 1)

    return match(0, 0)


PARTS = ("a", "b", "*", "?", "a*", "*b", "*a*b", "a*b*", "**", "**")


def test_a_path_pattern_means_what_its_definition_says() -> None:
    chance = random.Random(17)
    for _ in range(3_000):
        pattern = tuple(chance.choices(PARTS, k=chance.randint(1, 5)))
        path = tuple("".join(chance.choices("ab", k=chance.randint(1, 3))) for _ in range(chance.randint(1, 6)))
        found = re.fullmatch(gitignore_tree("/" + "/".join(pattern)), "/".join(path)) is not None
        trailing = len(pattern)
        while trailing > 1 and pattern[trailing - 1] == pattern[trailing - 2] == "**":
            trailing -= 1
        assert found == by_definition(pattern[:trailing], path, within=True), (pattern, path)


def test_a_star_means_any_text() -> None:
    chance = random.Random(18)
    for _ in range(3_000):
        pattern = "".join(chance.choices("ab*", k=chance.randint(0, 7)))
        text = "".join(chance.choices("ab", k=chance.randint(0, 9)))
        naive = re.fullmatch("".join(".*" if c == "*" else c for c in pattern), text)
        assert (re.fullmatch(glob_patterns.text_pattern(pattern), text) is None) == (naive is None), (pattern, text)


@rows(
    ("pattern", "path", "wanted"),
    [
        ("**/**/x", "a/b/x", True),
        ("**/**/x", "x", True),
        ("a/**/**", "a/b", True),
        ("a/**/**", "a", False),
        ("**", "a/b", True),
        ("x/", "x/y", True),
        ("x/", "x", False),
        ("*.p[yz]", "b/a.pz/c", True),
        ("/a/**/b/**/c", "a/b/x/b/c", True),
        ("/a/**/b/**/c", "a/b/x/b/d", False),
    ],
)
def test_path_patterns(pattern: str, path: str, wanted: bool) -> None:
    assert (re.fullmatch(gitignore_tree(pattern), path, re.DOTALL) is not None) == wanted


@rows(("pattern", "found"), [("{a,b}", ["a", "b"]), ("{a{b,c}", ["{ab", "{ac"]), ("{a,{b}", ["{a,{b}"])])
def test_braces(pattern: str, found: list[str]) -> None:
    assert globs.alternatives(pattern) == found


# ------------------------------------------------------------------ none of them takes long

LONG = "a" * 200 + "/" + "a/" * 1_000 + "b"
SEGMENTS = ["**", "*a*a*a*a*a*a*a*a*a*x", "a", "*", "[ab]", "?", "a*", "*x"]


def _rule(text: str) -> None:
    rule = rules.parse(text, "deny", HERE)
    rules.matches_path(rule, PathFact("", f"/ws/{LONG}", f"/ws/{LONG}"))


def _policy(text: str) -> None:
    from adderclaw.policy import policy_file

    found = policy_file.path_pattern(text, policy_file.PatternBase("/ws", "/home/u", str))
    re.fullmatch(found, f"/ws/{LONG}")


def _field(text: str) -> None:
    rule = rules.parse(f"mcp__a__b(field:{text})", "deny", HERE)
    rules.matches_field(rule, {"field": "a" * 100_000})


def _tool(text: str) -> None:
    rules.names_tool(rules.parse(f"z{text}", "deny", HERE), "z" + "a" * 5_000)


def _command(text: str) -> None:
    rules.matches_text(rules.parse(f"Bash({text})", "deny", HERE), "a " * 50_000)


def _shell(text: str) -> None:
    found = patterns.regex([(char, True) for char in text])
    re.fullmatch(found, "a" * 255)
    values.replaced("a" * 2_000, found, "", every=True)
    values.trimmed("a" * 2_000, found, "##")


def _schema(text: str) -> None:
    schema: Any = {"patternProperties": {text: {}}, "additionalProperties": False, "unevaluatedProperties": False}
    json_schema.problems(schema, {"a" * 5_000 + "!": 1})
    json_schema.problems({"properties": {"x": {"pattern": text}}}, {"x": "a" * 5_000 + "!"})


STARS = "*a" * 30 + "*x"
DEEP = "/".join(["**", "*"] * 400) + "/x"
BOMBS: list[tuple[Callable[[str], object], str]] = [
    (_rule, f"Read({'**/' * 1_000}x)"),
    (_rule, f"Read({'**/a/' * 800}x)"),
    (_rule, f"Edit(/{DEEP})"),
    (_rule, f"Read({STARS})"),
    (_rule, f"Read(**/{STARS}/**/{STARS}/x)"),
    (_policy, f"/ws/{'**/' * 1_000}x"),
    (_policy, f"/ws/**/{STARS}/**/{STARS}"),
    (_policy, f"/ws/{DEEP}"),
    (_field, STARS),
    (_tool, STARS),
    (_command, STARS),
    (_command, f"{STARS}:*"),
    (_shell, STARS),
    (_schema, "(a+)+$"),
    (_schema, "(a|a)*b"),
    (lambda text: covers(text, "a" * 250), f"{STARS}.com"),
    (lambda text: covers(text, "a." * 120 + "a"), f"*.{STARS}.com"),
    (lambda text: globs.matches(text, LONG), DEEP),
    (lambda text: globs.is_bounded(text), "{" * 100_000),
    (lambda text: globs.is_bounded(text), "{a,b}" * 2_000),
    (lambda text: hook_matches("PreToolUse", text, "a" * 200), "(a+)+$"),
]


def fuzz() -> None:
    """Run in a process of its own, whose CPU time the kernel limits."""
    for run, text in BOMBS:
        run(text)
    chance = random.Random(19)
    for _ in range(150):
        text = "/".join(chance.choices(SEGMENTS, k=chance.randint(1, 40)))
        _rule(f"Read({text})")
        _policy(f"/ws/{text}")


SECONDS = 10


def test_no_pattern_takes_long() -> None:
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}));"
        "from tests.policy import test_patterns as t; t.fuzz(); print('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", (done.returncode, done.stderr[-2_000:])


def test_a_shell_with_many_words_is_planned_at_once() -> None:
    """As many words as a plan may have, each of which could name a shell; twice as many take twice as long."""
    from time import process_time

    from adderclaw.policy.legacy.shell import planner
    from tests.policy.conftest import resolve

    def seconds(count: int) -> float:
        began = process_time()
        planner.plan("sh x " * count, resolve)
        return process_time() - began

    seconds(1)
    assert min(seconds(1_900) for _ in range(2)) < 8 * min(seconds(475) for _ in range(3))


def test_a_rule_that_is_too_long_is_invalid() -> None:
    with pytest.raises(InvalidRule, match="longer than"):
        rules.parse(f"Read({'**/' * 2_000}x)", "deny", HERE)


def test_an_output_schema_is_checked_without_its_patterns() -> None:
    """The SDK keeps the object that the listing gave, and checks answers against it."""
    from types import SimpleNamespace

    output = {"type": "object", "properties": {"pattern": {"type": "string", "pattern": "(a+)+$"}}}
    tool = SimpleNamespace(
        name="t",
        description="",
        title="",
        input_schema={},
        output_schema=json.loads(json.dumps(output)),
        annotations=None,
    )
    found = definitions.list_definitions("s", [tool])
    assert found.definitions[0].output == output, "pins are about what the server said"
    assert tool.output_schema == {"type": "object", "properties": {"pattern": {"type": "string"}}}


def test_properties_by_pattern_are_not_refused_as_additional_ones() -> None:
    schema: Any = {"patternProperties": {"^x": {}}, "additionalProperties": False}
    assert json_schema.problems(schema, {"x1": 1}) == []
    assert json_schema.problems({"properties": {}, "additionalProperties": False}, {"x1": 1})


@pytest.mark.parametrize(
    ("text", "tool", "named"),
    [
        ("mcp__myTools__add", "mcp__mytools__add", True),
        ("mcp__my.tools__add", "mcp__my_tools__add", True),
        ("mcp__myTools", "mcp__mytools__add", True),
        ("mcp__MYTOOLS__*", "mcp__mytools__add", True),
        ("mcp__myTools__Add", "mcp__mytools__add", False),
        ("mcp__mytools", "mcp__mytools2__add", False),
    ],
)
def test_a_rule_writes_a_servers_name_as_its_configuration_does(text: str, tool: str, *, named: bool) -> None:
    """A name that a rule of the gate does not match would deny nothing."""
    assert rules.names_tool(rules.parse(text, "deny", HERE), tool) is named
