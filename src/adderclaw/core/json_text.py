"""JSON as text: the one form that hashes are taken over, and a writer that costs little for a short text."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, Never


def json_writer(*, sort_keys: bool = False, default: Callable[[Any], Any] | None = None) -> Callable[[object], str]:
    """Writes JSON with no spaces and raw UTF-8.

    `JSONEncoder.encode` makes its inner encoder anew for each text, which takes longer than most of our texts do.
    """
    whole = json.JSONEncoder(
        sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, default=default, check_circular=False
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without it
        return whole.encode
    string: Any = json.encoder.encode_basestring  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    pieces = make(None, whole.default, string, None, ":", ",", sort_keys, False, True)
    return lambda value: "".join(pieces(value, 0))


_canonical = json_writer(sort_keys=True)


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, raw UTF-8. Hashes are taken over it."""
    return _canonical(value)


def digest(value: object) -> str:
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


MOST_VALUES = 2_000_000
MOST_CONTAINERS = 300_000
"""Each takes up to 200 bytes of memory for two bytes of text."""


def check_size(data: bytes) -> None:
    """Raises ValueError for a text whose parsed form would take far more memory than the text.

    It counts marks, also those inside of strings: what is refused needs hundreds of thousands of them.
    """
    if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS:
        raise ValueError(f"it has more than {MOST_CONTAINERS:,} lists and objects")
    if data.count(b",") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")


def no_constant(name: str) -> Never:
    """For `parse_constant`: Python would read NaN and Infinity."""
    raise ValueError(f"{name} is no JSON")
