"""Pieces of code that a command brings as a word or in a here-document, and what they would open.

A piece is taken where a sandbox is around it and its language's reader knows all that it may do: what it opens stands
there, and is judged like any other file of the command.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from adderclaw.gate import javascript, perlish, rubyish
from adderclaw.gate.javascript import Reading
from adderclaw.gate.programs import network
from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.programs.objections import Ask, Objection, Words

_NODE = (
    r"--input-type=(?:module|commonjs)|--no-warnings|--trace-warnings|--enable-source-maps|--expose-gc|--trace-uncaught"
    r"|--max-old-space-size=\d+|--unhandled-rejections=strict|--no-deprecation|--throw-deprecation"
)
_EVALUATES = names("-e -p -pe --eval --print")
_STANDS_FOR_NAMES = "./x"
"""What stands for names that another program finds: of those a piece is told nothing."""


class Piece(NamedTuple):
    """A piece as its language's reader understood it, with the words that it is given."""

    reading: Reading
    words: Words = ()


def of(words: Words, stdin: str | None = None) -> Piece | None:
    """The piece that a command brings; None where it brings none, or not in a way that is known."""
    taken = _TAKEN.get(words[0].rsplit("/", 1)[-1])
    return None if taken is None or _STANDS_FOR_NAMES in words else taken(words, stdin)


def objection(piece: Piece, ask: Ask) -> Objection | None:
    """Why a piece is not taken."""
    if piece.reading.why:
        return Objection(
            f"a piece of code with {piece.reading.why[:100]}: put it in a file of the project and run that"
        )
    for url in piece.reading.urls:
        refused = network.address("fetch", url, ask.domains)
        if refused is not None:
            return refused
    return None


# ------------------------------------------------------------------ JavaScript


def _node(words: Words, stdin: str | None) -> Piece | None:
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in _EVALUATES:
            return _given(rest, typed=False)
        if re.match(r"--(?:eval|print)=", word):
            return _given([word.split("=", 1)[1], *rest], typed=False)
        if word == "--input-type" and rest[:1] in (["module"], ["commonjs"]):
            rest.pop(0)
        elif word == "-" and stdin is not None:
            return Piece(javascript.read(stdin, ("-", *rest)), tuple(rest))
        elif not re.fullmatch(_NODE, word):
            return None
    return None if stdin is None else Piece(javascript.read(stdin, ("-",)))


def _given(rest: list[str], *, typed: bool, packages: bool = True) -> Piece | None:
    """A word of code and the words after it; Node takes options after the code, too."""
    if not rest:
        return None
    code, *given = rest
    if given[:1] == ["--"]:
        given = given[1:]
    elif given and given[0].startswith("-"):
        return None
    return Piece(javascript.read(code, tuple(given), typed=typed, packages=packages), tuple(given))


def _tsx(words: Words, _stdin: str | None) -> Piece | None:
    return _given(list(words[2:]), typed=True) if words[1:2] and words[1] in ("-e", "-p", "--eval", "--print") else None


def _bun(words: Words, _stdin: str | None) -> Piece | None:
    """Bun fetches packages that are missing by itself."""
    if not words[1:2] or words[1] not in ("-e", "-p", "--eval", "--print"):
        return None
    return _given(list(words[2:]), typed=True, packages=False)


def _deno(words: Words, _stdin: str | None) -> Piece | None:
    rest = list(words[2:])
    while rest and rest[0] in ("-p", "--print", "-q", "--quiet"):
        rest.pop(0)
    return _given(rest, typed=True, packages=False) if words[1:2] == ("eval",) else None


# ------------------------------------------------------------------ Perl and Ruby


def _perl(words: Words, _stdin: str | None) -> Piece | None:
    found = perlish.read(words)
    return None if found is None else Piece(found)


def _ruby(words: Words, _stdin: str | None) -> Piece | None:
    found = rubyish.read(words)
    return None if found is None else Piece(found)


_TAKEN: dict[str, Callable[[Words, str | None], Piece | None]] = {
    "node": _node,
    "nodejs": _node,
    "tsx": _tsx,
    "bun": _bun,
    "deno": _deno,
    "perl": _perl,
    "ruby": _ruby,
}
NAMES = frozenset(_TAKEN)
