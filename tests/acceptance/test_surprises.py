"""No silent surprise in what tools bring and ask: one limit for results, questions that are worth their answer."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.acceptance.test_replay import verified
from tests.acceptance.world import World, call, text

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
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


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
