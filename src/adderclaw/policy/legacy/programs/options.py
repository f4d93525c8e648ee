"""Options as a program reads them: bundled letters, attached values, `--name=value`, against a table of known ones."""

import re
from collections.abc import Iterator
from functools import cache

from adderclaw.core.record import NamedTuple

type Words = tuple[str, ...]


class Parsed(NamedTuple):
    operands: Words
    """What is neither an option nor an option's value; after `--` everything."""
    values: Words
    """Values of options, where they may be paths, and whatever may be one of an option that is not known."""
    given: frozenset[str]
    """The options that were given, without their values."""
    strange: Words
    """Options, as they were written, that the table does not know."""


@cache
def kinds(table: str) -> dict[str, str]:
    """A table is a text: `-v` takes no value, `-o=` one that may be a path, `-m~` one that is text and never a path,

    `-M?` text if it is attached, and `--warn-*` stands for all that begin so.
    """
    found: dict[str, str] = {}
    for entry in table.split():
        kind = entry[-1] if entry[-1] in "=~?*" and len(entry) > 2 else ""
        found[entry[: len(entry) - len(kind)]] = kind
    return found


def parse(words: Words, table: str, *, single_dash: bool = False, until_operand: bool = False) -> Parsed:
    """Read the words after a program's name. Nothing is abbreviated: what the table does not spell out is strange.

    With `single_dash` options are whole words after one dash (find, go), and `--` ends nothing for find. With
    `until_operand` the first operand ends the options, and everything from there on is an operand.
    """
    reader = _Reader(kinds(table), _prefixes(table), single_dash=single_dash)
    for index, word in enumerate(words):
        if reader.waiting:
            reader.value(word)
        elif word == "--" and not single_dash:
            reader.operands += words[index + 1 :]
            break
        elif not word.startswith("-") or word == "-":
            if until_operand:
                reader.operands += words[index:]
                break
            reader.operands.append(word)
        else:
            reader.option(word)
    return Parsed(tuple(reader.operands), tuple(reader.values), frozenset(reader.given), tuple(reader.strange))


@cache
def _prefixes(table: str) -> Words:
    return tuple(name for name, kind in kinds(table).items() if kind == "*")


class _Reader:
    def __init__(self, known: dict[str, str], prefixes: Words, *, single_dash: bool) -> None:
        self.known, self.single_dash = known, single_dash
        self.prefixes = prefixes
        self.operands: list[str] = []
        self.values: list[str] = []
        self.given: set[str] = set()
        self.strange: list[str] = []
        self.waiting = ""

    def value(self, text: str) -> None:
        if self.waiting == "=":
            self.values.append(text)
        self.waiting = ""

    def option(self, word: str) -> None:
        if self.single_dash:
            self.long("-" + word.lstrip("-") if word.strip("-") else word, word)
        elif word.startswith("--"):
            self.long(word, word)
        else:
            self.bundle(word)

    def long(self, word: str, written: str) -> None:
        name, attached, value = word.partition("=")
        kind = self.known.get(name)
        if kind is None and name.startswith(self.prefixes):
            kind = ""
        self.given.add(name)
        if kind is None:
            self.strange.append(written)
        if attached:
            self.values += [value] if kind != "~" else []
        elif kind in ("=", "~"):
            self.waiting = kind

    def bundle(self, word: str) -> None:
        if re.fullmatch(r"-\d+", word):
            return
        for index, letter in enumerate(word[1:], 1):
            kind, rest = self.known.get(f"-{letter}"), word[index + 1 :]
            self.given.add(f"-{letter}")
            if kind is None:
                self.strange.append(word)
                self.values += endings(word)
                return
            if kind in ("=", "~", "?"):
                self.waiting = kind if kind != "?" and not rest else ""
                self.values += [rest, rest.removeprefix("=")] if kind == "=" and rest else []
                return


_LONGEST_NAME = 255


def endings(word: str) -> Iterator[str]:
    """Every value that may be attached to one of the letters of a bundle, but what is too long for a file's name."""
    end = next((index for index in range(2, len(word)) if word[index] in "=/.~"), len(word) - 1)
    yield from (word[index:] for index in range(max(2, end - _LONGEST_NAME), end + 1))


def without_pairs(words: Words, option: str, value: str) -> Words:
    """Words without an option that is harmless with such a value, and with no other."""
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if re.fullmatch(option, word) and rest and re.fullmatch(value, rest[0]):
            rest.pop(0)
        elif not re.fullmatch(f"(?:{option})=?(?:{value})", word):
            kept.append(word)
    return tuple(kept)
