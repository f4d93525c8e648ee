"""What a server's error means: its kind, its message, how long to wait, and what the operator can do."""

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from adderclaw.errors import ProviderErrorKind
from adderclaw.types import Json

CONTEXT_WORDS = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "maximum context",
    "prompt is too long",
    "too many tokens",
    "reduce the length",
)
QUOTA_WORDS = ("insufficient_quota", "insufficient credits", "insufficient balance", "billing")

_KIND_WORDS: tuple[tuple[ProviderErrorKind, tuple[str, ...]], ...] = (
    ("context_overflow", CONTEXT_WORDS),
    ("billing_error", QUOTA_WORDS),
    ("rate_limit", ("rate_limit", "rate limit", "too many requests", "resource_exhausted")),
    ("authentication_failed", ("invalid_api_key", "authentication", "unauthorized", "permission_denied")),
    ("invalid_request", ("invalid_request", "invalid request", "model_not_found", "bad_request")),
)
"""For an error that came inside a 200: no status, only words."""

_ADVICE: dict[ProviderErrorKind, str] = {
    "authentication_failed": "check the key in the variable that api_key_env names",
    "billing_error": "the account has no credit left: top it up or use another provider",
    "rate_limit": 'wait, or add a second provider with kind = "reliable"',
    "invalid_request": "check model and settings of this provider",
    "context_overflow": "the conversation is longer than the model can read: begin a new one",
    "server_error": "the fault is the server's: try again later",
    "network": "check base_url and the network",
    "timeout": "check the server, or raise timeout_seconds of this provider",
    "malformed": "is base_url a chat completions server? `stream = false` helps with some",
}


def advice(kind: ProviderErrorKind, status: int | None = None) -> str:
    if status == 404:
        return "check base_url (it usually ends in /v1) and the model's name"
    return _ADVICE.get(kind, "try again")


def kind_of(status: int | None, words: str) -> ProviderErrorKind:
    """The kind of an error with this HTTP status, or with none. `words` is what the server said, in lower case."""
    match status:
        case 401 | 403:
            return "authentication_failed"
        case 402:
            return "billing_error"
        case 429:
            return "billing_error" if "insufficient_quota" in words else "rate_limit"
        case 408 | 409:
            return "server_error"
        case int() if 400 <= status < 500:
            return "context_overflow" if any(phrase in words for phrase in CONTEXT_WORDS) else "invalid_request"
        case None:
            for kind, phrases in _KIND_WORDS:
                if any(phrase in words for phrase in phrases):
                    return kind
            return "server_error"
        case _:
            return "server_error"


def said_in(body: bytes) -> tuple[str, str]:
    """The server's message, and all its words in lower case, out of whatever it sent as the body of an error."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ("" if text.startswith("<") else text), text.lower()
    return said_by(value)


def said_by(value: Any) -> tuple[str, str]:
    if not isinstance(value, dict):
        return "", ""
    whole = cast(Json, value)
    inner: Any = whole.get("error", whole)
    if not isinstance(inner, dict):
        return str(inner), str(inner).lower()
    fields = cast(Json, inner)
    message = fields.get("message") or fields.get("detail") or ""
    said = message if isinstance(message, str) else json.dumps(message)
    return said, f"{fields.get('type')} {fields.get('code')} {said}".lower()


def status_in(error: Any) -> int | None:
    """Some servers put the HTTP status that they would have sent into an error inside a 200."""
    code: Any = cast(Json, error).get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else None


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, from `Retry-After` as seconds or as a date; None when the server named none."""
    if milliseconds := _number(headers.get("retry-after-ms", "")):
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
