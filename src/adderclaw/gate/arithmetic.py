"""`$((…))` as bash counts: whole numbers, division towards zero, C's precedence; over numbers that are known, or over

variables of which it is known that they hold a number. Bash would run code that stands in any other text.
"""

import re
from collections.abc import Callable

from adderclaw.gate.syntax import NotAPlan

_TOKEN = re.compile(
    r"\s*(?:(\d+)|(?:\$?(?=[A-Za-z_])|\$(?=\d))([A-Za-z_]\w*|\d)|(\*\*|==|!=|<=|>=|&&|\|\||[-+*/%()<>!]))", re.ASCII
)
COUNTERS = frozenset({"RANDOM", "SECONDS", "EPOCHSECONDS", "UID", "EUID"})
"""Variables that bash itself gives a number, each time another; no plan sets them."""
_DIGITS = "(${_/*[!0-9 ]*/.}+0)"
"""A variable's text before bash counts with it: nothing but digits and blanks, or a dot, which is an error."""
_LIMIT = 1 << 62
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<=", ">=", "<", ">"),
    ("+", "-"),
    ("*", "/", "%"),
)


def is_number(text: str | None) -> bool:
    """Whether a text is a whole number that bash reads as it is written: no octal one, and none that is too large."""
    return text is not None and bool(re.fullmatch(r"-?(0|[1-9]\d{0,17})", text, re.ASCII))


def evaluate(
    text: str,
    value: Callable[[str], str | None],
    numbers: frozenset[str] = frozenset(),
    counted: frozenset[str] = frozenset(),
) -> int | str:
    """The value of an expression, or the expression in our own words where it is only known when it runs.

    `value` gives a variable's value, or None where it is not known; those among `numbers` hold a number nevertheless.
    Those among `counted` should: of them bash gets the digits, or what is no expression at all.
    """
    pieces: list[str | int] = []
    names: dict[int, str] = {}
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotAPlan("arithmetic expansion")
        at = found.end()
        if found[3]:
            pieces.append(found[3])
            continue
        known = found[1] or (value(found[2]) if found[2] not in COUNTERS else None)
        if known is None and (found[2] in numbers or found[2] in counted or found[2] in COUNTERS):
            plain = found[2] if not found[2].isdecimal() else f"(${{{found[2]}}})"
            names[len(pieces)] = plain if found[2] not in counted else _DIGITS.replace("_", found[2])
            known = "1"  # any number will do to see whether the expression is one
        pieces.append(_number(known))
    parser = _Parser(pieces)
    result = parser.level(0)
    if parser.pieces:
        raise NotAPlan("arithmetic expansion")
    return _rewritten(pieces, names) if names else result


def _rewritten(pieces: list[str | int], names: dict[int, str]) -> str:
    for before, piece in zip(pieces, (*pieces[1:], ""), strict=True):
        # What is divided by may be zero, and a power too large, unless it stands there.
        if before in ("/", "%", "**") and (not isinstance(piece, int) or piece <= 0):
            raise NotAPlan("arithmetic that may have no result")
    if any(pieces[n - 1] in ("/", "%", "**") for n in names if n):
        raise NotAPlan("arithmetic that may have no result")
    plain = (f"({piece})" if isinstance(piece, int) and piece < 0 else str(piece) for piece in pieces)
    return " ".join(names.get(n, text) for n, text in enumerate(plain))


def _number(text: str | None) -> int:
    text = "0" if text == "" else text
    if text is None or not is_number(text):
        raise NotAPlan("arithmetic with something that is not a known number")
    return int(text)


class _Parser:
    def __init__(self, pieces: list[str | int]) -> None:
        self.pieces = pieces[::-1]

    def level(self, index: int) -> int:
        if index == len(_LEVELS):
            return self.power()
        left = self.level(index + 1)
        while self.pieces and self.pieces[-1] in _LEVELS[index]:
            operator = self.pieces.pop()
            left = _apply(str(operator), left, self.level(index + 1))
        return left

    def power(self) -> int:
        base = self.unary()
        if self.pieces and self.pieces[-1] == "**":
            self.pieces.pop()
            exponent = self.power()
            if not 0 <= exponent <= 62:
                raise NotAPlan("arithmetic expansion")
            return _bounded(base**exponent)
        return base

    def unary(self) -> int:
        piece = self.pieces.pop() if self.pieces else None
        if isinstance(piece, int):
            return piece
        if piece == "(":
            inside = self.level(0)
            if not self.pieces or self.pieces.pop() != ")":
                raise NotAPlan("arithmetic expansion")
            return inside
        # `--` and `++` change a variable, so that a sign must be followed by something else.
        if piece in ("-", "+", "!") and self.pieces and self.pieces[-1] not in ("-", "+", "!"):
            inside = self.unary()
            return {"-": -inside, "+": inside, "!": int(not inside)}[str(piece)]
        raise NotAPlan("arithmetic expansion")


def _apply(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            raise NotAPlan("a division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    results: dict[str, Callable[[], int]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "==": lambda: int(left == right),
        "!=": lambda: int(left != right),
        "<": lambda: int(left < right),
        ">": lambda: int(left > right),
        "<=": lambda: int(left <= right),
        ">=": lambda: int(left >= right),
        "&&": lambda: int(bool(left) and bool(right)),
        "||": lambda: int(bool(left) or bool(right)),
    }
    return _bounded(results[operator]())


def _bounded(number: int) -> int:
    if abs(number) >= _LIMIT:
        raise NotAPlan("a number that is too large")
    return number
