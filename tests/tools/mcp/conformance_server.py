"""What the conformance suite asks as a server: its fixed tools as values of ours, through our own server code."""

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from adderclaw.core.errors import PathRefused
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Json, MediaBlock, Tool, ToolResult, Touch, fixed_prepare, rejected
from adderclaw.tools.mcp import answers, server
from adderclaw.tools.mcp.resources import Document, Prompt, Resources
from adderclaw.tools.mcp.server import Caller, Offer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA_2020: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}

type Run = Callable[[Json, Caller], Awaitable[ToolResult]]


async def simple(_given: Json, _caller: Caller) -> ToolResult:
    return ToolResult("This is a simple text response for testing.")


async def image(_given: Json, _caller: Caller) -> ToolResult:
    return ToolResult("", media=(MediaBlock("image/png", PIXEL),))


DOCUMENT = MediaBlock("application/pdf", "JVBERi0xLjQK", name="paper.pdf")


async def embedded(_given: Json, _caller: Caller) -> ToolResult:
    return ToolResult("", media=(DOCUMENT,))


async def mixed(_given: Json, _caller: Caller) -> ToolResult:
    return ToolResult("Multiple content types test:", media=(MediaBlock("image/png", PIXEL), DOCUMENT))


async def error(_given: Json, _caller: Caller) -> ToolResult:
    return rejected("This tool intentionally returns an error for testing")


async def progress(_given: Json, caller: Caller) -> ToolResult:
    for done in (0, 50, 100):
        await caller.report(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return ToolResult("done")


async def logging(_given: Json, caller: Caller) -> ToolResult:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await caller.say("info", said)
        await asyncio.sleep(0.05)
    return ToolResult("done")


async def elicit(given: Json, caller: Caller) -> ToolResult:
    schema = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    return ToolResult(f"User response: {await caller.ask(str(given.get('message', 'Who?')), schema)}")


async def elicit_defaults(_given: Json, caller: Caller) -> ToolResult:
    schema: Json = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    }
    return ToolResult(f"Elicitation completed: {await caller.ask('Please review', schema)}")


async def elicit_enums(_given: Json, caller: Caller) -> ToolResult:
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in ((1, "First"), (2, "Second"), (3, "Third"))
    ]
    plain = ["option1", "option2", "option3"]
    schema: Json = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    }
    return ToolResult(f"Elicitation completed: {await caller.ask('Please choose', schema)}")


TOOLS: dict[str, Run] = {
    "test_simple_text": simple,
    "test_image_content": image,
    "test_embedded_resource": embedded,
    "test_multiple_content_types": mixed,
    "test_error_handling": error,
    "test_tool_with_progress": progress,
    "test_tool_with_logging": logging,
    "test_elicitation": elicit,
    "test_elicitation_sep1034_defaults": elicit_defaults,
    "test_elicitation_sep1330_enums": elicit_enums,
    "json_schema_2020_12_tool": simple,
}


def value(name: str) -> Tool[Any]:
    async def unused(_arguments: Any, _context: ToolContext) -> ToolResult:
        return rejected("called by the suite only")

    parameters: Json = SCHEMA_2020 if name.startswith("json_schema") else {"type": "object", "properties": {}}
    return Tool(name, dict, fixed_prepare(Touch(), unused), f"A fixture: {name}.", parameters)


async def call(name: str, given: Json, caller: Caller) -> ToolResult:
    run = TOOLS.get(name)
    return rejected(f"no tool {name}") if run is None else await run(given, caller)


def prompts() -> list[Prompt]:
    return [
        Prompt("test_simple_prompt", "A fixture."),
        Prompt("test_prompt_with_arguments", "A fixture.", ("arg1", "arg2")),
    ]


async def prompt(name: str, given: dict[str, str]) -> str:
    if name == "test_simple_prompt":
        return "This is a simple prompt for testing."
    if name == "test_prompt_with_arguments":
        return f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
    raise PathRefused(f"no prompt {name}")


def read(uri: str) -> tuple[str, str]:
    if uri == "test://static-text":
        return "This is the content of the static text resource.", "text/plain"
    if found := re.fullmatch(r"test://template/(\w+)/data", uri):
        return json.dumps({"id": found[1], "templateTest": True}), "application/json"
    raise PathRefused(f"no resource {uri}")


def complete(_of: str, _argument: str) -> list[str]:
    return ["test-one", "test-two", "other"]


RESOURCES = Resources(
    prompts,
    prompt,
    (Document("test://static-text", "static", "A fixture.", "text/plain"),),
    (Document("test://template/{id}/data", "template", "A fixture."),),
    read,
    complete,
)


if __name__ == "__main__":
    answers.silence_sdk_logging()
    made = server.build_server(Offer(lambda: map(value, TOOLS), call, resources=RESOURCES))
    uvicorn.run(server.asgi_application(made), fd=int(sys.argv[1]), log_level="critical")
