"""One trace over machines: who submits, the worker, the run, its model calls and its tool calls."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.test_telemetry import Receiver
from tests.fleet.farm import Farm, call, text

TRACE, BEGAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TELEMETRY = '[telemetry]\nenabled = true\nprotocol = "otlp"\nflush_seconds = 60\nendpoint = "{url}"\n'


def spans(receiver: Receiver) -> dict[str, tuple[str, str, str]]:
    """Name → trace, id, parent."""
    found: dict[str, tuple[str, str, str]] = {}
    for path, body in tuple(receiver.posts):
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for one in (span for scope in resource.scope_spans for span in scope.spans):
                    found[one.name] = one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex()
    return found


def test_one_trace_goes_from_the_submission_to_the_last_tool(farm: Farm) -> None:
    farm.script(call("Bash", command="echo one >> log"), text("ok"))
    here = ("--workspace", str(farm.workspace))
    with Receiver() as receiver:
        config = farm.cli.data / "config.toml"
        config.write_text(config.read_text() + TELEMETRY.format(url=receiver.url))
        farm.cli.env["TRACEPARENT"] = f"00-{TRACE}-{BEGAN}-01"
        (run_id,) = farm.submit("-m", "do it", *here)
        farm.cli.env["TRACEPARENT"] = "nonsense"
        worker = farm.worker("w1")
        assert farm.ended(run_id)[0].outcome == "completed"
        assert worker.end() == 0
        found = spans(receiver)
        assert {trace for trace, _, _ in found.values()} == {TRACE}
        submit, attempt, run = (found[name] for name in ("fleet submit", "fleet attempt", "invoke_agent adderclaw"))
        assert (submit[2], attempt[2], run[2]) == (BEGAN, submit[1], attempt[1])
        below = {name: parent for name, (_, _, parent) in found.items()}
        ids = {id for _, id, _ in found.values()}
        tool = next(name for name in found if name.startswith("execute_tool"))
        assert {below[tool], below[next(name for name in found if name.startswith("chat"))]} <= ids
        (other,) = farm.submit("-m", "do it", *here)
    kept = {row.id: row.trace for row in farm.rows("SELECT id, trace FROM fleet.runs")}
    assert kept[run_id] == f"00-{TRACE}-{submit[1]}-01"
    assert kept[other].startswith("00-")
    assert TRACE not in kept[other]  # nonsense begins a trace of its own
