"""Writes `schemas.json`, which describes the built-in tools to models: `python -m adderclaw.tools.generate`."""

import importlib
import json
import os
from collections.abc import Mapping
from typing import Any

from adderclaw.config.schema import Config
from adderclaw.core import decode
from adderclaw.core.tool_traits import TOOLS, traits
from adderclaw.core.types import Json, Tool
from adderclaw.tools import control, registry, specs
from adderclaw.tools.control import questions
from adderclaw.tools.kit import Kit


class _Clock:
    """A clock for tools that are described but never run."""

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002
        return None


def arguments(name: str) -> type[Any]:
    """The class of a tool's arguments."""
    module = importlib.import_module(f"adderclaw.tools.{traits(name).module}")
    return getattr(module, f"{name}Arguments")


def description(name: str) -> str:
    path = os.path.join(os.path.dirname(specs.FILE), "descriptions", f"{name}.md")
    with open(path, encoding="utf-8") as file:
        return " ".join(file.read().split())


HOOKS_ONLY = ((questions.AskUserQuestionArguments, "answers"),)
"""Arguments that only a hook can set. They are ignored if a model sets them, so they are not in its schema."""


def parameters(kind: type[Any]) -> Json:
    """The shortest equivalent schema: defaults of JSON Schema are left out."""
    schema = _shorten(decode.json_schema(kind))
    shown = {name: entry for name, entry in schema["properties"].items() if (kind, name) not in HOOKS_ONLY}
    return schema | {"properties": shown, "additionalProperties": False}


def _shorten(schema: Json) -> Json:
    schema.pop("additionalProperties", None)
    for entry in schema.get("properties", {}).values():
        if not entry.get("default", True):
            del entry["default"]
        if entry.get("additionalProperties") is True:
            del entry["additionalProperties"]
        if "properties" in entry.get("items", {}):
            _shorten(entry["items"])
    return schema


def load_all_tools() -> dict[str, Tool[Any]]:
    """All tools as their modules build them."""
    kit = Kit(Config(), None, _Clock())
    tools_by_name: dict[str, Tool[Any]] = {tool.name: tool for tool in control.tools(kit)}
    for module in registry.names_by_module():
        tools_by_name |= {tool.name: tool for tool in registry.build_module_tools(module, kit)}
    return tools_by_name


def render_schemas(late_ones: Mapping[str, Tool[Any]]) -> str:
    entries = {tool.name: _entry(tool.name, late_ones.get(tool.name)) for tool in TOOLS}
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def _entry(name: str, tool: Tool[Any] | None) -> Json:
    known: Json = {"description": description(name), "parameters": parameters(arguments(name))}
    if tool is not None and tool.aliases:
        known["aliases"] = [
            {"name": alias.name, "arguments": dict(alias.arguments), "defaults": dict(alias.defaults)}
            for alias in tool.aliases
        ]
    return known | {"deferred": True} if tool is not None and tool.deferred else known


def main() -> None:
    """Writes the file twice, because a new tool can be built only once it is described."""
    _write(render_schemas({}))
    specs.specs.cache_clear()
    _write(render_schemas(load_all_tools()))


def _write(text: str) -> None:
    with open(specs.FILE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
