"""Every hook event fires where it happens, through the installed program, with the fields of the specification."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text
from tests.tools.hooks.test_catalogue import APPENDIX_A, FIELDS

type Heard = list[dict[str, Any]]
BASE = {"hook_event_name", "session_id", "conversation_id", "runtime_db_path", "cwd", "session_cwd", "permission_mode"}
SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"
ELSEWHERE = {"StopFailure", "Elicitation", "ElicitationResult"}
"""Fired by the other tests of this file."""
NEWER = {"PostToolBatch", "PreModelSwitch", "PostModelSwitch", "DirectoryAdded", "MessageDisplay"}
SHOWN = {"hookSpecificOutput": {"hookEventName": "MessageDisplay", "displayContent": "SHOWN INSTEAD"}}


def listen(world: World, *events: str, **more: str) -> None:
    """A hook for each event that writes down what it is told; `more` has commands that do something beside that."""
    log = f"{world.cli.home}/heard"  # hooks of a child run beside those of its parent
    keep = f"{{ flock 9; cat; echo; }} 9>> {log}.lock >> {log}"
    made: dict[str, Any] = {}
    for event in events:
        matcher = "watched.txt" if event == "FileChanged" else ""
        command = "; ".join((keep, *([more[event]] if event in more else [])))
        made[event] = [{"matcher": matcher, "hooks": [{"type": "command", "command": command, "shell": "sh"}]}]
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": made}))


def heard(world: World) -> Heard:
    log = world.cli.home / "heard"
    return [json.loads(line) for line in log.read_text().split("\n") if line] if log.exists() else []


def fits(told: dict[str, Any]) -> None:
    """The base fields, the event's own, and no other."""
    event = told["hook_event_name"]
    assert "transcript_path" not in told
    assert set(told) >= BASE
    if event not in FIELDS:
        return
    least, more, _ = FIELDS[event]
    own = set(told) - BASE - ({"agent_id", "agent_type"} - set(least))
    assert set(least) <= own <= set(least) | set(more), (event, own)


WAITING = "waiting-for-the-helper"
STEPS = [
    {  # the text is what a summary of the conversation is, too: that is a conversation of its own
        "text": "A SUMMARY",
        "tool_calls": [
            {"name": "LS", "arguments": {"path": "."}},
            {"name": "Read", "arguments": {"file_path": "missing"}},
        ],
    },
    call("Write", file_path="a.txt", content="x"),
    call("Bash", command="mkdir -p sub && cd sub"),
    call("Bash", command="cd .. && echo x > watched.txt"),
    call("TaskCreate", subject="one", description="the first"),
    call("TaskUpdate", taskId="1", status="completed"),
    {"tool_calls": [{"name": "EnterWorktree", "arguments": {"name": "apart"}}]},
    call("ExitWorktree", action="remove"),
    call("Agent", description="a helper", prompt="look", model="helper", run_in_background=True),
    text(WAITING),
    text("first answer"),
    text("second answer"),
]


@pytest.fixture
def busy(world: World) -> World:
    """A repository with instructions, a second model, and a rule that asks."""
    fixture = world.fixture.with_name("helper.json")
    fixture.write_text(json.dumps({"steps": [text("helped")], "partial": True}))
    helper = f'[providers.models.helper]\nkind = "mock"\nmodel = "mock"\nfixture = "{fixture}"\n'
    world.configure("full", more=f'{helper}[permissions]\nask = ["Write"]')
    (world.workspace / "AGENTS.md").write_text("Be brief.\n")
    git = ["git", "-C", str(world.workspace), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return world


def test_d35_every_event_fires_where_it_happens(busy: World) -> None:
    settings, root = busy.cli.data / "settings.json", busy.workspace
    beside = busy.workspace.with_name("beside")
    beside.mkdir()
    skill = busy.cli.data / "skills" / "tidy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidy up.\n---\nTidy up.\n")
    commands = {"Stop": f"touch {settings} {skill}", "PostToolBatch": "echo batch-words >&2"}
    # the helper ends only when its parent waits for it: else the parent would be told before it has anything to say
    waits = f"{WAITING[:-1]}[{WAITING[-1]}]"  # not found in this command, which is a row itself
    commands["SubagentStop"] = f"until grep -q '{waits}' {busy.database}*; do sleep 0.05; done"
    listen(busy, *APPENDIX_A, *NEWER, **commands, MessageDisplay=f"echo '{json.dumps(SHOWN)}'")
    busy.script(*STEPS)
    typed = ["hello", "n", "again", "/model local/other", "/compact the colours"]
    typed += ["/add-dir nowhere", f"/add-dir {beside}", "/policy", "/exit"]
    done = busy.cli.typed("agent", stdin="\n".join([*typed, ""]), timeout=120)
    assert done.code == 0, done.err
    assert "'nowhere' is not a directory" in done.err
    assert done.out.count(str(beside)) == 2, "it is said, and /policy names it"
    assert done.out.count("SHOWN INSTEAD") == 2
    assert "second answer" not in done.out
    assert "second answer" in json.dumps(busy.entries("assistant")), "the answer itself stays as it is"
    told = heard(busy)
    for one in told:
        fits(one)
    names = [one["hook_event_name"] for one in told]
    assert set(APPENDIX_A) - set(names) == ELSEWHERE
    assert set(names) >= NEWER
    assert names[:3] == ["Setup", "SessionStart", "UserPromptSubmit"]
    assert names[-1] == "SessionEnd"
    first = {name: next(one for one in told if one["hook_event_name"] == name) for name in names}
    assert first["Setup"]["trigger"] == "init"
    assert first["SessionEnd"]["reason"] == "prompt_input_exit"
    assert first["PreCompact"]["custom_instructions"] == "the colours"
    assert first["PostCompact"]["compact_summary"] == "A SUMMARY"
    assert [one["source"] for one in told if one["hook_event_name"] == "SessionStart"] == ["startup", "compact"]
    assert [call["tool_name"] for call in first["PostToolBatch"]["tool_calls"]] == ["LS", "Read"]
    assert first["DirectoryAdded"] | {"directory": str(beside), "source": "slash_command"} == first["DirectoryAdded"]
    assert (first["MessageDisplay"]["final"], first["MessageDisplay"]["index"]) == (True, 0)
    assert first["TeammateIdle"]["teammate_name"] == "a helper"
    assert first["SubagentStop"]["agent_transcript_path"] == ""
    assert first["SubagentStop"]["last_assistant_message"] == "helped"
    assert (first["CwdChanged"]["old_cwd"], first["CwdChanged"]["new_cwd"]) == (str(root), str(root / "sub"))
    assert first["FileChanged"]["file_path"] == str(root / "watched.txt")
    instructions = {"file_path": str(root / "AGENTS.md"), "memory_type": "Project", "load_reason": "session_start"}
    assert first["InstructionsLoaded"] | instructions == first["InstructionsLoaded"]
    created = {"task_id": "1", "task_subject": "one", "task_description": "the first"}
    assert first["TaskCreated"] | created == first["TaskCreated"]
    assert first["TeammateIdle"]["team_name"] == ""
    assert first["WorktreeCreate"]["name"] == "apart"
    assert (first["PreModelSwitch"]["to_model"], first["PostModelSwitch"]["from_model"]) == ("other", "mock")
    assert first["ConfigChange"] | {"source": "user_settings", "file_path": str(settings)} == first["ConfigChange"]
    changed = {(one["source"], one["file_path"]) for one in told if one["hook_event_name"] == "ConfigChange"}
    assert changed == {("user_settings", str(settings)), ("skills", str(skill))}
    rows = busy.rows("SELECT hook_event, count(*) FROM hook_invocations GROUP BY hook_event")
    assert dict(rows) == {name: names.count(name) for name in set(names)}, "every invocation is a row"


def test_setup_is_told_once_of_a_project_and_when_maintenance_is_wanted(world: World) -> None:
    listen(world, "Setup")
    world.script(text("done"))
    assert world.agent("go").code == 0
    assert world.agent("go").code == 0
    assert world.agent("go", "--maintenance").code == 0
    assert [one["trigger"] for one in heard(world)] == ["init", "maintenance"]


def test_a_model_that_cannot_be_asked_fires_stop_failure(world: World) -> None:
    world.configure(more='[providers.models.cloud]\nkind = "anthropic"\nmodel = "m"')
    listen(world, "StopFailure")
    assert world.agent("hello", "--provider", "cloud").code == 1
    (told,) = heard(world)
    fits(told)
    assert told["error"] == "authentication_failed"


def test_questions_of_servers_are_told_and_may_be_answered(world: World, needs: Callable[[str], str]) -> None:
    needs("bwrap")
    world.configure("full", more=f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n')
    answer = {"hookEventName": "Elicitation", "action": "accept", "content": {"colour": "green"}}
    said = json.dumps({"hookSpecificOutput": answer})
    once = f"test -e answered || {{ touch answered; echo '{said}'; }}"
    listen(world, "Elicitation", "ElicitationResult", "Notification", Elicitation=once)
    steps = [call("mcp__demo__ask"), call("mcp__demo__ask"), call("AskUserQuestion", question="Which way?")]
    world.script(*steps, call("EnterPlanMode"), call("ExitPlanMode", plan="Go."), text("asked"))
    done = world.agent("go")
    assert "green" in json.dumps(world.entries("tool_result")), done.err
    told = heard(world)
    for one in told:
        fits(one)
    asked = [one["mcp_server_name"] for one in told if one["hook_event_name"].startswith("Elicitation")]
    assert asked == ["demo"] * 4
    kinds = [(one["notification_type"], one["message"]) for one in told if one["hook_event_name"] == "Notification"]
    assert kinds[:2] == [("elicitation_dialog", "Which colour?"), ("agent_needs_input", "Which way?")]
    assert [kind for kind, _ in kinds[2:]] == ["permission_prompt"], "what a hook answered, nobody was asked"
