"""Changes of the operator's own file, by one process at a time, all else in it kept as it is written."""

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
"""Takes the file's table, a TOML document or plain JSON, and changes it."""


def file_of(home: str) -> str:
    """The operator's configuration: the file that is there, else the one to be written."""
    first, second = os.path.join(home, home_names.CONFIG), os.path.expanduser("~/.config/adderclaw/agent.yaml")
    return second if not os.path.lexists(first) and os.path.lexists(second) else first


def choose_provider(home: str, name: str, entry: Mapping[str, str], *, autonomy: str | None = None) -> str:
    """Make the entry of a model, and make it the default; a file that would be wrong then stays as it was."""
    if not (path := file_of(home)).endswith(".toml"):
        raise UsageError(f"{path} is your configuration and only TOML can be edited here: change it by hand")

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
    """Keep how a person likes the terminal (`[repl]`)."""
    if not (path := file_of(home)).endswith(".toml"):
        raise UsageError(f"{path} is your configuration and only TOML can be edited here: set repl.{key} in it")

    def change(document: Any) -> None:
        import tomlkit

        table = _table(document, "repl")
        if not hasattr(table, "items"):
            raise ConfigError([Problem(path, "repl", "must be a table of keys and values")])
        table[key] = value
        check(home, tomlkit.dumps(document), path)

    return edit(home, change)


def count_foreign(home: str) -> str:
    """Let the settings of another program count, too (`[compat] claude = true`)."""

    def change(document: Any) -> None:
        _table(document, "compat")["claude"] = True

    return edit(home, change)


def check(home: str, text: str, path: str) -> None:
    """Raise ConfigError where the file `path` would be wrong with this text."""
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
    """The table of that name, made where it is missing."""
    for key in keys:
        if key not in document:
            document[key] = {}
        document = document[key]
    return document


def edit(home: str, change: Change) -> str:
    """Change the file and say which one that is."""
    path = os.path.join(home, home_names.CONFIG)
    yaml = os.path.expanduser("~/.config/adderclaw/agent.yaml")
    if not os.path.exists(path) and os.path.exists(yaml):
        # A config.toml would take the place of that file: what is ours goes beside it.
        path = os.path.join(home, home_names.SETTINGS)
        with _locked(home, path):
            return _json(path, change)
    return edit_toml(home, path, change)


def edit_toml(home: str, path: str, change: Change) -> str:
    """Change one TOML file, and keep its comments and its mode."""
    with _locked(home, path):
        return _toml(path, change)


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
    """Write the file that a path leads to whole or not at all; it keeps its mode."""
    real = os.path.realpath(path)
    mode = stat.S_IMODE(os.stat(real).st_mode) if os.path.exists(real) else 0o600
    places.replace(real, text, mode)


def _toml(path: str, change: Change) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse((places.read(path) or b"").decode())
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None
    change(document)
    _replace(path, tomlkit.dumps(document))
    return path


def _json(path: str, change: Change) -> str:
    try:
        document: Any = json.loads(places.read(path) or b"{}")
    except ValueError as error:
        raise _unreadable(path, error) from None
    if not isinstance(document, dict):
        raise ConfigError([Problem(path, "", "must be a table of keys and values")])
    change(cast(Any, document))
    _replace(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return path


def _unreadable(path: str, error: Exception) -> ConfigError:
    return ConfigError([Problem(path, "", f"cannot be changed, since it cannot be read: {error}")])
