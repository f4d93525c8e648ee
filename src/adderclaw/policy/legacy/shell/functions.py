"""Functions of a text: each call is followed on its own, with the words that it is given and the state that it meets.

What bash gets is a function of ours for each call, whose body was judged for exactly that call; so `set -e` and the
status are bash's own. What could make a call mean something else than what was followed (a name that may be defined or
not, a function that calls itself, one that nobody calls, `return`, `local`, `shift`) makes the text raw.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, those
from adderclaw.policy.legacy.shell import environment, syntax
from adderclaw.policy.legacy.shell.internals import INTERNAL
from adderclaw.policy.legacy.shell.plan import Block, Call, Command, Live, Redirect, Script
from adderclaw.policy.legacy.shell.states import HELD, Flow, State
from adderclaw.policy.legacy.shell.syntax import NotAPlan

if TYPE_CHECKING:
    from adderclaw.policy.legacy.shell.simple_command import SimpleCommands

MAX_CALLS = 8
"""How deep functions may call each other."""


class Functions:
    def __init__(self) -> None:
        self.number = 0
        self.active: list[str] = []
        self.defined: list[syntax.Function] = []
        self.called: list[syntax.Function] = []
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
        left, calls.left = calls.left, []
        self.active.append(name)
        body = syntax.Script((syntax.Pipeline("", False, False, (node.body,), ()),))
        made, flow = calls.follow(body, _entered(calls, given, state))
        self.active.pop()
        calls.left = left
        self.number += 1
        after = Flow(*(_left(end, state) if end is not None else None for end in flow))
        return Call(name, self.number, given, _bare(made), redirects, state.folders), after


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
    return inner._replace(arguments=len(given), loop="")


def _left(end: State, before: State) -> State:
    """What is known after a function: its arguments are what they were before."""
    back = {name for name in (*end.variables, *before.variables) if name.isdecimal()}
    variables = {name: value for name, value in end.variables.items() if name not in back}
    variables |= {name: before.variables[name] for name in back if name in before.variables}
    held = {held: (getattr(end, held) - back) | (getattr(before, held) & back) for held in HELD}
    return end._replace(
        variables=variables,
        arguments=before.arguments,
        loop=before.loop,
        guarded=before.guarded,
        **held,
    )
