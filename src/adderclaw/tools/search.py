"""LS, Glob and Grep: finding things in the workspace."""

import asyncio
import heapq
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from adderclaw import workspace
from adderclaw.config.schema import Config
from adderclaw.record import record
from adderclaw.tools import paths
from adderclaw.tools.files import missing
from adderclaw.tools.grep import MAX_PATTERN, SECONDS, GrepArguments, grep
from adderclaw.tools.paths import answered
from adderclaw.tools.specs import spec
from adderclaw.types import (
    Alias,
    PathFact,
    Prepared,
    Tool,
    ToolContext,
    ToolResult,
    Touch,
    own_words,
    rejected,
)
from adderclaw.workspace import globs

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Start

ENTRIES = 1000
FILES = 100
KEPT_FILES = 20_000
"""What Glob keeps for a look at all of it."""
BREATH = 64
"""Directories that Glob reads before it lets others run."""


@record
class LSArguments:
    path: str = "."


@record
class GlobArguments:
    pattern: str
    path: str = "."


# ------------------------------------------------------------------ LS


async def ls(place: PathFact, ctx: ToolContext, *, anywhere: bool) -> ToolResult:
    try:
        fd = paths.open_folder(place.real, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing(place, ctx))
    except NotADirectoryError:
        return rejected(f"{paths.shown(place.path)} is not a directory. Use Read for a file.")
    try:
        with workspace.scan(fd) as found:
            names = sorted(_entry(entry) for entry in found)
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
    path = ctx.keep("\n".join(lines))
    return f"Read {path} has all of them" if path else ""


def _entry(entry: "os.DirEntry[str]") -> str:
    mark = "/" if entry.is_dir(follow_symlinks=False) else "@" if entry.is_symlink() else ""
    return paths.shown(entry.name) + mark


# ------------------------------------------------------------------ Glob


def _glob_base(arguments: GlobArguments, ctx: ToolContext) -> tuple[str, str]:
    """Where the walk begins, with what the pattern names outright, and the pattern from there."""
    folder, pattern = globs.split(os.path.expanduser(arguments.pattern))
    return (os.path.join(paths.fact(arguments.path, ctx).path, folder) if folder else arguments.path), pattern


class Found:
    """The newest files so far, and how many there were."""

    def __init__(self) -> None:
        self.newest: list[tuple[int, str]] = []
        self.total = 0

    def add(self, modified: int, path: str) -> None:
        self.total += 1
        heapq.heappush(self.newest, (modified, path))
        if len(self.newest) > KEPT_FILES:
            heapq.heappop(self.newest)

    def listed(self) -> list[str]:
        return [path for _, path in sorted(self.newest, key=lambda one: (-one[0], one[1]))]


async def glob(place: PathFact, rest: str, arguments: GlobArguments, ctx: ToolContext, *, anywhere: bool) -> ToolResult:
    """`rest` is the pattern from the place on."""
    if "\0" in arguments.pattern or len(arguments.pattern) > MAX_PATTERN or not arguments.pattern.strip():
        return rejected("the pattern is empty, too long or holds a NUL character.")
    if ".." in rest.split("/"):
        return rejected(f"the pattern {arguments.pattern!r} goes up after a wildcard: start it further up instead.")
    try:
        patterns = [globs.Pattern(one) for one in globs.alternatives(rest)]
        os.close(paths.open_folder(place.real, ctx, anywhere=anywhere))
    except (FileNotFoundError, NotADirectoryError):
        return own_words("No files found", {"files": 0})
    except re.error as error:
        return rejected(f"the pattern {arguments.pattern!r} cannot be read: {error}.")
    except ValueError as error:
        if isinstance(error, paths.Refused):
            raise
        return rejected(f"{error}.")
    found, complete = await _walk(place, patterns, ctx, anywhere=anywhere)
    return _globbed(found, complete, ctx)


async def _walk(
    place: PathFact, patterns: list[globs.Pattern], ctx: ToolContext, *, anywhere: bool
) -> tuple[Found, bool]:
    """Every directory is opened by descriptor from the root, so that no link leads the walk away."""
    found, deadline = Found(), time.monotonic() + SECONDS
    waiting = [(place.real, tuple(pattern.start() for pattern in patterns))]
    for count in range(sys.maxsize):
        if not waiting:
            return found, True
        if time.monotonic() > deadline:
            return found, False
        if count % BREATH == 0:
            await asyncio.sleep(0)
        folder, states = waiting.pop()
        try:
            fd = paths.open_folder(folder, ctx, anywhere=anywhere)
        except (OSError, paths.Refused):
            continue
        try:
            waiting.extend(_visit(fd, folder, patterns, states, found))
        finally:
            os.close(fd)
    return found, True


def _visit(
    fd: int, folder: str, patterns: list[globs.Pattern], states: tuple[globs.States, ...], found: Found
) -> Iterator[tuple[str, tuple[globs.States, ...]]]:
    """Note the files of one directory that match; give the directories in which more may be."""
    with workspace.scan(fd) as entries:
        for entry in entries:
            after = tuple(pattern.step(state, entry.name) for pattern, state in zip(patterns, states, strict=True))
            if not any(after):
                continue
            path = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    yield path, after
            elif any(pattern.matched(state) for pattern, state in zip(patterns, after, strict=True)):
                _note(entry, path, found)


def _note(entry: "os.DirEntry[str]", path: str, found: Found) -> None:
    try:
        if not (entry.is_symlink() and entry.is_dir()):
            found.add(entry.stat(follow_symlinks=False).st_mtime_ns, path)
    except FileNotFoundError:
        pass  # deleted while we look


def _globbed(found: Found, complete: bool, ctx: ToolContext) -> ToolResult:
    known = [paths.relative(path, ctx) for path in found.listed()]
    lines = known[:FILES] or ["No files found"]
    if found.total > FILES:
        whole = _whole(known, ctx) if len(known) == found.total else ""
        lines.append(f"(the newest {FILES} of {found.total} files; {whole or 'use a narrower pattern'})")
    if not complete:
        lines.append(f"(stopped after {SECONDS:g} seconds: there may be more)")
    return ToolResult("\n".join(lines), metadata={"files": found.total, "complete": complete})


# ------------------------------------------------------------------ the tools


def _reading(place: PathFact, ctx: ToolContext) -> Touch:
    return Touch(reads=(place,), why=paths.why("reads", "from", place, ctx))


def tools(config: Config, start: "Start | None" = None) -> tuple[Tool[Any], ...]:
    anywhere = not config.security.workspace_only
    seconds = max(config.runtime.tool_timeout_seconds, SECONDS + 5)

    def prepare_ls(arguments: LSArguments, ctx: ToolContext) -> Prepared:
        place = paths.fact(arguments.path, ctx)
        return Prepared(_reading(place, ctx), lambda: ls(place, ctx, anywhere=anywhere), overlaps=True)

    def prepare_glob(arguments: GlobArguments, ctx: ToolContext) -> Prepared:
        base, rest = _glob_base(arguments, ctx)
        place = paths.fact(base, ctx)
        return Prepared(
            _reading(place, ctx), lambda: glob(place, rest, arguments, ctx, anywhere=anywhere), overlaps=True
        )

    def prepare_grep(arguments: GrepArguments, ctx: ToolContext) -> Prepared:
        place = paths.fact(arguments.path, ctx)
        return Prepared(
            _reading(place, ctx), lambda: grep(place, arguments, ctx, start, anywhere=anywhere), overlaps=True
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
