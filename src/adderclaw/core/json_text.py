"""Records as JSON values, and JSON as text: the canonical form used for hashes, and a writer for short texts."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields as specs
from dataclasses import is_dataclass
from typing import Any, Never, cast


def to_json(value: object, *, omit: Collection[object] = ()) -> Any:
    """A record or named tuple, or a container of them, as JSON values; tuples and sets become lists.

    Fields with a value in `omit` are left out at every level, as in `omit=(None, "")`. `decode` is the inverse.
    """
    fields: Mapping[Any, Any] | None = None
    if isinstance(value, tuple):
        named: Any = cast(Any, value)
        fields = named._asdict() if hasattr(named, "_fields") else None
    elif is_dataclass(value):
        fields = {spec.name: getattr(value, spec.name) for spec in specs(value)}
    elif isinstance(value, Mapping):
        return {str(name): to_json(item, omit=omit) for name, item in cast(Mapping[Any, Any], value).items()}
    if fields is not None:
        return {
            name: to_json(item, omit=omit) for name, item in fields.items() if not (omit and _is_one_of(item, omit))
        }
    if isinstance(value, list | tuple):
        return [to_json(item, omit=omit) for item in cast(list[Any], value)]
    if isinstance(value, set | frozenset):
        return sorted(to_json(item, omit=omit) for item in cast(set[Any], value))
    return value


def _is_one_of(value: object, values: Collection[object]) -> bool:
    """Compares types too, because 0, 0.0 and False are equal."""
    return any(type(value) is type(other) and value == other for other in values)


def json_writer(*, sort_keys: bool = False, default: Callable[[Any], Any] | None = None) -> Callable[[object], str]:
    """Writes JSON with no spaces and raw UTF-8.

    `JSONEncoder.encode` creates an inner encoder on every call, which takes longer than encoding a short text.
    """
    whole = json.JSONEncoder(
        sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, default=default, check_circular=False
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without the C encoder
        return whole.encode
    string: Any = json.encoder.encode_basestring  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    pieces = make(None, whole.default, string, None, ":", ",", sort_keys, False, True)
    return lambda value: "".join(pieces(value, 0))


_canonical = json_writer(sort_keys=True)


def canonical(value: object) -> str:
    """The canonical JSON of a value, used for hashes: sorted keys, no spaces, raw UTF-8."""
    return _canonical(value)


def digest(value: object) -> str:
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


MOST_VALUES = 2_000_000
MOST_CONTAINERS = 300_000
"""Each takes up to 200 bytes of memory for two bytes of text."""


def check_size(data: bytes) -> None:
    """Raises ValueError for a text whose parsed form would take far more memory than the text.

    Counts brackets and commas, including those in strings; only texts with hundreds of thousands are rejected.
    """
    if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS:
        raise ValueError(f"it has more than {MOST_CONTAINERS:,} lists and objects")
    if data.count(b",") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")


def reject_constant(name: str) -> Never:
    """For `parse_constant`, because Python accepts NaN and Infinity."""
    raise ValueError(f"{name} is not valid JSON")
