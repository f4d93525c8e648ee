"""Pieces of JavaScript in a command: what they open, where that is all that they may do."""

from functools import lru_cache
from typing import NamedTuple

type Words = tuple[str, ...]
_MAX_LENGTH = 6_000


class Reading(NamedTuple):
    """What a piece does beside computing and printing."""

    why: str = ""
    """Why it is not taken; nothing if it is."""
    reads: Words = ()
    writes: Words = ()
    folders: Words = ()
    """Folders of which any file may be opened, by the name that it has there."""
    urls: Words = ()
    modules: Words = ()
    """The project's own modules that it loads."""


@lru_cache(maxsize=64)
def read(code: str, words: Words = (), *, typed: bool = False, packages: bool = True) -> Reading:
    """What a piece of JavaScript would do that is given words; `typed` where it may be read as TypeScript.

    Without `packages` only the project's own modules are loaded: what is not installed might be fetched.
    """
    if len(code) > _MAX_LENGTH:
        return Reading("it is too long")
    from adderclaw.gate.javascript.lexer import Refused
    from adderclaw.gate.javascript.parser import parse
    from adderclaw.gate.javascript.reading import Interpreter

    try:
        effects = Interpreter(parse(code, typed=typed), words, packages=packages).run()
    except Refused as refusal:
        return Reading(str(refusal) or "it is not taken")
    except RecursionError:
        return Reading("it is too deep")
    return Reading(
        "",
        tuple(effects.reads),
        tuple(effects.writes),
        tuple(effects.folders),
        tuple(effects.urls),
        tuple(effects.modules),
    )
