"""Fills the tables of docs/REPL.md from the program: keys, commands, and what became of the reference's names."""

import json
import re
import sys
from pathlib import Path

from adderclaw.channels import elsewhere
from adderclaw.channels.cli.print_flags import FLAGS
from adderclaw.channels.repl.slash import command_line
from adderclaw.channels.repl.slash.key_help import KEYS
from adderclaw.channels.repl.slash.table import ROWS, SLASH

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "REPL.md"
REFERENCE = json.loads((ROOT / "tests" / "acceptance" / "reference_names.json").read_text(encoding="utf-8"))
BLOCK = re.compile(r"(<!-- table: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    cells = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in cells)


def keys() -> str:
    return table(("keys", "what they do"), [(name, does) for name, does in KEYS])


def commands() -> str:
    def names(aliases: tuple[str, ...]) -> str:
        return " ".join(f"`/{name}`" for name in aliases)

    rows = [(f"`{row.usage}`", names(row.aliases), row.help, "yes" if row.at_once else "") for row in ROWS]
    return table(("command", "also", "what it does", "while a turn runs"), rows)


def reference() -> str:
    rows: list[tuple[str, ...]] = []
    for name in sorted(REFERENCE["commands"]):
        if name in SLASH:
            row = SLASH[name]
            rows.append((f"`/{name}`", "works", row.help if row.name == name else f"`/{row.name}`"))
        else:
            rows.append((f"`/{name}`", *elsewhere.COMMANDS[name]))
    return table(("command", "here", "how, instead, or why"), rows)


def flags() -> str:
    here = {name: ("works", flag.help) for flag in FLAGS for name in flag.names}
    here |= {name: ("no effect", flag.no_effect) for flag in FLAGS for name in flag.names if flag.no_effect}
    here |= {"--version": ("works", "The version.")}
    rows: list[tuple[str, ...]] = [
        (f"`{name}`", *(here.get(name) or elsewhere.FLAGS[name]))
        for name in sorted(REFERENCE["flags"], key=lambda name: name.lstrip("-"))
    ]
    return table(("flag", "here", "how, instead, or why"), rows)


def subcommands() -> str:
    rows: list[tuple[str, ...]] = [
        (f"`{name}`", "works", f"`adderclaw {name}`")
        if name not in elsewhere.SUBCOMMANDS and command_line.has(name.split())
        else (f"`{name}`", *elsewhere.SUBCOMMANDS[name])
        for name in sorted(REFERENCE["subcommands"])
    ]
    return table(("command", "here", "how, instead, or why"), rows)


TABLES = {
    "keys": keys,
    "commands": commands,
    "reference": reference,
    "subcommands": subcommands,
    "flags": flags,
}


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)
    if "--check" in sys.argv[1:]:
        sys.exit(None if made == text else f"{PAGE} is not what the program says: run scripts/generate_repl_page.py")
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
