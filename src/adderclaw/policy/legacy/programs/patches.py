"""What a patch would change: every name that a program may take from it, however many folders it strips."""

import re
from collections.abc import Iterator

from adderclaw.core.errors import PathRefused

_TARGET = (
    r"(?m)^[ \tX>-]*(?:\+\+\+|---|\*\*\*|Index:|rename (?:from|to)|copy (?:from|to)|diff --git)[ \t]+"
    r"([^\t\n\r]+)(?:\t.*)?\r?$"
)
_SCRIPT = r"(?m)^[ \tX>-]*\d+(?:,\d+)?[acdis]\s*$|^[ \tX>-]*(?:new|old)?(?: file)? ?mode 120000"
MAX_PATH = 4096
"""Bytes of the longest path that can be opened."""
MAX_LINE = 16 * MAX_PATH
MAX_NAMES = 100_000


def is_plain(text: str) -> bool:
    """Whether a patch is one of hunks: a script for ed could run programs, and a link leads elsewhere."""
    return re.search(_SCRIPT, text) is None and not any("\\" in name for name in _written(text))


def changed(text: str) -> Iterator[str]:
    """The names, each also without its first folders. Raises Refused where there are too many."""
    count = 0
    for written in _written(text):
        if len(written) > MAX_LINE:
            raise PathRefused(f"a patch with a name of more than {MAX_LINE:,} characters is not checked")
        for name in {written, *written.split()} - {"/dev/null"}:
            rest = name.strip('"')
            while rest:
                count += 1
                if count > MAX_NAMES:
                    raise PathRefused(
                        f"a patch that could change more than {MAX_NAMES:,} files is not checked: split it"
                    )
                if len(rest) < MAX_PATH:
                    yield rest
                rest = rest.partition("/")[2]


def _written(text: str) -> Iterator[str]:
    return (match[1] for match in re.finditer(_TARGET, text))
