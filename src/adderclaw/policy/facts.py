"""Converts the facts of a call to JSON and back, so that the policy can judge it again when the files are gone."""

from dataclasses import is_dataclass
from typing import Any, cast

from adderclaw.core.types import HostFact, Json, PathFact, RemoteFact, Touch
from adderclaw.policy.legacy.shell import plan
from adderclaw.policy.legacy.shell.plan import Live

_PLANS = {kind.__name__: kind for kind in vars(plan).values() if isinstance(kind, type) and hasattr(kind, "_fields")}
_KINDS: dict[str, Any] = {
    **_PLANS,
    **{kind.__name__: kind for kind in (PathFact, HostFact, RemoteFact, Touch)},
}
"""The only classes that a fact is made of."""
_KIND = "_"
_PLAIN = frozenset({str, bool, int, float, type(None)})


class InvalidFact(ValueError):
    """A value that is not a valid fact."""


def touch_to_json(touch: Touch) -> Json:
    """A Touch as JSON values, without empty fields."""
    return cast(Json, _to_json(touch))


def touch_from_json(body: Json) -> Touch:
    touch = _from_json(body)
    if not isinstance(touch, Touch):
        raise InvalidFact("it is not a Touch")
    return touch


def _to_json(value: object) -> Any:
    if type(value) in _PLAIN:  # checked first: most values are plain
        return value
    if isinstance(value, Live):
        return {_KIND: "Live", "text": str(value), "pieces": _to_json(value.pieces)}
    if is_dataclass(value) and not isinstance(value, type):
        named = vars(value).items()
        return {_KIND: type(value).__name__, **{name: _to_json(item) for name, item in named if item != ()}}
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        if hasattr(items, "_fields"):
            named = cast(Any, items)._asdict()
            return {_KIND: type(items).__name__, **{name: _to_json(item) for name, item in named.items()}}
        return [_to_json(item) for item in items]
    if isinstance(value, frozenset):
        return {_KIND: "frozenset", "items": sorted(map(_to_json, cast(frozenset[Any], value)))}
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_json(item) for item in cast(list[Any], value))
    if not isinstance(value, dict):
        return value
    named = {str(name): _from_json(item) for name, item in cast(Json, value).items()}
    kind = named.pop(_KIND, None)
    try:
        match kind:
            case "Live":
                return Live(**named)
            case "frozenset":
                return frozenset(named["items"])
            case _:
                fact_class = _KINDS[kind]
                return fact_class(**named)
    except (KeyError, TypeError) as error:
        raise InvalidFact(f"{kind!r} is not a kind of fact, or its fields do not match") from error
