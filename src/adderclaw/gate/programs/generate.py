"""Writes `tables.json`, what the gate reads of `tables/*.toml`: `python -m adderclaw.gate.programs.generate`."""

import json
import os
import re
import tomllib
from typing import Any

from adderclaw.gate.programs.allowlist import FILE

FOLDER = os.path.dirname(FILE)
EXAMPLES = ("safe", "refused")


def tables() -> dict[str, dict[str, Any]]:
    """Every table as it is written, examples included, by the program's name."""
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(os.listdir(FOLDER)):
        if not name.endswith(".toml"):
            continue
        with open(os.path.join(FOLDER, name), "rb") as file:
            read = tomllib.load(file)
        shared: dict[str, str] = read.pop("shared", {})
        for program, table in read.items():
            if program in found:
                raise ValueError(f"{name}: {program} has a table already")
            found[program] = _table(table, shared)
    return found


def _text(value: str, shared: dict[str, str]) -> str:
    """On one line, with what `$name` stands for."""
    return re.sub(r"\$(\w+)", lambda match: _text(shared[match[1]], shared), " ".join(value.split()))


def _table(given: dict[str, Any], shared: dict[str, str]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, str):
            table[key] = _text(value, shared)
        elif key in ("commands", "second", "listing"):
            # One line of a table may stand for several commands.
            commands: dict[str, str] = value
            table[key] = {n: _text(text, shared) for line, text in commands.items() for n in line.split() or ("",)}
        else:
            table[key] = value
    return table


def made() -> dict[str, Any]:
    """What is written: the tables without their examples, and each further name of a program."""
    out: dict[str, Any] = {}
    for program, table in tables().items():
        for other in table.pop("also", "").split():
            out[other] = program
        out[program] = {key: value for key, value in table.items() if key not in EXAMPLES}
    return dict(sorted(out.items()))


def text() -> str:
    return json.dumps(made(), separators=(",", ":"), ensure_ascii=False) + "\n"


if __name__ == "__main__":
    with open(FILE, "w", encoding="utf-8") as written:
        written.write(text())
