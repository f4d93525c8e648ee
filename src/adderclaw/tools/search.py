"""LS, Glob and Grep: finding things in the workspace."""

import asyncio
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from adderclaw.config.schema.settings import Config
from adderclaw.core.record import record
from adderclaw.core.types import Alias, PathFact, Prepared, Tool, ToolContext, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Place, globs
from adderclaw.sandbox.workspace.matching import Matches, matching
from adderclaw.tools import paths
from adderclaw.tools.files import missing
from adderclaw.tools.grep import MAX_PATTERN, SECONDS, GrepArguments, grep
from adderclaw.tools.paths import answered
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Start
    from adderclaw.sandbox.workspace.traces import Traces

ENTRIES = 1000
FILES = 100
KEPT_FILES = 20_000
"""What Glob keeps for a look at all of it."""
LOOPS = 5
"""Links that lead in a circle which are named."""


@record
class LSArguments:
    path: str = "."


@record
class GlobArguments:
    pattern: str
    path: str = "."


# ------------------------------------------------------------------ LS


async def ls(place: PathFact, ctx: ToolContext, traces: "Traces", *, anywhere: bool) -> ToolResult:
    try:
        fd = paths.open_folder(place.real, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing(place, ctx))
    except NotADirectoryError:
        return rejected(f"{paths.shown(place.path)} is not a directory. Use Read for a file.")
    try:
        with workspace.scan(fd) as found:
            names = sorted(_entry(entry) for entry in found if not traces.fill(os.path.join(place.real, entry.name)))
    finally:
        os.close(fd)
    if not names:
        return own_words("(empty directory)", {"entries": 0})
    listed = names[:ENTRIES]
    if len(names) > ENTRIES:
        listed.append(f"(the first {ENTRIES} of {len(names)} entries; {_whole(names, ctx) or 'Glob finds the others'})")
    return ToolResult("\n".join(listed), metadata={"entries": len(names)})


def _whole(lines: list[str], ctx: ToolContext) -> str:
    """Where all of a list can be read of which a part is shown."""
    path = ctx.store_output("\n".join(lines))
    return f"Read {path} has all of them" if path else ""


def _entry(entry: "os.DirEntry[str]") -> str:
    mark = "/" if entry.is_dir(follow_symlinks=False) else "@" if entry.is_symlink() else ""
    return paths.shown(entry.name) + mark


# ------------------------------------------------------------------ Glob


def _glob_base(arguments: GlobArguments, ctx: ToolContext) -> tuple[str, str]:
    """Where the walk begins, with what the pattern names outright, and the pattern from there."""
    folder, pattern = globs.split(os.path.expanduser(arguments.pattern))
    return (os.path.join(paths.fact(arguments.path, ctx).path, folder) if folder else arguments.path), pattern


async def glob(
    place: PathFact, rest: str, arguments: GlobArguments, ctx: ToolContext, traces: "Traces", *, anywhere: bool
) -> ToolResult:
    """`rest` is the pattern from the place on."""
    if "\0" in arguments.pattern or len(arguments.pattern) > MAX_PATTERN or not arguments.pattern.strip():
        return rejected("the pattern is empty, too long or holds a NUL character.")
    if ".." in rest.split("/"):
        return rejected(f"the pattern {arguments.pattern!r} goes up after a wildcard: start it further up instead.")
    try:
        patterns = globs.Patterns(globs.alternatives(rest))
        os.close(paths.open_folder(place.real, ctx, anywhere=anywhere))
    except (FileNotFoundError, NotADirectoryError):
        return own_words("No files found", {"files": 0})
    except re.error as error:
        return rejected(f"the pattern {arguments.pattern!r} cannot be read: {error}.")
    except ValueError as error:
        if isinstance(error, paths.PathRefused):
            raise
        return rejected(f"{error}.")
    where = paths.locate(place.real, ctx, anywhere=anywhere or ctx.free_reads, reading=True)
    found, above = await _walked(where, patterns), f"{place.real.rstrip('/')}/"
    found.leave_out(lambda path: traces.has(above + path))
    return _globbed(found, place, ctx)


async def _walked(place: Place, patterns: globs.Patterns) -> Matches:
    """In a thread of its own, which ends with the time, or with the one who waits for it."""
    deadline, left = time.monotonic() + SECONDS, threading.Event()

    def over() -> bool:
        return left.is_set() or time.monotonic() > deadline

    try:
        return await asyncio.to_thread(matching, place, patterns, KEPT_FILES, over)
    finally:
        left.set()


def _globbed(found: Matches, place: PathFact, ctx: ToolContext) -> ToolResult:
    above, name = f"{place.real.rstrip('/')}/", paths.from_here(ctx)
    known = [name(above + path) for path in found.newest()]
    lines = known[:FILES] or ["No files found"]
    if found.total > FILES:
        whole = _whole(known, ctx) if len(known) == found.total else ""
        lines.append(f"(the newest {FILES} of {found.total} files; {whole or 'use a narrower pattern'})")
    if found.loops:
        loops = sorted(name(above + path) for path in found.loops)
        more = f" and {len(loops) - LOOPS} more" if len(loops) > LOOPS else ""
        lines.append(f"(skipped, since these links lead in a circle: {', '.join(loops[:LOOPS])}{more})")
    if not found.is_whole:
        lines.append(f"(stopped after {SECONDS:g} seconds: there may be more)")
    if found.unseen:
        lines.append(f"(could not be looked at, and left out: {found.unseen})")
    complete = found.is_whole and not found.unseen
    return ToolResult("\n".join(lines), metadata={"files": found.total, "complete": complete})


# ------------------------------------------------------------------ the tools


def _reading(place: PathFact, ctx: ToolContext) -> Touch:
    return Touch(reads=(place,), why=paths.why("reads", "from", place, ctx))


def _traces(config: Config, place: PathFact, ctx: ToolContext) -> "Traces":
    """The traces of runs that a search of this place leaves out."""
    from adderclaw.sandbox.workspace.traces import Traces

    root = ctx.workspace.root
    name = os.path.relpath(os.path.join(root, config.logging.jsonl_dir), root)
    roots = () if name == "." or name.startswith("..") else (root, *ctx.workspace.extra)
    return Traces([Place(one, name) for one in roots]).above(place.real)


def tools(config: Config, start: "Start | None" = None) -> tuple[Tool[Any], ...]:
    anywhere = not config.security.workspace_only
    seconds = max(config.runtime.tool_timeout_seconds, SECONDS + 5)

    def prepare_ls(arguments: LSArguments, ctx: ToolContext) -> Prepared:
        place = paths.fact(arguments.path, ctx)
        return Prepared(
            _reading(place, ctx), lambda: ls(place, ctx, _traces(config, place, ctx), anywhere=anywhere), overlaps=True
        )

    def prepare_glob(arguments: GlobArguments, ctx: ToolContext) -> Prepared:
        base, rest = _glob_base(arguments, ctx)
        place = paths.fact(base, ctx)
        return Prepared(
            _reading(place, ctx),
            lambda: glob(place, rest, arguments, ctx, _traces(config, place, ctx), anywhere=anywhere),
            overlaps=True,
        )

    def prepare_grep(arguments: GrepArguments, ctx: ToolContext) -> Prepared:
        place = paths.fact(arguments.path, ctx)
        return Prepared(
            _reading(place, ctx),
            lambda: grep(place, arguments, ctx, start, _traces(config, place, ctx), anywhere=anywhere),
            overlaps=True,
        )

    def limit(_: object) -> float:
        return seconds

    listing, globbing, grepping = spec("LS"), spec("Glob"), spec("Grep")
    return (
        Tool(
            "LS",
            LSArguments,
            answered(prepare_ls),
            listing.description,
            listing.parameters,
            (Alias("file_list"), Alias("ls")),
            limit,
        ),
        Tool(
            "Glob",
            GlobArguments,
            answered(prepare_glob),
            globbing.description,
            globbing.parameters,
            (Alias("glob"),),
            limit,
        ),
        Tool(
            "Grep",
            GrepArguments,
            answered(prepare_grep),
            grepping.description,
            grepping.parameters,
            (Alias("grep", {"regex": "pattern"}),),
            limit,
        ),
    )
