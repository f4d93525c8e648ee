"""The files that `init` and `config init` write."""

import json
import os

from adderclaw.core.errors import UsageError


def _text(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def own() -> str:
    """The user's config.toml."""
    return _text("own.toml")


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
