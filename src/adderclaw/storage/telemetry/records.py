"""Telemetry as plain JSON records, posted to an endpoint or appended to a file."""

import json
import os
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, cast
from urllib.parse import urlsplit

from adderclaw.core.events import EventRecord
from adderclaw.core.types import Json
from adderclaw.storage.text import iso

SCHEMA_VERSION = "1"
TIMEOUT = 5.0


class Records:
    """Converts events into records of the schema; tracks which goal a session works on."""

    def __init__(self, agent_id: str, session: str, *, include_content: bool) -> None:
        self._agent, self._session, self._content = agent_id, session, include_content
        self._workflow = ""
        self._goal: dict[str, Json] = {}
        self._now: Json = {}

    def of(self, event: EventRecord) -> Json:
        self._note(event)
        kind, data = self._data(event)
        known = self._goal.get(event.session_id, self._now)
        if kind == "message":
            known = {"goal": None, "agent": None, "iteration": None, **known}
        return {
            "schema_version": SCHEMA_VERSION,
            "agent_id": self._agent,
            "session_id": event.session_id or self._session,
            "workflow_name": self._workflow,
            "timestamp": iso(event.timestamp),
            "type": kind,
            "data": {**known, **data},
        }

    def _note(self, event: EventRecord) -> None:
        payload = event.payload
        if event.event_type == "goal_started":
            self._workflow = payload["workflow"]
            self._now = {"goal": payload["goal"]}
            if "iteration" in payload:
                self._now["iteration"] = payload["iteration"]
        elif event.event_type == "subagent_started":
            self._goal[event.session_id] = {**self._now, "agent": payload["agent_type"]}

    def _data(self, event: EventRecord) -> tuple[str, Json]:
        payload = event.payload
        if event.event_type == "turn_started" and "text" in payload:
            return "message", _message("user", payload["text"])
        if event.event_type == "llm_response_received":
            data: Json = {
                "model": payload["model"],
                "tokens": {"input": payload["input_tokens"], "output": payload["output_tokens"]},
                "latency": payload["latency_ms"],
                "tool_calls": payload.get("called", []),
            }
            return "message", _message("assistant", payload["text"], **data)
        if event.event_type == "tool_requested":
            return "message", _message("tool", self._shown(payload["summary"]), tool_calls=[payload["tool"]])
        return "log", {"event": event.event_type, **(payload if self._content else _plain(payload))}

    def _shown(self, text: str) -> str:
        return text if self._content else f"{len(text)} characters"


def _message(role: str, content: str, **known: Any) -> Json:
    """A message with every key of the schema; keys that do not apply are null."""
    return {"role": role, "content": content, "tool_calls": [], "tokens": None, "latency": None, "model": None, **known}


NO_CONTENT = frozenset(
    (
        *("version", "profile", "provider", "model", "next", "channel"),
        *("tool", "called_as", "tool_use_id", "risk", "by", "approval_id"),
        *("plan_hash", "receipt_id", "status", "outcome", "mode", "stop_reason"),
        *("error_class", "trigger", "how", "counted", "signal", "strategy"),
        *("state", "workflow", "goal", "loop", "agent", "agent_type"),
        *("converged", "hook_event", "called", "skill", "step_id", "action", "selected_skill"),
        *("conversation_id", "session_id", "parent_session_id", "request_hash"),
    )
)
"""Keys whose texts are names, ids or fixed words. Other texts may be user or model content, or file paths."""


def _plain(payload: Json) -> Json:
    """A payload with its numbers and names; other values are replaced by their size."""
    return {key: value if key in NO_CONTENT else _amount(value) for key, value in payload.items()}


def _amount(value: Any) -> Any:
    if isinstance(value, str):
        return f"{len(value)} characters"
    if isinstance(value, list):
        return f"{len(cast('list[Any]', value))} entries"
    if isinstance(value, dict):
        return {key: _amount(inner) for key, inner in cast(Json, value).items()}
    return value


class Http:
    """Posts records in batches."""

    def __init__(self, endpoint: str, records: Records) -> None:
        self._records, self._url = records, urlsplit(endpoint)
        self._connection: HTTPConnection | None = None

    def send(self, events: list[EventRecord]) -> None:
        body = json.dumps([self._records.of(event) for event in events], separators=(",", ":")).encode()
        try:
            status = self._post(body)
        except (OSError, ValueError):
            self.close()
            status = self._post(body)  # the reused connection may have been closed
        if status >= 300:
            raise OSError(f"{self._url.netloc} answered {status}")

    def _post(self, body: bytes) -> int:
        if self._connection is None:
            kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
            self._connection = kind(self._url.hostname or "", self._url.port, timeout=TIMEOUT)
        path = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        answer.read(65_536)
        return answer.status

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class File:
    """Appends one line per record."""

    def __init__(self, descriptor: int, records: Records) -> None:
        self._records = records
        self._file = os.fdopen(descriptor, "ab")

    def send(self, events: list[EventRecord]) -> None:
        for event in events:
            self._file.write(json.dumps(self._records.of(event), separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
