"""Paths as the model writes them, opened beneath an allowed root so that what was judged is what is opened.

`path_fact` normalizes a path and resolves its links once. The resolved path is then opened beneath the root's
descriptor without following any link, so a directory swapped for a link in between leads to a refusal.
"""

import errno
import os
from collections.abc import Awaitable, Callable

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused
from adderclaw.core.host import ToolContext
from adderclaw.core.types import PathFact, Prepare, Prepared, ToolResult, refused, rejected
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import MAX_BYTES, OldFile, WorkspacePath, printable, read_all

__all__ = ("MAX_BYTES", "OldFile", "PathRefused", "printable", "read_all")

MAX_PATH = 4096
MAX_NAME = 255


def denied_result(refusal: PathRefused) -> ToolResult:
    return refused(f"Denied: {refusal.reason}", "policy", refusal.reason)


# ------------------------------------------------------------------ facts


def path_fact(raw_path: str, ctx: ToolContext) -> PathFact:
    """Resolves a path for the policy. The run opens the same resolved path, so links changed later have no effect.

    Raises PathRefused for text that cannot name a file.
    """
    _check(raw_path)
    path = os.path.normpath(os.path.join(ctx.workspace.cwd, os.path.expanduser(raw_path)))
    if path.startswith("//"):
        path = path[1:]
    _check(path)
    real = followed(path)
    try:
        status = workspace.status(workspace.resolved_path(real))
    except (OSError, PathRefused):
        return PathFact(raw_path, path, real)
    return PathFact(raw_path, path, real, (status.st_dev, status.st_ino))


def _check(path: str) -> None:
    if not path:
        raise PathRefused("the path is empty. Name a file or directory")
    if "\0" in path:
        raise PathRefused(f"the path {printable(path[:80])!r} contains a NUL character, which no file name can")
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        raise PathRefused(f"the path {printable(path[:80])!r} is not valid Unicode (lone surrogates)") from None
    if len(encoded) >= MAX_PATH:
        raise PathRefused(f"the path {path[:60]!r}… has {len(encoded)} bytes. At most {MAX_PATH - 1} are allowed")
    longest = max(encoded.split(b"/"), key=len)
    if len(longest) > MAX_NAME:
        raise PathRefused(f"a name in the path {path[:60]!r}… has {len(longest)} bytes. At most {MAX_NAME} are allowed")


def relative(path: str, ctx: ToolContext) -> str:
    """A path as the model sees it: relative to the working directory if it is beneath it."""
    return relative_namer(ctx)(path)


def relative_namer(ctx: ToolContext) -> Callable[[str], str]:
    """`relative` for many paths: resolves the working directory once."""
    bases = tuple(dict.fromkeys((ctx.workspace.cwd, followed(ctx.workspace.cwd))))
    above = tuple(f"{base.rstrip('/')}/" for base in bases)

    def name(path: str) -> str:
        if path in bases:
            return "."
        return printable(next((path[len(prefix) :] for prefix in above if path.startswith(prefix)), path))

    return name


def locate(real: str, ctx: ToolContext, *, anywhere: bool = False, reading: bool = False) -> WorkspacePath:
    """A real path as a location in an allowed root; raises PathRefused if it is in none."""
    roots = (ctx.workspace.root, *ctx.workspace.extra)
    if reading:
        roots += (*((followed(ctx.outputs_folder),) if ctx.outputs_folder else ()), *ctx.readable_folders)
    location = workspace.within_roots(real, roots)
    if location is None and anywhere:
        return workspace.resolved_path(real)
    return location or workspace.require_within_roots(real, roots)


# ------------------------------------------------------------------ opening


def open_file(target: PathFact, ctx: ToolContext, *, anywhere: bool = False) -> int:
    """Opens a regular file for reading. Raises IsADirectoryError; refuses pipes, sockets and devices."""
    return workspace.open_file(locate(target.real, ctx, anywhere=anywhere or ctx.free_reads, reading=True))


def open_folder(real: str, ctx: ToolContext, *, anywhere: bool = False) -> int:
    return workspace.open_folder(locate(real, ctx, anywhere=anywhere or ctx.free_reads, reading=True))


# ------------------------------------------------------------------ writing


def _target(target: PathFact, ctx: ToolContext) -> WorkspacePath:
    """Where a write goes. Links above the file were resolved once; a link at its end is refused."""
    folder, name = os.path.split(target.path)
    if not name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target.path)
    if os.path.join(followed(folder), name) != target.real:
        raise PathRefused(
            f"{printable(target.path)} is a symbolic link to {printable(target.real)}: name the file itself"
        )
    return locate(target.real, ctx)


def read_current(target: PathFact, ctx: ToolContext) -> OldFile | None:
    """The file that a write would replace, or None. Refuses links, hard links and anything but regular files."""
    return workspace.read_replaceable(_target(target, ctx))


def replace_file(target: PathFact, ctx: ToolContext, data: bytes, old: OldFile | None) -> None:
    """Replaces the file atomically: readers see the old or the new content, even after a crash."""
    workspace.replace_unchanged(_target(target, ctx), data, old)


# ------------------------------------------------------------------ answers


def access_reason(verb: str, preposition: str, target: PathFact, ctx: ToolContext) -> str:
    """The reason shown in an approval question, such as "writes to workspace"."""
    try:
        locate(target.real, ctx)
    except PathRefused:
        return f"{verb} outside the workspace"
    return f"{verb} {preposition} workspace"


def explain_os_error(error: OSError) -> str:
    """Describes a file system error in plain words."""
    path = printable(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "the file"
    match error.errno:
        case errno.ENOENT:
            return f"{path} does not exist."
        case errno.EISDIR:
            return f"{path} is a directory, not a file. Use LS to list it."
        case errno.ENOTDIR:
            return f"{path} cannot be reached because a part of it is a file, not a directory."
        case errno.EACCES | errno.EPERM:
            return f"{path}: permission denied by the file system."
        case errno.EROFS:
            return f"{path} is on a read-only file system."
        case errno.ENOSPC | errno.EDQUOT:
            return f"{path} was not written because the disk is full. Nothing was changed."
        case _:
            return f"{path}: {error.strerror or error}"


def catch_refusals[A](prepare: Prepare[A]) -> Prepare[A]:
    """Wraps a tool so that refusals become denied results and file system errors become rejected ones."""

    def prepared(arguments: A, ctx: ToolContext) -> Prepared:
        call = prepare(arguments, ctx)
        return call._replace(run=lambda: _result_or_refusal(call.run()), fails=lambda: _failure_text(call.fails))

    return prepared


def _failure_text(fails: Callable[[], str]) -> str:
    try:
        return fails()
    except OSError as error:
        return explain_os_error(error)


async def _result_or_refusal(running: Awaitable[ToolResult]) -> ToolResult:
    try:
        return await running
    except PathRefused as refusal:
        return denied_result(refusal)
    except OSError as error:
        return rejected(explain_os_error(error))
