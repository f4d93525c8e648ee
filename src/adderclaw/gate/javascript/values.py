"""Values in a piece of JavaScript: of which kind each expression is, and what reading and calling it may do."""

from collections.abc import Iterable
from typing import NamedTuple

from adderclaw.gate.javascript import functions, instances, methods, natives, texts
from adderclaw.gate.javascript.files import FOUND
from adderclaw.gate.javascript.kinds import (
    CLEAN,
    DATA,
    NONE,
    NUMBER,
    PROJECT,
    RANK,
    TEXT,
    Cells,
    Kind,
    promise,
)
from adderclaw.gate.javascript.lexer import Refused
from adderclaw.gate.javascript.names import FUNCTIONS, GETTERS, HARD
from adderclaw.gate.javascript.natives import Arg
from adderclaw.gate.javascript.parser import Node
from adderclaw.gate.javascript.scopes import Scope, names_of, same_place

MAX_STEPS = 6_000
_MAX_FUNCTIONS = 60


def _is_found(key: Kind) -> bool:
    """Whether a text is in part a name that was found, which may be any."""
    return any(FOUND in text for text in key.known or ())


class Function(NamedTuple):
    node: Node
    scope: Scope


class Values:
    """What is known of values, functions and variables; `reading` knows the statements."""

    def __init__(self, words: tuple[str, ...], *, packages: bool = True) -> None:
        self.words, self.packages = words, packages
        self.cells = Cells()
        self.functions: dict[int, Function] = {}
        self.constant: frozenset[int] = frozenset()
        """Variables that always stand for one value: constants outside of functions and loops."""
        self.effects = natives.Effects()
        self.returns: list[int] = []
        self.steps = 0
        self.loads = self.deletes = False
        self.strict = False
        """Whether all is known that will be: what is nothing by now is not used."""

    def caught(self) -> Kind:
        """What is thrown: the project's own code may throw anything."""
        return PROJECT if self.loads else CLEAN

    def declare(self, target: Node, scope: Scope) -> None:
        for name in names_of(target):
            scope.names[name.parts[0]] = name.at

    def statement(self, node: Node, scope: Scope) -> None:
        """What a statement does."""
        raise Refused(f"a {node.type} in {scope}")

    def block(self, body: Iterable[Node], scope: Scope, *, hoists: bool = True) -> None:
        """What statements do one after the other."""
        raise Refused(f"statements in {scope}: {body}, {hoists}")

    def give(self, target: Node, kind: Kind, scope: Scope) -> None:
        match target.type:
            case "name":
                found = scope.find(target.parts[0])
                if found is None:
                    raise Refused(f"{target.parts[0]} is not declared")
                self.cells.put(("var", found), kind)
            case "array_pattern":
                for index, (one, default, rest) in enumerate(target.parts):
                    if one is not None:
                        words = kind == Kind("instance", name="Arguments")
                        inside = (
                            TEXT if words and rest else instances.word(self, index) if words else self.cells.each(kind)
                        )
                        inside = inside._replace(missing=True) if inside.sort == "text" and not words else inside
                        made = (
                            self.cells.box("rest", one.at, inside) if rest else self.or_default(inside, default, scope)
                        )
                        self.give(one, made, scope)
            case "object_pattern":
                for key, one, default in target.parts:
                    made = self.plain(kind) if key is None else self.member(kind, key)
                    self.give(one, self.or_default(made, default, scope), scope)
            case _:
                raise Refused("a value is given to something that is no plain name")

    def or_default(self, kind: Kind, default: Node | None, scope: Scope) -> Kind:
        return kind if default is None else self.cells.join(kind, self.value(default, scope))

    def of_assign(self, node: Node, scope: Scope) -> Kind:
        how, target, given = node.parts
        made = self.value(given, scope)
        if how == "+=":
            made = self.added(self.value(target, scope), made, known=False)
        elif how in ("&&=", "||=", "??="):
            made = self.cells.join(self.value(target, scope), made)
        elif how != "=":
            self.plain(self.value(target, scope))
            made = NUMBER
        same = how in ("||=", "??=") or (
            given.type in ("binary",) and given.parts[0] in ("||", "??") and same_place(given.parts[1], target)
        )
        self.store(target, made, scope, same=same, missing=how != "=")
        return made

    def store(self, target: Node, kind: Kind, scope: Scope, *, same: bool = False, missing: bool = False) -> None:
        """`same`: it is what was there before, or else what is clean; `missing`: it is put there if nothing was."""
        if target.type == "name":
            self.give(target, kind, scope)
            return
        owner = self.value(target.parts[0], scope)
        if target.type == "member":
            if (owner.sort, owner.name, target.parts[1]) == ("native", "process", "exitCode"):
                self.plain(kind)
                return
            names = {target.parts[1]}
        else:
            key = self.value(target.parts[1], scope)
            self.plain(key)
            if key.sort == "none":
                self.unreached()
                return
            names = (
                set(key.known)
                if key.known and not _is_found(key)
                else {"0"}
                if key.sort == "number"
                else {"constructor"}
            )
            if key.known and key.known & HARD:
                raise Refused("a member by which everything is reached")
        if target.type == "member" and names & HARD:
            raise Refused(f"a value is given to {target.parts[1]}")
        if owner.sort == "none":
            self.unreached()
            return
        if owner.sort not in ("box", "clean") or owner.name in ("map", "set", "other"):
            raise Refused("a value is put in something that was not made here")
        safe = same and kind.sort == "slot" and target.type == "index"
        held = (kind.inner or NONE) if safe else kind
        if (names & (FUNCTIONS | GETTERS) or target.type == "index") and not self.cells.is_clean(held):
            raise Refused("a value that may be a function under a name that may be called")
        if owner.sort == "box":
            # What an object has by its type becomes its own under the same name: from there on it is among the rest.
            self.cells.put(owner.cell, held if missing else kind)
        elif not self.cells.is_clean(held):
            raise Refused("a value that is not known is put among such as are")

    def unreached(self) -> None:
        """What is nothing as yet is passed by; what is still nothing at the end may be what was not seen."""
        if self.strict:
            raise Refused("a value of which nothing is known")

    def value(self, node: Node, scope: Scope) -> Kind:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Refused("it is too long")
        handler = getattr(self, f"of_{node.type}", None)
        if handler is None:
            raise Refused(f"a {node.type} as a value")
        return handler(node, scope)

    def plain(self, kind: Kind) -> Kind:
        return self.cells.plain(kind)

    def of_number(self, _node: Node, _scope: Scope) -> Kind:
        return NUMBER

    of_constant = of_number

    def of_text(self, node: Node, _scope: Scope) -> Kind:
        return Kind("text", frozenset(node.parts))

    def of_regex(self, _node: Node, _scope: Scope) -> Kind:
        return CLEAN

    def of_template(self, node: Node, scope: Scope) -> Kind:
        made = Kind("text", frozenset({""}))
        for part in node.parts:
            one = Kind("text", frozenset({part})) if isinstance(part, str) else self.value(part, scope)
            made = self.added(made, one)
        return made

    def added(self, one: Kind, two: Kind, *, known: bool = True) -> Kind:
        if not self.strict and "none" in (one.sort, two.sort):
            return NONE
        return texts.added(self.cells, one, two, known=known)

    def of_name(self, node: Node, scope: Scope) -> Kind:
        name = node.parts[0]
        found = scope.find(name)
        if found is not None:
            return self.cells.get(("var", found))
        return natives.named(name)

    def of_parens(self, node: Node, scope: Scope) -> Kind:
        return self.value(node.parts[0], scope)

    def of_sequence(self, node: Node, scope: Scope) -> Kind:
        made = NONE
        for one in node.parts:
            made = self.value(one, scope)
        return made

    def of_conditional(self, node: Node, scope: Scope) -> Kind:
        test, then, otherwise = node.parts
        self.value(test, scope)
        return self.cells.join(self.value(then, scope), self.value(otherwise, scope))

    def of_binary(self, node: Node, scope: Scope) -> Kind:
        how, left, right = node.parts
        one = self.value(left, scope)
        if how == "instanceof":
            if right.type != "name" or scope.find(right.parts[0]) is not None or right.parts[0] not in natives.TYPES:
                self.plain(self.value(right, scope))
                raise Refused("instanceof of something that is not known")
            return NUMBER
        two = self.value(right, scope)
        if how == "+":
            return self.added(one, two)
        if how in ("||", "&&", "??"):
            return self.cells.join(one, two)
        for kind in (one, two):
            if kind.sort not in ("function", "native", "instance", "promise"):
                self.plain(kind)
        return NUMBER

    def of_unary(self, node: Node, scope: Scope) -> Kind:
        sign, target = node.parts
        if sign == "typeof" and target.type == "name" and scope.find(target.parts[0]) is None:
            return TEXT
        self.value(target, scope)
        if sign == "delete":
            owner = self.value(target.parts[0], scope) if target.type in ("member", "index") else NONE
            if owner.sort not in ("box", "clean"):
                raise Refused("delete of something that was not made here")
        return TEXT if sign == "typeof" else NUMBER

    def of_step(self, node: Node, scope: Scope) -> Kind:
        self.plain(self.value(node.parts[0], scope))
        self.store(node.parts[0], NUMBER, scope)
        return NUMBER

    def of_await(self, node: Node, scope: Scope) -> Kind:
        made = self.value(node.parts[0], scope)
        return (made.inner or NONE) if made.sort == "promise" else made

    def of_array(self, node: Node, scope: Scope) -> Kind:
        inside = NONE
        for one in node.parts:
            made = self.cells.each(self.value(one.parts[0], scope)) if one.type == "spread" else self.value(one, scope)
            inside = self.cells.join(inside, made)
        return self.cells.box("array", node.at, inside)

    def of_object(self, node: Node, scope: Scope) -> Kind:
        inside = NONE
        for key, given in node.parts:
            made = self.value(given, scope)
            if key is None:
                made = made if made.sort == "number" else self.cells.inside(made)
                if made.sort == "project":
                    raise Refused("what is the project's among other members")
            elif isinstance(key, str):
                if key in HARD:
                    raise Refused(f"an object with {key}")
                if key in FUNCTIONS | GETTERS and not self.cells.is_clean(made):
                    raise Refused(f"an object with {key}")
            else:
                self.plain(self.value(key, scope))
                if not self.cells.is_clean(made):
                    raise Refused("a value that may be a function under a name that is not known")
            inside = self.cells.join(inside, made)
        return self.cells.box("object", node.at, inside, "object")

    def of_member(self, node: Node, scope: Scope) -> Kind:
        return self.member(self.value(node.parts[0], scope), node.parts[1])

    def member(self, owner: Kind, name: str) -> Kind:
        """What a member by a literal name is."""
        if name in HARD:
            raise Refused(f"the member {name}")
        owner = TEXT if owner.sort == "here" else owner
        match owner.sort:
            case "none":
                self.unreached()
                return NONE
            case "native":
                return natives.member(self, owner.name, name)
            case "instance":
                return instances.member(owner, name)
            case "project":
                if name in FUNCTIONS or name in natives.DANGEROUS:
                    raise Refused(f"the member {name} of what is the project's")
                return PROJECT
            case "package" if name in ("version", "VERSION"):
                return CLEAN
            case "number" | "text" | "clean" | "data" | "box" | "slot":
                return self._plain_member(owner, name)
            case _:
                raise Refused(f"the member {name} of a {owner.sort}")

    def _plain_member(self, owner: Kind, name: str) -> Kind:
        kind = owner.name if owner.sort == "box" else owner.sort
        if (name, kind) in (("length", "text"), ("length", "array")):
            return NUMBER
        if name in FUNCTIONS or name in GETTERS - {"length", "size", "flags", "source"}:
            return DATA
        if owner.sort == "text" and name.isdecimal():
            return TEXT
        if owner.sort in ("number", "text"):
            if self.strict:
                raise Refused(f"the member {name} of a {owner.sort}")
            return NUMBER
        found = self.cells.inside(owner)
        return self.cells.join(NUMBER, found) if name in GETTERS else found

    def of_index(self, node: Node, scope: Scope) -> Kind:
        owner, key = self.value(node.parts[0], scope), self.value(node.parts[1], scope)
        self.plain(key)
        owner = TEXT if owner.sort == "here" else owner
        if key.sort == "text" and key.known is not None and not _is_found(key):
            made = NONE
            for name in key.known:
                made = self.cells.join(made, self.member(owner, name))
            return made
        if key.known and key.known & HARD:
            raise Refused("a member by which everything is reached")
        if "none" in (owner.sort, key.sort):
            self.unreached()
            return NONE
        if owner == Kind("instance", name="Arguments"):
            node = node.parts[1]
            return instances.word(
                self, int(node.parts[0]) if node.type == "number" and node.parts[0].isdecimal() else 0
            )
        if owner.sort not in (*RANK, "box", "slot", "project"):
            raise Refused(f"a member of a {owner.sort}")
        if key.sort == "number":
            return self.cells.inside(owner)
        own = node.parts[0].type == "name" and key.name and key.name == str(scope.find(node.parts[0].parts[0]))
        if own and owner.sort in ("clean", "box"):
            return self.cells.inside(owner)
        if owner.sort == "box" and owner.name == "bare":
            return self.cells.inside(owner)
        if owner.sort == "box" and owner.name == "object":
            return Kind("slot", inner=self.cells.get(owner.cell))
        self.plain(owner)
        return DATA

    def key_of(self, node: Node, scope: Scope) -> Kind:
        """A key of an object; of one that a name always stands for it is known whose key it is."""
        found = scope.find(node.parts[0]) if node.type == "name" else None
        if found is None or found not in self.constant or self.deletes:
            return TEXT
        return Kind("text", name=str(found))

    def of_function(self, node: Node, scope: Scope) -> Kind:
        name, given, body, _ = node.parts
        inner = Scope(scope)
        made = Kind("function", ids=frozenset({node.at}))
        if name and scope.find(name) is None:
            inner.names[name] = node.at
            self.cells.put(("var", node.at), made)
        if node.at in self.functions and self.functions[node.at].node is not node:
            raise Refused("two functions in one place")
        self.functions[node.at] = Function(node, scope)
        if len(self.functions) > _MAX_FUNCTIONS:
            raise Refused("so many functions")
        for target, _, _ in given:
            self.declare(target, inner)
        self.returns.append(node.at)
        for index, (target, default, rest) in enumerate(given):
            held = self.cells.get((f"parameter {index}", node.at))
            if rest:
                held = self.cells.box("rest", target.at, held)
            self.give(target, self.or_default(held, default, inner), inner)
        if body.type == "return":
            self.statement(body, inner)
        else:
            self.cells.put(("return", node.at), NUMBER)
            self.block(body.parts, inner)
        self.returns.pop()
        return made

    def follow_all(self) -> None:
        """Gives what nobody was seen to call the weakest of values: somebody may call it with anything."""
        for at, function in self.functions.items():
            for index, _ in enumerate(function.node.parts[1]):
                if self.cells.get((f"parameter {index}", at)).sort == "none":
                    self.cells.put((f"parameter {index}", at), DATA)

    def invoke(self, called: Kind, given: list[Kind], *, exactly: bool = False) -> Kind:
        """What a function gives that is called with these; unless `exactly`, there may be more that is clean."""
        if called.sort == "native":
            return functions.call(self, called.name, [Arg(kind) for kind in given], 0)
        if called.sort == "project":
            return self.project_call([Arg(kind) for kind in given])
        if called.sort == "none":
            self.unreached()
            return NONE
        if called.sort != "function":
            raise Refused("what is called is no function that stands there")
        made = NONE
        for at in called.ids:
            function = self.functions.get(at)
            if function is None:
                continue
            parameters = function.node.parts[1]
            for index, (_, _, rest) in enumerate(parameters):
                more = NUMBER if exactly else CLEAN
                kinds = [*given[index:], more] if rest else given[index : index + 1] or [more]
                for kind in kinds:
                    self.cells.put((f"parameter {index}", at), kind)
            found = self.cells.get(("return", at))
            made = self.cells.join(made, promise(found) if function.node.parts[3] else found)
        return made

    def of_call(self, node: Node, scope: Scope) -> Kind:
        callee, given = node.parts
        if callee.type == "member":
            owner = self.value(callee.parts[0], scope)
            args = self.arguments(given, scope)
            return self.method(owner, callee.parts[1], args, node.at, self.keys(given, scope))
        called = self.value(callee, scope)
        args = self.arguments(given, scope)
        if callee.type == "index":
            raise Refused("a function by a name that is computed")
        if called.sort == "native":
            return functions.call(self, called.name, args, node.at, keys=self.keys(given, scope))
        if called.sort == "project":
            return self.project_call(args)
        if any(arg.spread for arg in args):
            raise Refused("a function that is given what is not counted")
        return self.invoke(called, [arg.kind for arg in args], exactly=True)

    def keys(self, given: tuple[Node, ...], scope: Scope) -> Kind:
        return self.key_of(given[0], scope) if given else TEXT

    def method(self, owner: Kind, name: str, args: list[Arg], at: int, keys: Kind) -> Kind:
        if name in HARD:
            raise Refused(f"the member {name}")
        owner = TEXT if owner.sort == "here" else owner
        match owner.sort:
            case "none":
                self.unreached()
                return NONE
            case "native":
                return functions.call(self, f"{owner.name}.{name}", args, at, keys=keys)
            case "instance":
                return instances.call(self, owner, name, args)
            case "promise":
                return functions.chained(self, owner, name, args)
            case "project":
                if name in natives.DANGEROUS:
                    raise Refused(f"{name} of what is the project's")
                return self.project_call(args)
            case "number" | "text" | "clean" | "data" | "box" | "slot":
                return methods.call(self, owner, name, args, at)
            case _:
                raise Refused(f"the method {name} of a {owner.sort}")

    def project_call(self, args: list[Arg]) -> Kind:
        """The project's own code may be given what is clean, and functions that stand there."""
        for arg in args:
            if arg.kind.sort == "function":
                self.invoke(arg.kind, [PROJECT] * 12)
            elif arg.kind.sort == "project":
                continue
            elif self.plain(arg.kind).sort == "data":
                raise Refused("the project's code is given a value that is not known")
        return PROJECT

    def arguments(self, given: tuple[Node, ...], scope: Scope) -> list[Arg]:
        found: list[Arg] = []
        for one in given:
            if one.type == "spread":
                found.append(Arg(self.cells.each(self.value(one.parts[0], scope)), None, spread=True))
            else:
                found.append(Arg(self.value(one, scope), one))
        return found

    def of_new(self, node: Node, scope: Scope) -> Kind:
        name, given, _ = node.parts
        root = name.split(".", 1)[0]
        args = self.arguments(given, scope)
        found = scope.find(root)
        if found is None:
            return functions.create(self, name, args, node.at)
        made = self.cells.get(("var", found))
        for part in name.split(".")[1:]:
            made = self.member(made, part)
        if made.sort == "native":
            return functions.create(self, made.name, args, node.at)
        if made.sort == "none":
            self.unreached()
            return NONE
        if made.sort != "project":
            raise Refused(f"new {name}")
        return self.project_call(args)

    def of_dynamic(self, node: Node, _scope: Scope) -> Kind:
        return promise(natives.module(self, node.parts[0]))
