"""MCP from the outside: the installed program, real servers in the real sandbox, and the program as a server."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import ElicitResult, ResourceTemplateReference

from tests.acceptance.test_replay import verified
from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text
from tests.program import PROGRAM
from tests.tools.mcp.node import EVERYTHING, needed, node

SCRIPT = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"
TABLE = (
    '[mcp_servers.demo]\ncommand = "{python}"\nargs = ["{script}"]\nenv = {{SECRET_TOKEN = "${{MY_TOKEN}}"{more}}}\n'
)
SECRET = "sk-very-secret-0123456789"


@pytest.fixture
def demo(world: World, needs: Callable[[str], str]) -> World:
    needs("bwrap")
    world.cli.env["MY_TOKEN"] = SECRET
    configure(world)
    return world


def configure(world: World, autonomy: str = "full", more: str = "") -> None:
    world.configure(autonomy, more=TABLE.format(python=sys.executable, script=SCRIPT, more=more))


def results(world: World) -> list[str]:
    return [entry["content"] for entry in world.entries("tool_result")]


# ------------------------------------------------------------------ as a client


def test_a_tool_runs_in_the_sandbox_behind_the_gate_with_a_receipt(demo: World) -> None:
    demo.script(
        call("mcp__demo__add", a=2, b=3),
        call("mcp__demo__environment"),
        call("mcp__demo__reach", path=str(demo.cli.data / "config.toml")),
        call("mcp__demo__write", path=str(demo.workspace / "x.txt"), text="hello"),
        call("mcp__demo__add", a="two", b=3),
        call("mcp__demo__nothing"),
        call("ToolSearch", query="add two numbers"),
        call("Call", tool="mcp__demo__add", input={"a": 4, "b": 5}),
        text("done"),
    )
    done = demo.agent("go")
    assert done.code == 0, done.err
    added, environment, reached, written, unfit, unknown, found, called = results(demo)
    assert added == "5"
    assert "SECRET_TOKEN" in environment
    assert "MY_TOKEN" not in environment.replace("SECRET_TOKEN", "")
    assert SECRET not in environment  # the redaction knows what stands under a secret's name
    assert "cannot:" in reached
    assert "written" in written
    assert (demo.workspace / "x.txt").read_text() == "hello"
    assert "do not fit" in unfit
    assert "no tool named" in unknown
    assert "mcp__demo__add" in found
    assert "frame" in demo.entries("tool_result")[6], "what a server says of its tools comes from outside"
    assert called == "9"
    statuses = ["allowed"] * 4 + ["failed"] * 2 + ["allowed"] * 2
    assert [receipt["status"] for receipt in demo.receipts()] == statuses
    assert demo.receipts()[-1]["tool"] == "mcp__demo__add"
    assert SECRET not in demo.log.read_text() + done.out + done.err
    verified(demo)


def test_supervised_asks_and_nobody_is_no(demo: World) -> None:
    configure(demo, "supervised")
    demo.script(call("mcp__demo__add", a=2, b=3), text("done"))
    done = demo.agent("go")
    assert done.code == 3
    assert "calls add of the MCP server demo" in done.err
    assert demo.receipts()[0]["risk"] == "medium"
    # approved by the operator, the server's own word that it only reads counts
    assert demo.cli("mcp", "approve", "demo").code == 0
    demo.script(call("mcp__demo__add", a=2, b=3), text("done"))
    assert demo.agent("go").code == 0


def test_a_changed_tool_is_off_and_said_everywhere(demo: World) -> None:
    assert demo.cli("mcp", "test", "demo").code == 0
    configure(demo, more=', SAYS = "Now with more."')
    demo.script(call("mcp__demo__add", a=2, b=3), text("done"))
    done = demo.agent("go")
    assert "mcp approve demo" in results(demo)[0]
    assert "warning" in done.err
    assert demo.receipts()[-1]["status"] == "denied"
    (row,) = json.loads(demo.cli("mcp", "list", "--output-format", "json").out)
    states = {tool["name"]: tool["state"] for tool in row["tools"]}
    assert (states["add"], states["write"]) == ("changed", "first_sight")
    assert "1 off until approved" in demo.cli("mcp", "list").out
    approved = json.loads(demo.cli("mcp", "approve", "demo", "add", "--output-format", "json").out)
    assert approved == {"name": "demo", "approved": ["add"]}
    assert "5" in demo.cli("tool", "run", "mcp__demo__add", "--json", '{"a": 2, "b": 3}').out


def test_a_repositorys_server_waits_for_trust(world: World, needs: Callable[[str], str]) -> None:
    needs("bwrap")
    (world.workspace / ".git").mkdir()
    entry: dict[str, Any] = {"command": sys.executable, "args": [str(SCRIPT)]}
    (world.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"Their": entry}}))
    world.configure("full")
    here = world.workspace
    assert "no MCP server" in world.cli("mcp", "list", cwd=here).out
    assert "not trusted" in world.cli("config", "validate", cwd=here).out
    assert world.cli("mcp", "test", "their", cwd=here).code == 2
    assert world.cli("trust", ".", cwd=here).code == 0
    tested = json.loads(world.cli("mcp", "test", "their", "--output-format", "json", cwd=here).out)
    assert (tested["ok"], tested["scope"]) == (True, str(here))
    entry["args"].append("--more")
    (world.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"Their": entry}}))
    assert "no MCP server" in world.cli("mcp", "list", cwd=here).out


def test_add_test_remove(demo: World) -> None:
    cli = demo.cli
    added = cli(
        "mcp", "add", "My Notes", "-e", "A_TOKEN=${A_TOKEN}", "--output-format", "json", "--", "python", "-x", "y"
    )
    assert json.loads(added.out)["entry"] == {
        "command": "python",
        "args": ["-x", "y"],
        "env": {"A_TOKEN": "${A_TOKEN}"},
    }
    assert cli("mcp", "add", "x", "-e", "A_TOKEN=abcdef", "--", "y").code == 2
    assert cli("mcp", "add", "x").code == 2
    assert cli("mcp", "add", "x", "--url", "nonsense").code == 2
    failed = cli("mcp", "test", "my_notes")
    assert failed.code == 1
    assert "A_TOKEN is not set" in failed.err
    assert cli("mcp", "remove", "my_notes").code == 0
    assert cli("mcp", "remove", "my_notes").code == 2
    assert [row["name"] for row in json.loads(cli("mcp", "list", "--output-format", "json").out)] == ["demo"]


def everything(port: int | None = None) -> list[str]:
    return [node(), str(needed(EVERYTHING)), *(["stdio"] if port is None else ["streamableHttp"])]


def test_the_everything_server_over_stdio_in_the_sandbox(world: World, needs: Callable[[str], str]) -> None:
    needs("bwrap")
    program, script, kind = everything()
    world.configure("full", more=f'[mcp_servers.every]\ncommand = "{program}"\nargs = ["{script}", "{kind}"]\n')
    world.script(
        call("mcp__every__get-sum", a=2, b=40),
        call("mcp__every__get-tiny-image"),
        call("mcp__every__get-structured-content", location="Chicago"),
        call("mcp__every__get-resource-links", count=2),
        call("mcp__every__get-roots-list"),
        call("ListMcpResources"),
        text("done"),
    )
    done = world.agent("go")
    assert done.code == 0, done.err
    added, _, structured, links, roots, resources = results(world)
    assert "42" in added
    assert "humidity" in structured
    assert "ReadMcpResource reads it" in links
    assert world.workspace.as_uri() in roots
    assert '"server": "every"' in resources


def test_the_everything_server_over_http(world: World) -> None:
    process, port = _listening()
    try:
        world.configure("full", more=f'[mcp_servers.every]\nurl = "http://127.0.0.1:{port}/mcp"\n')
        done = world.cli("tool", "run", "mcp__every__echo", "--json", '{"message": "over http"}')
        assert "Echo: over http" in done.out, done.err
    finally:
        process.kill()
        process.wait()


def _listening() -> tuple["subprocess.Popen[bytes]", int]:
    """The server on a port of its own: where another program was faster, it ends, and gets another."""
    quiet = subprocess.DEVNULL
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        env = {"PORT": str(port), "PATH": "/usr/bin"}
        process = subprocess.Popen(everything(port), env=env, stdout=quiet, stderr=quiet)
        for _ in range(1200):
            with socket.socket() as probe:
                if process.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        if process.poll() is None:
            return process, port
    raise AssertionError("the server does not start")


def test_in_the_repl(demo: World) -> None:
    bad = '[mcp_servers.bad]\ncommand = "/bin/sh"\nargs = ["-c", "echo broken \\u001b[31m >&2; exit 3"]\n'
    demo.configure("full", more=TABLE.format(python=sys.executable, script=SCRIPT, more="") + bad)
    demo.script(
        text("Hello Ann."),
        call("mcp__demo__echo", text="one"),
        text("refused"),
        call("mcp__demo__echo", text="two"),
        text("done"),
    )
    lines = ("/mcp demo", "/mcp__demo__greet Ann Lee", "/mcp__demo__greet", "/mcp__demo__none", "/mcp reconnect bad")
    more = ("/mcp disable demo", "go", "/mcp enable demo", "/mcp reconnect demo", "go", "/mcp frob", "/mcp login bad")
    done = demo.cli.typed("agent", stdin="".join(f"{line}\n" for line in (*lines, *more, "/exit")))
    assert done.code == 0, done.err
    assert "  /mcp__demo__greet WHO" in done.out
    assert re.search(r"^  echo$", done.out, re.MULTILINE), "its tools, too"
    assert demo.entries("user")[0]["content"][0]["text"] == "Please greet Ann Lee."
    assert "needs who: /mcp__demo__greet WHO" in done.err
    assert "has no such prompt" in done.err
    assert re.search(
        r"^bad +failed +0 tools  it ended with exit code 3; its last output: broken", done.out, re.MULTILINE
    )
    assert "\x1b" not in done.out
    assert re.search(r"^demo +disabled", done.out, re.MULTILINE)
    assert re.search(r"^demo +idle.*\ndemo +ready", done.out, re.MULTILINE)
    off, on = results(demo)
    assert "is disabled in this session" in off
    assert "two" in on
    assert "there is no MCP server 'frob'. Configured: demo, bad" in done.err
    assert "'bad' is a program: it takes its keys from its env" in done.err
    verified(demo)


def test_the_menu_has_prompts_of_servers_with_their_arguments(demo: World) -> None:
    demo.script(text("Hello Ann."))
    with Tmux(demo, "agent") as terminal:
        terminal.wait("full")
        terminal.write("/mcp reconnect demo")
        terminal.press("Enter")
        terminal.wait("demo             ready")
        terminal.write("/gree")
        terminal.wait("/mcp__demo__greet", "WHO  Greet somebody.")
        terminal.press("Tab")
        terminal.write(" Ann")
        terminal.press("Enter")
        terminal.wait("Hello Ann.")
        terminal.press("C-d")
        terminal.wait("left with 0")
    assert demo.entries("user")[0]["content"][0]["text"] == "Please greet Ann."


# ------------------------------------------------------------------ as a server


def test_serve_runs_calls_behind_the_same_gate(world: World) -> None:
    (world.workspace / "a.txt").write_text("inside")
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"approve": "b.txt" in params.message})

    async def work(ask: Any) -> list[tuple[bool, str]]:
        parameters = StdioServerParameters(
            command=str(PROGRAM), args=["mcp", "serve"], env=world.cli.env, cwd=world.workspace
        )
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def hear(params: Any) -> None:
            heard.put_nowait(f"{params.level}: {params.data}")

        async with Client(parameters, mode="legacy", elicitation_callback=ask, logging_callback=hear) as client:
            assert not (await client.call_tool("Brief", {"message": "halfway there"})).is_error
            assert await asyncio.wait_for(heard.get(), 60) == "notice: halfway there"
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"Read", "Write", "Bash"} <= set(names)
            made: list[tuple[bool, str]] = []
            for name, given in (
                ("Read", {"file_path": str(world.workspace / "a.txt")}),
                ("Read", {"file_path": "/etc/passwd"}),
                ("Write", {"file_path": str(world.workspace / "b.txt"), "content": "x"}),
                ("Write", {"file_path": str(world.workspace / "c.txt"), "content": "x"}),
                ("Nope", {}),
                ("Read", {"nonsense": 1}),
                ("Write", {"file_path": str(world.workspace / "d.txt"), "content": f"{'x' * 9_000} p\u0430ypal end"}),
                ("Write", {"file_path": str(world.workspace / "e.txt"), "content": "z" * 200_001}),
            ):
                result = await client.call_tool(name, given)
                made.append((result.is_error, getattr(result.content[0], "text", "")))
            return made

    with_person = asyncio.run(work(elicit))
    assert [error for error, _ in with_person] == [False, True, False, True, True, True, True, True]
    assert len(asked) == 3
    assert f"{'x' * 9_000} p\u0430ypal end" in asked[2]
    assert asked[2].endswith("\nletters of several alphabets in one word: p\\u{430}ypal")
    assert "too long to be shown whole" in with_person[7][1]
    assert (world.workspace / "b.txt").exists()
    assert not (world.workspace / "c.txt").exists()
    alone = asyncio.run(work(None))
    assert [error for error, _ in alone] == [False, True, True, True, True, True, True, True]
    assert "no_operator" in alone[3][1]
    assert len(world.receipts()) == 18
    assert {row[0] for row in world.rows("SELECT kind FROM runs")} == {"mcp"}


def test_serve_over_http_wants_the_token_and_this_machine(world: World) -> None:
    assert world.cli("mcp", "serve", "--http", "0.0.0.0:0").code == 2
    assert world.cli("mcp", "serve", "--http", "nonsense").code == 2
    process = world.cli.start(
        "mcp", "serve", "--http", "127.0.0.1:0", env={"ADDERCLAW_MCP_TOKEN": "a-token"}, cwd=world.workspace
    )
    try:
        assert process.stderr is not None
        address = ""
        for line in process.stderr:
            if found := re.search(rb"serving MCP on (\S+)", line):
                address = found[1].decode()
                break
        good = {"authorization": "Bearer a-token", "accept": "application/json, text/event-stream"}
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer wrong"}, 401),
            (good | {"host": "evil.example"}, 421),
            (good | {"origin": "https://evil.example"}, 403),
            (good, 200),
        ):
            assert httpx2.post(address, json=body, headers=headers, timeout=10).status_code == status, headers
    finally:
        process.terminate()
        assert process.wait(90) == 0


SKILL = "---\nname: greet\ndescription: says hello\n---\nSay hello to $ARGUMENTS.\n"


def test_serve_has_skills_as_prompts_and_the_record_to_read(world: World) -> None:
    skill = world.workspace / ".adderclaw" / "skills" / "greet" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    refuse = "grep -q Eve && { echo not Eve >&2; exit 2; } || true"
    world.configure(more=hooked(UserPromptExpansion=refuse))
    elsewhere = world.workspace.with_name("elsewhere")
    elsewhere.mkdir()
    world.script(call("Time"), text("told elsewhere"))
    assert world.agent("hello", "--workspace", str(elsewhere)).code == 0
    ((foreign,),) = world.rows("SELECT run_id FROM runs")
    link = world.workspace.with_name("link")
    link.symlink_to(world.workspace)
    world.script(text("it is sk-ant-api03-" + "Ab1" * 20))
    assert world.agent("hello", "--workspace", str(link)).code == 0
    told: list[str] = []

    async def work(client: Client) -> None:
        (prompt,) = (await client.list_prompts()).prompts
        assert (prompt.name, prompt.description) == ("greet", "says hello")
        said = (await client.get_prompt("greet", {"arguments": "Ada"})).messages[0].content
        assert "Say hello to Ada." in getattr(said, "text", "")
        await client.call_tool("Time", {})
        listed = [str(one.uri) for one in (await client.list_resources()).resources]
        assert listed == ["adderclaw://runs", "adderclaw://receipts"]
        (template,) = (await client.list_resource_templates()).resource_templates
        run, earlier = await document(client, "adderclaw://runs")
        assert earlier["answer"].startswith("it is [redacted")
        assert (run["kind"], run["status"]) == ("mcp", "running")
        (receipt,) = await document(client, "adderclaw://receipts")
        assert receipt["tool"] == "Time"
        assert (await document(client, f"adderclaw://runs/{run['run_id']}"))["receipts"] == [receipt]
        ref = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
        offered = await client.complete(ref, {"name": "run_id", "value": run["run_id"][:4]})
        assert offered.completion.values == [run["run_id"], earlier["run_id"]]
        for asking in (
            client.get_prompt("greet", {"arguments": "Eve"}),
            client.get_prompt("nobody", {}),
            client.read_resource("adderclaw://runs/20000101"),
            client.read_resource(f"adderclaw://runs/{foreign}"),
            client.read_resource("file:///etc/passwd"),
        ):
            with pytest.raises(MCPError) as refused:
                await asking
            told.append(str(refused.value))

    asyncio.run(served(world, work))
    for said, words in zip(told, ("not Eve", "no skill 'nobody'", *["there is no"] * 3), strict=True):
        assert words in said


async def document(client: Client, uri: str) -> Any:
    return json.loads(getattr((await client.read_resource(uri)).contents[0], "text", ""))


async def served[T](world: World, work: Callable[[Client], Awaitable[T]]) -> T:
    parameters = StdioServerParameters(
        command=str(PROGRAM), args=["mcp", "serve"], env=world.cli.env, cwd=world.workspace
    )
    async with Client(parameters, mode="legacy") as client:
        return await work(client)


def test_the_limits_hold_for_each_call_and_not_for_the_servers_life(world: World) -> None:
    world.configure(more="[limits]\ntool_calls = 1\nseconds = 3\n")
    (world.workspace / "a.txt").write_text("inside")

    async def work(client: Client) -> list[bool]:
        made: list[bool] = []
        for pause in (0.0, 0.0, 3.2):
            await asyncio.sleep(pause)
            made.append((await client.call_tool("Read", {"file_path": str(world.workspace / "a.txt")})).is_error)
        return made

    assert asyncio.run(served(world, work)) == [False, False, False]


def test_a_call_that_the_client_gives_up_is_ended_and_recorded(world: World) -> None:
    world.configure("full")

    async def work(client: Client) -> bool:
        slow = asyncio.ensure_future(client.call_tool("Bash", {"command": "sleep 60"}))
        while not world.entries("tool_use"):  # noqa: ASYNC110 - the rows are another process's
            await asyncio.sleep(0.05)
        slow.cancel()
        await asyncio.wait({slow})
        async with asyncio.timeout(20):  # the next one does not wait for it
            return (await client.call_tool("Time", {})).is_error

    assert asyncio.run(served(world, work)) is False
    assert [receipt["tool"] for receipt in world.receipts()] == ["Bash", "Time"]
    assert "interrupted" in results(world)[0]


# ------------------------------------------------------------------ what a server asks, and what comes late


def hooked(**commands: str) -> str:
    def table(event: str, command: str) -> str:
        return f"[[hooks]]\nhook_event_name = {json.dumps(event)}\nmatcher = ''\ncommand = {json.dumps(command)}\n"

    return "".join(table(event, command) for event, command in commands.items())


def arm(event: str, **said: Any) -> str:
    return f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': event, **said}})}'"


ASKED = f"""
n=$(cat ~/asked 2>/dev/null || echo 0); echo $((n + 1)) > ~/asked
case $n in
  0) ;;
  1) echo no questions >&2; exit 2 ;;
  2) {arm("Elicitation", action="cancel")} ;;
  *) {arm("Elicitation", action="accept", content={"colour": "red"})} ;;
esac
"""
ANSWERED = f"""
case $(cat ~/asked) in
  5) {arm("ElicitationResult", action="accept", content={"colour": "blue"})} ;;
  6) exit 2 ;;
esac
"""
"""Hooks that say something else each time: one leaves it to the person, who is not there."""


def test_hooks_may_answer_a_servers_question(demo: World) -> None:
    table = TABLE.format(python=sys.executable, script=SCRIPT, more="")
    demo.configure("full", more=table + hooked(Elicitation=ASKED, ElicitationResult=ANSWERED))
    wanted = ["cancel", "decline", "cancel", "colour='red'", "colour='blue'", "decline"]
    demo.script(*[call("mcp__demo__ask")] * len(wanted), text("done"))
    done = demo.agent("go")
    assert done.code == 0, done.err
    for said, result in zip(wanted, results(demo), strict=True):
        assert said in result
    rows = demo.rows("SELECT hook_event FROM hook_invocations ORDER BY id")
    assert [row[0] for row in rows] == ["Elicitation", "ElicitationResult"] * len(wanted)


def test_a_server_asks_our_model_only_where_it_may(demo: World) -> None:
    table = TABLE.format(python=sys.executable, script=SCRIPT, more="")
    friend = table.replace("demo", "friend", 1)
    demo.configure("full", more=f"{table}sampling = false\n{friend}sampling = true\n")
    # a question beside the conversation plays the script from its beginning
    demo.script({**call("mcp__demo__think"), **text("swordfish")}, call("mcp__friend__think"), text("done"))
    done = demo.agent("go")
    assert done.code == 0, (results(demo), done.err)
    assert ["it said: swordfish" in result for result in results(demo)] == [False, True]
    rows = demo.rows("SELECT json_extract(response_json, '$.purpose') FROM model_calls ORDER BY id")
    assert [row[0] for row in rows] == [None, None, "mcp:friend", None], "it is a row like any other"


HELPER = '[providers.models.helper]\nkind = "mock"\nmodel = "mock"\nfixture = "{fixture}"\n'


def with_helper(demo: World, *steps: dict[str, Any], delay: str) -> None:
    fixture = demo.fixture.with_name("helper.json")
    fixture.write_text(json.dumps({"steps": list(steps)}))
    table = TABLE.format(python=sys.executable, script=SCRIPT, more=f', DELAY = "{delay}"')
    demo.configure("full", more=table + HELPER.format(fixture=fixture))


def test_a_child_finds_the_tools_of_a_server_that_comes_after_its_birth(demo: World) -> None:
    with_helper(
        demo,
        call("ToolSearch", query="add two numbers"),
        call("Call", tool="mcp__demo__add", input={"a": 4, "b": 5}),
        text("{{last_result}}"),
        delay="1.5",
    )
    demo.script(call("Agent", description="d", prompt="add", model="helper"), text("done"))
    assert demo.agent("go").code == 0
    assert results(demo)[-1] == "9"
    assert "mcp__demo__add" in [receipt["tool"] for receipt in demo.receipts()]


@pytest.mark.parametrize("named", [("mcp__demo__add",), ("mcp__demo", "mcp__demo__*")])
def test_a_child_is_given_the_tools_of_a_server_by_name(demo: World, named: tuple[str, ...]) -> None:
    """The first child is born before the server is there, the next one after."""
    folder = demo.cli.data / "agents"
    folder.mkdir(parents=True)
    for number, tools in enumerate(named):
        (folder / f"adder{number}.md").write_text(
            f"---\nname: adder{number}\ndescription: adds\ntools: {tools}\n---\n+"
        )
    with_helper(
        demo, call("Bash", command="echo hi"), call("mcp__demo__add", a=4, b=5), text("{{last_result}}"), delay="0.5"
    )
    order = {"description": "d", "prompt": "add", "model": "helper"}
    demo.script(*(call("Agent", **order, subagent_type=f"adder{number}") for number in range(len(named))), text("done"))
    assert demo.agent("go").code == 0
    said = results(demo)
    assert len(said) == 3 * len(named)
    for number in range(len(named)):
        assert "there is no tool named 'Bash'" in said[3 * number]
        assert said[3 * number + 2] == "9"
