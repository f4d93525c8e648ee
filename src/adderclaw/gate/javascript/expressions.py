"""Expressions of JavaScript, and the patterns and functions in them; what is not known is refused, never skipped.

The tree is made of `Node`s.
"""

from typing import Any, NamedTuple

from adderclaw.gate.javascript.lexer import Lexer, Refused, cooked
from adderclaw.gate.programs.allowlist import names


class Node(NamedTuple):
    type: str
    at: int
    """Where it begins: what is known of it is kept under this."""
    parts: tuple[Any, ...] = ()


RESERVED = names(
    """break case catch class const continue debugger default delete do else enum export extends finally for function if
    implements import in instanceof interface let new package private protected public return static super switch this
    throw try typeof var void while with yield await async of get set eval arguments null true false
    as satisfies type declare namespace abstract keyof infer is using accessor"""
)
_LITERALS = frozenset({"null", "true", "false"})
_BINARY = {
    **dict.fromkeys(("??", "||"), 1),
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    **dict.fromkeys(("==", "!=", "===", "!=="), 6),
    **dict.fromkeys(("<", ">", "<=", ">=", "in", "instanceof"), 7),
    **dict.fromkeys(("<<", ">>", ">>>"), 8),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "/", "%"), 10),
    "**": 11,
}
_ASSIGNS = names("= += -= *= /= %= **= <<= >>= >>>= &= |= ^= &&= ||= ??=")
_MAX_DEPTH, _MAX_STEPS = 60, 60_000


class Expressions:
    """A parser that has a token at hand, and reads expressions from there."""

    def __init__(self, code: str, *, typed: bool) -> None:
        self.lexer = Lexer(code)
        self.typed = typed
        self.functions = 0
        self.asynchronous = False
        self.loops = 0
        self.depth = self.steps = 0
        self.without_in = False
        self.nested = 0
        self.angles: set[str] = set()

    def body(self) -> Node:
        """The body of a function."""
        raise Refused("a function's body")

    # -------------------------------------------------------------- tokens

    def is_mark(self, *marks: str) -> bool:
        return self.lexer.token.kind == "mark" and self.lexer.token.text in marks

    def is_word(self, *words: str) -> bool:
        return self.lexer.token.kind == "name" and self.lexer.token.text in words

    def take(self, text: str) -> bool:
        if self.lexer.token.kind in ("mark", "name") and self.lexer.token.text == text:
            self.lexer.advance()
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            raise Refused(f"{self.lexer.token.text!r} where {text!r} is expected")

    def name(self) -> str:
        token = self.lexer.token
        if token.kind != "name" or token.text in RESERVED:
            raise Refused(f"{token.text!r} where a name is expected")
        return self.lexer.advance().text

    def at(self) -> int:
        return self.lexer.token.start

    def text(self) -> str:
        if self.lexer.token.kind != "text":
            raise Refused("a text is expected")
        return cooked(self.lexer.advance().text[1:-1])

    def ended(self) -> None:
        """The end of a statement, where the standard may put in the semicolon."""
        token = self.lexer.token
        if not self.take(";") and not token.after_line and token.kind != "end" and not self.is_mark("}"):
            raise Refused(f"{token.text!r} after a statement")

    def deeper(self) -> None:
        self.depth += 1
        self.steps += 1
        if self.depth > _MAX_DEPTH or self.steps > _MAX_STEPS:
            raise Refused("it is too long or too deep")

    # -------------------------------------------------------------- patterns and functions

    def pattern(self) -> Node:
        """What is given a value in a declaration or as a parameter."""
        self.deeper()
        at = self.at()
        if self.take("["):
            made = Node("array_pattern", at, tuple(self.array_targets()))
        elif self.take("{"):
            made = Node("object_pattern", at, tuple(self.object_targets()))
        else:
            made = Node("name", at, (self.name(),))
        self.depth -= 1
        return made

    def array_targets(self) -> list[tuple[Node | None, Node | None, bool]]:
        found: list[tuple[Node | None, Node | None, bool]] = []
        while not self.take("]"):
            if self.take(","):
                found.append((None, None, False))
                continue
            rest = self.take("...")
            target = self.pattern()
            found.append((target, self.assigned() if not rest and self.take("=") else None, rest))
            if not self.is_mark("]"):
                if rest:
                    raise Refused("something after the rest")
                self.need(",")
        return found

    def object_targets(self) -> list[tuple[str | None, Node, Node | None]]:
        """(key, target, default); of the rest the key is None."""
        found: list[tuple[str | None, Node, Node | None]] = []
        while not self.take("}"):
            if self.take("..."):
                found.append((None, Node("name", self.at(), (self.name(),)), None))
            else:
                token = self.lexer.token
                key = self.key()
                if self.take(":"):
                    target = self.pattern()
                elif token.kind == "name" and token.text not in RESERVED:
                    target = Node("name", token.start, (token.text,))
                else:
                    raise Refused(f"{token.text!r} where a name is expected")
                found.append((key, target, self.assigned() if self.take("=") else None))
            if not self.is_mark("}"):
                self.need(",")
        return found

    def key(self) -> str:
        token = self.lexer.token
        if token.kind == "text":
            return self.text()
        if token.kind not in ("name", "number") or ("_" in token.text and token.kind == "number"):
            raise Refused("a key that is not plain")
        return self.lexer.advance().text

    def function(self) -> Node:
        """`function` with a name or without, perhaps after `async`."""
        at = self.at()
        asynchronous = self.take("async")
        self.need("function")
        if self.is_mark("*"):
            raise Refused("a generator")
        name = "" if self.is_mark("(") else self.name()
        self.need("(")
        outer = self.begin(asynchronous=asynchronous)
        made = Node("function", at, (name, self.parameters(), self.body(), asynchronous))
        self.end(outer)
        return made

    def begin(self, *, asynchronous: bool) -> tuple[bool, int, bool, int]:
        outer = (self.asynchronous, self.loops, self.without_in, self.nested)
        self.asynchronous, self.loops, self.without_in, self.nested = asynchronous, 0, False, 0
        self.functions += 1
        return outer

    def end(self, outer: tuple[bool, int, bool, int]) -> None:
        self.asynchronous, self.loops, self.without_in, self.nested = outer
        self.functions -= 1

    def parameters(self) -> tuple[tuple[Node, Node | None, bool], ...]:
        """(target, default, whether it takes the rest), up to the parenthesis."""
        found: list[tuple[Node, Node | None, bool]] = []
        while not self.take(")"):
            rest = self.take("...")
            target = self.pattern()
            found.append((target, self.assigned() if not rest and self.take("=") else None, rest))
            if not self.is_mark(")"):
                if rest:
                    raise Refused("something after the rest")
                self.need(",")
        return tuple(found)

    def arrow(self) -> Node | None:
        """An arrow function, if one begins here; else nothing was read."""
        token, depth = self.lexer.token, self.depth
        try:
            asynchronous = self.is_word("async")
            if asynchronous:
                self.lexer.advance()
                if self.lexer.token.after_line or self.is_mark("=>"):
                    raise Refused("async as a name")
                if self.is_word("function"):
                    raise Refused("a function, which is no arrow")
            outer = self.begin(asynchronous=asynchronous)
            try:
                if self.take("("):
                    given = self.parameters()
                else:
                    given = ((Node("name", self.at(), (self.name(),)), None, False),)
                if self.lexer.token.after_line or not self.take("=>"):
                    raise Refused("no arrow")
            except Refused:
                self.end(outer)
                raise
        except Refused:
            self.lexer.back_to(token)
            self.depth = depth
            return None
        self.deeper()
        body = self.body() if self.is_mark("{") else Node("return", self.at(), (self.assigned(),))
        self.depth -= 1
        self.end(outer)
        return Node("function", token.start, ("", given, body, asynchronous))

    # -------------------------------------------------------------- expressions

    def expression(self) -> Node:
        at = self.at()
        found = [self.assigned()]
        while self.take(","):
            found.append(self.assigned())
        return found[0] if len(found) == 1 else Node("sequence", at, tuple(found))

    def assigned(self) -> Node:
        self.deeper()
        made = self._assigned()
        self.depth -= 1
        return made

    def _assigned(self) -> Node:
        at = self.at()
        if self.is_mark("(") or self.lexer.token.kind == "name":
            made = self.arrow()
            if made is not None:
                return made
        target = self.conditional()
        if self.lexer.token.kind == "mark" and self.lexer.token.text in _ASSIGNS:
            if target.type not in ("name", "member", "index"):
                raise Refused("a value is given to something that is no plain name")
            how = self.lexer.advance().text
            return Node("assign", at, (how, target, self.assigned()))
        return target

    def conditional(self) -> Node:
        at, test = self.at(), self.binary(0)
        if not self.take("?"):
            return test
        if self.typed and self.is_mark("("):
            raise Refused("what TypeScript may take for a function")
        outer, self.without_in = self.without_in, False
        then = self.assigned()
        self.without_in = outer
        self.need(":")
        return Node("conditional", at, (test, then, self.assigned()))

    def binary(self, least: int) -> Node:
        at, left = self.at(), self.unary()
        seen: set[str] = set()
        while True:
            token = self.lexer.token
            rank = _BINARY.get(token.text, 0) if token.kind in ("mark", "name") else 0
            if not rank or rank <= least or (token.text == "in" and self.without_in):
                return left
            if token.text == "**" and left.type in ("unary", "await"):
                raise Refused("a sign before a power")
            self.angles.add(token.text)
            if self.typed and self.angles & {"<", "<<"} and self.angles & {">", ">>", ">=", ">>>"}:
                raise Refused("what TypeScript may take for a type")
            self.lexer.advance()
            self.steps += 1
            seen.add(token.text)
            right = self.binary(rank - 1 if token.text == "**" else rank)
            if "??" in seen and {"||", "&&"} & (seen | _operators(right)):
                raise Refused("?? with || or &&")
            left = Node("binary", at, (token.text, left, right))

    def unary(self) -> Node:
        self.deeper()
        made = self._unary()
        self.depth -= 1
        return made

    def _unary(self) -> Node:
        at = self.at()
        if self.is_mark("!", "-", "+", "~") or self.is_word("typeof", "void", "delete"):
            sign = self.lexer.advance().text
            return Node("unary", at, (sign, self.unary()))
        if self.is_mark("++", "--"):
            self.lexer.advance()
            return Node("step", at, (self.simple_target(self.unary()),))
        if self.is_word("await"):
            self.awaitable()
            self.lexer.advance()
            if self.lexer.token.kind != "name" and not self.is_mark("("):
                raise Refused("await of something that is neither a name nor a call")
            return Node("await", at, (self.unary(),))
        made = self.postfix()
        if self.is_mark("++", "--"):
            if self.lexer.token.after_line:
                raise Refused("a sign after a line")
            self.lexer.advance()
            return Node("step", at, (self.simple_target(made),))
        return made

    def awaitable(self) -> None:
        """Without it, `await` outside of a function is a name, unless Node reads the piece as a module."""
        if self.functions and not self.asynchronous:
            raise Refused("await in a function that is not async")

    def simple_target(self, target: Node) -> Node:
        if target.type not in ("name", "member", "index"):
            raise Refused("a value is given to something that is no plain name")
        return target

    def postfix(self) -> Node:
        at = self.at()
        made = self.created() if self.is_word("new") else self.primary()
        while True:
            if self.take("."):
                made = Node("member", at, (made, self.member_name(), False))
            elif self.take("?."):
                if self.is_mark("("):
                    self.lexer.advance()
                    made = Node("call", self.at(), (made, self.arguments()))
                elif self.take("["):
                    made = Node("index", at, (made, self.inside(), True))
                else:
                    made = Node("member", at, (made, self.member_name(), True))
            elif self.take("["):
                made = Node("index", at, (made, self.inside(), False))
            elif self.is_mark("("):
                self.lexer.advance()
                made = Node("call", self.at(), (made, self.arguments()))
            elif self.is_mark("`"):
                raise Refused("a function that is given a template")
            else:
                return made
            self.steps += 1

    def member_name(self) -> str:
        token = self.lexer.advance()
        if token.kind != "name":
            raise Refused("a member that is not named")
        return token.text

    def inside(self) -> Node:
        outer, self.without_in = self.without_in, False
        made = self.expression()
        self.without_in = outer
        self.need("]")
        return made

    def created(self) -> Node:
        at = self.at()
        self.need("new")
        token = self.lexer.token
        name = self.name()
        while self.take("."):
            name += f".{self.member_name()}"
        if not self.take("("):
            if name != "Date" and name != "Map" and name != "Set":
                raise Refused("new without its arguments")
            return Node("new", at, (name, (), token.start))
        return Node("new", at, (name, self.arguments(), token.start))

    def arguments(self) -> tuple[Node, ...]:
        outer, self.without_in = self.without_in, False
        found: list[Node] = []
        while not self.take(")"):
            at = self.at()
            found.append(Node("spread", at, (self.assigned(),)) if self.take("...") else self.assigned())
            if not self.is_mark(")"):
                self.need(",")
        self.without_in = outer
        return tuple(found)

    def primary(self) -> Node:
        token, at = self.lexer.token, self.at()
        if token.kind == "number":
            return Node("number", at, (self.lexer.advance().text,))
        if token.kind == "text":
            return Node("text", at, (self.text(),))
        if token.kind == "name":
            return self.named()
        if token.text in ("/", "/="):
            return Node("regex", at, (self.lexer.regex(),))
        if token.text == "`":
            return self.template()
        if self.take("("):
            outer, self.without_in = self.without_in, False
            made = self.expression()
            self.without_in = outer
            self.need(")")
            return Node("parens", at, (made,))
        if self.take("["):
            return Node("array", at, self.elements())
        if self.take("{"):
            return Node("object", at, self.properties())
        raise Refused(f"{token.text!r} where a value is expected")

    def named(self) -> Node:
        token, at = self.lexer.token, self.at()
        if token.text in _LITERALS:
            return Node("constant", at, (self.lexer.advance().text,))
        if token.text in ("function", "async"):
            return self.function()
        if token.text == "import":
            self.lexer.advance()
            self.need("(")
            source = self.text()
            self.need(")")
            return Node("dynamic", at, (source,))
        return Node("name", at, (self.name(),))

    def template(self) -> Node:
        at, found = self.at(), list[Node | str]()
        start = self.lexer.token.end
        while True:
            text, more = self.lexer.chunk(start)
            found.append(cooked(text))
            if not more:
                return Node("template", at, tuple(found))
            outer, self.without_in = self.without_in, False
            found.append(self.expression())
            self.without_in = outer
            if not self.is_mark("}"):
                raise Refused("a template that does not end")
            start = self.lexer.token.end

    def elements(self) -> tuple[Node, ...]:
        outer, self.without_in = self.without_in, False
        found: list[Node] = []
        while not self.take("]"):
            at = self.at()
            found.append(Node("spread", at, (self.assigned(),)) if self.take("...") else self.assigned())
            if not self.is_mark("]"):
                self.need(",")
        self.without_in = outer
        return tuple(found)

    def properties(self) -> tuple[tuple[str | Node | None, Node], ...]:
        """(key, value); a key that is computed is a node, that of a spread None."""
        outer, self.without_in = self.without_in, False
        found: list[tuple[str | Node | None, Node]] = []
        while not self.take("}"):
            token = self.lexer.token
            if self.take("..."):
                found.append((None, self.assigned()))
            elif self.take("["):
                key = self.assigned()
                self.need("]")
                self.need(":")
                found.append((key, self.assigned()))
            else:
                name = self.key()
                if self.take(":"):
                    found.append((name, self.assigned()))
                elif token.kind == "name" and token.text not in RESERVED:
                    found.append((name, Node("name", token.start, (name,))))
                else:
                    raise Refused("a property that is no plain one")
            if not self.is_mark("}"):
                self.need(",")
        self.without_in = outer
        return tuple(found)


def _operators(node: Node) -> set[str]:
    return {node.parts[0]} if node.type == "binary" else set()
