"""Description and schema of each built-in tool, read from the generated `schemas.json` without importing the tool."""

import json
import os
from collections.abc import Callable
from functools import cache
from typing import Any, cast

from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Alias, Json, Prepare, Tool

FILE = os.path.join(os.path.dirname(__file__), "schemas.json")


class Spec(NamedTuple):
    name: str
    description: str
    parameters: Json
    aliases: tuple[Json, ...] = ()
    deferred: bool = False


@cache
def specs() -> dict[str, Spec]:
    with open(FILE, encoding="utf-8") as file:
        return {name: Spec(name, **spec) for name, spec in json.load(file).items()}


def spec(name: str) -> Spec:
    return specs()[name]


def builtin_tool[A](
    name: str,
    arguments: type[A],
    prepare: Prepare[A],
    aliases: tuple[Alias, ...] = (),
    *,
    timeout: Callable[[A], float] = lambda _arguments: 30.0,
    decode: Callable[[Json], A] | None = None,
    deferred: bool = False,
    usable: bool = True,
) -> Tool[A]:
    """A tool with its description and schema from `schemas.json`."""
    known = spec(name)
    return Tool(
        name, arguments, prepare, known.description, known.parameters, aliases, timeout, decode, deferred, usable
    )


def visible_schema(value: Any) -> Any:
    """A third party's schema with all invisible characters in its texts shown."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [visible_schema(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {visible(str(key)): visible_schema(item) for key, item in cast(Json, value).items()}
    return value
