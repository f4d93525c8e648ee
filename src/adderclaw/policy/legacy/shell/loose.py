"""A tolerant reading of shell text, for refusals only: words without quotes wherever a shell could find one."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from adderclaw.policy.legacy.programs.allowlist import names

RESERVED = names(
    """! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while"""
)
_LEADERS = RESERVED - {"case", "for", "function", "in", "select"}
_MAX_NESTING = 4
_SHELL_CHARACTERS = r"[\s;&|()`$'\"<>\\]+"


MAX_TEXT = 100_000
"""A longer text is never run (`commands.destructive`), so nobody has to look for what is in it."""


def statements(text: str) -> list[list[list[str]]]:
    """A tolerant reading for refusals only: statements, each a pipeline, each part a list of unquoted words."""
    if len(text) > MAX_TEXT:
        return []
    found: list[list[list[str]]] = [[[]]]
    for kind, value in _tokens(text):
        if kind == "word":
            part = found[-1][-1]
            if part or value not in _LEADERS:
                part.append(value)
        elif kind == "pipe":
            found[-1].append([])
        else:
            found.append([[]])
    return [pipeline for pipeline in found if any(pipeline)]


def every_word(text: str) -> tuple[str, ...]:
    """Every word of a text and, where a word holds blanks or shell characters, every word of that word."""
    found: dict[str, None] = {}
    waiting = [(text, 0)]
    while waiting:
        current, depth = waiting.pop()
        for kind, value in _tokens(current):
            if kind == "word":
                found[value] = None
                if value == current or not re.search(_SHELL_CHARACTERS, value):
                    continue
                if depth < _MAX_NESTING:
                    waiting.append((value, depth + 1))
                else:  # no quotes at all: every word of each deeper level, and perhaps more
                    bare = re.sub(r"[\\'\"]", "", value)
                    found.update(dict.fromkeys((bare, *re.split(_SHELL_CHARACTERS, bare))))
                    found.update(dict.fromkeys(re.split(_SHELL_CHARACTERS, value)))
    return tuple(found)


def _tokens(text: str) -> Iterable[tuple[str, str]]:
    # Each guard reads the same few texts again: short ones are kept.
    return _kept_tokens(text) if len(text) <= _SHORT else _read_tokens(text)


_SHORT = 1_000


@lru_cache(maxsize=64)
def _kept_tokens(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_read_tokens(text))


def _read_tokens(text: str) -> Iterator[tuple[str, str]]:
    """Words without their quotes, pipes, and ends of statements; redirects and substitutions only separate."""
    word: list[str] | None = None
    for match in re.finditer(_PIECE, text, re.VERBOSE | re.DOTALL):
        piece = match.group()
        kind = match.lastgroup
        if kind in ("bare", "escape", "single", "double"):
            word = word if word is not None else []
            word.append(_UNQUOTE[kind](piece))
            continue
        if kind == "joint":
            continue
        if word is not None:
            yield "word", "".join(word)
            word = None
        if kind == "end":
            yield ("pipe", "") if piece in ("|", "|&") else ("end", "")
    if word is not None:
        yield "word", "".join(word)


def _inside(piece: str, mark: str) -> str:
    inner = piece.lstrip("$")[1:]
    return inner[:-1] if inner.endswith(mark) else inner


_PIECE = r"""(?P<joint>\\\n)
      | (?P<escape>\\(?:.|$))
      | (?P<single>\$?'[^']*(?:'|$))
      | (?P<double>\$?"(?:[^"\\]|\\.)*(?:"|\\?$))
      | (?P<end>\|\||&&|\|&|[;&|\n()`])
      | (?P<blank>[^\S\n]+|[<>]+&?|\$(?=\())
      | (?P<bare>[^\s'"\\;&|()`<>$]+|\$)"""
_UNQUOTE: dict[str, Callable[[str], str]] = {
    "bare": lambda piece: piece,
    "escape": lambda piece: piece[1:],
    "single": lambda piece: _inside(piece, "'"),
    "double": lambda piece: re.sub(r'\\([$`"\\])', r"\1", _inside(piece, '"').replace("\\\n", "")),
}
