"""Bytes of a file as text: encodings, line ends, numbered views, and short differences."""

from io import BytesIO
from typing import BinaryIO

from adderclaw.core.record import NamedTuple

HEAD = 8192
"""Bytes at the start of a file that decide whether it is text or binary."""
LINE_CHARS = 2000
LINE_BYTES = 4 * LINE_CHARS + 192
"""Bytes read of a line: enough for LINE_CHARS of the widest characters."""
VIEW_CHARS = 96_000
"""Characters of one view, including the line numbers."""
SCAN_BYTES = 256 * 1024 * 1024
"""Bytes of a huge file in which lines are counted."""

KINDS = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x7fELF", "ELF program"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"RIFF", "RIFF media"),
)


class Encoding(NamedTuple):
    mark: bytes
    """The byte order mark, preserved when the file is written."""
    name: str


UTF8 = Encoding(b"", "utf-8")
MARKED_ENCODINGS = (
    Encoding(b"\xff\xfe", "utf-16-le"),
    Encoding(b"\xfe\xff", "utf-16-be"),
    Encoding(b"\xef\xbb\xbf", "utf-8"),
)


def encoding_of(head: bytes) -> Encoding:
    return next((encoding for encoding in MARKED_ENCODINGS if head.startswith(encoding.mark)), UTF8)


def binary_kind(head: bytes) -> str | None:
    """The kind of binary file that starts with `head`; None for text."""
    if not encoding_of(head).name.startswith("utf-16") and b"\0" in head[:HEAD]:
        return next((kind for magic, kind in KINDS if head.startswith(magic)), "unknown kind")
    return None


def decode_text(data: bytes) -> tuple[str, Encoding]:
    """Decodes a file so that `encode_text` restores exactly these bytes, even invalid ones."""
    encoding = encoding_of(data)
    errors = "surrogateescape" if encoding.name == "utf-8" else "strict"
    return data[len(encoding.mark) :].decode(encoding.name, errors), encoding


def encode_text(text: str, encoding: Encoding) -> bytes:
    errors = "surrogateescape" if encoding.name == "utf-8" else "strict"
    return encoding.mark + text.encode(encoding.name, errors)


def encoded_length(text: str, encoding: Encoding) -> int:
    """Bytes of a part of a text, without the byte order mark."""
    return len(encode_text(text, encoding)) - len(encoding.mark)


def count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


# ------------------------------------------------------------------ views


class View(NamedTuple):
    """Some lines of a file."""

    lines: list[str]
    total: int
    """Lines counted."""
    counted: bool
    """False if the file is too long to count, and has more than `total` lines."""
    replaced: bool
    """Whether some bytes were not valid UTF-8."""


def read_view(file: BinaryIO, offset: int, limit: int) -> View:
    """Reads lines from `offset` (from 1), at most `limit` lines and VIEW_CHARS, without loading the whole file."""
    lines: list[str] = []
    number, used, position = _skip_lines(file, offset - 1), 0, 0
    replaced, room = False, True
    while position < SCAN_BYTES and (piece := file.readline(LINE_BYTES)):
        number += 1
        position += len(piece) + _skip_rest(file, piece)
        if not room:
            continue
        line = piece.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
        if len(line) > LINE_CHARS:
            line = line[:LINE_CHARS] + f"… [line cut at {LINE_CHARS} characters]"
        bad = "\ufffd" in line and b"\xef\xbf\xbd" not in piece
        used += len(line) + 8
        room = len(lines) < limit and (used <= VIEW_CHARS or not lines)
        if room:
            lines.append(line)
            replaced = replaced or bad
    return View(lines, number, position < SCAN_BYTES, replaced)


def _skip_lines(file: BinaryIO, count: int) -> int:
    """Skips `count` lines; returns how many there were."""
    passed, last = 0, b"\n"
    while passed < count and (block := file.read(1 << 20)):
        newlines = block.count(b"\n")
        if passed + newlines >= count:
            at = -1
            for _ in range(count - passed):
                at = block.index(b"\n", at + 1)
            file.seek(at + 1 - len(block), 1)
            return count
        passed, last = passed + newlines, block[-1:]
    return passed if last == b"\n" else passed + 1  # the last line has no end


def _skip_rest(file: BinaryIO, piece: bytes) -> int:
    skipped = 0
    while len(piece) >= LINE_BYTES and not piece.endswith(b"\n") and skipped < SCAN_BYTES:
        piece = file.readline(1 << 20) or b"\n"
        skipped += len(piece)
        if len(piece) < 1 << 20:
            break
    return skipped


def number_lines(lines: list[str], first: int) -> str:
    return "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(lines, first))


def as_utf8(data: bytes) -> BinaryIO:
    """Any text file as UTF-8 without its byte order mark, so that one reader handles all encodings."""
    encoding = encoding_of(data)
    body = data[len(encoding.mark) :]
    if encoding.name.startswith("utf-16"):
        body = body.decode(encoding.name, "replace").encode("utf-8", "replace")
    return BytesIO(body)


def wrap_long_lines(data: bytes) -> BinaryIO:
    """UTF-8 text with long lines wrapped, so that every part can be requested by line number."""
    rows: list[str] = []
    for line in data.decode("utf-8", "replace").split("\n"):
        rows += [line[at : at + LINE_CHARS] for at in range(0, len(line), LINE_CHARS)] or [""]
    return BytesIO("\n".join(rows).encode("utf-8", "replace"))


# ------------------------------------------------------------------ differences


MAX_COMPARED_LINES = 4_000
"""Most lines of two texts together that are compared with a full diff."""


def replacement_diff(old: str, new: str, start: int, length: int, added: int) -> str:
    """A unified diff around one replacement: `length` characters at `start` of `old` became `added` of `new`."""
    from difflib import unified_diff

    begin = start
    for _ in range(4):
        begin = old.rfind("\n", 0, max(begin - 1, 0)) + 1 if begin else 0
    tail = _context_end(old, start + length)
    before = _split_lines(old[begin:tail])
    after = _split_lines(new[begin : tail + added - length])
    if len(before) + len(after) > 400:
        return f"({len(before)} lines became {len(after)})"
    line = old.count("\n", 0, begin)
    return "\n".join(_shift_hunk(row, line) for row in list(unified_diff(before, after, lineterm=""))[2:])


def full_diff(old: bytes, new: bytes) -> str:
    """A unified diff of two texts; empty if one is binary or the diff would take too long."""
    from difflib import unified_diff

    if b"\0" in old or b"\0" in new:
        return ""
    try:
        before, after = (decode_text(data)[0] if data else "" for data in (old, new))
    except UnicodeDecodeError:
        return ""
    rows = _split_lines(before) if before else [], _split_lines(after) if after else []
    if sum(map(len, rows)) > MAX_COMPARED_LINES:
        return ""
    return "\n".join(list(unified_diff(*rows, lineterm=""))[2:])


MAX_DIFF_CHARS = 32_000
"""Most characters of a diff that is stored with a result."""


def bounded_diff(old: bytes, new: bytes) -> str:
    """A unified diff of bounded size and cost. A line that starts with \\ says what was left out."""
    diff = full_diff(old, new) or _single_hunk(old, new)
    diff = diff.encode("utf-8", "replace").decode("utf-8")
    if len(diff) <= MAX_DIFF_CHARS:
        return diff
    cut = diff.rfind("\n", 0, MAX_DIFF_CHARS) if "\n" in diff[:MAX_DIFF_CHARS] else MAX_DIFF_CHARS
    rest = diff[cut + 1 :].split("\n")
    added, removed = (sum(row.startswith(sign) for row in rest) for sign in "+-")
    return f"{diff[:cut]}\n\\ the rest is not shown: {added} lines added, {removed} removed"


def _single_hunk(old: bytes, new: bytes) -> str:
    """A single-hunk diff of what differs between the common start and the common end of two texts."""
    if b"\0" in old:
        return "@@ -1 +1 @@\n\\ it was no text before"
    try:
        before, after = (_split_lines(decode_text(data)[0]) for data in (old, new))
    except UnicodeDecodeError:
        return "@@ -1 +1 @@\n\\ it was no text before"
    begin = end = 0
    most = min(len(before), len(after))
    while begin < most and before[begin] == after[begin]:
        begin += 1
    while end < most - begin and before[-1 - end] == after[-1 - end]:
        end += 1
    gone, come = before[begin : len(before) - end], after[begin : len(after) - end]
    head = f"@@ -{begin + 1},{len(gone)} +{begin + 1},{len(come)} @@"
    return "\n".join([head, *(f"-{row}" for row in gone), *(f"+{row}" for row in come)])


def _split_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _context_end(text: str, position: int) -> int:
    for _ in range(4):
        newline = text.find("\n", position)
        if newline < 0:
            return len(text)
        position = newline + 1
    return position


def _shift_hunk(row: str, by: int) -> str:
    """Shifts a hunk header from lines of the excerpt to lines of the file."""
    if not row.startswith("@@ "):
        return row
    _, minus, plus, _ = row.split(" ")
    return f"@@ {_shift_span(minus, by)} {_shift_span(plus, by)} @@"


def _shift_span(span: str, by: int) -> str:
    line, *rest = span[1:].split(",")
    return span[0] + ",".join([str(int(line) + by), *rest])
