"""Bytes of a file as text: encodings, line ends, numbered views, and short differences."""

from io import BytesIO
from typing import BinaryIO

from adderclaw.core.record import NamedTuple

HEAD = 8192
"""Bytes at the beginning of a file that tell text from binary."""
LINE_CHARS = 2000
LINE_BYTES = 4 * LINE_CHARS + 192
"""What is kept of a line: enough for LINE_CHARS of the widest characters."""
VIEW_CHARS = 96_000
"""Of one view, with the numbers of its lines."""
SCAN_BYTES = 256 * 1024 * 1024
"""How far into a huge file lines are counted."""

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
    """The byte order mark, kept as it was."""
    name: str


UTF8 = Encoding(b"", "utf-8")
MARKED = (
    Encoding(b"\xff\xfe", "utf-16-le"),
    Encoding(b"\xfe\xff", "utf-16-be"),
    Encoding(b"\xef\xbb\xbf", "utf-8"),
)


def encoding_of(head: bytes) -> Encoding:
    return next((encoding for encoding in MARKED if head.startswith(encoding.mark)), UTF8)


def binary_kind(head: bytes) -> str | None:
    """What kind of binary file begins so, or None for text."""
    if not encoding_of(head).name.startswith("utf-16") and b"\0" in head[:HEAD]:
        return next((kind for magic, kind in KINDS if head.startswith(magic)), "unknown kind")
    return None


def decoded(data: bytes) -> tuple[str, Encoding]:
    """Text that `encoded` turns back into exactly these bytes, also where they are not valid."""
    encoding = encoding_of(data)
    errors = "surrogateescape" if encoding.name == "utf-8" else "strict"
    return data[len(encoding.mark) :].decode(encoding.name, errors), encoding


def encoded(text: str, encoding: Encoding) -> bytes:
    errors = "surrogateescape" if encoding.name == "utf-8" else "strict"
    return encoding.mark + text.encode(encoding.name, errors)


def length(text: str, encoding: Encoding) -> int:
    """How many bytes a part of a text has."""
    return len(encoded(text, encoding)) - len(encoding.mark)


def count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


# ------------------------------------------------------------------ views


class View(NamedTuple):
    """Some lines of a file."""

    lines: list[str]
    total: int
    """Lines counted."""
    counted: bool
    """False when the file is too long to count: there are more than `total`."""
    replaced: bool
    """Some bytes were not valid UTF-8."""


def view(file: BinaryIO, offset: int, limit: int) -> View:
    """Lines `offset` (from 1) and on, at most `limit` and VIEW_CHARS of them, without holding the file."""
    lines: list[str] = []
    number, used, position = _pass_over(file, offset - 1), 0, 0
    replaced, room = False, True
    while position < SCAN_BYTES and (piece := file.readline(LINE_BYTES)):
        number += 1
        position += len(piece) + _skip_rest(file, piece)
        if not room:
            continue
        line, bad = _line(piece)
        used += len(line) + 8
        room = len(lines) < limit and (used <= VIEW_CHARS or not lines)
        if room:
            lines.append(line)
            replaced = replaced or bad
    return View(lines, number, position < SCAN_BYTES, replaced)


def _pass_over(file: BinaryIO, count: int) -> int:
    """Go on behind so many lines, however far that is; returns how many there were."""
    passed, last = 0, b"\n"
    while passed < count and (block := file.read(1 << 20)):
        found = block.count(b"\n")
        if passed + found >= count:
            at = -1
            for _ in range(count - passed):
                at = block.index(b"\n", at + 1)
            file.seek(at + 1 - len(block), 1)
            return count
        passed, last = passed + found, block[-1:]
    return passed if last == b"\n" else passed + 1  # the last line has no end


def _skip_rest(file: BinaryIO, piece: bytes) -> int:
    skipped = 0
    while len(piece) >= LINE_BYTES and not piece.endswith(b"\n") and skipped < SCAN_BYTES:
        piece = file.readline(1 << 20) or b"\n"
        skipped += len(piece)
        if len(piece) < 1 << 20:
            break
    return skipped


def _line(piece: bytes) -> tuple[str, bool]:
    text = piece.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
    if len(text) > LINE_CHARS:
        text = text[:LINE_CHARS] + f"… [line cut at {LINE_CHARS} characters]"
    return text, "\ufffd" in text and b"\xef\xbf\xbd" not in piece


def numbered(lines: list[str], first: int) -> str:
    return "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(lines, first))


def as_utf8(data: bytes) -> BinaryIO:
    """Any text file as UTF-8 without its mark, so that lines can be counted one way."""
    encoding = encoding_of(data)
    body = data[len(encoding.mark) :]
    if encoding.name.startswith("utf-16"):
        body = body.decode(encoding.name, "replace").encode("utf-8", "replace")
    return BytesIO(body)


def folded(data: bytes) -> BinaryIO:
    """UTF-8 text with its long lines as several: so that all of it can be asked for."""
    rows: list[str] = []
    for line in data.decode("utf-8", "replace").split("\n"):
        rows += [line[at : at + LINE_CHARS] for at in range(0, len(line), LINE_CHARS)] or [""]
    return BytesIO("\n".join(rows).encode("utf-8", "replace"))


# ------------------------------------------------------------------ differences


MOST_COMPARED = 4_000
"""Lines of two texts that are compared as a whole."""


def difference(old: str, new: str, start: int, length: int, added: int) -> str:
    """A unified diff around one replacement: `length` characters at `start` of `old` became `added` of `new`."""
    from difflib import unified_diff

    begin = start
    for _ in range(4):
        begin = old.rfind("\n", 0, max(begin - 1, 0)) + 1 if begin else 0
    tail = _lines_on(old, start + length)
    before = _rows(old[begin:tail])
    after = _rows(new[begin : tail + added - length])
    if len(before) + len(after) > 400:
        return f"({len(before)} lines became {len(after)})"
    line = old.count("\n", 0, begin)
    return "\n".join(_moved(row, line) for row in list(unified_diff(before, after, lineterm=""))[2:])


def whole_difference(old: bytes, new: bytes) -> str:
    """A unified diff of two whole texts; empty where one is none, or where it would take long to make."""
    from difflib import unified_diff

    if b"\0" in old or b"\0" in new:
        return ""
    try:
        before, after = (decoded(data)[0] if data else "" for data in (old, new))
    except UnicodeDecodeError:
        return ""
    rows = _rows(before) if before else [], _rows(after) if after else []
    if sum(map(len, rows)) > MOST_COMPARED:
        return ""
    return "\n".join(list(unified_diff(*rows, lineterm=""))[2:])


MOST_KEPT = 32_000
"""Characters of a difference that is kept beside a result."""


def kept_difference(old: bytes, new: bytes) -> str:
    """A unified diff in bounds, made in a time that hardly grows with the texts; \\ says what is left out."""
    made = whole_difference(old, new) or _replacement(old, new)
    made = made.encode("utf-8", "replace").decode("utf-8")
    if len(made) <= MOST_KEPT:
        return made
    cut = made.rfind("\n", 0, MOST_KEPT) if "\n" in made[:MOST_KEPT] else MOST_KEPT
    rest = made[cut + 1 :].split("\n")
    added, removed = (sum(row.startswith(sign) for row in rest) for sign in "+-")
    return f"{made[:cut]}\n\\ the rest is not kept: {added} lines added, {removed} removed"


def _replacement(old: bytes, new: bytes) -> str:
    """What stands between the beginning and the end that two texts share, as it was and as it is."""
    if b"\0" in old:
        return "@@ -1 +1 @@\n\\ it was no text before"
    try:
        before, after = (_rows(decoded(data)[0]) for data in (old, new))
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


def _rows(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _lines_on(text: str, position: int) -> int:
    for _ in range(4):
        found = text.find("\n", position)
        if found < 0:
            return len(text)
        position = found + 1
    return position


def _moved(row: str, by: int) -> str:
    """A hunk's header counts from the beginning of the excerpt: count from that of the file."""
    if not row.startswith("@@ "):
        return row
    _, minus, plus, _ = row.split(" ")
    return f"@@ {_shifted(minus, by)} {_shifted(plus, by)} @@"


def _shifted(span: str, by: int) -> str:
    line, *rest = span[1:].split(",")
    return span[0] + ",".join([str(int(line) + by), *rest])
