"""Fills `${path}` in a hook's settings with parts of the event."""

import re
from typing import Any, cast

from adderclaw.core.types import Json
from adderclaw.storage.text import compact

_PATH = re.compile(r"\$\{([A-Za-z0-9_.\-]+)\}")


def fill_template(value: Any, fields: Json) -> Any:
    """Replaces `${tool_input.file_path}` and the like in all texts of a value; missing fields become empty."""
    if isinstance(value, str):
        return _PATH.sub(lambda match: _text(_value_at(fields, match[1].split("."))), value)
    if isinstance(value, list):
        return [fill_template(item, fields) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {name: fill_template(item, fields) for name, item in cast(Json, value).items()}
    return value


def _value_at(node: Any, path: list[str]) -> Any:
    for name in path:
        if isinstance(node, dict):
            node = cast(Json, node).get(name)
        elif isinstance(node, list) and name.isascii() and name.isdigit() and int(name) < len(cast(list[Any], node)):
            node = cast(list[Any], node)[int(name)]
        else:
            return None
    return node


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else compact(value)
