"""What a piece of JavaScript would do, by the kinds of its values: nothing is called or opened that is not known.

Each statement is looked at until nothing new is learned: a variable has the kind of all that it is ever given. What is
not known to do no harm is refused, so that only what a piece opens by a name that stands there is left to be judged.
"""

from collections.abc import Iterable

from adderclaw.gate.javascript import instances, natives
from adderclaw.gate.javascript.kinds import NONE, NUMBER, PROJECT, Kind
from adderclaw.gate.javascript.lexer import Refused
from adderclaw.gate.javascript.parser import Node
from adderclaw.gate.javascript.scopes import Scope, check_names, constants, declared, every, hoisted
from adderclaw.gate.javascript.values import MAX_STEPS, Values

_MAX_PASSES = 14


def _makes_holes(node: Node) -> bool:
    """Whether an array may have empty places after it: a place far behind its end is filled, or its length is set."""
    target = node.parts[1] if node.type == "assign" else node.parts[0] if node.type == "step" else None
    return target is not None and target.type in ("member", "index")


class Interpreter(Values):
    def __init__(self, program: list[Node], words: tuple[str, ...], *, packages: bool = True) -> None:
        super().__init__(words, packages=packages)
        self.program = program
        self.loads = any(map(natives.loads, every(program)))
        self.deletes = "delete" in {node.parts[0] for node in every(program) if node.type == "unary"}
        self.cells.holes = self.deletes or any(map(_makes_holes, every(program)))
        self.constant = constants(program)
        check_names(program)

    def run(self) -> natives.Effects:
        for number in range(_MAX_PASSES):
            self.cells.changed, self.effects = False, natives.Effects()
            self.cells.widens = number > 4
            self.block(self.program, Scope())
            if self.cells.changed:
                continue
            if self.strict:
                return self.effects
            self.follow_all()
            self.strict = not self.cells.changed
        raise Refused("what its variables hold is not clear")

    def block(self, body: Iterable[Node], scope: Scope, *, hoists: bool = True) -> None:
        statements = tuple(body)
        for node in statements:
            for target in declared(node):
                self.declare(target, scope)
        if hoists:
            for target in (t for node in statements for t in hoisted(node)):
                self.declare(target, scope)
        for node in statements:
            if node.type == "function_statement":
                self.give(Node("name", node.at, (node.parts[0].parts[0],)), self.value(node.parts[0], scope), scope)
        for node in statements:
            self.statement(node, scope)

    def statement(self, node: Node, scope: Scope) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Refused("it is too long")
        getattr(self, f"do_{node.type}")(node, scope)

    def do_empty(self, _node: Node, _scope: Scope) -> None: ...

    do_function_statement = do_empty

    def do_import(self, node: Node, scope: Scope) -> None:
        source, names = node.parts
        module = natives.module(self, source)
        for name, own in names:
            whole = name == "*" or (name == "default" and module.sort != "project")
            self.give(own, module if whole else PROJECT if name == "default" else self.member(module, name), scope)

    def do_block(self, node: Node, scope: Scope) -> None:
        self.block(node.parts, Scope(scope), hoists=False)

    def do_declare(self, node: Node, scope: Scope) -> None:
        for target, given in node.parts[1]:
            self.give(target, NUMBER if given is None else self.value(given, scope), scope)

    def do_expression(self, node: Node, scope: Scope) -> None:
        """`node -p` shows what the last of these gives."""
        made = self.value(node.parts[0], scope)
        seen: set[Kind] = set()
        while made.sort != "none" and made not in seen:
            seen.add(made)
            if made.sort == "native" and made.name in ("process", "process.env"):
                raise Refused("the whole environment")
            made = self.cells.get(made.cell) if made.sort == "box" else made.inner or NONE

    def do_if(self, node: Node, scope: Scope) -> None:
        test, then, otherwise = node.parts
        self.value(test, scope)
        self.statement(then, scope)
        if otherwise is not None:
            self.statement(otherwise, scope)

    def do_while(self, node: Node, scope: Scope) -> None:
        self.value(node.parts[0], scope)
        self.statement(node.parts[1], scope)

    def do_for(self, node: Node, scope: Scope) -> None:
        first, test, step, body = node.parts
        inner = Scope(scope)
        if first is not None and first.type == "declare":
            self.block((first,), inner, hoists=False)
        elif first is not None:
            self.value(first, inner)
        for part in (test, step):
            if part is not None:
                self.value(part, inner)
        self.statement(body, inner)

    def do_each(self, node: Node, scope: Scope) -> None:
        kind, target, how, over, body, awaits = node.parts
        given = self.value(over, scope)
        inner = Scope(scope)
        if kind != "var":
            self.declare(target, inner)
        if how == "in":
            self.plain(given)
            element = self.key_of(over, scope)
        elif given.sort == "instance":
            element = instances.each(given, awaits=awaits)
        else:
            element = self.cells.each(given)
            element = (element.inner or NONE) if awaits and element.sort == "promise" else element
        self.give(target, element, inner)
        self.statement(body, inner)

    def do_return(self, node: Node, scope: Scope) -> None:
        made = NUMBER if node.parts[0] is None else self.value(node.parts[0], scope)
        self.cells.put(("return", self.returns[-1]), made)

    def do_throw(self, node: Node, scope: Scope) -> None:
        made = self.value(node.parts[0], scope)
        if made.sort != "project" and not self.cells.is_clean(made):
            raise Refused("throw of a value that is not known")

    def do_try(self, node: Node, scope: Scope) -> None:
        body, caught, handler, last = node.parts
        self.statement(body, scope)
        if handler is not None:
            inner = Scope(scope)
            if caught is not None:
                self.declare(caught, inner)
                self.give(caught, self.caught(), inner)
            self.statement(handler, inner)
        if last is not None:
            self.statement(last, scope)

    def do_switch(self, node: Node, scope: Scope) -> None:
        self.plain(self.value(node.parts[0], scope))
        for test, body in node.parts[1]:
            if test is not None:
                self.plain(self.value(test, scope))
            for one in body:
                self.statement(one, scope)
