"""Fills the table of docs/api.md from the endpoints themselves; `--check` only compares."""

import re
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from adderclaw.server import app, openapi
from adderclaw.server.endpoint import Endpoint

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
BLOCK = re.compile(r"(<!-- table: endpoints -->\n).*?(<!-- end -->)", re.DOTALL)


def table() -> str:
    every = [one for one in app.all_endpoints(openai=True) if not one.is_page]
    every.append(openapi.endpoint(every))
    rows = ["| request | scope | takes | |", "|---|---|---|---|", *map(row, every)]
    return "\n".join(rows) + "\n"


def row(one: Endpoint) -> str:
    path = re.sub(r":\w+}", "}", one.path)
    scope = "" if one.scope == "open" else one.scope if one.reach else f"{one.scope}, whole machine"
    return f"| `{one.method} {path}` | {scope} | {taken(one)} | {one.summary} |"


def taken(one: Endpoint) -> str:
    """The names of the query or the body; of the OpenAI-compatible ones those that do something."""
    if one.takes is None:
        return ""
    shown = [spec for spec in fields(one.takes) if one.scope != "openai" or spec.type is not Any]
    names = [
        f"`{spec.name}`" + (" (needed)" if spec.default is MISSING is spec.default_factory else "") for spec in shown
    ]
    return ", ".join(names)


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    made = BLOCK.sub(lambda found: f"{found[1]}\n{table()}\n{found[2]}", page)
    if "--check" in sys.argv:
        return int(made != page)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
