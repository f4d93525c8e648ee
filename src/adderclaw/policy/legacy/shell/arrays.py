"""Indexed arrays: those whose elements are known are filled in like any word; of others bash keeps the elements.

A subscript is a number that stands there or a counter that is known to hold one: bash would run what any other text
holds. An array is never also a variable, and no program gets to see it.
"""

import re
from typing import TYPE_CHECKING

from adderclaw.policy.legacy.shell import environment, syntax
from adderclaw.policy.legacy.shell.plan import Array, Command, Internal, Live
from adderclaw.policy.legacy.shell.states import Flow, State
from adderclaw.policy.legacy.shell.syntax import NotAPlan

if TYPE_CHECKING:
    from adderclaw.policy.legacy.shell.internals import Called
    from adderclaw.policy.legacy.shell.simple_command import SimpleCommands

MAX_ELEMENTS = 1_000


def assigned(calls: "SimpleCommands", node: syntax.Array, state: State) -> tuple[Command, Flow]:
    """`a=(x "y z" *.c)`, `a+=(…)`."""
    _check(node.name, state)
    expander = calls.expander(state)
    words = tuple(word for one in node.words for word in expander.fields(one))
    if len(words) > MAX_ELEMENTS:
        raise NotAPlan(f"an array of more than {MAX_ELEMENTS:,} elements")
    before = state.arrays.get(node.name, ()) if node.appends else ()
    live = any(isinstance(word, Live) for word in words)
    elements = None if live or before is None else (*before, *words)
    after = _with(node.name, elements, state)
    globs = any(map(state.may_be_glob, words)) or (node.appends and state.may_hold_glob(node.name))
    if elements is None and globs:
        after = after._replace(globs=after.globs | {node.name})
    return Array(node.name, words, node.appends, (), state.folders), Flow(after, after if live else None)


def _check(name: str, state: State) -> None:
    environment.check_own(name)
    if name in state.variables or name in state.exported or state.exports or state.sourced:
        raise NotAPlan(f"the variable {name} as an array, too")


def _with(name: str, elements: tuple[str, ...] | None, state: State) -> State:
    return state._replace(arrays={**state.arrays, name: elements}, globs=state.globs - {name})


def mapped(called: "Called", state: State) -> tuple[Command, Flow]:
    """`mapfile -t a < <(find …)`: each line an element."""
    words, env, redirects = called
    match words[1:]:
        case ("-t", name) | ("-t", "-d", "", name) | ("-d", "", "-t", name) if not isinstance(name, Live):
            pass
        case _:
            raise NotAPlan(f"shell builtin {words[0]}, but for {words[0]} -t NAME")
    if env or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise NotAPlan(f"shell builtin {words[0]}, but for {words[0]} -t NAME")
    _check(name, state)
    after = _with(name, None, state)
    return Internal(words, redirects, (), state.folders), Flow(after, after)


def split(name: str, state: State) -> State:
    """`read -ra a`: the parts of a line."""
    _check(name, state)
    return _with(name, None, state)
