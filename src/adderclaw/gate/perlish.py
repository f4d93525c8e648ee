"""Pieces of Perl that count, select and print: tokens of a closed list, each where a term or an operator may stand.

Nothing opens, runs or loads: no function but those named here, no reference, no name in capitals (ENV, ARGV, INC, SIG
are such), no angle where a term may stand, no code in a regular expression or a text.
"""

import re

from adderclaw.gate.javascript import Reading
from adderclaw.gate.perl import is_plain_name
from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.programs.objections import Words

_NAME = r"(?:[a-z_][a-z_0-9]*|F)(?![\w:'])"
_INDEX = r"\{(?:\w+|\$[a-z_][a-z_0-9]*|\$[1-9])\}|\[(?:-?\d+|\$[a-z_][a-z_0-9]*)\]"
_HELD = rf"\$(?:{_NAME}(?:{_INDEX})?|[1-9])(?![\w\[{{:]|->)|\$\.(?!\w)"
"""A variable in a text: with a plain subscript, or none, and nothing after it that would be one."""
_ESCAPE = r"\\[^NpPoxcgk\n\w]|\\[ntrdDsSwWbBAzQEULul1-9hRf]"
_QUOTED = re.compile(rf'"(?:[^"\\$@\n]|{_ESCAPE}|{_HELD})*"')
_SINGLE = re.compile(r"'(?:[^'\\]|\\['\\])*'")
_WORDS = re.compile(r"qw\(([\w\s.,:/-]*)\)|qw/([\w\s.,:-]*)/")


def _inside(mark: str, *, ends: bool) -> str:
    """What stands between marks; in a pattern a dollar may end an alternative."""
    end = rf"|\$(?=[{mark}|)])|\[\^?\]?(?:[^\]\[\\$@{mark}\n]|\\[\w.\-/\[\]^$|]|\[:\w+:\])*\]" if ends else ""
    no = r"\[" if ends else ""
    return rf"(?:[^\\$@{no}{mark}\n]|{_ESCAPE}|{_HELD}{end})*"


def _forms(mark: str) -> tuple[str, ...]:
    """A match, a substitution and a translation between such marks."""
    m, pattern, new = re.escape(mark), _inside(re.escape(mark), ends=True), _inside(re.escape(mark), ends=False)
    first = "(?:m)?" if mark == "/" else "m"
    return (
        rf"{first}{m}{pattern}{m}[gimsx]*(?!\w)",
        rf"s{m}{pattern}{m}{new}{m}[gimsxr]*(?!\w)",
        rf"(?:tr|y){m}[^{m}\\\n]*{m}[^{m}\\\n]*{m}[cdsr]*(?!\w)",
    )


_PATTERNS = tuple(re.compile(form) for mark in "/|#,!" for form in _forms(mark))
_VARIABLE = re.compile(rf"[$@%]{_NAME}|\$#{_NAME}|\$[1-9_.,&](?!\w)|@_(?!\w)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])|0x[0-9a-f]+(?!\w)")
_OPERATOR = re.compile(
    r"<=>|\*\*=?|\|\|=|//=|&&=|\.\.|=~|!~|==|!=|<=|>=|&&|\|\||//|\+=|-=|\.=|\*=|/=|%=|\+\+|--|=>|[-+*/%.<>=,?:]"
    r"|(?:x|eq|ne|lt|gt|le|ge|cmp|and|or|xor)(?!\w)"
)
_FUNCTIONS = names(
    """print printf sprintf join split keys values sort reverse map grep scalar length substr index rindex uc lc ucfirst
    lcfirst push unshift pop shift splice defined exists delete int abs sqrt hex oct ord chr chomp log exp each my not
    die warn exit return say"""
)
_LEADS = names("if elsif unless while until for foreach")
_BLOCKS = names("END BEGIN else")
_ALONE = names("next last time")
_PATTERN_AFTER = names("( , { } ; && || ! =~ !~ and or not if unless while until grep split map return =")


class _Piece:
    """Where the reading of a piece stands."""

    def __init__(self, code: str) -> None:
        self.code, self.at = code, 0
        self.open: list[str] = []
        self.term = True
        """Whether a term is expected, and no operator."""
        self.before = ";"

    def takes(self) -> bool:
        while True:
            self.at += len(re.match(r"\s*", self.code[self.at :]).group())  # type: ignore[union-attr]
            if self.at == len(self.code):
                return not self.open
            if not (self.taken_term() if self.term else self.taken_operator()):
                return False

    def go(self, length: int, before: str, *, term: bool) -> bool:
        self.at += length
        self.before, self.term = before, term
        return True

    def match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.code, self.at)
        return found.group() if found else ""

    def taken_term(self) -> bool:
        if self.before in _PATTERN_AFTER:
            for pattern in _PATTERNS:
                if found := self.match(pattern):
                    return self.go(len(found), "pattern", term=False)
        for pattern in (_WORDS, _QUOTED, _SINGLE, _NUMBER):
            if found := self.match(pattern):
                return "(?" not in found and self.go(len(found), "value", term=False)
        if found := self.match(_VARIABLE):
            return self.variable(found)
        mark = self.code[self.at]
        if mark in "({":
            return self.opened(mark)
        if mark in ")}" and (self.before in (";", "}", "{", "(") or self.before in _FUNCTIONS):
            return self.closed(mark)
        if mark == ";":
            return self.before in (";", "}", "{") and self.open[-1:] != ["("] and self.go(1, ";", term=True)
        if re.match(r"\+\+|--|[!-](?![A-Za-z])", self.code[self.at :]):
            return self.go(2 if self.code[self.at : self.at + 2] in ("++", "--") else 1, "!", term=True)
        return self.word()

    def variable(self, found: str) -> bool:
        self.go(len(found), "value", term=False)
        after = self.code[self.at : self.at + 1]
        if after in ("{", "[") and found[0] in "$@" and found not in ("$.", "$,", "$&"):
            bare = re.compile(r"\{\s*\w+\s*\}|\[\s*-?\d+\s*\]").match(self.code, self.at)
            if bare:
                self.at += len(bare.group())
                return True
            self.open.append("subscript" + after)
            return self.go(1, "(", term=True)
        return True

    def opened(self, mark: str) -> bool:
        """A parenthesis, or a block where one may stand: never what a reference is made of."""
        after = self.before
        if mark == "{" and after not in (";", "}", "{", ")", "map", "grep", "sort", *_BLOCKS):
            return False
        self.open.append("list{" if after in ("map", "grep", "sort") and mark == "{" else mark)
        return self.go(1, mark, term=True)

    def closed(self, mark: str) -> bool:
        wanted = {")": ("(",), "}": ("{", "list{", "subscript{"), "]": ("subscript[",)}[mark]
        if not self.open or self.open[-1] not in wanted:
            return False
        kind = self.open.pop()
        if kind == "(":
            leads = self.code[self.at + 1 :].lstrip().startswith("{")
            return self.go(1, ")", term=leads)
        # After the block of map, grep and sort comes their list; after another a statement begins.
        return self.go(1, {"{": "}", "list{": "("}.get(kind, "value"), term=kind in ("{", "list{"))

    def word(self) -> bool:
        found = re.compile(r"[A-Za-z_]+(?![\w:'])").match(self.code, self.at)
        word = found.group() if found else ""
        begins = self.before in (";", "}", "{")
        if word in _FUNCTIONS:
            rest = self.code[self.at + len(word) :].lstrip()
            if word in ("print", "printf", "say") and rest.startswith("STDERR"):
                return self.go(len(word) + len(self.code[self.at + len(word) :]) - len(rest) + 6, word, term=True)
            # Where nothing is given to it, what follows may be a statement's end.
            ends = not rest or rest[0] in ";})," or bool(re.match(r"(?:if|unless|for|foreach)\b", rest))
            return self.go(len(word), word, term=not ends)
        if word in _LEADS:
            return begins and self.go(len(word), word, term=True)
        if word in _BLOCKS:
            return begins and self.go(len(word), word, term=True)
        return word in _ALONE and self.go(len(word), "value", term=False)

    def taken_operator(self) -> bool:
        rest, mark = self.code[self.at :], self.code[self.at]
        if found := re.match(r"(?:if|unless|while|until|for|foreach)(?!\w)", rest):
            return self.go(len(found.group()), found.group(), term=True)
        if mark == ";":
            return "(" not in self.open[-1:] and self.go(1, ";", term=True)
        if mark in ")}]":
            return self.closed(mark)
        if (
            mark == "("
            and self.before == "value"
            and re.search(r"\b(?:my|foreach|for)\s+\$\w+\s*$", self.code[: self.at])
        ):
            return self.opened(mark)
        if mark in "[{" and self.before == "value" and self.code[self.at - 1] in "]}":
            self.open.append("subscript" + mark)
            return self.go(1, "(", term=True)
        found = self.match(_OPERATOR)
        if not found or (found == "<" and "->" in rest[:3]) or rest.startswith(("->", "<<")):
            return False
        if found in ("++", "--"):
            return self.go(2, "value", term=False)
        return self.go(len(found), found, term=True)


def is_plain(code: str) -> bool:
    """Whether a piece only counts, selects and prints."""
    if len(code) > 3_000 or re.search(r"[^\x20-\x7e\n\t]|\?\{|\?\?\{|__|\(\*|\*\{", code):
        return False
    try:
        return _Piece(code).takes()
    except IndexError:
        return False


_LETTERS = r"-(?:0(?:777)?)?[nplwa]*(?:F[,:;|])?(?:[eE]|i(?:\.\w+)?)?"


def read(words: Words) -> Reading | None:
    """What `perl -ne`, `-lane`, `-pe`, `-i -pe` and `-e` would do; None for any other form."""
    scripts: list[str] = []
    files: list[str] = []
    in_place, rest = False, list(words[1:])
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            files.append(word)
        elif files or not re.fullmatch(_LETTERS, word) or word == "-":
            return None
        else:
            in_place = in_place or "i" in word
            if word[-1] in "eE" and "i" not in word:
                scripts += [rest.pop(0)] if rest else []
    if not scripts:
        return None
    plain = all(map(is_plain, scripts)) and all(map(is_plain_name, files))
    named = tuple(files)
    return Reading("" if plain else "Perl that is not known", named, named if in_place else ())
