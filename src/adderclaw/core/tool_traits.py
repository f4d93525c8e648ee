"""The table of built-in tools, one row per tool. Importing this module imports no tool.

A new tool needs a row here and a module in `tools`. The gate, the terminal, the editors and child sessions use these
traits instead of lists of tool names.
"""

from collections.abc import Mapping
from typing import Literal

from adderclaw.core.record import NamedTuple

type Kind = Literal["read", "search", "edit", "delete", "execute", "fetch", "think", "switch_mode", "other"]
type Scope = Literal["path", "command", "domain", "none"]
type Evidence = Literal["program", "files", "none"]
type ToolSet = Literal["explorer", "reviewer", "verifier"]

# Tools that other code or permission rules refer to by name.
AGENT, ASK_USER, BASH, CALL = "Agent", "AskUserQuestion", "Bash", "Call"
DELETE, EDIT, EXIT_PLAN, LS = "Delete", "Edit", "ExitPlanMode", "LS"
MEMORY_WRITE, READ, READ_RESOURCE = "MemoryWrite", "Read", "ReadMcpResource"
SKILL, TODO_WRITE, TOOL_SEARCH, WEB_FETCH = "Skill", "TodoWrite", "ToolSearch", "WebFetch"
WEB_SEARCH, WRITE = "WebSearch", "Write"


class ToolTraits(NamedTuple):
    name: str
    module: str
    """Its module in `adderclaw.tools`, which defines its arguments as the class `<name>Arguments`."""
    kind: Kind = "other"
    """Category by which an editor chooses an icon."""
    main: tuple[str, ...] | None = None
    """The arguments shown in a one-line summary of a call; None for all."""
    scope: Scope = "none"
    """What patterns in permission rules and in the tool's section of policy.toml match."""
    family: str = ""
    """The tool whose permission rules also cover this one; its own name if its rules cover others."""
    refused_with: str = ""
    """The tool whose deny and ask rules (but not allow rules) also cover this one."""
    section: str = ""
    """Its section in policy.toml; if empty, the section has the tool's name and no patterns."""
    section_aliases: tuple[str, ...] = ()
    section_of: str = ""
    """The tool whose section applies if policy.toml has none for this one. A rate limit then counts both."""
    writes: bool = False
    """It only changes files."""
    accepted: bool = False
    """The mode acceptEdits allows it without asking."""
    searches_content: bool = False
    """It reads files below the folder that a call names."""
    rule_field: str = ""
    """The argument that a plain specifier of a permission rule matches."""
    grant: str = ""
    """What a permission rule for a file allows, as shown to the person who is asked."""
    other_keys: Mapping[str, str] = {}
    """Unadvertised arguments of the reference product → the equivalent argument, or empty to ignore it."""
    evidence: Evidence = "program"
    """What a result proves to a verifier: the behaviour of the program, the content of files, or neither."""
    finds_tools: bool = False
    """It exists only to find or call tools that are not advertised."""
    asks: bool = False
    """It only asks a person, so it can safely be repeated."""
    for_children: bool = True
    starts_child: bool = False
    """It starts a child session; not available to a child at the maximum depth."""
    sets: tuple[ToolSet, ...] = ()
    """The kinds of child sessions that have it by default."""


_LOOKS: tuple[ToolSet, ...] = ("explorer", "reviewer", "verifier")
_FILES: Evidence = "files"
_NO_EVIDENCE: Evidence = "none"

TOOLS = (
    ToolTraits(
        BASH,
        "shell",
        "execute",
        ("command",),
        "command",
        section="bash",
        section_aliases=("shell",),
        other_keys={"dangerouslyDisableSandbox": ""},
        sets=("reviewer", "verifier"),
    ),
    ToolTraits(
        READ,
        "files",
        "read",
        ("file_path",),
        "path",
        family=READ,
        section="read",
        section_aliases=("file_read",),
        accepted=True,
        grant="be read, listed and searched",
        other_keys={"allow_large": ""},
        evidence=_FILES,
        sets=_LOOKS,
    ),
    ToolTraits(
        WRITE,
        "files",
        "edit",
        ("file_path",),
        "path",
        family=EDIT,
        section="write",
        section_aliases=("file_write",),
        writes=True,
        accepted=True,
        grant="be written over",
    ),
    ToolTraits(
        EDIT,
        "files",
        "edit",
        ("file_path",),
        "path",
        family=EDIT,
        section="edit",
        writes=True,
        accepted=True,
        grant="be changed and written over",
    ),
    ToolTraits(
        LS,
        "search",
        "read",
        ("path",),
        "path",
        family=READ,
        section="ls",
        section_aliases=("file_list",),
        evidence=_FILES,
        sets=_LOOKS,
    ),
    ToolTraits(
        "Glob",
        "search",
        "search",
        ("pattern", "path"),
        "path",
        family=READ,
        section="glob",
        evidence=_FILES,
        sets=_LOOKS,
    ),
    ToolTraits(
        "Grep",
        "search",
        "search",
        ("pattern", "path"),
        "path",
        family=READ,
        section="grep",
        searches_content=True,
        evidence=_FILES,
        sets=_LOOKS,
    ),
    ToolTraits(
        "NotebookEdit",
        "notebook",
        "edit",
        ("notebook_path",),
        "path",
        family=EDIT,
        section_aliases=("notebookedit",),
        section_of=EDIT,
        writes=True,
        grant="be changed",
    ),
    ToolTraits(DELETE, "delete", "delete", ("path",), "path", refused_with=EDIT, writes=True),
    ToolTraits("TaskOutput", "tasks", "execute", ("task_id",), sets=("verifier",)),
    ToolTraits(
        "TaskStop",
        "tasks",
        "execute",
        ("task_id",),
        other_keys={"shell_id": "task_id"},
        evidence=_NO_EVIDENCE,
        sets=("verifier",),
    ),
    ToolTraits(
        "Http",
        "web",
        "fetch",
        ("method", "url"),
        "domain",
        family=WEB_FETCH,
        section_aliases=("http",),
        section_of=WEB_FETCH,
    ),
    ToolTraits(
        WEB_FETCH,
        "fetch",
        "fetch",
        ("url",),
        "domain",
        family=WEB_FETCH,
        section="web_fetch",
        section_aliases=("webfetch",),
        sets=("explorer",),
    ),
    ToolTraits(
        WEB_SEARCH,
        "websearch",
        "fetch",
        ("query",),
        section="web_search",
        section_aliases=("websearch",),
        sets=("explorer",),
    ),
    ToolTraits("Time", "clock"),
    ToolTraits("MemorySearch", "memory", "search", ("query",), section_of="MemoryRead", sets=("explorer",)),
    ToolTraits("MemoryRead", "memory", "read", ("key",), section="memory_read", sets=("explorer",)),
    ToolTraits(MEMORY_WRITE, "memory", "edit", ("key",), section="memory_write"),
    ToolTraits("ListMcpResources", "resources", "read", ("server",)),
    ToolTraits(READ_RESOURCE, "resources", "read", ("server", "uri")),
    ToolTraits(ASK_USER, "control.questions", asks=True),
    ToolTraits(TODO_WRITE, "control.lists", "think"),
    ToolTraits(AGENT, "control.agent", "think", ("description",), rule_field="subagent_type", starts_child=True),
    ToolTraits(SKILL, "control.skill", "think", ("skill", "args"), rule_field="skill"),
    ToolTraits(
        TOOL_SEARCH,
        "control.catalogue",
        "search",
        ("query",),
        evidence=_NO_EVIDENCE,
        finds_tools=True,
        sets=("verifier",),
    ),
    ToolTraits(CALL, "control.catalogue", evidence=_NO_EVIDENCE, finds_tools=True, sets=("verifier",)),
    ToolTraits("EnterPlanMode", "control.plans", "switch_mode", for_children=False),
    ToolTraits(EXIT_PLAN, "control.plans", "switch_mode", for_children=False),
    ToolTraits("Brief", "control.questions", main=("message",)),
    ToolTraits("TaskCreate", "control.lists", main=("subject",)),
    ToolTraits("TaskGet", "control.lists", main=("taskId",)),
    ToolTraits("TaskList", "control.lists"),
    ToolTraits("TaskUpdate", "control.lists", main=("taskId", "status")),
    ToolTraits("EnterWorktree", "worktree", main=("name",)),
    ToolTraits("ExitWorktree", "worktree", main=("action",)),
)
"""In the order in which they are advertised, which keeps the start of the prompt stable."""

NAMES = tuple(tool.name for tool in TOOLS)
READERS = tuple(tool.name for tool in TOOLS if tool.family == READ)
"""The tools that only read files of the workspace."""
_BY_NAME = {tool.name: tool for tool in TOOLS}
_OTHER = ToolTraits("", "")


def traits(name: str) -> ToolTraits:
    """The traits of a built-in tool; the defaults for tools of servers and plugins."""
    return _BY_NAME.get(name, _OTHER)


def tools_in_set(kind: ToolSet) -> tuple[str, ...]:
    """The default tools of such a child session."""
    return tuple(tool.name for tool in TOOLS if kind in tool.sets)
