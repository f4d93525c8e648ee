"""Parses TOML, YAML and JSON, chosen by the file's suffix, into tables. Syntax errors have line and column."""

import re
from collections.abc import Callable, Hashable
from typing import Any, cast

from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.types import Json

ALIASES = 32
"""Most YAML aliases in a file: few enough that their expansion stays small."""
DEPTH = 32
VALUES = 100_000


def parse(path: str, data: bytes) -> Json:
    """The file's table; raises ConfigError."""
    suffix = path.rsplit(".", 1)[-1].lower()
    reader = _READERS.get(suffix)
    if reader is None:
        raise _failure(path, f"the suffix .{suffix} is not known; allowed: {', '.join('.' + s for s in _READERS)}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise _failure(path, f"line {line}, column {column}: not UTF-8") from None
    try:
        value = reader(path, text)
    except RecursionError:
        raise _failure(path, "is nested too deeply") from None
    except ValueError as error:  # such as a number with thousands of digits, or a YAML tag that does not fit its text
        raise _failure(path, str(error)) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _failure(path, f"must be a table of keys and values, not a {type(value).__name__}")
    walk = _Walk(path)
    plain = walk.plain("", value, DEPTH)
    if walk.problems:
        raise ConfigError(walk.problems)
    return plain


def _failure(path: str, message: str) -> ConfigError:
    return ConfigError([Problem(path, "", message)])


class _Walk:
    """Converts a parsed value to JSON types, requires text keys and limits what aliases expand to."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.left = VALUES

    def plain(self, key: str, value: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise _failure(self.path, f"has more than {VALUES} values")
        if depth == 0:
            return self._refuse(key, f"is nested more than {DEPTH} deep")
        if isinstance(value, dict):
            return self._table(key, cast(dict[Any, Any], value), depth)
        if isinstance(value, list):
            items = enumerate(cast(list[Any], value))
            return [self.plain(f"{key}[{index}]", item, depth - 1) for index, item in items]
        if value is None or isinstance(value, str | int | float | bool):
            return value
        if hasattr(value, "isoformat"):  # TOML's dates and times
            return value.isoformat()
        return self._refuse(key, f"a value of type {type(value).__name__} is not allowed")

    def _table(self, key: str, table: dict[Any, Any], depth: int) -> Json:
        plain: Json = {}
        for name, item in table.items():
            inner = f"{key}.{name}" if key else str(name)
            if not isinstance(name, str):
                self._refuse(inner, f"the key must be text, not {name!r}; put it in quotes")
            plain[str(name)] = self.plain(inner, item, depth - 1)
        return plain

    def _refuse(self, key: str, message: str) -> None:
        self.problems.append(Problem(self.path, key, message))


# ------------------------------------------------------------------ the three syntaxes


def _toml(path: str, text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error), re.DOTALL)
        message, line, column = match.groups() if match else (str(error), None, None)
        if line is None:
            lines = text.split("\n")
            line, column = len(lines), len(lines[-1]) + 1
        raise _failure(path, f"line {line}, column {column}: {message}") from None


class _Repeated(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    table: Json = {}
    for key, value in pairs:
        if key in table:
            raise _Repeated(key)
        table[key] = value
    return table


def _json(path: str, text: str) -> Any:
    import json

    try:
        return json.loads(text, object_pairs_hook=_unique) if text.strip() else None
    except json.JSONDecodeError as error:
        raise _failure(path, f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except _Repeated as error:
        places = [match.start() for match in re.finditer(re.escape(json.dumps(str(error))), text)]
        line = text[: places[-1]].count("\n") + 1 if places else 1
        column = places[-1] - text.rfind("\n", 0, places[-1]) if places else 1
        raise _failure(path, f"line {line}, column {column}: the key {str(error)!r} is given twice") from None


def _yaml(path: str, text: str) -> Any:
    import yaml
    from yaml.constructor import ConstructorError

    class Loader(yaml.SafeLoader):
        aliases = 0

        def get_event(self) -> Any:
            event: Any = cast(Any, super()).get_event()
            if isinstance(event, yaml.AliasEvent):
                self.aliases += 1
                if self.aliases > ALIASES:
                    raise ConstructorError(None, None, f"more than {ALIASES} aliases", cast(Any, event).start_mark)
            return event

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[Any] = set()
            for key, _value in node.value if isinstance(node, yaml.MappingNode) else ():
                if key.tag == "tag:yaml.org,2002:merge":
                    raise ConstructorError(None, None, "merge keys (<<) are not supported", key.start_mark)
                name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)
                if name in seen:
                    raise ConstructorError(None, None, f"the key {key.value!r} is given twice", key.start_mark)
                seen.add(name)
            return super().construct_mapping(node, deep)

        def flatten_mapping(self, node: Any) -> None:
            """Merge keys are refused above."""

    # dates stay text
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise _failure(path, f"{position}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise _failure(path, " ".join(str(error).split())) from None


_READERS: dict[str, Callable[[str, str], Any]] = {"toml": _toml, "yaml": _yaml, "yml": _yaml, "json": _json}
