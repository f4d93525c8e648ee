"""Builds items from the store's rows: one call in its current state, or a whole conversation."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from adderclaw.agent.view import calls
from adderclaw.agent.view.items import Call, Child, Item, Notice, State, Words
from adderclaw.core.framing import is_attached
from adderclaw.core.tool_traits import AGENT, TODO_WRITE
from adderclaw.core.types import Json
from adderclaw.storage import Store, subagents, transcript
from adderclaw.storage.queries import entries
from adderclaw.storage.transcript import Entry

type Clean = Callable[[Any], Any]
"""Removes secrets and control characters from a JSON value."""

STATES: dict[str, State] = {"allowed": "ran", "failed": "failed", "denied": "denied"}
"""A receipt's status → the state of its call."""

_ORDINAL = re.compile(r"(?m)^\[\d+\] ")
"""The number of a hook, which means nothing to a person."""


class Rows:
    """Reads items from one store, cleaned for display."""

    def __init__(self, store: Store, clean: Clean, root: str = "") -> None:
        self.store, self.clean, self._root = store, clean, root

    def call(self, session_id: str, tool_use_id: str) -> Call | None:
        """The latest call with this id, from its rows."""
        rows = entries.of_call(self.store, session_id, tool_use_id)
        use = next((row for row in rows if row[1] == "tool_use"), None)
        if use is None:
            return None
        call = self._called(session_id, json.loads(use[2]), use[0], use[3])
        result = next((row for row in rows if row[1] == "tool_result" and row[0] > use[0]), None)
        decision = self._decision(session_id, tool_use_id)
        if result is None:
            call = self._decided(call, decision)
            return replace(call, state="running" if call.state != "denied" else "denied")
        seq, line = self._receipt(session_id, tool_use_id)
        # an allowed call may still be denied while it runs; its receipt has the last decision
        call = self._decided(call, line.get("decision") or decision)
        return self._returned(call, json.loads(result[2]), line, seq)

    def conversation(self, conversation_id: str) -> Iterator[Item]:
        """All items of a conversation, in order."""
        for session_id in transcript.sessions_of(self.store, conversation_id):
            yield from self.session(session_id)

    def last(self, session_id: str) -> int:
        """The sequence number of a session's latest entry; -1 if it has none."""
        return entries.last_sequence(self.store, session_id)

    def place(self, session_id: str, tool_use_id: str) -> int:
        """The sequence number of the latest call with this id; -1 if it is not written yet."""
        return entries.sequence_of_call(self.store, session_id, tool_use_id)

    def since(self, session_id: str, after: int, before: int | None = None) -> tuple[list[Words | Notice], int]:
        """The messages and notices between two sequence numbers, in order, and the last number that was read.

        Without `before`: up to the next call, because messages that follow it are shown after it.
        """
        rows = entries.messages_between(self.store, session_id, after, before)
        items = (self._other(Entry(row[0], row[1], row[2], json.loads(row[3]), row[4], row[5])) for row in rows)
        return [item for item in items if item is not None], rows[-1][1] if rows else after

    def session(self, session_id: str) -> Iterator[Item]:
        receipts = self._receipts(session_id)
        spent = self._seconds(session_id)
        live = transcript.without_rewound(transcript.entries(self.store, session_id))
        results: dict[str, list[Json]] = {}
        for entry in live:
            if entry.entry_type == "tool_result" and entry.tool_use_id:
                results.setdefault(entry.tool_use_id, []).append(entry.payload)
        for entry in live:
            if entry.entry_type == "tool_use":
                use = entry.tool_use_id or ""
                call = self._called(session_id, entry.payload, entry.sequence, entry.created_at)
                seq, line = receipts.get(use, [(None, {})]).pop(0) if receipts.get(use) else (None, {})
                call = self._decided(call, line.get("decision", {}))
                payload = results[use].pop(0) if results.get(use) else None
                if payload is None:
                    yield replace(call, state="unknown")
                else:
                    call = self._returned(call, payload, line, seq)
                    yield replace(call, seconds=spent.get(use))
            elif (item := self._other(entry)) is not None:
                yield item

    # -------------------------------------------------------------- the parts of a call

    def _called(self, session_id: str, payload: Json, sequence: int, at: str) -> Call:
        payload = self.clean(payload)
        arguments = payload.get("input")
        tool, inner = calls.unwrapped(
            str(payload.get("name", "")), cast(Json, arguments) if isinstance(arguments, dict) else {}
        )
        child = subagents.of_call(self.store, session_id, str(payload.get("id", ""))) if tool == AGENT else None
        return Call(
            str(payload.get("id", "")),
            session_id,
            tool,
            calls.argument(tool, inner, self._root),
            inner,
            todos=calls.todos(inner) if tool == TODO_WRITE else (),
            child=self._child(child) if child is not None else None,
            at=at,
            sequence=sequence,
        )

    def _child(self, row: subagents.Subagent) -> Child:
        count = entries.call_count(self.store, row.session_id)
        return Child(row.session_id, self.clean(row.agent_type), count, outcome=row.outcome or "")

    def _decided(self, call: Call, how: Json) -> Call:
        how = self.clean(how)
        asked = "asked_by" in how
        return replace(
            call,
            state="denied" if how.get("verdict") == "deny" else call.state,
            by=str(how.get("answered_by") or how.get("by", "")),
            why=_ORDINAL.sub("", str(how.get("reason", ""))) if how.get("by") == "hook" else str(how.get("reason", "")),
            asked=asked,
            comment=str(how.get("comment", "")),
        )

    def _returned(self, call: Call, payload: Json, line: Json, seq: int | None) -> Call:
        payload = self.clean(payload)
        state = STATES.get(str(line.get("status", ""))) or ("failed" if payload.get("is_error") else "ran")
        if payload.get("resumed") or payload.get("outcome") == "unknown":
            state = "unknown"
        change = calls.change(call.tool, call.input, payload)
        code = line.get("decision", {}).get("exit_code")
        output = str(payload.get("content", ""))
        return replace(call, state=state, output=output, change=change, receipt=seq, exit_code=code)

    def _decision(self, session_id: str, tool_use_id: str) -> Json:
        reason = entries.last_decision(self.store, session_id, tool_use_id)
        return json.loads(reason) if reason else self._receipt(session_id, tool_use_id)[1].get("decision", {})

    def _receipt(self, session_id: str, tool_use_id: str) -> tuple[int | None, Json]:
        row = entries.last_receipt(self.store, session_id, tool_use_id)
        return (row[0], json.loads(row[1])) if row is not None else (None, {})

    def _receipts(self, session_id: str) -> dict[str, list[tuple[int | None, Json]]]:
        """Call → its receipts, oldest first, because ids may repeat."""
        by_call: dict[str, list[tuple[int | None, Json]]] = {}
        for use, seq, line in entries.receipts(self.store, session_id):
            by_call.setdefault(str(use), []).append((seq, json.loads(line)))
        return by_call

    def _seconds(self, session_id: str) -> dict[str, float]:
        rows = entries.call_durations(self.store, session_id)
        return {str(use): float(ms) / 1000 for use, ms in rows if ms is not None}

    def _other(self, entry: Entry) -> Words | Notice | None:
        payload = self.clean(entry.payload)
        key = f"entry-{entry.id}"
        match entry.entry_type:
            case "user" | "assistant":
                text = transcript.text_of(_without_attachments(cast(Json, payload)))
                role = "user" if entry.entry_type == "user" else "assistant"
                return Words(key, role, text, entry.created_at, entry.sequence) if text.strip() else None
            case "system" if payload.get("subtype") == "compact_boundary":
                return Notice(key, "note", "the conversation was compacted here", entry.created_at, entry.sequence)
            case "system" if payload.get("subtype") == "goal":
                goal = f"the goal: {payload['content']}" if payload["content"] else "the goal was removed"
                return Notice(key, "note", goal, entry.created_at, entry.sequence)
            case _:
                return None


def _without_attachments(payload: Json) -> Json:
    """A message without its attachments, which are shown where they were read."""
    blocks = payload.get("content")
    if not isinstance(blocks, list):
        return payload
    return {"content": [block for block in cast(list[Json], blocks) if not is_attached(str(block.get("text", "")))]}
