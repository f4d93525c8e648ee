"""Draws items as lines of styled text, for the screen and the scrollback."""

from collections.abc import Iterable, Sequence

from adderclaw.agent.view.items import Call, Change, Child, Item, Line, Notice, Todo, Words
from adderclaw.core.record import NamedTuple

type Fragments = list[tuple[str, str]]
"""One line, as pairs of a style's name and a text."""

FOLDED = 4
"""How many lines of an output are shown."""
FOLDED_CHANGE = 16
"""How many lines of a change are shown."""
TAB = 4

STYLES: dict[str, str] = {
    "": "",
    "dim": "2",
    "tool": "1",
    "you": "1",
    "good": "32",
    "warn": "33",
    "bad": "31",
    "added": "32",
    "removed": "31",
    "accent": "36",
    "chosen": "7",
}
"""The SGR code of each style. Only the terminal's own 16 colours are used, so that they fit its background."""


STATE_STYLES = {"ran": "good", "failed": "bad", "denied": "bad", "unknown": "warn", "asked": "warn"}


class Marks(NamedTuple):
    """The symbols used in drawings."""

    call: str = "●"
    below: str = "⎿"
    rest: str = "…"
    pending: str = "☐"
    doing: str = "◐"
    done: str = "☑"
    cut: str = "⋮"
    dot: str = "·"


ASCII = Marks("*", "|", "...", "[ ]", "[~]", "[x]", ":", "-")
UNICODE = Marks()


class Drawing(NamedTuple):
    """How items are drawn: the width in columns, and the symbols."""

    width: int
    marks: Marks = UNICODE

    def item(self, item: Item, *, whole: bool = False) -> list[Fragments]:
        """The lines of an item; `whole` includes those that are folded otherwise."""
        match item:
            case Call():
                return self.call(item, whole=whole)
            case Notice():
                return self.notice(item)
            case Words():
                return self.words(item)

    def words(self, item: Words) -> list[Fragments]:
        """A person's message. (The model's answer is Markdown, which `markdown.py` renders.)"""
        head = "> " if item.role == "user" else ""
        rows = [row for line in item.text.split("\n") for row in self.flowed(line, self.width - 2)]
        return [[("you", head if not number else "  "), ("you", row)] for number, row in enumerate(rows)]

    def notice(self, item: Notice) -> list[Fragments]:
        style = {"note": "dim", "warning": "warn", "error": "bad"}[item.kind]
        rows = self.flowed(" ".join(item.text.split()), self.width - 2)
        return [[(style, f"{self.marks.dot if not number else ' '} {row}")] for number, row in enumerate(rows)]

    # -------------------------------------------------------------- calls

    def call(self, call: Call, *, whole: bool = False, above: bool = False) -> list[Fragments]:
        """`above`: whether its change is already in the scrollback."""
        lines = [self.head(call)]
        if call.state == "denied" or call.asked:
            lines += [[("dim", "  "), ("dim", row)] for row in self.flowed(self._why(call), self.width - 2) if row]
        if call.todos:
            return lines + self.todos(call.todos)
        if call.change is not None:
            return lines + self.change(call.change, whole=whole)[: 1 if above else None]
        if call.child is not None:
            lines.append(self._child(call.child, call))
        if call.progress and not call.ended:
            lines.append([("dim", self.cut(f"  {self.marks.below} {call.progress}", self.width))])
        return lines + (self.output(call.output, whole=whole) if call.ended and call.state != "denied" else [])

    def head(self, call: Call) -> Fragments:
        """The first line of a call: its tool, its argument, its outcome and its duration."""
        style = STATE_STYLES.get(call.state, "dim") if not call.exit_code else "warn"
        short = {"denied": f"denied by {call.by or 'the policy'}", "asked": "asks"}.get(call.state, call.verdict)
        short = short.replace("·", self.marks.dot)
        took = f" {self.marks.dot} {call.seconds:.1f} s" if call.seconds is not None and call.seconds >= 0.05 else ""
        tail = f" {self.marks.dot} {short}{took}"
        room = max(self.width - cell_width(call.tool) - 3 - cell_width(tail), 8)
        argument = f" {self.cut(call.argument, room)}" if call.argument else ""
        line: Fragments = [(style, f"{self.marks.call} "), ("tool", call.tool), ("", argument), (style, tail)]
        return self.fitted(line)

    def _why(self, call: Call) -> str:
        """The reason why a call was denied or asked about."""
        asked = f"asked: {call.why}" if call.asked and call.why else ""
        if call.state != "denied":
            return asked
        return f" {self.marks.dot} ".join(part for part in (call.comment, asked or call.why) if part)

    def output(self, text: str, *, whole: bool = False) -> list[Fragments]:
        rows = [row for line in text.strip("\n").split("\n") for row in self.wrapped(line, self.width - 4)]
        rows = rows if text.strip() else []
        shown = rows if whole or len(rows) <= FOLDED + 1 else rows[:FOLDED]
        lines: list[Fragments] = [
            [("dim", f"  {self.marks.below if not number else ' '} "), ("dim", row)] for number, row in enumerate(shown)
        ]
        if len(shown) < len(rows):
            lines.append([("dim", f"    {self.marks.rest} {len(rows) - len(shown)} more lines (Ctrl-O shows all)")])
        return lines

    def change(self, change: Change, *, whole: bool = False) -> list[Fragments]:
        """A change of a file as numbered lines."""
        count = [
            f"{number} line{'' if number == 1 else 's'} {what}"
            for number, what in ((change.added, "added"), (change.removed, "removed"))
            if number
        ]
        lines: list[Fragments] = [[("dim", f"  {self.marks.below} {', '.join(count) or 'nothing changed'}")]]
        shown = change.lines if whole or len(change.lines) <= FOLDED_CHANGE + 1 else change.lines[:FOLDED_CHANGE]
        lines += self.changed(shown)
        if len(shown) < len(change.lines):
            rest = len(change.lines) - len(shown)
            lines.append([("dim", f"    {self.marks.rest} {rest} more lines (Ctrl-O shows all)")])
        return lines

    def changed(self, rows: Sequence[Line]) -> list[Fragments]:
        digits = max((len(str(row.number)) for row in rows), default=1)
        return [line for row in rows for line in self._changed_line(row, digits)]

    def _changed_line(self, row: Line, digits: int) -> list[Fragments]:
        if row.kind == "@":
            rows = self.flowed(f"{self.marks.cut} {row.text}".rstrip(), self.width - digits - 5)
            return [[("dim", f"    {' ' * digits} {part}")] for part in rows]
        style = {"+": "added", "-": "removed", " ": "dim"}[row.kind]
        parts = self.wrapped(row.text, self.width - digits - 7)
        return [
            [
                ("dim", f"    {row.number if not number else '':>{digits}} "),
                (style, f"{row.kind if not number else ' '} {part}"),
            ]
            for number, part in enumerate(parts)
        ]

    def _child(self, child: Child, call: Call) -> Fragments:
        calls = f"{child.calls} call{'' if child.calls == 1 else 's'}"
        last = child.last if not call.ended else "Ctrl-O shows them" if child.calls else ""
        summary = f" {self.marks.dot} ".join(part for part in (child.kind, calls, last) if part)
        return [("dim", self.cut(f"  {self.marks.below} {summary}", self.width))]

    def todos(self, todos: Sequence[Todo]) -> list[Fragments]:
        looks = {
            "pending": (self.marks.pending, ""),
            "in_progress": (self.marks.doing, "accent"),
            "completed": (self.marks.done, "dim"),
        }
        return [
            [(style, self.cut(f"  {mark} {todo.text}", self.width))]
            for todo in todos
            for mark, style in (looks[todo.status],)
        ]

    # -------------------------------------------------------------- width

    def fitted(self, line: Fragments) -> Fragments:
        left = self.width
        fitted: Fragments = []
        for style, text in line:
            part = self.cut(text, left)
            fitted.append((style, part))
            left -= cell_width(part)
            if left <= 0:
                break
        return fitted

    def cut(self, text: str, width: int) -> str:
        text = text.expandtabs(TAB)
        if cell_width(text) <= width:
            return text
        mark = self.marks.rest
        return (
            _first(text, max(width - cell_width(mark), 0)) + mark
            if width > cell_width(mark)
            else _first(text, max(width, 0))
        )

    def flowed(self, text: str, width: int) -> list[str]:
        """Breaks text into rows between words if possible; the blanks at the breaks are dropped."""
        text, width = text.expandtabs(TAB), max(width, 4)
        rows: list[str] = []
        while cell_width(text) > width:
            row = _first(text, width) or text[0]
            at = row.rfind(" ") if text[len(row)] != " " else len(row)
            if at <= 0 or (at < width // 3 and cell_width(text[at + 1 :].split(" ", 1)[0]) > width):
                at = row.rfind("/", width // 3) + 1  # a path longer than a row is broken after a folder
            row = row[:at] if at > 0 else row
            rows.append(row)
            text = text[len(row) :].removeprefix(" ")
        return [*rows, text]

    def wrapped(self, text: str, width: int) -> list[str]:
        """Breaks text into rows at any character, so that every character is shown."""
        text, width = text.expandtabs(TAB), max(width, 4)
        if cell_width(text) <= width:
            return [text]
        rows: list[str] = []
        while text:
            row = _first(text, width) or text[0]
            rows.append(row)
            text = text[len(row) :]
        return rows


def cell_width(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return sum(map(get_cwidth, text))


def _first(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    from prompt_toolkit.utils import get_cwidth

    for index, letter in enumerate(text):
        width -= get_cwidth(letter)
        if width < 0:
            return text[:index]
    return text


def ansi(lines: Iterable[Fragments], *, colours: bool) -> str:
    """Lines as text with SGR codes."""

    def styled(style: str, text: str) -> str:
        code = STYLES[style]
        return f"\x1b[{code}m{text}\x1b[0m" if colours and code and text.strip() else text

    return "".join("".join(styled(*part) for part in line).rstrip() + "\n" for line in lines)
