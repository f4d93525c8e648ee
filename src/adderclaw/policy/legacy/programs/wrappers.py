"""Programs that run the program that their words name: what that is, and what they change for it."""

import re

from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, known_as
from adderclaw.policy.legacy.programs.objections import Words
from adderclaw.policy.legacy.programs.options import Parsed, parse
from adderclaw.policy.legacy.shell.environment import CODE_FOLDERS, is_forgettable, is_plain_variable


class Wrapped(NamedTuple):
    words: Words
    """The command that is run; none where there is none."""
    strange: str = ""
    """Why it is not looked through."""


FOLDER = r"(?:\./)?\w[\w-]*(?:/\w[\w-]*)*/?"
"""A folder of the workspace, no part of which is hidden."""


def runs_in_project(words: Words) -> bool:
    table = PROGRAMS.get(words[0].rsplit("/", 1)[-1])
    return (table is not None and bool(table.runs) and words[1:2] == (table.runs,)) or bisects(words)


def bisects(words: Words) -> bool:
    """Whether git runs what follows, once for each commit that it looks at."""
    return words[0].rsplit("/", 1)[-1] == "git" and words[1:3] == ("bisect", "run")


def only_looks(words: Words) -> bool:
    """Whether a command of the list writes nothing that its words name."""
    options = PROGRAMS.get(words[0].rsplit("/", 1)[-1]) if words else None
    if options is None or options.kind != "look":
        return False
    return not options.writes & parse(words[1:], options.options, single_dash=options.single_dash).given


def wrapped(words: Words) -> Wrapped:
    """What a wrapper runs."""
    kind = words[0].rsplit("/", 1)[-1]
    if bisects(words):
        plain = words[3:] and re.fullmatch(r"[\w./+][\w./+-]*", words[3], re.ASCII)
        return Wrapped(words[3:]) if plain else Wrapped((), "git bisect run without a program")
    if runs_in_project(words):
        return _project_run(kind, words)
    options = PROGRAMS.get(kind)
    if options is None or not options.wraps:
        return Wrapped((), "it runs no other program")
    found = parse(words[1:], options.options, until_operand=True)
    rest = found.operands
    if found.strange or (kind == "npx" and not all(re.fullmatch(FOLDER, value) for value in found.values)):
        return Wrapped((), f"{kind} {(*found.strange, *found.values)[0]} is not looked through")
    if known_as(kind) in ("env", "cross-env"):
        return _env(rest) if _keeps_git_in(found) else Wrapped((), "env takes away what holds git in")
    if options.first:
        if not rest or not re.fullmatch(options.first, rest[0]):
            return Wrapped((), f"{kind} without a plain value")
        rest = rest[1:]
    if rest and "=" in rest[0]:
        return Wrapped((), f"{rest[0]} is not a program")
    return Wrapped(rest)


_SYSTEM = r"(?:/usr/local/s?bin|/usr/s?bin|/s?bin|/usr/games|/usr/local/games)"


def _keeps_git_in(found: Parsed) -> bool:
    """Whether what is left out of the environment are none of the variables by which git is held in."""
    if found.given & {"-i", "--ignore-environment"} and any("git" in word for word in found.operands):
        return False
    return all(is_plain_variable(name, "") or is_forgettable(name) for name in found.values)


def _env(rest: Words) -> Wrapped:
    while rest and "=" in rest[0]:
        name, _, value = rest[0].partition("=")
        beside = name == "PYTHONPATH" and re.fullmatch(r"(?!.*\.\.)\.?[\w][\w./-]*|\.", value)
        beside = beside or (name == "NODE_PATH" and re.fullmatch(CODE_FOLDERS[name], value, re.ASCII))
        beside = beside or (name == "PATH" and re.fullmatch(rf"{_SYSTEM}(?::{_SYSTEM})*", value))
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or not (beside or is_plain_variable(name, value)):
            return Wrapped((), f"{name} may change what code is loaded")
        rest = rest[1:]
    return Wrapped(rest)


def _project_run(kind: str, words: Words) -> Wrapped:
    python = kind in ("uv", "poetry")
    plain = without_python(words[2:]) if python else words[2:]
    module = " -m --module" if python else ""
    found = parse(plain, f"{PROGRAMS[f'{kind} {PROGRAMS[kind].runs}'].options}{module}", until_operand=True)
    rest = found.operands
    if found.strange:
        return Wrapped((), f"its option {found.strange[0]} is not one of those that are known to do no harm")
    if rest and found.given & {"-m", "--module"}:
        return Wrapped(("python", "-m", *rest))
    script = python and rest and (rest[0] == "-" or rest[0].endswith(".py"))
    return Wrapped(("python", *rest) if script else rest)


def without_python(words: Words) -> Words:
    """Words without the version of Python that is asked for, as long as options go."""
    kept: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word in ("--python", "-p") and rest and re.fullmatch(VERSION, rest[0]):
            rest.pop(0)
        elif not re.fullmatch(rf"(?:--python=|-p){VERSION}", word):
            kept.append(word)
    return (*kept, *rest)


VERSION = r"(?:cpython@)?\d+(\.\d+)*"


def inner(words: Words) -> Words | None:
    """The command that a wrapper runs, () if none; None if it is no wrapper, or one that is not looked through."""
    found = wrapped(words)
    return None if found.strange else found.words


# ------------------------------------------------------------------ find -exec


class Found(NamedTuple):
    """A find without its actions, and the commands that those are."""

    words: Words
    commands: tuple[Words, ...]
    strange: str = ""


def find_parts(words: Words) -> Found:
    kept: list[str] = []
    commands: list[Words] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word not in ("-exec", "-execdir"):
            kept.append(word)
            continue
        end = next((i for i, w in enumerate(rest) if w == ";" or (w == "+" and i and rest[i - 1] == "{}")), None)
        if end is None or not end:
            return Found(words, (), f"{word} without an end")
        commands.append(tuple(rest[:end]))
        del rest[: end + 1]
    return Found(tuple(kept), tuple(commands))
