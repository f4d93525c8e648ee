"""Splits streamed Markdown into finished blocks, and renders them for the terminal."""

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
    from rich.console import Console, ConsoleOptions, RenderResult

LONG_LINES = 40
"""A fence or a list with more lines is finished in parts, because it would be redrawn with every word."""
LONG_CHARS = 8_000
"""Of a longer block, the part that cannot change any more is finished."""
SHORT_CHARS = 500
"""An unfinished block up to this size is parsed at each new line; a longer one when it has grown by an eighth."""


class Block(NamedTuple):
    """A finished part of an answer, as Markdown."""

    source: str
    follows: bool = False
    """Whether it continues the previous block, without an empty line between."""


def tail_lines(block: Block) -> Block:
    """The end of a long block, which is more than a screen can show."""
    if len(block.source) <= LONG_CHARS:
        return block
    end, fence = block.source[-LONG_CHARS:], _FENCE.match(block.source)
    return Block((fence[0] if fence else "") + end[end.find("\n") + 1 :], follows=True)


class Stream:
    """Takes an answer in parts of any length and returns its blocks."""

    def __init__(self) -> None:
        self._open = ""
        self._new = GrowingText()
        """Text added since `_open` was parsed."""
        self._size = self._parse_from = 0
        """The size of both, and the size at which they are parsed again."""
        self._fence = ""
        """The opening line of a fence that is finished in part."""
        self._inside = False
        """Whether a part of the current block is finished."""

    @property
    def rest(self) -> Block:
        """The unfinished block."""
        return Block(f"{self._fence}{self._open}{self._new}", self._inside)

    def feed(self, text: str) -> list[Block]:
        """Adds text; returns the blocks that it finishes."""
        self._new.add(text)
        self._size += len(text)
        if self._size < self._parse_from or ("\n" not in text and self._size < LONG_CHARS):
            return []
        blocks = self._finished()
        self._size = len(self._open)
        self._parse_from = self._size * 9 // 8 if self._size > SHORT_CHARS else 0
        return blocks

    def end(self) -> list[Block]:
        """Ends the answer; returns the remaining blocks."""
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
        """Finishes all blocks but the last."""
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
        """The beginning of a long block, as far as it cannot change any more."""
        if block.type == "fence":
            return self._part_of_fence(block)
        if block.type in ("bullet_list_open", "ordered_list_open"):
            items = [match.start() for match in _ITEM.finditer(self._open)]
            return self._finish_until(items[-1]) if self._open.count("\n") > LONG_LINES and len(items) > 1 else None
        if block.type == "paragraph_open" and len(self._open) > LONG_CHARS:
            cut = self._open.rfind(" ", 0, len(self._open) - 200) + 1 or len(self._open) - 200
            return self._finish_until(cut)
        return None

    def _part_of_fence(self, block: "Token") -> Block | None:
        head, newline, body = (self._fence + self._open).partition("\n")
        if not newline or body.count("\n") <= LONG_LINES:
            return None
        cut = body.rindex("\n") + 1  # the last line may become the end of the fence
        last = body[:cut].rindex("\n", 0, -1) + 1
        self._open, self._fence = body[last:], head + newline
        finished = Block(f"{head}\n{body[:last]}{block.markup}\n", self._inside)
        self._inside = True
        return finished

    def _finish_until(self, cut: int) -> Block:
        finished, self._open = Block(self._open[:cut], self._inside), self._open[cut:]
        self._inside = True
        return finished


_ITEM = re.compile(r"(?m)^(?:[-*+]|\d{1,9}[.)])[ \t]")


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


# ------------------------------------------------------------------ rendering


class RenderStyle(NamedTuple):
    """How Markdown is drawn: the width, colours, whether links can be followed, and the theme of code."""

    width: int
    colours: bool = True
    links: bool = False
    code: str = "ansi_dark"
    plain: bool = False
    """Whether to use only ASCII."""


def render(block: Block, style: RenderStyle) -> str:
    """A block as text for the terminal, with an empty line before it unless it continues the previous block."""
    source = visible(block.source).strip("\n")
    fence = _FENCE.match(source)
    text = _code(source, fence, style) if fence is not None else _prose(source, style)
    return text if block.follows else f"\n{text}"


_FENCE = re.compile(r"\A {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n]*\n")


def _code(source: str, fence: re.Match[str], style: RenderStyle) -> str:
    lines = source[fence.end() :].splitlines()
    if lines and lines[-1].strip().startswith(fence[1]) and not lines[-1].strip().strip(fence[1][0]):
        lines.pop()
    body = "\n".join(lines)
    if style.colours and body.strip():
        body = _highlighted(body, fence[2], style)
    return "".join(f"  {line}\n" for line in body.split("\n"))


def _highlighted(code: str, language: str, style: RenderStyle) -> str:
    from rich.syntax import Syntax
    from rich.text import Text

    theme = "ansi_light" if style.code == "ansi_light" else "ansi_dark"
    text: Text = Syntax("", language or "text", theme=theme, background_color="default").highlight(code)
    text.rstrip()
    out = StringIO()
    _console(out, style._replace(width=100_000)).print(text, end="", soft_wrap=True)
    return out.getvalue()


def _prose(source: str, style: RenderStyle) -> str:
    from rich.markdown import Heading, Markdown

    out = StringIO()

    class LeftHeading(Heading):
        """Rich's own is centred, and in a box."""

        def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
            self.text.justify = "left"
            self.text.stylize("bold")
            yield self.text

    markdown = Markdown(source, hyperlinks=style.links)
    markdown.elements = {**Markdown.elements, "heading_open": LeftHeading}  # pyright: ignore[reportAttributeAccessIssue] - a class variable that an instance may have
    _make_visible(markdown.parsed)
    _console(out, style).print(markdown)
    lines = [_closed(_PADDING.sub("", line)) for line in out.getvalue().split("\n")]
    text = "\n".join(lines).strip("\n") + "\n"
    return _ascii(text) if style.plain else text


def _make_visible(tokens: "list[Token]") -> None:
    """Cleans the parsed text, because character references such as `&#x202e;` are resolved only by the parser."""
    for token in tokens:
        token.content = visible(token.content)
        _make_visible(token.children or [])


_PADDING = re.compile(r"(?: |(?:\x1b\[[\d;]*m)(?= ))+(?=(?:\x1b\[0m)?$)")


def _closed(line: str) -> str:
    """Resets the style at the end of a line that lost its reset with its padding, so that it does not leak."""
    last = line.rfind("\x1b[")
    return line if last < 0 or line.startswith("\x1b[0m", last) else f"{line}\x1b[0m"


def _ascii(text: str) -> str:
    return text.translate(str.maketrans({"•": "*", "─": "-", "━": "=", "│": "|", "▌": "|", "┃": "|"}))


def _console(out: StringIO, style: RenderStyle) -> "Console":
    from rich.console import Console

    return Console(
        file=out,
        width=max(style.width, 10),
        force_terminal=style.colours or style.links,
        color_system="standard" if style.colours else None,
        no_color=not style.colours,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
