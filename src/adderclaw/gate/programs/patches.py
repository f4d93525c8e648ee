"""What a patch would change: every name that a program may take from it, however many folders it strips."""

import re
from collections.abc import Iterator

_TARGET = (
    r"(?m)^[ \tX>-]*(?:\+\+\+|---|\*\*\*|Index:|rename (?:from|to)|copy (?:from|to)|diff --git)[ \t]+"
    r"([^\t\n\r]+)(?:\t.*)?\r?$"
)
_SCRIPT = r"(?m)^[ \tX>-]*\d+(?:,\d+)?[acdis]\s*$|^[ \tX>-]*(?:new|old)?(?: file)? ?mode 120000"
_MAX_STRIPPED = 16


def is_plain(text: str) -> bool:
    """Whether a patch is one of hunks: a script for ed could run programs, and a link leads elsewhere."""
    return re.search(_SCRIPT, text) is None and not any("\\" in name for name in _written(text))


def changed(text: str) -> Iterator[str]:
    """The names, each also without its first folders."""
    for written in _written(text):
        for name in {written, *written.split()}:
            parts = name.strip('"').split("/")
            if name != "/dev/null":
                yield from ("/".join(parts[n:]) for n in range(min(len(parts), _MAX_STRIPPED)) if parts[n:] != [""])


def _written(text: str) -> Iterator[str]:
    return (match[1] for match in re.finditer(_TARGET, text))
