"""`/metrics` for Prometheus: figures of the store, which continue after a restart, and of this server."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.responses import Response

from adderclaw import __version__
from adderclaw.agent.queries.ledger import Watch
from adderclaw.core.errors import AdderClawError
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.home_fleet import read_fleet
from adderclaw.storage import Store
from adderclaw.storage.queries.metrics import COUNTED, TOKENS, count_after

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from adderclaw.server.state import ServerState

STATES = ("idle", "working", "asking")


class RowCounts:
    """Sums over rows that are only ever added; rows that are deleted later stay counted."""

    def __init__(self) -> None:
        self._last = dict.fromkeys(COUNTED, 0)
        self._sums: dict[str, list[float]] = {}

    def update(self, store: Store) -> dict[str, list[float]]:
        for name in COUNTED:
            last, more = count_after(store, name, self._last[name])
            before = self._sums.get(name, [0.0] * len(more))
            if last is not None:
                self._last[name] = last
                self._sums[name] = [was + (new or 0) for was, new in zip(before, more, strict=True)]
            else:
                self._sums[name] = before
        return self._sums


class ServerMetrics(Collector):
    """The metrics of a server; collects once at a time."""

    def __init__(self, state: "ServerState") -> None:
        self._state, self._counts, self._watch = state, RowCounts(), Watch(state.options)
        self._lock = threading.Lock()
        self._states: Counter[str] = Counter()
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def page(self, accept: str, states: Counter[str]) -> tuple[bytes, str]:
        """`states`: the number of conversations in each state, counted on the event loop."""
        with self._lock:
            self._states = states
            encode, media_type = choose_encoder(accept)
            return encode(self.registry), media_type

    def describe(self) -> "list[Metric]":
        """Returns nothing, so that registering does not collect the metrics."""
        return []

    def collect(self) -> "Iterator[Metric]":
        counted = self._counts.update(self._state.store)
        calls, failed, cost, *tokens = counted["model_calls"]
        yield _counter("conversations", "Conversations that were begun.", counted["conversations"][0])
        yield _counter("tool_calls", "Tool calls that models asked for.", counted["tool_calls"][0])
        yield _counter("tool_denials", "Tool calls that were denied.", counted["tool_denials"][0])
        yield _counter("model_calls", "Calls of models.", calls)
        yield _counter("provider_errors", "Calls of models that failed.", failed)
        yield _counter("cost_dollars", "Cost in US dollars of the calls with a known price.", cost)
        used = CounterMetricFamily("adderclaw_tokens", "Tokens of model calls.", labels=["kind"])
        for kind, number in zip(TOKENS, tokens, strict=True):
            used.add_metric([kind.removesuffix("_tokens")], number)
        yield used
        yield from self._now()
        yield from _fleet_metrics()

    def _now(self) -> "Iterator[Metric]":
        state = self._state
        valid = self._watch.valid()
        yield _gauge("receipt_chain_valid", "1 where the chain of receipts holds, as far as it was verified.", valid)
        when = self._watch.checked_at
        yield _gauge("receipt_chain_verified_timestamp_seconds", "When the whole chain was verified last.", when)
        talks = GaugeMetricFamily("adderclaw_conversations_open", "Conversations here by state.", labels=["state"])
        for name in STATES:
            talks.add_metric([name], self._states[name])
        yield talks
        yield _gauge("stopped", "1 while the emergency stop is set.", state.stopped)
        yield _gauge("ready", "1 while the server accepts new work.", state.ready)
        info = GaugeMetricFamily("adderclaw_build_info", "The version of the running server.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info


def _fleet_metrics() -> "Iterator[Metric]":
    """The metrics of the fleet that this home belongs to, if any."""
    try:
        overview = read_fleet()
    except AdderClawError:
        yield _gauge("fleet_reachable", "1 while the fleet's database answers.", 0)
        return
    if overview is None:
        return
    now, _, _ = overview
    yield _gauge("fleet_reachable", "1 while the fleet's database answers.", 1)
    runs = GaugeMetricFamily("adderclaw_fleet_runs", "Runs of the fleet by state.", labels=["state"])
    for state, count in now["runs"].items():
        runs.add_metric([state], count)
    yield runs
    yield _gauge("fleet_workers", "Workers that are alive.", len(now["workers"]))
    yield _gauge("fleet_slots_used", "Runs that workers work on.", sum(worker["running"] for worker in now["workers"]))
    yield _gauge("fleet_ended_last_hour", "Runs that ended within the last hour.", now["ended_last_hour"])
    yield _gauge("fleet_stops", "Stops that are set.", len(now["stops"]))
    yield _counter("fleet_cost_dollars", "US dollars of the fleet's model calls.", now["cost"])


def _counter(name: str, words: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"adderclaw_{name}", words, value=value)


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"adderclaw_{name}", words, value=float(value))


async def metrics(request: ApiRequest) -> Response:
    accept = request.http.headers.get("accept", "")
    states = Counter[str](conversation.state for conversation in request.state.conversations.all())
    text, media_type = await asyncio.to_thread(request.state.meter.page, accept, states)
    return Response(text, media_type=media_type)


ENDPOINTS = (Endpoint("GET", "/metrics", "read", metrics, "Figures for Prometheus.", media_type="text/plain"),)
