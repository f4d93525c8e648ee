"""`$((…))` as bash counts: whole numbers, division towards zero, C's precedence; over numbers that are known, or over

variables of which it is known that they hold a number. Bash would run code that stands in any other text.
"""

import re
from collections.abc import Callable

from adderclaw.policy.legacy.shell.syntax import NotAPlan

_TOKEN = re.compile(
    r"\s*(?:\$\{#([A-Za-z_]\w*(?:\[[@*]\])?)\}|(10#)?\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*|\d))|(\d+|[A-Za-z_]\w*)|(\*\*|==|!=|<=|>=|&&|\|\||[-+*/%()<>!]))",
    re.ASCII,
)
COUNTERS = frozenset({"RANDOM", "SECONDS", "EPOCHSECONDS", "UID", "EUID"})
"""Variables that bash itself gives a number, each time another; no plan sets them."""
_DIGITS = "(${_/*[!0-9 ]*/.}+0)"
"""A variable's text before bash counts with it: nothing but digits and blanks, or a dot, which is an error."""
_DECIMAL = "10#${_/*[!0-9]*/.}"
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
    length: Callable[[str], int | None] = lambda _: None,
) -> int | str:
    """The value of an expression, or the expression in our own words where it is only known when it runs.

    `value` gives a variable's value, or None where it is not known; those among `numbers` hold a number nevertheless.
    Those among `counted` should: of them bash gets the digits, or what is no expression at all. `length` gives that of
    a variable or an array.
    """
    pieces: list[str | int] = []
    names: dict[int, str] = {}
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotAPlan("arithmetic expansion")
        at = found.end()
        measured, decimal, braced, dollar, plain, operator = found.groups()
        if operator:
            pieces.append(operator)
            continue
        if measured:
            long = length(measured)
            known = str(long) if long is not None else None
            rendered = f"${{#{measured}}}"
        else:
            name = braced or dollar or plain
            known = name if name == plain and name.isdecimal() else value(name) if name not in COUNTERS else None
            rendered = _rendered(name, decimal, name in numbers or name in COUNTERS)
            if known is None and name not in numbers and name not in counted and name not in COUNTERS:
                raise NotAPlan("arithmetic with something that is not a known number")
            if decimal and known is not None:
                known = str(int(known)) if re.fullmatch(r"\d{1,17}", known, re.ASCII) else "?"
        if known is None:
            names[len(pieces)] = rendered
            known = "1"  # any number will do to see whether the expression is one
        pieces.append(_number(known))
    parser = _Parser(pieces)
    result = parser.level(0)
    if parser.pieces:
        raise NotAPlan("arithmetic expansion")
    return _rewritten(pieces, names) if names else result


def _rendered(name: str, decimal: str | None, is_number: bool) -> str:
    if decimal:
        return _DECIMAL.replace("_", name)
    if not is_number:
        return _DIGITS.replace("_", name)
    return name if not name.isdecimal() else f"(${{{name}}})"


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
