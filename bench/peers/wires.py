"""Four wire protocols as a scripted model speaks them: what a request offers, and the bytes of a reply."""

import json
import re
from typing import Any, NamedTuple, Protocol, cast

type Json = dict[str, Any]

SHELLS = (
    "Bash",
    "bash",
    "shell",
    "shell_command",
    "exec_command",
    "local_shell",
    "run_shell_command",
    "developer__shell",
)
COMMAND_KEYS = ("command", "cmd", "script", "commands", "code", "input")
USED = {"input": 100, "output": 20}


class Tool(NamedTuple):
    name: str
    schema: Json
    local_shell: bool = False
    """The Responses protocol's own shell, which has no schema."""


class Call(NamedTuple):
    id: str
    tool: Tool
    arguments: Json


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def events(*parts: tuple[str, Json], done: bool = False) -> bytes:
    made = [(f"event: {name}\n" if name else "") + f"data: {compact(data)}\n\n" for name, data in parts]
    return "".join([*made, "data: [DONE]\n\n" if done else ""]).encode()


def listed(body: Json, key: str) -> list[Any]:
    """A list, which may be missing; a text that stands in its place is its only item."""
    found: Any = body.get(key)
    if isinstance(found, list):
        return cast("list[Any]", found)
    return [found] if found else []


def nested(body: Json, key: str) -> Json:
    found: Any = body.get(key)
    return cast("Json", found) if isinstance(found, dict) else {}


def wanted_schema(body: Json) -> Json:
    """Of the JSON that a request wants as its answer, by whichever protocol; empty where a text will do."""
    gemini = nested(body, "generationConfig")
    chat = nested(nested(body, "response_format"), "json_schema")
    responses, anthropic = nested(nested(body, "text"), "format"), nested(nested(body, "output_config"), "format")
    found: list[Json] = [nested(gemini, "responseJsonSchema"), nested(gemini, "responseSchema")]
    found += [nested(one, "schema") for one in (chat, responses, anthropic)]
    return next(filter(None, found), cast("Json", {}))


def shell(tools: list[Tool]) -> Tool | None:
    """The tool that runs commands, by its name."""
    named = {tool.name: tool for tool in tools}
    known = next((named[name] for name in SHELLS if name in named), None)
    return known or next((t for t in tools if re.search(r"(^|_)(shell|bash|exec|terminal)(_|$)", t.name, re.I)), None)


def arguments(tool: Tool, command: str) -> Json:
    """What satisfies the tool's own schema and runs the command."""
    properties: Json = nested(tool.schema, "properties")
    main = next((key for key in COMMAND_KEYS if key in properties), COMMAND_KEYS[0])
    is_list = str(properties.get(main, {}).get("type", "string")).lower() == "array"
    made: Json = {main: ["bash", "-c", command] if is_list else command}
    for key in listed(tool.schema, "required"):
        made.setdefault(key, "Echo the turn" if key == "description" else minimal(properties.get(key, {})))
    return made


def minimal(schema: Json) -> object:
    """The smallest value that a schema accepts."""
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return minimal(schema[key][0])
    kind = str((listed(schema, "type") or ["string"])[0]).lower()
    if kind == "object":
        properties: Json = nested(schema, "properties")
        return {name: minimal(properties.get(name, {})) for name in listed(schema, "required")}
    plain: dict[str, object] = {"array": [], "integer": 0, "number": 0, "boolean": False, "null": None}
    return plain.get(kind, "x")


class Wire(Protocol):
    """One protocol. `prompt` is what a provider's prompt cache sees, in its order."""

    name: str

    def tools(self, body: Json) -> list[Tool]: ...

    def prompt(self, body: Json) -> list[Any]: ...

    def result(self, body: Json, call: Call) -> str: ...

    def reply(self, body: Json, number: int, text: str, call: Call | None, *, stream: bool) -> bytes: ...


class Anthropic:
    name = "anthropic"

    def tools(self, body: Json) -> list[Tool]:
        return [Tool(one.get("name", ""), nested(one, "input_schema")) for one in listed(body, "tools")]

    def prompt(self, body: Json) -> list[Any]:
        system = listed(body, "system")
        messages: list[Json] = []
        for one in listed(body, "messages"):
            content = one["content"]
            plain = [{"type": "text", "text": content}] if isinstance(content, str) else content
            messages.append({"role": one["role"], "content": plain})
        return [*listed(body, "tools"), *system, *messages]

    def result(self, body: Json, call: Call) -> str:
        for message in reversed(listed(body, "messages")):
            for block in listed(message, "content"):
                if (
                    isinstance(message["content"], list)
                    and block.get("type") == "tool_result"
                    and block.get("tool_use_id") == call.id
                ):
                    return compact(block.get("content"))
        return ""

    def reply(self, body: Json, number: int, text: str, call: Call | None, *, stream: bool) -> bytes:
        block: Json = {"type": "text", "text": text}
        if call:
            block = {"type": "tool_use", "id": call.id, "name": call.tool.name, "input": call.arguments}
        stop = "tool_use" if call else "end_turn"
        usage = {"input_tokens": USED["input"], "output_tokens": USED["output"]}
        head: Json = {
            "id": f"msg_{number:06d}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "x"),
        }
        whole: Json = {**head, "content": [block], "stop_reason": stop, "stop_sequence": None, "usage": usage}
        if not stream:
            return compact(whole).encode()
        begun: Json = {**block, "input": {}} if call else {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": text}
        if call:
            delta = {"type": "input_json_delta", "partial_json": compact(call.arguments)}
        ending = {"stop_reason": stop, "stop_sequence": None}
        parts: list[Json] = [
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": begun},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": USED["output"]}},
            {"type": "message_stop"},
        ]
        return events(*((part["type"], part) for part in parts))


class Chat:
    name = "openai-chat"

    def tools(self, body: Json) -> list[Tool]:
        functions = [one["function"] for one in listed(body, "tools") if one.get("type") == "function"]
        return [Tool(one["name"], nested(one, "parameters")) for one in functions]

    def prompt(self, body: Json) -> list[Any]:
        return [*listed(body, "tools"), *listed(body, "messages")]

    def result(self, body: Json, call: Call) -> str:
        for message in reversed(listed(body, "messages")):
            if message.get("role") == "tool" and message.get("tool_call_id") == call.id:
                return compact(message.get("content"))
        return ""

    def reply(self, body: Json, number: int, text: str, call: Call | None, *, stream: bool) -> bytes:
        head: Json = {"id": f"chatcmpl-{number:06d}", "created": 1700000000, "model": body.get("model", "x")}
        usage = {"prompt_tokens": USED["input"], "completion_tokens": USED["output"], "total_tokens": 120}
        stop, asked = ("tool_calls", []) if call else ("stop", [])
        if call:
            function = {"name": call.tool.name, "arguments": compact(call.arguments)}
            asked = [{"id": call.id, "type": "function", "function": function}]
        if not stream:
            message: Json = {"role": "assistant", "content": None if call else text}
            message |= {"tool_calls": asked} if call else {}
            choice = {"index": 0, "message": message, "finish_reason": stop}
            return compact({**head, "object": "chat.completion", "usage": usage, "choices": [choice]}).encode()

        def chunk(delta: Json, finish: str | None = None) -> tuple[str, Json]:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return "", {**head, "object": "chat.completion.chunk", "choices": [choice]}

        delta = {"tool_calls": [{"index": 0, **asked[0]}]} if call else {"content": text}
        parts = [chunk({"role": "assistant", "content": None if call else ""}), chunk(delta), chunk({}, stop)]
        if nested(body, "stream_options").get("include_usage"):
            parts.append(("", {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}))
        return events(*parts, done=True)


class Responses:
    name = "openai-responses"

    def tools(self, body: Json) -> list[Tool]:
        found: list[Tool] = []
        for one in listed(body, "tools"):
            if one.get("type", "function") == "function":
                found.append(Tool(one.get("name", ""), nested(one, "parameters")))
            elif one["type"] in ("local_shell", "shell"):
                found.append(Tool("local_shell", {}, local_shell=True))
        return found

    def prompt(self, body: Json) -> list[Any]:
        items = listed(body, "input")
        return [
            *listed(body, "tools"),
            body.get("instructions") or "",
            *items,
        ]

    def result(self, body: Json, call: Call) -> str:
        for item in reversed(listed(body, "input")):
            if str(item.get("type", "")).endswith("_output") and call.id in (item.get("call_id"), item.get("id")):
                return compact(item.get("output"))
        return ""

    def reply(self, body: Json, number: int, text: str, call: Call | None, *, stream: bool) -> bytes:
        item, begun, between = _response_item(number, text, call)
        usage: Json = {"input_tokens": USED["input"], "output_tokens": USED["output"], "total_tokens": 120}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        head: Json = {"id": f"resp_{number:06d}", "object": "response", "created_at": 1700000000, "error": None}
        head |= {"model": body.get("model", "x"), "tools": [], "tool_choice": "auto", "parallel_tool_calls": False}
        whole: Json = {**head, "status": "completed", "output": [item], "usage": usage, "incomplete_details": None}
        if not stream:
            return compact(whole).encode()
        started: Json = {**whole, "status": "in_progress", "output": [], "usage": None}
        parts: list[tuple[str, Json]] = [
            ("response.created", {"response": started}),
            ("response.output_item.added", {"output_index": 0, "item": begun}),
            *between,
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": whole}),
        ]
        return events(*((name, {"type": name, "sequence_number": i, **data}) for i, (name, data) in enumerate(parts)))


def _response_item(number: int, text: str, call: Call | None) -> tuple[Json, Json, list[tuple[str, Json]]]:
    """The one item of a response: whole, as it begins, and what comes between."""
    if call and call.tool.local_shell:
        action: Json = {"type": "exec", "command": ["bash", "-c", call.arguments["command"]], "env": {}}
        item: Json = {"type": "local_shell_call", "id": f"lsh_{number}", "call_id": call.id, "status": "completed"}
        return {**item, "action": action}, {**item, "action": action, "status": "in_progress"}, []
    if call:
        given = compact(call.arguments)
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": call.id, "name": call.tool.name}
        where: Json = {"item_id": item["id"], "output_index": 0}
        done = {**item, "arguments": given, "status": "completed"}
        return (
            done,
            {**item, "arguments": "", "status": "in_progress"},
            [
                ("response.function_call_arguments.delta", {**where, "delta": given}),
                ("response.function_call_arguments.done", {**where, "arguments": given}),
            ],
        )
    part: Json = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
    where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    return (
        item,
        {**item, "content": [], "status": "in_progress"},
        [
            ("response.content_part.added", {**where, "part": {**part, "text": ""}}),
            ("response.output_text.delta", {**where, "delta": text}),
            ("response.output_text.done", {**where, "text": text}),
            ("response.content_part.done", {**where, "part": part}),
        ],
    )


class Gemini:
    name = "gemini"

    def tools(self, body: Json) -> list[Tool]:
        functions = [f for one in listed(body, "tools") for f in listed(one, "functionDeclarations")]
        return [Tool(f["name"], f.get("parametersJsonSchema") or nested(f, "parameters")) for f in functions]

    def prompt(self, body: Json) -> list[Any]:
        return [*listed(body, "tools"), body.get("systemInstruction") or "", *listed(body, "contents")]

    def result(self, body: Json, call: Call) -> str:
        for content in reversed(listed(body, "contents")):
            for part in listed(content, "parts"):
                if (found := part.get("functionResponse")) and found.get("name") == call.tool.name:
                    return compact(found.get("response"))
        return ""

    def reply(self, body: Json, number: int, text: str, call: Call | None, *, stream: bool) -> bytes:  # noqa: ARG002
        part: Json = {"text": text}
        if call:
            part = {"functionCall": {"id": call.id, "name": call.tool.name, "args": call.arguments}}
        usage = {"promptTokenCount": USED["input"], "candidatesTokenCount": USED["output"], "totalTokenCount": 120}
        made: Json = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage,
            "modelVersion": "scripted",
            "responseId": f"r{number:06d}",
        }
        return events(("", made)) if stream else compact(made).encode()


def wire_of(path: str) -> Wire | None:
    """By the address that is asked; None where it is no request for a reply."""
    if path.endswith("/messages"):
        return Anthropic()
    if path.endswith("/chat/completions"):
        return Chat()
    if path.endswith("/responses"):
        return Responses()
    return Gemini() if re.search(r":(stream)?generateContent$", path, re.IGNORECASE) else None
