"""Telemetry as a service sees it: OTLP by the official decoder, plain posts, a file; and what a dead one costs."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any, Self

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.world import World, call, text
from tests.managed import Machine
from tests.scripted import ScriptedModel

conventions: Any = import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
NAMES: set[str] = {getattr(conventions, name) for name in dir(conventions) if name.startswith("GEN_AI_")}


class Receiver:
    """A service that keeps what is posted to it."""

    def __init__(self, status: int = 200) -> None:
        self.posts: list[tuple[str, bytes]] = []
        self.logins: set[str | None] = set()
        posts, logins = self.posts, self.logins

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                posts.append((self.path, body))
                logins.add(self.headers.get("Authorization"))
                if not status:  # it goes away in the middle
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self.send_response(status)
                if status >= 400:
                    self.send_header("Retry-After", "30")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def configure(world: World, protocol: str, endpoint: str = "", more: str = "") -> None:
    """However busy the machine is, what is left is waited for."""
    where = f'endpoint = "{endpoint}"\n' if endpoint else ""
    waits = "flush_seconds = 60\n" if "flush_seconds" not in more else ""
    world.configure(more=f'[telemetry]\nenabled = true\nprotocol = "{protocol}"\n{waits}{where}{more}')


def run(world: World) -> None:
    world.script(call("Time"), call("Read", file_path="/etc/shadow"), text("the secret answer"))
    done = world.agent("a secret question")
    assert done.code == 3, done.err


def test_nothing_is_sent_unless_it_is_configured(world: World, receiver: Receiver) -> None:
    world.configure(more=f'[telemetry]\nenabled = false\nprotocol = "http"\nendpoint = "{receiver.url}"\n')
    run(world)
    configure(world, "noop", receiver.url)
    run(world)
    assert receiver.posts == []


def test_no_variable_switches_off_what_an_administrator_wants_recorded(world: World, receiver: Receiver) -> None:
    wanted = f'enabled = true\nprotocol = "otlp"\nendpoint = "{receiver.url}"\nflush_seconds = 60\n'
    Machine(world.cli).write(f"[telemetry]\n{wanted}")
    world.cli.env["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=Bearer%20abc"  # no file holds what logs in
    for name, said in (
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("TRACEPARENT", f"00-{'1' * 32}-{'2' * 16}-00"),
    ):
        receiver.posts.clear()
        world.cli.env[name] = said
        world.script(text("answered"))
        assert world.agent("hi").code == 0
        assert {path for path, _ in receiver.posts} == {"/v1/traces", "/v1/metrics"}, name
        del world.cli.env[name]
    assert receiver.logins == {"Bearer abc"}


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        *(("http", "closed"), ("http", "silent"), ("http", "429"), ("http", "goes away")),
        *(("otlp", "closed"), ("otlp", "silent"), ("otlp", "503")),
    ],
)
def test_a_dead_service_neither_fails_nor_holds_up_a_run_and_is_said_once(
    world: World, protocol: str, kind: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, Receiver(int(kind) if kind.isdigit() else 0) as failing:
        port = listening.getsockname()[1]
        if kind == "closed":
            listening.close()
        silent = kind in ("closed", "silent")
        configure(world, protocol, f"http://127.0.0.1:{port}" if silent else failing.url, "flush_seconds = 2\n")
        world.script(text("answered"))
        began = time.monotonic()
        done = world.agent("hi")
        assert (done.code, done.out) == (0, "answered\n"), done.err
        assert time.monotonic() - began < 25
    said = [line for line in done.err.splitlines() if "telemetry" in line]
    assert len(said) == 1, done.err
    assert said[0].endswith("what it does not take is lost, and nothing else")
    if kind.isdigit() and protocol == "http":
        assert f"answered {kind}" in said[0] or "in time" in said[0]


def spans_of(receiver: Receiver) -> list[Any]:
    found: list[Any] = []
    for path, body in receiver.posts:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    found += scope.spans
    return found


def attributes(span: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in span.attributes:
        value = one.value
        found[one.key] = getattr(value, value.WhichOneof("value"))
    return found


def test_a_run_is_a_tree_of_spans_by_the_conventions(world: World, receiver: Receiver) -> None:
    configure(world, "otlp", receiver.url)
    run(world)
    spans = spans_of(receiver)
    names = [span.name for span in spans]
    assert names.count("chat mock") == 3
    assert {"invoke_agent adderclaw", "turn", "execute_tool Time", "execute_tool Read"} <= set(names)
    by_id = {span.span_id: span for span in spans}
    root = next(span for span in spans if not span.parent_span_id)
    assert root.name == "invoke_agent adderclaw"
    assert len({span.trace_id for span in spans}) == 1
    parents = {span.name: by_id[span.parent_span_id].name for span in spans if span.parent_span_id}
    assert parents == {
        "turn": "invoke_agent adderclaw",
        "chat mock": "turn",
        "execute_tool Time": "turn",
        "execute_tool Read": "turn",
    }
    chat = attributes(next(span for span in spans if span.name == "chat mock"))
    assert chat["gen_ai.operation.name"] == "chat"
    assert chat["gen_ai.request.model"] == "mock"
    assert "gen_ai.usage.input_tokens" in chat
    for span in spans:
        said = attributes(span)
        assert {key for key in said if key.startswith("gen_ai.")} <= NAMES
        if operation := said.get("gen_ai.operation.name"):
            assert operation in {one.value for one in conventions.GenAiOperationNameValues}
            assert span.name.startswith(f"{operation} ")
    denied = next(span for span in spans if span.name == "execute_tool Read")
    assert attributes(denied)["error.type"] == "denied"
    assert denied.status.code == 2
    assert b"secret" not in b"".join(body for _, body in receiver.posts)


FLOW = """NAME flow
INPUT topic
AGENT bold "persona-zebra"
GOAL look "goal-zebra $topic" USING bold
RUN r USING look
"""


@pytest.mark.parametrize("protocol", ["http", "otlp"])
@pytest.mark.parametrize("bodies", [False, True])
def test_nothing_that_people_or_models_wrote_leaves_unasked(
    world: World, receiver: Receiver, protocol: str, bodies: bool
) -> None:
    configure(world, protocol, receiver.url, f"[logging]\ndebug_llm_bodies = {str(bodies).lower()}\n")
    (world.workspace / "Agentfile").write_text(FLOW)
    (world.workspace / "file-zebra").write_text("content-zebra")
    world.script(
        call("Read", file_path="file-zebra"),
        call("Read", file_path="none-zebra"),
        call("Bash", command="cat /etc/shadow # command-zebra"),
        call("GoalResult", achieved=False, summary="summary-zebra"),
    )
    done = world.cli("run", str(world.workspace), "--input", "topic=input-zebra")
    assert done.code == 1, done.err
    sent = b"".join(body for _, body in receiver.posts)
    assert b"look" in sent
    assert b"zebra" not in sent
    assert str(world.workspace).encode() not in sent


def test_a_workflows_goals_are_spans_with_their_sessions_below(world: World, receiver: Receiver) -> None:
    configure(world, "otlp", receiver.url)
    (world.workspace / "Agentfile").write_text('NAME flow\nGOAL g "x"\nLOOP l USING g WITHIN 2\n')
    world.script(text("done"))
    assert world.cli("run", str(world.workspace)).code == 0
    spans = spans_of(receiver)
    by_id = {span.span_id: span for span in spans}
    goal = next(span for span in spans if span.name == "goal g")
    run = by_id[goal.parent_span_id]
    assert run.name == "invoke_workflow flow"
    assert attributes(run)["gen_ai.workflow.name"] == "flow"
    assert attributes(run)["gen_ai.operation.name"] == "invoke_workflow"
    session = next(span for span in spans if span.name == "invoke_agent goal")
    assert session.parent_span_id == goal.span_id
    assert attributes(goal)["adderclaw.goal.outcome"] == "achieved"


def points_of(receiver: Receiver) -> dict[str, list[Any]]:
    """Metric → its points."""
    found: dict[str, list[Any]] = {}
    for path, body in receiver.posts:
        if path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        found.setdefault(f"{metric.name} {metric.unit}", []).extend(metric.histogram.data_points)
    return found


def test_tokens_latency_and_failures_are_metrics_and_content_leaves_where_the_operator_says_so(
    world: World, receiver: Receiver
) -> None:
    with ScriptedModel([{"error": {"status": 500}}, {"text": "the secret answer"}]) as model:
        entry = f'[providers.models.mine]\nkind = "ollama"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        configure(world, "otlp", receiver.url, f"include_content = true\n{entry}")
        done = world.agent("hi", "--provider", "mine")
        assert done.code == 0, done.err
    points = points_of(receiver)
    used = {attributes(one)["gen_ai.token.type"]: one for one in points["gen_ai.client.token.usage {token}"]}
    assert (used["input"].sum, used["output"].sum) == (100, 20)
    assert list(used["input"].explicit_bounds)[-1] > 60_000_000, "a long prompt has a bucket"
    took = {attributes(one).get("error.type", ""): one for one in points["gen_ai.client.operation.duration s"]}
    assert {kind: one.count for kind, one in took.items()} == {"": 1, "server_error": 1}
    for one in (*used.values(), *took.values()):
        assert attributes(one)["gen_ai.provider.name"] == "ollama"
        assert attributes(one)["gen_ai.request.model"] == "m"
    said = [attributes(span).get("gen_ai.output.messages") for span in spans_of(receiver)]
    (message,) = [json.loads(one)[0] for one in said if one]
    assert message["role"] == "assistant"
    assert message["parts"] == [{"type": "text", "content": "the secret answer"}]


RECORD = {"schema_version", "agent_id", "session_id", "workflow_name", "timestamp", "type", "data"}


def check_records(records: list[dict[str, Any]]) -> None:
    assert all(set(one) == RECORD for one in records)
    messages = [one["data"] for one in records if one["type"] == "message" and one["data"]["role"] == "assistant"]
    assert len(messages) == 3
    assert {"model", "tokens", "latency", "tool_calls", "content", "role"} <= set(messages[0])
    assert {one["type"] for one in records} == {"message", "log"}
    assert "secret" not in json.dumps(records)


def test_records_are_posted(world: World, receiver: Receiver) -> None:
    configure(world, "http", receiver.url + "/intake?x=1")
    run(world)
    assert {path for path, _ in receiver.posts} == {"/intake?x=1"}
    check_records([one for _, body in receiver.posts for one in json.loads(body)])


def test_records_are_lines_of_a_file(world: World) -> None:
    configure(world, "file", more='path = "out/telemetry.jsonl"\n')
    run(world)
    file = world.workspace / "out" / "telemetry.jsonl"
    check_records([json.loads(line) for line in file.read_text().splitlines()])


def test_a_workflows_records_name_it_and_its_goal(world: World) -> None:
    configure(world, "file", more='path = "telemetry.jsonl"\n')
    (world.workspace / "Agentfile").write_text('NAME flow\nGOAL g "x"\nLOOP l USING g WITHIN 2\n')
    world.script(text("done"))
    assert world.cli("run", str(world.workspace / "Agentfile")).code == 0
    records = [json.loads(line) for line in (world.workspace / "telemetry.jsonl").read_text().splitlines()]
    message = next(one for one in records if one["type"] == "message")
    assert message["workflow_name"] == "flow"
    assert (message["data"]["goal"], message["data"]["iteration"]) == ("g", 1)
