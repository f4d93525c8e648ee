"""Sets and unsets a setting in a TOML file, with types from the schema. The result is checked before it is written."""

import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast, get_args, get_origin

from adderclaw.config import checks, managed, operator_file
from adderclaw.config.leaves import get
from adderclaw.config.places import PROJECT_FILES, Request
from adderclaw.config.schema import Config
from adderclaw.config.trust.folders import leads_out
from adderclaw.core.decode import Invalid, decode, literals, plain_type, short_json, unknown_key_hint
from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import MARK, Secrets, looks_secret
from adderclaw.core.types import Json

PROJECT_FILE = "agent.toml"


class Setting(NamedTuple):
    """A key of the schema, with its type."""

    path: tuple[str, ...]
    kind: Any

    @property
    def key(self) -> str:
        return ".".join(self.path)


# ------------------------------------------------------------------ keys and values


def setting(key: str) -> Setting:
    """The setting of a key as TOML writes it: `a.b`, or `a."b.c"`. UsageError says what is wrong with the key."""
    if looks_secret(key):
        raise UsageError(
            "the name of the setting looks like a secret; put keys and tokens in a variable and name it in api_key_env"
        )
    path = _path(key)
    if path[0] == "managed":
        raise UsageError(f"{key}: {managed.ONLY_HERE}")
    kind: Any = Config
    for depth, part in enumerate(path):
        base, here = plain_type(kind), ".".join(path[:depth])
        if is_dataclass(base):
            kinds = {spec.name: spec.type for spec in fields(cast(Any, base))}
            if part not in kinds:
                where = f"{here} has no key" if here else "there is no setting"
                raise UsageError(f"{where} {part[:60]!r}{unknown_key_hint(part, [*kinds])}")
            kind = kinds[part]
        elif get_origin(base) is dict:
            kind = get_args(base)[1]
        else:
            raise UsageError(f"{here} is a single value without keys; leave out .{'.'.join(path[depth:])}")
    return Setting(path, kind)


def _path(key: str) -> tuple[str, ...]:
    try:
        table: Any = tomllib.loads(f"{key} = 0") if "\n" not in key else {}
    except tomllib.TOMLDecodeError:
        table = {}
    path: list[str] = []
    while isinstance(table, dict) and len(cast(Json, table)) == 1:
        ((part, table),) = cast(Json, table).items()
        path.append(part)
    if not path or table != 0:
        raise UsageError(f'{key[:80]!r} is not a key such as limits.tokens or providers.models."my model".model')
    return tuple(path)


def every_key() -> Iterator[str]:
    """Every key of the schema that has a fixed name, for completion."""
    yield from _keys(Config, "")


def _keys(kind: Any, prefix: str) -> Iterator[str]:
    for spec in fields(kind):
        base = plain_type(spec.type)
        if is_dataclass(base):
            yield from _keys(base, f"{prefix}{spec.name}.")
        elif get_origin(base) is not dict:
            yield f"{prefix}{spec.name}"


def choices(kind: Any) -> list[str]:
    """The allowed words of a setting; empty if it is not restricted to certain words."""
    return ["true", "false"] if plain_type(kind) is bool else [str(word) for word in literals(kind)]


def parsed(of: Setting, words: Sequence[str]) -> Any:
    """The value of a setting from the words of a command line; raises UsageError with the allowed values."""
    base = plain_type(of.kind)
    if is_dataclass(base):
        raise UsageError(
            f"{of.key} is a table; set its keys: {', '.join(spec.name for spec in fields(cast(Any, base)))}"
        )
    if get_origin(base) is dict:
        raise UsageError(f"{of.key} is a table; set one of its entries: {of.key}.NAME")
    if get_origin(base) is list and not (len(words) == 1 and words[0].startswith("[")):
        value: Any = list(words)
    elif len(words) != 1:
        raise UsageError(f"{of.key} takes one value, not {len(words)}; put text with spaces in quotes")
    else:
        value = words[0] if base is str or literals(of.kind) else _literal(words[0])
    secret = checks.secrets({of.path[-1]: value} | ({"env": {of.path[-1]: value}} if of.path[0] == "env" else {}))
    if secret:
        raise UsageError(f"{of.key}: {next(iter(secret.values()))}")
    if of.path[0] == "permissions" and (bad := [rule for rule in _rules(value) if not checks.is_rule(rule)]):
        raise UsageError(f"{of.key}: {bad[0]!r} is not a permission rule such as Bash(make *)")
    try:
        decode(of.kind, value)
    except Invalid as error:
        raise UsageError(f"{of.key}: {'; '.join(message for _, message in error.problems)}") from None
    return value


def _literal(word: str) -> Any:
    """A number, boolean or list in TOML syntax; any other text is returned unchanged, for the schema to check."""
    try:
        return tomllib.loads(f"value = {word}")["value"] if "\n" not in word else word
    except tomllib.TOMLDecodeError:
        return word


def _rules(value: Any) -> list[str]:
    return [rule for rule in cast(list[Any], value) if isinstance(rule, str)] if isinstance(value, list) else []


def public(of: Setting, value: Any) -> Any:
    """A value for display; masks the same values as `config show`."""
    hidden = {"env", "headers"}.intersection(of.path[:-1]) or of.path[-1] == "url"
    return MARK if hidden and value is not None else Secrets().clean(value)


# ------------------------------------------------------------------ the file


def file_to_edit(request: Request, *, of_project: bool) -> str:
    """The operator's config.toml, or the agent.toml of the project here."""
    if not of_project:
        path = operator_file.file_of(request.home)
        if not path.endswith(".toml"):
            raise UsageError(
                f"{path} is your configuration, but only TOML can be edited automatically; edit it by hand"
            )
        return path
    project = request.project or request.cwd
    first = next((name for name in PROJECT_FILES if os.path.lexists(os.path.join(project, name))), PROJECT_FILE)
    path = os.path.join(project, first)
    if first != PROJECT_FILE:
        raise UsageError(
            f"{path} is the project's configuration, but only TOML can be edited automatically; edit it by hand"
        )
    if leads_out(project, first):
        raise UsageError(f"{path} is a link that leads out of the project: change the file itself")
    return path


def put(home: str, path: str, of: Setting, value: Any) -> str:
    """Write a setting; returns the text of the file. Raises ConfigError, without a change, if the result would be
    invalid."""

    def change(document: Any) -> None:
        table = document
        for depth, part in enumerate(of.path[:-1]):
            if part not in table:
                table[part] = {}
            table = table[part]
            if not hasattr(table, "items"):
                raise UsageError(
                    f"{path}: {'.'.join(of.path[: depth + 1])} is {short_json(table)}, not a table: correct it"
                )
        table[of.path[-1]] = value

    return _edited(home, path, of, change, value)


def remove(home: str, path: str, of: Setting) -> str:
    """Remove a setting, or an entry of a table, from the file; raises UsageError if the file does not set it."""

    def change(document: Any) -> None:
        table: Any = document
        for part in of.path[:-1]:
            table = table.get(part) if hasattr(table, "items") else None
        if not hasattr(table, "items") or of.path[-1] not in table:
            raise UsageError(f"{of.key} is not set in {path}; `adderclaw config show --origin` says where it is from")
        del table[of.path[-1]]

    return _edited(home, path, of, change, None)


def _edited(home: str, path: str, of: Setting, change: operator_file.Change, value: Any) -> str:
    text = ""

    def whole(document: Any) -> None:
        import tomlkit

        nonlocal text
        change(document)
        text = tomlkit.dumps(document)
        if get(tomllib.loads(text), of.path) != value:
            raise UsageError(f"{path} writes {of.key} in a form that cannot be edited automatically; edit it by hand")
        operator_file.check(home, text, path)

    operator_file.edit_toml(home, path, whole)
    return text
