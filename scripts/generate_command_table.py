"""Fills the table of every command and its options in docs/commands.md from the program; `--check` only compares."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from adderclaw.terminal.commands.common import app_of
from adderclaw.terminal.commands.table import COMMANDS
from adderclaw.terminal.legacy.print_flags import FLAGS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
BLOCK = re.compile(r"(<!-- table: options -->\n).*?(<!-- end -->)", re.DOTALL)
EVERYWHERE = {"--help", "--install-completion", "--show-completion"}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by the words that call it."""
    for name, command in COMMANDS.items():
        found: Any = get_command(app_of(import_module(f"adderclaw.terminal.commands.{command.module}")))
        if isinstance(found, TyperGroup) and name in found.commands:
            found = found.commands[name]
        if not isinstance(found, TyperGroup):
            yield name, found
            continue
        for inner, leaf in found.commands.items():
            yield f"{name} {inner}", leaf


def options(command: Any) -> list[str]:
    named = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    return ["/".join((*param.opts, *param.secondary_opts)) for param in named if not EVERYWHERE & {*param.opts}]


def rows() -> Iterator[tuple[str, list[str]]]:
    yield "(none)", ["/".join(flag.names) for flag in FLAGS]
    for name, command in commands():
        yield name, options(command)


def table() -> str:
    lines = [
        f"| {f'`{name}`' if name != '(none)' else 'none: `-p`, or the REPL'} | {shown(of)} |" for name, of in rows()
    ]
    return "\n".join(("| command | options |", "|---|---|", *lines, ""))


def shown(names: list[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = BLOCK.sub(lambda found: f"{found[1]}{table()}{found[2]}", text)
    if "--check" in sys.argv[1:]:
        sys.exit(
            None if made == text else f"{PAGE} is not what the program says: run scripts/generate_command_table.py"
        )
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
