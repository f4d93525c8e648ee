"""Interprets a server's error: its kind, its message, how long to wait, and what the operator can do."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from adderclaw.core.errors import ProviderErrorKind
from adderclaw.core.types import Json

CONTEXT_WORDS = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "context limit",
    "maximum context",
    "prompt is too long",
    "too many tokens",
    "reduce the length",
    "input token count",
)
QUOTA_WORDS = ("insufficient_quota", "insufficient credits", "insufficient balance", "billing", "credit balance")

KEY_WORDS = ("api_key_invalid", "api key not valid", "api key expired", "api_key_expired")
"""Google answers 400 to a wrong key."""
ACCOUNT_WORDS = ("billing_hard_limit_reached", "billing_not_active", "insufficient_quota")
NOT_THE_KEY_WORDS = ("model_not_found", "does not have access to model", "moderation", "flagged")
"""The key is valid, but not for this model or text."""
DAILY_QUOTA_WORDS = ("insufficient_quota", "perday", "per day")
"""Limits for which waiting during a run does not help."""

PROMPT_WORDS = ("invalid_prompt", "invalid_image", "invalid_base64_image", "image_", "_policy")
"""Codes of failed responses that the prompt caused."""

_KIND_WORDS: tuple[tuple[ProviderErrorKind, tuple[str, ...]], ...] = (
    ("context_overflow", CONTEXT_WORDS),
    ("billing_error", QUOTA_WORDS),
    ("rate_limit", ("rate_limit", "rate limit", "too many requests", "resource_exhausted")),
    ("authentication_failed", ("invalid_api_key", "authentication", "unauthorized", "permission_denied", *KEY_WORDS)),
    ("invalid_request", ("invalid_request", "invalid request", "model_not_found", "bad_request", *PROMPT_WORDS)),
)
"""For an error inside a 200, which has no status, only text."""

_ADVICE: dict[ProviderErrorKind, str] = {
    "authentication_failed": "check the key in the variable that api_key_env names",
    "billing_error": "the account has no credit left; top it up or use another provider",
    "rate_limit": 'wait, or add a second provider with kind = "reliable"',
    "invalid_request": "check model and settings of this provider",
    "context_overflow": "the conversation exceeds the model's context window; start a new one",
    "server_error": "this is a problem of the server; try again later",
    "network": "check base_url and the network",
    "timeout": "check the server, or raise timeout_seconds or idle_timeout_seconds of this provider",
    "malformed": "is base_url a chat completions server? `stream = false` helps with some",
}


BROKE_OFF = (
    "ask again; if this happens often, the server or a proxy in between ends answers early:"
    " `stream = false` helps with some"
)
"""The advice for an incomplete answer. base_url is right, because the answer started correctly."""


def advice(kind: ProviderErrorKind, status: int | None = None) -> str:
    if status == 404:
        return "check base_url (it usually ends in /v1) and the model's name"
    return _ADVICE.get(kind, "try again")


def kind_of(status: int | None, words: str) -> ProviderErrorKind:
    """The kind of an error with this HTTP status, or none. `words`: the server's text in lower case."""
    match status:
        case 403 if any(phrase in words for phrase in NOT_THE_KEY_WORDS):
            return "invalid_request"
        case 400 | 403 if any(phrase in words for phrase in ACCOUNT_WORDS):
            return "billing_error"
        case 401 | 403:
            return "authentication_failed"
        case 402:
            return "billing_error"
        case 429 if "request too large" in words:
            return "context_overflow"  # larger than the limit per minute, so waiting does not help
        case 429:
            return "billing_error" if any(phrase in words for phrase in DAILY_QUOTA_WORDS) else "rate_limit"
        case 408 | 409:
            return "server_error"
        case 413:
            return "context_overflow"
        case 400 if any(phrase in words for phrase in KEY_WORDS):
            return "authentication_failed"
        case 400 if "credit balance" in words:
            return "billing_error"
        case int() if 400 <= status < 500:
            return "context_overflow" if any(phrase in words for phrase in CONTEXT_WORDS) else "invalid_request"
        case None:
            for kind, phrases in _KIND_WORDS:
                if any(phrase in words for phrase in phrases):
                    return kind
            return "server_error"
        case _:
            return "server_error"


def error_message_in(body: bytes) -> tuple[str, str]:
    """The server's message, and its whole text in lower case, from the body of an error."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ("" if text.startswith("<") else text), text.lower()
    return error_message_of(value)


def error_message_of(value: Any) -> tuple[str, str]:
    value = _unwrapped(value)
    if not isinstance(value, dict):
        return "", ""
    whole = cast(Json, value)
    inner: Any = whole.get("error", whole)
    if not isinstance(inner, dict):
        return str(inner), str(inner).lower()
    fields = cast(Json, inner)
    message = fields.get("message") or fields.get("detail") or ""
    description = message if isinstance(message, str) else json.dumps(message)
    description = f"{description}{_behind(fields)}"
    more = " ".join(_reasons(fields))
    return description, f"{fields.get('type')} {fields.get('code')} {fields.get('status')} {more} {description}".lower()


def _behind(fields: Json) -> str:
    """Details of the provider behind a router, whose own message says little."""
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    text = cast(Json, metadata)
    words = [str(text[key]) for key in ("provider_name", "raw") if isinstance(text.get(key), (str, dict))]
    return f" ({': '.join(words)})" if words else ""


def _unwrapped(value: Any) -> Any:
    """Google sends the error of a stream that never began as a list."""
    items: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    return items[0] if items else None


def _details(fields: Json, kind: str) -> Iterator[Json]:
    """The `google.rpc` details of one kind in an error."""
    details: Any = fields.get("details")
    for detail in cast(list[Any], details) if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(cast(Json, detail).get("@type")).endswith(f"google.rpc.{kind}"):
            yield cast(Json, detail)


def _reasons(fields: Json) -> Iterator[str]:
    for info in _details(fields, "ErrorInfo"):
        yield f"{info.get('reason')} {info.get('metadata')}"
    for quota in _details(fields, "QuotaFailure"):
        yield str(quota.get("violations"))


def retry_delay(body: bytes) -> float | None:
    """Seconds to wait from the body of an error (`google.rpc.RetryInfo`), if any."""
    if b"RetryInfo" not in body:
        return None
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return delay_in(value)


def delay_in(value: Any) -> float | None:
    whole = _unwrapped(value)
    error: Any = cast(Json, whole).get("error") if isinstance(whole, dict) else None
    for info in _details(cast(Json, error), "RetryInfo") if isinstance(error, dict) else ():
        seconds = _number(str(info.get("retryDelay")).removesuffix("s"))
        if seconds is not None:
            return max(0.0, seconds)
    return None


def status_in(error: Any) -> int | None:
    """The HTTP status that some servers put into an error inside a 200."""
    code: Any = cast(Json, error).get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else None


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, from `Retry-After` as seconds or as a date, or from a used-up limit's reset time; else None."""
    if milliseconds := _number(headers.get("retry-after-ms", "")):
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    if not value:
        # until the last exhausted limit is reset, at times in RFC 3339
        used_up = [headers.get(f"{limit}-reset", "") for limit in _LIMITS if headers.get(f"{limit}-remaining") == "0"]
        times = [time for text in used_up if (time := _rfc3339(text)) is not None]
        until = max(0.0, max(times) - now) if times else None
        return _reset_in(headers) if until is None else until
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


_LIMITS = tuple(f"anthropic-ratelimit-{what}" for what in ("requests", "tokens", "input-tokens", "output-tokens"))


_DURATION = r"(\d+(?:\.\d+)?)(ms|d|h|m|s)"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _reset_in(headers: Mapping[str, str]) -> float | None:
    """The same from OpenAI's headers, such as 6m0s. If no limit is at 0, the tokens were not enough."""
    resets = {what: _duration(headers.get(f"x-ratelimit-reset-{what}", "")) for what in ("requests", "tokens")}
    used_up = [what for what in resets if headers.get(f"x-ratelimit-remaining-{what}") == "0"] or ["tokens"]
    return max((seconds for what in used_up if (seconds := resets[what]) is not None), default=None)


def _duration(text: str) -> float | None:
    pieces = re.findall(_DURATION, text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text.strip():
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in pieces)


def _rfc3339(text: str) -> float | None:
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
