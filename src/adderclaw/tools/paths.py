"""Paths as the model writes them, opened beneath an allowed root so that what was judged is what is opened.

A path is folded and its links are followed once (`fact`); what is opened is the place that this led to, beneath the
root's descriptor and through no link at all. Whoever swaps a directory for a link in between gets a refusal.
"""

import errno
import os
from collections.abc import Awaitable, Callable

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused
from adderclaw.core.types import PathFact, Prepare, Prepared, ToolContext, ToolResult, refused, rejected
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import MAX_BYTES, Old, Place, read_all, shown

__all__ = ("MAX_BYTES", "Old", "PathRefused", "read_all", "shown")

MAX_PATH = 4096
MAX_NAME = 255


def denied(refusal: PathRefused) -> ToolResult:
    return refused(f"Denied: {refusal.reason}", "policy", refusal.reason)


# ------------------------------------------------------------------ facts


def fact(given: str, ctx: ToolContext) -> PathFact:
    """All that the gate needs to know of a path, and what the run opens: a link that is turned later leads nowhere new.

    Raises Refused for what no file can be called.
    """
    _check(given)
    path = os.path.normpath(os.path.join(ctx.workspace.cwd, os.path.expanduser(given)))
    if path.startswith("//"):
        path = path[1:]
    _check(path)
    real = followed(path)
    try:
        found = workspace.status(workspace.anywhere(real))
    except (OSError, PathRefused):
        return PathFact(given, path, real)
    return PathFact(given, path, real, (found.st_dev, found.st_ino))


def _check(path: str) -> None:
    if not path:
        raise PathRefused("the path is empty: name a file or directory")
    if "\0" in path:
        raise PathRefused(f"the path {shown(path[:80])!r} holds a NUL character, which no file name can")
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        raise PathRefused(f"the path {shown(path[:80])!r} is not valid Unicode (lone surrogates)") from None
    if len(encoded) >= MAX_PATH:
        raise PathRefused(f"the path {path[:60]!r}… has {len(encoded)} bytes; at most {MAX_PATH - 1} are possible")
    longest = max(encoded.split(b"/"), key=len)
    if len(longest) > MAX_NAME:
        raise PathRefused(
            f"a name in the path {path[:60]!r}… has {len(longest)} bytes; at most {MAX_NAME} are possible"
        )


def relative(path: str, ctx: ToolContext) -> str:
    """A path as it is shown to the model: from the working directory where it lies beneath it."""
    return from_here(ctx)(path)


def from_here(ctx: ToolContext) -> Callable[[str], str]:
    """The same for many paths: where the working directory leads is asked once."""
    bases = tuple(dict.fromkeys((ctx.workspace.cwd, followed(ctx.workspace.cwd))))
    above = tuple(f"{base.rstrip('/')}/" for base in bases)

    def name(path: str) -> str:
        if path in bases:
            return "."
        return shown(next((path[len(one) :] for one in above if path.startswith(one)), path))

    return name


def locate(real: str, ctx: ToolContext, *, anywhere: bool = False, reading: bool = False) -> Place:
    """A real path as a place in an allowed root; raises Refused where it lies in none."""
    roots = (ctx.workspace.root, *ctx.workspace.extra)
    if reading:
        roots += (*((followed(ctx.outputs_folder),) if ctx.outputs_folder else ()), *ctx.readable_folders)
    found = workspace.inside(real, roots)
    if found is None and anywhere:
        return workspace.anywhere(real)
    return found or workspace.beneath_root(real, roots)


# ------------------------------------------------------------------ opening


def open_file(place: PathFact, ctx: ToolContext, *, anywhere: bool = False) -> int:
    """A regular file for reading. A directory raises IsADirectoryError; pipes, sockets and devices are refused."""
    return workspace.open_file(locate(place.real, ctx, anywhere=anywhere or ctx.free_reads, reading=True))


def open_folder(real: str, ctx: ToolContext, *, anywhere: bool = False) -> int:
    return workspace.open_folder(locate(real, ctx, anywhere=anywhere or ctx.free_reads, reading=True))


# ------------------------------------------------------------------ writing


def _target(place: PathFact, ctx: ToolContext) -> Place:
    """Where a write goes: links above the file were followed once, the file itself never is."""
    folder, name = os.path.split(place.path)
    if not name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.path)
    if os.path.join(followed(folder), name) != place.real:
        raise PathRefused(f"{shown(place.path)} is a symbolic link to {shown(place.real)}: name the file itself")
    return locate(place.real, ctx)


def current(place: PathFact, ctx: ToolContext) -> Old | None:
    """What a write to this path would replace, or None. Refuses links, hard links and what is no regular file."""
    return workspace.current(_target(place, ctx))


def replace(place: PathFact, ctx: ToolContext, data: bytes, old: Old | None) -> None:
    """Put `data` there in one step: readers see the old file or the new one, also after a crash."""
    workspace.replace(_target(place, ctx), data, old)


# ------------------------------------------------------------------ answers


def why(verb: str, preposition: str, place: PathFact, ctx: ToolContext) -> str:
    """For the person who is asked: "writes to workspace"."""
    try:
        locate(place.real, ctx)
    except PathRefused:
        return f"{verb} outside the workspace"
    return f"{verb} {preposition} workspace"


def explain(error: OSError) -> str:
    """What went wrong with a file, in the words of the person who reads it."""
    path = shown(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "the file"
    match error.errno:
        case errno.ENOENT:
            return f"{path} does not exist."
        case errno.EISDIR:
            return f"{path} is a directory, not a file. Use LS to list it."
        case errno.ENOTDIR:
            return f"{path} cannot be reached: a part of it is a file, not a directory."
        case errno.EACCES | errno.EPERM:
            return f"{path}: permission denied by the file system."
        case errno.EROFS:
            return f"{path} is on a read-only file system."
        case errno.ENOSPC | errno.EDQUOT:
            return f"{path} was not written: no space left on the disk. Nothing was changed."
        case _:
            return f"{path}: {error.strerror or error}"


def answered[A](prepare: Prepare[A]) -> Prepare[A]:
    """A refusal at open becomes a denied result, and the file system's own errors rejected ones."""

    def prepared(arguments: A, ctx: ToolContext) -> Prepared:
        made = prepare(arguments, ctx)
        return made._replace(run=lambda: _answered(made.run()), fails=lambda: _reason(made.fails))

    return prepared


def _reason(fails: Callable[[], str]) -> str:
    try:
        return fails()
    except OSError as error:
        return explain(error)


async def _answered(running: Awaitable[ToolResult]) -> ToolResult:
    try:
        return await running
    except PathRefused as refusal:
        return denied(refusal)
    except OSError as error:
        return rejected(explain(error))
