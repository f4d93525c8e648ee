"""Generates the content of `tables.json` from `tables/*.toml`: parsing the TOML at every start would take 80 ms.

`make setup` and the build of a wheel write the file with `python -m adderclaw.policy.legacy.programs.generate`; git
ignores it.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from adderclaw.policy.legacy.programs.allowlist import FILE

FOLDER = os.path.dirname(FILE)
EXAMPLES = ("safe", "refused")
OTHERS = ("lists", "forms", "values")
"""Tables that are of no program: lists of other names, forms made of them, and the values that variables may have."""


def _files() -> Iterator[dict[str, Any]]:
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".toml"):
            with open(os.path.join(FOLDER, name), "rb") as file:
                yield tomllib.load(file)


def tables() -> dict[str, dict[str, Any]]:
    """Every table as it is written, examples included, by the program's name."""
    found: dict[str, dict[str, Any]] = {}
    for read in _files():
        shared: dict[str, str] = read.pop("shared", {})
        for program, table in read.items():
            if program in found:
                raise ValueError(f"{program} has two tables")
            if program not in OTHERS:
                found[program] = _table(table, shared)
    return found


def others() -> dict[str, dict[str, str]]:
    """In a form `$name` is one of a list; a value is one form, or several of flags with blanks between them."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in OTHERS}
    for read in _files():
        for kind in OTHERS:
            found[kind] |= read.get(kind, {})
    lists = {name: " ".join(text.split()) for name, text in found["lists"].items()}

    def filled(form: str | list[str]) -> str:
        whole = form if isinstance(form, str) else rf" *(?:(?:{'|'.join(form)})(?: +|\Z))*"
        return re.sub(r"\$(\w+)", lambda match: f"(?:{'|'.join(lists[match[1]].split())})", whole)

    forms = {name: filled(form) for name, form in found["forms"].items()}
    values = {name: filled(form) for line, form in found["values"].items() for name in line.split()}
    return {"lists": lists, "forms": forms, "values": values}


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
    if "configs" in table:
        # A program's own configuration is code, too: under the names that it usually has, in a folder of the project.
        named = "|".join(map(re.escape, table.pop("config").split()))
        table.setdefault("pairs", {})[named] = rf"(?!/|~|.*\.\.)(?:[\w.@-]+/)*(?:{table.pop('configs')})"
    return table


def made() -> dict[str, Any]:
    """What is written: the tables without their examples, and each further name of a program."""
    out: dict[str, Any] = {}
    for program, table in tables().items():
        for other in table.pop("also", "").split():
            if other in out:
                raise ValueError(f"{other} has two tables")
            out[other] = program
        out[program] = {key: value for key, value in table.items() if key not in EXAMPLES}
    return dict(sorted(out.items()))


def content() -> dict[str, Any]:
    return {"programs": made(), **others()}


def write() -> None:
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump(content(), file, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    write()
