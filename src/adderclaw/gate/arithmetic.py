"""`$((…))` over numbers that are known, as bash counts: whole numbers, division towards zero, C's precedence."""

import re
from collections.abc import Callable

from adderclaw.gate.syntax import NotAPlan

_TOKEN = re.compile(r"\s*(?:(\d+)|\$?([A-Za-z_]\w*)|(\*\*|==|!=|<=|>=|&&|\|\||[-+*/%()<>!]))", re.ASCII)
_LIMIT = 1 << 62
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<=", ">=", "<", ">"),
    ("+", "-"),
    ("*", "/", "%"),
)


def evaluate(text: str, value: Callable[[str], str | None]) -> int:
    """The value of an expression; `value` gives a variable's, or None where it is not known."""
    pieces: list[str | int] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotAPlan("arithmetic expansion")
        at = found.end()
        if found[3]:
            pieces.append(found[3])
        else:
            pieces.append(_number(found[1] or value(found[2])))
    parser = _Parser(pieces)
    result = parser.level(0)
    if parser.pieces:
        raise NotAPlan("arithmetic expansion")
    return result


def _number(text: str | None) -> int:
    text = "0" if text == "" else text
    if text is None or not re.fullmatch(r"-?(0|[1-9]\d{0,17})", text, re.ASCII):
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
