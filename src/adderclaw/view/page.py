"""A report as one HTML page that stands alone: view items, tables and pictures, every letter of them escaped."""

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal

from adderclaw.credentials.redaction import visible
from adderclaw.record import NamedTuple
from adderclaw.view.items import Call, Item, Notice, Words

type Tone = Literal["good", "bad", "open"]

SHOWN = 60_000
"""Characters of one text in a page; what is longer is cut, and says so."""
PICTURES = {"image/png", "image/jpeg", "image/webp", "image/gif"}
"""Shown; no other kind is (an SVG is a program)."""


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
    body = "\n".join(_drawn(block) for block in blocks)
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_line(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_line(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _drawn(block: Block) -> str:
    match block:
        case Heading():
            label = f'<span class="{block.tone or "open"}">{_line(block.label)}</span> ' if block.label else ""
            return f"<h{block.level}>{label}{_line(block.text)}</h{block.level}>"
        case Table():
            head = "".join(f'<th scope="col">{_line(one)}</th>' for one in block.head)
            rows = "".join(f"<tr>{''.join(f'<td>{_text(one)}</td>' for one in row)}</tr>" for row in block.rows)
            return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        case Line():
            return f'<p class="notice">{_line(block.label)}: {_text(block.text)}</p>'
        case Output():
            return _folded(block.title, block.text)
        case Picture():
            return _picture(block)
        case Words():
            return f'<p class="words">{_text(block.text)}</p>'
        case Notice():
            return f'<p class="notice">{_line(block.kind)}: {_text(block.text)}</p>'
        case Call():
            return _call(block)


def _call(call: Call) -> str:
    took = f" · {call.seconds:.2f} s" if call.seconds is not None else ""
    receipt = f" · receipt {call.receipt}" if call.receipt is not None else ""
    told = f"{call.tool} {call.argument} ({call.verdict}{took}{receipt})"
    given = json.dumps(call.input, indent=2, ensure_ascii=False)
    return f'<div class="call"><p>{_line(told)}</p>{_folded("input", given)}{_folded("output", call.output)}</div>'


def _folded(title: str, text: str) -> str:
    if not text:
        return f'<p class="notice">{_line(title)}: nothing</p>'
    opened = " open" if text.count("\n") < 12 and len(text) < 1_500 else ""
    return f"<details{opened}><summary>{_line(title)}</summary><pre>{_text(text)}</pre></details>"


def _picture(block: Picture) -> str:
    if block.media_type not in PICTURES:
        return f'<p class="notice">{_line(block.title)}: {_line(block.media_type)} is not shown</p>'
    data = base64.b64encode(block.data).decode("ascii")
    title = _line(block.title)
    image = f'<img alt="{title}" src="data:{block.media_type};base64,{data}">'
    return f"<figure>{image}<figcaption>{title}</figcaption></figure>"


def _text(text: str) -> str:
    left = len(text) - SHOWN
    text = text if left <= 0 else f"{text[:SHOWN]}\n[… {left} characters left out …]"
    return escape(visible(text))


def _line(text: str) -> str:
    return escape(visible(text[:2_000], keep_newlines=False))


STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border: 1px solid #8886; padding: .3rem .5rem; text-align: left; vertical-align: top; }
td { white-space: pre-wrap; overflow-wrap: anywhere; }
pre { overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .6rem; }
h2, h3 { margin-top: 2rem; }
.call { border-left: 3px solid #8886; padding-left: .8rem; margin: 1rem 0; }
.call > p { font-weight: 600; overflow-wrap: anywhere; }
.notice { opacity: .8; }
.good, .bad, .open { border-radius: .3rem; padding: .05rem .5rem; font-size: .85em; color: #fff; }
.good { background: #1a7f37; } .bad { background: #b42318; } .open { background: #6e5600; }
img { max-width: 100%; border: 1px solid #8886; }
"""
