"""ECMAScript regular expressions, searched for in a text within a fixed number of steps.

Python's `re` reads other syntax, and no time limit holds it: a matcher that explodes would hang the session. Here every
step is counted. What is read: the syntax without flags, Annex B included.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

STEPS = 100_000
"""More than any sensible matcher takes on a tool's or a file's name."""
LONGEST = 4_096
"""Characters of a pattern or a text; beyond that nothing matches."""
MANY = 1 << 30

_SPACES = frozenset(
    " \t\n\v\f\r\xa0\ufeff\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
)
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_DIGITS = frozenset("0123456789")
_ENDS = frozenset("\n\r\u2028\u2029")
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_HEX = frozenset("0123456789abcdefABCDEF")

type Caps = tuple[tuple[int, int] | None, ...]
type Go = Callable[[int, Caps], bool]
type Char = Callable[[str], bool]
type Matcher = "Callable[[_Run, int, Caps, Go], bool]"


class Invalid(ValueError):
    """The pattern is no regular expression."""


class _TooLong(Exception):
    """The steps are used up."""


class _Run:
    """One search: the text, and the steps taken so far."""

    __slots__ = ("steps", "text")

    def __init__(self, text: str) -> None:
        self.text, self.steps = text, 0

    def step(self) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise _TooLong


class Pattern(NamedTuple):
    match: Matcher
    groups: int


def found(pattern: str, text: str) -> bool | None:
    """Whether the pattern matches anywhere; None where that takes too long. Raises Invalid."""
    if len(pattern) > LONGEST or len(text) > LONGEST:
        return None
    made, run = compiled(pattern), _Run(text)
    nothing: Caps = (None,) * (made.groups + 1)
    try:
        return any(made.match(run, start, nothing, _end) for start in range(len(text) + 1))
    except (_TooLong, RecursionError):
        return None


def _end(_at: int, _caps: Caps) -> bool:
    return True


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    try:
        return _Parser(pattern).whole()
    except RecursionError:
        raise Invalid("it is nested too deeply") from None


# ------------------------------------------------------------------ matchers: each goes on with what comes after it


def _empty(_run: _Run, at: int, caps: Caps, go: Go) -> bool:
    return go(at, caps)


def _one(fits: Char, *, back: bool) -> Matcher:
    def match(run: _Run, at: int, caps: Caps, go: Go) -> bool:
        run.step()
        place = at - 1 if back else at
        if not 0 <= place < len(run.text) or not fits(run.text[place]):
            return False
        return go(place if back else at + 1, caps)

    return match


def _both(first: Matcher, second: Matcher) -> Matcher:
    return lambda run, at, caps, go: first(run, at, caps, lambda here, now: second(run, here, now, go))


def _either(one: Matcher, other: Matcher) -> Matcher:
    return lambda run, at, caps, go: one(run, at, caps, go) or other(run, at, caps, go)


def _where(holds: Callable[[str, int], bool]) -> Matcher:
    return lambda run, at, caps, go: holds(run.text, at) and go(at, caps)


def _edge(text: str, at: int) -> bool:
    before = at > 0 and text[at - 1] in _WORD
    return before != (at < len(text) and text[at] in _WORD)


def _look(inner: Matcher, *, wanted: bool) -> Matcher:
    def match(run: _Run, at: int, caps: Caps, go: Go) -> bool:
        run.step()
        kept = [caps]

        def seen(_at: int, now: Caps) -> bool:
            kept[0] = now
            return True

        if inner(run, at, caps, seen) != wanted:
            return False
        return go(at, kept[0] if wanted else caps)

    return match


def _group(inner: Matcher, number: int, *, back: bool) -> Matcher:
    def match(run: _Run, at: int, caps: Caps, go: Go) -> bool:
        def close(here: int, now: Caps) -> bool:
            span = (here, at) if back else (at, here)
            return go(here, (*now[:number], span, *now[number + 1 :]))

        return inner(run, at, caps, close)

    return match


def _again(number: int, *, back: bool) -> Matcher:
    def match(run: _Run, at: int, caps: Caps, go: Go) -> bool:
        run.step()
        span = caps[number]
        if span is None:
            return go(at, caps)
        said = run.text[span[0] : span[1]]
        start = at - len(said) if back else at
        if start < 0 or run.text[start : start + len(said)] != said:
            return False
        return go(start if back else at + len(said), caps)

    return match


class _Times(NamedTuple):
    least: int
    most: int
    greedy: bool


def _repeat(inner: Matcher, times: _Times, groups: range) -> Matcher:
    """As the standard has it: an iteration that takes nothing is not repeated, and forgets what its groups held."""

    def match(run: _Run, at: int, caps: Caps, go: Go, least: int = times.least, most: int = times.most) -> bool:
        run.step()
        if most == 0:
            return go(at, caps)

        def more(here: int, now: Caps) -> bool:
            if least == 0 and here == at:
                return False
            return match(run, here, now, go, max(least - 1, 0), most if most == MANY else most - 1)

        fresh = tuple(None if number in groups else span for number, span in enumerate(caps))
        if least:
            return inner(run, at, fresh, more)
        if times.greedy:
            return inner(run, at, fresh, more) or go(at, caps)
        return go(at, caps) or inner(run, at, fresh, more)

    return match


def _repeat_one(fits: Char, times: _Times, *, back: bool) -> Matcher:
    """One character many times, without going deeper for each: names are long, Python's stack is not."""

    def match(run: _Run, at: int, caps: Caps, go: Go) -> bool:
        text, way, taken = run.text, -1 if back else 1, 0
        room = at if back else len(text) - at

        def fit() -> bool:
            run.step()
            here = at + taken * way
            return taken < min(times.most, room) and fits(text[here - 1 if back else here])

        if times.greedy:
            while fit():
                taken += 1
            while taken >= times.least:
                if go(at + taken * way, caps):
                    return True
                taken -= 1
            return False
        while taken < times.least or not go(at + taken * way, caps):
            if not fit():
                return False
            taken += 1
        return True

    return match


# ------------------------------------------------------------------ reading a pattern


class _Atom(NamedTuple):
    match: Matcher
    one: Char | None = None
    """Set where it is exactly one character."""
    repeats: bool = True


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.text, self.at = pattern, 0
        self.names, self.total = _groups(pattern)
        self.opened = 0

    def whole(self) -> Pattern:
        made = self.either(back=False)
        if self.at < len(self.text):
            raise Invalid("a ) too many")
        return Pattern(made, self.total)

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def take(self, wanted: str) -> bool:
        if self.text.startswith(wanted, self.at):
            self.at += len(wanted)
            return True
        return False

    def either(self, *, back: bool) -> Matcher:
        made = self.row(back=back)
        if self.take("|"):
            return _either(made, self.either(back=back))
        return made

    def row(self, *, back: bool) -> Matcher:
        made = _empty
        while self.peek() and self.peek() not in "|)":
            term = self.term(back=back)
            made = term if made is _empty else _both(term, made) if back else _both(made, term)
        return made

    def term(self, *, back: bool) -> Matcher:
        before = self.opened
        atom = self.atom(back=back)
        times = self.times()
        if times is None:
            return atom.match
        if not atom.repeats:
            raise Invalid("there is nothing to repeat")
        if atom.one is not None:
            return _repeat_one(atom.one, times, back=back)
        return _repeat(atom.match, times, range(before + 1, self.opened + 1))

    def times(self) -> _Times | None:
        match self.peek():
            case "*":
                least, most = 0, MANY
            case "+":
                least, most = 1, MANY
            case "?":
                least, most = 0, 1
            case "{":
                counted = self.counted()
                if counted is None:
                    return None
                return _Times(*counted, not self.take("?"))
            case _:
                return None
        self.at += 1
        return _Times(least, most, not self.take("?"))

    def counted(self) -> tuple[int, int] | None:
        """`{2}`, `{2,}`, `{2,4}`; anything else in braces is plain text."""
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _digits(low) or (high and not _digits(high)):
            return None
        least = int(low)
        most = least if not comma else int(high) if high else MANY
        if least > most:
            raise Invalid("numbers out of order in {}")
        self.at = end + 1
        return min(least, MANY), min(most, MANY)

    def atom(self, *, back: bool) -> _Atom:
        char = self.peek()
        if char in ("*", "+", "?") or (char == "{" and self.is_counted()):
            raise Invalid("there is nothing to repeat")
        self.at += 1
        match char:
            case "^":
                return _Atom(_where(lambda _text, at: at == 0), repeats=False)
            case "$":
                return _Atom(_where(lambda text, at: at == len(text)), repeats=False)
            case "(":
                return self.parenthesis(back=back)
            case ".":
                return self.char(lambda char: char not in _ENDS, back=back)
            case "[":
                return self.char(self.listed(), back=back)
            case "\\":
                return self.escape(back=back)
            case _:
                return self.char(char.__eq__, back=back)

    def is_counted(self) -> bool:
        at = self.at
        try:
            return self.counted() is not None
        finally:
            self.at = at

    def char(self, fits: Char, *, back: bool) -> _Atom:
        return _Atom(_one(fits, back=back), fits)

    def parenthesis(self, *, back: bool) -> _Atom:
        if self.take("?:"):
            return _Atom(self.closed(back=back))
        for mark, behind, wanted in (
            ("?=", False, True),
            ("?!", False, False),
            ("?<=", True, True),
            ("?<!", True, False),
        ):
            if self.take(mark):
                return _Atom(_look(self.closed(back=behind), wanted=wanted), repeats=not behind)
        if self.take("?<"):
            self.at = self.text.index(">", self.at) + 1
        elif self.peek() == "?":
            raise Invalid("an unknown kind of group")
        self.opened += 1
        number = self.opened
        return _Atom(_group(self.closed(back=back), number, back=back))

    def closed(self, *, back: bool) -> Matcher:
        made = self.either(back=back)
        if not self.take(")"):
            raise Invalid("a ( that is not closed")
        return made

    # -------------------------------------------------------------- escapes

    def escape(self, *, back: bool) -> _Atom:
        char = self.peek()
        if not char:
            raise Invalid("a \\ at its end")
        if char in "bB":
            self.at += 1
            wanted = char == "b"
            return _Atom(_where(lambda text, at: _edge(text, at) == wanted), repeats=False)
        if char == "k" and self.names:
            return self.named(back=back)
        if char in "123456789":
            end = self.at
            while self.text[end : end + 1] in _DIGITS:
                end += 1
            if int(self.text[self.at : end]) <= self.total:
                number, self.at = int(self.text[self.at : end]), end
                return _Atom(_again(number, back=back))
        return self.char(self.escaped(), back=back)

    def named(self, *, back: bool) -> _Atom:
        end = self.text.find(">", self.at)
        name = self.text[self.at + 2 : end] if self.peek(1) == "<" and end > 0 else ""
        if name not in self.names:
            raise Invalid(f"there is no group named {name!r}")
        self.at = end + 1
        return _Atom(_again(self.names[name], back=back))

    def escaped(self) -> Char:
        """The character, or the class, that an escape stands for."""
        char = self.peek()
        self.at += 1
        match char:
            case "d" | "w" | "s":
                return {"d": _DIGITS, "w": _WORD, "s": _SPACES}[char].__contains__
            case "D" | "W" | "S":
                left_out = {"D": _DIGITS, "W": _WORD, "S": _SPACES}[char]
                return lambda char: char not in left_out
            case "t" | "n" | "v" | "f" | "r":
                return _CONTROLS[char].__eq__
            case "c" if self.peek().isascii() and self.peek().isalpha():
                self.at += 1
                return chr(ord(self.text[self.at - 1]) % 32).__eq__
            case "c":
                self.at -= 1
                return "\\".__eq__
            case "x" | "u":
                return self.code(char, 2 if char == "x" else 4).__eq__
            case "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7":
                return self.octal(char).__eq__
            case _:
                return char.__eq__

    def code(self, char: str, length: int) -> str:
        digits = self.text[self.at : self.at + length]
        if len(digits) < length or not set(digits) <= _HEX:
            return char
        self.at += length
        return chr(int(digits, 16))

    def octal(self, first: str) -> str:
        digits = first
        while len(digits) < (3 if first in "0123" else 2) and self.peek() and self.peek() in "01234567":
            digits += self.peek()
            self.at += 1
        return chr(int(digits, 8))

    # -------------------------------------------------------------- classes

    def listed(self) -> Char:
        negated = self.take("^")
        members: list[Char] = []
        while not self.take("]"):
            if not self.peek():
                raise Invalid("a [ that is not closed")
            low, is_class = self.member()
            if self.peek() == "-" and self.peek(1) not in ("]", ""):
                self.at += 1
                high, too = self.member()
                if is_class or too:
                    members += [low, "-".__eq__, high]
                else:
                    members.append(_between(low, high))
            else:
                members.append(low)
        return lambda char: any(fits(char) for fits in members) != negated

    def member(self) -> tuple[Char, bool]:
        """One member, and whether it is a class of its own."""
        char = self.peek()
        self.at += 1
        if char != "\\":
            return char.__eq__, False
        follows = self.peek()
        if not follows:
            raise Invalid("a \\ at its end")
        if follows == "b":
            self.at += 1
            return "\b".__eq__, False
        if follows == "c" and self.peek(1) and self.peek(1) in "0123456789_":
            self.at += 2
            return chr(ord(self.text[self.at - 1]) % 32).__eq__, False
        return self.escaped(), follows in "dDwWsS"


def _between(low: Char, high: Char) -> Char:
    """The members are `str.__eq__` of one character each: that character is what they are bound to."""
    first, last = (str(getattr(end, "__self__", "")) for end in (low, high))
    if first > last:
        raise Invalid("a range out of order")
    return lambda char: first <= char <= last


def _digits(text: str) -> bool:
    return bool(text) and set(text) <= _DIGITS and len(text) < 10


def _groups(pattern: str) -> tuple[dict[str, int], int]:
    """The groups that capture: their names, and how many there are. Needed before the first \\1 is read."""
    names: dict[str, int] = {}
    total, at, in_class = 0, 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char == "(" and (pattern[at + 1 : at + 2] != "?" or _is_name(pattern, at)):
            total += 1
            if _is_name(pattern, at):
                _name(pattern, at, names, total)
        at += 1
    return names, total


def _is_name(pattern: str, at: int) -> bool:
    return pattern.startswith("(?<", at) and pattern[at + 3 : at + 4] not in ("=", "!")


def _name(pattern: str, at: int, names: dict[str, int], number: int) -> None:
    name = pattern[at + 3 : max(pattern.find(">", at), at + 3)]
    if not name.replace("$", "_").isidentifier() or name in names:
        raise Invalid(f"{name!r} cannot name a group")
    names[name] = number
