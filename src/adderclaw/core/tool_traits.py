"""What other code needs to know about each built-in tool, as one row per tool; importing this imports no tool.

A new tool is a row here and a module in `tools`. The gate, the terminal, the editors and child sessions ask for traits
and list no names.
"""

from collections.abc import Mapping
from typing import Literal

from adderclaw.core.record import NamedTuple

type Kind = Literal["read", "search", "edit", "delete", "execute", "fetch", "think", "switch_mode", "other"]
type Scope = Literal["path", "command", "domain", "none"]
type Evidence = Literal["program", "files", "none"]
type ToolSet = Literal["explorer", "reviewer", "verifier"]

# Tools that other code calls, or that permission rules are named after.
AGENT, ASK_USER, BASH, CALL = "Agent", "AskUserQuestion", "Bash", "Call"
DELETE, EDIT, EXIT_PLAN, LS = "Delete", "Edit", "ExitPlanMode", "LS"
MEMORY_WRITE, READ, READ_RESOURCE = "MemoryWrite", "Read", "ReadMcpResource"
SKILL, TODO_WRITE, TOOL_SEARCH, WEB_FETCH = "Skill", "TodoWrite", "ToolSearch", "WebFetch"
WEB_SEARCH, WRITE = "WebSearch", "Write"


class ToolTraits(NamedTuple):
    name: str
    module: str
    """In `adderclaw.tools`; it has the tool's arguments as the class `<name>Arguments`."""
    kind: Kind = "other"
    """By which an editor picks an icon."""
    main: tuple[str, ...] | None = None
    """The arguments that identify a call when it is shown in one line; None shows all."""
    scope: Scope = "none"
    """What a pattern in a permission rule or in the tool's section of policy.toml matches."""
    family: str = ""
    """The tool whose permission rules also cover this one; its own name if rules of its name cover others."""
    refused_with: str = ""
    """The tool whose deny and ask rules, but not its allow rules, also cover this one."""
    section: str = ""
    """Its section in policy.toml; without one, the section is called like the tool and has no patterns."""
    section_aliases: tuple[str, ...] = ()
    section_of: str = ""
    """The tool whose section counts if policy.toml has none for this one. A rate limit then counts both."""
    writes: bool = False
    """It changes files and does nothing else."""
    accepted: bool = False
    """The mode acceptEdits allows it without a question."""
    searches_content: bool = False
    """It reads files beneath the folder that a call names."""
    rule_field: str = ""
    """The argument that a plain specifier of a permission rule matches."""
    grant: str = ""
    """What a permission rule for one file allows, for the person who is asked."""
    other_keys: Mapping[str, str] = {}
    """Arguments of the reference product that are not advertised: ours for each, or empty to ignore it."""
    evidence: Evidence = "program"
    """What a result shows to a verifier: what the program does, what lies in files, or neither."""
    finds_tools: bool = False
    """It is advertised only for the sake of tools that are not."""
    asks: bool = False
    """It does nothing but ask a person, so asking again repeats nothing."""
    for_children: bool = True
    nests: bool = False
    """It starts a child session; a child at the greatest depth does not have it."""
    sets: tuple[ToolSet, ...] = ()
    """The kinds of child sessions that have it without naming it."""


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
    ToolTraits(AGENT, "control.agent", "think", ("description",), rule_field="subagent_type", nests=True),
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
"""In the order in which they are advertised, so that the beginning of the prompt stays the same."""

NAMES = tuple(tool.name for tool in TOOLS)
READERS = tuple(tool.name for tool in TOOLS if tool.family == READ)
"""The tools that read files of the workspace and do nothing else."""
_BY_NAME = {tool.name: tool for tool in TOOLS}
_OTHER = ToolTraits("", "")


def traits(name: str) -> ToolTraits:
    """Those of a built-in tool; the defaults for tools of servers and plugins."""
    return _BY_NAME.get(name, _OTHER)


def in_set(kind: ToolSet) -> tuple[str, ...]:
    """The tools that such a child session has."""
    return tuple(tool.name for tool in TOOLS if kind in tool.sets)
