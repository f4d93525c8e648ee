"""Items as JSON and back, for exports, HTTP and streams."""

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, cast

from adderclaw.agent.view.items import Call, Item, Line, Notice, Todo, Words
from adderclaw.core.decode import Invalid, decode, json_schema
from adderclaw.core.types import Json

KINDS: dict[str, type[Item]] = {"words": Words, "call": Call, "notice": Notice}
"""`type` → the kind of item."""

DEEPEST = 64
"""Levels of a call's input that are sent; deeper values are left out, because a model could nest them without limit."""


# ------------------------------------------------------------------ out


def item_to_json(item: Item) -> Json:
    """An item with its `type`, without fields that are None. A call also has its `verdict` as text."""
    fields = {"type": type(item).__name__.lower(), **_fields(item)}
    return fields | {"verdict": _sendable(item.verdict)} if isinstance(item, Call) else fields


def _fields(value: Any) -> Json:
    named = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: _plain(held) for name, held in named if held is not None}


def _plain(value: Any, depth: int = 0) -> Any:
    if depth > DEEPEST:
        return "…"
    match value:
        case str():
            return _sendable(value)
        case float() if not math.isfinite(value):
            return str(value)
        case Line() | Todo():
            return {name: _plain(held) for name, held in value._asdict().items()}
        case tuple() | list():
            return [_plain(entry, depth + 1) for entry in cast(list[Any], value)]
        case dict():
            held = cast(dict[Any, Any], value)
            return {_sendable(str(name)): _plain(entry, depth + 1) for name, entry in held.items()}
        case _:
            return _fields(value) if is_dataclass(value) else value


def _sendable(text: str) -> str:
    """The text without lone surrogates, which a model may write and UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


# ------------------------------------------------------------------ in


def item_from_json(data: object) -> Item:
    """Restore an item from the output of `item_to_json`; raises Invalid with every problem."""
    fields = dict(cast(Json, data)) if isinstance(data, dict) else {}
    kind = KINDS.get(str(fields.pop("type", None)))
    if kind is None:
        raise Invalid([("type", f"is one of {', '.join(KINDS)}")])
    if kind is Call:
        fields.pop("verdict", None)  # it follows from the rest
    return decode(cast(type[Item], kind), fields)


# ------------------------------------------------------------------ described


class _Described:
    """The JSON Schema of an item, generated from the item classes."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], Json]) -> Json:
        return {"oneOf": [_described(name, kind) for name, kind in KINDS.items()]}


def _described(name: str, kind: type[Item]) -> Json:
    item_schema = json_schema(kind)
    first: Json = {"type": {"const": name}}
    last: Json = {"verdict": {"type": "string", "description": "The call's state in words."}} if kind is Call else {}
    return item_schema | {
        "properties": first | item_schema["properties"] | last,
        "required": ["type", *item_schema["required"]],
    }


type ItemJson = Annotated[Json, _Described()]
"""An item as it is sent; `Endpoint.gives` names this type so that the API's description includes the items."""
