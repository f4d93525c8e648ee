"""Builds the JSON lines of print mode: init, assistant, user, stream_event, result."""

import os

from adderclaw import __version__
from adderclaw.agent.run import Run
from adderclaw.agent.session.session import TurnResult
from adderclaw.core.events import EventRecord
from adderclaw.core.types import EndedBy, Json, Message, OpaqueBlock, TextBlock, ToolResultBlock, ToolUseBlock, Usage

PROTOCOL = "2.1.261"
"""The protocol version reported to clients, which check it before using newer features."""
STOP = {"end": "end_turn", "tool_use": "tool_use", "max_tokens": "max_tokens", "refusal": "refusal"}
"""The protocol's names for why a reply ended."""
LIMITS: dict[EndedBy, tuple[str, str]] = {
    "rounds": ("error_max_turns", "max_turns"),
    "cost_usd": ("error_max_budget_usd", "budget_exhausted"),
}
"""The subtype and terminal_reason of each limit."""
MODES = {"readonly": "plan", "supervised": "default", "full": "bypassPermissions"}
"""The permission mode of each autonomy."""


def new_uuid() -> str:
    """A random UUID (version 4)."""
    data = bytearray(os.urandom(16))
    data[6], data[8] = data[6] & 0x0F | 0x40, data[8] & 0x3F | 0x80
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def usage_json(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
        **({"estimated": True} if usage.estimated else {}),
    }


class Lines:
    """Builds the lines of one run and counts the figures of its results."""

    def __init__(self, run: Run) -> None:
        self._run, self._session = run, run.session
        self._model, self._stop = run.session.model, "end_turn"
        self._usage = Usage()
        self._api_ms = 0.0
        self._denials: list[Json] = []
        self._began = run.runtime.clock.monotonic()
        self._before = (0, Usage())
        self.message_id = ""
        """The id of the current reply."""

    def line(self, kind: str, body: Json) -> Json:
        return {"type": kind, **body, "session_id": self._session.session_id, "uuid": new_uuid()}

    # ------------------------------------------------------------------ the session

    def init(self, more: Json) -> Json:
        session, servers = self._session, self._run.runtime.servers
        listed = [] if servers is None else [mcp_status(row.entry.given, row.state) for row in servers.status()]
        skills = session.environment.kit.skills
        names = [] if skills is None else [name for name, _ in skills.offered()[0]]
        commands = [] if skills is None else [name for name, _ in skills.callable()]
        body: Json = {
            "subtype": "init",
            "cwd": session.environment.context.workspace.root,
            "model": session.model,
            "tools": [name for name, tool in session.environment.offered_tools.items() if tool.usable],
            "mcp_servers": listed,
            "permissionMode": session.environment.policy.mode or MODES[session.environment.policy.autonomy],
            "slash_commands": commands,
            "skills": names,
            **self._plugins(),
            "agents": ["general-purpose", "Explore", "Plan", *session.environment.kit.agents, *self._agents()],
            "apiKeySource": "none",
            "output_style": "default",
            **({"effort": session.thinking.effort} if session.thinking.effort else {}),
            "claude_code_version": PROTOCOL,
            "adderclaw_version": __version__,
            "run_id": self._run.run_id,
            "conversation_id": session.conversation_id,
            **more,
        }
        return self.line("system", body)

    def no_effect(self, report: Json) -> Json:
        """A line about an option of the client that has no effect."""
        text = f"{report['option']} has no effect: {report['reason']}"
        return self.line("system", {"subtype": "informational", "level": "warning", "content": text, **report})

    def _plugins(self) -> Json:
        """The active plugins with their hashes, and the errors of inactive ones."""
        plugins = self._run.runtime.plugins
        if plugins is None:
            return {"plugins": []}
        return {"plugins": plugins.as_json(), **({"plugin_errors": plugins.errors()} if plugins.held else {})}

    def _agents(self) -> list[str]:
        """The names of the plugins' subagents."""
        kit = self._session.environment.kit
        if not any(plugin.manifest.agents for plugin in kit.plugins):
            return []
        from adderclaw.tools.control import definitions

        return [
            name for name in definitions.known_definitions("", kit.project, plugins=kit.plugins).by_name if ":" in name
        ]

    def begin(self) -> None:
        """Starts counting for the result of a turn."""
        budget = self._session.budget
        self._began, self._api_ms, self._denials = self._run.runtime.clock.monotonic(), 0.0, []
        self._before = (budget.steps, budget.usage)

    def hear(self, record: EventRecord) -> bool:
        """Records figures for later lines; returns whether the event had the figures of a reply."""
        body = record.payload
        if record.event_type == "llm_response_received" and record.session_id == self._session.session_id:
            self._model, self._stop = str(body["model"]), STOP.get(str(body["stop_reason"]), "end_turn")
            self._usage = Usage(int(body["input_tokens"]), int(body["output_tokens"]))
            self._api_ms += float(body["latency_ms"])
            return True
        if record.event_type == "tool_denied":
            denied: Json = {"tool_name": body["tool"], "tool_use_id": body["tool_use_id"]}
            self._denials.append({**denied, "tool_input": self._input_of(str(body["tool_use_id"]))})
        return False

    def _input_of(self, id: str) -> Json:
        for message in reversed(self._session.state.history.messages):
            for block in message.blocks:
                if isinstance(block, ToolUseBlock) and block.call.id == id:
                    return self._session.secrets.redact_all(block.call.input)
        return {}

    # ------------------------------------------------------------------ messages

    def message(self, message: Message) -> Json | None:
        """The line of a history message; None if it has no visible content."""
        if message.role == "assistant":
            return self._assistant(message)
        blocks = self._blocks(message)
        body: Json = {"message": {"role": "user", "content": blocks}, "parent_tool_use_id": None}
        return self.line("user", body) if blocks else None

    def _blocks(self, message: Message) -> list[Json]:
        """The content blocks without secrets. (A client that is asked about a call sees the call unredacted.)"""
        content = [row for block in message.blocks if (row := _content_block(block)) is not None]
        return self._session.secrets.redact_all(content)

    def user(self, content: object, uuid: str) -> Json:
        """Echoes a message received from the client."""
        body: Json = {"message": {"role": "user", "content": content}, "parent_tool_use_id": None, "isReplay": True}
        return {**self.line("user", body), "uuid": uuid}

    def _assistant(self, message: Message) -> Json | None:
        blocks = self._blocks(message)
        stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else self._stop
        body = self.envelope() | {"content": blocks, "stop_reason": stop, "usage": usage_json(self._usage)}
        self.message_id = ""
        return self.line("assistant", {"message": body, "parent_tool_use_id": None}) if blocks else None

    def envelope(self) -> Json:
        """A reply without its content."""
        self.message_id = self.message_id or f"msg_{os.urandom(12).hex()}"
        return {
            "id": self.message_id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_json(Usage()),
        }

    def hook(self, ran: Json) -> Json:
        """A hook that ended."""
        failed = bool(ran["error"]) or ran["exit_code"] not in (0, 2)
        named: Json = {"hook_event": ran["hook_event"], "hook_name": ran["command"], "hook_id": str(ran["ordinal"])}
        ended: Json = {"exit_code": ran["exit_code"], "outcome": "error" if failed else "success"}
        return self.line("system", {"subtype": "hook_response", **named, **ended, "stderr": ran["error"]})

    def stream_event(self, event: Json) -> Json:
        return self.line("stream_event", {"event": event, "parent_tool_use_id": None})

    @property
    def stop_reason(self) -> str:
        return self._stop

    # ------------------------------------------------------------------ the end

    def result(self, result: TurnResult, exit_code: int) -> Json:
        """The result of a turn. `is_error` is true if the exit code of such a run is not 0."""
        session, clock = self._session, self._run.runtime.clock
        steps, used = self._before
        now = session.budget.usage
        counts = (after - before for after, before in zip(_counts(now), _counts(used), strict=True))
        usage = Usage(*counts, estimated=now.estimated)
        subtype, why = ended_by_name(result)
        details = result.details or {}
        body: Json = {
            "subtype": subtype,
            "is_error": result.outcome != "completed",
            "duration_ms": round((clock.monotonic() - self._began) * 1000),
            "duration_api_ms": round(self._api_ms),
            "num_turns": session.budget.steps - steps,
            "result": result.answer or (result.reason if result.outcome != "completed" else ""),
            "stop_reason": self._stop if session.budget.steps > steps else None,
            **({"total_cost_usd": session.budget.cost} if session.budget.cost is not None else {}),
            "usage": usage_json(usage),
            "modelUsage": {self._model: _model_usage(now, session.budget.cost)},
            "permission_denials": self._denials,
            "terminal_reason": why,
            **({"structured_output": details["structured_output"]} if "structured_output" in details else {}),
            **({"errors": [result.reason]} if result.outcome != "completed" else {}),
            "outcome": result.outcome,
            "reason": result.reason,
            "exit_code": exit_code,
            "run_id": self._run.run_id,
            "conversation_id": session.conversation_id,
        }
        return self.line("result", body)


def ended_by_name(result: TurnResult) -> tuple[str, str]:
    """The subtype of a result, and its terminal_reason."""
    match result.outcome:
        case "completed":
            return "success", "completed"
        case "limit":
            return LIMITS.get(result.ended_by, ("error_during_execution", "blocking_limit"))
        case "stopped":
            return "error_during_execution", "aborted_streaming"
        case "denied":
            return "error_during_execution", "hook_stopped" if result.ended_by == "hook" else "permission_denied"
        case _ if result.ended_by == "shape":
            return "error_max_structured_output_retries", "structured_output_retry_exhausted"
        case _:
            return "error_during_execution", "api_error"


def failure(error: str, exit_code: int) -> Json:
    """The result of a run that could not start."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "result": error,
        "errors": [error],
        "startup_failure_reason": error,
        "outcome": "error",
        "exit_code": exit_code,
        "session_id": "",
        "uuid": new_uuid(),
    }


def mcp_status(name: str, state: str) -> Json:
    known = {"idle": "pending", "starting": "pending", "ready": "connected", "failed": "failed"}
    return {"name": name, "status": known.get(state, state)}


def _counts(usage: Usage) -> tuple[int, int, int, int]:
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def _model_usage(usage: Usage, cost: float | None) -> Json:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheCreationInputTokens": usage.cache_write_tokens,
        "webSearchRequests": 0,
        **({"costUSD": cost} if cost is not None else {}),
    }


def _content_block(block: object) -> Json | None:
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ToolUseBlock(call):
            tool_input = call.arguments if call.arguments is not None else {"raw": call.raw}
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": tool_input}
        case ToolResultBlock(tool_use_id, content, is_error, _, _):
            return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": is_error}
        case OpaqueBlock(_, payload):
            return _thinking_block(payload)
        case _:
            return None


def _thinking_block(payload: Json) -> Json | None:
    """A readable thought of any vendor; None if it is encrypted, or not a thought."""
    if payload.get("type") == "thinking":
        return {"type": "thinking", "thinking": payload["thinking"], "signature": payload["signature"]}
    from adderclaw.models.providers.reading import object_in, objects_in  # the payload is untrusted

    item = object_in(payload.get("item"))
    parts: list[Json] = [
        *(objects_in(item.get("summary")) or objects_in(item.get("content"))),
        *(row["part"] for row in payload.get("parts", ()) if row.get("part", {}).get("thought")),
        *({"text": detail.get("text") or detail.get("summary")} for detail in payload.get("reasoning_details", ())),
        *({"text": payload.get(name)} for name in ("reasoning_content", "reasoning")),
    ]
    text = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return {"type": "thinking", "thinking": text, "signature": ""} if text else None
