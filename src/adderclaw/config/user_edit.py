"""Changes the user's own configuration file in place; its comments and everything else stay."""

import os
from collections.abc import Mapping
from typing import Any

from adderclaw.config import places
from adderclaw.errors import UsageError


def file_of(own: str) -> str:
    """The user's configuration: the file that is there, else the one to be written."""
    first, second = os.path.join(own, "config.toml"), os.path.expanduser("~/.config/adderclaw/agent.yaml")
    return second if not os.path.lexists(first) and os.path.lexists(second) else first


def choose_provider(path: str, name: str, entry: Mapping[str, str], *, autonomy: str | None = None) -> None:
    """Make the entry, and make it the default. The new file is checked before it takes the old one's place."""
    import tomlkit

    from adderclaw.config import layers

    if not path.endswith(".toml"):
        raise UsageError(f"{path} is your configuration and only TOML can be edited here: change it by hand")
    text = ""
    if os.path.lexists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    document: Any = tomlkit.parse(text)
    document["default_provider"] = name
    if autonomy is not None:
        _table(document, ("security",))["autonomy"] = autonomy
    models = _table(document, ("providers", "models"))
    if name in models:
        models[name].update(entry)
    else:
        models[name] = dict(entry)
        models[name].add(tomlkit.nl())
    trial = os.path.join(os.path.dirname(path), f".onboard-{os.getpid()}.toml")
    places.replace(trial, tomlkit.dumps(document))
    try:
        layers.compose(places.request(trial, None, "/", None))
        os.replace(trial, path)
    finally:
        if os.path.lexists(trial):
            os.unlink(trial)


def _table(document: Any, keys: tuple[str, ...]) -> Any:
    """The table of that name, made where it is missing."""
    for key in keys:
        if key not in document:
            document[key] = {}
        document = document[key]
    return document
