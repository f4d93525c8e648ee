"""Packages that handle workspace paths open nothing by a path: `adderclaw.sandbox.workspace` does it for all."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import adderclaw
from tests.rows import rows

SOURCE = Path(adderclaw.__file__).parent
PACKAGES = ("tools", "sandbox/legacy/checkpoints", "flows", "agent", "config", "storage/telemetry")
MODULES = frozenset({"pathlib", "shutil", "glob", "tempfile", "fileinput"})
CALLS = frozenset(
    [
        "open",
        "stat",
        "lstat",
        "listdir",
        "scandir",
        "walk",
        "fwalk",
        "mkdir",
        "makedirs",
        "mkfifo",
        "mknod",
        "rename",
        "renames",
        "replace",
        "remove",
        "removedirs",
        "unlink",
        "rmdir",
        "symlink",
        "link",
        "readlink",
        "chmod",
        "lchmod",
        "chown",
        "lchown",
        "utime",
        "access",
        "truncate",
        "chdir",
        "statvfs",
        "getxattr",
        "setxattr",
        "listxattr",
        "removexattr",
    ]
)
PATH_CALLS = frozenset(
    [
        "exists",
        "lexists",
        "isfile",
        "isdir",
        "islink",
        "ismount",
        "getsize",
        "getmtime",
        "getatime",
        "getctime",
        "samefile",
        "realpath",
    ]
)
OWN = {
    "agent.conversation.by_name": "the prompts that come with the program",
    "agent.queries.ledger": "the size of the log of receipts, in AdderClaw's own folder",
    "agent.queries.notices": "whether a target's program is there",
    "agent.queries.webhook_channels": "whether the folder that the operator's channel names is there",
    "config.installation": "how the program was installed",
    "config.run_later_names": "later.toml, which comes with the program",
    "flows.doctor.checks_run": "whether the workspace has a .git, to say that git is missing",
    "flows.doctor.health": "whether folders can be written, free space, AdderClaw's own folder",
    "flows.queries.schedules": "whether the program of the system's cron is there",
    "flows.schedules.ticking": "ESTOP in AdderClaw's own folder",
    "flows.schedules.work": "whether the workspace itself is there",
    "flows.schedules.zones": "the system's time zones",
    "tools.mcp.answers": "turns a path into an address; opens nothing",
    "sandbox.legacy.checkpoints.blobs": "the packs, in AdderClaw's own folder",
    "sandbox.legacy.checkpoints.baseline": "lays a tree out in AdderClaw's own folder, for its tests",
    "sandbox.legacy.checkpoints.saved_index": "the indexes and the lock, in AdderClaw's own folder",
    "tools.long_outputs": "the session's long outputs, in AdderClaw's own folder",
    "tools.background": "an output that has no name any more when it is used",
    "tools.specs": "the schemas that come with the program",
    "tools.generate": "writes those schemas when the program is built",
    "tools.legacy.hardened_git": "the text of git.sh, which comes with the program, and git itself",
    "config.cache": "what the configuration came to, in AdderClaw's own folder; of folders, whether they are there",
    "config.plugins.loaded_plugin": "times and sizes of a plugin's files, which no command writes; its folder of data",
    "config.layers": "whether the workspace that the operator named is there, and is the project's folder",
    "config.managed": "the administrator's files in /etc/adderclaw, each by the descriptor whose owner was looked at",
    "config.model_facts.table": "the tables that come with the program; whether the home has one",
    "config.trust.named_files": "whether a word of a hook names a file, which tools.hooks.scripts then reads",
    "config.safe_open": "the door itself, for what is read before there is a workspace",
    "config.legacy.options": "whether a file that the operator named is there",
    "config.operator_file": "config.toml in AdderClaw's own folder",
    "config.paths": "where links lead, once, for all others",
    "config.places": "finds the project by its names; reads through config.safe_open; writes in AdderClaw's own folder",
    "config.servers": "whether programs are there that the operator's servers name",
    "config.setting_edits": "which of its file names a project has; reads and writes through config.operator_file",
    "config.trust.folders": "status and names by the descriptor of a folder that config.safe_open opened",
    "config.plugins.preview": "a plugin's files, by descriptor, through config.safe_open",
    "config.plugins.tree": "a plugin's files, by descriptor, through config.safe_open",
    "config.plugins.installed": "plugins.json and the folder of plugins, in AdderClaw's own folder",
    "config.project_grants": "grants.json in AdderClaw's own folder; reads through config.safe_open",
    "config.trust.trust": "trust.json in AdderClaw's own folder; reads through config.safe_open",
    "tools.hooks.scripts": "copies of what was compared, in AdderClaw's own folder; reads through config.safe_open",
    "tools.hooks.settings": "the shells of the system",
    "agent.run.fetches": "the marks of what was fetched, in AdderClaw's own cache",
    "tools.plugins.changes": "the folder of plugins, in AdderClaw's own folder",
    "tools.plugins.folders": "copies into the folder of plugins; reads by descriptor, through config.safe_open",
    "tools.plugins.sources": "whether a folder that the operator named is there; how much git has fetched into ours",
    "agent.legacy.later_report": "the folder for what is set aside, in AdderClaw's own folder",
    "agent.run.plugins": "a plugin's folder of data, in AdderClaw's own folder",
    "agent.replay.proving": "a folder of its own for the replay",
    "agent.replay.rejudging": "whether a policy that the operator named is there",
    "agent.run.sandbox_setup": "what the sandbox shows of servers, in AdderClaw's own folder",
    "agent.run.surroundings": "what the sandbox shows of the network, in AdderClaw's own folder",
    "agent.run.opened": "whether the workspace itself is there; makes that of the defaults",
    "agent.run.start": "ESTOP in AdderClaw's own folder",
    "tools.clock": "/etc/localtime",
    "tools.identity": "AdderClaw's own folder, in which git is asked for the operator's name",
}
"""These handle no path of the workspace."""


@cache
def _modules() -> dict[str, Path]:
    found = (path for package in PACKAGES for path in (SOURCE / package).rglob("*.py"))
    return {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in found}


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, attribute):
            return f"{_dotted(value)}.{attribute}"
        case _:
            return ""


def _is_beside_the_module(call: ast.Call) -> bool:
    """`open(os.path.join(os.path.dirname(__file__), "x.md"))`: what comes with the program."""
    return bool(call.args) and ast.unparse(call.args[0]).startswith("os.path.join(os.path.dirname(__file__), ")


def banned(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                yield from (f"{node.lineno}: import {one.name}" for one in names if one.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES and not node.level:
                yield f"{node.lineno}: from {module} import"
            case ast.ImportFrom(module="os" | "os.path", names=names):
                yield from (f"{node.lineno}: {one.name}" for one in names if one.name in CALLS | PATH_CALLS)
            case ast.Attribute() if _named(_dotted(node)):
                yield f"{node.lineno}: {_dotted(node)}"
            case ast.Call(ast.Name("open")) if not _is_beside_the_module(node):
                yield f"{node.lineno}: open"
            case _:
                pass


def _named(dotted: str) -> bool:
    head, _, name = dotted.rpartition(".")
    return (head in ("os", "posix", "io") and name in CALLS) or (
        head in ("os.path", "posixpath") and name in PATH_CALLS
    )


@rows("name", sorted(_modules()))
def test_no_file_is_touched_by_its_path(name: str) -> None:
    found = [*banned(_modules()[name].read_text(encoding="utf-8"))]
    if name in OWN:
        assert found, f"{name} is clean: take it from the list"
    else:
        assert not found, f"{name}: use adderclaw.sandbox.workspace: {found}"


def test_no_list_names_what_is_not_there() -> None:
    assert OWN.keys() <= _modules().keys()


@rows(
    "text",
    [
        "open('x')",
        "import os\nos.open('x', 0)",
        "import os\nmap(os.path.isdir, names)",
        "from os.path import exists",
        "from pathlib import Path",
        "import shutil",
        "def f():\n    import tempfile",
        "with open(os.path.join(root, 'x')) as f: pass",
    ],
)
def test_the_ban_sees(text: str) -> None:
    assert [*banned(text)]
