"""Brace expansion, as bash does it before everything else: `{a,b}`, `{1..5}`, nested, in the order of the text."""

import re
from itertools import pairwise

from adderclaw.policy.legacy.shell.syntax import NotAPlan, Param, Part, Text, Word

MAX_WORDS = 1_000
MAX_PAIRS = 100
"""Pairs of braces that are followed in a word, beside and inside of each other."""
type Units = list[Part]
"""A word as single characters where they are not quoted, and other parts whole."""


def expanded(word: Word) -> list[Word]:
    if not any(isinstance(part, Text) and not part.quoted and "{" in part.text for part in word):
        return [word]
    units: Units = []
    for part in word:
        units += [Text(c) for c in part.text] if isinstance(part, Text) and not part.quoted else [part]
    made = _expand(units)
    if len(made) > 1 and any(isinstance(part, Param) and part.bare and not part.quoted for part in word):
        raise NotAPlan("braces beside a variable that is written without them")
    return [_joined(units) for units in made]


def _joined(units: Units) -> Word:
    parts: list[Part] = []
    for unit in units:
        last = parts[-1] if parts else None
        if isinstance(unit, Text) and isinstance(last, Text) and not unit.quoted and not last.quoted:
            parts[-1] = Text(last.text + unit.text)
        else:
            parts.append(unit)
    return tuple(parts)


def _is(unit: Part, char: str) -> bool:
    return isinstance(unit, Text) and not unit.quoted and unit.text == char


def _expand(units: Units, depth: int = 0) -> list[Units]:
    if depth > MAX_PAIRS:
        raise NotAPlan(f"a word of more than {MAX_PAIRS} pairs of braces")
    start = next((n for n, unit in enumerate(units) if _is(unit, "{")), None)
    if start is None:
        return [units]
    end, commas = _matching(units, start)
    if end is None:
        if any(_is(unit, ",") for unit in units[start:]) or _has_range(units[start:]):
            raise NotAPlan("brace expansion with braces that do not match")
        return [units]
    inside = units[start + 1 : end]
    if commas:
        cuts = [start, *commas, end]
        pieces = [units[a + 1 : b] for a, b in pairwise(cuts)]
        middles = [middle for piece in pieces for middle in _expand(piece, depth + 1)]
    else:
        sequence = _sequence(inside)
        if sequence is None:
            if any(_is(unit, "{") or _is(unit, ",") for unit in inside) or _has_range(inside):
                raise NotAPlan("brace expansion of a form that plans do not have")
            return [[*units[: end + 1], *tail] for tail in _expand(units[end + 1 :], depth + 1)]
        middles = [[Text(char) for char in text] for text in sequence]
    tails = _expand(units[end + 1 :], depth + 1)
    if len(middles) * len(tails) > MAX_WORDS:
        raise NotAPlan(f"braces that make more than {MAX_WORDS:,} words")
    return [[*units[:start], *middle, *tail] for middle in middles for tail in tails]


def _matching(units: Units, start: int) -> tuple[int | None, list[int]]:
    depth, commas = 0, list[int]()
    for index in range(start, len(units)):
        if _is(units[index], "{"):
            depth += 1
        elif _is(units[index], "}"):
            depth -= 1
            if depth == 0:
                return index, commas
        elif depth == 1 and _is(units[index], ","):
            commas.append(index)
    return None, []


def _has_range(units: Units) -> bool:
    return any(_is(a, ".") and _is(b, ".") for a, b in pairwise(units))


def _sequence(units: Units) -> list[str] | None:
    if not all(isinstance(unit, Text) and not unit.quoted for unit in units):
        return None
    text = "".join(unit.text for unit in units if isinstance(unit, Text))
    numbers = re.fullmatch(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?", text, re.ASCII)
    if numbers is not None:
        return _numbers(numbers[1], numbers[2], numbers[3])
    letters = re.fullmatch(r"([a-z])\.\.([a-z])|([A-Z])\.\.([A-Z])", text, re.ASCII)
    if letters is not None:
        first, last = ord(letters[1] or letters[3]), ord(letters[2] or letters[4])
        return [chr(code) for code in _range(first, last, 1)]
    return None


def _numbers(first: str, last: str, step: str | None) -> list[str]:
    padded = any(re.match(r"-?0\d", text) for text in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" if width else str(number) for number in _range(int(first), int(last), int(step or 1))]


def _range(first: int, last: int, step: int) -> range:
    step = abs(step) or 1
    found = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(found) > MAX_WORDS:
        raise NotAPlan(f"braces that make more than {MAX_WORDS:,} words")
    return found
