"""A report as one HTML page that stands alone: view items, tables and pictures, every letter of them escaped."""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Literal

from adderclaw.agent.view.html import PICTURES, SHOWN, Html, alone, document, el, many, picture
from adderclaw.agent.view.html_items import folded, item
from adderclaw.agent.view.items import Item
from adderclaw.core.record import NamedTuple

__all__ = ["PICTURES", "SHOWN", "Block", "Heading", "Line", "Output", "Picture", "Table", "Tone", "drawn", "page"]

type Tone = Literal["good", "bad", "open"]


class Heading(NamedTuple):
    text: str
    level: Literal[1, 2, 3] = 2
    tone: Tone | None = None
    """Colours a label in front of it; the words alone say the same."""
    label: str = ""


class Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Line(NamedTuple):
    """One fact under its label."""

    label: str
    text: str


class Output(NamedTuple):
    """A text as it came, folded where it is long."""

    title: str
    text: str


class Picture(NamedTuple):
    title: str
    media_type: str
    data: bytes


type Block = Heading | Table | Line | Output | Picture | Item


def page(title: str, blocks: Iterable[Block]) -> str:
    """The one shell of every report. It loads nothing, runs nothing and reaches nobody."""
    body = el("main", el("h1", title), [drawn(block) for block in blocks], class_="report")
    return document(alone(title, _style()), body)


@cache
def _style() -> str:
    return resources.files(__package__ or "").joinpath("style.css").read_text("utf-8")


def drawn(block: Block) -> Html:
    """One block as markup."""
    match block:
        case Heading():
            label = el("span", block.label, class_=f"badge {block.tone or 'open'}") if block.label else None
            return el(f"h{block.level}", label, " " if label else None, block.text)
        case Table():
            head = el("tr", [el("th", one, scope="col") for one in block.head])
            rows = [el("tr", [el("td", one) for one in row]) for row in block.rows]
            return el("table", el("thead", head), el("tbody", rows))
        case Line():
            return el("p", f"{block.label}: {block.text}", class_="quiet")
        case Output():
            return folded(block.title, block.text)
        case Picture():
            return _picture(block)
        case _:
            return item(block)


def _picture(block: Picture) -> Html:
    if block.media_type not in PICTURES:
        return el("p", f"{block.title}: {block.media_type} is not shown", class_="quiet")
    return el("figure", many(picture(block.title, block.media_type, block.data)), el("figcaption", block.title))
