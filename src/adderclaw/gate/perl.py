"""One line of Perl that replaces or selects text, and nothing else."""

import re
from typing import NamedTuple

from adderclaw.gate.programs.objections import Words

_PIECE = r"(?:[^\\$@{}\n%(]|\((?!\?[^:=!])|\{\d+,?\d*\}|\\[\w.()\[\]*+?|^$%-]|\$(?=%|\)))*"
_NEW = r"(?:[^\\$@\n%]|\\[nt.1-9]|\$[1-9](?![\d\[{-]))*"
_MARKS = "/|#,"


class Perl(NamedTuple):
    scripts: Words
    files: Words
    in_place: bool
    strange: str


def parts(words: Words) -> Perl:
    """`-pie` is -p and -i with the ending `e`: an `i` has to be the last letter of its word, or have a plain ending."""
    scripts: list[str] = []
    files: list[str] = []
    in_place, loops, rest = False, False, list(words[1:])
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            files.append(word)
            continue
        if files or not re.fullmatch(r"-(?:0(?:777)?)?[nplw]*(?:e|i(?:\.\w+)?)?", word) or word == "-":
            return Perl((), (), False, word)
        in_place, loops = in_place or "i" in word, loops or bool(re.match(r"-(?:0(?:777)?)?[lw]*[np]", word))
        if word.endswith("e") and "i" not in word:
            scripts += [rest.pop(0)] if rest else []
    return Perl(tuple(scripts), tuple(files), in_place, "" if scripts and loops else "without -n or -p and -e")


def is_plain(script: str) -> bool:
    substitutes = "|".join(
        f"s{mark}{_PIECE}{mark}{_NEW}{mark}[gimsx]*".replace("%", mark) for mark in map(re.escape, _MARKS)
    )
    selects = f"print(?: if| unless) /{_PIECE}/i?".replace("%", "/")
    one = rf"\s*(?:{substitutes}|{selects})\s*"
    return len(script) < 2_000 and re.fullmatch(f"{one}(?:;{one})*;?\\s*", script) is not None


def is_plain_name(name: str) -> bool:
    """Perl takes a name with a bar for a program, and one with an angle for a file to write."""
    return re.fullmatch(r"[\w./+@,=:*?-]+", name) is not None
