"""Fills the tables of docs/security.md from the lists that the program itself reads; `--check` only compares."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

from adderclaw.policy.case import CommandDenial
from adderclaw.sandbox import seen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "security.md"
LATER = ROOT / "src" / "adderclaw" / "config" / "later.toml"
REASONS = {
    "forbidden": "the program, or one that it starts, is in `forbidden_commands` (`rm`, `sudo` …)",
    "destructive": "the plan destroys: `rm -rf /`, `mkfs`, `dd if=`, `shutdown`, a fork bomb, a download that is run;"
    " or it cannot be checked whole (more than 100,000 characters, or deeply nested commands)",
    "protected": "it writes AdderClaw's own files or settings, a git directory, or what programs run later",
    "outside": "it names a path outside the workspace, or one of `forbidden_paths`",
    "no sandbox": "only a sandbox could hold it, and none is on: inline code, options that a table does not know",
    "not listed": "the program has no table; `allowed_commands` or a permission rule allows it",
}
WRITE = {"denied": "; Write and Edit are denied", "reported": "; written as any other file, and reported"}
BLOCK = r"(<!-- table: {name} -->\n).*?(<!-- end -->)"


def seen_table() -> list[tuple[str, str]]:
    return [
        ("programs and libraries", listed(seen.SYSTEM)),
        ("settings in `/etc`", listed((*seen.FILES, *seen.FOLDERS))),
        ("the kernel's counts", listed(seen.KERNEL[:3]) + " and the limits of control groups"),
        ("toolchains", "the folders of PATH, the Python that runs us, the stores of version managers"),
        (
            "the session's own",
            "`/tmp`, `/var/tmp`, an empty home, `/run`, `/dev` without devices, `/proc` of its own processes",
        ),
        ("read-only by your word", "`[sandbox] read_paths`, programs of configured MCP servers, your skills"),
    ]


def reasons_table() -> list[tuple[str, str]]:
    return [(reason, REASONS[reason]) for reason in get_args(CommandDenial.__value__)]


def later_table() -> list[tuple[str, str]]:
    groups: dict[str, dict[str, Any]] = tomllib.loads(LATER.read_text(encoding="utf-8"))
    rows: list[tuple[str, str]] = []
    for name, group in groups.items():
        every = (*group.get("names", ()), *group.get("pairs", ()), *(f"*{end}" for end in group.get("suffixes", ())))
        write = WRITE.get(group.get("write", ""), "")
        shown = listed((*every, *group.get("installed", ())))
        rows.append((name.replace("_", " "), f"{shown}{write}"))
    return rows


def listed(names: tuple[str, ...]) -> str:
    return " ".join(f"`{name}`" for name in names)


TABLES = {
    "seen": (("what", "which"), seen_table),
    "reasons": (("reason", "meaning"), reasons_table),
    "later": (("group", "names"), later_table),
}


def filled(page: str) -> str:
    for name, (head, rows) in TABLES.items():
        lines = [f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {left} | {right} |" for left, right in rows())]
        text = "\n".join(lines)
        page = re.sub(
            BLOCK.format(name=name), lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page, flags=re.DOTALL
        )
    return page


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    wanted = filled(page)
    if "--check" in sys.argv[1:]:
        return 0 if page == wanted else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
