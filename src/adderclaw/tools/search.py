"""LS, Glob and Grep: find files and text in the workspace."""

import asyncio
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from adderclaw.config.schema import Config
from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Alias, PathFact, Prepared, Tool, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath, globs
from adderclaw.sandbox.workspace.matching import Matches, find_matching
from adderclaw.tools import paths
from adderclaw.tools.files import missing_message
from adderclaw.tools.grep import MAX_PATTERN, SECONDS, GrepArguments, grep
from adderclaw.tools.paths import catch_refusals
from adderclaw.tools.specs import builtin_tool

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Starter
    from adderclaw.sandbox.workspace.traces import Traces

SHOWN_ENTRIES = 1000
SHOWN_FILES = 100
MAX_MATCHES = 20_000
"""Most matches of Glob that are stored in the output file."""
SHOWN_LOOPS = 5
"""Most circular links that are named."""


@record
class LSArguments:
    path: str = "."


@record
class GlobArguments:
    pattern: str
    path: str = "."


# ------------------------------------------------------------------ LS


async def ls(target: PathFact, ctx: ToolContext, traces: "Traces", *, anywhere: bool) -> ToolResult:
    try:
        fd = paths.open_folder(target.real, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing_message(target, ctx))
    except NotADirectoryError:
        return rejected(f"{paths.printable(target.path)} is not a directory. Use Read for a file.")
    try:
        with workspace.scan(fd) as entries:
            names = sorted(
                _entry(entry) for entry in entries if not traces.is_trace_folder(os.path.join(target.real, entry.name))
            )
    finally:
        os.close(fd)
    if not names:
        return own_words("(empty directory)", {"entries": 0})
    listed = names[:SHOWN_ENTRIES]
    if len(names) > SHOWN_ENTRIES:
        rest = _full_list_note(names, ctx) or "Glob finds the others"
        listed.append(f"(the first {SHOWN_ENTRIES} of {len(names)} entries; {rest})")
    return ToolResult("\n".join(listed), metadata={"entries": len(names)})


def _full_list_note(lines: list[str], ctx: ToolContext) -> str:
    """Stores a full list of which only a part is shown, and says where to read it."""
    path = ctx.store_output("\n".join(lines))
    return f"Read {path} has all of them" if path else ""


def _entry(entry: "os.DirEntry[str]") -> str:
    mark = "/" if entry.is_dir(follow_symlinks=False) else "@" if entry.is_symlink() else ""
    return paths.printable(entry.name) + mark


# ------------------------------------------------------------------ Glob


def _glob_base(arguments: GlobArguments, ctx: ToolContext) -> tuple[str, str]:
    """The directory where the walk starts, including the pattern's literal prefix, and the rest of the pattern."""
    folder, pattern = globs.split_base(os.path.expanduser(arguments.pattern))
    return (os.path.join(paths.path_fact(arguments.path, ctx).path, folder) if folder else arguments.path), pattern


async def glob(
    target: PathFact, rest: str, arguments: GlobArguments, ctx: ToolContext, traces: "Traces", *, anywhere: bool
) -> ToolResult:
    """Lists the files that match. `rest` is the pattern relative to the starting directory."""
    if "\0" in arguments.pattern or len(arguments.pattern) > MAX_PATTERN or not arguments.pattern.strip():
        return rejected("the pattern is empty, too long, or contains a NUL character.")
    if ".." in rest.split("/"):
        return rejected(
            f"the pattern {arguments.pattern!r} uses .. after a wildcard. Start from a higher directory instead."
        )
    try:
        patterns = globs.Patterns(globs.alternatives(rest))
        os.close(paths.open_folder(target.real, ctx, anywhere=anywhere))
    except (FileNotFoundError, NotADirectoryError):
        return own_words("No files found", {"files": 0})
    except re.error as error:
        return rejected(f"the pattern {arguments.pattern!r} cannot be read: {error}.")
    except ValueError as error:
        if isinstance(error, paths.PathRefused):
            raise
        return rejected(f"{error}.")
    where = paths.locate(target.real, ctx, anywhere=anywhere or ctx.free_reads, reading=True)
    matches, above = await _match_files(where, patterns), f"{target.real.rstrip('/')}/"
    matches.exclude(lambda path: traces.is_trace(above + path))
    return _glob_result(matches, target, ctx)


async def _match_files(root: WorkspacePath, patterns: globs.Patterns) -> Matches:
    """Matches in a thread that stops at the time limit or when the call is cancelled."""
    deadline, cancelled = time.monotonic() + SECONDS, threading.Event()

    def over() -> bool:
        return cancelled.is_set() or time.monotonic() > deadline

    try:
        return await asyncio.to_thread(find_matching, root, patterns, MAX_MATCHES, over)
    finally:
        cancelled.set()


def _glob_result(matches: Matches, target: PathFact, ctx: ToolContext) -> ToolResult:
    above, name = f"{target.real.rstrip('/')}/", paths.relative_namer(ctx)
    known = [name(above + path) for path in matches.newest()]
    lines = known[:SHOWN_FILES] or ["No files found"]
    if matches.total > SHOWN_FILES:
        whole = _full_list_note(known, ctx) if len(known) == matches.total else ""
        lines.append(f"(the newest {SHOWN_FILES} of {matches.total} files; {whole or 'use a narrower pattern'})")
    if matches.loops:
        loops = sorted(name(above + path) for path in matches.loops)
        more = f" and {len(loops) - SHOWN_LOOPS} more" if len(loops) > SHOWN_LOOPS else ""
        lines.append(f"(skipped circular links: {', '.join(loops[:SHOWN_LOOPS])}{more})")
    if not matches.is_whole:
        lines.append(f"(stopped after {SECONDS:g} seconds; there may be more)")
    if matches.unseen:
        lines.append(f"(left out because they could not be read: {matches.unseen})")
    complete = matches.is_whole and not matches.unseen
    return ToolResult("\n".join(lines), metadata={"files": matches.total, "complete": complete})


# ------------------------------------------------------------------ the tools


def _read_touch(target: PathFact, ctx: ToolContext) -> Touch:
    return Touch(reads=(target,), why=paths.access_reason("reads", "from", target, ctx))


def _traces(config: Config, target: PathFact, ctx: ToolContext) -> "Traces":
    """The trace files of runs that a search of this path leaves out."""
    from adderclaw.sandbox.workspace.traces import Traces

    root = ctx.workspace.root
    name = os.path.relpath(os.path.join(root, config.logging.jsonl_dir), root)
    roots = () if name == "." or name.startswith("..") else (root, *ctx.workspace.extra)
    return Traces([WorkspacePath(base, name) for base in roots]).for_search(target.real)


def tools(config: Config, start: "Starter | None" = None) -> tuple[Tool[Any], ...]:
    anywhere = not config.security.workspace_only
    seconds = max(config.runtime.tool_timeout_seconds, SECONDS + 5)

    def prepare_ls(arguments: LSArguments, ctx: ToolContext) -> Prepared:
        target = paths.path_fact(arguments.path, ctx)
        return Prepared(
            _read_touch(target, ctx),
            lambda: ls(target, ctx, _traces(config, target, ctx), anywhere=anywhere),
            overlaps=True,
        )

    def prepare_glob(arguments: GlobArguments, ctx: ToolContext) -> Prepared:
        base, rest = _glob_base(arguments, ctx)
        target = paths.path_fact(base, ctx)
        return Prepared(
            _read_touch(target, ctx),
            lambda: glob(target, rest, arguments, ctx, _traces(config, target, ctx), anywhere=anywhere),
            overlaps=True,
        )

    def prepare_grep(arguments: GrepArguments, ctx: ToolContext) -> Prepared:
        target = paths.path_fact(arguments.path, ctx)
        return Prepared(
            _read_touch(target, ctx),
            lambda: grep(target, arguments, ctx, start, _traces(config, target, ctx), anywhere=anywhere),
            overlaps=True,
        )

    def limit(_: object) -> float:
        return seconds

    return (
        builtin_tool("LS", LSArguments, catch_refusals(prepare_ls), (Alias("file_list"), Alias("ls")), timeout=limit),
        builtin_tool("Glob", GlobArguments, catch_refusals(prepare_glob), (Alias("glob"),), timeout=limit),
        builtin_tool(
            "Grep", GrepArguments, catch_refusals(prepare_grep), (Alias("grep", {"regex": "pattern"}),), timeout=limit
        ),
    )
