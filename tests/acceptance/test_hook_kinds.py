"""Hooks that are no commands: asked over HTTP, of a model, of an agent; and hooks around compaction and batches."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from adderclaw import AgentClient, QueryOptions
from tests.acceptance.world import World, add_skill, call, text
from tests.scripted import ScriptedModel

ORDER = Path(__file__).resolve().parents[2] / "scripts" / "verify_hook_order.py"
DENIAL = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}


def user(world: World, **events: dict[str, Any] | list[dict[str, Any]]) -> None:
    made = {event: [{"hooks": given if isinstance(given, list) else [given]}] for event, given in events.items()}
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": made}))


def command(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": text, "shell": "sh", **more}


def ends(world: World, event: str = "PreToolUse") -> list[tuple[int | None, str]]:
    return world.rows("SELECT exit_code, stderr_text FROM hook_invocations WHERE hook_event = ? ORDER BY id", event)


def judge(world: World, *answers: str, more: str = "") -> None:
    """A second model, which hooks may ask."""
    fixture = world.fixture.with_name("judge.json")
    fixture.write_text(json.dumps({"steps": [text(answer) for answer in answers], "partial": True}))
    entry = f'[providers.models.judge]\nkind = "mock"\nmodel = "mock"\nfixture = "{fixture}"\n'
    world.configure("full", more=entry + more)


# ------------------------------------------------------------------ http


class Answering(ThreadingHTTPServer):
    """Answers each path as its table says, and remembers what was posted."""

    daemon_threads = True

    def __init__(self, table: dict[str, tuple[int, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.table = table
        self.posted: list[tuple[dict[str, str], dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Answering)
        body = self.rfile.read(int(self.headers["content-length"]))
        server.posted.append((dict(self.headers), json.loads(body)))
        status, answer = server.table[self.path]
        self.send_response(status)
        if status == 302:
            self.send_header("location", f"{server.url}/deny")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def answering() -> Generator[Answering]:
    table = {
        "/fine": (200, b""),
        "/deny": (200, json.dumps(DENIAL).encode()),
        "/words": (200, b"no JSON at all"),
        "/error": (500, json.dumps(DENIAL).encode()),
        "/moved": (302, b""),
        "/broken": (200, b"{broken"),
        "/async": (200, b'{"async": true}'),
        "/long": (200, b'{"reason": "' + b"x" * 5_000_000 + b'"}'),
    }
    with Answering(table) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_http_hooks_only_an_answer_of_2xx_has_a_say(world: World, answering: Answering) -> None:
    paths = ["/error", "/words", "/moved", "/broken", "/async", "/fine"]
    urls = [f"{answering.url}{path}" for path in paths] + ["http://127.0.0.1:9/", "ftp://127.0.0.1/"]
    user(world, PreToolUse=[{"type": "http", "url": url} for url in urls])
    request = json.dumps({"tool": "LS", "input": {"path": "."}})
    assert world.cli("--eval", request).code == 0
    said = ends(world)
    assert [code for code, _ in said] == [None, None, None, 0, 0, 0, None, None]
    assert "answered 500" in said[0][1]
    assert "not a JSON object" in said[1][1]
    assert "302" in said[2][1]
    user(world, PreToolUse={"type": "http", "url": f"{answering.url}/long"})
    assert "more than the limit" in world.cli("--eval", request).err
    headers = {"Authorization": "Bearer $TOKEN", "X-Other": "${HOME}"}
    hook = {"type": "http", "url": f"{answering.url}/deny", "headers": headers, "allowedEnvVars": ["TOKEN"]}
    user(world, PreToolUse=hook)
    answering.posted.clear()
    assert world.cli("--eval", request, env={"TOKEN": "abc"}).code == 3
    ((got, body),) = answering.posted
    assert (got["Authorization"], got["X-Other"]) == ("Bearer abc", "")
    assert (body["hook_event_name"], body["tool_name"]) == ("PreToolUse", "LS")


# ------------------------------------------------------------------ a model, an agent

PROMPTS: list[tuple[str, dict[str, Any], str, int, str]] = [
    # what the model answers, more of the hook, the event, the exit code, what the operator is told
    ('{"ok": true}', {}, "PreToolUse", 0, ""),
    ('```json\n{"ok": false, "reason": "not that"}\n```', {}, "PreToolUse", 3, "not that"),
    ('{"ok": false, "reason": "look again"}', {"continueOnBlock": True}, "PreToolUse", 3, "look again"),
    ("I would rather not say", {}, "PreToolUse", 0, ""),
    ('{"ok": "perhaps"}', {}, "PreToolUse", 0, ""),
    ('{"ok": false, "reason": "enough"}', {"model": "haiku"}, "PostToolUse", 3, "enough"),
    ('{"ok": false, "reason": "not now"}', {}, "UserPromptSubmit", 3, "not now"),
    ('{"ok": false, "reason": "no"}', {}, "PermissionDenied", 0, ""),
    ('{"ok": false, "impossible": true}', {}, "Stop", 0, ""),
]


def test_a_question_to_the_small_model_leaves_the_session_as_it_was(world: World) -> None:
    judge(world, '{"ok": true}', more='[providers]\nsmall = "judge"\n')
    user(world, UserPromptSubmit={"type": "prompt", "prompt": "Is $ARGUMENTS fine?"})
    world.script(call("Agent", prompt="look", description="looks"), text("done"))
    done = world.agent("hello")
    assert (done.code, done.out) == (0, "done\n"), done.err
    asked = world.rows(
        "SELECT response_json LIKE '%purpose%', count(*) FROM model_calls WHERE provider = 'judge' GROUP BY 1"
    )
    assert asked == [(1, 1)], "the hook asks the small model once, and no subagent is given it"


@pytest.mark.parametrize(("answer", "more", "event", "code", "said"), PROMPTS)
def test_prompt_hooks(world: World, answer: str, more: dict[str, Any], event: str, code: int, said: str) -> None:
    judge(world, answer, more='[providers]\nsmall = "judge"\n')
    user(world, **{event: {"type": "prompt", "prompt": "Is $ARGUMENTS fine?", **more}})
    world.script(call("LS", path="."), text("done"))
    done = world.agent("hello")
    assert done.code == code, done.err
    assert said in done.err
    ends_turn = code == 3 and not more.get("continueOnBlock")
    assert done.out == ("" if ends_turn else "done\n")
    if event == "PreToolUse":
        denied = '"ok": false' in answer
        assert world.entries("tool_result")[0]["is_error"] is denied
    purposes = world.rows('SELECT response_json FROM model_calls WHERE response_json LIKE \'%"purpose":"hook"%\'')
    assert len(purposes) == (0 if event == "PermissionDenied" else 1), "each question is a row, within the budget"


def test_agent_hooks_look_but_change_nothing_and_never_call_for_themselves(world: World) -> None:
    answers = [call("Write", file_path="evil.txt", content="x"), call("Read", file_path="a.txt")]
    fixture = world.fixture.with_name("judge.json")
    verdict = text('{"ok": false, "reason": "a.txt says no"}')
    fixture.write_text(json.dumps({"steps": [*answers, verdict], "partial": True}))
    world.configure("full", more=f'[providers.models.judge]\nkind = "mock"\nmodel = "mock"\nfixture = "{fixture}"\n')
    (world.workspace / "a.txt").write_text("no\n")
    agent = {"type": "agent", "prompt": "May it?", "model": "judge", "continueOnBlock": True}
    (world.cli.data / "settings.json").write_text(
        json.dumps(
            {
                "hooks": {
                    "PreToolUse": [{"matcher": "LS", "hooks": [agent]}],
                    "SubagentStart": [{"hooks": [agent]}],
                    "SubagentStop": [{"hooks": [agent]}],
                }
            }
        )
    )
    world.script(call("LS", path="."), text("done"))
    done = world.agent("hello")
    assert done.code == 3, done.err
    assert not (world.workspace / "evil.txt").exists()
    assert world.rows("SELECT agent_type, outcome FROM subagents") == [("hook", "completed")]
    assert ends(world, "SubagentStop") == []
    first = world.rows("SELECT payload_json FROM transcript_entries WHERE payload_json LIKE '%a.txt says no%'")
    assert first


# ------------------------------------------------------------------ a server's tool

SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"


def tool_of(server: str, tool: str, matcher: str = "", **given: Any) -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "mcp_tool", "server": server, "tool": tool, "input": given}]}


def test_a_servers_tool_as_a_hook_is_a_call_like_any_other(world: World, needs: Callable[[str], str]) -> None:
    needs("bwrap")
    table = f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n'
    world.configure(more=f'{table}[permissions]\nallow = ["mcp__demo__ask"]\ndeny = ["mcp__demo__write"]\n')
    denial = json.dumps({**DENIAL["hookSpecificOutput"], "permissionDecisionReason": "not in ${tool_input.path}"})
    there = str(world.workspace / "x.txt")
    hooks = {
        "UserPromptSubmit": [tool_of("Demo", "echo", text="SAID: ${prompt} ${nothing.here}")],
        "PreToolUse": [
            tool_of("demo", "echo", "LS", text=f'{{"hookSpecificOutput": {denial}}}'),
            tool_of("demo", "fail", "Glob"),
            tool_of("demo", "nowhere", "Glob"),
            tool_of("absent", "echo", "Glob", text="x"),
            tool_of("demo", "add", "Glob", a="two"),
            tool_of("demo", "write", "Glob", path=there, text="x"),
        ],
        "Elicitation": [tool_of("demo", "ask")],
    }
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": hooks}))
    world.script(call("LS", path="."), call("Glob", pattern="*"), call("mcp__demo__ask"), text("done"))
    done = world.agent("hello")
    assert done.out == "done\n", done.err
    assert "SAID: hello" in json.dumps(world.entries("user")[0])
    own = "SELECT payload_json FROM transcript_entries WHERE entry_type = 'tool_result' AND session_id NOT IN"
    results = [json.loads(row[0]) for row in world.rows(f"{own} (SELECT session_id FROM subagents) ORDER BY id")]
    assert "not in ." in results[0]["content"]
    assert [result["is_error"] for result in results] == [True, False, False]
    said = [error for code, error in ends(world)[1:] if code is None]
    wanted = ["Error executing tool fail", "no tool", "no tool", "do not fit", "Denied by permission rules"]
    assert len(said) == len(wanted)
    for words, error in zip(wanted, said, strict=True):
        assert words in error
    assert not Path(there).exists()
    asked = ends(world, "Elicitation")
    assert [code for code, _ in asked] == [None, 0], "the question that its own tool asks calls it no second time"
    tools = [(one["tool"], one["status"]) for one in world.receipts() if one["tool"].startswith("mcp__demo")]
    assert tools == [
        *[("mcp__demo__echo", "allowed")] * 2,
        *(("mcp__demo__fail", "failed"), ("mcp__demo__add", "failed"), ("mcp__demo__write", "denied")),
        *[("mcp__demo__ask", "allowed")] * 2,
    ]
    assert world.cli("receipt", "verify").code == 0
    ((run,),) = world.rows("SELECT run_id FROM runs")
    proved = world.cli("replay", run, "--verify")
    assert proved.code == 0, proved.out + proved.err


def test_a_servers_tool_is_called_for_a_decision_and_beside_the_turn_each_time(
    world: World, needs: Callable[[str], str]
) -> None:
    needs("bwrap")
    world.configure(more=f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n')
    beside = tool_of("demo", "slow", "LS", seconds=300)
    beside["hooks"][0]["async"] = True
    hooks = {"PreToolUse": [tool_of("demo", "echo", "Decision", text="heard"), beside]}
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": hooks}))
    finish = {"type": "finish", "params": {"answer": "all done"}}
    add_skill(world.workspace / "skills")
    made: dict[str, Any] = {"selected_skill": None, "reasoning_summary": "It is.", "required_disclosure_paths": []}
    world.script(call("Decision", **made, planned_actions=[finish]))
    done = world.cli("run", "Say that it is done")
    assert done.code == 0, done.err
    assert ends(world) == [(0, "")], "the model may only decide; the hook has all tools"
    ((run,),) = world.rows("SELECT run_id FROM runs")
    proved = world.cli("replay", run, "--verify")
    assert proved.code == 0, proved.out + proved.err
    last = tool_of("demo", "echo", "", text="${reason}")
    last["hooks"][0]["timeout"] = 60
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": {**hooks, "SessionEnd": [last]}}))
    world.script(call("LS", path="."), call("LS", path="."), text("done"))
    assert world.agent("look twice").out == "done\n"
    assert "not called again" not in str(ends(world)), "one that is under way keeps no other from its call"
    assert ends(world)[1:] == [(None, "interrupted before it ended")] * 2, "they end before the server does"
    assert ends(world, "SessionEnd") == [(0, "")]
    told = [json.loads(row[0]) for row in world.rows("SELECT detail FROM events WHERE event_type = 'mcp_server'")]
    (_, asked) = dict.fromkeys(one["run_id"] for one in told)
    assert [one["state"] for one in told if one["run_id"] == asked] == ["starting", "ready", "closed"]


# ------------------------------------------------------------------ what hooks say reaches the model at once


def told(model: ScriptedModel, step: int) -> str:
    return json.dumps(model.requests[step].json["messages"][-2:])


def remote(world: World, url: str, **more: Any) -> None:
    entry = f'[providers.models.remote]\nkind = "openai-compatible"\nbase_url = "{url}"\nmodel = "m"\n'
    world.configure("full", rounds=60, more=entry + "\n".join(f"{name} = {value}" for name, value in more.items()))


def test_a_batch_hook_speaks_with_the_results_and_may_end_the_turn(world: World) -> None:
    context = {"hookSpecificOutput": {"hookEventName": "PostToolBatch", "additionalContext": "BATCH-WORDS"}}
    user(world, PostToolBatch=command(f"cat >/dev/null; echo '{json.dumps(context)}'"))
    calls = {"tool_calls": [{"name": "LS", "arguments": {"path": "."}}]}
    with ScriptedModel([calls, {"text": "done"}]) as model:
        remote(world, model.base_url)
        assert world.agent("go", "--provider", "remote").code == 0
    assert "BATCH-WORDS" in told(model, 1)
    assert "BATCH-WORDS" in json.dumps(world.entries("attachment")), "who resumes tells it again"
    user(world, PostToolBatch=command("echo stop here >&2; exit 2"))
    world.script(call("LS", path="."), text("never"))
    done = world.agent("go")
    assert (done.code, "stop here" in done.err) == (3, True)


@pytest.mark.parametrize("refuses", [True, False])
def test_hooks_around_a_compaction(world: World, refuses: bool) -> None:
    (world.workspace / "big.txt").write_text("\n".join(f"line {n} " + "x" * 60 for n in range(120)))
    steps: list[Any] = [
        {"tool_calls": [{"name": "Read", "arguments": {"file_path": "big.txt", "offset": number + 1}}]}
        for number in range(6)
    ]
    start = command('grep -q \'"source":"compact"\' && echo REMEMBER-THIS; true')
    user(world, PreCompact=command("exit 2" if refuses else "true"), PostCompact=command("true"), SessionStart=start)
    with ScriptedModel([*steps, {"text": "done"}], aside={"Write the summary now.": {"text": "SUMMARY"}}) as model:
        remote(world, model.base_url, context_tokens=12_000)
        world.agent("go", "--provider", "remote")
    assert bool(ends(world, "PostCompact")) == (not refuses)
    assert ends(world, "PreCompact")[0][0] == (2 if refuses else 0)
    assert ("REMEMBER-THIS" in json.dumps([one.json["messages"] for one in model.requests])) == (not refuses)


# ------------------------------------------------------------------ the order of the rows, however hooks run


def test_d36_two_hundred_hooks_and_some_beside_the_turn_are_in_order(world: World) -> None:
    hooks = [command(f"echo {number} >> order") for number in range(200)]
    hooks[3:3] = [command("sleep 0.2", **{"async": True}), command("true", **{"async": True})]
    user(world, PreToolUse=hooks)
    done = world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}), timeout=120)
    assert done.code == 0, done.err
    assert list(map(int, (world.workspace / "order").read_text().split())) == list(range(200))
    checked = subprocess.run([sys.executable, str(ORDER), str(world.database)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    assert "202 rows" in checked.stdout


# ------------------------------------------------------------------ programs that embed us


def test_the_end_of_a_session_is_told_where_the_caller_has_a_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = command("sleep 30", **{"async": True})
    last = command("sleep 0.3; echo said", **{"async": True})
    user(world, SessionEnd=[command("cat > ended"), last], PreToolUse=beside)
    world.script(call("LS", path="."), text("done"))
    for name, value in world.cli.env.items():
        monkeypatch.setenv(name, value)

    async def ask() -> None:
        async for _ in AgentClient(QueryOptions(cwd=str(world.workspace))).query("go"):
            pass

    asyncio.run(ask())
    assert json.loads((world.workspace / "ended").read_text())["reason"] == "other"
    assert ends(world) == [(None, "interrupted before it ended")]
    assert ends(world, "SessionEnd") == [(0, ""), (0, "")], "where nothing follows, nothing runs beside it"
