"""Writes `schemas.json`, all that is advertised of the built-in tools: `python -m adderclaw.tools.generate`."""

import importlib
import json
import os
from collections.abc import Mapping
from typing import Any

from adderclaw.config.schema.settings import Config
from adderclaw.core import decode
from adderclaw.core.tool_traits import TOOLS, traits
from adderclaw.core.types import Json, Tool
from adderclaw.tools import Kit, control, late, specs
from adderclaw.tools.control import questions


class _Clock:
    """Tools are only looked at here: nobody asks for the time."""

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
"""Arguments that only a hook can fill in: what a model puts there counts for nothing, so it does not hear of them."""


def parameters(kind: type[Any]) -> Json:
    """The schema as short as it can be said: what is so without a word needs no saying."""
    made = _short(decode.json_schema(kind))
    shown = {name: entry for name, entry in made["properties"].items() if (kind, name) not in HOOKS_ONLY}
    return made | {"properties": shown, "additionalProperties": False}


def _short(made: Json) -> Json:
    made.pop("additionalProperties", None)
    for entry in made.get("properties", {}).values():
        if not entry.get("default", True):
            del entry["default"]
        if entry.get("additionalProperties") is True:
            del entry["additionalProperties"]
        if "properties" in entry.get("items", {}):
            _short(entry["items"])
    return made


def real() -> dict[str, Tool[Any]]:
    """The tools as their modules make them."""
    kit = Kit(Config(), None, _Clock())
    made: dict[str, Tool[Any]] = {tool.name: tool for tool in control.tools(kit)}
    for module in late.by_module():
        made |= {tool.name: tool for tool in late.made(module, kit)}
    return made


def generated(late_ones: Mapping[str, Tool[Any]]) -> str:
    made = {tool.name: _known(tool.name, late_ones.get(tool.name)) for tool in TOOLS}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _known(name: str, tool: Tool[Any] | None) -> Json:
    known: Json = {"description": description(name), "parameters": parameters(arguments(name))}
    if tool is not None and tool.aliases:
        known["aliases"] = [
            {"name": one.name, "arguments": dict(one.arguments), "defaults": dict(one.defaults)} for one in tool.aliases
        ]
    return known | {"deferred": True} if tool is not None and tool.deferred else known


def main() -> None:
    """Twice: a new tool can only be made once it is described."""
    _write(generated({}))
    specs.specs.cache_clear()
    _write(generated(real()))


def _write(text: str) -> None:
    with open(specs.FILE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
