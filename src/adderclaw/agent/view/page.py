"""A report as blocks: items, tables and images; rendered as one self-contained HTML page, as Markdown or as text."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from adderclaw.agent.view.items import Item, Words
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible

type Tone = Literal["good", "bad", "open"]


class Heading(NamedTuple):
    text: str
    level: Literal[1, 2, 3] = 2
    tone: Tone | None = None
    """The colour of the label; the label's text alone has the same meaning."""
    label: str = ""


class Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Line(NamedTuple):
    """One fact with its label."""

    label: str
    text: str


class Output(NamedTuple):
    """Unchanged text, folded if it is long."""

    title: str
    text: str


class Picture(NamedTuple):
    title: str
    media_type: str
    data: bytes


type Block = Heading | Table | Line | Output | Picture | Item


def page(title: str, blocks: Iterable[Block]) -> str:
    """Render a report as HTML. Its content security policy allows only its own style: no scripts, no requests."""
    import base64
    import hashlib

    from markupsafe import Markup

    from adderclaw.agent.view import markup

    style = markup.style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return markup.render("report.html", title=title, blocks=list(blocks), digest=digest, style=Markup(style))  # noqa: S704 - our own file


CELL = 60
"""Characters of one cell of a table in a terminal."""


def markdown(title: str, blocks: Iterable[Block]) -> str:
    return "\n\n".join([f"# {_line(title)}", *filter(None, map(_marked, blocks))]) + "\n"


def _marked(block: Block) -> str:
    match block:
        case Heading():
            label = f"{_line(block.label)}: " if block.label else ""
            return f"{'#' * block.level} {label}{_line(block.text)}"
        case Table():
            rows = [block.head, ["---"] * len(block.head), *block.rows]
            return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)
        case Output():
            shown = f":\n\n{fenced(visible(block.text))}" if block.text else ": nothing"
            return f"{_line(block.title)}{shown}"
        case Line():
            return f"{_line(block.label)}: {_line(block.text)}"
        case Words():
            return visible(block.text)
        case Picture():
            return f"{_line(block.title)}: a picture"
        case _:
            return ""


def _cell(text: str) -> str:
    """The text in one line, escaped so that it cannot end the cell or open a tag."""
    shown = visible(text).strip().replace("&", "&amp;").replace("<", "&lt;")
    return shown.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def ticks(text: str, least: int) -> str:
    """Enough backticks that no backticks in the text can close the block."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def fenced(text: str, language: str = "") -> str:
    """The text as a fenced block, so that none of it is read as Markdown."""
    fence = ticks(text, 3)
    return "\n".join((f"{fence}{language}", text.rstrip("\n"), fence))


def _line(text: str) -> str:
    return visible(text, keep_newlines=False)


def lines(title: str, blocks: Iterable[Block]) -> str:
    """Render a report as text for a terminal: tables in columns, output indented."""
    return "\n".join([_line(title), *(line for block in blocks for line in _drawn(block))]) + "\n"


def _drawn(block: Block) -> list[str]:
    match block:
        case Heading():
            label = f" [{_line(block.label)}]" if block.label else ""
            return ["", f"{_line(block.text)}{label}"]
        case Table():
            return _columns([list(block.head), *map(list, block.rows)])
        case Output():
            printed = visible(block.text).rstrip("\n").split("\n") if block.text else []
            return [f"  {_line(block.title)}:{'' if printed else ' nothing'}", *(f"    {line}" for line in printed)]
        case Line():
            return [f"  {_line(block.label)}: {_line(block.text)}"]
        case Words():
            return [visible(block.text)]
        case _:
            return []


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    cut = [[_short(_line(cell)) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in cut) for at in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cut
    ]


def _short(text: str) -> str:
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"
