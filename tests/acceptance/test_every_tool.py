"""Each built-in name of seed 003 §7 by its contract, through `--eval`: what is told, what failed, what is stored."""

import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from tests.acceptance.world import World, text

BUILT_IN = {
    *("Read", "Write", "Edit", "NotebookEdit", "Bash", "Glob", "Grep", "WebFetch", "WebSearch", "AskUserQuestion"),
    *("TodoWrite", "TaskOutput", "Agent", "Skill", "EnterPlanMode", "ExitPlanMode", "ListMcpResources"),
    *("ReadMcpResource", "ToolSearch", "Brief", "TaskStop"),
}
SERVER = Path(__file__).parents[1] / "mcp" / "a_server.py"
QUESTION = {"question": "Which?", "header": "c", "options": [{"label": "red"}, {"label": "blue"}]}
CELL: dict[str, Any] = {
    "cell_type": "code",
    "id": "c1",
    "source": "1",
    "metadata": {},
    "outputs": [],
    "execution_count": None,
}
NOTEBOOK: dict[str, Any] = {"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
SKILL = "---\nname: greet\ndescription: says hello\n---\nSay hello to $ARGUMENTS.\n"


class Case(NamedTuple):
    """A call, whether it fails, and what its result says. A failure of the tool is 1, a refusal 3."""

    tool: str
    given: dict[str, Any]
    said: str
    code: int = 0


CASES = [
    Case("Read", {"file_path": "missing"}, "missing", 1),
    Case("Read", {"file_path": "a.txt"}, "     1\tone\n     2\ttwo\n(2 lines)"),
    Case("Write", {"file_path": "/etc/x", "content": "x"}, "Denied by", 3),
    Case("Write", {"file_path": "b.txt", "content": "x\n"}, "Wrote b.txt (1 line)"),
    Case("Edit", {"file_path": "a.txt", "old_string": "nine", "new_string": "x"}, "not found", 1),
    Case("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "ONE"}, "Edited a.txt (2 lines)"),
    Case("NotebookEdit", {"notebook_path": "a.txt", "cell_id": "c1", "new_source": "2"}, "", 1),
    Case("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "c1", "new_source": "2"}, "Replaced the cell c1"),
    Case("Bash", {"command": "echo out; echo err >&2; exit 3"}, "out\n\n--- stderr ---\nerr", 1),
    Case("Bash", {"command": "echo out; echo err >&2"}, "out\n\n--- stderr ---\nerr"),
    Case("Glob", {"pattern": "*.nothing"}, "No files found"),
    Case("Glob", {"pattern": "a.*"}, "a.txt"),
    Case("Grep", {"pattern": "("}, "", 1),
    Case("Grep", {"pattern": "two", "output_mode": "content"}, "a.txt:2:two"),
    Case("WebFetch", {"url": "http://127.0.0.1:{port}/gone", "prompt": "what?"}, "404", 1),
    Case("WebFetch", {"url": "http://127.0.0.1:{port}/page", "prompt": "what?"}, "Hello page"),
    Case("WebSearch", {"query": "x", "allowed_domains": ["a.test"], "blocked_domains": ["b.test"]}, "", 1),
    Case("WebSearch", {"query": "python"}, "https://found.test/"),
    Case("AskUserQuestion", {"questions": []}, "ask 1 to 4", 1),
    Case("AskUserQuestion", {"questions": [QUESTION]}, "Which?\n→ blue"),
    Case("TodoWrite", {"todos": [{"content": "x", "status": "later"}]}, "do not fit", 1),
    Case("TodoWrite", {"todos": [{"content": "x", "status": "pending", "activeForm": "xing"}]}, "0 of 1 done:\n[ ] x"),
    Case("TaskOutput", {"task_id": "nope"}, "there is no background task 'nope'", 1),
    Case("TaskStop", {"task_id": "nope"}, "there is no background task 'nope'", 1),
    Case("Agent", {"description": "d", "prompt": "p", "subagent_type": "Explorer"}, "did you mean Explore?", 1),
    Case("Agent", {"description": "d", "prompt": "p"}, "the child's answer"),
    Case("Skill", {"skill": "nowhere"}, "nowhere", 1),
    Case("Skill", {"skill": "greet", "args": "Ada"}, "Say hello to Ada."),
    Case("EnterPlanMode", {}, "Planning:"),
    Case("ExitPlanMode", {"plan": "1. x"}, "not planning but idle", 1),
    Case("ListMcpResources", {"server": "nobody"}, "nobody", 1),
    Case("ListMcpResources", {}, "note://one"),
    Case("ReadMcpResource", {"server": "demo", "uri": "note://none"}, "", 1),
    Case("ReadMcpResource", {"server": "demo", "uri": "note://one"}, "note"),
    Case("ToolSearch", {"query": "notebook"}, "NotebookEdit"),
    Case("Brief", {"message": ""}, "", 1),
    Case("Brief", {"message": "half done"}, "Told the operator."),
]


class Web(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = {"title": "t", "url": "https://found.test/", "content": "c"}
        search = self.path.startswith("/search")
        body = json.dumps({"results": [found]}) if search else "<html><body><p>Hello page, hello.</p></body></html>"
        self.send_response(404 if self.path == "/gone" else 200)
        self.send_header("content-type", "application/json" if search else "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def test_every_name_has_its_case() -> None:
    assert {case.tool for case in CASES} == BUILT_IN


@pytest.fixture
def place(world: World, needs: Callable[[str], str]) -> World:
    needs("bwrap")
    skill = world.workspace / ".adderclaw" / "skills" / "greet" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    (world.workspace / "a.txt").write_text("one\ntwo\n")
    (world.workspace / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    world.script(text("the child's answer"))
    return world


def test_d68_to_d75_every_tool_by_its_contract(place: World) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_port
    web = f'[web]\nsearch = "searxng"\nsearch_url = "http://127.0.0.1:{port}"\n'
    mcp = f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n'
    place.configure("full", security=f'allowed_domains = ["127.0.0.1:{port}"]', more=web + mcp)
    try:
        for number, case in enumerate(CASES, 1):
            check(place, case, number, port)
    finally:
        server.shutdown()
        server.server_close()
    assert place.cli("receipt", "verify").code == 0


def check(place: World, case: Case, number: int, port: int) -> None:
    asked = json.dumps({"tool": case.tool, "input": case.given}).replace("{port}", str(port))
    done = place.cli("--eval", asked, stdin="2\n", cwd=place.workspace)
    assert done.code == case.code, (case, done.err)
    assert "Traceback" not in done.err
    sql = "SELECT payload_json FROM transcript_entries WHERE entry_type = ? AND session_id = ? ORDER BY sequence"
    (session,) = place.rows("SELECT session_id FROM runs ORDER BY rowid DESC LIMIT 1")[0]
    use, result = (json.loads(place.rows(sql, kind, session)[-1][0]) for kind in ("tool_use", "tool_result"))
    assert (use["_t"], use["name"], use["id"]) == ("tool_use", case.tool, result["tool_use_id"])
    assert (result["_t"], result["is_error"]) == ("tool_result", case.code != 0), case
    assert case.said in result["content"], case
    assert "[SDLC_INTERNAL]" not in result["content"], "it was no accident"
    decisions = place.rows("SELECT tool_name, decision FROM tool_permission_log WHERE session_id = ?", session)
    refused = case.code == 3 or "do not fit" in result["content"]
    assert decisions[-1] == (case.tool, "deny" if refused else "allow"), case
    receipts = [one["tool"] for one in place.receipts()]
    assert receipts.count(case.tool) == sum(one.tool == case.tool for one in CASES[:number]), "one receipt a call"


@pytest.mark.parametrize(("tool", "given"), [("LS", {"path": "many"}), ("Glob", {"pattern": "many/*"})])
def test_what_is_cut_from_a_listing_is_kept_readable(world: World, tool: str, given: dict[str, Any]) -> None:
    many = world.workspace / "many"
    many.mkdir()
    for number in range(1005):
        (many / f"{number:04}").touch()
    done = world.cli("--eval", json.dumps({"tool": tool, "input": given}))
    assert done.code == 0, done.err
    note = done.out.splitlines()[-1]
    kept = Path(note.partition("Read ")[2].partition(" has all of them")[0])
    assert len(kept.read_text().splitlines()) == 1005, note
