"""The tool registry: every built-in tool, found by its name or by an alias."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from adderclaw.core.record import NamedTuple, mutable_record
from adderclaw.core.tool_traits import CALL, NAMES, TOOL_SEARCH, WEB_SEARCH
from adderclaw.core.types import Alias, Clock, Effort, Json, Tool, ToolCall
from adderclaw.tools.surfing import Surfing, search_service

if TYPE_CHECKING:
    from adderclaw.config.plugins.loaded_plugin import LoadedPlugin
    from adderclaw.config.schema.settings import Config
    from adderclaw.sandbox.process import Starter
    from adderclaw.sandbox.proxy import Judge
    from adderclaw.storage import Store
    from adderclaw.storage.sdlc.baselines import TreeSnapshot
    from adderclaw.tools.background import Tasks

CHECKER_FILES = (
    *("ruff.toml", ".ruff.toml", "pyproject.toml", "setup.cfg", "pyrightconfig.json", "mypy.ini", ".mypy.ini"),
    *("tsconfig.json", "Cargo.toml", "go.mod", ".eslintrc", ".eslintrc.json", ".eslintrc.js", ".eslintrc.cjs"),
    *(".eslintrc.yml", ".eslintrc.yaml", "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs"),
    *("eslint.config.ts", "eslint.config.mts", "eslint.config.cts"),
)
"""Files that configure the checkers of `tools.checkers`. That module is imported only if one of them exists."""


class PreparedSkill(NamedTuple):
    """A skill call before it runs: the file to read, and how."""

    path: str
    """The file to read."""
    read: "Callable[[], CalledSkill]"
    """Reads exactly that file; raises Refused."""


class CalledSkill(NamedTuple):
    """The text and permissions of a called skill."""

    text: str
    """For the model."""
    path: str
    """Its SKILL.md."""
    rules: tuple[str, ...] = ()
    """Permission rules that apply with it: the part of its `allowed-tools` that the operator trusts."""
    inline: Mapping[str, str] = {}
    """Placeholder in the text → the command whose output replaces it."""
    asked: frozenset[str] = frozenset()
    """Placeholders whose command contains words of the model, so it still needs approval."""
    named: Mapping[str, str] = {}
    """Placeholder in the text → the absolute path of the file or folder whose content replaces it."""
    effort: Effort | None = None
    """The reasoning effort while the model follows the skill, if the operator trusts the skill."""


class Skills(Protocol):
    """The session's skills."""

    def offered(self) -> tuple[list[tuple[str, str]], bool]:
        """Name and description of the skills that the model may call, and whether the list is complete."""
        ...

    def callable(self) -> list[tuple[str, str]]:
        """Name and description of the skills that a person may call."""
        ...

    def has(self, name: str) -> bool: ...

    def called(self, name: str, arguments: str, session_id: str) -> CalledSkill:
        """A skill's text for the person who called it; raises Refused with the reason."""
        ...

    def prepared(self, name: str, arguments: str, file: str, session_id: str) -> PreparedSkill:
        """The file that the model's call reads, and a function that reads exactly it; raises Refused."""
        ...

    def granted(self, name: str) -> tuple[tuple[str, ...], str]:
        """The part of a skill's `allowed-tools` that the operator trusts, and why the rest is ignored."""
        ...


@mutable_record
class Kit:
    """What tools are built with. Without a store they cannot run, but they can be listed and explained."""

    config: "Config"
    store: "Store | None"
    clock: Clock
    start: "Starter | None" = None
    """Starts a child in the session's sandbox; None without a sandbox."""
    has_look_room: bool = False
    """Whether that sandbox has a read-only view."""
    begin: Callable[[], None] = lambda: None
    """Starts the sandbox ahead of its first child, without waiting for it."""
    tmpdir: str | None = None
    """TMPDIR in the sandbox: empty if it is not set, None if it is not known before a child runs."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables from the settings for commands in the sandbox."""
    reach: "Judge | None" = None
    """Decides which hosts commands in the sandbox may reach; None if there are none."""
    refused: Callable[[], int] = lambda: 0
    """How many connections to hosts were refused so far."""
    tasks: "Tasks | None" = None
    """The background tasks of the session; None if nothing can run."""
    home: str = ""
    """AdderClaw's home folder."""
    project: str = ""
    """The folder with the project's own definitions."""
    agents: Json = field(default_factory=dict[str, Any])
    """Subagents that were defined on the command line."""
    plugins: "tuple[LoadedPlugin, ...]" = ()
    """The plugins that the operator trusts, by name."""
    skills: Skills | None = None
    """The skills of the operator and the project; None without a skills folder."""
    baseline: "Callable[[str], TreeSnapshot] | None" = None
    """Records the current state of a workspace when a plan is approved."""
    surfing: Surfing = field(default_factory=Surfing)
    """Page cache and rate limits that the web tools share with child sessions."""


def builtin_tools(kit: Kit) -> "dict[str, Tool[Any]]":
    """Name → tool, always in the order of NAMES, so that the prompt's prefix stays cacheable."""
    from adderclaw.tools import control, late

    by_name = {tool.name: tool for tool in (*late.tools(kit), *control.tools(kit))}
    searches = search_service(kit.config.web) is not None
    by_name[WEB_SEARCH] = replace(by_name[WEB_SEARCH], usable=searches)
    deferred_names = ", ".join(name for name in NAMES if by_name[name].deferred)
    search_tool = by_name[TOOL_SEARCH]
    by_name[TOOL_SEARCH] = replace(search_tool, description=search_tool.description.replace("{late}", deferred_names))
    return {name: by_name[name] for name in NAMES}


def aliases() -> dict[str, str]:
    """Alias of a built-in tool → its name."""
    from adderclaw.tools.specs import specs

    return {str(alias["name"]): name for name, known in specs().items() for alias in known.aliases}


def without_withheld(tools: "Mapping[str, Tool[Any]]", withheld: Callable[[str], bool]) -> "dict[str, Tool[Any]]":
    """Leaves out the withheld tools, also from the names that ToolSearch lists."""
    offered = {name: tool for name, tool in tools.items() if not withheld(name)}
    search = offered.get(TOOL_SEARCH)
    if search is not None and len(offered) < len(tools):
        listed, left = (
            ", ".join(name for name in NAMES if name in of and of[name].deferred) for of in (tools, offered)
        )
        offered[TOOL_SEARCH] = replace(search, description=search.description.replace(listed, left or "none"))
    return offered


def find_tool(tools: Mapping[str, Tool[Any]], name: str) -> tuple[Tool[Any], Alias | None] | None:
    """The tool with this name or alias, and the alias if the name is one."""
    if tool := tools.get(name):
        return tool, None
    for tool in tools.values():
        for alias in tool.aliases:
            if alias.name == name:
                return tool, alias
    return None


def decode_arguments(tool: Tool[Any], arguments: Json) -> Any:
    """Decodes the model's JSON into the tool's arguments; raises Invalid with every problem."""
    from adderclaw.core.decode import decode

    if other := tool.traits.other_keys:
        arguments = {other.get(key, key): value for key, value in arguments.items()}
        arguments.pop("", None)
    return decode(tool.arguments, arguments) if tool.decode is None else tool.decode(arguments)


def unwrap_call(call: ToolCall) -> ToolCall:
    """The call inside a `Call {tool, input}`, which hooks, the gate and the receipt see; other calls unchanged."""
    arguments = call.arguments
    if call.name != CALL or arguments is None or arguments.keys() - {"tool", "input"}:
        return call
    name, inner = arguments.get("tool"), arguments.get("input", {})
    if not isinstance(name, str) or name == CALL:
        return call
    if isinstance(inner, str):  # some models send the input as a string of JSON
        return ToolCall(call.id, name, _parse_object(inner), inner)
    return ToolCall(call.id, name, cast(Json, inner)) if isinstance(inner, dict) else call


def _parse_object(text: str) -> Json | None:
    import json

    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(Json, value) if isinstance(value, dict) else None


def nearest_name(tools: Mapping[str, Tool[Any]], name: str) -> str | None:
    """The known name that is most similar to an unknown one."""
    from adderclaw.core.suggestions import closest

    return closest(name, [*tools, *(alias.name for tool in tools.values() for alias in tool.aliases)])


def resolve_arguments(alias: Alias | None, arguments: Json) -> Json:
    """A call's arguments under the tool's own names, with the alias's defaults for missing ones."""
    if alias is None:
        return arguments
    renamed = {alias.arguments.get(name, name): value for name, value in arguments.items()}
    return {**alias.defaults, **renamed}
