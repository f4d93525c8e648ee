"""Built-in tools whose modules are imported with their first call: what is advertised of them is in `schemas.json`."""

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw.tools import decoded
from adderclaw.tools.specs import spec
from adderclaw.types import Alias, Json, Prepared, Tool, ToolContext

if TYPE_CHECKING:
    from adderclaw.tools import Kit

type Make = Callable[[Any, "Kit"], Iterable[Tool[Any]]]
"""A module and the kit → its tools."""


def _shell(module: Any, kit: "Kit") -> Iterable[Tool[Any]]:
    bash = kit.config.runtime.shell_linux
    env = kit.env if kit.start is not None else None
    sealed = kit.has_look_room and kit.config.security.network != "allow"
    network = (kit.reach, sealed, kit.refused)
    means = module.Means(kit.start, kit.tasks, kit.tmpdir, bash, *network, kit.has_look_room, env)
    return module.tools(kit.config, means)


def looking(kit: "Kit") -> Tool[Any]:
    """Bash whose every command runs in the room in which nothing can be written, whatever it is."""
    from adderclaw.sandbox import process
    from adderclaw.tools import shell

    (bash,) = _shell(shell, replace(kit, start=process.in_view(kit.start, "look"), tasks=None))
    return bash


MODULES: dict[str, tuple[tuple[str, ...], Make]] = {
    "shell": (("Bash",), _shell),
    "files": (("Read", "Write", "Edit"), lambda module, kit: module.tools(kit.config)),
    "notebook": (("NotebookEdit",), lambda module, kit: module.tools(kit.config.runtime.tool_timeout_seconds)),
    "delete": (("Delete",), lambda module, kit: module.tools(kit.config)),
    "tasks": (("TaskOutput", "TaskStop"), lambda module, kit: module.tools(kit.tasks)),
    "search": (("LS", "Glob", "Grep"), lambda module, kit: module.tools(kit.config, kit.start)),
    "web": (("Http",), lambda module, kit: module.tools(kit.config)),
    "fetch": (("WebFetch",), lambda module, kit: module.tools(kit)),
    "websearch": (("WebSearch",), lambda module, kit: module.tools(kit)),
    "clock": (("Time",), lambda module, kit: module.tools(kit.clock)),
    "memory": (
        ("MemorySearch", "MemoryRead", "MemoryWrite"),
        lambda module, kit: module.tools(kit.store, kit.clock),
    ),
    "resources": (
        ("ListMcpResources", "ReadMcpResource"),
        lambda module, _kit: module.tools(),
    ),
    "worktree": (("EnterWorktree", "ExitWorktree"), lambda module, kit: module.tools(kit)),
    "control.lists": (
        ("TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"),
        lambda module, kit: module.tools(kit),
    ),
    "control.plans": (("EnterPlanMode", "ExitPlanMode"), lambda module, kit: module.tools(kit)),
    "control.questions": (("AskUserQuestion", "Brief"), lambda module, kit: module.tools(kit)),
}
"""Module → the tools that it has, and how they are made."""


def tools(kit: "Kit") -> Iterator[Tool[Any]]:
    for name, (names, make) in MODULES.items():
        module = _Module(name, make, kit)
        for tool in names:
            yield module.tool(tool)


class _Module:
    """The tools of one module, made when the first of them is needed."""

    def __init__(self, name: str, make: Make, kit: "Kit") -> None:
        self._name, self._make, self._kit = name, make, kit
        self._made: dict[str, Tool[Any]] = {}

    def real(self, name: str) -> Tool[Any]:
        if not self._made:
            if name == "Bash":
                self._kit.begin()  # it starts while all that follows is imported
            module = importlib.import_module(f"adderclaw.tools.{self._name}")
            self._made = {tool.name: tool for tool in self._make(module, self._kit)}
        return self._made[name]

    def tool(self, name: str) -> Tool[Any]:
        known = spec(name)

        def prepare(arguments: Any, context: ToolContext) -> Prepared:
            return self.real(name).prepare(arguments, context)

        def decode(given: Json) -> Any:
            return decoded(self.real(name), given)

        return Tool(
            name,
            object,
            prepare,
            known.description,
            known.parameters,
            tuple(Alias(one["name"], one["arguments"], one["defaults"]) for one in known.aliases),
            timeout=lambda arguments: self.real(name).timeout(arguments),
            decode=decode,
            deferred=known.deferred,
        )
