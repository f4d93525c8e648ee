"""Events as log lines, as a run folder and as rows."""

import asyncio
import io
import json
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adderclaw.agent.run.opened import open_events_file
from adderclaw.core.errors import AdderClawError
from adderclaw.core.events import Body, Bus, EventRecord, Sink
from adderclaw.core.redaction import Secrets
from adderclaw.sandbox.workspace import resolved_path
from adderclaw.storage import Store
from adderclaw.storage.telemetry import database, jsonl, log
from tests.rows import rows
from tests.storage.book import Ticking, numbered

NOON = 1_778_587_201.25


def record(event_type: str, run_id: str = "run-1", **payload: Any) -> EventRecord:
    return EventRecord(run_id, "trace-1", "span-1", NOON, event_type, payload, "summary", "c", "s")


LINES = [
    (record("tool_denied", tool="Bash", tool_use_id="t", risk="high", by="commands", reason="forbidden command rm"),
     "12:00:01 tool_denied Bash high forbidden command rm"),
    (record("tool_completed", tool="Read", tool_use_id="t", duration_ms=12.6, bytes=42),
     "12:00:01 tool_completed Read 13ms 42B"),
    (record("startup", version="0.1", pid=7, profile="supervised"), "12:00:01 startup 0.1 supervised"),
    (record("config_path", paths=["/a", "/b"], warnings=[]), "12:00:01 config_path /a /b"),
    (record("conversation_started", conversation_id="c", session_id="s", resumed=False),
     "12:00:01 conversation_started c"),
    (record("warning", message="two\nlines\tof it"), "12:00:01 warning two lines of it"),
    (record("limit_reached", limit="tokens", value=0, allowed=5), "12:00:01 limit_reached tokens 0 5"),
    (record("run_finished", outcome="completed", reason="", usage={"a": 1}), "12:00:01 run_finished completed"),
]  # fmt: skip


@rows(("event", "line"), LINES)
def test_a_line_for_people(event: EventRecord, line: str) -> None:
    stream = io.StringIO()
    log.sink("debug", False, stream)(event)
    assert stream.getvalue() == line + "\n"


def _jsonl_sink(folder: Path, store: Store) -> tuple[Sink, Callable[[], None]]:
    return jsonl.sink(partial(open_events_file, resolved_path(str(folder))), store)


def test_a_long_value_is_cut() -> None:
    assert len(log.text_line(record("hook_finished", command="x" * 10_000))) < 350


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("debug", ["llm_request_sent", "tool_requested", "loop_warning", "run_failed"]),
        ("info", ["tool_requested", "loop_warning", "run_failed"]),
        ("warning", ["loop_warning", "run_failed"]),
        ("error", ["run_failed"]),
        ("nonsense", ["tool_requested", "loop_warning", "run_failed"]),
    ],
)
def test_the_level_decides_what_is_told(level: str, told: list[str]) -> None:
    stream = io.StringIO()
    tell = log.sink(level, True, stream)
    for event_type in ("llm_request_sent", "tool_requested", "loop_warning", "run_failed"):
        tell(record(event_type))
    assert [json.loads(line)["event_type"] for line in stream.getvalue().splitlines()] == told


def test_a_line_for_programs_has_every_field() -> None:
    stream = io.StringIO()
    log.sink("info", True, stream)(record("tool_denied", tool="é\ud800\n"))
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line) == {
        "level": "info",
        "run_id": "run-1",
        "trace_id": "trace-1",
        "span_id": "span-1",
        "timestamp": "2026-05-12T12:00:01.250Z",
        "event_type": "tool_denied",
        "payload": {"tool": "é\ufffd\n"},
        "redaction_mode": "summary",
        "conversation_id": "c",
        "session_id": "s",
    }


@pytest.mark.parametrize("run_id", ["", ".", "..", "a/b", "../up", "/abs", "nul\0"])
def test_a_run_id_cannot_lead_elsewhere(tmp_path: Path, run_id: str) -> None:
    tell, _ = _jsonl_sink(tmp_path / "runs", Store.open(str(tmp_path / "memory.sqlite")))
    with pytest.raises(AdderClawError, match="run folder"):
        tell(record("startup", run_id=run_id))
    assert not (tmp_path / "runs").exists()


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "runs" / "run-1").mkdir(parents=True)
    (tmp_path / "runs" / "run-1" / "events.jsonl").symlink_to(tmp_path / "victim")
    tell, _ = _jsonl_sink(tmp_path / "runs", Store.open(str(tmp_path / "memory.sqlite")))
    with pytest.raises(OSError, match="symbolic links"):
        tell(record("startup"))
    assert not (tmp_path / "victim").exists()


def test_the_run_folder_is_written_as_it_happens(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        tell, close = _jsonl_sink(tmp_path / "runs", Store.open(str(tmp_path / "memory.sqlite")))
        for number in range(3):
            tell(record("warning", message=f"{number}\n\ud800"))
    finally:
        os.umask(old)
    file = tmp_path / "runs" / "run-1" / "events.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [event["payload"]["message"][0] for event in events] == ["0", "1", "2"]
    assert set(events[0]) >= {
        *("run_id", "trace_id", "span_id", "timestamp", "event_type", "payload", "redaction_mode"),
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700
    close()
    close()


def test_events_become_rows_with_the_next_transaction(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "memory.sqlite"))
    tell = database.sink(store)
    tell(record("tool_denied", tool="Bash"))
    tell(record("startup")._replace(conversation_id="", session_id=""))
    assert store.read("SELECT * FROM events") == []
    with store.write():
        pass
    rows = store.read("SELECT conversation_id, session_id, timestamp, event_type, detail FROM events ORDER BY id")
    detail = '{"run_id":"run-1","span_id":"span-1","tool":"Bash"}'
    assert tuple(rows[0]) == ("c", "s", "2026-05-12 12:00:01", "tool_denied", detail)
    assert tuple(rows[1])[:2] == ("", None)


def test_through_the_bus_no_secret_and_no_control_character_arrives(tmp_path: Path) -> None:
    secrets = Secrets()
    secrets.add("hunter2-hunter2")
    bus = Bus(Ticking(), numbered(), secrets.clean)
    text, structured = io.StringIO(), io.StringIO()
    store = Store.open(str(tmp_path / "memory.sqlite"))
    tell, close = _jsonl_sink(tmp_path, store)
    for name, sink in (
        ("text", log.sink("debug", False, text)),
        ("json", log.sink("debug", True, structured)),
        ("jsonl", tell),
        ("database", database.sink(store)),
    ):
        bus.add_sink(name, sink)
    body: Body = {"event_type": "warning", "message": "\x1b[2J hunter2-hunter2 sk-abcdefghijklmnopqrstuvwxyz0123456789"}
    bus.publish(body)
    close()
    store.close()
    again = Store.open(store.path, read_only=True)
    for told in (
        text.getvalue(),
        structured.getvalue(),
        (tmp_path / bus.run_id / "events.jsonl").read_text(),
        again.read("SELECT detail FROM events")[0][0],
    ):
        assert "hunter2" not in told
        assert "abcdefghijklmnop" not in told
        assert "\x1b" not in told


def test_a_closed_stream_drops_the_sink_and_not_the_turn() -> None:
    bus = Bus(Ticking(), numbered(), lambda value: value)
    broken, working = io.StringIO(), io.StringIO()
    broken.close()
    bus.add_sink("broken", log.sink("info", False, broken))
    bus.add_sink("working", log.sink("info", False, working))
    bus.publish({"event_type": "channel_started", "channel": "cli"})
    assert "the broken sink failed" in working.getvalue()
    assert "channel_started" in working.getvalue()


def heard_by(bus: Bus) -> list[str]:
    told: list[str] = []
    bus.add_sink("list", lambda event: told.append(event.payload["message"]))
    return told


def warning(message: str) -> Body:
    return {"event_type": "warning", "message": message}


def test_what_is_mentioned_is_heard_when_the_loop_is_free() -> None:
    bus = Bus(Ticking(), numbered(), lambda value: value)
    told = heard_by(bus)

    async def main() -> list[list[str]]:
        bus.publish_soon(warning("one"))
        bus.for_session("child").publish_soon(warning("two"))
        busy = list(told)
        await asyncio.sleep(0)
        return [busy, list(told)]

    assert asyncio.run(main()) == [[], ["one", "two"]]


@pytest.mark.parametrize("by_child", [False, True])
def test_nothing_that_is_told_overtakes_what_was_mentioned(by_child: bool) -> None:
    bus = Bus(Ticking(), numbered(), lambda value: value)
    told = heard_by(bus)

    async def main() -> None:
        bus.publish_soon(warning("one"))
        bus.publish_soon(warning("two"))
        (bus.for_session("child") if by_child else bus).publish(warning("three"))
        assert told == ["one", "two", "three"]

    asyncio.run(main())
    assert told == ["one", "two", "three"]


def test_without_a_loop_what_is_mentioned_is_heard_at_once() -> None:
    bus = Bus(Ticking(), numbered(), lambda value: value)
    told = heard_by(bus)
    bus.publish_soon(warning("one"))
    assert told == ["one"]


def test_what_a_sink_tells_comes_after_what_it_heard_and_what_waits() -> None:
    bus = Bus(Ticking(), numbered(), lambda value: value)
    bus.add_sink("echo", lambda event: bus.publish(warning("echo")) if event.payload["message"] == "one" else None)
    told = heard_by(bus)

    async def main() -> None:
        bus.publish_soon(warning("one"))
        bus.publish_soon(warning("two"))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert told == ["one", "two", "echo"]


def test_an_event_has_the_time_and_the_span_of_when_it_was_mentioned() -> None:
    bus = Bus(Ticking(), numbered(), lambda value: value)
    told: list[EventRecord] = []
    bus.add_sink("list", told.append)

    async def main() -> None:
        bus.begin_span()
        bus.publish_soon(warning("one"))
        bus.begin_span()
        bus.publish(warning("two"))

    asyncio.run(main())
    assert told[0].span_id != told[1].span_id
    assert told[0].timestamp < told[1].timestamp
