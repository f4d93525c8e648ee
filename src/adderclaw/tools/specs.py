"""What is advertised of each built-in tool, read in one go from the generated `schemas.json`."""

import json
import os
from functools import cache

from adderclaw.types import ToolSpec

FILE = os.path.join(os.path.dirname(__file__), "schemas.json")


@cache
def specs() -> dict[str, ToolSpec]:
    with open(FILE, encoding="utf-8") as file:
        return {name: ToolSpec(name, **spec) for name, spec in json.load(file).items()}


def spec(name: str) -> ToolSpec:
    return specs()[name]
