"""Live items: updates items as events arrive, reading the current state of each call from its rows."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, cast

from adderclaw.agent.view import calls
from adderclaw.agent.view.items import Call, Child, Item, Notice
from adderclaw.agent.view.rows import Rows
from adderclaw.core.events import EventRecord
from adderclaw.core.types import Json
from adderclaw.storage import subagents

type Tell = Callable[[Item], None]
"""Receives an item each time it changes; its key stays the same."""


class Busy:
    """What the session is waiting for, since when, and what it has used so far."""

    def __init__(self) -> None:
        self.on: Literal["", "model", "retry"] = ""
        self.since = 0.0
        self.tokens = 0
        self.cost = 0.0
        self.context = 0
        """Tokens of the last request and its reply, which the next request begins with."""


class Live:
    """Follows the events of one session and its children."""

    def __init__(self, rows: Rows, session_id: str, tell: Tell, root: str = "") -> None:
        self._rows, self._session_id, self._tell, self._root = rows, session_id, tell, root
        self._calls: dict[str, Call] = {}
        """Calls that have not ended."""
        self._parents: dict[str, tuple[str, str]] = {}
        """Child session → its parent session and the call that started it."""
        self._count = 0
        self._side_span = ""
        """The span of the last request outside of the conversation, which says nothing about the context's size."""
        self.busy = Busy()

    @property
    def running(self) -> list[Call]:
        return list(self._calls.values())

    def hear(self, record: EventRecord) -> None:
        """A sink of the bus."""
        if record.session_id != self._session_id:
            self._of_child(record)
        elif record.event_type.startswith(("tool_", "approval_")):
            self._of_call(record.event_type, record.payload, record.session_id)
        elif record.event_type.startswith("llm_"):
            self._of_model(record)
        elif (notice := _notice(record.event_type, record.payload)) is not None:
            self._note(*notice)

    def _note(self, kind: Literal["note", "warning", "error"], text: str) -> None:
        self._count += 1
        self._tell(Notice(f"notice-{self._count}", kind, text))

    # -------------------------------------------------------------- calls

    def _of_call(self, kind: str, payload: Json, session_id: str) -> None:
        use = str(payload.get("tool_use_id", ""))
        match kind:
            case "tool_requested":
                self._show(_requested(payload, session_id, self._root))
            case "approval_requested" if use in self._calls:
                self._show(replace(self._calls[use], state="asked", why=str(payload.get("reason", ""))))
            case "approval_answered" | "approval_expired" if use in self._calls:
                self._show(replace(self._calls[use], state="waiting", why=""))
            case "tool_approved":
                call = self._rows.call(session_id, use)
                if call is not None and not call.ended:  # it may have returned before this event arrived
                    self._show(call)
            case "tool_completed" | "tool_failed" | "tool_denied":
                call = self._rows.call(session_id, use) or self._calls.get(use)
                if call is not None:
                    took = payload.get("duration_ms")
                    self._show(replace(call, seconds=float(took) / 1000 if took else None))
            case "tool_progress":
                self._progressed(payload)
            case _:
                pass

    def _progressed(self, payload: Json) -> None:
        """A server reports only the tool's name, so the progress goes to the call of it that has run longest."""
        tool, done, total = payload.get("tool"), float(payload.get("progress") or 0), payload.get("total")
        call = next(
            (running for running in self._calls.values() if running.tool == tool and running.state == "running"), None
        )
        if call is None:
            return
        share = f"{100 * min(max(done / float(total), 0.0), 1.0):.0f} %" if total and total > 0 else f"{done:g}"
        message = " ".join(str(payload.get("message") or "").split())
        self._show(replace(call, progress=f"{share} {message}".strip()))

    def _show(self, call: Call | None) -> None:
        if call is None:
            return
        if call.ended:
            self._calls.pop(call.key, None)
        else:
            before = self._calls.get(call.key)
            self._calls[call.key] = call if call.child or before is None else replace(call, child=before.child)
        self._tell(self._calls.get(call.key, call))

    # -------------------------------------------------------------- children

    def _of_child(self, record: EventRecord) -> None:
        """Show a child session's work as part of the parent's call, at any depth."""
        child = record.session_id
        if record.event_type == "subagent_started":
            self._began(child, str(record.payload.get("parent_session_id", "")))
        parent = self._parents.get(child)
        while parent is not None and parent[0] != self._session_id:
            parent = self._parents.get(parent[0])
        if parent is None or (call := self._calls.get(parent[1])) is None or call.child is None:
            return
        match record.event_type:
            case "tool_approved":
                child_call = self._rows.call(child, str(record.payload.get("tool_use_id", "")))
                last = (
                    f"{child_call.tool} {child_call.argument}"
                    if child_call is not None
                    else str(record.payload.get("tool", ""))
                )
                self._show(replace(call, child=replace(call.child, calls=call.child.calls + 1, last=last)))
            case "subagent_finished":
                self._show(replace(call, child=replace(call.child, outcome=str(record.payload.get("outcome", "")))))
            case "approval_requested":
                self._show(replace(call, child=replace(call.child, last=f"asks: {record.payload.get('reason', '')}")))
            case _:
                pass

    def _began(self, child: str, parent: str) -> None:
        row = next(
            (subagent for subagent in subagents.of_parent(self._rows.store, parent) if subagent.session_id == child),
            None,
        )
        if row is None:
            return
        self._parents[child] = (parent, row.tool_use_id)
        call = self._calls.get(row.tool_use_id)
        if call is not None and parent == self._session_id:
            self._calls[row.tool_use_id] = replace(call, child=Child(child, self._rows.clean(row.agent_type)))

    # -------------------------------------------------------------- the model

    def _of_model(self, record: EventRecord) -> None:
        busy, payload = self.busy, record.payload
        match record.event_type:
            case "llm_request_sent" if payload.get("messages") == 1 and not payload.get("tools"):
                self._side_span = record.span_id
            case "llm_request_sent":
                busy.on, busy.since = "model", record.timestamp
            case "llm_retry_scheduled":
                busy.on, busy.since = "retry", record.timestamp
                self._note("warning", f"retrying in {payload.get('delay_seconds', 0):.0f} s: {payload.get('reason')}")
            case "llm_response_received":
                busy.on = ""
                used = int(payload.get("input_tokens", 0)) + int(payload.get("output_tokens", 0))
                busy.tokens += used
                busy.context = used if record.span_id != self._side_span else busy.context
                busy.cost += float(payload.get("cost") or 0.0)
            case _:
                busy.on = ""


def _requested(payload: Json, session_id: str, root: str) -> Call:
    """The call before it is judged; its row exists only from the verdict on."""
    tool, summary = str(payload.get("tool", "")), str(payload.get("summary", ""))
    try:
        parsed: Any = json.loads(summary)
    except ValueError:  # a long summary is cut in the middle
        parsed = None
    arguments = cast(Json, parsed) if isinstance(parsed, dict) else {}
    short = calls.argument(tool, arguments, root) if arguments else summary
    return Call(str(payload.get("tool_use_id", "")), session_id, tool, short, arguments)


def _notice(kind: str, payload: Json) -> tuple[Literal["note", "warning", "error"], str] | None:
    text = str(payload.get("message") or payload.get("reason") or "")
    match kind:
        case "warning" | "changed_later":
            return "warning", text
        case "hook_message":
            return "note", f"{payload.get('hook_event')} hook: {text}"
        case "brief":
            return "note", text
        case "task_ended":
            what = " ".join(str(payload.get("title", "")).split())
            kind = "note" if payload.get("status") == "completed" else "warning"
            return kind, f"in the background: {what} {payload.get('status')}: {payload.get('summary')}"
        case "limit_reached" | "estop_triggered":
            return "error", text
        case "loop_warning":
            return "warning", f"{payload.get('tool')} gave the same result {payload.get('repeats')} times"
        case "context_compacted":
            before, after = payload.get("bytes_before"), payload.get("bytes_after")
            return "note", f"compacted: {before:,} bytes of history are now {after:,}"
        case "provider_fallback":
            return "warning", f"{payload.get('provider')} failed ({payload.get('reason')}); using {payload.get('next')}"
        case "mcp_server" if payload.get("state") in ("failed", "changed"):
            return "warning", f"MCP server {payload.get('server')} {payload.get('state')}: {payload.get('detail')}"
        case "plugin_held":
            return "warning", str(payload.get("reason"))
        case _:
            return None
