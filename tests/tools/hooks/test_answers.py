"""How answers are read and merged: each rule a row."""

import json
from typing import Any

import pytest

from adderclaw.core.host import HookOutcome
from adderclaw.core.types import Json
from adderclaw.tools.hooks.answers import MAX_SHOWN_CHARS, Answer, HookRun, Merge, read_answer
from tests.rows import rows


def arm(event: str, **said: Any) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **said}})


def merged(event: str, *ends: HookRun) -> HookOutcome:
    merge = Merge(event)
    for ordinal, ran in enumerate(ends):
        if merge.is_settled:
            break
        merge.add(ordinal, read_answer(event, ran))
    return merge.result()


DENY = HookRun(0, arm("PreToolUse", permissionDecision="deny", permissionDecisionReason="no"))
ASK = HookRun(0, arm("PreToolUse", permissionDecision="ask", permissionDecisionReason="sure?"))
ALLOW = HookRun(0, arm("PreToolUse", permissionDecision="allow"))
SILENT = HookRun(0)
BLOCK = HookRun(2, "", "stop it\n")
FAILED = HookRun(1, "", "oops")

VERDICTS = [
    ((), None),
    ((SILENT,), None),
    ((ALLOW,), "allow"),
    ((ALLOW, ASK), "ask"),
    ((ASK, ALLOW), "ask"),
    ((ASK, DENY), "deny"),
    ((ALLOW, DENY), "deny"),
    ((FAILED, ALLOW), "allow"),
    ((HookRun(0, '{"decision": "approve"}'),), "allow"),
    ((HookRun(0, '{"decision": "block", "reason": "r"}'),), "deny"),
    ((HookRun(0, '{"continue": false, "stopReason": "enough"}'),), "deny"),
]


@rows(("ends", "verdict"), VERDICTS)
def test_d54_deny_over_ask_over_allow_over_nothing(ends: tuple[HookRun, ...], verdict: str | None) -> None:
    said = merged("PreToolUse", *ends)
    assert said.verdict == verdict
    assert not said.blocked


@pytest.mark.parametrize("first", [DENY, BLOCK, HookRun(None, "", "late", timed_out=True)])
def test_d55_nothing_follows_a_refusal(first: HookRun) -> None:
    merge = Merge("PreToolUse")
    merge.add(0, read_answer("PreToolUse", ALLOW))
    assert not merge.is_settled
    merge.add(1, read_answer("PreToolUse", first))
    assert merge.is_settled


def test_d55_the_message_is_each_blocks_words_by_its_ordinal() -> None:
    merge = Merge("PostToolUse")
    for ordinal, text in ((2, "b"), (0, "a"), (10, "c")):
        merge.add(ordinal, Answer(block=text))
    assert merge.result().reason == "[0] a\n[2] b\n[10] c"
    assert merged("PreToolUse", BLOCK).reason == "[0] stop it"
    assert merged("PreToolUse", HookRun(2)).reason == "[0] "
    assert merged("PreToolUse", HookRun(0, arm("PreToolUse", permissionDecision="deny"))).verdict_reason == ""


def test_d56_later_hooks_still_run_after_a_block_afterwards() -> None:
    for event in ("PostToolUse", "PostToolUseFailure"):
        said = merged(event, BLOCK, SILENT, HookRun(2, "", "two"))
        assert (said.reason, said.ran) == ("[0] stop it\n[2] two", 3)


READ: list[tuple[str, HookRun, bool, str]] = [
    # event, how it ended, does it block, what is wrong
    ("PreToolUse", HookRun(0, "plain words"), False, ""),
    ("PreToolUse", HookRun(1), False, "exit code 1"),
    ("PreToolUse", HookRun(127, "", "not found"), False, "exit code 127: not found"),
    ("PreToolUse", HookRun(-9), False, "exit code -9"),
    ("PreToolUse", HookRun(None, "", "not started"), False, "it could not be run: not started"),
    ("PreToolUse", HookRun(2, "{broken"), True, "not one JSON value"),
    ("PreToolUse", HookRun(2, '{"async": true}', "x"), True, "async"),
    ("PreToolUse", HookRun(0, '{"async": true, "asyncTimeout": 5}'), False, "async"),
    ("PreToolUse", HookRun(0, "{broken"), False, "not one JSON value"),
    ("PreToolUse", HookRun(0, "{} {}"), False, "not one JSON value"),
    ("PreToolUse", HookRun(0, "{" * 5000), False, "not one JSON value"),
    ("PreToolUse", HookRun(0, '{"continue": "no"}'), False, "continue must be true or false"),
    ("PreToolUse", HookRun(0, '{"decision": "deny"}'), False, "decision must be one of approve, block"),
    ("PreToolUse", HookRun(0, '{"hookSpecificOutput": []}'), False, "must be an object"),
    (
        "PreToolUse",
        HookRun(0, arm("PreToolUse", permissionDecision="defer")),
        False,
        "permissionDecision must be one of",
    ),
    ("PreToolUse", HookRun(0, arm("PreToolUse", updatedInput="x")), False, "updatedInput must be an object"),
    ("PreToolUse", HookRun(0, arm("PostToolUse")), False, "hookEventName must be PreToolUse"),
    ("Stop", HookRun(0, arm("Stop", additionalContext="x")), False, "must be left out for Stop"),
    ("WorktreeCreate", HookRun(0, arm("WorktreeCreate")), False, "worktreePath is missing"),
    ("WorktreeCreate", HookRun(1, "", "no"), True, "exit code 1: no"),
    ("PreToolUse", HookRun(None, "", "slow", timed_out=True), True, "slow"),
    ("UserPromptSubmit", HookRun(None, "", "slow", timed_out=True), True, "slow"),
    ("PostToolUse", HookRun(None, "", "slow", timed_out=True), False, "slow"),
    ("SessionEnd", HookRun(None, "", "slow", timed_out=True), False, "slow"),
    ("PermissionRequest", HookRun(0, arm("PermissionRequest", decision={"behavior": "maybe"})), False, "a decision"),
]


@rows(("event", "ran", "blocks", "wrong"), READ)
def test_d52_d53_d107_reading_an_end(event: str, ran: HookRun, blocks: bool, wrong: str) -> None:
    answer = read_answer(event, ran)
    assert (answer.block is not None) == blocks
    assert (wrong in answer.failure) if wrong else not answer.failure
    assert not answer.output or not answer.failure


@rows(
    ("event", "blocked", "messages"),
    [
        ("PreToolUse", True, ()),
        ("UserPromptSubmit", True, ()),
        ("Stop", True, ()),
        ("SubagentStop", True, ()),
        ("TaskCreated", True, ()),
        ("PreCompact", True, ()),
        ("ConfigChange", True, ()),
        ("Elicitation", True, ()),
        ("WorktreeCreate", True, ()),
        ("PostToolUse", True, ()),
        ("SessionStart", False, ("stop it",)),
        ("SessionEnd", False, ("stop it",)),
        ("CwdChanged", False, ("stop it",)),
        ("Notification", False, ()),
        ("PermissionRequest", False, ()),
        ("StopFailure", False, ()),
        ("InstructionsLoaded", False, ()),
    ],
)
def test_what_exit_2_does(event: str, blocked: bool, messages: tuple[str, ...]) -> None:
    said = merged(event, BLOCK)
    assert (said.blocked, said.messages) == (blocked, messages)


OUTPUTS: list[tuple[str, tuple[str, ...], Json]] = [
    ("PreToolUse", (arm("PreToolUse", updatedInput={"a": 1}), arm("PreToolUse", updatedInput={"b": 2})),
     {"updated_input": {"b": 2}}),
    ("PreToolUse", (arm("PreToolUse", updatedInput={"a": 1}), arm("PreToolUse", permissionDecision="deny")),
     {"updated_input": None}),
    ("UserPromptSubmit", ("plain", arm("UserPromptSubmit", additionalContext="more")), {"context": ("plain", "more")}),
    ("SessionStart", (arm("SessionStart", initialUserMessage="hi", watchPaths=["a", "b"]),
                      arm("SessionStart", watchPaths=["b", "c"])),
     {"specific": {"initialUserMessage": "hi", "watchPaths": ["a", "b", "c"]}}),
    ("PostToolUse", ("plain", arm("PostToolUse", updatedMCPToolOutput=[1])),
     {"context": (), "specific": {"updatedMCPToolOutput": [1]}}),
    ("PermissionDenied", (arm("PermissionDenied", retry=True), arm("PermissionDenied", retry=False)),
     {"specific": {"retry": True}}),
    ("PermissionRequest", (arm("PermissionRequest", decision={"behavior": "deny", "message": "m"}),
                           arm("PermissionRequest", decision={"behavior": "allow"})),
     {"specific": {"decision": {"behavior": "deny", "message": "m"}}}),
    ("Elicitation", (arm("Elicitation", action="decline"), arm("Elicitation", action="accept", content={"a": 1})),
     {"specific": {"action": "decline"}}),
    ("WorktreeCreate", ("making it\n/tmp/tree\n",), {"specific": {"worktreePath": "/tmp/tree"}}),
    ("Stop", ('{"decision": "block", "reason": "go on"}',), {"blocked": True, "reason": "[0] go on"}),
    ("Stop", ('{"continue": false, "stopReason": "enough"}',), {"stop": "enough", "blocked": False}),
    ("TaskCreated", ('{"continue": false}',), {"stop": None}),
    ("Notification", ('{"systemMessage": "look"}',), {"messages": ("look",)}),
]  # fmt: skip


@rows(("event", "outputs", "wanted"), OUTPUTS)
def test_outputs_of_several_hooks_become_one(event: str, outputs: tuple[str, ...], wanted: Json) -> None:
    said = merged(event, *(HookRun(0, text) for text in outputs))
    assert {name: getattr(said, name) for name in wanted} == wanted


def test_a_field_that_has_no_effect_is_said() -> None:
    answer = read_answer("PreToolUse", HookRun(0, arm("PreToolUse", permissionDecision="deny", permisionReason="typo")))
    assert answer.output is not None
    assert "permisionReason" in answer.notes[0]


def test_long_words_are_cut_for_whoever_reads_them() -> None:
    said = merged("PreToolUse", HookRun(2, "", "x" * 50_000))
    assert len(said.reason) < MAX_SHOWN_CHARS + 200
    assert "50000 characters" in said.reason


def test_a_failure_blocks_where_the_operator_says_so() -> None:
    merge = Merge("PreToolUse")
    merge.add(3, read_answer("PreToolUse", FAILED), failure_blocks=True)
    assert merge.result().reason == "[3] exit code 1: oops"
