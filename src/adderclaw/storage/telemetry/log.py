"""The log on stderr: one short line per event for people, or one JSON object per line for programs."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import TextIOWrapper
from time import time
from typing import Any, Protocol

from adderclaw.core.events import EventRecord, Sink
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.storage.text import compact, iso, plain, sql_time

LEVELS = ("debug", "info", "warning", "error", "off")
MAX_CHARACTERS = 300
"""Longest value on a line."""
MAX_MESSAGE_CHARACTERS = 4_000
"""Longest message on a line: its end explains how to fix the problem."""

_LEVEL_OF = {
    "provider_fallback": "warning",
    "estop_triggered": "warning",
    "loop_warning": "warning",
    "hook_message": "warning",
    "limit_reached": "warning",
    "warning": "warning",
    "changed_later": "warning",
    "plugin_held": "warning",
    "llm_retry_scheduled": "warning",
    "llm_request_failed": "warning",
    "step_retry_scheduled": "warning",
    "signal_received": "warning",
    "run_failed": "error",
    "skill_prefilter_completed": "debug",
    "skill_disclosure_loaded": "debug",
    "prompt_budget_computed": "debug",
    "prompt_composed": "debug",
    "turn_started": "debug",
    "turn_finished": "debug",
    "llm_request_sent": "debug",
    "llm_response_received": "debug",
    "llm_decision_decoded": "debug",
    "tool_call": "debug",
    "approval_requested": "debug",
    "approval_answered": "debug",
    "approval_expired": "warning",
    "brief": "debug",  # the channel shows it
    "tool_progress": "debug",
    "task_ended": "debug",
    "graceful_shutdown_started": "debug",
}

_SHOWN: dict[str, tuple[str, ...]] = {
    "startup": ("version", "profile"),
    "config_path": ("paths",),
    "tool_requested": ("tool", "summary"),
    "tool_approved": ("tool", "risk", "by", "reason"),
    "tool_denied": ("tool", "risk", "reason"),
    "tool_completed": ("tool", "duration_ms", "bytes", "exit_code"),
    "tool_failed": ("tool", "error"),
    "receipt_written": ("seq", "status", "tool"),
    "conversation_started": ("conversation_id", "resumed"),
    "llm_request_sent": ("provider", "model", "step", "attempt"),
    "llm_response_received": ("provider", "model", "step", "latency_ms", "stop_reason"),
    "run_finished": ("outcome", "reason"),
    "run_failed": ("outcome", "message"),
    "changed_later": ("message",),
    "plugin_loaded": ("plugin", "version", "sha256"),
    "plugin_held": ("reason",),
}
"""The fields of an event that a line shows; for other events, the whole payload."""

_UNITS: dict[str, Callable[[Any], str]] = {
    "duration_ms": lambda value: f"{value:.0f}ms",
    "latency_ms": lambda value: f"{value:.0f}ms",
    "bytes": lambda value: f"{value}B",
    "exit_code": lambda value: f"exit {value}",
    "resumed": lambda value: "resumed" if value else "",
}


_silenced = False


def silence() -> None:
    """Silence every later log of this process, because `--quiet` was given."""
    global _silenced
    _silenced = True


@contextmanager
def silenced() -> Generator[None]:
    """Silences logs that are created in the block; existing logs still print."""
    global _silenced
    before, _silenced = _silenced, True
    try:
        yield
    finally:
        _silenced = before


def is_silenced() -> bool:
    return _silenced


class Stream(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class JsonLines(TextIOWrapper):
    """Stderr of a JSON log: other text that is written to it also becomes one object per line.

    A text is complete when it ends with a newline or is flushed, as before a prompt.
    """

    _text = ""

    def write(self, text: str, /) -> int:
        self._text += text
        if text.endswith("\n"):
            self._emit()
        return len(text)

    def flush(self) -> None:
        self._emit()
        super().flush()

    def record(self, line: str) -> None:
        """Write a line that is already JSON."""
        super().write(f"{line}\n")
        super().flush()

    def _emit(self) -> None:
        text, self._text = self._text, ""
        if text.strip():
            level = "error" if text.startswith(("adderclaw: ", "Error: ")) else "info"
            self.record(compact({"level": level, "timestamp": iso(time()), "message": text.strip("\n")}))


def sink(level: str, as_json: bool, stream: Stream) -> Sink:
    least = LEVELS.index("off" if _silenced else level if level in LEVELS else "info")
    line = json_line if as_json else text_line

    def tell(record: EventRecord) -> None:
        if LEVELS.index(level_of(record.event_type)) < least:
            return
        if isinstance(stream, JsonLines):
            stream.record(line(record))
            return
        stream.write(line(record) + "\n")
        stream.flush()

    return tell


def level_of(event_type: str) -> str:
    return _LEVEL_OF.get(event_type, "info")


def text_line(record: EventRecord) -> str:
    """`12:00:01 tool_denied Bash high forbidden command rm`, in UTC."""
    payload = record.payload
    keys = _SHOWN.get(record.event_type, tuple(payload))
    words = [sql_time(record.timestamp)[11:], record.event_type]
    words += [word for key in keys if key in payload and (word := _word(key, payload[key]))]
    return " ".join(words)


def json_line(record: EventRecord) -> str:
    return compact({"level": level_of(record.event_type), **fields(record)})


def fields(record: EventRecord) -> Json:
    """An event as JSON: the fields of the record, with its time in UTC."""
    return {**record._asdict(), "timestamp": iso(record.timestamp)}


def _word(key: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if key in _UNITS:
        return _UNITS[key](value)
    text = " ".join(map(str, value)) if isinstance(value, list) else value if isinstance(value, str) else compact(value)  # pyright: ignore[reportUnknownArgumentType]
    text = plain(" ".join(text.split()))
    longest = MAX_MESSAGE_CHARACTERS if key == "message" else MAX_CHARACTERS
    return text if len(text) <= longest else text[:longest] + "…"


def show_brief(record: EventRecord) -> None:
    """Print the agent's interim message to stderr, because stdout is reserved for the answer."""
    if record.event_type == "brief":
        files = "".join(f"\n  {name}" for name in record.payload["attachments"])
        print(visible(f"[{record.payload['status']}] {record.payload['message']}{files}"), file=sys.stderr, flush=True)
