"""The blocks of a report as Markdown, and as lines for a terminal: the same that `page` draws."""

import re
from collections.abc import Iterable, Sequence

from adderclaw.agent.view.items import Words
from adderclaw.agent.view.page import Block, Heading, Line, Output, Picture, Table
from adderclaw.core.redaction import visible

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
    """One line, in which nothing ends the cell and nothing is a tag."""
    shown = visible(text).strip().replace("&", "&amp;").replace("<", "&lt;")
    return shown.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def ticks(text: str, least: int) -> str:
    """So many backticks that nothing in the text can end what they frame."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def fenced(text: str, language: str = "") -> str:
    """As it is: nothing in it is Markdown."""
    fence = ticks(text, 3)
    return "\n".join((f"{fence}{language}", text.rstrip("\n"), fence))


def _line(text: str) -> str:
    return visible(text, keep_newlines=False)


def lines(title: str, blocks: Iterable[Block]) -> str:
    """For a terminal: tables in columns, what tests printed indented."""
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
