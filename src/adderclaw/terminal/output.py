"""The formats of a command's output, and how JSON is printed."""

import json
from typing import Literal

Format = Literal["text", "json"]
StreamFormat = Literal["text", "json", "stream-json"]


def print_json(value: object) -> None:
    """One object on one line: what a program reads."""
    print(json_line(value), flush=True)  # a stream is read while it goes on


def json_line(value: object) -> str:
    """Where it comes to a terminal after all, nothing in it steers that."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not text.isprintable():  # the escapes are JSON's own: whoever reads them gets what was there
        text = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    return text
