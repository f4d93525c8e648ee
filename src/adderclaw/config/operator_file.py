"""Changes of the operator's own file, by one process at a time, all else in it kept as it is written."""

import json
import os
from collections.abc import Callable
from typing import Any, cast

from adderclaw.config import places
from adderclaw.errors import AdderClawError, ConfigError, Problem

type Change = Callable[[Any], None]
"""Takes the file's table, a TOML document or plain JSON, and changes it."""


def edit(home: str, change: Change) -> str:
    """Change the file and say which one that is."""
    import fcntl

    os.makedirs(home, mode=0o700, exist_ok=True)
    with open(os.path.join(home, "config.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = os.path.join(home, "config.toml")
        yaml = os.path.expanduser("~/.config/adderclaw/agent.yaml")
        try:
            if not os.path.exists(path) and os.path.exists(yaml):
                # A config.toml would take the place of that file: what is ours goes beside it.
                path = os.path.join(home, "settings.json")
                return _json(path, change)
            return _toml(path, change)
        except OSError as error:
            raise AdderClawError(f"{path} cannot be written: {error.strerror}") from error


def _toml(path: str, change: Change) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse((places.read(path) or b"").decode())
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None
    change(document)
    places.replace(path, tomlkit.dumps(document))
    return path


def _json(path: str, change: Change) -> str:
    try:
        document: Any = json.loads(places.read(path) or b"{}")
    except ValueError as error:
        raise _unreadable(path, error) from None
    if not isinstance(document, dict):
        raise ConfigError([Problem(path, "", "must be a table of keys and values")])
    change(cast(Any, document))
    places.replace(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return path


def _unreadable(path: str, error: Exception) -> ConfigError:
    return ConfigError([Problem(path, "", f"cannot be changed, since it cannot be read: {error}")])
