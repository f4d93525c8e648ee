"""Pieces of Python in a command (`python -c`, here-documents): each is followed value by value, and is closed.

What is not in the grammar of `follow`, the tables of `table` or the rules of `project` refuses. What remains computes
and prints, opens files whose names stand there or were found beneath a folder that stands there, and calls the
project's own code, as a script of the project would.
"""

import re
from functools import lru_cache
from typing import NamedTuple

type Words = tuple[str, ...]

MAX_CODE = 20_000
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_COOKIE = r"^[ \t]*#.*?coding[:=][ \t]*(?!utf-?8\b)"


class Piece(NamedTuple):
    """What a piece of Python does, as far as others have to judge it."""

    why: str = ""
    """Why it is not taken; nothing if it is."""
    reads: Words = ()
    writes: Words = ()
    words: Words = ()
    """Texts that it hands to the project's code: files, perhaps, like the words of a script."""
    walks: tuple[tuple[str, str], ...] = ()
    """(folder, pattern): the files that it finds, and opens."""
    modules: Words = ()
    """Modules that are the project's own, or installed for it."""
    confined: bool = False
    """Whether it is taken only where a sandbox is around it."""
    texts: Words = ()
    """The texts that stand in it, if it writes files: what it writes is made of these."""
    hides: bool = False
    """Whether it may write what none of its texts shows: something decoded, or put together from numbers."""


@lru_cache(maxsize=128)
def look(code: str, given: Words | None = (), *, managed: bool = False) -> Piece:
    """Follow a piece. `given` are its own words (`sys.argv[1:]`), None if they are not known; `managed` is Django's."""
    if len(code) > MAX_CODE:
        return Piece(f"longer than {MAX_CODE:,} characters")
    if re.search(_CONTROL, code):
        return Piece("a control character in it")
    if any(re.search(_COOKIE, line) for line in code.split("\n", 2)[:2]):
        return Piece("another encoding than UTF-8")
    from adderclaw.gate.python import follow

    return follow.piece(code, given, managed=managed)
