"""Tokens of a piece of JavaScript, for a parser that knows at each place whether a slash divides.

What two engines could read in two ways is refused: escapes in names, letters beyond ASCII outside of texts, comments as
HTML has them, separators of lines that no editor shows.
"""

import re
from typing import NamedTuple

MAX_CODE = 20_000
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00a0\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]")
_SPACE = re.compile(r"(?:[ \t\n]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]+|(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![\w$.])", re.ASCII)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:_\d{3})+(?![\w$.])", re.ASCII)
_TEXT = re.compile(r"""'(?:[^'\\\n]|\\[^\n])*'|"(?:[^"\\\n]|\\[^\n])*\"""")
_REGEX = re.compile(r"/(?![*/])(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*\])+/([dgimsuvy]*)(?![\w$\\])", re.ASCII)
_CHUNK = re.compile(r"(?:[^`\\$]|\\[\s\S]|\$(?!\{))*")
_MARK = re.compile(
    r">>>=|\.\.\.|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|\+\+|--|\+=|-=|\*="
    r"|/=|%=|&=|\|=|\^=|\*\*|<<|>>|[{}()\[\];,<>+\-*/%&|^!~?:=.`]"
)


class Refused(Exception):
    """Why a piece is not taken."""


class Token(NamedTuple):
    kind: str
    """name, number, text, mark or end."""
    text: str
    start: int
    end: int
    after_line: bool
    """Whether a line ended before it."""


class Lexer:
    def __init__(self, code: str) -> None:
        if len(code) > MAX_CODE or _ODD.search(code):
            raise Refused("more than can be read, or letters that do not show")
        self.code = code
        self.token = self._next(0)

    def advance(self) -> Token:
        """The token at hand; the one after it is at hand from now on."""
        before = self.token
        self.token = self._next(before.end)
        return before

    def back_to(self, token: Token) -> None:
        self.token = token

    def regex(self) -> str:
        """The regular expression that begins where the token at hand does; goes past it."""
        found = _REGEX.match(self.code, self.token.start)
        if found is None:
            raise Refused("a regular expression that does not end")
        self.token = self._next(found.end())
        return found.group()

    def chunk(self, start: int) -> tuple[str, bool]:
        """The text of a template from a place on, and whether an expression follows; goes past what ended it."""
        found = _CHUNK.match(self.code, start)
        end = found.end() if found else start
        rest = self.code[end : end + 2]
        if rest[:1] == "`":
            self.token = self._next(end + 1)
            return self.code[start:end], False
        if rest != "${":
            raise Refused("a template that does not end")
        self.token = self._next(end + 2)
        return self.code[start:end], True

    def _next(self, start: int) -> Token:
        code = self.code
        blank = _SPACE.match(code, start)
        at = blank.end() if blank else start
        after_line = "\n" in code[start:at]
        if at == len(code):
            return Token("end", "", at, at, after_line)
        if code.startswith(("<!--", "-->", "#!"), at):
            raise Refused("a comment as HTML has it")
        for kind, pattern in (
            ("name", _NAME),
            ("number", _NUMBER),
            ("number", _GROUPED),
            ("text", _TEXT),
            ("mark", _MARK),
        ):
            found = pattern.match(code, at)
            if found is not None:
                return Token(kind, found.group(), at, found.end(), after_line)
        raise Refused(f"{code[at : at + 1]!r}, which begins nothing that is known")


_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}


def cooked(text: str) -> str:
    """What a text or a template's text stands for; raises Refused for escapes of which engines may think otherwise."""

    def one(match: re.Match[str]) -> str:
        whole, after = match.group(), match.group()[1:]
        if after[0] in "xu" and len(whole) > 2:
            return chr(int(after.strip("xu{}"), 16))
        if after[0] in _SIMPLE:
            return _SIMPLE[after[0]]
        if after[0].isalnum() or after[0] == "\n":
            raise Refused(f"the escape {whole}")
        return after

    escape = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,5}\}|[\s\S])"
    if re.search(r"\\0(?!\d)", text):
        raise Refused("a text with NUL")
    made = re.sub(escape, one, text)
    if re.search("[\x00\ud800-\udfff]", made):
        raise Refused("a text with half a letter")
    return made
