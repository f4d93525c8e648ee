"""Fills the tables of keys and slash commands in docs/repl.md from the program."""

import re
import sys
from pathlib import Path

from adderclaw.terminal.repl.slash.reports import KEYS
from adderclaw.terminal.repl.slash.table import ROWS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "repl.md"
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


TABLES = {"keys": keys, "commands": commands}


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)
    if "--check" in sys.argv[1:]:
        sys.exit(None if made == text else f"{PAGE} is not what the program says: run scripts/generate_repl_page.py")
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
