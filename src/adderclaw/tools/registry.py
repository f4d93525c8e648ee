"""The built-in tools. Most of their modules are imported at the first call; descriptions come from `schemas.json`."""

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from adderclaw.core.host import ToolContext
from adderclaw.core.tool_traits import BASH, NAMES, TOOL_SEARCH, TOOLS, WEB_SEARCH
from adderclaw.core.types import Alias, Json, Prepared, Tool
from adderclaw.tools import control
from adderclaw.tools.kit import Kit, search_service
from adderclaw.tools.lookup import decode_arguments
from adderclaw.tools.specs import spec


def builtin_tools(kit: Kit) -> "dict[str, Tool[Any]]":
    """Name → tool, always in the order of NAMES, so that the prompt's prefix stays cacheable."""
    by_name = {tool.name: tool for tool in (*_late_tools(kit), *control.tools(kit))}
    searches = search_service(kit.config.web) is not None
    by_name[WEB_SEARCH] = replace(by_name[WEB_SEARCH], usable=searches)
    deferred_names = ", ".join(name for name in NAMES if by_name[name].deferred)
    search_tool = by_name[TOOL_SEARCH]
    by_name[TOOL_SEARCH] = replace(search_tool, description=search_tool.description.replace("{late}", deferred_names))
    return {name: by_name[name] for name in NAMES}


# ------------------------------------------------------------------ tools that are imported late


type Make = Callable[[Any, Kit], Iterable[Tool[Any]]]
"""Builds the tools of a module from the kit."""


def _shell(module: Any, kit: Kit) -> Iterable[Tool[Any]]:
    bash = kit.config.runtime.shell_linux
    env = kit.env if kit.start is not None else None
    sealed = kit.has_look_room and kit.config.security.network != "allow"
    network = (kit.reach, sealed, kit.refused)
    means = module.CommandSetup(kit.start, kit.tasks, kit.tmpdir, bash, *network, kit.has_look_room, env)
    return module.tools(kit.config, means)


def read_only_bash(kit: Kit) -> Tool[Any]:
    """A Bash tool that runs every command in the sandbox's read-only view."""
    from adderclaw.sandbox import process
    from adderclaw.tools import shell

    (bash,) = _shell(shell, replace(kit, start=process.in_view(kit.start, "read_only"), tasks=None))
    return bash


TOOL_FACTORIES: dict[str, Make] = {
    "shell": _shell,
    "files": lambda module, kit: module.tools(kit.config),
    "notebook": lambda module, kit: module.tools(kit.config.runtime.tool_timeout_seconds),
    "delete": lambda module, kit: module.tools(kit.config),
    "tasks": lambda module, kit: module.tools(kit.tasks),
    "search": lambda module, kit: module.tools(kit.config, kit.start),
    "web": lambda module, kit: module.tools(kit.config),
    "clock": lambda module, kit: module.tools(kit.clock),
    "memory": lambda module, kit: module.tools(kit.store, kit.clock),
    "resources": lambda module, _kit: module.tools(),
}
"""Module → how its tools are built, if its `tools` does not take the whole kit."""
EAGER_MODULES = frozenset({"control.agent", "control.skill", "control.catalogue"})
"""Modules whose tools depend on the session and are built when it starts."""


def names_by_module() -> dict[str, list[str]]:
    """The names of the tools of each module that is imported late."""
    modules: dict[str, list[str]] = {}
    for tool in TOOLS:
        if tool.module not in EAGER_MODULES:
            modules.setdefault(tool.module, []).append(tool.name)
    return modules


def _late_tools(kit: Kit) -> Iterator[Tool[Any]]:
    for name, names in names_by_module().items():
        module = _Module(name, kit)
        for tool in names:
            yield module.tool(tool)


def build_module_tools(module: str, kit: Kit) -> Iterable[Tool[Any]]:
    """Imports a module and builds its tools."""
    make = TOOL_FACTORIES.get(module, lambda module, kit: module.tools(kit))
    return make(importlib.import_module(f"adderclaw.tools.{module}"), kit)


class _Module:
    """The tools of one module, built when the first of them is needed."""

    def __init__(self, name: str, kit: Kit) -> None:
        self._name, self._kit = name, kit
        self._tools: dict[str, Tool[Any]] = {}

    def load_tool(self, name: str) -> Tool[Any]:
        if not self._tools:
            if name == BASH:
                self._kit.begin()  # the sandbox starts while the modules are imported
            self._tools = {tool.name: tool for tool in build_module_tools(self._name, self._kit)}
        return self._tools[name]

    def tool(self, name: str) -> Tool[Any]:
        known = spec(name)

        def prepare(arguments: Any, context: ToolContext) -> Prepared:
            return self.load_tool(name).prepare(arguments, context)

        def decode(arguments: Json) -> Any:
            return decode_arguments(self.load_tool(name), arguments)

        return Tool(
            name,
            object,
            prepare,
            known.description,
            known.parameters,
            tuple(Alias(alias["name"], alias["arguments"], alias["defaults"]) for alias in known.aliases),
            timeout=lambda arguments: self.load_tool(name).timeout(arguments),
            decode=decode,
            deferred=known.deferred,
        )
