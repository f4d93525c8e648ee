"""Every autonomy, profile, sandbox and mode against every kind of action: the whole table, as a reviewer reads it.

`scenarios.txt` beside this file is the table. Where a change of it is meant: `ADDERCLAW_WRITE_SCENARIOS=1 pytest` this
file, and read the difference.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from adderclaw import policy as gate
from adderclaw.config.schema import Config, Permissions, Profile, Security
from adderclaw.core.types import Autonomy, PermissionMode, Verdict
from adderclaw.policy.case import Case
from tests.policy.conftest import HOME, WS, build

TABLE = Path(__file__).with_name("scenarios.txt")
SIGNS: dict[Verdict, str] = {"allow": "yes", "ask": "ask", "deny": "."}


class Action(NamedTuple):
    name: str
    facts: dict[str, Any]


ACTIONS = (
    Action("read", {"tool": "Read", "reads": (f"{WS}/a",)}),
    Action("read-out", {"tool": "Read", "reads": ("/srv/a",)}),
    Action("read-own", {"tool": "Read", "reads": (f"{HOME}/config.toml",)}),
    Action("write", {"tool": "Write", "writes": (f"{WS}/a",)}),
    Action("write-out", {"tool": "Write", "writes": ("/srv/a",)}),
    Action("write-prot", {"tool": "Write", "writes": (f"{WS}/.git/hooks/pre-commit",)}),
    Action("look", {"tool": "Bash", "command": "pwd"}),
    Action("listed", {"tool": "Bash", "command": "git status"}),
    Action("unlisted", {"tool": "Bash", "command": "pulumi apply"}),
    Action("forbidden", {"tool": "Bash", "command": "rm a"}),
    Action("destroy", {"tool": "Bash", "command": "chmod -R 777 /"}),
    Action("glob", {"tool": "Bash", "command": "for f in a b; do cat $f.txt; done"}),
    Action("heredoc", {"tool": "Bash", "command": "cat > a.txt <<'EOF'\nx\nEOF"}),
    Action("hooks", {"tool": "Bash", "command": "cat > .git/hooks/pre-commit <<'EOF'\nx\nEOF"}),
    Action("wrapper", {"tool": "Bash", "command": "timeout 5 git status"}),
    Action("wrapped", {"tool": "Bash", "command": "timeout 5 pulumi apply"}),
    Action("behind", {"tool": "Bash", "command": "git status", "arguments": {"run_in_background": True}}),
    Action("inline", {"tool": "Bash", "command": "python3 -c 'print(1)'"}),
    Action("option", {"tool": "Bash", "command": "git -c core.pager=x log"}),
    Action("raw-here", {"tool": "Bash", "command": "umask 022 && ls", "at_terminal": True}),
    Action("raw", {"tool": "Bash", "command": "umask 022 && ls"}),
    Action("raw-var", {"tool": "Bash", "command": "$COMMAND a"}),
    Action("GET-listed", {"tool": "Http", "url": "https://docs.example.org/"}),
    Action("GET", {"tool": "Http", "url": "https://example.com/"}),
    Action("GET-priv", {"tool": "Http", "url": "http://10.0.0.1/"}),
    Action("POST", {"tool": "Http", "url": "https://docs.example.org/", "method": "POST"}),
    Action("memory", {"tool": "MemoryWrite", "opaque": True}),
    Action("mcp", {"tool": "mcp__server__tool", "opaque": True}),
    Action("fetch", {"tool": "WebFetch", "url": "https://example.com/"}),
    Action("notebook", {"tool": "NotebookEdit", "writes": (f"{WS}/a.ipynb",)}),
    Action("agent", {"tool": "Agent"}),
)
AUTONOMIES: tuple[Autonomy | None, ...] = (*get_args(Autonomy.__value__), None)
"""None: nobody chose one, so that a mode alone decides where it is given."""
PROFILES: tuple[str | None, ...] = (None, *get_args(Profile.__value__))
MODES: tuple[PermissionMode | None, ...] = (None, *get_args(PermissionMode.__value__))
BUILT = {action.name: build(**action.facts) for action in ACTIONS}


class Stance(NamedTuple):
    autonomy: Autonomy | None
    profile: str | None
    sandboxed: bool
    mode: PermissionMode | None

    @property
    def policy(self) -> gate.Policy:
        security = Security(
            autonomy=self.autonomy or "supervised",
            allowed_domains=["docs.example.org"],
            forbidden_paths=["/etc", "/home/u/.ssh"],
        )
        config = Config(security=security, permissions=Permissions(defaultMode=self.mode))
        return gate.policy_of(
            config,
            WS,
            HOME,
            self.profile,
            sandboxed=self.sandboxed,
            bubblewrap=self.sandboxed,
            autonomy_set=self.autonomy is not None,
            real=lambda path: path,
        )


STANCES = [Stance(*row) for row in product(AUTONOMIES, PROFILES, (False, True), MODES)]


def case(stance: Stance, action: Action) -> Case:
    built = BUILT[action.name]
    return Case(
        tool=built.tool,
        called_as=built.tool,
        arguments=built.arguments,
        touch=built.touch,
        policy=stance.policy,
        interactive=True,
        at_terminal=built.at_terminal,
    )


def outcomes(stance: Stance) -> list[Verdict]:
    return [gate.judge(case(stance, action)).verdict for action in ACTIONS]


def row(stance: Stance) -> str:
    """A profile sets the autonomy, so that its rows are printed once; that they agree, a test says."""
    who = [stance.profile or "-", (stance.autonomy or "-") if stance.profile is None else "*"]
    first = [*who, "yes" if stance.sandboxed else "no", stance.mode or "-"]
    signs = [SIGNS[verdict] for verdict in outcomes(stance)]
    cells = [sign.rjust(len(action.name)) for sign, action in zip(signs, ACTIONS, strict=True)]
    return f"{first[0]:<10} {first[1]:<10} {first[2]:<4} {first[3]:<18}" + " ".join(cells)


def table() -> Iterator[str]:
    yield "yes: runs; ask: the operator is asked; a dot: denied. Generated by test_scenarios.py."
    yield ""
    head = f"{'profile':<10} {'autonomy':<10} {'box':<4} {'mode':<18}"
    yield head + " ".join(action.name for action in ACTIONS)
    shown = sorted(STANCES, key=lambda stance: (PROFILES.index(stance.profile), AUTONOMIES.index(stance.autonomy)))
    for stance in shown:
        if stance.profile is None or stance.autonomy == AUTONOMIES[0]:
            yield row(stance)


def test_the_table_is_as_it_was_reviewed() -> None:
    text = "\n".join(table()) + "\n"
    if os.environ.get("ADDERCLAW_WRITE_SCENARIOS"):
        TABLE.write_text(text, encoding="utf-8")
    assert TABLE.read_text(encoding="utf-8").splitlines() == text.splitlines()


def test_it_is_complete() -> None:
    """Every value of every type is in it: a new mode or profile makes this fail until it is looked at."""
    printed = [line for line in TABLE.read_text(encoding="utf-8").splitlines()[3:] if line]
    assert len(STANCES) == len(AUTONOMIES) * len(PROFILES) * 2 * len(MODES) == 240
    assert len(printed) == len(set(printed)) == (len(AUTONOMIES) + len(PROFILES) - 1) * 2 * len(MODES)


def test_a_profile_decides_whatever_the_autonomy() -> None:
    for profile, sandboxed, mode in product(PROFILES[1:], (False, True), MODES):
        rows = {tuple(outcomes(Stance(autonomy, profile, sandboxed, mode))) for autonomy in AUTONOMIES}
        assert len(rows) == 1, (profile, sandboxed, mode)


ALWAYS_DENIED = ("read-own", "write-prot", "hooks", "forbidden", "destroy", "GET-priv")


@pytest.mark.parametrize("name", ALWAYS_DENIED)
def test_what_no_stance_allows(name: str) -> None:
    action = next(action for action in ACTIONS if action.name == name)
    assert {gate.judge(case(stance, action)).verdict for stance in STANCES} == {"deny"}


def test_a_stricter_stance_never_allows_more() -> None:
    """readonly ≤ supervised ≤ full, with everything else the same, but for one cell: readonly runs `pwd` and its like
    without asking (C-32), since there nobody may be there to ask, and supervised asks about every command (C-33)."""
    order: dict[Verdict, int] = {"deny": 0, "ask": 1, "allow": 2}
    autonomies: tuple[Autonomy, ...] = ("readonly", "supervised", "full")
    look = [action.name for action in ACTIONS].index("look")
    for sandboxed, mode in product((False, True), MODES):
        ranks = [[order[v] for v in outcomes(Stance(autonomy, None, sandboxed, mode))] for autonomy in autonomies]
        for narrow, wide in pairwise(ranks):
            wider = [a > b for a, b in zip(narrow, wide, strict=True)]
            assert not any(wider[:look] + wider[look + 1 :]), (sandboxed, mode)


def test_nobody_to_ask_is_a_denial() -> None:
    for stance in STANCES:
        for action in ACTIONS:
            asked = case(stance, action)
            alone = gate.judge(replace(asked, interactive=False)).verdict
            verdict = gate.judge(asked).verdict
            assert alone == ("deny" if verdict == "ask" else verdict)
