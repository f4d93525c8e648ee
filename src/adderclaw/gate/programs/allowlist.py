"""The built-in list of programs: one table of options for each, written down in `tables/*.toml`.

What is read here is `tables.json`, which `python -m adderclaw.gate.programs.generate` makes of them: once, when the
first command is judged. An option that a program's table does not name is refused, abbreviations included.
"""

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from adderclaw.record import NamedTuple

FILE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tables", "tables.json")


def names(text: str) -> frozenset[str]:
    """A set of names that is written as one text."""
    return frozenset(text.split())


class Options(NamedTuple):
    """What is known of one program. `options.kinds` says how the table of its options is read."""

    options: str = ""
    """The options that do no harm."""
    harmful: frozenset[str] = frozenset()
    """Options that run a program, write a file or change where things are read from: only the reason differs."""
    commands: dict[str, str] | None = None
    """The commands that are taken, each with its options; "" stands for no command."""
    second: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Commands whose first operand is a command again, and those of them that are taken."""
    bare: frozenset[str] = frozenset()
    """Options that may stand alone, in the place of a command."""
    before: str = ""
    """Options that may stand before the command."""
    kind: str = "work"
    """`look`: it writes nothing by itself. `work`: it writes what its words name, or runs the project's code."""
    operands: str = ""
    """What its operands are: `none` are files, the first is a `pattern`, they are read and then written (`in-out`),
    a `copy`, or all to `write`; otherwise files that are read, and written where it does more than look."""
    single_dash: bool = False
    """Long options are written with one dash (find, go): no bundles of letters."""
    free: bool = False
    """Its words are text: none of them makes it do anything else."""
    harmless: bool = False
    """Whether a readonly session may run it."""
    wraps: bool = False
    """It runs the program that its words name."""
    through: bool = False
    """It changes nothing about the command that it runs: a rule for that command allows it in here, too."""
    whole: bool = False
    """Only a rule that says the whole command allows it: what a wildcard stands for could be anything."""
    first: str = ""
    """A regular expression for the value that stands before the program that it runs."""
    runs: str = ""
    """Its command that runs a program where the project's own are found."""
    bounds: bool = False
    """It ends, however much it is given."""
    names_only: bool = False
    """It looks at what a file is, and not into it."""
    without_end: bool = False
    """`--` may be a word like others to it; none of its options does any harm."""
    builtin: bool = False
    """Bash does it itself, and a plan may use it by name: it runs no program and changes no reading of words."""
    quiet: bool = False
    """Bash does it itself, and changes no file by it."""
    counts: bool = False
    """A number among its words names no file."""
    exact: bool = False
    """It changes exactly what its words name."""
    follows: frozenset[str] = frozenset()
    """Options with which it walks through folders and follows the links in them."""
    served: bool = False
    """It is a server of the project that `python -m` starts, too."""
    by_npx: bool = False
    """Whether npx may run it, though it is no program that projects install."""
    by_uvx: bool = False
    """Whether uvx may run it, though `python -m` does not."""
    elsewhere: frozenset[str] = frozenset()
    """Programs that it takes from the project, and would fetch from a package of another name."""
    shifts: bool = False
    """It changes the shell's own working directory."""
    carries: bool = False
    """It runs a program as it is, so that git can be called in it as we call it."""
    answers: bool = False
    """Its exit code 1 says "nothing found" or "they differ", not that something went wrong."""
    numbered: bool = False
    """A number is never more than that to it, even one below zero."""
    starts: bool = False
    """Some of its words may be a program that it starts: each is looked at for what is forbidden."""
    shell: bool = False
    """It is a shell: the text that it is given is planned like the command itself."""
    code: frozenset[str] = frozenset()
    """Options, or commands, that are followed by code for it."""
    stdin_code: bool = False
    """Without a script it takes its standard input for code."""
    interactive: frozenset[str] = frozenset()
    """Options with which it takes its standard input for code beside a script."""
    loads: bool = False
    """It loads what an address names, and an address may be code itself (`data:`)."""
    ends: frozenset[str] = frozenset()
    """Options after which the words are for what they name (`python -m`)."""
    downloads: bool = False
    """It prints or writes what another machine answers."""
    moves: bool = False
    """It puts files somewhere, and runs none of them."""
    lists: bool = False
    """It prints names of files that it finds."""
    says: bool = False
    """It prints its own words."""
    looks: bool = False
    """It only looks, at what its words name or what it is given: low risk where all of that lies in the workspace."""
    npx: bool = False
    """Whether npx may run it: it is a program that projects install."""
    module: bool = False
    """Whether `python -m` runs it, too."""
    response_files: bool = False
    """It reads further options from the file of an operand `@file`."""
    script: bool = False
    """Its first operand is a program of the project; what follows is for that."""
    pairs: Mapping[str, str] = MappingProxyType({})
    """Forms of options that do no harm with values of a form, and with no others."""
    refuses: str = ""
    """A regular expression for operands that are refused."""
    odd: str = ""
    """A regular expression for what stands in no word of a harmless call."""
    outside: str = ""
    """A regular expression for words that name what lies on another machine, or outside of the workspace."""
    registry: bool = False
    """What its words name comes from a package registry; an address or a repository is code from elsewhere."""
    local: frozenset[str] = frozenset()
    """Options whose value names a host: only this machine. `operands` stands for the words that are none."""
    never: str = ""
    """Why it is never taken, whatever its words."""
    reads: frozenset[str] = frozenset()
    """Commands that write nothing that their words name."""
    looking: frozenset[str] = frozenset()
    """Commands that only look, whatever their words."""
    prints: frozenset[str] = frozenset()
    """Commands that print what the program itself keeps of files: hiding the file does not hide that."""
    listing: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Commands that only look with these options and first operands alone, or none."""
    writes: frozenset[str] = frozenset()
    """Options by which a program that otherwise only looks writes the files that are its options' values."""
    settings: frozenset[str] = frozenset()
    """Settings that can be given a value: none of them makes it run anything."""


_SETS = (
    "harmful",
    "bare",
    "reads",
    "writes",
    "settings",
    "local",
    "code",
    "ends",
    "looking",
    "prints",
    "interactive",
    "follows",
    "elsewhere",
)


class Tables(Mapping[str, Options]):
    """Name of a program → its table, read when it is asked for."""

    def __getitem__(self, name: str) -> Options:
        found = _table(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _file()["programs"]

    def __iter__(self) -> Iterator[str]:
        return iter(_file()["programs"])

    def __len__(self) -> int:
        return len(_file()["programs"])


@cache
def _file() -> dict[str, Any]:
    with open(FILE, encoding="utf-8") as file:
        return json.load(file)


def is_read() -> bool:
    """Whether the tables were read already: nothing that is only imported does."""
    return _file.cache_info().currsize > 0


@cache
def _table(name: str) -> Options | None:
    given = _file()["programs"].get(name)
    if isinstance(given, str):
        return _table(given)
    if given is None:
        return None
    fields: dict[str, Any] = {key: frozenset(value.split()) if key in _SETS else value for key, value in given.items()}
    for field in ("second", "listing"):
        if field in fields:
            fields[field] = {command: frozenset(text.split()) for command, text in fields[field].items()}
    return Options(**fields)


PROGRAMS: Mapping[str, Options] = Tables()
"""Every program that is known. A name of several words is that command of a program: `uv run`, `python -m venv`."""


@cache
def those(flag: str) -> frozenset[str]:
    """The programs that have a flag in their table: those that wrap others, are shells, are npx's, …"""
    return frozenset(name for name in PROGRAMS if " " not in name and getattr(PROGRAMS[name], flag))


@cache
def listed(name: str) -> frozenset[str]:
    """A list of names that are no programs: variables, packages, modules, images."""
    return names(_file()["lists"][name])


def form(name: str) -> str:
    """A regular expression that is made of such lists."""
    return _file()["forms"][name]


def values() -> Mapping[str, str]:
    """Variables that may have only values of a form of their own, with that form."""
    return _file()["values"]


def known_as(name: str) -> str:
    """The program whose table it has: `gawk` is `awk`."""
    given = _file()["programs"].get(name)
    return given if isinstance(given, str) else name


def is_shell(name: str) -> bool:
    return name in PROGRAMS and PROGRAMS[name].shell


def interprets(name: str) -> bool:
    """Whether some of a program's words, or its standard input, may be code."""
    table = PROGRAMS.get(name)
    return table is not None and (table.shell or table.stdin_code or bool(table.code) or table.operands == "code")


def runs_others(name: str) -> bool:
    """Whether some of a program's words may be a program that it runs."""
    return name in PROGRAMS and (PROGRAMS[name].wraps or PROGRAMS[name].starts)
