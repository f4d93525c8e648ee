"""Description and schema of each built-in tool, read from the generated `schemas.json` without importing the tool."""

import json
import os
from functools import cache

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

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
