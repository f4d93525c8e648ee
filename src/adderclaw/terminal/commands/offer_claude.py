"""Asks at `onboard` whether what the operator keeps in `~/.claude` shall count here, too."""

import os
import sys

from adderclaw.config import home, load, operator_file
from adderclaw.config.places import foreign_homes
from adderclaw.terminal.operators import STDIN

WHAT = ("settings.json", "commands", "skills", "agents")


def offer(by_flag: bool | None) -> None:
    """`wanted` is the answer where it was given by a flag; nobody is asked twice, nor where there is nothing."""
    folders = [folder for folder in foreign_homes(True) if any(os.path.lexists(os.path.join(folder, n)) for n in WHAT)]
    if not folders or by_flag is False or load(config_file=operator_file.file_of(home())).config.compat.claude:
        return
    if by_flag is None:
        by_flag = sys.stdin.isatty() and _asked(folders[0])
    if by_flag:
        print(f"{operator_file.enable_foreign_settings(home())}: {folders[0]} counts here, too (docs/compatibility.md)")
    else:
        print(f"{folders[0]} does not count here; `[compat] claude = true` in your configuration would change that")


def _asked(folder: str) -> bool:
    STDIN.discard_typed()
    question = f"Shall the rules, hooks, commands, skills and agents in {folder} count here, too? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
