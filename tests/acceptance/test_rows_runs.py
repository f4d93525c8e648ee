"""Rows on workflows, services and telemetry that were only partly kept, through the installed program."""

import json
import os
import signal
import subprocess
import threading
from typing import Any

from tests.acceptance.world import World, call, text
from tests.program import PROGRAM
from tests.scripted import ScriptedModel

FLOW = """NAME report
INPUT topic
AGENT critic "You are a harsh critic of $topic."
GOAL research "Find out about $topic"
GOAL write "Write it up" USING critic
RUN main USING research, write
"""


def workflow(world: World, model: ScriptedModel, more: str = "") -> None:
    entry = f'[providers.models.s]\nkind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
    world.configure("full", more=entry + more)
    (world.workspace / "Agentfile").write_text(FLOW)
    world.cli.cwd = world.workspace


def achieved(summary: str) -> dict[str, object]:
    return call("GoalResult", achieved=True, summary=summary)


# ------------------------------------------------------------------ H-02: as a service


def test_25_h02_it_runs_as_a_service_without_a_terminal(world: World) -> None:
    """In a session of its own, without stdin, HOME or TERM, ended by the manager's SIGTERM."""
    with ScriptedModel([{"hang": 60}]) as model:
        workflow(world, model)
        env = {"PATH": os.environ["PATH"], "ADDERCLAW_HOME": str(world.cli.data)}
        argv = [str(PROGRAM), "run", "Agentfile", "--input", "topic=x", "--provider", "s"]
        service = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=world.workspace,
            start_new_session=True,
        )
        asked = threading.Event()
        while not asked.wait(0.05) and service.poll() is None:
            if model.requests:
                asked.set()
        service.send_signal(signal.SIGTERM)
        _, err = service.communicate(timeout=60)
    assert service.returncode == 143, err
    assert world.rows("SELECT outcome FROM runs WHERE kind = 'agentfile'") == [("stopped",)]


# ------------------------------------------------------------------ H-05, H-11, H-14: a goal


def test_25_h05_a_goal_has_its_persona_the_state_its_tools_and_its_signal(world: World) -> None:
    steps = [call("Time"), achieved("heliotrope is a colour"), call("LS", path="."), achieved("written")]
    with ScriptedModel(steps) as model:
        workflow(world, model)
        done = world.cli("run", "Agentfile", "--input", "topic=colours", "--provider", "s")
        assert (done.code, done.out) == (0, "written\n"), done.err
        first, _, third, _ = (request.messages for request in model.requests)
    assert "Find out about colours" in first[-1]["content"]
    assert "harsh critic" not in json.dumps(first)
    assert "You are a harsh critic of colours." in third[0]["content"]
    assert third[0]["role"] == "system"
    asked = third[-1]["content"]
    assert "Write it up" in asked
    assert "heliotrope is a colour" in asked, "the state: what earlier goals came to"
    results = world.rows("SELECT goal, json_extract(result_json, '$.summary') FROM workflow_results")
    assert results == [("research", "heliotrope is a colour"), ("write", "written")]


MESSAGE = {"goal", "role", "agent", "content", "tool_calls", "tokens", "latency", "model", "iteration"}
RECORD = {"schema_version", "agent_id", "session_id", "workflow_name", "timestamp", "type", "data"}


def test_25_h11_every_message_is_a_record_of_the_whole_schema(world: World) -> None:
    for content in ("false", "true"):
        file = world.cli.home / f"telemetry-{content}.jsonl"
        with ScriptedModel([{**call("Time"), "text": "Let me see."}, achieved("noon"), achieved("written")]) as model:
            more = f'[telemetry]\nenabled = true\nprotocol = "file"\npath = "{file}"\ninclude_content = {content}\n'
            workflow(world, model, more)
            assert world.cli("run", "Agentfile", "--input", "topic=x", "--provider", "s").code == 0
        records = [json.loads(line) for line in file.read_text().splitlines()]
        assert all(record.keys() == RECORD for record in records)
        assert {record["type"] for record in records} == {"message", "log"}
        said = [record["data"] for record in records if record["type"] == "message"]
        assert all(data.keys() == MESSAGE for data in said), said[0]
        assert [(data["role"], data["tool_calls"]) for data in said[:3]] == [
            ("user", []),
            ("assistant", ["Time"]),
            ("tool", ["Time"]),
        ]
        assert {data["goal"] for data in said} == {"research", "write"}
        assert said[1]["content"] == ("Let me see." if content == "true" else "11 characters")
        assert ("Find out about x" in said[0]["content"]) == (content == "true")
        assert said[1]["tokens"]["input"] >= 0
        assert said[1]["model"] == "m"


def test_25_h14_notes_are_kept_in_a_run_and_read_in_the_next(world: World) -> None:
    world.script(call("memory_write", key="colour", value="heliotrope"), achieved("kept"))
    world.configure()
    world.cli.cwd = world.workspace
    (world.workspace / "Agentfile").write_text('NAME keep\nGOAL keep "Keep it"\nRUN main USING keep\n')
    done = world.cli("run", "Agentfile")
    assert done.code == 0, done.err
    assert "Approve?" not in done.err, "allowed, as seed 004 has it"
    world.script(call("memory_read", key="colour"), call("memory_read", key="sound"), text("{{last_result}}"))
    assert world.agent("which colour?").code == 0
    found, missing = world.entries("tool_result")[-2:]
    assert (found["content"], found["is_error"]) == ("heliotrope", False)
    assert missing["is_error"]
    world.script(call("memory_write", key="colour", value="mauve"), text("ok"))
    asked = world.agent("keep it", stdin="n\n")
    assert "Approve? [y/N]" in asked.err, "in a conversation a note is asked about: later ones are told of it"
    (world.cli.data / "policy.toml").write_text("default_deny = true\n[memory_read]\nenabled = true\n")
    world.script(call("memory_read", key="colour"), text("{{last_result}}"))
    assert world.agent("which colour?").out == "heliotrope\n"


# ------------------------------------------------------------------ H-21: JSON-RPC


def test_25_h21_a_workflow_runs_over_json_rpc_as_an_mcp_client_speaks(world: World) -> None:
    with ScriptedModel([call("Time"), achieved("noon"), achieved("written")]) as model:
        workflow(world, model)
        params = {"workflow": "Agentfile", "inputs": {"topic": "x"}, "provider": "s"}
        asked = [
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 1, "method": "validate", "params": {"workflow": "Agentfile"}},
            {"jsonrpc": "2.0", "id": 2, "method": "run", "params": params},
        ]
        done = world.cli.start("rpc", cwd=world.workspace)
        assert done.stdin is not None
        assert done.stdout is not None
        done.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in asked))
        done.stdin.flush()
        heard: list[dict[str, Any]] = []
        for line in done.stdout:
            heard.append(json.loads(line))
            if heard[-1].get("id") == 2:
                break
        done.communicate(timeout=60)
    answers = {one["id"]: one.get("result") for one in heard if "id" in one}
    assert set(answers) == {1, 2}, "a notification has no answer"
    assert '"valid": true' in json.dumps(answers[1])
    assert '"outcome": "completed"' in json.dumps(answers[2])
    events = [one["params"] for one in heard if one.get("method") == "event"]
    told = [one["event_type"] for one in events]
    kept = [kind for kind in told if kind in ("goal_started", "tool_call", "goal_complete")]
    assert kept == [
        "goal_started",
        "tool_call",
        "tool_call",
        "goal_complete",
        "goal_started",
        "tool_call",
        "goal_complete",
    ]
