"""No silent surprise in what tools bring and ask: one limit for results, questions that are worth their answer."""

import gzip
import hashlib
import io
import json
import re
import socket
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.acceptance.test_replay import verified
from tests.acceptance.world import World, call, text
from tests.listening import served
from tests.scripted import ScriptedModel, Step

MOST = 30_000
SECRET = "hunter2-hunter2-hunter2"
LONG_LINE = "".join(f"<{number:06}>" for number in range(100_000))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind = "text/plain"
        body = f"{SECRET}\n{LONG_LINE}\nthe end".encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with served(Handler) as port:
        yield port


def results(world: World) -> list[dict[str, Any]]:
    return world.entries("tool_result")


def kept_file(shown: str) -> Path:
    found = re.search(r"Read (\S+) has all of it", shown)
    assert found, shown[MOST // 2 - 500 : MOST // 2 + 500]
    return Path(found[1])


# ------------------------------------------------------------------ 17: one limit for all results

MCP_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("big")
@server.tool()
def much(lines: int) -> str:
    return "\\n".join(f"mcp line {number}" for number in range(lines))
server.run()
"""


def test_17_one_limit_for_every_result_and_read_pages_the_whole(
    world: World, port: int, needs: Callable[[str], str], tmp_path: Path
) -> None:
    needs("bwrap")
    server = tmp_path / "big.py"
    server.write_text(MCP_SERVER, encoding="utf-8")
    world.cli.env["MY_TOKEN"] = SECRET
    table = (
        f'[mcp_servers.big]\ncommand = "{sys.executable}"\nargs = ["{server}"]\nenv = {{A_TOKEN = "${{MY_TOKEN}}"}}\n'
    )
    child = tmp_path / "child.json"
    child.write_text(json.dumps({"steps": [text("answer " * 20_000)]}), encoding="utf-8")
    table += f'[providers.models.child]\nkind = "mock"\nmodel = "mock"\nfixture = "{child}"\n'
    world.configure("full", security=f'allowed_domains = ["127.0.0.1:{port}"]', more=table)
    (world.workspace / "rows.txt").write_text("".join(f"row {n} {'y' * 300}\n" for n in range(3_000)), encoding="utf-8")
    steps = (
        call("mcp__big__much", lines=50_000),
        call("Http", url=f"http://127.0.0.1:{port}/"),
        call("Grep", pattern="row", output_mode="content", head_limit=0),
        call("WebFetch", url=f"http://127.0.0.1:{port}/", prompt=""),
        call("Agent", description="tell much", prompt="go", model="child"),
        call("Read", file_path="rows.txt"),
        text("done"),
    )
    world.script(*steps)
    done = world.agent("go")
    assert done.code == 0, done.err
    *cut, page = (one["content"] for one in results(world))
    wholes: list[str] = []
    for shown in cut:
        assert len(shown) <= MOST, shown[:200]
        assert "characters left out" in shown
        wholes.append(kept_file(shown).read_text(encoding="utf-8"))
        assert SECRET not in wholes[-1] + shown
    assert wholes[1].endswith(f"{LONG_LINE}\nthe end")
    assert all(f"rows.txt:{number + 1}:row {number} " in wholes[2] for number in range(3_000))
    assert wholes[0].splitlines() == [f"mcp line {number}" for number in range(50_000)]
    assert wholes[3].endswith(f"{LONG_LINE}\nthe end")
    assert wholes[4].count("answer ") == 20_000
    assert len(page) <= 100_000
    assert "PARTIAL view" in page
    verified(world)
    read_to_its_end(world, kept_file(cut[1]), *steps)


def read_to_its_end(world: World, kept: Path, *before: dict[str, Any]) -> None:
    """Page by page, as a model would: every character of it is shown, in a frame, and nobody can write to it."""
    pages = [call("Read", file_path=str(kept), offset=offset, limit=40) for offset in range(1, 441, 40)]
    world.script(*before, *pages, call("Write", file_path=str(kept), content="mine"), text("done"))
    world.agent("go", "--continue")
    assert world.receipts()[-1]["status"] == "denied"
    shown = results(world)[-1 - len(pages) : -1]
    assert all(page.get("frame") for page in shown), "what came from outside is framed each time"
    rows = [row.partition("\t")[2] for page in shown for row in page["content"].splitlines() if "\t" in row[:8]]
    assert LONG_LINE in "".join(rows)
    assert rows[-1] == "the end"


# ------------------------------------------------------------------ 16: nobody is asked about what can only fail

NOTEBOOK = json.dumps(
    {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"id": "a", "cell_type": "raw", "source": ""}]}
)
MUST_FAIL: tuple[tuple[dict[str, Any], str], ...] = (
    (call("Edit", file_path="unread.txt", old_string="a", new_string="b"), "has not been read yet"),
    (call("Write", file_path="unread.txt", content="b"), "has not been read yet"),
    (call("Edit", file_path="none.txt", old_string="a", new_string="b"), "does not exist"),
    (call("Edit", file_path="read.txt", old_string="absent", new_string="b"), "not found"),
    (call("Edit", file_path="read.txt", old_string="twice", new_string="b"), "occurs 2 times"),
    (call("Edit", file_path="read.txt", old_string="twice", new_string="twice"), "nothing to change"),
    (call("Edit", file_path="folder", old_string="a", new_string="b"), "is a directory"),
    (call("Write", file_path="read.txt/x", content="b"), "is a file, not a directory"),
    (call("NotebookEdit", notebook_path="n.ipynb", cell_id="z", new_source="x"), "There is no cell"),
    (call("NotebookEdit", notebook_path="read.txt", cell_id="z", new_source="x"), "is not a notebook"),
    (call("Delete", path="none.txt"), "does not exist"),
    (call("Http", url="https://example.org/", headers={"Host": "x"}), "cannot be set"),
    (call("MemoryWrite", key=" ", value="x"), "printable characters"),
    (call("EnterWorktree"), "Give either the name"),
)


def test_16_nobody_is_asked_about_what_can_only_fail(world: World) -> None:
    (world.workspace / "folder").mkdir()
    (world.workspace / "unread.txt").write_text("a", encoding="utf-8")
    (world.workspace / "read.txt").write_text("twice twice", encoding="utf-8")
    (world.workspace / "n.ipynb").write_text(NOTEBOOK, encoding="utf-8")
    reads = (call("Read", file_path="read.txt"), call("Read", file_path="n.ipynb"))
    late = {"tool_calls": [{"name": "Read", "arguments": {"file_path": "unread.txt"}}]}
    late["tool_calls"].append(
        {"name": "Edit", "arguments": {"file_path": "unread.txt", "old_string": "a", "new_string": "b"}}
    )
    world.script(*reads, *(one for one, _ in MUST_FAIL), late, text("done"))
    done = world.agent("go", stdin="y\n")
    assert done.code == 0, done.err
    assert done.err.count("Approve?") == 1, "the one that can succeed, after the Read beside it"
    assert (world.workspace / "unread.txt").read_text(encoding="utf-8") == "b"
    shown = results(world)[2:-2]
    assert [word for (_, word), one in zip(MUST_FAIL, shown, strict=True) if word not in one["content"]] == []
    assert all(one["is_error"] for one in shown)
    receipts = world.receipts()
    assert [one["status"] for one in receipts[2:-2]] == ["failed"] * len(MUST_FAIL), "one receipt, one result"
    assert len(receipts) == len(results(world))
    verified(world)


def test_16_what_a_rule_hides_is_not_guessed_by_edits_that_fail(world: World) -> None:
    """`edit`, by which no Read is needed before, would say which words a file holds that may not be read."""
    (world.workspace / ".env").write_text("TOKEN=abc", encoding="utf-8")
    world.configure(more='[permissions]\ndeny = ["Read(./.env)"]\nask = ["Edit"]\n')
    guesses = [call("edit", path=".env", old=word, new="x") for word in ("TOKEN=abc", "TOKEN=abd")]
    world.script(*guesses, text("done"))
    world.agent("go")
    first, second = (one["content"] for one in results(world))
    assert first == second
    assert [one["status"] for one in world.receipts()] == ["denied"] * 2


# ------------------------------------------------------------------ 36: a model server that says nothing

ANSWERED = b'data: {"choices":[{"index":0,"delta":{"content":"here I am"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def test_36_a_server_that_sends_only_comments_is_a_timeout_and_is_tried_again(world: World) -> None:
    """The first request gets comments, the second half an answer and then comments, the third its answer."""
    beginnings = [b"", b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n']
    over = Event()

    def serve(server: socket.socket) -> None:
        for number in range(3):
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(65_536)
                connection.sendall(HEAD + (beginnings[number] if number < 2 else ANSWERED))
                while number < 2 and not over.wait(0.02):
                    connection.sendall(b": still here\n\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        place = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        entry = f'kind = "openai-compatible"\nmodel = "m"\nbase_url = "{place}"\n'
        entry += "timeout_seconds = 1.0\nidle_timeout_seconds = 0.5\n"
        more = f"[providers.models.quiet]\n{entry}"
        world.configure(more=more)
        try:
            done = world.agent("hi", "--provider", "quiet")
        finally:
            over.set()
            thread.join(10)
    assert done.code == 0, done.err
    assert done.out.strip().endswith("here I am")
    assert "half" not in json.dumps(world.entries("assistant"))
    assert "fell silent for 1 seconds" in done.err
    assert "fell silent for 0.5 seconds" in done.err


# ------------------------------------------------------------------ 14: a command that needs the network


def tarball(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    return made.getvalue()


SERVER = """#!/usr/bin/env node
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const asked = JSON.parse(line);
  if (asked.id === undefined) return;
  const tool = {name: "where", description: "Says where it is from.", inputSchema: {type: "object"}};
  const result = {
    "initialize": {protocolVersion: "2025-06-18", capabilities: {tools: {}}, serverInfo: {name: "a", version: "1"}},
    "tools/list": {tools: [tool]},
    "tools/call": {content: [{type: "text", text: "from the package"}]},
  }[asked.method] || {};
  process.stdout.write(JSON.stringify({jsonrpc: "2.0", id: asked.id, result}) + "\\n");
});
"""
PACKED = tarball(
    {
        "package/package.json": '{"name": "adder-demo", "version": "1.0.0", "bin": "index.js"}',
        "package/index.js": SERVER,
    }
)


class Registry(BaseHTTPRequestHandler):
    """An npm registry with one package, which is an MCP server."""

    def do_GET(self) -> None:
        here = f"http://{self.headers['host']}"
        if self.path.endswith(".tgz"):
            body = PACKED
        else:
            dist = {"tarball": f"{here}/adder-demo.tgz", "shasum": hashlib.sha1(PACKED).hexdigest()}
            version = {"name": "adder-demo", "version": "1.0.0", "dist": dist, "bin": {"adder-demo": "index.js"}}
            body = json.dumps(
                {"name": "adder-demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            ).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    """At an address of this machine that no list of exceptions from proxies names."""
    with served(Registry, "127.0.0.2") as port:
        yield f"127.0.0.2:{port}"


def test_14_a_command_without_network_names_the_setting_and_registries_are_offered(
    world: World, registry: str, needs: Callable[[str], str]
) -> None:
    needs("bwrap")
    needs("npm")
    (world.workspace / ".npmrc").write_text(f"registry=http://{registry}/\n", encoding="utf-8")
    package = {"name": "p", "version": "1.0.0", "dependencies": {"adder-demo": "1.0.0"}}
    (world.workspace / "package.json").write_text(json.dumps(package), encoding="utf-8")
    world.configure(security=f'registries = ["registry.npmjs.org", "{registry}"]')
    steps = (
        call("Bash", command="npm install", timeout=60_000),
        call("Bash", command="npm install", timeout=60_000),
        call("Bash", command="npm install --no-save adder-demo@1.0.0", timeout=60_000),
        call("Bash", command="npm run nothing"),
        text("done"),
    )
    world.script(*steps)
    done = world.cli.typed("agent", "-m", "go", stdin="y\nr\ny\nn\n", timeout=120)
    questions = done.err.split("Tool request:")[1:]
    assert len(questions) == 4, done.err
    assert "its commands have no network" in questions[0]
    assert f"r = yes, and let the commands of this session reach registry.npmjs.org, {registry}" in questions[0]
    assert "registry.yarnpkg.com" not in done.err, "only what the operator lists is offered"
    assert f"it reaches nothing but registry.npmjs.org, {registry}" in questions[2]
    assert "(r = " not in questions[2]
    assert "(r = " not in questions[3], "a script of the project is no fetch"
    failed, installed, again, denied = (one["content"] for one in results(world))
    assert "[security] allowed_domains" in failed
    assert "[security] registries" in failed
    assert (world.workspace / "node_modules/adder-demo/package.json").exists(), installed
    assert not results(world)[2]["is_error"], again
    assert "Denied" in denied
    receipts = world.receipts()
    assert [one["status"] for one in receipts] == ["allowed", "allowed", "allowed", "denied"]
    assert registry in receipts[1]["decision"]["comment"], "the receipt says what was let in"
    verified(world)
    # another session begins without it
    world.script(call("Bash", command="npm install --no-save adder-demo@1.0.0", timeout=60_000), text("done"))
    assert "its commands have no network" in world.cli.typed("agent", "-m", "go", stdin="n\n").err


# ------------------------------------------------------------------ 15: an MCP server that has to be fetched


def test_15_a_projects_server_is_fetched_once_asked_about_and_started_from_the_cache_after_that(
    world: World, registry: str, needs: Callable[[str], str]
) -> None:
    needs("bwrap")
    needs("npx")
    world.configure("full", security=f'registries = ["{registry}"]')
    server = {"command": "npx", "args": ["-y", "adder-demo", "."]}
    table = {"mcpServers": {"fs": {**server, "env": {"npm_config_registry": f"http://{registry}/"}}}}
    (world.workspace / ".mcp.json").write_text(json.dumps(table))
    assert world.cli("trust", str(world.workspace)).code == 0
    steps = (call("mcp__fs__where"), text("done"))
    world.script(*steps)
    nobody = world.agent("go")
    assert "adderclaw mcp test fs" in results(world)[-1]["content"], nobody.err
    world.script(*steps)
    denied = world.cli.typed("agent", "-m", "go", stdin="n\n")
    assert "its fetch was denied" in results(world)[-1]["content"], denied.err
    world.script(*steps)
    fetched = world.cli.typed("agent", "-m", "go", stdin="y\n", timeout=120)
    question = fetched.err.partition("Tool request:")[2].partition("Approve?")[0]
    assert "MCP server fs" in question
    assert "fetches adder-demo, apart from the workspace, and runs it in the sandbox" in question
    assert f"it comes from {registry}" in question
    assert "mcp_server fs starting fetching adder-demo" in fetched.err, "progress is shown"
    assert results(world)[-1]["content"] == "from the package", fetched.err
    # the next session asks nobody, and needs no network: nobody lists the registry any more
    world.cli.configure((world.cli.data / "config.toml").read_text().replace(f'["{registry}"]', '["registry.invalid"]'))
    world.script(*steps)
    again = world.agent("go")
    assert again.code == 0, again.err
    assert "fetching" not in again.err
    assert results(world)[-1]["content"] == "from the package", again.err
    # where the cache is gone, it is asked about anew
    world.cli.configure((world.cli.data / "config.toml").read_text().replace('["registry.invalid"]', f'["{registry}"]'))
    assert world.cli("cache", "--clear").code == 0
    assert world.cli("mcp", "test", "fs", "--workspace", str(world.workspace)).code == 0, "typed by hand: a yes"


# ------------------------------------------------------------------ what the length limit cuts


def test_a_call_that_is_cut_hears_of_the_limit_and_a_cut_sample_says_max_tokens(
    world: World, needs: Callable[[str], str]
) -> None:
    needs("bwrap")
    half = {"name": "Write", "arguments": '{"file_path": "a.txt", "content": "aaaa'}
    lacking = {"name": "mcp__demo__add", "arguments": '{"a": 1}'}
    steps: list[Step] = [
        {"tool_calls": [half], "finish_reason": "length"},
        {"tool_calls": [lacking], "finish_reason": "length"},
        {"tool_calls": [lacking]},
        {"tool_calls": [{"name": "mcp__demo__think", "arguments": {}}]},
        {"text": "sword", "finish_reason": "length"},
        {"text": "done"},
    ]
    script = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"
    with ScriptedModel(steps) as model:
        entry = f'kind = "openai-compatible"\nmodel = "m"\nbase_url = "{model.base_url}"\n'
        server = f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{script}"]\nsampling = true\n'
        world.configure("full", more=f"[providers.models.chat]\n{entry}{server}")
        done = world.agent("hi", "--provider", "chat")
    assert done.code == 0, done.err
    cut, unfit, whole, sampled = (one["content"] for one in results(world))
    assert "not a JSON object" in cut
    assert "do not fit" in unfit
    assert ["limit of output tokens" in one for one in (cut, unfit, whole)] == [True, True, False]
    assert "it said: sword (maxTokens)" in sampled
    assert not (world.workspace / "a.txt").exists()
    verified(world)
