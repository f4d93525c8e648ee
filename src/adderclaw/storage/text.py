"""Text as the store and the sinks write it: compact JSON, no lone surrogates, times in UTC."""

import json
import re
import time
from functools import lru_cache
from typing import Any

from adderclaw.core.errors import StoreError
from adderclaw.core.json_text import json_writer

_SURROGATE = "[\ud800-\udfff]"
_encode = json_writer(default=str)


def plain(text: str) -> str:
    """The text with U+FFFD for characters that UTF-8 cannot encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub(_SURROGATE, "\ufffd", text)
    return text


def compact(value: Any) -> str:
    """JSON with no spaces and raw UTF-8."""
    return plain(_encode(value))


def parse_row(text: str, row: str) -> Any:
    """Parses the JSON of a row. Raises StoreError with the name of the row if it was changed."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        fix = "run `adderclaw replay RUN_ID --verify` to find other changes"
        raise StoreError(f"{row} was changed since it was written ({error}); {fix}") from error


def iso(now: float) -> str:
    """ISO 8601 with milliseconds: 2026-05-12T14:00:00.000Z."""
    milliseconds = round(now * 1000)
    return f"{_second(milliseconds // 1000).replace(' ', 'T')}.{milliseconds % 1000:03d}Z"


def sql_time(now: float) -> str:
    """As SQLite's datetime('now') writes it."""
    return _second(int(now))


@lru_cache(maxsize=4)
def _second(now: int) -> str:
    """Cached, because most events are in the same second as the previous one."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))
