"""The type checkers and linters that can follow an edit: how each is recognised, called and read."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from adderclaw.core.record import NamedTuple

SHOWN = 10
"""Findings of one checker that follow an edit."""
LONGEST = 300
"""Characters of one of them."""


class Finding(NamedTuple):
    path: str
    """As the checker wrote it."""
    line: str
    message: str


class Checker(NamedTuple):
    """One row of the table."""

    name: str
    suffixes: tuple[str, ...]
    files: tuple[str, ...]
    """Files of the project's root of which each configures it."""
    sections: tuple[tuple[str, str], ...]
    """The same for a file that others share: its name, and how a line of its own in there begins."""
    own: tuple[str, ...]
    """Where a project keeps its own program."""
    arguments: str
    """With {files} where it is given the changed files, or {folders} for where they are."""
    read: Callable[[str], Iterator[Finding]]


# ------------------------------------------------------------------ how findings are read

_LINE = re.compile(
    r"""\s*(?:vet:\s)?                     # go vet says so of what does not compile
    (?P<path>[^\s:][^:]*?)
    (?::(?P<line>\d+)(?::\d+)?:?|\((?P<at>\d+),\d+\):)  # a.py:3:5: or a.ts(3,5):
    \s(?:-\s)?(?P<message>\S.*)""",
    re.VERBOSE,
)


def lines(printed: str) -> Iterator[Finding]:
    """One finding a line: `path:line:column: message`, as most print it."""
    for text in printed.splitlines():
        if found := _LINE.fullmatch(text.rstrip()):
            yield Finding(found["path"], found["line"] or found["at"], found["message"])


_UNDER = re.compile(r"\s+(?P<line>\d+):\d+\s+(?P<message>\S.*)")


def headed(printed: str) -> Iterator[Finding]:
    """The name of a file, and beneath it its findings."""
    path = ""
    for text in printed.splitlines():
        if found := _UNDER.fullmatch(text.rstrip()):
            if path:
                yield Finding(path, found["line"], re.sub(r"\s{2,}", "  ", found["message"]))
        elif text.strip():
            path = text.strip()


# ------------------------------------------------------------------ the table


PYTHON, SCRIPT = (".py", ".pyi"), (".ts", ".tsx", ".mts", ".cts")
_ESLINT = tuple(f"eslint.config.{ending}" for ending in ("js", "mjs", "cjs", "ts", "mts", "cts"))
_ESLINT_BEFORE = tuple(f".eslintrc{ending}" for ending in ("", ".json", ".js", ".cjs", ".yml", ".yaml"))


CHECKERS = (
    Checker(
        "ruff",
        PYTHON,
        ("ruff.toml", ".ruff.toml"),
        (("pyproject.toml", "[tool.ruff"),),
        (".venv/bin/ruff", "venv/bin/ruff"),
        # whatever its settings say: nothing is repaired, and nothing is left behind
        "check --no-fix --no-cache --force-exclude --quiet --output-format concise {files}",
        lines,
    ),
    Checker(
        "pyright",
        PYTHON,
        ("pyrightconfig.json",),
        (("pyproject.toml", "[tool.pyright"),),
        (".venv/bin/pyright", "venv/bin/pyright", "node_modules/.bin/pyright"),
        "{files}",
        lines,
    ),
    Checker(
        "mypy",
        PYTHON,
        ("mypy.ini", ".mypy.ini"),
        (("pyproject.toml", "[tool.mypy"), ("setup.cfg", "[mypy")),
        (".venv/bin/mypy", "venv/bin/mypy"),
        "--no-error-summary --no-pretty --cache-dir=/dev/null {files}",
        lines,
    ),
    Checker(
        "tsc",
        SCRIPT,
        ("tsconfig.json",),
        (),
        ("node_modules/.bin/tsc",),
        "--noEmit -p tsconfig.json",
        lines,
    ),
    Checker(
        "eslint",
        (".js", ".jsx", ".mjs", ".cjs", *SCRIPT),
        (*_ESLINT, *_ESLINT_BEFORE),
        (),
        ("node_modules/.bin/eslint",),
        "--no-color {files}",
        headed,
    ),
    Checker(
        "cargo",
        (".rs",),
        ("Cargo.toml",),
        (),
        (),
        "check --quiet --offline --message-format short",
        lines,
    ),
    Checker("go", (".go",), ("go.mod",), (), (), "vet {folders}", lines),
)


def configured(there: Collection[str], text: Callable[[str], str]) -> tuple[Checker, ...]:
    """The checkers that a project configures; `there` are those of CHECKER_FILES that it has, `text` reads one."""

    def has(one: Checker) -> bool:
        if any(name in there for name in one.files):
            return True
        return any(
            line.startswith(section) and line[len(section) :][:1] in ("]", ".", "-")
            for name, section in one.sections
            if name in there
            for line in text(name).splitlines()
        )

    return tuple(one for one in CHECKERS if has(one))


def commands(one: Checker, paths: Sequence[str], own: Callable[[str], bool]) -> tuple[str, ...]:
    """How it can be called, the project's own program first; `own` says whether there is one of that name."""
    folders = dict.fromkeys(os.path.dirname(path) or "." for path in paths)
    arguments = one.arguments.format(files=_words(paths), folders=_words(folders))
    return tuple(f"{program} {arguments}" for program in (*filter(own, one.own), one.name))


def _words(paths: Iterable[str]) -> str:
    """None of them is taken for an option."""
    from shlex import quote

    return " ".join(quote(f"./{path}") for path in paths)


def about(findings: Iterable[Finding], root: str, paths: Collection[str]) -> list[Finding]:
    """Those on changed files, by the names that we know these by, each once."""
    kept: dict[Finding, None] = {}
    for path, line, message in findings:
        name = os.path.relpath(os.path.join(root, path), root)
        if name in paths:
            kept[Finding(name, line, message[:LONGEST])] = None
    return list(kept)
