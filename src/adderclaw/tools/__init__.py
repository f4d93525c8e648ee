"""The one tool registry: every built-in tool as a value, found by its name or by another seed's name for it."""

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
    from adderclaw.sandbox.process import Start
    from adderclaw.sandbox.proxy import Judge
    from adderclaw.storage import Store
    from adderclaw.storage.sdlc.baselines import Taken
    from adderclaw.tools.background import Tasks

CHECKER_FILES = (
    *("ruff.toml", ".ruff.toml", "pyproject.toml", "setup.cfg", "pyrightconfig.json", "mypy.ini", ".mypy.ini"),
    *("tsconfig.json", "Cargo.toml", "go.mod", ".eslintrc", ".eslintrc.json", ".eslintrc.js", ".eslintrc.cjs"),
    *(".eslintrc.yml", ".eslintrc.yaml", "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs"),
    *("eslint.config.ts", "eslint.config.mts", "eslint.config.cts"),
)
"""What configures the checkers of `tools.checkers`: looked for before that is imported."""


class PreparedSkill(NamedTuple):
    """A skill that is going to be called."""

    place: str
    """The file that is read."""
    read: "Callable[[], Called]"
    """Reads exactly that; raises Refused."""


class Called(NamedTuple):
    """A skill that was called."""

    text: str
    """For the model."""
    path: str
    """Its SKILL.md."""
    rules: tuple[str, ...] = ()
    """Permission rules that count with it: what the operator vouches for of its `allowed-tools`."""
    inline: Mapping[str, str] = {}
    """Mark in the text → the command whose output stands there."""
    asked: frozenset[str] = frozenset()
    """Marks of those that have words of the model in them: nobody has said yes to these yet."""
    named: Mapping[str, str] = {}
    """Mark in the text → the file or folder, by its whole path, that is read there."""
    effort: Effort | None = None
    """How much the model thinks while it follows it, if the operator vouches for it."""


class Skills(Protocol):
    """The session's skills."""

    def offered(self) -> tuple[list[tuple[str, str]], bool]:
        """Name and description of those that the model may call, and whether these are all."""
        ...

    def callable(self) -> list[tuple[str, str]]:
        """Name and description of those that a person may call."""
        ...

    def has(self, name: str) -> bool: ...

    def called(self, name: str, arguments: str, session_id: str) -> Called:
        """A skill's text for the person who called it; raises Refused with what they are to know."""
        ...

    def prepared(self, name: str, arguments: str, file: str, session_id: str) -> PreparedSkill:
        """The file that a call of the model's reads, and the reading of exactly that; raises Refused."""
        ...

    def granted(self, name: str) -> tuple[tuple[str, ...], str]:
        """What of a skill's `allowed-tools` the operator vouches for, and why the rest does not count."""
        ...


@mutable_record
class Kit:
    """What tools are made with. Without a store nothing can run, but everything can be explained."""

    config: "Config"
    store: "Store | None"
    clock: Clock
    start: "Start | None" = None
    """Starts a child in the session's sandbox; None where there is none."""
    has_look_room: bool = False
    """Whether that sandbox has a room in which nothing can be written."""
    begin: Callable[[], None] = lambda: None
    """Has the sandbox start before its first child, and waits for nothing."""
    tmpdir: str | None = None
    """TMPDIR in there, empty where it is not set; None where that is not known before a child runs."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of the settings that commands have in there."""
    reach: "Judge | None" = None
    """Which hosts every command in there may reach; None where there are none."""
    refused: Callable[[], int] = lambda: 0
    """How often a command was kept from a host so far."""
    tasks: "Tasks | None" = None
    """The background tasks of the session; None where nothing can run."""
    home: str = ""
    """AdderClaw's own folder."""
    project: str = ""
    """Where the project's own definitions are."""
    agents: Json = field(default_factory=dict[str, Any])
    """Subagents that were defined at the start."""
    plugins: "tuple[LoadedPlugin, ...]" = ()
    """The plugins that the operator trusts, by name."""
    skills: Skills | None = None
    """The skills of the operator and the project; None where there is no folder of skills."""
    baseline: "Callable[[str], Taken] | None" = None
    """Keeps what a workspace holds now, for the approval of a plan."""
    surfing: Surfing = field(default_factory=Surfing)
    """What the web tools share with those of child sessions."""


def builtin(kit: Kit) -> "dict[str, Tool[Any]]":
    """Canonical name → tool, always in the order of NAMES, so that the prompt's beginning stays the same."""
    from adderclaw.tools import control, late

    by_name = {tool.name: tool for tool in (*late.tools(kit), *control.tools(kit))}
    searches = search_service(kit.config.web) is not None
    by_name[WEB_SEARCH] = replace(by_name[WEB_SEARCH], usable=searches)
    found = ", ".join(name for name in NAMES if by_name[name].deferred)
    search_tool = by_name[TOOL_SEARCH]
    by_name[TOOL_SEARCH] = replace(search_tool, description=search_tool.description.replace("{late}", found))
    return {name: by_name[name] for name in NAMES}


def aliases() -> dict[str, str]:
    """Each other name of a built-in tool → its own name."""
    from adderclaw.tools.specs import specs

    return {str(alias["name"]): name for name, known in specs().items() for alias in known.aliases}


def told_of(tools: "Mapping[str, Tool[Any]]", withheld: Callable[[str], bool]) -> "dict[str, Tool[Any]]":
    """The tools without those that are withheld; ToolSearch does not name them either."""
    told = {name: tool for name, tool in tools.items() if not withheld(name)}
    search = told.get(TOOL_SEARCH)
    if search is not None and len(told) < len(tools):
        listed, left = (", ".join(name for name in NAMES if name in of and of[name].deferred) for of in (tools, told))
        told[TOOL_SEARCH] = replace(search, description=search.description.replace(listed, left or "none"))
    return told


def find(tools: Mapping[str, Tool[Any]], name: str) -> tuple[Tool[Any], Alias | None] | None:
    """The tool of that name, with the alias if it is one."""
    if tool := tools.get(name):
        return tool, None
    for tool in tools.values():
        for alias in tool.aliases:
            if alias.name == name:
                return tool, alias
    return None


def decoded(tool: Tool[Any], given: Json) -> Any:
    """The model's JSON as the tool's arguments; `Invalid` says all that does not fit."""
    from adderclaw.core.decode import decode

    if other := tool.traits.other_keys:
        given = {other.get(key, key): value for key, value in given.items()}
        given.pop("", None)
    return decode(tool.arguments, given) if tool.decode is None else tool.decode(given)


def unwrapped(call: ToolCall) -> ToolCall:
    """The call that a `Call {tool, input}` is about: what hooks, the gate and the receipt see. Others as they are."""
    given = call.arguments
    if call.name != CALL or given is None or given.keys() - {"tool", "input"}:
        return call
    name, inner = given.get("tool"), given.get("input", {})
    if not isinstance(name, str) or name == CALL:
        return call
    if isinstance(inner, str):  # some models write the input as a text that holds JSON
        return ToolCall(call.id, name, _object(inner), inner)
    return ToolCall(call.id, name, cast(Json, inner)) if isinstance(inner, dict) else call


def _object(text: str) -> Json | None:
    import json

    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(Json, value) if isinstance(value, dict) else None


def nearest(tools: Mapping[str, Tool[Any]], name: str) -> str | None:
    """The known name that looks most like an unknown one."""
    from adderclaw.core.suggestions import closest

    return closest(name, [*tools, *(alias.name for tool in tools.values() for alias in tool.aliases)])


def arguments_of(alias: Alias | None, given: Json) -> Json:
    """A call's arguments under the tool's own names, with the alias's defaults for what was left out."""
    if alias is None:
        return given
    renamed = {alias.arguments.get(name, name): value for name, value in given.items()}
    return {**alias.defaults, **renamed}
