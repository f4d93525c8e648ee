"""Markdown while it arrives: blocks that are finished are handed out once, and only the last one may still change."""

import re
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING

from adderclaw.core.deltas import GrowingText
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console

LONG = 40
"""Lines from which on a fence or a list is handed out in parts: it would be drawn anew with every word otherwise."""
WIDE = 8_000
"""Characters of one block that is drawn as it arrives; of a longer one the part that cannot change is handed out."""
SHORT = 500
"""Characters of an unfinished block that is parsed at each new line; a longer one only when it grew by an eighth."""


class Block(NamedTuple):
    """A finished part of an answer, as Markdown."""

    source: str
    follows: bool = False
    """It goes on with the block before it: nothing stands between the two."""


def tail_lines(block: Block) -> Block:
    """The end of a long block: as much of it as a screen can show while it arrives."""
    if len(block.source) <= WIDE:
        return block
    end, fence = block.source[-WIDE:], _FENCE.match(block.source)
    return Block((fence[0] if fence else "") + end[end.find("\n") + 1 :], follows=True)


class Stream:
    """Takes an answer in parts of any length. All blocks, one after the other, are the answer."""

    def __init__(self) -> None:
        self._open = ""
        self._new = GrowingText()
        """What came since `_open` was parsed last."""
        self._size = self._parse_from = 0
        """Characters of both; at which size they are parsed again."""
        self._fence = ""
        """The line that opened the fence of which a part was handed out."""
        self._inside = False
        """A part of the block at hand was handed out."""

    @property
    def rest(self) -> Block:
        """What may still change."""
        return Block(f"{self._fence}{self._open}{self._new}", self._inside)

    def feed(self, text: str) -> list[Block]:
        """The blocks that are finished by it."""
        self._new.add(text)
        self._size += len(text)
        if self._size < self._parse_from or ("\n" not in text and self._size < WIDE):
            return []
        blocks = self._finished()
        self._size = len(self._open)
        self._parse_from = self._size * 9 // 8 if self._size > SHORT else 0
        return blocks

    def end(self) -> list[Block]:
        """The answer is over: all that is left."""
        left = [*self._finished(), self.rest]
        self._open, self._fence, self._inside = "", "", False
        self._size = self._parse_from = 0
        return [block for block in left if block.source.strip()]

    def _finished(self) -> list[Block]:
        self._open += str(self._new)
        self._new.clear()
        blocks: list[Block] = []
        while True:
            tokens = [token for token in _parser().parse(self._fence + self._open) if not token.level and token.map]
            starts = [token for token in tokens if token.nesting >= 0]
            if len(starts) > 1:
                blocks += self._cut_before(starts)
            elif starts and (part := self._part(starts[0])):
                blocks.append(part)
            else:
                return blocks

    def _cut_before(self, starts: "list[Token]") -> list[Block]:
        """All but the last block."""
        lines = (self._fence + self._open).splitlines(keepends=True)
        places = [token.map[0] for token in starts if token.map]
        blocks: list[Block] = []
        for begin, end in pairwise(places):
            source = "".join(lines[begin:end])
            blocks.append(Block(source, self._inside))
            self._inside = False
        self._open, self._fence = "".join(lines[places[-1] :]), ""
        return [block for block in blocks if block.source.strip()]

    def _part(self, block: "Token") -> Block | None:
        """The beginning of a long block, up to where it cannot change any more."""
        if block.type == "fence":
            return self._of_fence(block)
        if block.type in ("bullet_list_open", "ordered_list_open"):
            return self._of_list()
        if block.type == "paragraph_open" and len(self._open) > WIDE:
            cut = self._open.rfind(" ", 0, len(self._open) - 200) + 1 or len(self._open) - 200
            return self._handed_out(cut)
        return None

    def _of_fence(self, block: "Token") -> Block | None:
        head, newline, body = (self._fence + self._open).partition("\n")
        if not newline or body.count("\n") <= LONG:
            return None
        cut = body.rindex("\n") + 1  # the last line may be the beginning of the fence's end
        last = body[:cut].rindex("\n", 0, -1) + 1
        self._open, self._fence = body[last:], head + newline
        finished = Block(f"{head}\n{body[:last]}{block.markup}\n", self._inside)
        self._inside = True
        return finished

    def _of_list(self) -> Block | None:
        if self._open.count("\n") <= LONG:
            return None
        items = [match.start() for match in _ITEM.finditer(self._open)]
        return self._handed_out(items[-1]) if len(items) > 1 else None

    def _handed_out(self, cut: int) -> Block:
        finished, self._open = Block(self._open[:cut], self._inside), self._open[cut:]
        self._inside = True
        return finished


_ITEM = re.compile(r"(?m)^(?:[-*+]|\d{1,9}[.)])[ \t]")


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


# ------------------------------------------------------------------ as text of a terminal


class RenderStyle(NamedTuple):
    """How Markdown is drawn: columns, colours, whether links can be followed, and which style code has."""

    width: int
    colours: bool = True
    links: bool = False
    code: str = "ansi_dark"
    plain: bool = False
    """ASCII alone."""


def render(block: Block, look: RenderStyle) -> str:
    """A block as lines for the terminal, with an empty line before it unless it goes on with the one before."""
    source = visible(block.source).strip("\n")
    fence = _FENCE.match(source)
    text = _code(source, fence, look) if fence is not None else _prose(source, look)
    return text if block.follows else f"\n{text}"


_FENCE = re.compile(r"\A {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n]*\n")


def _code(source: str, fence: re.Match[str], look: RenderStyle) -> str:
    lines = source[fence.end() :].splitlines()
    if lines and lines[-1].strip().startswith(fence[1]) and not lines[-1].strip().strip(fence[1][0]):
        lines.pop()
    body = "\n".join(lines)
    if look.colours and body.strip():
        body = _highlighted(body, fence[2], look)
    return "".join(f"  {line}\n" for line in body.split("\n"))


def _highlighted(code: str, language: str, look: RenderStyle) -> str:
    from rich.syntax import Syntax
    from rich.text import Text

    theme = "ansi_light" if look.code == "ansi_light" else "ansi_dark"
    text: Text = Syntax("", language or "text", theme=theme, background_color="default").highlight(code)
    text.rstrip()
    out = StringIO()
    _console(out, look._replace(width=100_000)).print(text, end="", soft_wrap=True)
    return out.getvalue()


def _prose(source: str, look: RenderStyle) -> str:
    from rich.markdown import Markdown

    from adderclaw.terminal.repl.rich_parts import Headings

    out = StringIO()
    elements = {**Markdown.elements, "heading_open": Headings}
    markdown = Markdown(source, hyperlinks=look.links)
    markdown.elements = elements  # pyright: ignore[reportAttributeAccessIssue] - a class variable that an instance may have
    _make_visible(markdown.parsed)
    _console(out, look).print(markdown)
    lines = [_closed(_PADDING.sub("", line)) for line in out.getvalue().split("\n")]
    text = "\n".join(lines).strip("\n") + "\n"
    return _ascii(text) if look.plain else text


def _make_visible(tokens: "list[Token]") -> None:
    """References such as `&#x202e;` are characters only now."""
    for token in tokens:
        token.content = visible(token.content)
        _make_visible(token.children or [])


_PADDING = re.compile(r"(?: |(?:\x1b\[[\d;]*m)(?= ))+(?=(?:\x1b\[0m)?$)")


def _closed(line: str) -> str:
    """A line that lost its end with its padding ends its style all the same: what comes next is not the model's."""
    last = line.rfind("\x1b[")
    return line if last < 0 or line.startswith("\x1b[0m", last) else f"{line}\x1b[0m"


def _ascii(text: str) -> str:
    return text.translate(str.maketrans({"•": "*", "─": "-", "━": "=", "│": "|", "▌": "|", "┃": "|"}))


def _console(out: StringIO, look: RenderStyle) -> "Console":
    from rich.console import Console

    return Console(
        file=out,
        width=max(look.width, 10),
        force_terminal=look.colours or look.links,
        color_system="standard" if look.colours else None,
        no_color=not look.colours,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
