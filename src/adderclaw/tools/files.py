"""Read, Write and Edit: files of the workspace, opened by descriptor and replaced atomically."""

import asyncio
import errno
import hashlib
import os
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from adderclaw.config.paths import beneath, followed
from adderclaw.config.schema import Config
from adderclaw.core.host import ToolContext
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Alias, MediaBlock, PathFact, Prepared, Tool, ToolResult, Touch, own_words, rejected
from adderclaw.sandbox import workspace
from adderclaw.tools import paths, text
from adderclaw.tools.paths import OldFile, catch_refusals
from adderclaw.tools.specs import builtin_tool

LINES = 2000
IMAGE_STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
KIND_NAMES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
INLINE_BYTES = 1 << 20
"""Larger files are read in a thread, so that the event loop does not wait for the disk."""
FREE_WRITERS = frozenset({"file_write", "write", "edit"})
"""Aliases under which a file may be changed without reading it first."""
PART_MARK = "part:"
"""Marks the hash of a file that was read in part: that is enough to edit it, not to replace it."""


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
    """A file's head, the requested lines, and its hash if it was read whole."""

    head: bytes
    view: text.View
    hash: str | None
    size: int


async def read(target: PathFact, arguments: ReadArguments, ctx: ToolContext, *, anywhere: bool) -> ToolResult:
    if why := _range_problem(arguments):
        return rejected(why)
    try:
        fd = paths.open_file(target, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing_message(target, ctx))
    try:
        fold = bool(ctx.outputs_folder) and beneath(target.real, followed(ctx.outputs_folder))
        if (other := await _read_special(fd, target, arguments, ctx)) is not None:
            return other
        if os.fstat(fd).st_size <= INLINE_BYTES:
            content = _load(fd, target, arguments, fold=fold)
        else:
            content = await _in_thread(fd, target, arguments, fold=fold)
    finally:
        os.close(fd)
    return _render(target, arguments, content, ctx)


def _range_problem(arguments: ReadArguments) -> str:
    if arguments.offset >= 0 and arguments.limit >= 1:
        return ""
    return f"offset {arguments.offset} and limit {arguments.limit}: offset counts from 1, and limit must be 1 or more."


async def _read_special(fd: int, target: PathFact, arguments: ReadArguments, ctx: ToolContext) -> ToolResult | None:
    """Reads PDFs, images and notebooks, which are not shown as lines; None for all other files."""
    head = os.pread(fd, 16, 0)
    if head.startswith(b"%PDF-"):
        from adderclaw.tools import pdf

        return await pdf.read_pdf(fd, target, arguments.pages, ctx)
    if head.startswith(IMAGE_STARTS):
        return _read_image(fd, head, target, ctx)
    if target.path.endswith(".ipynb"):
        return _read_notebook(fd, target, ctx)
    return None


def _read_image(fd: int, head: bytes, target: PathFact, ctx: ToolContext) -> ToolResult | None:
    from base64 import b64encode

    from adderclaw.tools import images

    if images.media_type_of(head) is None:
        return None
    name, size = paths.relative(target.path, ctx), os.fstat(fd).st_size
    if size > images.MAX_BYTES:
        return rejected(
            f"{name} has {size} bytes; only images of at most {images.MAX_BYTES} can be shown: {images.FIX}."
        )
    data = paths.read_all(fd, target.path)
    try:
        image = images.measure_image(data)
    except images.BrokenImage as error:
        return rejected(f"{name} cannot be shown: {error}.")
    kind = KIND_NAMES[image.media_type]
    about = {"file_path": target.path, "bytes": size, "width": image.width, "height": image.height}
    shown = MediaBlock(image.media_type, b64encode(data).decode(), os.path.basename(target.path))
    text = f"{name}: {kind} image, {image.width} × {image.height} pixels, {size} bytes"
    return ToolResult(text, metadata=about, media=(shown,))


def _read_notebook(fd: int, target: PathFact, ctx: ToolContext) -> ToolResult | None:
    """Renders a notebook; None for an .ipynb file that is not a valid notebook, which is then read as text."""
    from adderclaw.tools import notebook_cells

    if os.fstat(fd).st_size > paths.MAX_BYTES:
        return None
    data = paths.read_all(fd, target.path)
    try:
        result = notebook_cells.render_notebook(data, target, ctx)
    except notebook_cells.NotANotebook:
        os.lseek(fd, 0, os.SEEK_SET)
        return None
    ctx.files_read[target.real] = PART_MARK + digest(data)
    return result


async def _in_thread(fd: int, target: PathFact, arguments: ReadArguments, *, fold: bool) -> Content:
    """Loads in a thread with its own descriptor, because a cancelled call may close the original first."""
    own = os.dup(fd)

    def load() -> Content:
        try:
            return _load(own, target, arguments, fold=fold)
        finally:
            os.close(own)

    return await asyncio.to_thread(load)


def _load(fd: int, target: PathFact, arguments: ReadArguments, *, fold: bool) -> Content:
    size = os.fstat(fd).st_size
    offset = max(arguments.offset, 1)
    if fold:
        with os.fdopen(os.dup(fd), "rb") as file:
            data = file.read(size)
        return Content(
            data[: text.HEAD], text.read_view(text.wrap_long_lines(data), offset, arguments.limit), None, size
        )
    if size > paths.MAX_BYTES:
        head = os.pread(fd, text.HEAD, 0)
        if text.encoding_of(head).name != "utf-8":
            raise OSError(errno.EFBIG, f"UTF-16 text larger than {paths.MAX_BYTES >> 20} MiB", target.path)
        if text.binary_kind(head):
            return Content(head, text.View([], 0, False, False), None, size)
        with os.fdopen(os.dup(fd), "rb") as file:
            return Content(head, text.read_view(file, offset, arguments.limit), None, size)
    data = paths.read_all(fd, target.path)
    head = data[: text.HEAD]
    if text.binary_kind(head):
        return Content(head, text.View([], 0, False, False), None, len(data))
    seen = text.read_view(text.as_utf8(data), offset, arguments.limit)
    return Content(head, seen, digest(data), len(data))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _render(target: PathFact, arguments: ReadArguments, content: Content, ctx: ToolContext) -> ToolResult:
    name, seen = paths.relative(target.path, ctx), content.view
    if kind := text.binary_kind(content.head):
        return rejected(f"{name} is a binary file ({kind}, {content.size} bytes); Read shows text only.")
    if content.size == 0 and not seen.total:
        _remember(target, content, ctx, whole=True)
        return own_words(f"{name} exists but is empty (0 lines)", _metadata(target, content))
    first = max(arguments.offset, 1)
    total = f"{seen.total} lines" if seen.counted else f"more than {seen.total} lines"
    if not seen.lines:
        return own_words(f"{name} has {total}: offset {first} is past its end.", _metadata(target, content))
    last = first + len(seen.lines) - 1
    whole = first == 1 and last == seen.total and seen.counted
    asked = (first, arguments.limit) != (1, LINES) and (len(seen.lines) == arguments.limit or last == seen.total)
    if whole or asked:
        _remember(target, content, ctx, whole=whole)
    closing = [_closing(first, last, total, whole=whole, asked=asked), *_encoding_remarks(content)]
    shown = text.number_lines(seen.lines, first) + "\n".join(closing)
    return ToolResult(shown, metadata=_metadata(target, content), page=True)


def _closing(first: int, last: int, total: str, *, whole: bool, asked: bool) -> str:
    if whole:
        return "(1 line)" if last == 1 else f"({total})"
    if asked:
        return f"(lines {first}-{last} of {total})"
    return f"(PARTIAL view: lines {first}-{last} of {total}. Continue with offset={last + 1}; Edit needs such a range.)"


def _encoding_remarks(content: Content) -> list[str]:
    encoding = text.encoding_of(content.head)
    remarks: list[str] = []
    if encoding.mark:
        remarks.append(f"(the file is {encoding.name.upper()} with a byte order mark)")
    if content.view.replaced:
        remarks.append("(some bytes are not valid UTF-8 and are shown as \ufffd)")
    return remarks


def _metadata(target: PathFact, content: Content) -> dict[str, Any]:
    return {"file_path": target.path, "lines": len(content.view.lines), "bytes": content.size}


def _remember(target: PathFact, content: Content, ctx: ToolContext, *, whole: bool) -> None:
    if content.hash is None:
        return
    if whole or ctx.files_read.get(target.real) != content.hash:
        ctx.files_read[target.real] = content.hash if whole else PART_MARK + content.hash


def missing_message(target: PathFact, ctx: ToolContext) -> str:
    near = nearest_names(target.path, ctx)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{paths.printable(target.path)} does not exist.{hint}"


def nearest_names(path: str, ctx: ToolContext) -> list[str]:
    """Similar names in the same directory."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        fd = paths.open_folder(followed(folder), ctx)
    except (OSError, paths.PathRefused):
        return []
    try:
        with workspace.scan(fd) as entries:
            names = [entry.name for entry in islice(entries, 5000)]
    finally:
        os.close(fd)
    return [paths.printable(match) for match in get_close_matches(name, names, n=3)]


# ------------------------------------------------------------------ Write


class Change(NamedTuple):
    """The new content of a file, and how the result reports it."""

    data: bytes
    old: OldFile | None
    verb: str
    details: str = ""
    is_reported: bool = False
    """Whether the result text already shows the whole change."""


def failure_reason(target: PathFact, plan: Callable[[], Change | str], ctx: ToolContext) -> str:
    """Why a change cannot succeed. Says nothing about hidden files, so the reason reveals none of their content."""
    if ctx.is_hidden(target.path) or ctx.is_hidden(target.real):
        return ""
    planned = plan()
    return planned if isinstance(planned, str) else ""


def _plan_write(target: PathFact, arguments: WriteArguments, ctx: ToolContext) -> Change | str:
    data = _encode(arguments.content)
    if isinstance(data, str):
        return f"content {data}"
    old = paths.read_current(target, ctx)
    if old is not None and (reason := unread_reason(target, old, ctx, whole=True)):
        return reason
    return Change(data, old, "Wrote")


def _encode(content: str) -> bytes | str:
    """The text as UTF-8, or why it cannot be written."""
    if len(content) > paths.MAX_BYTES:  # each character has a byte or more
        return f"has {len(content)} characters; at most {paths.MAX_BYTES} bytes can be written at once."
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"cannot be written as UTF-8: lone surrogate at character {error.start}."
    if len(data) > paths.MAX_BYTES:
        return f"has {len(data)} bytes; at most {paths.MAX_BYTES} can be written at once."
    return data


def unread_reason(target: PathFact, old: OldFile, ctx: ToolContext, *, whole: bool) -> str | None:
    """Why the model may not change this file yet; None if it may."""
    seen = ctx.files_read.get(target.real)
    if seen is not None and seen.removeprefix(PART_MARK) != digest(old.data):
        return "File has been modified since it was read. Read it again before changing it."
    if ctx.called_as in FREE_WRITERS or ctx.free_reads:
        return None
    if seen is None or (whole and seen.startswith(PART_MARK)):
        return "File has not been read yet. Read it first before writing to it."
    return None


def write_change(target: PathFact, change: Change, ctx: ToolContext) -> ToolResult:
    data, old, verb, more, _ = change
    paths.replace_file(target, ctx, data, old)
    ctx.files_read[target.real] = digest(data)
    lines = text.count_lines(data)
    summary = f"{verb} {paths.relative(target.path, ctx)} ({lines} line{'' if lines == 1 else 's'})"
    return ToolResult(
        f"{summary}\n{more}" if more else summary,
        metadata={"type": "update" if old else "create", "file_path": target.path, "lines": lines, "bytes": len(data)},
        own=not more,
        diff=_recorded_diff(target, change, ctx),
    )


def _recorded_diff(target: PathFact, change: Change, ctx: ToolContext) -> str:
    """The recorded diff of an existing file; empty if the file is hidden or the result shows the change already."""
    if change.old is None or change.is_reported or ctx.is_hidden(target.path) or ctx.is_hidden(target.real):
        return ""
    return text.bounded_diff(change.old.data, change.data)


# ------------------------------------------------------------------ Edit


def _plan_edit(target: PathFact, arguments: EditArguments, ctx: ToolContext) -> Change | str:
    if arguments.old_string == arguments.new_string:
        return "old_string and new_string are the same. There is nothing to change."
    data = _encode(arguments.new_string)
    if isinstance(data, str):
        return f"new_string {data}"
    old = paths.read_current(target, ctx)
    if not arguments.old_string and (old is None or not old.data):
        return Change(data, old, "Wrote")
    if target.path.endswith(".ipynb"):
        return f"{paths.relative(target.path, ctx)} is a notebook. Use NotebookEdit."
    if old is None:
        return f"{missing_message(target, ctx)} An empty old_string would create it."
    if not arguments.old_string:
        return "old_string is empty, but the file has content. Give the text to replace."
    if reason := unread_reason(target, old, ctx, whole=False):
        return reason
    return _plan_replacement(target, arguments, old, ctx)


def _plan_replacement(target: PathFact, arguments: EditArguments, old: OldFile, ctx: ToolContext) -> Change | str:
    name = paths.relative(target.path, ctx)
    if kind := text.binary_kind(old.data[: text.HEAD]):
        return f"{name} is a binary file ({kind}); Edit changes text only."
    try:
        before, encoding = text.decode_text(old.data)
    except UnicodeDecodeError as error:
        return f"{name} is not valid {error.encoding.upper()} (byte {error.start}); Edit changes text only."
    find, into = _line_ends(before, arguments.old_string, arguments.new_string)
    count = before.count(find)
    if count == 0:
        return f"String to replace not found in file {name}. It must match exactly, including whitespace."
    if count > 1 and not arguments.replace_all:
        return (
            f"old_string occurs {count} times in {name}: add surrounding lines to make it unique, or set replace_all."
        )
    grown = len(old.data) + count * (text.encoded_length(into, encoding) - text.encoded_length(find, encoding))
    if grown > paths.MAX_BYTES:
        return f"{name} would grow to {grown} bytes; at most {paths.MAX_BYTES} can be written at once."
    after = before.replace(find, into)
    data = text.encode_text(after, encoding)
    start = before.find(find)
    # the excerpt shows only the first of several replacements, because later ones shift the text after it
    once = after if count == 1 else before[:start] + into + before[start + len(find) :]
    diff = text.replacement_diff(before, once, start, len(find), len(into))
    shown = diff.encode("utf-8", "replace").decode("utf-8")
    more = f"\n(and {count - 1} more)" if count > 1 else ""
    return Change(data, old, "Edited", shown + more, is_reported=count == 1 and diff.startswith("@@ "))


def _line_ends(before: str, find: str, put: str) -> tuple[str, str]:
    """Adapts the model's \\n to a file whose lines end in \\r\\n."""
    pairs = before.count("\r\n")
    if pairs and (pairs == before.count("\n") or find not in before):
        return _crlf(find), _crlf(put)
    return find, put


def _crlf(string: str) -> str:
    return string.replace("\r\n", "\n").replace("\n", "\r\n")


# ------------------------------------------------------------------ the tools


def prepare_change(target: PathFact, plan: Callable[[], Change | str], ctx: ToolContext) -> Prepared:
    """A call that replaces one file. It is planned again when it runs, because the file may have changed by then."""
    touch = Touch(writes=(target,), why=paths.access_reason("writes", "to", target, ctx))

    async def run() -> ToolResult:
        planned = plan()
        return rejected(planned) if isinstance(planned, str) else write_change(target, planned, ctx)

    return Prepared(
        touch, run, fails=lambda: failure_reason(target, plan, ctx), preview=lambda: _preview(target, plan, ctx)
    )


def _preview(target: PathFact, plan: Callable[[], Change | str], ctx: ToolContext) -> str:
    if ctx.is_hidden(target.path) or ctx.is_hidden(target.real) or target.path.endswith(".ipynb"):
        return ""
    planned = plan()
    return "" if isinstance(planned, str) else text.full_diff(planned.old.data if planned.old else b"", planned.data)


def prepare_write(arguments: WriteArguments, ctx: ToolContext) -> Prepared:
    target = paths.path_fact(arguments.file_path, ctx)
    return prepare_change(target, lambda: _plan_write(target, arguments, ctx), ctx)


def prepare_edit(arguments: EditArguments, ctx: ToolContext) -> Prepared:
    target = paths.path_fact(arguments.file_path, ctx)
    return prepare_change(target, lambda: _plan_edit(target, arguments, ctx), ctx)


PATH = {"path": "file_path"}
EDIT = PATH | {"old": "old_string", "new": "new_string", "find": "old_string", "replace": "new_string"}


def tools(config: Config) -> tuple[Tool[Any], ...]:
    anywhere = not config.security.workspace_only
    seconds = config.runtime.tool_timeout_seconds

    def prepare_read(arguments: ReadArguments, ctx: ToolContext) -> Prepared:
        target = paths.path_fact(arguments.file_path, ctx)
        touch = Touch(reads=(target,), why=paths.access_reason("reads", "from", target, ctx))
        run = partial(read, target, arguments, ctx, anywhere=anywhere)
        return Prepared(touch, run, overlaps=True, fails=lambda: _range_problem(arguments))

    def limit(_: object) -> float:
        return seconds

    return (
        builtin_tool(
            "Read",
            ReadArguments,
            catch_refusals(prepare_read),
            (Alias("file_read", PATH), Alias("read", PATH), Alias("pdf_extract", PATH)),
            timeout=limit,
        ),
        builtin_tool(
            "Write",
            WriteArguments,
            catch_refusals(prepare_write),
            (Alias("file_write", PATH), Alias("write", PATH)),
            timeout=limit,
        ),
        builtin_tool("Edit", EditArguments, catch_refusals(prepare_edit), (Alias("edit", EDIT),), timeout=limit),
    )
