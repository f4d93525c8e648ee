"""Judges that exist only to add a question never loosen: what is denied without their word is denied with it."""

from dataclasses import replace
from typing import Any

import pytest

from adderclaw import policy
from adderclaw.core.types import RemoteFact
from adderclaw.policy.case import Case, Opinion
from tests.policy.conftest import WS, build
from tests.rows import rows

REMOTE = RemoteFact("push", "ssh://host.example/x", "it overwrites or deletes branches there")
ADDED: dict[str, dict[str, Any]] = {
    "checkpoint": {"lost": "no checkpoint keeps it"},
    "other projects": {"beyond": "searches the conversations of other projects"},
    "git remote": {"remotes": (REMOTE,)},
}
DENIED: list[dict[str, Any]] = [
    {"tool": "Bash", "command": "unheard-of-program x"},
    {"tool": "Bash", "command": "python3 -c 'print(1)'", "policy": {"sandboxed": False}},
    {"tool": "WebFetch", "url": "https://unknown.example/", "policy": {"autonomy": "readonly"}},
    {"tool": "Write", "writes": (f"{WS}/x",), "policy": {"mode": "dontAsk"}},
    {"tool": "Bash", "command": "git push", "policy": {"mode": "dontAsk", "sandboxed": True}},
]


def with_question(made: Case, name: str) -> Case:
    return replace(
        made,
        touch=replace(made.touch, **ADDED[name]),
        policy=replace(made.policy, sandboxed=True) if name == "git remote" else made.policy,
    )


@rows("name", ADDED)
@rows("facts", DENIED, ids=lambda facts: str(facts.get("command", facts["tool"])))
def test_a_question_lifts_no_denial_of_the_mode(name: str, facts: dict[str, Any]) -> None:
    made = build(**facts)
    if name == "git remote":
        made = replace(made, policy=replace(made.policy, sandboxed=True))
    if policy.judge(made).verdict != "deny":
        return  # a sandbox makes it a question by itself
    decision = policy.judge(with_question(made, name))
    assert (decision.verdict, decision.by) == ("deny", policy.judge(made).by), decision.reason
    assert next(opinion.verdict for opinion in decision.opinions if opinion.by == name) == "ask", "it did speak"


@pytest.mark.parametrize("name", ADDED)
def test_it_does_ask_about_what_would_be_allowed(name: str) -> None:
    every: list[dict[str, Any]] = [{"policy": {"autonomy": "full"}}, {"allow": ("Write",)}]
    for facts in every:
        made = build("Write", writes=(f"{WS}/x",), **facts)
        assert policy.judge(made).verdict == "allow"
        decision = policy.judge(with_question(made, name))
        assert (decision.verdict, decision.by) == ("ask", name)


def test_a_name_that_programs_run_later_is_no_way_around_the_mode() -> None:
    made = build("Write", writes=(f"{WS}/.vscode/tasks.json",), policy={"mode": "dontAsk"})
    assert policy.judge(made).verdict == "deny"
    allowed = build("Write", writes=(f"{WS}/.vscode/tasks.json",), policy={"autonomy": "full"}, allow=("Write",))
    assert (policy.judge(allowed).verdict, policy.judge(allowed).by) == ("ask", "run later")


def test_the_operators_own_ask_still_stands_in_the_place_of_the_mode() -> None:
    """X-50: the mode decides only where no judge speaks."""
    made = build("Bash", command="unheard-of-program x", ask=("Bash(unheard-of-program:*)",))
    assert (policy.judge(made).verdict, policy.judge(made).by) == ("ask", "permission rules")
    hooked = replace(build("Bash", command="unheard-of-program x"), hook_opinion=Opinion("hook", "ask", "look at it"))
    assert (policy.judge(hooked).verdict, policy.judge(hooked).by) == ("ask", "hook")
