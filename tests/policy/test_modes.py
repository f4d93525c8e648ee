"""Autonomy, permission mode and risk: the whole table, and what a refusal tells the operator."""

from dataclasses import replace
from typing import Any

import pytest

from adderclaw import policy as gate
from adderclaw.policy import verdict
from adderclaw.policy.case import Decision, Opinion
from tests.policy.conftest import build
from tests.rows import rows

SUBJECTS: dict[str, dict[str, Any]] = {
    "time": {"tool": "Time"},
    "read": {"tool": "Read", "reads": ("/ws/a",)},
    "get listed": {"tool": "Http", "url": "https://ok.example/"},
    "get": {"tool": "Http", "url": "https://example.com/"},
    "post": {"tool": "Http", "url": "https://example.com/", "method": "POST"},
    "write": {"tool": "Write", "writes": ("/ws/a",)},
    "edit": {"tool": "Edit", "reads": ("/ws/a",), "writes": ("/ws/a",)},
    "opaque": {"tool": "mcp__a__b", "opaque": True},
    "listed": {"tool": "Bash", "command": "git status"},
    "harmless": {"tool": "Bash", "command": "pwd"},
    "operator's": {"tool": "Bash", "command": "docker ps"},
    "unlisted": {"tool": "Bash", "command": "pulumi plan"},
    "raw": {"tool": "Bash", "command": "echo $HOME"},
    "raw, no literal": {"tool": "Bash", "command": "$CMD x"},
    "raw, unknown word": {"tool": "Bash", "command": "cat $X"},
    "code, unknown word": {"tool": "Bash", "command": "bash -c 'cat $X'"},
}
RISKS = {
    "time": "low",
    "read": "low",
    "get listed": "low",
    "get": "medium",
    "post": "high",
    "write": "medium",
    "edit": "medium",
    "opaque": "medium",
    "listed": "medium",
    "harmless": "medium",
    "operator's": "medium",
    "unlisted": "high",
    "raw": "high",
    "raw, no literal": "high",
    "raw, unknown word": "high",
    "code, unknown word": "high",
}
TABLE: dict[str, dict[str, str]] = {
    # subject: readonly, supervised, full without a sandbox, full in a sandbox
    "time": {"readonly": "allow", "supervised": "allow", "full": "allow", "sandboxed": "allow"},
    "read": {"readonly": "allow", "supervised": "allow", "full": "allow", "sandboxed": "allow"},
    "get listed": {"readonly": "allow", "supervised": "allow", "full": "allow", "sandboxed": "allow"},
    "get": {"readonly": "deny", "supervised": "ask", "full": "allow", "sandboxed": "allow"},
    "post": {"readonly": "deny", "supervised": "deny", "full": "allow", "sandboxed": "allow"},
    "write": {"readonly": "deny", "supervised": "ask", "full": "allow", "sandboxed": "allow"},
    "edit": {"readonly": "deny", "supervised": "ask", "full": "allow", "sandboxed": "allow"},
    "opaque": {"readonly": "deny", "supervised": "ask", "full": "allow", "sandboxed": "allow"},
    "listed": {"readonly": "deny", "supervised": "ask", "full": "allow", "sandboxed": "allow"},
    "harmless": {"readonly": "allow", "supervised": "ask", "full": "allow", "sandboxed": "allow"},
    "operator's": {"readonly": "deny", "supervised": "ask", "full": "allow", "sandboxed": "allow"},
    "unlisted": {"readonly": "deny", "supervised": "deny", "full": "allow", "sandboxed": "allow"},
    "raw": {"readonly": "deny", "supervised": "deny", "full": "allow", "sandboxed": "allow"},
    "raw, no literal": {"readonly": "deny", "supervised": "deny", "full": "deny", "sandboxed": "allow"},
    "raw, unknown word": {"readonly": "deny", "supervised": "deny", "full": "deny", "sandboxed": "allow"},
    "code, unknown word": {"readonly": "deny", "supervised": "deny", "full": "deny", "sandboxed": "allow"},
}


def settings(autonomy: str, **more: Any) -> dict[str, Any]:
    chosen = "full" if autonomy == "sandboxed" else autonomy
    lists = {"allowed_commands": ("docker",), "allowed_domains": ("ok.example",)}
    return {"autonomy": chosen, "sandboxed": autonomy == "sandboxed", **lists, **more}


@rows(
    ("subject", "autonomy", "verdict"),
    [(subject, autonomy, verdict) for subject, row in TABLE.items() for autonomy, verdict in row.items()],
)
def test_autonomy_against_risk(judge: Any, subject: str, autonomy: str, verdict: str) -> None:
    decision: Decision = judge(**SUBJECTS[subject], policy=settings(autonomy))
    assert (decision.verdict, decision.risk) == (verdict, RISKS[subject]), decision.reason
    assert decision.reason


MODES: dict[str, dict[str, str]] = {
    # nobody chose an autonomy: the mode alone
    "default": {"time": "allow", "write": "ask", "listed": "ask", "unlisted": "deny", "raw": "deny", "get": "ask"},
    "acceptEdits": {
        "read": "allow",
        "write": "allow",
        "edit": "allow",
        "listed": "ask",
        "opaque": "ask",
        "raw": "deny",
    },
    "plan": {"time": "allow", "read": "allow", "write": "deny", "listed": "deny", "harmless": "ask", "opaque": "ask"},
    "dontAsk": {"time": "allow", "read": "allow", "write": "deny", "listed": "deny", "get": "deny", "unlisted": "deny"},
    "bypassPermissions": {"write": "allow", "listed": "allow", "unlisted": "allow", "post": "allow", "opaque": "allow"},
}


@rows(
    ("mode", "subject", "verdict"),
    [(mode, subject, verdict) for mode, row in MODES.items() for subject, verdict in row.items()],
)
def test_mode_alone(judge: Any, mode: str, subject: str, verdict: str) -> None:
    policy = settings("supervised", mode=mode, autonomy_set=False)
    assert judge(**SUBJECTS[subject], policy=policy).verdict == verdict


@rows(
    ("autonomy", "mode", "subject", "verdict"),
    [
        ("supervised", "bypassPermissions", "write", "ask"),
        ("supervised", "bypassPermissions", "unlisted", "deny"),
        ("supervised", "acceptEdits", "write", "ask"),
        ("readonly", "bypassPermissions", "write", "deny"),
        ("readonly", "acceptEdits", "edit", "deny"),
        ("full", "default", "time", "allow"),
        ("full", "default", "write", "ask"),
        ("full", "default", "unlisted", "ask"),
        ("full", "acceptEdits", "write", "allow"),
        ("full", "acceptEdits", "listed", "ask"),
        ("full", "dontAsk", "write", "deny"),
        ("full", "plan", "write", "deny"),
        ("full", "plan", "read", "allow"),
        ("full", "bypassPermissions", "unlisted", "allow"),
    ],
)
def test_the_stricter_of_both_decides(judge: Any, autonomy: str, mode: str, subject: str, verdict: str) -> None:
    assert judge(**SUBJECTS[subject], policy=settings(autonomy, mode=mode)).verdict == verdict


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"command": "pulumi plan"}, ['"pulumi"', "[security] allowed_commands"]),
        ({"command": "git svn"}, ['"git svn"', "allowed_commands"]),
        ({"command": "/ws/../run.sh", "policy": {"workspace_only": False}}, ['"/ws/../run.sh"', "allowed_commands"]),
        ({"command": "nosuch x"}, ["nosuch", "not installed"]),
        ({"command": "echo $x"}, ["variable expansion", 'raw_bash = "ask"']),
        ({"command": "f() { ls; }"}, ["a function that is never called", 'raw_bash = "ask"']),
        ({"command": "cat <<EOF\nx\nEO"}, ["here-document"]),
    ],
)
def test_a_denial_names_the_setting(judge: Any, facts: dict[str, Any], words: list[str]) -> None:
    decision: Decision = judge("Bash", **facts)
    assert decision.verdict == "deny"
    for word in words:
        assert word in decision.reason


def test_a_denied_post_names_a_rule(judge: Any) -> None:
    decision: Decision = judge("Http", url="https://example.com/", method="POST")
    assert '"Http(domain:example.com)"' in decision.reason


def test_raw_bash_can_be_asked_for_and_never_granted(judge: Any) -> None:
    ask = {"raw_bash": "ask"}
    hook = Opinion("hook", "allow", "fine")
    assert judge("Bash", command="echo $x", policy=ask).verdict == "ask"
    assert judge("Bash", command="echo $x", allow=("Bash", "Bash(*)", "Bash(echo *)"), policy=ask).verdict == "ask"
    assert judge("Bash", command="echo $x", policy=ask, hook_opinion=hook).verdict == "ask"
    assert judge("Bash", command="echo $x", ask=("Bash(echo *)",)).verdict == "deny"
    assert judge("Bash", command="echo $x", hook_opinion=Opinion("hook", "ask", "hm")).verdict == "deny"
    assert judge("Bash", command="echo $x", deny=("Bash(echo *)",), policy={"autonomy": "full"}).verdict == "deny"


def test_nobody_to_ask_is_a_denial(judge: Any) -> None:
    decision: Decision = judge("Write", writes=("/ws/x",), interactive=False)
    assert (decision.verdict, decision.by) == ("deny", "no_operator")
    assert "no_operator" in decision.reason
    assert judge("Read", reads=("/ws/x",), interactive=False).verdict == "allow"


def test_dont_ask_denies_what_a_rule_would_ask(judge: Any) -> None:
    policy = {"autonomy": "full", "mode": "dontAsk"}
    assert judge("Read", reads=("/ws/x",), ask=("Read",), policy=policy).verdict == "deny"
    assert judge("Write", writes=("/ws/x",), allow=("Edit",), policy=policy).verdict == "allow"


def test_a_decision_prints_every_opinion(judge: Any) -> None:
    decision: Decision = judge("Read", reads=("/etc/passwd",), ask=("Read",))
    shown = decision.as_json()
    assert list(shown) == ["tool", "verdict", "risk", "reason", "by", "denial", "opinions"]
    assert (shown["tool"], shown["verdict"], shown["by"]) == ("Read", "deny", "forbidden_paths")
    named = [opinion["by"] for opinion in shown["opinions"]]
    everybody = (*verdict.GUARDS, *verdict.JUDGES, *verdict.QUESTIONS)
    assert named == [*(name for name, _ in everybody), "mode"]
    assert all(set(opinion) == {"by", "verdict", "reason"} for opinion in shown["opinions"])
    assert {o["by"]: o["verdict"] for o in shown["opinions"]}["permission rules"] == "ask"
    assert {o["by"]: o["verdict"] for o in shown["opinions"]}["workspace"] == "deny"


@rows(
    ("hook", "rule", "verdict"),
    [
        ("allow", {}, "allow"),
        ("ask", {}, "ask"),
        ("deny", {}, "deny"),
        ("allow", {"deny": ("Write",)}, "deny"),
        ("allow", {"ask": ("Write",)}, "ask"),
        ("ask", {"allow": ("Write",)}, "ask"),
        ("deny", {"allow": ("Write",)}, "deny"),
        (None, {"allow": ("Write",)}, "allow"),
        (None, {}, "ask"),
    ],
)
def test_the_strictest_judge_stands(judge: Any, hook: Any, rule: dict[str, Any], verdict: str) -> None:
    opinion = Opinion("hook", hook, "because")
    assert judge("Write", writes=("/ws/x",), hook_opinion=opinion, **rule).verdict == verdict


def test_a_command_of_an_unknown_kind_is_high(case: Any) -> None:
    class Strange:
        text = shown = "rm"

    base = case("Bash")
    decision = gate.judge(replace(base, touch=replace(base.touch, command=Strange())))
    assert (decision.verdict, decision.risk) == ("deny", "high")


ROOM = {"sandboxed": True, "bubblewrap": True}


@pytest.mark.parametrize(
    ("policy", "facts", "verdict"),
    [
        ({"sandboxed": True, "bubblewrap": True}, {"at_terminal": True}, "ask"),
        ({"sandboxed": True, "bubblewrap": True}, {}, "deny"),
        ({"sandboxed": True}, {"at_terminal": True}, "deny"),
        ({}, {"at_terminal": True}, "deny"),
        (
            {"sandboxed": True, "bubblewrap": True, "autonomy": "readonly"},
            {"at_terminal": True},
            "deny",
        ),
        ({"sandboxed": True, "bubblewrap": True, "mode": "dontAsk"}, {"at_terminal": True}, "deny"),
        ({"sandboxed": True, "bubblewrap": True}, {"at_terminal": True, "interactive": False}, "deny"),
    ],
)
def test_raw_bash_is_asked_about_only_at_the_terminal_in_bubblewrap(
    judge: Any, policy: dict[str, Any], facts: dict[str, Any], verdict: str
) -> None:
    """X-90; and neither a rule nor a hook allows it."""
    yes = Opinion("hook", "allow", "")
    for more in ({}, {"allow": ("Bash",)}, {"hook_opinion": yes}):
        decision = judge("Bash", command="$COMMAND a", policy=policy, **facts, **more)
        assert decision.verdict == verdict
        assert "network off" not in decision.reason  # what is recorded, and compared, says nothing of the room


def test_who_is_asked_about_raw_bash_reads_of_its_room() -> None:
    for command, bubblewrap, told in (
        ("$COMMAND a", True, True),
        ("$COMMAND a", False, False),
        ("touch a", True, False),
    ):
        policy = {"sandboxed": True, "bubblewrap": bubblewrap, "raw_bash": "ask"}
        case = build("Bash", command=command, policy=policy)
        assert gate.judge(case).verdict == "ask" or not told
        assert verdict.sandbox_note(case) == "it runs with the network off" * told


LOOKS = (
    "cat a b | head -5",
    "git status && git diff --stat",
    "git branch -a",
    "rg -n x src | wc -l",
    "pwd",
)
ACTS = (
    "git branch x",
    "git stash",
    "sort -o x y",
    "sed -i s/a/b/ x",
    "find . -delete",
    "cat a > b",
    "npm test",
    "cat ../x",
)


@rows("command", [*LOOKS, *ACTS])
def test_looking_is_low_risk_in_bubblewrap_alone(judge: Any, command: str) -> None:
    """X-78: it runs in supervised and readonly; elsewhere, and where a denied read is not masked, it is asked about."""
    room = ROOM
    looks = command in LOOKS
    assert (judge("Bash", command=command, policy=room).verdict == "allow") == looks
    assert (judge("Bash", command=command, policy={**room, "autonomy": "readonly"}).verdict == "allow") == looks
    if looks and command != "pwd":
        assert judge("Bash", command=command, policy={"sandboxed": True}).verdict == "ask"
        assert judge("Bash", command=command, policy={"autonomy": "readonly", "sandboxed": True}).verdict == "deny"
        assert judge("Bash", command=command, policy=room, unmasked=True).verdict == "ask"


@pytest.mark.parametrize(
    ("command", "which"),
    [
        ("git status --short; find . -name '*.py' | xargs wc -l", "(not known: xargs)"),
        ("ls; .venv/bin/pytest -q; ./a.sh | head", "(not known: .venv/bin/pytest, ./a.sh)"),
        ("bash -c 'ls; npm test'", "(not known: npm)"),
    ],
)
def test_a_denial_in_plan_mode_names_what_is_not_known_to_read(judge: Any, command: str, which: str) -> None:
    assert which in judge("Bash", command=command, policy={**ROOM, "mode": "plan"}).reason
