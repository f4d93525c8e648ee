"""Tool definitions of MCP servers, limited in size and hashed so that changes are detected."""

import re
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, NamedTuple

from adderclaw.config.foreign.json_schema import without_patterns
from adderclaw.core.json_text import canonical, digest
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json

MAX_TOOLS = 500
"""Most tools of one server that are offered."""
SCHEMA_BYTES = 65_536
DESCRIPTION_CHARS = 2_048
NAME = re.compile(r"[A-Za-z0-9_.\-/ ]{1,128}")


class Definition(NamedTuple):
    """One tool as its server describes it."""

    name: str
    description: str
    schema: Json
    output: Json | None = None
    read_only: bool = False
    """The server's own hint; it counts only once the operator has approved the tool."""

    @property
    def sha256(self) -> str:
        return digest(self._asdict())


class Listing(NamedTuple):
    definitions: list[Definition]
    left_out: list[str]
    """One sentence for each tool that is not offered, with the reason."""


def tool_name(server: str, tool: str) -> str:
    return f"mcp__{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"


def server_of(name: str) -> str | None:
    """The server in the name of a tool, a prompt or a rule."""
    match = re.fullmatch(r"mcp__([a-z0-9-]+(?:_[a-z0-9-]+)*)__(.+)", name)
    return match[1] if match else None


def list_definitions(server: str, tools: Iterable[Any]) -> Listing:
    """Converts the SDK's tools to definitions and notes those that cannot be offered."""
    by_name: dict[str, Definition] = {}
    left_out: list[str] = []
    for number, tool in enumerate(tools):
        if number >= MAX_TOOLS:
            left_out.append(f"only the first {MAX_TOOLS} of its tools are offered")
            break
        definition = _definition(tool)
        if isinstance(definition, str):
            left_out.append(definition)
        elif (name := tool_name(server, definition.name)) in by_name:
            left_out.append(f"{definition.name!r} has the same name as {by_name[name].name!r} ({name})")
        else:
            by_name[name] = definition
    return Listing(list(by_name.values()), left_out)


def _definition(tool: Any) -> Definition | str:
    name = str(tool.name)
    if not NAME.fullmatch(name):
        return f"a tool's name may not be {visible(name, keep_newlines=False)[:80]!r}"
    schema, output = tool.input_schema, tool.output_schema
    size = len(canonical(schema)) + len(canonical(output))
    if size > SCHEMA_BYTES:
        return f"the schema of {name!r} has {size} bytes, more than {SCHEMA_BYTES}"
    hints = tool.annotations
    read_only = bool(hints is not None and hints.read_only_hint and not hints.destructive_hint)
    definition = Definition(name, str(tool.description or tool.title or ""), schema, deepcopy(output), read_only)
    if output is not None:
        # The SDK checks answers against this object with Python's `re`, which a hostile pattern can block for ever.
        plain = without_patterns(output)
        output.clear()
        output.update(plain)
    return definition


def description_for_model(definition: Definition) -> str:
    """The description for the model, without invisible characters and limited in length."""
    text = visible(definition.description).strip()
    return text if len(text) <= DESCRIPTION_CHARS else f"{text[:DESCRIPTION_CHARS]}… [cut]"
