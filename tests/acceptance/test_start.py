"""How the program starts: without a command, in which folder, and with empty values."""

import json
import os
import subprocess
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest

from adderclaw.terminal.commands.agent import agent
from adderclaw.terminal.commands.table import AGENT_FLAGS, AGENT_OPTIONS
from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text
from tests.program import PROGRAM


def test_10_without_a_command_it_is_the_repl_at_a_terminal_and_else_help(world: World) -> None:
    world.script(text("hello there"))
    (world.workspace / "AGENTS.md").touch()
    sub = world.workspace / "deep" / "er"
    sub.mkdir(parents=True)
    with Tmux(world, cwd=sub, columns=300) as terminal:
        first = terminal.wait("AdderClaw in").splitlines()[0]
        assert first.endswith(f"AdderClaw in {world.workspace}"), "the first line says where"
        terminal.write("hi")
        terminal.press("Enter")
        terminal.wait("hello there")
        terminal.write("/exit")
        terminal.press("Enter")
        terminal.wait("left with 0")
    done = world.cli()
    assert done.code == 2, "nobody is there to talk to"
    assert "Usage: adderclaw" in done.out + done.err
    terminal, theirs = os.openpty()  # typed, and sent to a file: nobody sees a question
    ran = subprocess.run([PROGRAM], env=world.cli.env, cwd=sub, stdin=theirs, capture_output=True, timeout=60)
    os.close(terminal)
    os.close(theirs)
    assert ran.returncode == 2
    assert b"Usage: adderclaw" in ran.stdout + ran.stderr


def test_10_options_of_a_conversation_need_no_command_at_a_terminal(world: World) -> None:
    """As `claude --permission-mode plan` and `codex --profile NAME "words"` do it."""
    world.script(text("hello there"))
    options = ("--workspace", str(world.workspace), "--profile=readonly")
    with Tmux(world, *options, "say hello") as terminal:
        terminal.wait("hello there")
        assert "readonly" in terminal.wait("mock")
        terminal.write("/exit")
        terminal.press("Enter")
        terminal.wait("left with 0")
    with Tmux(world, "--profile", "readonly", "doctor") as terminal:
        terminal.wait("No such option: --profile")
    done = world.cli(*options, stdin="a message\n")
    assert (done.code, done.out) == (2, ""), "nobody is there to talk to, and nothing is sent"


def test_10_each_option_of_agent_may_stand_without_it() -> None:
    """But for those that are another way in, or for programs."""
    named = {name for given in signature(agent).parameters.values() for name in get_args(given.annotation)[1].names}
    ways = {"--message", "-m", "--continue", "-c", "--resume", "-r", "--pick", "--begin-with", "--output-format"}
    assert named - ways == {*AGENT_FLAGS, *AGENT_OPTIONS}


@pytest.mark.parametrize("place", ["/dev/shm", "/proc/self", "/sys"])
def test_10_a_place_of_the_system_is_no_workspace(world: World, place: str) -> None:
    """Every call in it would be denied, and commands would see another /dev/shm: it is said at the start."""
    world.script(text("hi"))
    for done in (world.agent("hi", "--workspace", place), world.cli("-p", "hi", "--workspace", place)):
        assert done.code == 2, done
        assert "cannot be a workspace" in done.err
        assert "name a folder on a disk: `--workspace DIR`" in done.err
    assert not world.database.exists() or not world.rows("SELECT run_id FROM runs")


@pytest.mark.parametrize("arguments", [("look at this",), ("-r",)])
def test_10_a_conversation_without_a_terminal_is_refused_and_what_is_piped_not_sent(
    world: World, arguments: tuple[str, ...]
) -> None:
    world.script(text("sent"))
    done = world.cli(*arguments, stdin="something else\n")
    assert (done.code, done.out) == (2, ""), done.err
    assert "needs a terminal" in done.err
    assert "adderclaw -p" in done.err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--profile", "No such option: --profile; it is an option of `adderclaw agent`"),
        ("--worksapce", "No such option: --worksapce; did you mean --workspace?"),
        ("--versoin", "No such option: --versoin; did you mean --version?"),
    ],
)
def test_10_an_option_of_agent_is_known_also_where_no_conversation_can_be_opened(
    world: World, option: str, said: str
) -> None:
    done = world.cli(option, "x")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_10_help_names_the_ways_in_without_a_command(world: World) -> None:
    done = world.cli("--help")
    assert 'adderclaw -p "' in done.out
    assert "`adderclaw -p --help`" in " ".join(done.out.split())


@pytest.mark.parametrize("wide", ["home", "root"])
def test_10_the_home_and_the_root_are_no_workspace_of_any_command(world: World, wide: str) -> None:
    """Unless they are named; a command under which nothing runs explains for `workspace_dir`."""
    world.cli.configure("")
    place = world.cli.home if wide == "home" else Path("/")
    world.script(text("hi"))
    spec = world.cli.home / "plan.md"
    spec.write_text("# Plan\n")
    (world.cli.home / "Agentfile").write_text('AGENT a:\n  PERSONA "x"\nGOAL g:\n  "do"\nRUN g WITH a\n')
    works = (
        ("run", "--task", "hi"),
        ("run", "--spec", str(spec)),
        ("tool", "run", "LS"),
        ("--eval", '{"tool": "LS", "input": {"path": "."}}'),
        ("mcp", "serve"),
    )
    for command in works:
        done = world.cli(*command, cwd=place)
        assert done.code == 2, (command, done)
        assert "or name it: `--workspace DIR`" in done.err, (command, done)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"message": "hi"}}
    done = world.cli("rpc", cwd=place, stdin=json.dumps(asked) + "\n")
    assert "`--workspace DIR`" in done.out + done.err, done
    looks = (
        ("tool", "explain", "Bash", "--json", '{"command": "rm -rf /"}'),
        ("tool", "list"),
        ("hooks", "list"),
        ("skills", "list"),
        ("mcp", "list"),
        ("config", "show"),
        ("runs", "list"),
        ("checkpoint", "list"),
    )
    for command in looks:
        done = world.cli(*command, cwd=place)
        assert done.code == 0, (command, done)
    explained = world.cli(
        "tool", "explain", "Read", "--json", '{"file_path": "a"}', "--output-format", "json", cwd=place
    )
    assert "deny" not in explained.out.split("opinions")[0], explained.out
    done = world.cli("tool", "run", "LS", "--workspace", str(world.cli.home), cwd=place)
    assert done.code == 0, done.err


EMPTY = [
    ("agent", "--resume", "", "-m", "hi"),
    ("agent", "--resume=", "-m", "hi"),
    ("agent", "-r", "", "-m", "hi"),
    ("agent", "-m", "hi", "--model", ""),
    ("agent", "-m", "hi", "--provider", ""),
    ("agent", "-m", "hi", "--config", ""),
    ("agent", "-m", "hi", "--workspace", ""),
    ("agent", "-m", "hi", "--permission-mode", ""),
    ("agent", "-m", ""),
    ("run", "--resume", ""),
    ("run", "--task", ""),
    ("run", "--task", "hi", "--skills-dir", ""),
    ("tool", "run", "LS", "--workspace="),
]


PYTHON = """
import asyncio
from adderclaw.clients.python.agent_client import AgentClient
from adderclaw.core.query import QueryOptions

async def go():
    async for _ in AgentClient(QueryOptions(cwd={workspace!r})).query("hi", resume=""):
        pass

asyncio.run(go())
"""


def test_10_an_empty_value_is_an_error_and_no_new_start(world: World) -> None:
    world.script(text("hi"))
    for arguments in EMPTY:
        done = world.cli(*arguments)
        assert done.code == 2, (arguments, done)
        assert "empty" in done.err, (arguments, done)
        assert "Traceback" not in done.err
    begin = {"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"resume": ""}}
    assert "Invalid params" in world.cli("rpc", stdin=json.dumps(begin) + "\n").out
    code = PYTHON.format(workspace=str(world.workspace))
    ran = subprocess.run([PROGRAM.with_name("python"), "-c", code], env=world.cli.env, capture_output=True, text=True)
    assert "is empty" in ran.stderr, ran
    assert not world.database.exists() or world.rows("SELECT count(*) FROM runs") == [(0,)], "nothing began"


# ------------------------------------------------------------------ one judgement, one answer

SETTINGS: dict[str, tuple[str, str, str]] = {
    "supervised": ("supervised", "", ""),
    "full": ("full", "", ""),
    "anywhere": ("full", "workspace_only = false", ""),
    "readonly": ("readonly", "", ""),
    "acceptEdits": ("supervised", "", '[permissions]\ndefaultMode = "acceptEdits"\n'),
    "rules": (
        "supervised",
        "",
        '[permissions]\nallow = ["Write", "Bash(touch *)"]\ndeny = ["Read(./secret)", "Glob"]\n',
    ),
    "permissive": ("full", "", ""),
}


def calls(world: World, outside: Path) -> list[tuple[str, dict[str, str]]]:
    return [
        ("Write", {"file_path": "new.txt", "content": "x"}),
        ("Write", {"file_path": str(outside / "w.txt"), "content": "x"}),
        ("Delete", {"path": str(outside / "kept.txt")}),
        ("Read", {"file_path": str(outside / "kept.txt")}),
        ("Read", {"file_path": "secret"}),
        ("Read", {"file_path": "/etc/passwd"}),
        ("Write", {"file_path": str(world.cli.data / "config.toml"), "content": "x"}),
        ("Glob", {"pattern": "*"}),
        ("Bash", {"command": "touch made.txt"}),
        ("Bash", {"command": "rm -rf /"}),
        ("Bash", {"command": "ls"}),
        ("Time", {}),
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_13_what_is_explained_is_what_a_run_decides(world: World, name: str) -> None:
    autonomy, security, more = SETTINGS[name]
    world.configure(autonomy, security, more=more)
    outside = world.cli.home / "outside"
    outside.mkdir()
    for path in (outside / "kept.txt", world.workspace / "secret"):
        path.write_text("kept\n")
    given = calls(world, outside)
    flags = ("--profile", "permissive") if name == "permissive" else ()
    world.script(*(call(tool, **arguments) for tool, arguments in given), text("done"))
    lines = "".join(json.dumps({"tool": tool, "input": arguments}) + "\n" for tool, arguments in given)
    explained = world.cli("tool", "explain", "--batch", *flags, stdin=lines, cwd=world.workspace)
    verdicts = [json.loads(line)["verdict"] for line in explained.out.splitlines()]
    done = world.agent("go", *flags)
    decided = [receipt["decision"] for receipt in world.receipts()]
    asked = [("ask" if one["by"] in ("no_operator", "operator") else one["verdict"]) for one in decided]
    table = [
        f"{tool} {arguments}: {here} {there}"
        for (tool, arguments), here, there in zip(given, verdicts, asked, strict=True)
    ]
    assert verdicts == asked, "\n".join(table) + done.err
    assert not (outside / "w.txt").exists()
    assert (outside / "kept.txt").exists()


# ------------------------------------------------------------------ what is offered follows from the policy


def told(world: World) -> set[str]:
    """The names of the tools in the last run's first request."""
    world.script(text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    newest = max((world.cli.data / "runs").glob("*/step-0001-request.json"), key=lambda path: path.stat().st_mtime_ns)
    return {tool[0] for tool in json.loads(newest.read_text())["tools"]}


def test_18_what_is_offered_follows_from_the_policy(world: World) -> None:
    bodies = "[logging]\ndebug_llm_bodies = true\n"
    world.configure("readonly", more=bodies)
    offered = told(world)
    assert not offered & {"Write", "Edit", "NotebookEdit", "Delete"}, offered
    assert {"Read", "Bash", "ToolSearch", "Call"} <= offered
    world.configure(more=bodies)
    assert {"Write", "Edit", "Read", "Bash"} <= told(world)
    policy = world.cli.data / "policy.toml"
    policy.write_text(
        'default_deny = true\n[read]\nallow = ["$WORKSPACE/**"]\n[bash]\nallowlist = []\n[write]\nrate_limit = 0\n'
        'allow = ["**"]\n[time]\nenabled = true\n[memory_write]\nenabled = true\n[web_fetch]\nenabled = false\n'
    )
    assert told(world) == {"Read", "Time", "MemoryWrite"}, "nothing that is allowed waits behind a denied ToolSearch"
    listed = world.cli("tool", "list", "--output-format", "json", cwd=world.workspace)
    assert {tool["name"] for tool in json.loads(listed.out)} == {"Read", "Time", "MemoryWrite", "Call"}
    policy.unlink()
    world.configure(more=bodies + '[permissions]\ndeny = ["ToolSearch", "Bash(*)", "Agent"]\n')
    offered = told(world)
    assert {"NotebookEdit", "MemorySearch", "Read"} <= offered, "they are offered themselves"
    assert not offered & {"ToolSearch", "Call", "Bash", "Agent"}
