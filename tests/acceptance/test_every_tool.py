"""Each built-in name of seed 003 §7 by its contract: what is told, what failed, what is stored."""

import json
import sys
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from tests.acceptance.world import World, call, text
from tests.tools.hooks.test_catalogue import SEED

SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"
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
    Case("Read", {"file_path": "a.txt"}, "     1\tone\n     2\ttwo\n(2 lines)"),
    Case("Write", {"file_path": "b.txt", "content": "x\n"}, "Wrote b.txt (1 line)"),
    Case("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "ONE"}, "Edited a.txt (2 lines)"),
    Case("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "c1", "new_source": "2"}, "Replaced the cell c1"),
    Case("Bash", {"command": "echo out; echo err >&2"}, "out\n\n--- stderr ---\nerr"),
    Case("Glob", {"pattern": "*.nothing"}, "No files found"),
    Case("Glob", {"pattern": "a.*"}, "a.txt"),
    Case("Grep", {"pattern": "two", "output_mode": "content"}, "a.txt:2:two"),
    Case("WebFetch", {"url": "http://127.0.0.1:{port}/page", "prompt": "what?"}, "Hello page"),
    Case("WebSearch", {"query": "python"}, "https://found.test/"),
    Case("AskUserQuestion", {"questions": [QUESTION]}, "Which?\n→ blue"),
    Case("TodoWrite", {"todos": [{"content": "x", "status": "pending", "activeForm": "xing"}]}, "0 of 1 done:\n[ ] x"),
    Case("Agent", {"description": "d", "prompt": "p"}, "the child's answer"),
    Case("Skill", {"skill": "greet", "args": "Ada"}, "Say hello to Ada."),
    Case("EnterPlanMode", {}, "Planning:"),
    Case("ListMcpResources", {}, "note://one"),
    Case("ReadMcpResource", {"server": "demo", "uri": "note://one"}, "note"),
    Case("ToolSearch", {"query": "notebook"}, "NotebookEdit"),
    Case("Brief", {"message": "half done"}, "Told the operator."),
    Case("ExitPlanMode", {"plan": "1. x"}, "The plan is approved: carry it out."),
    Case("TaskOutput", {"task_id": "nope"}, "There is no background task 'nope'", 1),
    Case("TaskStop", {"task_id": "nope"}, "There is no background task 'nope'", 1),
]
"""Every name through `--eval`: as it works, where one call alone can."""
TURN = [
    Case("Read", {"file_path": "a.txt"}, "(2 lines)"),
    Case("Read", {"file_path": "missing"}, "missing", 1),
    Case("Write", {"file_path": "/etc/x", "content": "x"}, "Denied by", 3),
    Case("Edit", {"file_path": "a.txt", "old_string": "nine", "new_string": "x"}, "not found", 1),
    Case("NotebookEdit", {"notebook_path": "a.txt", "cell_id": "c1", "new_source": "2"}, "", 1),
    Case("Bash", {"command": "echo out; echo err >&2; exit 3"}, "out\n\n--- stderr ---\nerr", 1),
    Case("Grep", {"pattern": "("}, "", 1),
    Case("WebFetch", {"url": "http://127.0.0.1:{port}/gone", "prompt": "what?"}, "404", 1),
    Case("WebSearch", {"query": "x", "allowed_domains": ["a.test"], "blocked_domains": ["b.test"]}, "", 1),
    Case("AskUserQuestion", {"questions": []}, "ask 1 to 4", 1),
    Case("TodoWrite", {"todos": [{"content": "x", "status": "later"}]}, "do not fit", 1),
    Case("Agent", {"description": "d", "prompt": "p", "subagent_type": "Explorer"}, "did you mean Explore?", 1),
    Case("Skill", {"skill": "nowhere"}, "nowhere", 1),
    Case("ListMcpResources", {"server": "nobody"}, "nobody", 1),
    Case("ReadMcpResource", {"server": "demo", "uri": "note://none"}, "", 1),
    Case("Brief", {"message": ""}, "", 1),
]
"""In one turn, in which nothing that fails ends anything."""


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
    assert {case.tool for case in CASES} == set(SEED["7: tools"])


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


@pytest.fixture
def port(place: World) -> Generator[int]:
    """Where a small web is; the program may go there, and has a server of its own to ask."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_port
    web = f'[web]\nsearch = "searxng"\nsearch_url = "http://127.0.0.1:{port}"\n'
    mcp = f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n'
    place.configure("full", security=f'allowed_domains = ["127.0.0.1:{port}"]', more=web + mcp)
    yield port
    server.shutdown()
    server.server_close()


def test_d68_to_d75_every_tool_by_its_contract(place: World, port: int) -> None:
    for number, case in enumerate(CASES, 1):
        asked = json.dumps({"tool": case.tool, "input": case.given}).replace("{port}", str(port))
        done = place.cli("--eval", asked, stdin="2\n", cwd=place.workspace)
        assert done.code == case.code, (case, done.err)
        assert "Traceback" not in done.err
        (session,) = place.rows("SELECT session_id FROM runs ORDER BY rowid DESC LIMIT 1")[0]
        stored(place, session, [case])
        assert [one["tool"] for one in place.receipts()].count(case.tool) == sum(
            one.tool == case.tool for one in CASES[:number]
        ), "one receipt a call"
    assert place.cli("receipt", "verify").code == 0


def test_every_tool_fails_by_its_contract_and_the_turn_goes_on(place: World, port: int) -> None:
    calls = [call(case.tool, **json.loads(json.dumps(case.given).replace("{port}", str(port)))) for case in TURN]
    place.script(*calls, text("done"))
    done = place.cli("agent", "-m", "go", cwd=place.workspace)
    assert "Traceback" not in done.err
    assert done.out == "done\n", done.err
    ((session,),) = place.rows("SELECT session_id FROM runs")
    stored(place, session, TURN)
    assert [one["tool"] for one in place.receipts()] == [case.tool for case in TURN]


def stored(place: World, session: str, cases: list[Case]) -> None:
    """What a session has of its last calls, each as it should be: those by hand go on in one session."""
    sql = "SELECT payload_json FROM transcript_entries WHERE entry_type = ? AND session_id = ? ORDER BY sequence"
    uses, results = (
        [json.loads(row[0]) for row in place.rows(sql, kind, session)][-len(cases) :]
        for kind in ("tool_use", "tool_result")
    )
    decisions = place.rows("SELECT tool_name, decision FROM tool_permission_log WHERE session_id = ?", session)
    for case, use, result, decision in zip(cases, uses, results, decisions[-len(cases) :], strict=True):
        assert (use["_t"], use["name"], use["id"]) == ("tool_use", case.tool, result["tool_use_id"])
        assert (result["_t"], result["is_error"]) == ("tool_result", case.code != 0), (case, result)
        assert case.said in result["content"], (case, result)
        assert "[SDLC_INTERNAL]" not in result["content"], "it was no accident"
        refused = case.code == 3 or "do not fit" in result["content"]
        assert decision == (case.tool, "deny" if refused else "allow"), case


def test_what_is_cut_from_a_listing_is_kept_readable(world: World) -> None:
    many = world.workspace / "many"
    many.mkdir()
    for number in range(1005):
        (many / f"{number:04}").touch()
    world.script(call("LS", path="many"), call("Glob", pattern="many/*"), text("done"))
    assert world.agent("look").code == 0
    for result in world.entries("tool_result"):
        note = result["content"].splitlines()[-1]
        kept = Path(note.partition("Read ")[2].partition(" has all of them")[0])
        assert len(kept.read_text().splitlines()) == 1005, note
