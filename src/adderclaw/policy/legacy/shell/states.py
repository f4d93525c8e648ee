"""What is known of the shell at one place of a script, and what of it holds after two ways have met."""

import os
import re
from collections.abc import Iterable, Mapping
from itertools import zip_longest

from adderclaw.config.paths import UNRESOLVED
from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy.shell.arithmetic import is_number
from adderclaw.policy.legacy.shell.plan import Live, Variable
from adderclaw.policy.legacy.shell.syntax import Function, NotAPlan
from adderclaw.policy.legacy.shell.words import UNKNOWN, Arrays, Variables

MAX_FOLDERS = 64
"""How many working directories may be possible before we stop counting."""


UNSURE = "\0"
"""Stands for a virtual environment that may be active or not."""


HELD = ("jobs", "numbers", "counted", "globs")
"""What is known of variables beside their values."""


class State(NamedTuple):
    """What is known of the shell at one place."""

    folders: tuple[str, ...] = ("",)
    variables: Variables = {}  # noqa: RUF012
    exported: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    """Paths that earlier commands may have changed."""
    errexit: bool = False
    nounset: bool = False
    guarded: bool = False
    """Whether `set -e` has no effect here: in a condition, and before `&&` and `||`."""
    loop: str = ""
    """The loop that `break` leaves here: one of bash's "own", or one that is "written" out."""
    jobs: frozenset[str] = frozenset()
    """Variables that hold `$!`: the number of a process that the shell itself started."""
    programs: str = ""
    """The folder of a virtual environment that is active."""

    previous: tuple[str, ...] | None = None
    """Where the shell was before its last `cd`: every directory that may be, or None where there may have been none."""
    numbers: frozenset[str] = frozenset()
    """Variables that hold a whole number which is only known when it runs."""

    stack: tuple[tuple[str, ...], ...] | None = ()
    """Where `popd` leads, each place every directory that may be; None where that is not certain."""
    exports: bool = False
    """Whether all that is set is exported (`set -a`)."""
    sourced: bool = False
    """Whether a script of the project ran in this shell: no variable from before is known any more."""
    counted: frozenset[str] = frozenset()
    """Variables that hold what a program printed which is meant to print a number: bash sees their digits alone."""
    made: frozenset[str] = frozenset()
    """Virtual environments that commands before this one make."""
    unlikely: bool = False
    """Whether the disk, as it was before the command, says that the shell does not get here.

    It may nevertheless: so it is followed like any other way. All that rests on this is by which path a program is
    called that a virtual environment has, and by that path it is judged.
    """

    functions: "Mapping[str, Function | None]" = {}  # noqa: RUF012
    """What each name would call that was defined; None where that is not certain."""
    arguments: int | None = None
    """How many arguments the function has that this is in; their values are the variables `1`, `2` …"""
    arrays: Arrays = {}  # noqa: RUF012
    """The elements of each array; None where they are only known when it runs."""
    globs: frozenset[str] = frozenset()
    """Variables and arrays that are only known when it runs, and to which a literal of the text may give a glob."""

    def with_variable(self, name: str, value: str | None) -> "State":
        variables = {**self.variables, name: value}
        gone = {name}
        held = {held: getattr(self, held) - gone for held in HELD if name in getattr(self, held)}
        return self._replace(variables=variables, **held)

    def may_hold_glob(self, name: str) -> bool:
        """Whether a literal of the text may have given a variable or an array a glob."""
        return name in self.globs or any(map(is_glob, (self.variables.get(name), *(self.arrays.get(name) or ()))))

    @property
    def all_globs(self) -> frozenset[str]:
        """With the arrays whose elements are known, of which a subscript that is not may take one."""
        return self.globs.union(filter(self.may_hold_glob, self.arrays))

    def may_be_glob(self, word: str) -> bool:
        """Whether a word, expanded here, may hold a glob of the text; what programs print is none."""
        if not isinstance(word, Live):
            return is_glob(word)
        return any(
            is_glob(piece) if isinstance(piece, str) else isinstance(piece, Variable) and self.may_hold_glob(piece.base)
            for piece in word.pieces
        )

    def counts(self, name: str) -> bool:
        """Whether a variable holds a whole number, known or not."""
        return name in self.numbers or is_number(self.variables.get(name))


class Flow(NamedTuple):
    """The state after a command that succeeded and after one that failed; None where that cannot be."""

    success: State | None
    failure: State | None

    @property
    def either(self) -> State | None:
        return merged(self.success, self.failure)


def is_glob(value: str | None) -> bool:
    return value is not None and re.search(r"[*?\[]", value) is not None


def merged(one: State | None, other: State | None) -> State | None:
    if one is None or other is None or one == other:
        return one or other
    variables = dict(one.variables)
    for name in one.variables.keys() | other.variables.keys():
        same = one.variables.get(name, "\0") == other.variables.get(name, "\0")
        variables[name] = one.variables[name] if same else UNKNOWN
    arrays = _arrays(one, other)
    unknown = [name for known in (variables, arrays) for name, value in known.items() if value is UNKNOWN]
    return State(
        bounded((*one.folders, *other.folders)),
        variables,
        one.exported | other.exported,
        one.changed | other.changed,
        one.errexit and other.errexit,
        one.nounset or other.nounset,
        one.guarded,
        one.loop,
        one.jobs & other.jobs,
        _programs(one, other),
        bounded((*one.previous, *other.previous)) if one.previous and other.previous else None,
        frozenset(n for n, value in variables.items() if value is UNKNOWN and one.counts(n) and other.counts(n)),
        _stacked(one.stack, other.stack),
        one.exports or other.exports,
        one.sourced or other.sourced,
        one.counted & other.counted,
        one.made & other.made,
        one.unlikely and other.unlikely,
        _same(one.functions, other.functions),
        one.arguments,
        arrays,
        frozenset(name for name in unknown if one.may_hold_glob(name) or other.may_hold_glob(name)),
    )


def _same[T](one: Mapping[str, T | None], other: Mapping[str, T | None]) -> Mapping[str, T | None]:
    """What both say of a name, or that it is not certain."""
    if one == other:
        return one
    names = (*one, *(name for name in other if name not in one))
    return {name: one[name] if name in one and name in other and one[name] == other[name] else None for name in names}


def _arrays(one: State, other: State) -> Arrays:
    if one.arrays == other.arrays:
        return one.arrays
    if (one.arrays.keys() & other.variables.keys()) or (other.arrays.keys() & one.variables.keys()):
        raise NotAPlan("a variable that may be an array or not")
    return _same(one.arrays, other.arrays)


def _programs(one: State, other: State) -> str:
    if one.programs == other.programs or one.unlikely != other.unlikely:
        return other.programs if one.unlikely else one.programs
    return UNSURE


def _stacked(
    one: tuple[tuple[str, ...], ...] | None, other: tuple[tuple[str, ...], ...] | None
) -> tuple[tuple[str, ...], ...] | None:
    """Where `popd` leads if it leads anywhere: where one of the two has nothing left, it fails."""
    if one is None or other is None:
        return None
    return tuple(bounded((*a, *b)) for a, b in zip_longest(one, other, fillvalue=()))


def bounded(folders: Iterable[str]) -> tuple[str, ...]:
    """Without duplicates; if there are too many, UNRESOLVED, from which no path may be read or written."""
    possible = tuple(dict.fromkeys(folders))
    return possible if len(possible) <= MAX_FOLDERS and UNRESOLVED not in possible else (UNRESOLVED,)


def joined(folder: str, path: str) -> str:
    """A path seen from a folder; from one that is not known, nothing but an absolute path is known."""
    return UNRESOLVED if folder == UNRESOLVED and not path.startswith("/") else os.path.join(folder, path)


def all_of(states: Iterable[State | None]) -> State | None:
    found: State | None = None
    for state in states:
        found = merged(found, state)
    return found
