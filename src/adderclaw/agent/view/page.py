"""A report as one HTML page that stands alone: items, tables and pictures, every letter of them escaped."""

from collections.abc import Iterable, Sequence
from typing import Literal

from adderclaw.agent.view.items import Item
from adderclaw.core.record import NamedTuple

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
    """The page of every report. It loads nothing, runs nothing and reaches nobody: its policy allows its own style."""
    import base64
    import hashlib

    from markupsafe import Markup

    from adderclaw.agent.view import markup

    style = markup.style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return markup.render("report.html", title=title, blocks=list(blocks), digest=digest, style=Markup(style))  # noqa: S704 - a file of ours
