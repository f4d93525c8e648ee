"""Functions of a text: each call is followed on its own, with the words that it is given and the state that it meets.

What bash gets is a function of ours for each call, whose body was judged for exactly that call; so `return`, `local`,
`shift`, `set -e` and the status are bash's own. What could make a call mean something else than what was followed
(a name that may be defined or not, a function that calls itself, one that nobody calls) makes the text raw.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from adderclaw.gate.programs.allowlist import PROGRAMS, those
from adderclaw.gate.shell import environment, syntax
from adderclaw.gate.shell.arithmetic import is_number
from adderclaw.gate.shell.effects import ANYTHING
from adderclaw.gate.shell.internals import INTERNAL, Called, set_own
from adderclaw.gate.shell.nodes import declared
from adderclaw.gate.shell.plan import Assign, Block, Call, Command, Internal, Live, Redirect, Script, Step
from adderclaw.gate.shell.states import HELD, Flow, State, all_of
from adderclaw.gate.shell.syntax import NotAPlan
from adderclaw.gate.shell.words import UNKNOWN
from adderclaw.record import NamedTuple

if TYPE_CHECKING:
    from adderclaw.gate.shell.simple_command import SimpleCommands

MAX_CALLS = 8
"""How deep functions may call each other."""


class Returned(NamedTuple):
    """Where a function was left by `return`."""

    status: str
    """Its status, or nothing where that is only known when it runs."""
    state: State


class Functions:
    def __init__(self) -> None:
        self.number = 0
        self.active: list[str] = []
        self.defined: list[syntax.Function] = []
        self.called: list[syntax.Function] = []
        self.returned: list[Returned] = []
        self.entries: list[State] = []
        """What was known where each function that is followed now began."""
        self.asks_status = False
        """Whether one of them asks for `$?`, which may be that of a command before its call."""

    def define(self, node: syntax.Function, state: State, *, asks_status: bool, known: Callable[[str], bool]) -> Flow:
        name = node.name
        if name in PROGRAMS or known(name) or name in those("builtin") or name in INTERNAL or name in _OWN:
            raise NotAPlan(f"a function with the name of a program or builtin: {name}")
        if state.exports or state.sourced or environment.is_special(name) or name.startswith("ADDERCLAW_"):
            raise NotAPlan(f"function definition of {name} here")
        if not any(node is one for one in self.defined):
            self.defined.append(node)
        self.asks_status = self.asks_status or asks_status
        return Flow(state._replace(functions={**state.functions, name: node}), None)

    def check_called(self) -> None:
        """Raises NotAPlan where a function was never followed: nobody would have judged it."""
        for node in self.defined:
            if not any(node is one for one in self.called):
                raise NotAPlan(f"a function that is never called: {node.name}")

    def call(
        self, calls: "SimpleCommands", words: tuple[str, ...], redirects: tuple[Redirect, ...], state: State
    ) -> tuple[Command, Flow]:
        """One call: the body with these words in the place of its arguments."""
        name = words[0]
        node = state.functions[name]
        if node is None:
            raise NotAPlan(f"a function that may be defined or not, or in several ways: {name}")
        if name in self.active or len(self.active) >= MAX_CALLS:
            raise NotAPlan(f"a function that calls itself, or too many others: {name}")
        given = words[1:]
        if any(isinstance(word, Live) and (word.splits or word.is_glob or word.is_file) for word in given):
            raise NotAPlan(f"{name}, a function that is given an unknown number of words")
        if not any(node is one for one in self.called):
            self.called.append(node)
        outer, self.returned = self.returned, []
        left, calls.left = calls.left, []
        entry = _entered(calls, given, state)
        self.active.append(name)
        self.entries.append(entry)
        body = syntax.Script((syntax.Pipeline("", False, False, (node.body,), ()),))
        made, flow = calls.follow(body, entry)
        self.active.pop()
        self.entries.pop()
        success = [flow.success, *(one.state for one in self.returned if one.status in ("", "0"))]
        failure = [flow.failure, *(one.state for one in self.returned if one.status != "0")]
        self.returned, calls.left = outer, left
        self.number += 1
        after = Flow(
            all_of(_left(end, state) for end in success if end is not None),
            all_of(_left(end, state) for end in failure if end is not None),
        )
        return Call(name, self.number, given, _bare(made), redirects, state.folders), after

    def leave(self, called: Called, state: State) -> tuple[Command, Flow]:
        """`return`, of the function that it stands in."""
        words = called.words
        if called.env or called.redirects or len(words) > 2 or not state.returns:
            raise NotAPlan("shell builtin return, but in a function")
        status = words[1] if len(words) == 2 else ""
        if isinstance(status, Live):
            if not status.is_number:
                raise NotAPlan("return with a status that is not a number")
            status = ""
        elif len(words) == 2 and (not is_number(status) or not 0 <= int(status) <= 255):
            raise NotAPlan("return with a status that is not a number")
        self.returned.append(Returned(status, state))
        return Internal(words), Flow(None, None)


def _bare(body: Script) -> Script:
    """What stands in the braces of a function."""
    only = body.steps[0].commands[0]
    return only.body if isinstance(only, Block) and only.opener == "{" and not only.redirects else body


_OWN = frozenset({"export", "readonly", "declare"})


def _entered(calls: "SimpleCommands", given: tuple[str, ...], state: State) -> State:
    """What is known where a function begins."""
    variables = {name: value for name, value in state.variables.items() if not name.isdecimal()}
    held = {held: frozenset(n for n in getattr(state, held) if not n.isdecimal()) for held in HELD}
    inner = state._replace(variables=variables, **held)
    for number, word in enumerate(given, 1):
        inner = calls.holding(str(number), word, inner, state)
    return inner._replace(arguments=len(given), returns=True, own=frozenset(), perhaps=frozenset(), loop="")


def _left(end: State, before: State) -> State:
    """What is known after a function: its arguments and its own variables are what they were before."""
    back = {*(name for name in (*end.variables, *before.variables) if name.isdecimal()), *end.own}
    variables = {name: value for name, value in end.variables.items() if name not in back}
    variables |= {name: before.variables[name] for name in back if name in before.variables}
    unsure = end.perhaps
    variables |= dict.fromkeys(unsure, UNKNOWN)
    held = {held: ((getattr(end, held) - back) | (getattr(before, held) & back)) - unsure for held in HELD}
    return end._replace(
        variables=variables,
        arguments=before.arguments,
        returns=before.returns,
        own=before.own,
        perhaps=before.perhaps,
        loop=before.loop,
        guarded=before.guarded,
        **held,
    )


def local(calls: "SimpleCommands", node: syntax.Command, state: State) -> tuple[Command, Flow]:
    """`local x=… y`: bash's own, in a function of ours."""
    if state.arguments is None or node.assigns or node.redirects or len(node.words) < 2:
        raise NotAPlan("shell builtin local, but for names and values in a function")
    steps: list[Step] = []
    entry = calls.functions.entries[-1]
    for word in node.words[1:]:
        name, value = declared(word)
        before = state
        if name not in state.own and not _is_as_before(name, state, entry):
            # What it was until now is what it will be afterwards.
            raise NotAPlan(f"local {name} after {name} was set")
        if value is None:
            set_own(name, "", state)
            if name in state.own:
                raise NotAPlan(f"local {name} without a value, again")
            state = state.with_variable(name, "")._replace(bare=state.bare | {name})
            made: Command = Internal(("local", name))
        else:
            given = calls.expander(state).one(value, assigned=True)
            set_own(name, given, state)
            state = calls.holding(name, given, state, before)
            made = Assign(name, given, local=True)
        state = state._replace(own=state.own | {name})
        steps.append(Step(";" if steps else "", False, (made,)))
    if calls.leaks:
        state = state._replace(changed=state.changed | ANYTHING)
    if len(steps) == 1:
        return steps[0].commands[0], Flow(state, None)
    return Block("{", Script(tuple(steps)), (), state.folders), Flow(state, None)


def _is_as_before(name: str, state: State, entry: State) -> bool:
    """Whether nothing that is known of a variable has changed since the function began."""
    same = all((name in getattr(state, held)) == (name in getattr(entry, held)) for held in HELD)
    return same and state.variables.get(name, "\0") == entry.variables.get(name, "\0")


def shift(called: Called, state: State) -> tuple[Command, Flow]:
    words = called.words
    count = words[1] if len(words) == 2 else "1"
    if called.env or called.redirects or len(words) > 2 or state.arguments is None:
        raise NotAPlan("shell builtin shift, but in a function")
    if isinstance(count, Live) or not re.fullmatch(r"\d", count):
        raise NotAPlan("shift by a number that does not stand there")
    by = int(count)
    if by > state.arguments:
        return Internal(words), Flow(None, state)

    def moved(name: str) -> str:
        """The argument's new number, or nothing where it is gone."""
        return name if not name.isdecimal() else str(int(name) - by) if int(name) > by else ""

    variables = {new: value for name, value in state.variables.items() if (new := moved(name))}
    kinds: dict[str, frozenset[str]] = {held: getattr(state, held) for held in HELD}
    held = {held: frozenset(new for name in names if (new := moved(name))) for held, names in kinds.items()}
    return Internal(words), Flow(state._replace(variables=variables, arguments=state.arguments - by, **held), None)
