"""`[[ … ]]` in terms of `test`, `case` and a match with a regular expression that is written down."""

import re
from collections.abc import Callable

from adderclaw.policy.legacy.shell.lexer import Lexer
from adderclaw.policy.legacy.shell.syntax import (
    Case,
    Command,
    Group,
    Match,
    Node,
    NotAPlan,
    Pipeline,
    Script,
    Text,
    Word,
)

_UNARY = frozenset("-b -c -d -e -f -g -h -k -L -n -p -r -s -S -t -u -w -x -z -N -O -G".split())  # noqa: SIM905
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_BINARY = frozenset({"=", "==", "!=", "-nt", "-ot", "-ef"}) | _NUMERIC
_NAMED = re.compile(r"\$(?:(\w+)|\{([A-Za-z_]\w*)\})(?=\s)", re.ASCII)
_EXPRESSION = re.compile(
    r"""(?P<plain>[\w^.*+?,:@%=/!{}()|-])
    | (?P<brackets>\[\^?(?:\[:[a-z]+:\]|[\w .,:@%=/!+*?^|(){}-])+\])
    | \\(?P<escaped>[.^$*+?()\[\]{}|/\x20-])
    | (?P<end>\$(?=[\s)|]))""",
    re.ASCII | re.VERBOSE,
)
"""What bash and the library that it asks read in one way only."""


class Conditions(Lexer):
    def double_brackets(self) -> Group:
        """`[[ … ]]` in terms of `test` and `case`, which say the same."""
        self.at += 2
        script = self.either()
        self.blanks()
        if self.reserved() != "]]":
            raise NotAPlan("[[ ]] of a form that plans do not have")
        self.at += 2
        return Group("{", script)

    def either(self) -> Script:
        return self.chained("||", self.both)

    def both(self) -> Script:
        return self.chained("&&", self.single)

    def chained(self, operator: str, part: Callable[[], Script]) -> Script:
        found = [part()]
        self.blanks()
        while self.ahead(2) == operator:
            self.at += 2
            found.append(part())
            self.blanks()
        if len(found) == 1:
            return found[0]
        return Script(tuple(_alone(Group("{", one), operator if n else "") for n, one in enumerate(found)))

    def single(self) -> Script:
        self.deeper()
        self.blanks()
        if self.reserved() == "!":
            self.at += 1
            made = Script((_alone(Group("{", self.single()), negated=True),))
        elif self.ahead() == "(":
            self.at += 1
            made = self.either()
            self.close(")")
        else:
            made = Script((_alone(self.primary()),))
        self.depth -= 1
        return made

    def primary(self) -> Node:
        start = self.at
        first = self.reserved()
        if first in _UNARY:
            self.at += len(first)
            self.blanks()
            return self.tested((first,), (self.word(),), start)
        left = self.word()
        self.blanks()
        operator = self.reserved()
        if operator in ("]]", "") or self.operator():
            if self.operator() in ("<", ">"):
                raise NotAPlan("[[ ]] that compares the order of texts")
            return self.tested(("-n",), (left,), start)
        if operator == "=~":
            self.at += 2
            return self.matched(_held(left))
        if operator not in _BINARY:
            raise NotAPlan("[[ ]] of a form that plans do not have")
        self.at += len(operator)
        self.blanks()
        right = self.word()
        if operator in ("=", "==", "!=") and not all(isinstance(p, Text) and _is_literal(p) for p in right):
            same = Script((_alone(_builtin("true" if operator != "!=" else "false")),))
            other = Script((_alone(_builtin("false" if operator != "!=" else "true")),))
            return Case(_held(left), (((right,), same), (((Text("*"),),), other)))
        return self.tested((operator.replace("==", "="),), (left, right), start)

    def tested(self, operator: tuple[str, ...], operands: tuple[Word, ...], start: int) -> Command:
        held = [_held(word) for word in operands]
        sign = (Text(operator[0], True),)
        words = (sign, *held) if len(held) == 1 else (held[0], sign, held[1])
        return Command((), ((Text("[["),), *words), (), self.text[start : self.at].strip())

    def matched(self, value: Word) -> Match:
        self.blanks()
        named = _NAMED.match(self.text, self.at)
        if named is not None:
            self.at = named.end()
            return Match(value, "", named[1] or named[2])
        out: list[str] = []
        depth = 0
        while self.at < len(self.text) and self.ahead() not in (" ", "\t", "\n"):
            out.append(self.expression())
            depth += {"(": 1, ")": -1}.get(out[-1], 0)
            if depth < 0 or out[-2:] == ["|", "|"]:
                raise NotAPlan("[[ ]] with =~ and an unusual expression")
        if depth or not out:
            raise NotAPlan("[[ ]] with =~ and an unusual expression")
        return Match(value, "".join(out))

    def expression(self) -> str:
        """The next piece of a regular expression; what is quoted in it stands for itself."""
        if self.ahead() == "'":
            return _escaped(self.single_quoted())
        if self.ahead() == '"':
            self.at += 1
            parts = self.until('"')
            self.at += 1
            if not all(isinstance(part, Text) for part in parts):
                raise NotAPlan("[[ ]] with =~ and an expression that is not literal")
            return _escaped("".join(part.text for part in parts if isinstance(part, Text)))
        found = _EXPRESSION.match(self.text, self.at)
        if found is None:
            raise NotAPlan("[[ ]] with =~ and an expression that is not literal, or an unusual one")
        self.at = found.end()
        return _escaped(found["escaped"]) if found["escaped"] else found.group()


def _alone(node: Node, after: str = "", *, negated: bool = False) -> Pipeline:
    return Pipeline(after, negated, False, (node,), ())


def _builtin(name: str) -> Command:
    return Command((), ((Text(name),),), (), name)


def _is_literal(part: Text) -> bool:
    return part.quoted or not re.search(r"[*?\[~]", part.text)


def _held(word: Word) -> Word:
    """A word as `[[ ]]` reads it: nothing is split, no names are looked up, but a leading `~` is home."""
    held = [part._replace(quoted=True) for part in word]
    first = word[0]
    if isinstance(first, Text) and not first.quoted and first.text.startswith("~"):
        if not first.text.startswith("~/") and (first.text != "~" or len(word) > 1):
            raise NotAPlan("tilde expansion of a user's name")
        held = [Text(first.text[:2]), Text(first.text[2:], True), *held[1:]]
    return tuple(held)


def _escaped(text: str) -> str:
    return re.sub(r"[.^$*+?()\[\]{}|\\]", r"\\\g<0>", text)
