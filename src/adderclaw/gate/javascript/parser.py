"""The grammar of JavaScript, as far as small pieces need it; all else is refused, never skipped.

Where ECMAScript puts in a semicolon by itself, and the next line could be read as more of the one before it, the
reading is the standard's; forms in which that surprises people are refused.
"""

from adderclaw.gate.javascript.expressions import RESERVED, Expressions, Node
from adderclaw.gate.javascript.lexer import Refused

__all__ = ["Node", "parse"]


def parse(code: str, *, typed: bool = False) -> list[Node]:
    """The statements of a piece; raises Refused. `typed`: TypeScript may read it, too."""
    return _Parser(code, typed=typed).program()


class _Parser(Expressions):
    def program(self) -> list[Node]:
        found: list[Node] = []
        while self.lexer.token.kind != "end":
            found.append(self.imported() if self.is_word("import") and not self.calls_import() else self.statement())
        return found

    def calls_import(self) -> bool:
        token = self.lexer.advance()
        called = self.is_mark("(", ".")
        self.lexer.back_to(token)
        return called

    def imported(self) -> Node:
        at = self.at()
        self.need("import")
        if self.lexer.token.kind == "text":
            source = self.text()
            self.ended()
            return Node("import", at, (source, ()))
        names: list[tuple[str, Node]] = []
        if not self.is_mark("{", "*"):
            names.append(("default", self.own_name()))
            if not self.take(","):
                return self.source(at, names)
        if self.take("*"):
            self.need("as")
            names.append(("*", self.own_name()))
            return self.source(at, names)
        self.need("{")
        while not self.take("}"):
            token = self.lexer.advance()
            if token.kind != "name":
                raise Refused("a name is expected in an import")
            renamed = self.take("as")
            if not renamed and token.text in RESERVED:
                raise Refused(f"{token.text!r} where a name is expected")
            own = self.own_name() if renamed else Node("name", token.start, (token.text,))
            names.append((token.text, own))
            if not self.is_mark("}"):
                self.need(",")
        return self.source(at, names)

    def own_name(self) -> Node:
        return Node("name", self.at(), (self.name(),))

    def source(self, at: int, names: list[tuple[str, Node]]) -> Node:
        self.need("from")
        source = self.text()
        if self.take("with"):
            self.need("{")
            if not self.take("type"):
                raise Refused("an import with more than a type")
            self.need(":")
            if self.text() != "json":
                raise Refused("an import with another type")
            self.need("}")
        self.ended()
        return Node("import", at, (source, tuple(names)))

    def statement(self) -> Node:
        self.deeper()
        made = self._statement()
        self.depth -= 1
        return made

    def _statement(self) -> Node:
        token, at = self.lexer.token, self.at()
        if token.kind == "mark":
            if token.text == "{":
                return self.block()
            if self.take(";"):
                return Node("empty", at)
            if token.text in ("/", "/="):
                raise Refused("a statement that begins with a slash")
        handler = _STATEMENTS.get(token.text) if token.kind == "name" else None
        if handler is not None:
            return handler(self)
        if self.is_word("async"):
            self.lexer.advance()
            function = self.is_word("function") and not self.lexer.token.after_line
            self.lexer.back_to(token)
            if function:
                return self.function_statement()
        made = self.expression()
        self.ended()
        return Node("expression", at, (made,))

    def block(self) -> Node:
        self.nested += 1
        made = self.body()
        self.nested -= 1
        return made

    def body(self) -> Node:
        at = self.at()
        self.need("{")
        body: list[Node] = []
        while not self.take("}"):
            body.append(self.statement())
        return Node("block", at, tuple(body))

    def single(self) -> Node:
        """The body of an if or a loop: no declaration stands there."""
        if self.is_word("const", "let", "var", "function", "async"):
            raise Refused("a declaration without a block")
        return self.statement()

    def declaration(self) -> Node:
        made = self.declared()
        self.ended()
        return made

    def declared(self) -> Node:
        at, kind = self.at(), self.lexer.advance().text
        found: list[tuple[Node, Node | None]] = []
        while True:
            target = self.pattern()
            found.append((target, self.assigned() if self.take("=") else None))
            if not self.take(","):
                return Node("declare", at, (kind, tuple(found)))

    def function_statement(self) -> Node:
        made = self.function()
        if not made.parts[0] or self.nested:
            raise Refused("a function without a name, or in a block")
        return Node("function_statement", made.at, (made,))

    def if_statement(self) -> Node:
        at = self.at()
        self.need("if")
        test = self.in_parens()
        body = self.single()
        return Node("if", at, (test, body, self.single() if self.take("else") else None))

    def in_parens(self) -> Node:
        self.need("(")
        made = self.expression()
        self.need(")")
        return made

    def looped(self) -> Node:
        self.loops += 1
        body = self.single()
        self.loops -= 1
        return body

    def while_statement(self) -> Node:
        at = self.at()
        self.need("while")
        test = self.in_parens()
        return Node("while", at, (test, self.looped()))

    def do_statement(self) -> Node:
        at = self.at()
        self.need("do")
        body = self.looped()
        self.need("while")
        test = self.in_parens()
        self.ended()
        return Node("while", at, (test, body))

    def for_statement(self) -> Node:
        at = self.at()
        self.need("for")
        awaits = self.is_word("await")
        if awaits:
            self.awaitable()
            self.lexer.advance()
        self.need("(")
        if self.is_word("const", "let", "var"):
            token, kind = self.lexer.token, self.lexer.advance().text
            target = self.pattern()
            if self.is_word("of", "in"):
                how = self.lexer.advance().text
                over = self.assigned() if how == "of" else self.expression()
                self.need(")")
                if awaits and how == "in":
                    raise Refused("for await … in")
                return Node("each", at, (kind, target, how, over, self.looped(), awaits))
            self.lexer.back_to(token)
        if awaits:
            raise Refused("for await without of")
        self.without_in = True
        first = None
        if self.is_word("const", "let", "var"):
            first = self.declared()
        elif not self.is_mark(";"):
            first = self.expression()
        self.without_in = False
        self.need(";")
        test = None if self.is_mark(";") else self.expression()
        self.need(";")
        step = None if self.is_mark(")") else self.expression()
        self.need(")")
        return Node("for", at, (first, test, step, self.looped()))

    def return_statement(self) -> Node:
        at = self.at()
        self.need("return")
        if not self.functions:
            raise Refused("return outside of a function")
        return Node("return", at, (self.same_line(),))

    def throw_statement(self) -> Node:
        at = self.at()
        self.need("throw")
        made = self.same_line()
        if made is None:
            raise Refused("throw of nothing")
        return Node("throw", at, (made,))

    def same_line(self) -> Node | None:
        token = self.lexer.token
        if self.take(";"):
            return None
        if token.kind == "end" or self.is_mark("}"):
            return None
        if token.after_line:
            raise Refused("a line that ends where it may mean something else")
        made = self.expression()
        self.ended()
        return made

    def leave_statement(self) -> Node:
        at = self.at()
        self.lexer.advance()
        if not self.loops:
            raise Refused("break or continue outside of a loop")
        self.ended()
        return Node("empty", at)

    def try_statement(self) -> Node:
        at = self.at()
        self.need("try")
        body, caught, handler, last = self.block(), None, None, None
        if self.take("catch"):
            if self.take("("):
                caught = self.pattern()
                self.need(")")
            handler = self.block()
        if self.take("finally"):
            last = self.block()
        if handler is None and last is None:
            raise Refused("try without catch")
        return Node("try", at, (body, caught, handler, last))

    def switch_statement(self) -> Node:
        at = self.at()
        self.need("switch")
        subject = self.in_parens()
        self.need("{")
        arms: list[tuple[Node | None, tuple[Node, ...]]] = []
        self.loops += 1
        self.nested += 1
        while not self.take("}"):
            test = None
            if not self.take("default"):
                self.need("case")
                test = self.expression()
            self.need(":")
            body: list[Node] = []
            while not self.is_word("case", "default") and not self.is_mark("}"):
                body.append(self.single())
            arms.append((test, tuple(body)))
        self.loops -= 1
        self.nested -= 1
        return Node("switch", at, (subject, tuple(arms)))


_STATEMENTS = {
    **dict.fromkeys(("const", "let", "var"), _Parser.declaration),
    "function": _Parser.function_statement,
    "if": _Parser.if_statement,
    "while": _Parser.while_statement,
    "do": _Parser.do_statement,
    "for": _Parser.for_statement,
    "return": _Parser.return_statement,
    "throw": _Parser.throw_statement,
    **dict.fromkeys(("break", "continue"), _Parser.leave_statement),
    "try": _Parser.try_statement,
    "switch": _Parser.switch_statement,
}
