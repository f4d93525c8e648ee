"""Where a command has a piece of Python: after -c, on its standard input, or in Django's shell."""

import re

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.python import Piece, Words, look
from adderclaw.gate.shell.plan import Live

_QUIET = r"-[uBsEIObqvP]+|-W[\w:.=]+"
_X = names("""dev utf8 utf8=1 importtime faulthandler tracemalloc frozen_modules=off""")


def read(words: Words, stdin: str | None) -> Piece | None:
    """The piece of Python that a call of Python runs; None if it runs something else, or nobody knows what."""
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "-c"):
        option = rest.pop(0)
        if option in ("-W", "-X") and rest:
            option += rest.pop(0)
        if not re.fullmatch(_QUIET, option) and option[2:] not in _X:
            return None
        if option.startswith("-X") != (option[2:] in _X):
            return None
    if not rest or rest[0] == "-":
        return look(stdin, _given(rest[1:])) if stdin is not None else None
    if rest[0] == "-c":
        known = len(rest) > 1 and not isinstance(rest[1], Live)
        return look(rest[1], _given(rest[2:])) if known else None
    return _managed(rest, stdin)


def _given(words: list[str]) -> Words | None:
    return None if any(isinstance(word, Live) for word in words) else tuple(words)


def _managed(rest: list[str], stdin: str | None) -> Piece | None:
    """`manage.py shell -c code`, or with the code on its standard input."""
    if rest[0].rsplit("/", 1)[-1] != "manage.py" or rest[1:2] != ["shell"]:
        return None
    if len(rest) == 2:
        return look(stdin, None, managed=True) if stdin is not None else None
    known = len(rest) == 4 and rest[2] in ("-c", "--command") and not isinstance(rest[3], Live)
    return look(rest[3], None, managed=True) if known else None


def in_words(words: Words, stdin: str | None) -> tuple[Piece, ...]:
    """Every piece that a command may run, whatever runs Python for it."""
    found: list[Piece] = []
    for index, word in enumerate(words):
        if re.fullmatch(r"python[\d.]*", word.rsplit("/", 1)[-1]):
            made = read(words[index:], stdin)
            if made is not None and not made.why:
                found.append(made)
    return tuple(found)
