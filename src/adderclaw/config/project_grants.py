"""Rules that the operator always allows in a project, stored by folder in the operator's own file."""

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

from adderclaw.config.checks import is_rule
from adderclaw.config.paths import UNRESOLVED, followed
from adderclaw.config.places import read, replace
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, ConfigError

type Table = dict[str, list[str]]
"""A project's folder, links followed → its rules, oldest first."""


def place(home: str) -> str:
    return os.path.join(home, home_names.GRANTS)


def known(home: str, data: bytes | None = None) -> Table:
    """Read the grants. An invalid file, or an invalid rule in it, grants nothing."""
    try:
        value: Any = json.loads((read(place(home)) if data is None else data) or b"{}")
    except (ValueError, ConfigError):
        return {}
    listed = cast(dict[str, Any], value).items() if isinstance(value, dict) else ()
    rows = {folder: cast(list[Any], rules) for folder, rules in listed if isinstance(rules, list)}
    return {
        folder: [rule for rule in rules if isinstance(rule, str) and is_rule(rule)] for folder, rules in rows.items()
    }


def of(table: Table, folder: str) -> list[str]:
    """The rules of exactly this folder. Its subfolders and parents are other projects."""
    real = followed(folder)
    return table.get(real, []) if real != UNRESOLVED else []


def add(home: str, folder: str, rules: Sequence[str]) -> str:
    """Always allow these rules in the project; returns the path of the grants file."""
    return _change(home, folder, lambda before: [*dict.fromkeys((*before, *rules))])


def remove(home: str, folder: str, rule: str) -> bool:
    """Remove a rule; False if it did not exist."""
    exists = rule in of(known(home), folder)
    if exists:
        _change(home, folder, lambda before: [granted for granted in before if granted != rule])
    return exists


def _change(home: str, folder: str, change: Callable[[list[str]], list[str]]) -> str:
    """Change the rules of a project under a lock."""
    path, real = place(home), followed(folder)
    if real == UNRESOLVED:
        raise AdderClawError(f"{folder} cannot be resolved, so no rules can be stored for it")
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        with open(os.path.join(home, home_names.CONFIG_LOCK), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = known(home)
            table[real] = change(table.get(real, []))
            nonempty = {name: rules for name, rules in table.items() if rules}
            replace(path, json.dumps(nonempty, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    except OSError as error:
        raise AdderClawError(f"{path} cannot be written: {error.strerror}") from error
    return path
