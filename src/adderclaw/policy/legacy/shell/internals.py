"""Builtins that concern the shell alone: what they change in what is known of it. What is not exactly known is raw."""

import re
from collections.abc import Callable

from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy.shell import arrays, environment
from adderclaw.policy.legacy.shell.builtins import is_job
from adderclaw.policy.legacy.shell.effects import written
from adderclaw.policy.legacy.shell.plan import Command, Internal, Live, Redirect
from adderclaw.policy.legacy.shell.states import HELD, Flow, State
from adderclaw.policy.legacy.shell.syntax import NotAPlan
from adderclaw.policy.legacy.shell.words import UNKNOWN

_SETTINGS = r"[-+][aeux]*(?:o)?"
_LOGS = re.compile(r"\.(?:log|txt|out)$|^/dev/null$")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Called(NamedTuple):
    """A builtin with its words, as it is called."""

    words: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    redirects: tuple[Redirect, ...]


def set_own(name: str, value: str, state: State) -> None:
    """Raises NotAPlan unless the shell may give a variable this value."""
    environment.check_own(name)
    if name in state.arrays:
        raise NotAPlan(f"the array {name} as a variable, too")
    if name in state.exported or state.exports or state.sourced:
        environment.check_exported(name, value, known=not isinstance(value, Live))


def _set(called: Called, state: State) -> tuple[Command, Flow]:
    rest = list(called.words[1:])
    if called.env or called.redirects or not rest:
        raise NotAPlan("shell builtin set")
    while rest:
        word = rest.pop(0)
        if isinstance(word, Live) or not re.fullmatch(_SETTINGS, word):
            raise NotAPlan(f"shell builtin set {word}")
        if word.endswith("o"):
            option = rest.pop(0) if rest else ""
            if option not in ("pipefail", "errexit", "nounset", "xtrace", "allexport"):
                raise NotAPlan(f"shell builtin set -o {option}")
            word += {"errexit": "e", "nounset": "u", "allexport": "a"}.get(option, "")
        on = word[0] == "-"
        state = state._replace(exports=on if "a" in word else state.exports)
        state = state._replace(
            errexit=on if "e" in word else state.errexit, nounset=on if "u" in word else state.nounset
        )
    return Internal(called.words), Flow(state, None)


def _read(called: Called, state: State) -> tuple[Command, Flow]:
    words, env, redirects = called
    ends = words[1:4] == ("-r", "-d", "")
    if words[1:2] == ("-ra",) or words[1:3] in (("-r", "-a"), ("-a", "-r")):
        return _read_parts(called, state)
    names_read = [word for word in words[4 if ends else 1 :] if word != "-r"]
    if any(isinstance(word, Live) for word in words) or "-r" in words[2:] or not names_read:
        raise NotAPlan("shell builtin read, but for read -r NAME")
    if any(name != "IFS" or isinstance(value, Live) for name, value in env):
        raise NotAPlan("read with a variable")
    for name in names_read:
        if name == "_":
            continue  # what nobody asks for
        if not _NAME.fullmatch(name):
            raise NotAPlan("shell builtin read, but for read -r NAME")
        set_own(name, "", state)
        state = state.with_variable(name, UNKNOWN)
    return Internal(words, redirects, env, state.folders), Flow(state, state)


def _read_parts(called: Called, state: State) -> tuple[Command, Flow]:
    """`IFS=, read -ra parts`."""
    words, env, redirects = called
    name = words[-1]
    if any(isinstance(word, Live) for word in words) or len(words) != (3 if words[1] == "-ra" else 4):
        raise NotAPlan("shell builtin read, but for read -ra NAME")
    if not _NAME.fullmatch(name) or any(n != "IFS" or isinstance(value, Live) for n, value in env):
        raise NotAPlan("shell builtin read, but for read -ra NAME")
    state = arrays.split(name, state)
    return Internal(words, redirects, env, state.folders), Flow(state, state)


def _wait(called: Called, state: State) -> tuple[Command, Flow]:
    words, env, redirects = called
    if env or any(not is_job(word, state.jobs) for word in words[1:] if isinstance(word, Live)):
        raise NotAPlan("shell builtin wait, but for jobs of this text")
    if any(word.startswith("-") and word != "-n" for word in words[1:]):
        raise NotAPlan("shell builtin wait with an option")
    return Internal(words, redirects, (), state.folders), Flow(state, state)


def _leave(called: Called, state: State) -> tuple[Command, Flow]:
    word = called.words[0]
    if called.env or called.redirects or len(called.words) > 1 or not state.loop:
        raise NotAPlan(f"{word} of more than the loop that it stands in")
    # Each round of a loop that is written out is a loop of its own inside of one that runs once.
    written = ("break", "2") if word == "break" and state.loop == "written" else (word,)
    return Internal(written), Flow(None, None)


def _unset(called: Called, state: State) -> tuple[Command, Flow]:
    if called.env or called.redirects or state.arguments is not None:
        raise NotAPlan("shell builtin unset" if state.arguments is None else "shell builtin unset in a function")
    variables = dict(state.variables)
    for name in called.words[1:]:
        forgets = not isinstance(name, Live) and environment.is_forgettable(name)
        own = name in variables and name not in state.exported
        # Where there is no such variable, bash would take a function away.
        if not _NAME.fullmatch(name) or not (own or forgets) or name in state.functions or name in state.arrays:
            raise NotAPlan("unset of a variable that was not set here")
        if own:
            del variables[name]
        else:
            variables[name] = UNKNOWN  # what the environment said of it no longer holds
    held = {held: getattr(state, held) - set(called.words) for held in HELD}
    state = state._replace(variables=variables, **held)
    return Internal(called.words), Flow(state, None)


def _exec(called: Called, state: State) -> tuple[Command, Flow]:
    """`exec > log 2>&1`: all that follows writes there."""
    if len(called.words) > 1 or called.env or not called.redirects:
        raise NotAPlan("shell builtin exec")
    # What it writes is not looked into: so it is nothing that could be run.
    if not all(r.is_copy or (r.writes and _LOGS.search(r.target)) for r in called.redirects):
        raise NotAPlan("shell builtin exec, but for a log that output goes to")
    after = state._replace(changed=state.changed | written(called.redirects, state.folders))
    return Internal(called.words, called.redirects, (), state.folders), Flow(after, None)


INTERNAL: dict[str, Callable[[Called, State], tuple[Command, Flow]]] = {
    "set": _set,
    "read": _read,
    "wait": _wait,
    "break": _leave,
    "continue": _leave,
    "unset": _unset,
    "exec": _exec,
}
