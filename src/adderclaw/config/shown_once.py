"""Messages that are shown only once, remembered by their hashes in a file of the home folder."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from adderclaw.config.places import read, replace
from adderclaw.core import home_names
from adderclaw.core.errors import ConfigError
from adderclaw.core.json_text import digest

MOST = 500


def not_shown_before(home: str, texts: Sequence[str]) -> tuple[str, ...]:
    """The texts that were not shown before, which are now recorded. If nothing can be stored, all of them."""
    path = os.path.join(home, home_names.SHOWN_ONCE)
    known = _known(path)
    new = tuple(text for text in texts if digest(text) not in known)
    if new:
        with suppress(OSError):
            replace(path, json.dumps([*known, *map(digest, new)][-MOST:]) + "\n")
    return new


def _known(path: str) -> list[str]:
    try:
        value: Any = json.loads(read(path) or b"[]")
    except (ValueError, ConfigError):
        return []
    return [item for item in cast(list[Any], value) if isinstance(item, str)] if isinstance(value, list) else []
