"""Paths as the model writes them, opened beneath an allowed root so that what was judged is what is opened.

A path is folded and its links are followed once (`fact`); what is opened is the place that this led to, beneath the
root's descriptor and through no link at all. Whoever swaps a directory for a link in between gets a refusal.
"""

import errno
import os
import stat
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

from adderclaw.config.opening import ANCHOR, READ, opener
from adderclaw.config.paths import followed
from adderclaw.errors import Refused
from adderclaw.types import PathFact, ToolContext, ToolResult, rejected

MAX_PATH = 4096
MAX_NAME = 255
MAX_BYTES = 16 * 1024 * 1024
"""The largest file that is held in memory whole: to be hashed, edited or replaced."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def denied(refusal: Refused) -> ToolResult:
    return ToolResult(f"Denied: {refusal.reason}", "tool_rejected", denied=refusal.reason, own=True)


class Old(NamedTuple):
    """What a write would replace."""

    data: bytes
    stat: os.stat_result


# ------------------------------------------------------------------ facts


def fact(given: str, ctx: ToolContext) -> PathFact:
    """All that the gate needs to know of a path. Raises Refused for what no file can be called."""
    _check(given)
    path = os.path.normpath(os.path.join(ctx.workspace.cwd, os.path.expanduser(given)))
    if path.startswith("//"):
        path = path[1:]
    _check(path)
    real = followed(path)
    try:
        found = os.stat(real)
    except OSError:
        return PathFact(given, path, real)
    return PathFact(given, path, real, (found.st_dev, found.st_ino))


def judge(given: str, ctx: ToolContext) -> PathFact:
    """The fact for the gate, kept for the run: a link that is turned in between leads nowhere new."""
    place = fact(given, ctx)
    ctx.judged[place.path] = place
    return place


def judged(given: str, ctx: ToolContext) -> PathFact:
    """The fact that the gate saw, for one run; a new one where the gate was not asked."""
    place = fact(given, ctx)
    return ctx.judged.pop(place.path, place)


def _check(path: str) -> None:
    if not path:
        raise Refused("the path is empty: name a file or directory")
    if "\0" in path:
        raise Refused(f"the path {shown(path[:80])!r} holds a NUL character, which no file name can")
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(f"the path {shown(path[:80])!r} is not valid Unicode (lone surrogates)") from None
    if len(encoded) >= MAX_PATH:
        raise Refused(f"the path {path[:60]!r}… has {len(encoded)} bytes; at most {MAX_PATH - 1} are possible")
    longest = max(encoded.split(b"/"), key=len)
    if len(longest) > MAX_NAME:
        raise Refused(f"a name in the path {path[:60]!r}… has {len(longest)} bytes; at most {MAX_NAME} are possible")


def shown(text: str) -> str:
    """A name on one line: whatever is not printable is escaped, so that no name can look like two."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)


def relative(path: str, ctx: ToolContext) -> str:
    """A path as it is told to the model: from the working directory where it lies beneath it."""
    for base in (ctx.workspace.cwd, followed(ctx.workspace.cwd)):
        if path == base:
            return "."
        if path.startswith(base.rstrip("/") + "/"):
            return shown(path[len(base.rstrip("/")) + 1 :])
    return shown(path)


def locate(real: str, ctx: ToolContext, *, anywhere: bool = False, reading: bool = False) -> tuple[str, str]:
    """The allowed root that a real path lies in, and the way from there."""
    given = (ctx.workspace.root, *ctx.workspace.extra, *((ctx.kept,) if reading and ctx.kept else ()))
    roots = [followed(root) for root in given]
    for root in sorted(roots, key=len, reverse=True):
        if real == root:
            return root, "."
        if real.startswith(root.rstrip("/") + "/"):
            return root, real[len(root.rstrip("/")) + 1 :]
    if anywhere:
        return "/", real.lstrip("/") or "."
    raise Refused(f"{shown(real)} is outside the workspace {shown(ctx.workspace.root)}")


# ------------------------------------------------------------------ opening


def open_beneath(real: str, ctx: ToolContext, flags: int, *, anywhere: bool = False, reading: bool = False) -> int:
    """A descriptor of `real`, reached from its root through no link. Raises Refused, or OSError as open does."""
    root, way = locate(real, ctx, anywhere=anywhere, reading=reading)
    anchor = os.open(root, ANCHOR)
    try:
        return opener()(anchor, way, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise Refused(f"{shown(real)} is reached through a link that leads elsewhere") from None
        error.filename = real
        raise
    finally:
        os.close(anchor)


def open_file(place: PathFact, ctx: ToolContext, *, anywhere: bool = False) -> int:
    """A regular file for reading. A directory raises IsADirectoryError; pipes, sockets and devices are refused."""
    fd = open_beneath(place.real, ctx, READ, anywhere=anywhere or ctx.free_reads, reading=True)
    try:
        _regular(os.fstat(fd), place.path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_folder(real: str, ctx: ToolContext, *, anywhere: bool = False) -> int:
    return open_beneath(real, ctx, FOLDER, anywhere=anywhere or ctx.free_reads, reading=True)


def _regular(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{shown(path)} is not a regular file but {_kind(found.st_mode)}")


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")


# ------------------------------------------------------------------ writing


def _target(place: PathFact) -> tuple[str, str]:
    """The real directory and the name in it: links above the file were followed once, the file itself never is."""
    folder, name = os.path.split(place.path)
    if not name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.path)
    if os.path.join(followed(folder), name) != place.real:
        raise Refused(f"{shown(place.path)} is a symbolic link to {shown(place.real)}: name the file itself")
    return os.path.dirname(place.real), name


@contextmanager
def _held(fd: int) -> Generator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def current(place: PathFact, ctx: ToolContext) -> Old | None:
    """What a write to this path would replace, or None. Refuses links, hard links and what is no regular file."""
    folder, name = _target(place)
    try:
        held = open_beneath(folder, ctx, FOLDER)
    except FileNotFoundError:
        return None
    with _held(held) as parent:
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        _replaceable(found, place)
        with _held(os.open(name, READ | os.O_NOFOLLOW, dir_fd=parent)) as fd:
            found = os.fstat(fd)
            _replaceable(found, place)
            return Old(read_all(fd, place.path), found)


def _replaceable(found: os.stat_result, place: PathFact) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise Refused(f"{shown(place.path)} is a symbolic link to {shown(place.real)}: name the file itself")
    _regular(found, place.path)
    if found.st_nlink > 1:
        raise Refused(f"{shown(place.path)} has {found.st_nlink} names (hard links), so other files would change too")


def read_all(fd: int, path: str) -> bytes:
    parts: list[bytes] = []
    total = 0
    while part := os.read(fd, 1 << 20):
        parts.append(part)
        total += len(part)
        if total > MAX_BYTES:
            raise OSError(errno.EFBIG, f"larger than {MAX_BYTES >> 20} MiB", path)
    return b"".join(parts)


def replace(place: PathFact, ctx: ToolContext, data: bytes, old: Old | None) -> None:
    """Put `data` there in one step: readers see the old file or the new one, also after a crash."""
    folder, name = _target(place)
    with _held(_make_folder(folder, ctx)) as parent:
        _same(name, parent, old, place)
        temporary = f".adderclaw-{os.urandom(8).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with _held(os.open(temporary, flags, 0o666, dir_fd=parent)) as fd:
                _fill(fd, data, old)
            _same(name, parent, old, place)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            _remove(temporary, parent)
            raise
        os.fsync(parent)


def _fill(fd: int, data: bytes, old: Old | None) -> None:
    if old is not None:
        if (old.stat.st_uid, old.stat.st_gid) != (os.geteuid(), os.getegid()):
            try:
                os.fchown(fd, old.stat.st_uid, old.stat.st_gid)
            except PermissionError:
                pass  # somebody else's file in a directory of ours: the new one is ours
        os.fchmod(fd, old.stat.st_mode & 0o777)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _same(name: str, parent: int, old: Old | None, place: PathFact) -> None:
    """Nobody may have put something else there since we looked."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        found = None
    if found is not None:
        _replaceable(found, place)
    if _mark(found) != _mark(old.stat if old else None):
        raise Refused(f"{shown(place.path)} was changed by somebody else at this moment: read it again")


def _mark(found: os.stat_result | None) -> tuple[int, ...] | None:
    return found and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _remove(name: str, parent: int) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass


def _make_folder(real: str, ctx: ToolContext) -> int:
    """A descriptor of the directory, made with its parents where it is missing, each step by descriptor."""
    try:
        return open_beneath(real, ctx, FOLDER)
    except FileNotFoundError:
        root, way = locate(real, ctx)
    here = os.open(root, FOLDER)
    try:
        for part in way.split("/"):
            try:
                os.mkdir(part, dir_fd=here)
            except FileExistsError:
                pass
            below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


# ------------------------------------------------------------------ answers


def why(verb: str, preposition: str, place: PathFact, ctx: ToolContext) -> str:
    """For the person who is asked: "writes to workspace"."""
    try:
        locate(place.real, ctx)
    except Refused:
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


def answered[A](
    run: Callable[[A, ToolContext], Awaitable[ToolResult]],
) -> Callable[[A, ToolContext], Awaitable[ToolResult]]:
    """A refusal at open becomes a denied result, and the file system's own errors rejected ones."""

    async def answer(arguments: A, ctx: ToolContext) -> ToolResult:
        try:
            return await run(arguments, ctx)
        except Refused as refusal:
            return denied(refusal)
        except OSError as error:
            return rejected(explain(error))

    return answer
