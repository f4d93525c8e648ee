"""Edits the operator's own configuration file under a lock, preserving everything else in it."""

import json
import os
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from adderclaw.config import places
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, ConfigError, Problem, UsageError

type Change = Callable[[Any], None]
"""Modifies the file's table, which is a TOML document or plain JSON."""


def file_of(home: str) -> str:
    """The path of the operator's configuration: the existing file, or else the one to create."""
    first, second = os.path.join(home, home_names.CONFIG), os.path.expanduser("~/.config/adderclaw/agent.yaml")
    return second if not os.path.lexists(first) and os.path.lexists(second) else first


def choose_provider(home: str, name: str, entry: Mapping[str, str], *, autonomy: str | None = None) -> str:
    """Create a provider entry and make it the default. If the result would be invalid, the file is not changed."""
    if not (path := file_of(home)).endswith(".toml"):
        raise UsageError(f"{path} is your configuration, but only TOML can be edited automatically; edit it by hand")

    def change(document: Any) -> None:
        import tomlkit

        document["default_provider"] = name
        if autonomy is not None:
            _table(document, "security")["autonomy"] = autonomy
        models = _table(document, "providers", "models")
        if name in models:
            models[name].update(entry)
        else:
            models[name] = dict(entry)
            models[name].add(tomlkit.nl())
        check(home, tomlkit.dumps(document), path)

    return edit(home, change)


def prefer(home: str, key: str, value: str) -> str:
    """Save a terminal preference (`[repl]`)."""
    if not (path := file_of(home)).endswith(".toml"):
        raise UsageError(
            f"{path} is your configuration, but only TOML can be edited automatically; set repl.{key} by hand"
        )

    def change(document: Any) -> None:
        import tomlkit

        table = _table(document, "repl")
        if not hasattr(table, "items"):
            raise ConfigError([Problem(path, "repl", "must be a table of keys and values")])
        table[key] = value
        check(home, tomlkit.dumps(document), path)

    return edit(home, change)


def enable_foreign_settings(home: str) -> str:
    """Enable the settings of another program (`[compat] claude = true`)."""

    def change(document: Any) -> None:
        _table(document, "compat")["claude"] = True

    return edit(home, change)


def check(home: str, text: str, path: str) -> None:
    """Raise ConfigError if the file `path` would be invalid with this text."""
    from adderclaw.config import layers

    trial = os.path.join(home, f".trial-{os.getpid()}.toml")
    places.replace(trial, text)
    try:
        layers.compose(places.request(trial, None, "/", None))
    except ConfigError as error:
        raise ConfigError(
            [problem._replace(file=problem.file.replace(trial, path)) for problem in error.problems]
        ) from None
    finally:
        os.unlink(trial)


def _table(document: Any, *keys: str) -> Any:
    """The table of that name, created if missing."""
    for key in keys:
        if key not in document:
            document[key] = {}
        document = document[key]
    return document


def edit(home: str, change: Change) -> str:
    """Edit the operator's file; returns its path."""
    path = os.path.join(home, home_names.CONFIG)
    yaml = os.path.expanduser("~/.config/adderclaw/agent.yaml")
    if not os.path.exists(path) and os.path.exists(yaml):
        # A config.toml would override that file, so write to settings.json instead.
        path = os.path.join(home, home_names.SETTINGS)
        with _locked(home, path):
            try:
                document: Any = json.loads(places.read(path) or b"{}")
            except ValueError as error:
                raise _unreadable(path, error) from None
            if not isinstance(document, dict):
                raise ConfigError([Problem(path, "", "must be a table of keys and values")])
            change(cast(Any, document))
            _replace(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
            return path
    return edit_toml(home, path, change)


def edit_toml(home: str, path: str, change: Change) -> str:
    """Edit a TOML file, preserving its comments and its mode."""
    with _locked(home, path):
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            document: Any = tomlkit.parse((places.read(path) or b"").decode())
        except (TOMLKitError, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from None
        change(document)
        _replace(path, tomlkit.dumps(document))
        return path


@contextmanager
def _locked(home: str, path: str) -> Generator[None]:
    import fcntl

    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        with open(os.path.join(home, home_names.CONFIG_LOCK), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise AdderClawError(f"{path} cannot be written: {error.strerror}") from error


def _replace(path: str, text: str) -> None:
    """Replace the file that a path resolves to atomically, preserving its mode."""
    real = os.path.realpath(path)
    mode = stat.S_IMODE(os.stat(real).st_mode) if os.path.exists(real) else 0o600
    places.replace(real, text, mode)


def _unreadable(path: str, error: Exception) -> ConfigError:
    return ConfigError([Problem(path, "", f"cannot be changed, because it cannot be read: {error}")])
