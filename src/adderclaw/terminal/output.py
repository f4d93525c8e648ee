"""The output formats of commands, and printing JSON."""

import json
from typing import Literal

Format = Literal["text", "json"]
StreamFormat = Literal["text", "json", "stream-json"]


def print_json(value: object) -> None:
    """Prints one object on one line, for programs."""
    print(json_line(value), flush=True)  # streams are read while they are written


def json_line(value: object) -> str:
    """An object as one line of JSON without control characters: it may end up on a terminal."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not text.isprintable():  # JSON's own escapes: a parser reads the original text
        text = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    return text
