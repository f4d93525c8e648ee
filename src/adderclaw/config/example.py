"""The files that `init` and `config init` write."""

import json
import os

from adderclaw.config.places import home
from adderclaw.errors import UsageError


def _text(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def own() -> str:
    """The user's config.toml."""
    place, user = home(), os.path.expanduser("~")
    shown = "~" + place[len(user) :] if place.startswith(user + os.sep) else place
    # as the inside of a TOML string; our other braces are none
    return _text("own.toml").replace("{home}", json.dumps(shown, ensure_ascii=False)[1:-1])


def of_project(path: str) -> str:
    """A project's file, in the syntax of the path's suffix."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".yaml", ".yml"):
        return _text("project.yaml")
    if suffix not in (".json", ".toml"):
        raise UsageError(f"{path}: the suffix {suffix!r} is not known; allowed: .yaml, .yml, .toml, .json")
    import yaml

    table = yaml.safe_load(_text("project.yaml"))
    if suffix == ".json":
        return json.dumps(table, indent=2) + "\n"
    import tomlkit

    return tomlkit.dumps(table)
