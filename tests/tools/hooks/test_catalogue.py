"""The catalogue against the specification's tables: order, fields, queries, timeouts, answers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from adderclaw.config.foreign.hooks import EVENTS as CLOSED
from adderclaw.config.foreign.hooks import NEWER
from adderclaw.core.types import Json
from adderclaw.tools.hooks.catalogue import BASE, EVENTS, OUTPUT, Spec, field_problems, unknown_fields
from tests.rows import rows

ROOT = Path(__file__).parents[3]
SEED: dict[str, Any] = json.loads((Path(__file__).parent / "appendices.json").read_text())
"""The tables of the specification, a row for each event and field, in its order and its words."""
APPENDIX_A: dict[str, dict[str, str]] = SEED["A: what a hook is told"]
APPENDIX_B: dict[str, dict[str, str]] = SEED["B: what a hook may answer"]
OURS = {
    "string": "text",
    "string-or-null": "text or null",
    "boolean": "true or false",
    "object": "an object",
    "strings": "a list of texts",
    "unknown": "JSON",
    "updates": "a list of permission updates",
    "decision": "a decision: behavior allow or deny",
}


def ours(table: dict[str, str]) -> dict[str, str]:
    """A table in the words of our catalogue."""
    return {name: OURS.get(kind) or f"one of {kind.replace('|', ', ')}" for name, kind in table.items()}


def said(spec: Spec) -> dict[str, str]:
    return {name: kind.description for name, kind in spec.items()}


CALL: Json = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
TASK: Json = {"task_id": "1", "task_subject": "s"}
MORE: Json = {"task_description": "d", "teammate_name": "n", "team_name": "t"}
# event → its smallest input, its whole input, and values that do not fit
FIELDS: dict[str, tuple[Json, Json, Json]] = {
    "PreToolUse": (CALL, {}, {"tool_name": 1}),
    "PostToolUse": ({**CALL, "tool_response": None}, {}, {"tool_use_id": None}),
    "PostToolUseFailure": ({**CALL, "error": "e"}, {"is_interrupt": True}, {"is_interrupt": "yes", "error": 1}),
    "PermissionDenied": ({**CALL, "reason": "r"}, {}, {"reason": 1}),
    "Notification": ({"message": "m", "notification_type": "idle_prompt"}, {"title": "t"}, {"message": []}),
    "UserPromptSubmit": ({"prompt": "p"}, {}, {"prompt": None}),
    "SessionStart": ({"source": "startup"}, {"agent_type": "a", "model": "m"}, {"source": "fork"}),
    "SessionEnd": ({"reason": "bypass_permissions_disabled"}, {}, {"reason": "done"}),
    "Stop": ({"stop_hook_active": False}, {"last_assistant_message": "m"}, {"stop_hook_active": 0}),
    "StopFailure": (
        {"error": "rate_limit"},
        {"error_details": "d", "last_assistant_message": "m"},
        {"error": "overloaded"},
    ),
    "SubagentStart": ({"agent_id": "a", "agent_type": "t"}, {}, {"agent_id": 1}),
    "SubagentStop": (
        {"stop_hook_active": True, "agent_id": "a", "agent_transcript_path": "", "agent_type": "t"},
        {"last_assistant_message": "m"},
        {"agent_transcript_path": None},
    ),
    "PreCompact": ({"trigger": "auto", "custom_instructions": None}, {}, {"trigger": "now", "custom_instructions": 1}),
    "PostCompact": ({"trigger": "manual", "compact_summary": "s"}, {}, {"compact_summary": None}),
    "PermissionRequest": (
        {"tool_name": "Bash", "tool_input": {}},
        {
            "permission_suggestions": [
                {
                    "type": "addRules",
                    "rules": [{"toolName": "Bash", "ruleContent": "ls"}],
                    "behavior": "allow",
                    "destination": "session",
                },
                {"type": "setMode", "mode": "plan", "destination": "userSettings"},
                {"type": "removeDirectories", "directories": ["/x"], "destination": "cliArg"},
            ]
        },
        {"permission_suggestions": [{"type": "addRules", "rules": [], "behavior": "maybe", "destination": "session"}]},
    ),
    "Setup": ({"trigger": "init"}, {}, {"trigger": "manual"}),
    "TeammateIdle": ({"teammate_name": "a", "team_name": "b"}, {}, {"team_name": 1}),
    "TaskCreated": (TASK, MORE, {"task_id": 1}),
    "TaskCompleted": (TASK, MORE, {"task_subject": 1}),
    "Elicitation": (
        {"mcp_server_name": "s", "message": "m"},
        {"mode": "form", "url": "u", "elicitation_id": "e", "requested_schema": {}},
        {"mode": "page", "requested_schema": []},
    ),
    "ElicitationResult": (
        {"mcp_server_name": "s", "action": "accept"},
        {"elicitation_id": "e", "mode": "url", "content": {}},
        {"action": "yes", "content": []},
    ),
    "ConfigChange": ({"source": "skills"}, {"file_path": "p"}, {"source": "settings"}),
    "InstructionsLoaded": (
        {"file_path": "p", "memory_type": "Local", "load_reason": "include"},
        {"globs": ["*"], "trigger_file_path": "p", "parent_file_path": "p"},
        {"memory_type": "local", "load_reason": "start", "globs": "x"},
    ),
    "WorktreeCreate": ({"name": "n"}, {}, {"name": 1}),
    "WorktreeRemove": ({"worktree_path": "p"}, {}, {"worktree_path": 1}),
    "CwdChanged": ({"old_cwd": "a", "new_cwd": "b"}, {}, {"new_cwd": None}),
    "FileChanged": ({"file_path": "p", "event": "unlink"}, {}, {"event": "rename"}),
}


def test_d35_the_events_are_the_closed_set_in_its_order() -> None:
    assert list(CLOSED) == list(APPENDIX_A)
    assert list(EVENTS) == [*APPENDIX_A, *NEWER]
    assert set(FIELDS) == set(APPENDIX_A)


def test_d36_the_script_notices_events_in_another_order(tmp_path: Path) -> None:
    """It is run on a copy of the source: as it is, then with two events in each other's places."""
    script, source = ROOT / "scripts" / "verify_hook_order.py", tmp_path / "src" / "adderclaw"
    (tmp_path / "scripts").mkdir()
    shutil.copy(script, tmp_path / "scripts")
    for name in ("config/foreign/hooks.py", "tools/hooks/catalogue.py"):
        (source / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / "src" / "adderclaw" / name, source / name)
    check = [sys.executable, str(tmp_path / "scripts" / script.name)]
    assert subprocess.run(check, capture_output=True, text=True).stdout == f"in order: {len(APPENDIX_A)} events\n"
    for name, line in (("config/foreign/hooks.py", '    "{}",\n'), ("tools/hooks/catalogue.py", '    "{}": Event(')):
        as_it_is = (source / name).read_text()
        swapped = as_it_is.replace(line.format("Stop"), "HERE").replace(line.format("Setup"), line.format("Stop"))
        (source / name).write_text(swapped.replace("HERE", line.format("Setup")))
        checked = subprocess.run(check, capture_output=True, text=True)
        assert (checked.returncode, name in checked.stdout) == (1, True), checked
        (source / name).write_text(as_it_is)


@rows("event", APPENDIX_A)
def test_appendices_a_and_b_row_by_row(event: str) -> None:
    assert said(EVENTS[event].fields) == ours(APPENDIX_A[event])
    arm = EVENTS[event].arm
    assert (None if arm is None else said(arm)) == (ours(APPENDIX_B[event]) if event in APPENDIX_B else None)


def test_what_every_event_says_and_every_answer_may() -> None:
    assert said(BASE) == ours(SEED["6: every event"])
    assert said(OUTPUT) == ours(SEED["B: beside that"])


@rows("event", APPENDIX_A)
def test_d97_to_d106_fields(event: str) -> None:
    least, more, wrong = FIELDS[event]
    spec = EVENTS[event].fields
    assert field_problems(spec, least) == []
    assert field_problems(spec, {**least, **more}) == []
    assert unknown_fields(spec, {**least, **more}) == []
    for name in least:
        without = {key: value for key, value in least.items() if key != name}
        assert field_problems(spec, without) == [f"{name} is missing"]
    for name, value in wrong.items():
        (problem,) = field_problems(spec, {**least, **more, name: value})
        assert problem.startswith(f"{name} must be ")


@rows("event", APPENDIX_A)
def test_d49_match_queries(event: str) -> None:
    queries: dict[str, list[str]] = SEED["5.1: matched by"]
    assert EVENTS[event].query == next((query for query, events in queries.items() if event in events), "")


@rows("event", APPENDIX_A)
def test_d58_default_timeouts(event: str) -> None:
    long = {"PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit"}
    wanted = 600.0 if event in long else 1.5 if event == "SessionEnd" else 60.0
    assert EVENTS[event].seconds == wanted


UPDATE: list[tuple[Any, bool]] = [
    ({"type": "addRules", "rules": [{"toolName": "Read"}], "behavior": "deny", "destination": "localSettings"}, True),
    ({"type": "replaceRules", "rules": [], "behavior": "ask", "destination": "projectSettings"}, True),
    ({"type": "addDirectories", "directories": ["/a"], "destination": "session"}, True),
    ({"type": "setMode", "mode": "auto", "destination": "session"}, False),
    ({"type": "setMode", "mode": "plan"}, False),
    ({"type": "addRules", "rules": [{"ruleContent": "x"}], "behavior": "allow", "destination": "session"}, False),
    ({"type": "dropRules", "destination": "session"}, False),
    ("addRules", False),
]


@rows(("update", "fits"), UPDATE)
def test_d110_permission_updates(update: Any, fits: bool) -> None:
    spec = EVENTS["PermissionRequest"].fields
    data: Json = {"tool_name": "x", "tool_input": {}, "permission_suggestions": [update]}
    assert (field_problems(spec, data) == []) == fits
