"""Decodes the body or query of a request to the endpoint's type, within limits of size and time."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, cast, get_args, get_origin
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from adderclaw.core.decode import Invalid, decode, plain_type
from adderclaw.core.types import Json
from adderclaw.server.endpoint import Endpoint
from adderclaw.server.refusal import Refusal

MOST_FIELDS = 100
"""The most fields of a query or a form."""


async def read_parameters(endpoint: Endpoint, request: Request, seconds: float) -> Any:
    """The query or body, decoded to `Endpoint.takes`. Raises Invalid with all problems. `seconds`: time limit."""
    query = endpoint.method in ("GET", "DELETE")
    data = b"" if query else await _read(request, endpoint.body_limit, seconds)
    if endpoint.is_signed:
        return data
    kind: Any = endpoint.takes
    if kind is None:
        if data.strip() not in (b"", b"{}"):
            raise Refusal(400, "invalid", "this endpoint takes no body: leave it out")
        pairs = _pairs(request.url.query)
        if pairs and query and not endpoint.is_page:  # a page ignores query parameters that it does not know
            raise Refusal(400, "invalid", "this endpoint takes no query parameters: leave them out")
        return None
    if query:
        return decode(kind, _typed_fields(kind, _pairs(request.url.query)))
    if endpoint.is_form:
        require_media_type(request, "application/x-www-form-urlencoded")
        return decode(kind, _typed_fields(kind, _pairs(text_of(data))))
    if data:
        require_media_type(request, "application/json")
    return decode(kind, _json(data))


def _json(data: bytes) -> object:
    try:
        return json.loads(text_of(data)) if data else {}
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "json", f"the body is not JSON: {error}") from error


def text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Refusal(400, "encoding", f"the body is not UTF-8: {error.reason} at byte {error.start}") from error


def require_media_type(request: Request, media_type: str) -> None:
    """Pages of another origin can send plain text and forms without a preflight request, but not JSON."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != media_type:
        raise Refusal(415, "media_type", f"send the body as {media_type}, not as {sent or 'nothing in particular'}")


async def _read(request: Request, limit: int, seconds: float) -> bytes:
    """Read the body; refuse one over the limit without holding more than the limit in memory."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > limit:
        raise _too_large(limit)
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
    except TimeoutError as error:
        raise Refusal(408, "slow", f"the body did not come within {seconds:g} s") from error
    except ClientDisconnect as error:
        raise Refusal(400, "gone", "the client disconnected before it had sent the body") from error
    return b"".join(parts)


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is too large: at most {limit:,} bytes")


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query, keep_blank_values=True, strict_parsing=False, errors="strict", max_num_fields=MOST_FIELDS
        )
    except (UnicodeDecodeError, ValueError) as error:
        raise Refusal(400, "encoding", f"the query or form cannot be read: {error}") from error


def _typed_fields(kind: type, pairs: Iterable[tuple[str, str]]) -> Json:
    """Convert the text of a query or form to the field types; text that does not fit is left for `decode` to report."""
    types = {spec.name: plain_type(spec.type) for spec in fields(kind)}
    values: Json = {}
    twice: list[tuple[str, str]] = []
    for name, text in pairs:
        field_type = types.get(name)
        if get_origin(field_type) in (list, tuple):
            cast("list[Any]", values.setdefault(name, [])).append(_value(plain_type(get_args(field_type)[0]), text))
        elif name in values:
            twice.append((name, "is given more than once"))
        else:
            values[name] = _value(field_type, text)
    if twice:
        raise Invalid(twice)
    return values


def _value(kind: Any, text: str) -> object:
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text, text)
    if kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            return text
        return value if text.isascii() and value == value and abs(value) != float("inf") else text
    return text
