"""`adderclaw rpc` as a client sees it: messages on stdout and nothing else, every error code, runs, approvals."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.acceptance.test_agentfile import Flow
from tests.acceptance.test_replay import verified
from tests.acceptance.test_stop_and_limits import gone, running
from tests.acceptance.world import World, call, text
from tests.program import PROGRAM
from tests.scripted import ScriptedModel

type Message = dict[str, Any]


class Rpc:
    """A client: sends lines, reads messages; what is no JSON-RPC message fails the test."""

    def __init__(self, world: World) -> None:
        self.process: subprocess.Popen[bytes] = world.cli.start("rpc", "--workspace", str(world.workspace))
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        self._held = b""
        self.seen: list[Message] = []

    def raw(self, line: bytes) -> None:
        self._in.write(line)
        self._in.flush()

    def send(self, message: object) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def request(self, id: object, method: str, /, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def read(self, seconds: float = 90) -> Any:
        """The next message; None at the end of the output."""
        ends = time.monotonic() + seconds
        waiting = select.poll()  # other than `select`, for descriptors beyond 1,024 too
        waiting.register(self._out, select.POLLIN)
        while b"\n" not in self._held:
            assert waiting.poll(max(ends - time.monotonic(), 0) * 1000), f"no message within {seconds} s"
            data = os.read(self._out.fileno(), 65536)
            if not data:
                assert not self._held
                return None
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        return json.loads(line)

    def until(self, method: str | None = None, id: object = None) -> Message:
        """Messages up to a notification of this method, or the answer with this id."""
        while True:
            message = self.read()
            assert message is not None, "the output ended"
            assert message["jsonrpc"] == "2.0"
            self.seen.append(message)
            if (method is not None and message.get("method") == method) or (
                method is None and "method" not in message and message["id"] == id
            ):
                return cast(Message, message)

    def answer(self, id: object, method: str, /, **params: Any) -> Message:
        self.request(id, method, **params)
        return self.until(id=id)

    def events(self, kind: str) -> list[Message]:
        told = [one["params"] for one in self.seen if one.get("method") == "event"]
        return [one for one in told if one["event_type"] == kind]

    def half(self) -> None:
        """Say no more, and listen on."""
        self._in.close()

    def close(self) -> int:
        self._in.close()
        code = self.process.wait(90)
        self._out.close()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


def asked_of(flow: Flow) -> None:
    """Wait until the model was asked."""
    limit = time.monotonic() + 90
    while not flow.model.requests:
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as made:
        yield made


@pytest.fixture
def flow(world: World, model: ScriptedModel) -> Flow:
    return Flow(world, model)


@pytest.fixture
def rpc(flow: Flow) -> Iterator[Rpc]:
    client = Rpc(flow.world)
    yield client
    if client.process.poll() is None:
        assert client.close() == 0


# ------------------------------------------------------------------ refusals

BAD = [
    (b"rubbish\n", -32700),
    (b'{"jsonrpc": "2.0", "method"\n', -32700),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"status"}\n', -32700),
    (b"\xff\xfe\n", -32700),
    (b"[" * 100_000 + b"\n", -32700),
    (b"[]\n", -32600),
    (b"1\n", -32600),
    (b'"text"\n', -32600),
    (b"null\n", -32600),
    (b"{}\n", -32600),
    (b'{"jsonrpc":"1.0","id":7,"method":"status"}\n', -32600),
    (b'{"jsonrpc":"2.0","id":7,"method":5}\n', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"status"}\n', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"status"}\n', -32600),
    (b'{"jsonrpc":"2.0","id":1e400,"method":"status"}\n', -32600),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"status"}\n', -32700),
    (b'{"jsonrpc":"2.0","id":7,"method":"status","params":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}\n", -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"agentfile":"a\\u0000b"}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","workspace":"a\\u0000b"}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"\\ud800"}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","limits":{"depth":1}}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","limits":{"tokens":-1}}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","limits":{"tokens":1.5}}}\n', -32000),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","rounds":1}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"validate","params":{"agentfile":"a\\u0000b"}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"status","params":5}\n', -32600),
    (b'{"jsonrpc":"2.0","id":7,"method":"nope"}\n', -32601),
    (b'{"jsonrpc":"2.0","id":7,"method":"status","params":[1]}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"status","params":{"run":1}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","agentfile":"b"}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"agentfile":"/nowhere"}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","inputs":{"a":"b"}}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","profile":"root"}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":7,"method":"run","params":{"message":"a","workspace":"/nowhere"}}\n', -32000),
    (b'{"jsonrpc":"2.0","id":7,"method":"cancel","params":{"run_id":"x"}}\n', -32001),
    (b'{"jsonrpc":"2.0","id":7,"method":"status","params":{"run_id":"nosuch"}}\n', -32001),
    (b'{"jsonrpc":"2.0","id":7,"method":"approve","params":{"id":"x","approved":true}}\n', -32002),
    (b'{"jsonrpc":"2.0","id":7,"method":"approve","params":{"id":"x","approved":"yes"}}\n', -32602),
]


def test_every_bad_message_gets_its_error_and_the_next_one_is_served(rpc: Rpc) -> None:
    for line, code in BAD:
        rpc.raw(line)
        while "method" in (said := rpc.read()):
            pass
        assert said["error"]["code"] == code, (line[:60], said)
        expected = 7 if b'"id":7' in line else None
        assert said["id"] == expected, (line[:60], said)
    assert rpc.answer("alive", "status")["result"] == {"runs": []}
    rpc.raw(b'{"jsonrpc":"2.0","id":"half","meth')  # and then its end
    rpc.half()
    assert rpc.read()["error"]["code"] == -32700
    assert rpc.read() is None
    assert rpc.process.wait(30) == 0


def test_a_message_that_is_too_long_is_refused_and_the_next_one_is_served(rpc: Rpc) -> None:
    rpc.raw(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (9 << 20) + b'"}\n')
    assert rpc.read()["error"]["code"] == -32600
    assert rpc.answer(2, "status")["id"] == 2


def test_notifications_are_never_answered_and_batches_are_answered_as_one(rpc: Rpc) -> None:
    rpc.send({"jsonrpc": "2.0", "method": "nope"})
    rpc.send({"jsonrpc": "2.0", "method": "cancel", "params": {"run_id": "x"}})
    rpc.send([{"jsonrpc": "2.0", "method": "status"}, {"jsonrpc": "2.0", "method": "nope"}])
    rpc.send([1, {"jsonrpc": "2.0", "id": "a", "method": "status"}, {"jsonrpc": "2.0", "method": "status"}])
    said = rpc.read()
    assert isinstance(said, list)
    by_id = {one["id"]: one for one in cast(list[Message], said)}
    assert by_id[None]["error"]["code"] == -32600
    assert by_id["a"]["result"] == {"runs": []}
    assert len(by_id) == 2


def test_a_batch_has_a_limit(rpc: Rpc) -> None:
    rpc.send([{"jsonrpc": "2.0", "id": n, "method": "status"} for n in range(101)])
    assert rpc.read()["error"]["code"] == -32600


# ------------------------------------------------------------------ runs


def test_initialize_says_what_the_server_can_do(rpc: Rpc) -> None:
    said = rpc.answer(1, "initialize", protocol_version="1.0", client={"name": "test"})["result"]
    assert said["server"]["name"] == "adderclaw"
    assert {"run", "cancel", "approve", "validate", "status"} <= set(said["capabilities"]["methods"])


def test_a_workflow_is_run_and_its_events_are_streamed(flow: Flow, rpc: Rpc) -> None:
    flow.write('INPUT who\nGOAL g "Greet $who"\nRUN r USING g\n')
    flow.add(call("Time"), call("GoalResult", achieved=True, summary="hello"))
    said = rpc.answer(1, "run", agentfile=str(flow.folder / "Agentfile"), inputs={"who": "you"})["result"]
    assert (said["outcome"], said["answer"], said["exit_code"]) == ("completed", "hello", 0)
    assert [one["payload"]["goal"] for one in rpc.events("goal_started")] == ["g"]
    assert [one["payload"]["goal"] for one in rpc.events("goal_complete")] == ["g"]
    called = rpc.events("tool_call")
    assert [(one["payload"]["goal"], one["payload"]["tool"]) for one in called] == [("g", "Time"), ("g", "GoalResult")]
    assert {one["request_id"] for one in called} == {1}
    assert rpc.answer(2, "status", run_id=said["run_id"])["result"]["status"] == "completed"


def test_a_dry_run_and_a_validation_ask_no_model(flow: Flow, rpc: Rpc) -> None:
    flow.write('GOAL g "Greet"\nRUN r USING g\n')
    path = str(flow.folder / "Agentfile")
    assert rpc.answer(1, "run", agentfile=path, dry_run=True)["result"]["mode"] == "dry_run"
    assert rpc.answer(2, "validate", agentfile=path)["result"]["workflow"]["name"] == "flow"
    flow.write('GOAL g "Greet"\nRUN r USING h\n')
    said = rpc.answer(3, "validate", agentfile=path)["result"]
    assert (said["valid"], said["problems"][0]["line"]) == (False, 3)
    assert not flow.model.requests


def test_a_run_is_cancelled(flow: Flow, rpc: Rpc) -> None:
    flow.add({"hang": 30})
    rpc.request(1, "run", message="hi")
    started = rpc.until("event")["params"]["run_id"]
    asked_of(flow)
    assert rpc.answer(2, "cancel", run_id=started, reason="enough")["result"]["cancelled"] is True
    said = rpc.until(id=1)["result"]
    assert (said["outcome"], said["reason"], said["exit_code"]) == ("stopped", "enough", 6)
    assert flow.world.rows("SELECT outcome FROM runs") == [("stopped",)]
    verified(flow.world, started)


def test_a_cancel_in_the_middle_of_a_tool_call_ends_what_it_started(flow: Flow, rpc: Rpc) -> None:
    marker = "98766.5"
    flow.add(call("Bash", command=f"sleep {marker}"))
    flow.configure(security='allowed_commands = ["sleep"]')
    rpc.request(1, "run", message="hi", profile="permissive")
    limit = time.monotonic() + 60
    while not running(marker):
        assert time.monotonic() < limit
        time.sleep(0.02)
    twice = rpc.answer(1, "run", message="again")
    assert twice["error"]["message"] == "Invalid Request: a run of the request 1 is already active"
    assert rpc.answer(2, "cancel", request_id=1)["result"]["cancelled"] is True
    assert rpc.until(id=1)["result"]["outcome"] == "stopped"
    assert gone(marker, within=10)
    (receipt,) = flow.world.receipts()
    assert receipt["status"] == "failed"
    ((result,),) = flow.world.rows("SELECT payload_json FROM transcript_entries WHERE entry_type = 'tool_result'")
    assert "the outcome is unknown" in result


@pytest.mark.parametrize("approved", [True, False])
def test_the_client_is_the_operator_and_answers_once(flow: Flow, rpc: Rpc, approved: bool) -> None:
    whole = f"{'x' * 9_000} p\u0430ypal end"
    endless = call("Write", file_path="b.txt", content="z" * 200_001)
    flow.add(endless, call("Write", file_path="a.txt", content=whole), text("ended"))
    rpc.request(1, "run", message="hi", profile="supervised")
    asked = rpc.until("approval_request")["params"]
    assert asked["tool"] == "Write"
    assert whole in asked["shown"]
    assert asked["lookalikes"] == ["p\\u{430}ypal"]
    refused = rpc.events("approval_answered")[0]["payload"]
    assert (refused["approved"], refused["by"]) == (False, "no_operator")
    assert "too long to be shown whole" in refused["comment"]
    assert "a.txt" in asked["shown"]
    assert rpc.answer(2, "status")["result"]["runs"][0]["approvals"] == [asked["id"]]
    rpc.send(
        [
            {"jsonrpc": "2.0", "id": n, "method": "approve", "params": {"id": asked["id"], "approved": approved}}
            for n in (3, 4)
        ]
    )
    while not isinstance(said := rpc.read(), list):
        rpc.seen.append(said)
    answers = {one["id"]: one for one in cast(list[Message], said)}
    assert answers[3]["result"]["approved"] is approved
    assert answers[4]["error"]["code"] in (-32002, -32003)
    ended = rpc.until(id=1)["result"]
    assert ended["outcome"] == ("completed" if approved else "denied")
    assert (flow.folder / "a.txt").exists() is approved


def test_two_runs_of_one_client_go_side_by_side(world: World) -> None:
    aside: dict[str, Any] = {"first-task": {"text": "one"}, "second-task": {"text": "two"}}
    with ScriptedModel(aside=aside) as model:
        Flow(world, model)
        client = Rpc(world)
        client.request(1, "run", message="first-task")
        client.request(2, "run", message="second-task")
        answers: dict[Any, str] = {}
        while len(answers) < 2:
            message = client.read()
            if "method" not in message:
                answers[message["id"]] = message["result"]["answer"]
        assert answers == {1: "one", 2: "two"}
        assert client.close() == 0


def test_two_clients_at_once_share_one_store(world: World) -> None:
    aside: dict[str, Any] = {"task": {"text": "done"}}
    with ScriptedModel(aside=aside) as model:
        Flow(world, model)
        clients = [Rpc(world), Rpc(world)]
        for number in range(5):
            for client in clients:
                client.request(number, "run", message="task")
            for client in clients:
                assert client.until(id=number)["result"]["outcome"] == "completed"
        assert [client.close() for client in clients] == [0, 0]
    assert world.rows("SELECT count(*) FROM runs WHERE outcome = 'completed'") == [(10,)]


# ------------------------------------------------------------------ the end


def test_a_client_that_disappears_ends_its_runs(flow: Flow, rpc: Rpc) -> None:
    flow.add({"hang": 30})
    rpc.request(1, "run", message="hi")
    asked_of(flow)
    assert rpc.close() == 0
    assert flow.world.rows("SELECT outcome, reason FROM runs") == [("stopped", "the client closed the connection")]


def test_a_signal_ends_the_server_and_its_runs(flow: Flow, rpc: Rpc) -> None:
    flow.add({"hang": 30})
    rpc.request(1, "run", message="hi")
    asked_of(flow)
    rpc.process.send_signal(signal.SIGTERM)
    assert rpc.process.wait(90) == 143
    assert flow.world.rows("SELECT outcome FROM runs") == [("stopped",)]


def test_a_client_that_reads_late_loses_no_answer(world: World) -> None:
    steps: list[Any] = [call("Time") for _ in range(150)]
    with ScriptedModel([*steps, text("done")]) as model:
        flow = Flow(world, model)
        flow.configure(more="[limits]\ntool_calls = 1000\n")
        config = world.cli.data / "config.toml"
        more = "[runtime]\nmax_tool_rounds = 500\nloop_stop_at = 900"
        config.write_text(config.read_text().replace("[runtime]", more))
        client = Rpc(world)
        client.request(1, "run", message="hi")
        limit = time.monotonic() + 60
        while model.left and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.2)
        assert client.until(id=1)["result"]["answer"] == "done"
        assert client.close() == 0


def test_files_may_be_at_both_ends(flow: Flow, tmp_path: Path) -> None:
    lines = [{"jsonrpc": "2.0", "id": id, "method": "status"} for id in range(3_000)]
    (tmp_path / "in").write_text("\n".join(json.dumps(line) for line in lines))
    with (tmp_path / "in").open("rb") as given, (tmp_path / "out").open("wb") as taken:
        process = subprocess.run(
            [str(PROGRAM), "rpc"], stdin=given, stdout=taken, env=flow.world.cli.env, timeout=60, check=False
        )
    assert process.returncode == 0
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert sorted(one["id"] for one in answers) == list(range(3_000))


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, None], ids=["nothing", "closed"])
def test_a_server_without_a_client_ends_at_once(flow: Flow, stdin: int | None) -> None:
    program = [str(PROGRAM), "rpc"] if stdin is not None else ["sh", "-c", f"exec {PROGRAM} rpc <&-"]
    done = subprocess.run(program, stdin=stdin, capture_output=True, env=flow.world.cli.env, timeout=30, check=False)
    assert done.returncode == (0 if stdin is not None else 2)
    assert b"Traceback" not in done.stderr


ASKED = {"question": "Which?", "header": "H", "options": [{"label": "red"}, {"label": "blue"}], "multiSelect": False}


@pytest.mark.parametrize("replies", [{"Which?": "red"}, None])
def test_the_client_answers_the_models_questions_once(flow: Flow, rpc: Rpc, replies: dict[str, str] | None) -> None:
    question = {**ASKED, "options": [{**one, "description": "d"} for one in cast(list[Message], ASKED["options"])]}
    flow.add(call("AskUserQuestion", questions=[question]), text("taken"))
    rpc.request(1, "run", message="hi")
    asked = rpc.until("question_request")["params"]
    assert [one["label"] for one in asked["questions"][0]["options"]] == ["red", "blue"]
    assert rpc.answer(2, "answer", id="none", replies={})["error"]["code"] == -32002
    assert rpc.answer(3, "status")["result"]["runs"][0]["questions"] == [asked["id"]]
    rpc.request(4, "answer", id=asked["id"], replies=replies)
    rpc.request(5, "answer", id=asked["id"], replies=replies)
    assert rpc.until(id=5)["error"]["code"] == -32003
    assert rpc.until(id=1)["result"]["answer"] == "taken"
    assert ("red" in str(flow.model.requests[1].messages[-1])) is (replies is not None)


def test_a_run_is_cancelled_by_the_request_that_began_it(flow: Flow, rpc: Rpc) -> None:
    flow.add({"hang": 30})
    rpc.request("mine", "run", message="hi")
    rpc.until("event")
    assert rpc.answer(2, "cancel", request_id="other")["error"]["code"] == -32001
    assert rpc.answer(3, "cancel")["error"]["code"] == -32602
    assert rpc.answer(4, "cancel", request_id="mine")["result"]["cancelled"]
    assert rpc.until(id="mine")["result"]["outcome"] == "stopped"


def test_a_run_that_is_refused_after_it_began_has_its_outcome(flow: Flow, rpc: Rpc) -> None:
    flow.write('AGENT a "x" REQUIRES wings\nGOAL g "x" USING a\nRUN r USING g\n')
    said = rpc.answer(1, "run", agentfile=str(flow.folder))["result"]
    assert said["outcome"] == "error"
    assert "REQUIRES wings" in said["reason"]
    assert flow.run().code == 2
    assert flow.world.rows("SELECT outcome FROM runs") == [("error",), ("error",)]
