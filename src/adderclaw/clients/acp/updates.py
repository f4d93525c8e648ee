"""Converts items of a conversation to updates of the Agent Client Protocol."""

import os
from collections.abc import Sequence
from itertools import groupby

from acp import helpers, schema

from adderclaw.agent.session.session import TurnResult
from adderclaw.agent.view.items import Call, Change, Item, Line, Notice, State, Words
from adderclaw.agent.view.page import fenced
from adderclaw.core.deltas import GrowingText
from adderclaw.core.redaction import visible
from adderclaw.core.tool_traits import BASH, READ, traits
from adderclaw.core.types import Delta, Json, Usage

type Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
)
type Content = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent

STATUS: dict[State, schema.ToolCallStatus] = {
    "waiting": "pending",
    "asked": "pending",
    "running": "in_progress",
    "ran": "completed",
    "failed": "failed",
    "denied": "failed",
    "unknown": "failed",
}
PATHS = ("file_path", "notebook_path", "path")
MOST_SHOWN = 60_000
"""Maximum characters of an output, and of one part of a change. The store has all of it."""


def shown(text: str) -> str:
    """A text with control characters made visible, cut if it is too long."""
    clean = visible(text)
    left = len(clean) - MOST_SHOWN
    return clean if left <= 0 else f"{clean[:MOST_SHOWN]}\n[… {left:,} more characters]"


def line(text: str) -> str:
    return visible(text, keep_newlines=False)


# ------------------------------------------------------------------ a call


def kind_of(tool: str) -> schema.ToolKind:
    return traits(tool).kind


def title_of(call: Call) -> str:
    name = call.tool.removeprefix("mcp__").replace("__", ": ") if call.tool.startswith("mcp__") else call.tool
    return line(f"{name} {call.argument}".strip())[:400]


def locations(call: Call, root: str) -> list[schema.ToolCallLocation]:
    """The file that a call is about, so that an editor can show it; empty if the input names none."""
    path_argument = next((call.input[name] for name in PATHS if isinstance(call.input.get(name), str)), "")
    if not path_argument or "\0" in path_argument:
        return []
    path = os.path.normpath(os.path.join(root, path_argument))
    number = call.input.get("offset") if call.tool == READ else _first_changed(call.change)
    return [schema.ToolCallLocation(path=path, line=number if isinstance(number, int) and number > 0 else None)]


def _first_changed(change: Change | None) -> int | None:
    return next((row.number for row in change.lines if row.kind in "+-"), None) if change is not None else None


def diffs(change: Change, root: str, *, whole: bool = False) -> list[Content]:
    """A change as pairs of old and new text, one for each hunk. `whole`: without cutting."""
    cut = visible if whole else shown
    path = os.path.normpath(os.path.join(root, change.path))
    parts: list[Content] = []
    for gap, lines in groupby(change.lines, lambda row: row.kind == "@"):
        if gap:
            continue
        part = list(lines)
        old, new = _side(part, " -"), _side(part, " +")
        parts.append(helpers.tool_diff_content(path, cut(new), cut(old) if old else None))
    return parts


def _side(lines: Sequence[Line], kinds: str) -> str:
    return "".join(f"{row.text}\n" for row in lines if row.kind in kinds)


def text_content(text: str) -> Content:
    return helpers.tool_content(helpers.text_block(text))


def contents(call: Call, root: str) -> list[Content]:
    """The details of a call: its verdict if it was not simply run, and its change or output."""
    parts: list[Content] = []
    if call.state not in ("ran", "running", "waiting") or call.asked:
        parts.append(text_content(line(call.verdict)))
    if call.change is not None:
        parts += diffs(call.change, root)
    elif call.output:
        parts.append(text_content(fenced(shown(call.output)) if call.tool == BASH else shown(call.output)))
    if call.child is not None:
        done = f"{call.child.calls} calls" + (f", last: {call.child.last}" if call.child.last else "")
        parts.append(text_content(line(f"{call.child.kind}: {done} {call.child.outcome}".strip())))
    if call.progress and not call.ended:
        parts.append(text_content(line(call.progress)))
    return parts


def plan(call: Call) -> schema.AgentPlanUpdate:
    entries = [helpers.plan_entry(line(todo.text), status=todo.status) for todo in call.todos]
    return helpers.update_plan(entries)


# ------------------------------------------------------------------ a conversation


class Teller:
    """Converts items and deltas to updates in order, and remembers what the editor was sent."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._begun: dict[str, Json] = {}
        """Calls in progress that the editor knows, each with the input that it was sent."""
        self._sent = GrowingText()
        """What was sent of the current answer."""

    def delta(self, delta: Delta) -> list[Update]:
        match delta.kind:
            case "text":
                self._sent.add(delta.text)
                return [helpers.update_agent_message_text(visible(delta.text))]
            case "thinking":
                return [helpers.update_agent_thought_text(visible(delta.text))]
            case "reset":  # sent text cannot be withdrawn, so mark it as void
                void = bool(self._sent)
                self._sent.clear()
                return [helpers.update_agent_message_text("\n\n[the answer starts over]\n\n")] if void else []
            case _:
                return []

    def item(self, item: Item) -> list[Update]:
        """The updates of an item during a turn, without the editor's own messages and text that was sent already."""
        match item:
            case Words(role="user"):
                return []
            case Words():
                text, sent = item.text, str(self._sent)
                self._sent.clear()
                rest = text[len(sent) :] if text.startswith(sent) else "" if sent.endswith(text) else text
                return [helpers.update_agent_message_text(visible(rest))] if rest else []
            case _:
                return self.replayed(item)

    def replayed(self, item: Item) -> list[Update]:
        """The updates of an item of a loaded conversation."""
        match item:
            case Words(role="user"):
                return [helpers.update_user_message_text(visible(item.text))]
            case Words():
                return [helpers.update_agent_message_text(visible(item.text))]
            case Notice():
                return [note(item.text, item.kind)]
            case Call():
                return self._call(item)

    def _call(self, call: Call) -> list[Update]:
        plan_updates: list[Update] = [plan(call)] if call.todos and call.state == "ran" else []
        status, places, content = STATUS[call.state], locations(call, self._root), contents(call, self._root)
        update: Update
        if call.key in self._begun:
            update = helpers.update_tool_call(
                call.key,
                title=title_of(call),
                kind=kind_of(call.tool),
                status=status,
                content=content,
                locations=places,
                raw_input=call.input if call.input != self._begun[call.key] else None,
            )
        else:
            update = helpers.start_tool_call(
                call.key,
                title_of(call),
                kind=kind_of(call.tool),
                status=status,
                content=content,
                locations=places,
                raw_input=call.input,
            )
        if call.ended:
            self._begun.pop(call.key, None)
        else:
            self._begun[call.key] = call.input
        return [update, *plan_updates]

    def unended(self) -> list[Update]:
        """A turn has ended: mark calls that never returned as failed."""
        left, self._begun = sorted(self._begun), {}
        self._sent.clear()
        return [helpers.update_tool_call(key, status="failed") for key in left]


def note(text: str, kind: str = "note") -> Update:
    """A message outside of the answer."""
    return helpers.update_agent_thought_text(f"[{kind}] {visible(text)}\n")


def lost() -> Update:
    return note(
        "the editor read too slowly, and some updates were lost; reload the session to see everything", "warning"
    )


# ------------------------------------------------------------------ the end of a turn

LENGTHS = frozenset({"tokens", "reply"})
"""Limits on length; all others limit the amount of work."""


def stop_reason(result: TurnResult, model_stop: str, *, cancelled: bool) -> schema.StopReason:
    """Why a turn ended, in the protocol's terms. `model_stop`: why the model ended its last reply."""
    if cancelled and result.outcome == "stopped":
        return "cancelled"
    if result.outcome == "limit":
        return "max_tokens" if result.ended_by in LENGTHS else "max_turn_requests"
    if result.outcome == "stopped" or result.ended_by == "hook" or model_stop == "refusal":
        return "refusal"
    return "end_turn"


def usage(now: Usage, before: Usage) -> schema.Usage:
    """The usage of one turn."""
    read, written = now.cache_read_tokens - before.cache_read_tokens, now.cache_write_tokens - before.cache_write_tokens
    return schema.Usage(
        total_tokens=now.total - before.total,
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        cached_read_tokens=read or None,
        cached_write_tokens=written or None,
        field_meta={"estimated": True} if now.estimated else None,
    )
