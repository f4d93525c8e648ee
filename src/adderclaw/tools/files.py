"""Read, Write and Edit: text files of the workspace, opened by descriptor, replaced in one step."""

import asyncio
import errno
import hashlib
import os
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from adderclaw.config.paths import beneath, followed
from adderclaw.config.schema.settings import Config
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import (
    Alias,
    MediaBlock,
    PathFact,
    Prepared,
    Tool,
    ToolContext,
    ToolResult,
    Touch,
    own_words,
    rejected,
)
from adderclaw.sandbox import workspace
from adderclaw.tools import paths, text
from adderclaw.tools.paths import Old, answered
from adderclaw.tools.specs import spec

LINES = 2000
PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
KIND_NAMES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
INLINE = 1 << 20
"""Larger files are read in a thread, so that nothing else waits for the disk."""
FREE_WRITERS = frozenset({"file_write", "write", "edit"})
"""Aliases whose seeds know no rule that a file must have been read before it is changed."""
PART = "part:"
"""Marks the hash of a file of which the model asked for a range: enough to edit it, not to replace it."""


@record
class ReadArguments:
    file_path: str
    offset: int = 1
    limit: int = LINES
    pages: str = ""


@record
class WriteArguments:
    file_path: str
    content: str


@record
class EditArguments:
    file_path: str
    old_string: str
    new_string: str
    replace_all: bool = False


# ------------------------------------------------------------------ Read


class Content(NamedTuple):
    """What was found in a file: its head, the lines asked for, and its hash when it was held whole."""

    head: bytes
    view: text.View
    hash: str | None
    size: int


async def read(place: PathFact, arguments: ReadArguments, ctx: ToolContext, *, anywhere: bool) -> ToolResult:
    if why := _unfit(arguments):
        return rejected(why)
    try:
        fd = paths.open_file(place, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing(place, ctx))
    try:
        fold = bool(ctx.outputs_folder) and beneath(place.real, followed(ctx.outputs_folder))
        if (other := await _other_kind(fd, place, arguments, ctx)) is not None:
            return other
        if os.fstat(fd).st_size <= INLINE:
            content = _load(fd, place, arguments, fold=fold)
        else:
            content = await _in_thread(fd, place, arguments, fold=fold)
    finally:
        os.close(fd)
    return _shown(place, arguments, content, ctx)


def _unfit(arguments: ReadArguments) -> str:
    if arguments.offset >= 0 and arguments.limit >= 1:
        return ""
    return f"offset {arguments.offset} and limit {arguments.limit}: offset counts lines from 1, limit is at least 1."


async def _other_kind(fd: int, place: PathFact, arguments: ReadArguments, ctx: ToolContext) -> ToolResult | None:
    """Files that are shown by what is in them, and not by their lines; None for all others."""
    head = os.pread(fd, 16, 0)
    if head.startswith(b"%PDF-"):
        from adderclaw.tools import pdf

        return await pdf.read(fd, place, arguments.pages, ctx)
    if head.startswith(PICTURES):
        return _picture(fd, head, place, ctx)
    if place.path.endswith(".ipynb"):
        return _notebook(fd, place, ctx)
    return None


def _picture(fd: int, head: bytes, place: PathFact, ctx: ToolContext) -> ToolResult | None:
    from base64 import b64encode

    from adderclaw.tools import images

    if images.kind_of(head) is None:
        return None
    name, size = paths.relative(place.path, ctx), os.fstat(fd).st_size
    if size > images.MAX_BYTES:
        return rejected(f"{name} has {size} bytes; images of at most {images.MAX_BYTES} can be shown: {images.FIX}.")
    data = paths.read_all(fd, place.path)
    try:
        found = images.measured(data)
    except images.Broken as error:
        return rejected(f"{name} cannot be shown: {error}.")
    kind = KIND_NAMES[found.media_type]
    about = {"file_path": place.path, "bytes": size, "width": found.width, "height": found.height}
    shown = MediaBlock(found.media_type, b64encode(data).decode(), os.path.basename(place.path))
    text = f"{name}: {kind} image, {found.width} × {found.height} pixels, {size} bytes"
    return ToolResult(text, metadata=about, media=(shown,))


def _notebook(fd: int, place: PathFact, ctx: ToolContext) -> ToolResult | None:
    """What is called a notebook and is none is shown as the text that it is."""
    from adderclaw.tools import notebook

    if os.fstat(fd).st_size > paths.MAX_BYTES:
        return None
    data = paths.read_all(fd, place.path)
    try:
        result = notebook.shown(data, place, ctx)
    except notebook.NoNotebook:
        os.lseek(fd, 0, os.SEEK_SET)
        return None
    ctx.files_read[place.real] = PART + digest(data)
    return result


async def _in_thread(fd: int, place: PathFact, arguments: ReadArguments, *, fold: bool) -> Content:
    """The thread has a descriptor of its own: a cancelled call may close ours before it ends."""
    own = os.dup(fd)

    def load() -> Content:
        try:
            return _load(own, place, arguments, fold=fold)
        finally:
            os.close(own)

    return await asyncio.to_thread(load)


def _load(fd: int, place: PathFact, arguments: ReadArguments, *, fold: bool) -> Content:
    size = os.fstat(fd).st_size
    offset = max(arguments.offset, 1)
    if fold:
        with os.fdopen(os.dup(fd), "rb") as file:
            data = file.read(size)
        return Content(data[: text.HEAD], text.view(text.folded(data), offset, arguments.limit), None, size)
    if size > paths.MAX_BYTES:
        head = os.pread(fd, text.HEAD, 0)
        if text.encoding_of(head).name != "utf-8":
            raise OSError(errno.EFBIG, f"UTF-16 text larger than {paths.MAX_BYTES >> 20} MiB", place.path)
        if text.binary_kind(head):
            return Content(head, text.View([], 0, False, False), None, size)
        with os.fdopen(os.dup(fd), "rb") as file:
            return Content(head, text.view(file, offset, arguments.limit), None, size)
    data = paths.read_all(fd, place.path)
    head = data[: text.HEAD]
    if text.binary_kind(head):
        return Content(head, text.View([], 0, False, False), None, len(data))
    seen = text.view(text.as_utf8(data), offset, arguments.limit)
    return Content(head, seen, digest(data), len(data))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _shown(place: PathFact, arguments: ReadArguments, content: Content, ctx: ToolContext) -> ToolResult:
    name, seen = paths.relative(place.path, ctx), content.view
    if kind := text.binary_kind(content.head):
        return rejected(f"{name} is a binary file ({kind}, {content.size} bytes); Read shows text only.")
    if content.size == 0 and not seen.total:
        _remember(place, content, ctx, whole=True)
        return own_words(f"{name} exists but is empty (0 lines)", _about(place, content))
    first = max(arguments.offset, 1)
    total = f"{seen.total} lines" if seen.counted else f"more than {seen.total} lines"
    if not seen.lines:
        return own_words(f"{name} has {total}: offset {first} is past its end.", _about(place, content))
    last = first + len(seen.lines) - 1
    whole = first == 1 and last == seen.total and seen.counted
    asked = (first, arguments.limit) != (1, LINES) and (len(seen.lines) == arguments.limit or last == seen.total)
    if whole or asked:
        _remember(place, content, ctx, whole=whole)
    closing = [_closing(first, last, total, whole=whole, asked=asked), *_remarks(content)]
    shown = text.numbered(seen.lines, first) + "\n".join(closing)
    return ToolResult(shown, metadata=_about(place, content), page=True)


def _closing(first: int, last: int, total: str, *, whole: bool, asked: bool) -> str:
    if whole:
        return "(1 line)" if last == 1 else f"({total})"
    if asked:
        return f"(lines {first}-{last} of {total})"
    return f"(PARTIAL view: lines {first}-{last} of {total}. Go on with offset={last + 1}; Edit needs such a range.)"


def _remarks(content: Content) -> list[str]:
    encoding = text.encoding_of(content.head)
    remarks: list[str] = []
    if encoding.mark:
        remarks.append(f"(the file is {encoding.name.upper()} with a byte order mark)")
    if content.view.replaced:
        remarks.append("(some bytes are not valid UTF-8 and are shown as \ufffd)")
    return remarks


def _about(place: PathFact, content: Content) -> dict[str, Any]:
    return {"file_path": place.path, "lines": len(content.view.lines), "bytes": content.size}


def _remember(place: PathFact, content: Content, ctx: ToolContext, *, whole: bool) -> None:
    if content.hash is None:
        return
    if whole or ctx.files_read.get(place.real) != content.hash:
        ctx.files_read[place.real] = content.hash if whole else PART + content.hash


def missing(place: PathFact, ctx: ToolContext) -> str:
    near = nearest_names(place.path, ctx)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{paths.shown(place.path)} does not exist.{hint}"


def nearest_names(path: str, ctx: ToolContext) -> list[str]:
    """Names in the same directory that look alike."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        fd = paths.open_folder(followed(folder), ctx)
    except (OSError, paths.PathRefused):
        return []
    try:
        with workspace.scan(fd) as found:
            names = [entry.name for entry in islice(found, 5000)]
    finally:
        os.close(fd)
    return [paths.shown(match) for match in get_close_matches(name, names, n=3)]


# ------------------------------------------------------------------ Write


class Change(NamedTuple):
    """What a call makes of a file."""

    data: bytes
    old: Old | None
    verb: str
    more: str = ""
    is_told: bool = False
    """The result itself says what became of the file."""


def failing(place: PathFact, plan: Callable[[], Change | str], ctx: ToolContext) -> str:
    """Why a change can only fail. Of a file that may not be read, nobody hears what is in it that way."""
    if ctx.is_hidden(place.path) or ctx.is_hidden(place.real):
        return ""
    planned = plan()
    return planned if isinstance(planned, str) else ""


def _written(place: PathFact, arguments: WriteArguments, ctx: ToolContext) -> Change | str:
    data = _bytes(arguments.content)
    if isinstance(data, str):
        return f"content {data}"
    old = paths.current(place, ctx)
    if old is not None and (reason := unseen(place, old, ctx, whole=True)):
        return reason
    return Change(data, old, "Wrote")


def _bytes(content: str) -> bytes | str:
    """The bytes of the text, or why it has none."""
    if len(content) > paths.MAX_BYTES:  # each character has a byte or more
        return f"has {len(content)} characters; at most {paths.MAX_BYTES} bytes can be written at once."
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"cannot be written as UTF-8: lone surrogate at character {error.start}."
    if len(data) > paths.MAX_BYTES:
        return f"has {len(data)} bytes; at most {paths.MAX_BYTES} can be written at once."
    return data


def unseen(place: PathFact, old: Old, ctx: ToolContext, *, whole: bool) -> str | None:
    """Why the model may not change this file yet."""
    seen = ctx.files_read.get(place.real)
    if seen is not None and seen.removeprefix(PART) != digest(old.data):
        return "File has been modified since it was read. Read it again before changing it."
    if ctx.called_as in FREE_WRITERS or ctx.free_reads:
        return None
    if seen is None or (whole and seen.startswith(PART)):
        return "File has not been read yet. Read it first before writing to it."
    return None


def put(place: PathFact, change: Change, ctx: ToolContext) -> ToolResult:
    data, old, verb, more, _ = change
    paths.replace(place, ctx, data, old)
    ctx.files_read[place.real] = digest(data)
    lines = text.count_lines(data)
    summary = f"{verb} {paths.relative(place.path, ctx)} ({lines} line{'' if lines == 1 else 's'})"
    return ToolResult(
        f"{summary}\n{more}" if more else summary,
        metadata={"type": "update" if old else "create", "file_path": place.path, "lines": lines, "bytes": len(data)},
        own=not more,
        diff=_kept(place, change, ctx),
    )


def _kept(place: PathFact, change: Change, ctx: ToolContext) -> str:
    """What became of a file that was there before, unless nobody may read it."""
    if change.old is None or change.is_told or ctx.is_hidden(place.path) or ctx.is_hidden(place.real):
        return ""
    return text.kept_difference(change.old.data, change.data)


# ------------------------------------------------------------------ Edit


def _edited(place: PathFact, arguments: EditArguments, ctx: ToolContext) -> Change | str:
    if arguments.old_string == arguments.new_string:
        return "old_string and new_string are the same: there is nothing to change."
    data = _bytes(arguments.new_string)
    if isinstance(data, str):
        return f"new_string {data}"
    old = paths.current(place, ctx)
    if not arguments.old_string and (old is None or not old.data):
        return Change(data, old, "Wrote")
    if place.path.endswith(".ipynb"):
        return f"{paths.relative(place.path, ctx)} is a notebook: use NotebookEdit."
    if old is None:
        return f"{missing(place, ctx)} An empty old_string would create it."
    if not arguments.old_string:
        return "old_string is empty, but the file exists and is not: name the text to replace."
    if reason := unseen(place, old, ctx, whole=False):
        return reason
    return _replaced(place, arguments, old, ctx)


def _replaced(place: PathFact, arguments: EditArguments, old: Old, ctx: ToolContext) -> Change | str:
    name = paths.relative(place.path, ctx)
    if kind := text.binary_kind(old.data[: text.HEAD]):
        return f"{name} is a binary file ({kind}); Edit changes text only."
    try:
        before, encoding = text.decoded(old.data)
    except UnicodeDecodeError as error:
        return f"{name} is not valid {error.encoding.upper()} (byte {error.start}); Edit changes text only."
    find, into = _line_ends(before, arguments.old_string, arguments.new_string)
    count = before.count(find)
    if count == 0:
        return f"String to replace not found in file {name}. It must match exactly, spaces and all."
    if count > 1 and not arguments.replace_all:
        return f"old_string occurs {count} times in {name}: add lines around it until it is unique, or set replace_all."
    grown = len(old.data) + count * (text.length(into, encoding) - text.length(find, encoding))
    if grown > paths.MAX_BYTES:
        return f"{name} would grow to {grown} bytes; at most {paths.MAX_BYTES} can be written at once."
    after = before.replace(find, into)
    data = text.encoded(after, encoding)
    start = before.find(find)
    # with several replacements the excerpt ends at the first: later ones move the text behind it
    once = after if count == 1 else before[:start] + into + before[start + len(find) :]
    diff = text.difference(before, once, start, len(find), len(into))
    shown = diff.encode("utf-8", "replace").decode("utf-8")
    more = f"\n(and {count - 1} more)" if count > 1 else ""
    return Change(data, old, "Edited", shown + more, is_told=count == 1 and diff.startswith("@@ "))


def _line_ends(before: str, find: str, put: str) -> tuple[str, str]:
    """The model writes \\n; a file whose lines end in \\r\\n keeps them so."""
    pairs = before.count("\r\n")
    if pairs and (pairs == before.count("\n") or find not in before):
        return _crlf(find), _crlf(put)
    return find, put


def _crlf(string: str) -> str:
    return string.replace("\r\n", "\n").replace("\n", "\r\n")


# ------------------------------------------------------------------ the tools


def changing(place: PathFact, plan: Callable[[], Change | str], ctx: ToolContext) -> Prepared:
    """A call that replaces one file: planned once more when it runs, since the file may have changed by then."""
    touch = Touch(writes=(place,), why=paths.why("writes", "to", place, ctx))

    async def run() -> ToolResult:
        planned = plan()
        return rejected(planned) if isinstance(planned, str) else put(place, planned, ctx)

    return Prepared(touch, run, fails=lambda: failing(place, plan, ctx), preview=lambda: _previewed(place, plan, ctx))


def _previewed(place: PathFact, plan: Callable[[], Change | str], ctx: ToolContext) -> str:
    if ctx.is_hidden(place.path) or ctx.is_hidden(place.real) or place.path.endswith(".ipynb"):
        return ""
    planned = plan()
    return (
        ""
        if isinstance(planned, str)
        else text.whole_difference(planned.old.data if planned.old else b"", planned.data)
    )


def prepare_write(arguments: WriteArguments, ctx: ToolContext) -> Prepared:
    place = paths.fact(arguments.file_path, ctx)
    return changing(place, lambda: _written(place, arguments, ctx), ctx)


def prepare_edit(arguments: EditArguments, ctx: ToolContext) -> Prepared:
    place = paths.fact(arguments.file_path, ctx)
    return changing(place, lambda: _edited(place, arguments, ctx), ctx)


PATH = {"path": "file_path"}
EDIT = PATH | {"old": "old_string", "new": "new_string", "find": "old_string", "replace": "new_string"}


def tools(config: Config) -> tuple[Tool[Any], ...]:
    anywhere = not config.security.workspace_only
    seconds = config.runtime.tool_timeout_seconds

    def prepare_read(arguments: ReadArguments, ctx: ToolContext) -> Prepared:
        place = paths.fact(arguments.file_path, ctx)
        touch = Touch(reads=(place,), why=paths.why("reads", "from", place, ctx))
        run = partial(read, place, arguments, ctx, anywhere=anywhere)
        return Prepared(touch, run, overlaps=True, fails=lambda: _unfit(arguments))

    def limit(_: object) -> float:
        return seconds

    reading, writing, editing = spec("Read"), spec("Write"), spec("Edit")
    return (
        Tool(
            "Read",
            ReadArguments,
            answered(prepare_read),
            reading.description,
            reading.parameters,
            (Alias("file_read", PATH), Alias("read", PATH), Alias("pdf_extract", PATH)),
            limit,
        ),
        Tool(
            "Write",
            WriteArguments,
            answered(prepare_write),
            writing.description,
            writing.parameters,
            (Alias("file_write", PATH), Alias("write", PATH)),
            limit,
        ),
        Tool(
            "Edit",
            EditArguments,
            answered(prepare_edit),
            editing.description,
            editing.parameters,
            (Alias("edit", EDIT),),
            limit,
        ),
    )
