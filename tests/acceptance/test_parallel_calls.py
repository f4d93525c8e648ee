"""Calls of one reply that only read run at the same time; what is asked, recorded and proved keeps their order."""

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Condition, Thread
from typing import Any

import pytest

from tests.acceptance.test_mcp import configure as serve
from tests.acceptance.test_replay import verified
from tests.acceptance.test_resume import fresh, killed_at
from tests.acceptance.test_subagents import helper
from tests.acceptance.world import World, text
from tests.program import Soak, keyboard
from tests.scripted import Request, ScriptedModel, Step

PATIENCE = 90.0


class Pages:
    """A web server whose pages wait for each other: page `/n` is answered when `needed` of them are asked for."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.log: list[tuple[str, str]] = []
        self.needed = 1
        self.held: set[str] = set()
        """Pages that are never answered."""
        self.look: Any = lambda: None
        self.seen: dict[str, Any] = {}

    def answer(self, page: str) -> None:
        with self.changed:
            self.log.append(("begins", page))
            self.seen[page] = self.look()
            self.changed.notify_all()
            self.changed.wait_for(lambda: len(self.begun()) >= self.needed and page not in self.held, PATIENCE)
            self.log.append(("ends", page))
            self.changed.notify_all()

    def begun(self) -> list[str]:
        return [page for what, page in self.log if what == "begins"]

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.begun()) >= count, PATIENCE), self.log

    def most(self) -> int:
        """How many pages were waited for at the same time."""
        open_now = most = 0
        for what, _ in self.log:
            open_now += 1 if what == "begins" else -1
            most = max(most, open_now)
        return most


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
def port(pages: Pages) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = self.path.strip("/")
            pages.answer(page)
            body = f"this is page {page}".encode()
            self.send_response(200)
            self.send_header("content-type", "text/plain")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # who asked was killed
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    with pages.changed:
        pages.held, pages.needed = set(), 0
        pages.changed.notify_all()
    server.shutdown()
    server.server_close()
    thread.join()


def configure(world: World, port: int, more: str = "") -> None:
    timeouts = f"http_timeout_seconds = {PATIENCE}\n"
    world.configure(autonomy="full", security=f'allowed_domains = ["127.0.0.1:{port}"]', more=more)
    file = world.cli.data / "config.toml"
    file.write_text(file.read_text().replace("[runtime]\n", f"[runtime]\n{timeouts}"))


def runtime(world: World, line: str) -> None:
    file = world.cli.data / "config.toml"
    file.write_text(file.read_text().replace("[runtime]\n", f"[runtime]\n{line}\n"))


def fetch(port: int, page: int) -> dict[str, Any]:
    return {"name": "WebFetch", "arguments": {"url": f"http://127.0.0.1:{port}/{page}", "prompt": ""}}


def reply(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(calls)}


def results(world: World) -> list[str]:
    return [entry["content"] for entry in world.entries("tool_result")]


def one_each(world: World, count: int) -> list[str]:
    """Each call has exactly one result and one receipt, in the order of the reply; what the receipts say."""
    uses = [entry["id"] for entry in world.entries("tool_use")]
    assert len(uses) == len(set(uses)) == count
    assert [entry["tool_use_id"] for entry in world.entries("tool_result")] == uses
    rows = world.rows("SELECT tool_use_id, line FROM receipts ORDER BY seq")
    assert [row[0] for row in rows] == uses
    assert world.cli("receipt", "verify").code == 0
    return [json.loads(row[1])["status"] for row in rows]


def kinds(world: World) -> list[str]:
    rows = world.rows("SELECT entry_type FROM transcript_entries WHERE entry_type LIKE 'tool%' ORDER BY id")
    return [row[0].removeprefix("tool_") for row in rows]


# ------------------------------------------------------------------ at the same time


def test_five_reads_of_one_reply_are_all_under_way_before_the_first_ends(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    pages.needed = 5  # one after the other, none would ever be answered
    world.script(reply(*(fetch(port, page) for page in range(5))), text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    assert [what for what, _ in pages.log] == ["begins"] * 5 + ["ends"] * 5
    assert [f"page {page}" in said for page, said in enumerate(results(world))] == [True] * 5
    assert kinds(world) == ["use"] * 5 + ["result"] * 5
    assert one_each(world, 5) == ["allowed"] * 5
    assert verified(world)["tool_calls"] == 5


class Answering(ScriptedModel):
    """Answers questions about pages when five of them are asked."""

    def __init__(self) -> None:
        super().__init__(aside={"The question about this page": {"text": "an answer"}})
        self.together = Barrier(5)

    def _play(self, connection: socket.socket, step: Step, request: Request) -> bool:
        self.together.wait(PATIENCE)
        return super()._play(connection, step, request)


def test_questions_about_pages_are_asked_at_the_same_time(world: World, port: int) -> None:
    with Answering() as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        configure(world, port, more=f'[providers.models.quick]\n{entry}[providers]\nsmall = "quick"\n')
        asked = [fetch(port, page) for page in range(5)]
        for one in asked:
            one["arguments"]["prompt"] = "What is it about?"
        world.script(reply(*asked), text("done"))
        done = world.agent("go")
        assert done.code == 0, done.err
        assert len(model.requests) == 5
    assert all("an answer" in said for said in results(world))
    assert one_each(world, 5) == ["allowed"] * 5
    steps = [step for (step,) in world.rows("SELECT step FROM model_calls ORDER BY id")]
    assert steps == list(range(1, 8)), "each is a step of its own"
    verified(world)


def test_a_slow_call_does_not_hold_the_record_of_those_before_it(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    pages.held = {"1", "2"}
    world.script(reply(*(fetch(port, page) for page in range(3))), text("done"))
    process = world.cli.start("agent", "-m", "go")
    pages.wait(3)
    wait_for(lambda: len(world.receipts_so_far()) == 1)
    with pages.changed:
        pages.held = {"1"}
        pages.changed.notify_all()
        assert pages.changed.wait_for(lambda: ("ends", "2") in pages.log, PATIENCE)
    assert len(world.receipts_so_far()) == 1, "the third waits for the second"
    with pages.changed:
        pages.held = set()
        pages.changed.notify_all()
    process.communicate(timeout=PATIENCE)
    assert one_each(world, 3) == ["allowed"] * 3
    verified(world)


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def test_a_write_waits_for_all_before_it_and_holds_all_after_it(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    written = world.workspace / "w.txt"
    pages.look = written.exists
    pages.needed = 2
    write = {"name": "Write", "arguments": {"file_path": "w.txt", "content": "x"}}
    world.script(reply(fetch(port, 0), fetch(port, 1), write, fetch(port, 2), fetch(port, 3)), text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    assert pages.seen == {"0": False, "1": False, "2": True, "3": True}
    ended = [page for what, page in pages.log[:4] if what == "ends"]
    assert sorted(ended) == ["0", "1"], "both had ended before the write, and so before the next began"
    assert kinds(world) == ["use", "use", "result", "result", "use", "result", "use", "use", "result", "result"]
    assert one_each(world, 5) == ["allowed"] * 5
    verified(world)


ALONE = {
    "Write": {"file_path": "w.txt", "content": "x"},
    "TodoWrite": {"todos": [{"content": "x", "status": "pending", "activeForm": "x"}]},
    "Bash": {"command": "echo x > y.txt"},
    "Agent": {"description": "d", "prompt": "p", "model": "helper"},
    "Skill": {"skill": "none"},
    "EnterPlanMode": {},
}
TOGETHER = {
    "Read": {"file_path": "a.txt"},
    "Grep": {"pattern": "a"},
    "Glob": {"pattern": "*"},
    "LS": {"path": "."},
    "Agent": {"description": "d", "prompt": "p", "subagent_type": "Explore", "model": "helper"},
}


@pytest.mark.parametrize(("name", "given"), ALONE.items())
def test_what_may_change_something_runs_by_itself(world: World, name: str, given: dict[str, Any]) -> None:
    helper(world, text("child"), autonomy="full")
    one = {"name": name, "arguments": given}
    world.script(reply(one, one), text("done"))
    world.agent("go")
    assert kinds_of_first_session(world) == ["use", "result", "use", "result"]
    verified(world)


@pytest.mark.parametrize(("name", "given"), TOGETHER.items())
def test_what_only_reads_runs_together(world: World, name: str, given: dict[str, Any]) -> None:
    helper(world, text("child"), autonomy="full")
    (world.workspace / "a.txt").write_text("a\n")
    one = {"name": name, "arguments": given}
    world.script(reply(one, one), text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    assert kinds_of_first_session(world) == ["use", "use", "result", "result"]
    verified(world)


def kinds_of_first_session(world: World) -> list[str]:
    rows = world.rows(
        "SELECT entry_type FROM transcript_entries WHERE entry_type LIKE 'tool%' AND session_id ="
        " (SELECT session_id FROM runs ORDER BY rowid LIMIT 1) ORDER BY id"
    )
    return [row[0].removeprefix("tool_") for row in rows]


@pytest.mark.parametrize(("command", "together"), [("cat a.txt", True), ("cd sub && ls", False), ("ls > out", False)])
def test_commands_run_together_where_they_only_look_in_a_sandbox(
    world: World, needs: Any, command: str, together: bool
) -> None:
    needs("bwrap")
    world.configure(autonomy="supervised")
    (world.workspace / "sub").mkdir()
    (world.workspace / "a.txt").write_text("a\n")
    one = {"name": "Bash", "arguments": {"command": command}}
    world.script(reply(one, one), text("done"))
    world.agent("go", stdin="y\ny\n")
    assert (kinds(world) == ["use", "use", "result", "result"]) == together
    verified(world)


def test_tools_of_a_server_run_together_once_the_operator_approved_that_they_only_read(
    world: World, needs: Any
) -> None:
    needs("bwrap")
    serve(world)
    world.cli.env["MY_TOKEN"] = "x"
    one = {"name": "mcp__demo__add", "arguments": {"a": 1, "b": 2}}
    for order in (["use", "result", "use", "result"], ["use", "use", "result", "result"]):
        world.script(reply(one, one), text("done"))
        before = len(kinds(world)) if world.database.exists() else 0
        done = world.agent("go")
        assert done.code == 0, done.err
        assert kinds(world)[before:] == order
        verified(world)
        assert world.cli("mcp", "approve", "demo").code == 0


def test_no_more_run_at_once_than_the_setting_says(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    runtime(world, "parallel_calls = 2")
    pages.needed = 2
    world.script(reply(*(fetch(port, page) for page in range(5))), text("done"))
    assert world.agent("go").code == 0
    assert pages.most() == 2
    assert one_each(world, 5) == ["allowed"] * 5
    verified(world)


# ------------------------------------------------------------------ judged one by one, recorded in order


def test_hooks_of_all_come_in_order_and_before_any_of_them_runs(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    pages.needed = 3
    heard = world.workspace.parent / "heard"
    told = 'print(d["hook_event_name"], d["tool_input"]["url"][-1])'
    note = f"python3 -c 'import json,sys; d=json.load(sys.stdin); {told}' >> {heard}"
    hook = [{"matcher": "WebFetch", "hooks": [{"type": "command", "command": note}]}]
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": hook, "PostToolUse": hook}}))
    world.script(reply(*(fetch(port, page) for page in range(3))), text("done"))
    assert world.agent("go").code == 0
    assert heard.read_text().split("\n")[:-1] == [
        *(f"PreToolUse {page}" for page in range(3)),
        *(f"PostToolUse {page}" for page in range(3)),
    ]
    verified(world)


def test_a_call_that_is_denied_keeps_its_place(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    outside = {"name": "Read", "arguments": {"file_path": "/etc/shadow"}}
    unknown: dict[str, Any] = {"name": "Reed", "arguments": {}}
    world.script(reply(fetch(port, 0), outside, fetch(port, 1), unknown, fetch(port, 2)), text("done"))
    world.agent("go")
    assert one_each(world, 5) == ["allowed", "denied", "allowed", "failed", "allowed"]
    verified(world)


def test_each_question_is_asked_by_itself_and_in_order(world: World, pages: Pages, port: int) -> None:
    configure(world, port, more='[permissions]\nask = ["WebFetch"]\n')
    world.script(reply(*(fetch(port, page) for page in range(3))), text("done"))
    world.agent("go", stdin="y\nn\ny\n")
    assert one_each(world, 3) == ["allowed", "denied", "allowed"]
    assert pages.begun() == ["0", "2"]
    verified(world)


def test_the_limit_of_calls_counts_those_that_have_not_run_yet(world: World, pages: Pages, port: int) -> None:
    configure(world, port, more="[limits]\ntool_calls = 3\n")
    world.script(reply(*(fetch(port, page) for page in range(5))), text("done"))
    done = world.agent("go")
    assert "tool call limit" in done.err
    assert one_each(world, 5) == ["allowed"] * 3 + ["denied"] * 2
    assert sorted(pages.begun()) == ["0", "1", "2"]
    verified(world)


# ------------------------------------------------------------------ interrupted


def resumed(world: World) -> None:
    ((conversation,),) = world.rows("SELECT id FROM conversations")
    done = world.cli("agent", "--resume", conversation)
    assert (done.code, done.out) == (0, "done\n"), done.err


def test_killed_in_the_middle_each_call_has_one_result_and_one_receipt(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    pages.held = {"1", "2", "4"}
    world.script(reply(*(fetch(port, page) for page in range(5))), text("done"))
    process = world.cli.start("agent", "-m", "go")
    pages.wait(5)
    wait_for(lambda: kinds(world) == ["use"] * 5 + ["result"])
    process.kill()
    process.communicate()
    resumed(world)
    assert one_each(world, 5) == ["allowed"] + ["failed"] * 4
    assert ["outcome is unknown" in said for said in results(world)] == [False] + [True] * 4
    assert len(pages.begun()) == 5, "none was run again"
    for (run_id,) in world.rows("SELECT run_id FROM runs"):
        verified(world, run_id)


@pytest.mark.soak
def test_killed_anywhere_in_a_batch_each_call_has_one_result_and_one_receipt(world: World, soak: Soak) -> None:
    """Calls that are alike, so that a receipt could be taken for that of another."""
    world.configure(autonomy="full")
    (world.workspace / "a.txt").write_text("a\n")
    same = {"name": "Read", "arguments": {"file_path": "a.txt"}}
    write = {"name": "Write", "arguments": {"file_path": "w.txt", "content": "x"}}
    world.script(reply(same, same, same, write, same, same), text("done"))
    for number in soak.of(60, share=12):
        fresh(world)
        (world.workspace / "w.txt").unlink(missing_ok=True)
        chance = random.Random(number)
        if not killed_at(world, chance.randrange(1, 6), chance.uniform(0, 0.006)):
            continue
        resumed(world)
        one_each(world, 6)
        for (run_id,) in world.rows("SELECT run_id FROM runs"):
            verified(world, run_id)


def test_interrupted_in_the_middle_each_call_has_one_result_and_one_receipt(
    world: World, pages: Pages, port: int
) -> None:
    configure(world, port)
    pages.held = {"1", "2"}
    write = {"name": "Write", "arguments": {"file_path": "w.txt", "content": "x"}}
    world.script(reply(*(fetch(port, page) for page in range(3)), write, fetch(port, 3)), text("done"))
    process = world.cli.start("agent", "-m", "go")
    pages.wait(3)
    wait_for(lambda: len(world.receipts_so_far()) == 1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert one_each(world, 5) == ["allowed", "failed", "failed", "denied", "denied"]
    assert not (world.workspace / "w.txt").exists()
    verified(world)


def answer(pages: Pages, page: str) -> None:
    with pages.changed:
        pages.held.remove(page)
        pages.changed.notify_all()
        assert pages.changed.wait_for(lambda: ("ends", page) in pages.log, PATIENCE)


@pytest.mark.parametrize("hooked", [False, True])
def test_what_had_ended_before_an_interruption_is_recorded_as_it_ended(
    world: World, pages: Pages, port: int, hooked: bool
) -> None:
    """The first never ends, and the agent ends last: when it has, so have those between them."""
    looks = {"name": "WebFetch", "arguments": {"url": f"http://127.0.0.1:{port}/7", "prompt": ""}}
    helper(world, reply(looks), text("child"))
    both = (world.cli.data / "config.toml").read_text().partition("[providers.models.local]")[2]
    configure(world, port, more=both.partition('model = "mock"\n')[2])
    if hooked:
        hook = [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]
        (world.cli.data / "settings.json").write_text(json.dumps({"hooks": {"PostToolUse": hook}}))
    (world.workspace / "a.txt").write_text("the text of a\n")
    read = {"name": "Read", "arguments": {"file_path": "a.txt"}}
    missing = {"name": "Read", "arguments": {"file_path": "b.txt"}}
    agent = {"name": "Agent", "arguments": TOGETHER["Agent"]}
    pages.held = {"0", "2", "7"}
    write = {"name": "Write", "arguments": {"file_path": "w.txt", "content": "x"}}
    world.script(reply(fetch(port, 0), fetch(port, 1), read, fetch(port, 2), missing, agent, write), text("done"))
    process = world.cli.start("agent", "-m", "go")
    pages.wait(4)
    with pages.changed:
        assert pages.changed.wait_for(lambda: ("ends", "1") in pages.log, PATIENCE)
    answer(pages, "7")
    wait_for(lambda: [row[0] for row in world.rows("SELECT outcome FROM subagents")] == ["completed"])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    rows = world.rows(
        "SELECT r.line, e.payload_json FROM receipts r JOIN transcript_entries e ON e.tool_use_id = r.tool_use_id"
        " AND e.session_id = r.session_id AND e.entry_type = 'tool_result' WHERE r.session_id ="
        " (SELECT session_id FROM runs ORDER BY rowid LIMIT 1) ORDER BY r.seq"
    )
    statuses = [json.loads(line)["status"] for line, _ in rows]
    said = [json.loads(payload)["content"] for _, payload in rows]
    del statuses[5]  # its own end may not have been heard any more
    assert statuses == ["failed", "allowed", "allowed", "failed", "failed", "denied"]
    assert ["outcome is unknown" in one for one in said[:5]] == [True, False, False, True, False]
    assert "page 1" in said[1]
    assert "the text of a" in said[2]
    assert "b.txt" in said[4]
    assert said[6].startswith("Not run:")
    verified(world)


def test_the_emergency_stop_ends_all_of_them(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    pages.held = {"0", "1", "2"}
    world.script(reply(*(fetch(port, page) for page in range(3))), text("done"))
    process = world.cli.start("agent", "-m", "go")
    pages.wait(3)
    assert world.cli("estop").code == 0
    process.communicate(timeout=PATIENCE)
    assert one_each(world, 3) == ["failed"] * 3
    assert all("emergency stop" in said for said in results(world))
    assert world.rows("SELECT outcome FROM runs") == [("stopped",)]
    world.cli("estop", "--clear")
    verified(world)


def test_a_write_that_waits_when_the_stop_comes_is_not_made(world: World, pages: Pages, port: int) -> None:
    configure(world, port)
    pages.held = {"0", "1"}
    write = {"name": "Write", "arguments": {"file_path": "w.txt", "content": "x"}}
    world.script(reply(fetch(port, 0), fetch(port, 1), write), text("done"))
    process = world.cli.start("agent", "-m", "go")
    pages.wait(2)
    assert world.cli("estop").code == 0
    process.communicate(timeout=PATIENCE)
    assert one_each(world, 3) == ["failed", "failed", "denied"]
    assert not (world.workspace / "w.txt").exists()
    world.cli("estop", "--clear")
    verified(world)


def asked_about_the_second(world: World, port: int) -> "subprocess.Popen[bytes]":
    """A run in which a call that is allowed waits while the operator is asked about the next."""
    configure(world, port, more='[permissions]\nask = ["Read"]\n')
    (world.workspace / "a.txt").write_text("a\n")
    read = {"name": "Read", "arguments": {"file_path": "a.txt"}}
    world.script(reply(fetch(port, 0), read, fetch(port, 1)), text("done"))
    process = world.cli.start("agent", "-m", "go")
    wait_for(lambda: world.database.exists() and bool(asked(world)))
    return process


def asked(world: World) -> list[tuple[Any, ...]]:
    try:
        return world.rows("SELECT id FROM approvals")
    except sqlite3.OperationalError:  # the tables are still being made
        return []


def test_interrupted_while_the_operator_is_asked_nothing_has_run(world: World, pages: Pages, port: int) -> None:
    process = asked_about_the_second(world, port)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert one_each(world, 3) == ["denied"] * 3
    assert all(said.startswith("Not run:") for said in results(world))
    assert pages.begun() == []
    verified(world)


def shown_until(process: subprocess.Popen[bytes], mark: bytes) -> None:
    assert process.stderr is not None
    seen = b""
    while not seen.endswith(mark):
        chunk = os.read(process.stderr.fileno(), 1)
        assert chunk, seen
        seen += chunk


def test_the_model_hears_that_nothing_has_run(world: World, pages: Pages, port: int) -> None:
    """The conversation goes on in the same process: what its history says is what the store says."""
    configure(world, port, more='[permissions]\nask = ["Read"]\n')
    (world.workspace / "a.txt").write_text("a\n")
    read = {"name": "Read", "arguments": {"file_path": "a.txt"}}
    world.script(reply(fetch(port, 0), read), text("heard: {{last_result}}"))
    ours, theirs = keyboard()
    with ours:
        process = world.cli.start("agent", stdin=theirs)
        os.close(theirs)
        ours.write(b"go\n")
        wait_for(lambda: world.database.exists() and bool(asked(world)))
        shown_until(process, b"Approve? [y/N] ")  # what is typed before it counts for nothing
        process.send_signal(signal.SIGINT)
        shown_until(process, b"> ")
        ours.write(b"well?\n/exit\n")
        out, _ = process.communicate(timeout=PATIENCE)
    assert b"heard: Not run:" in out
    assert pages.begun() == []
    verified(world)


def test_stopped_while_the_operator_is_asked_nothing_runs(world: World, pages: Pages, port: int) -> None:
    process = asked_about_the_second(world, port)
    assert world.cli("estop").code == 0
    process.communicate(b"y\n", timeout=PATIENCE)
    assert one_each(world, 3) == ["denied"] * 3
    assert pages.begun() == []
    world.cli("estop", "--clear")
    verified(world)
