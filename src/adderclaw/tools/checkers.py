"""The type checkers and linters that can run after an edit: how to detect them, run them and read their output."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from adderclaw.core.record import NamedTuple

MAX_FINDINGS = 10
"""Most findings of one checker that are shown after an edit."""
MAX_MESSAGE_CHARS = 300
"""Most characters of one finding."""


class Finding(NamedTuple):
    path: str
    """As the checker printed it."""
    line: str
    message: str


class Checker(NamedTuple):
    """How one checker is detected, run and read."""

    name: str
    suffixes: tuple[str, ...]
    files: tuple[str, ...]
    """Files in the project's root each of which configures the checker."""
    sections: tuple[tuple[str, str], ...]
    """Shared configuration files: the file name, and how the checker's section in it starts."""
    own: tuple[str, ...]
    """Where a project can have its own copy of the program."""
    arguments: str
    """The arguments; {files} stands for the changed files, {folders} for their folders."""
    read: Callable[[str], Iterator[Finding]]


# ------------------------------------------------------------------ how findings are read

_LINE = re.compile(
    r"""\s*(?:vet:\s)?                     # printed by go vet for code that does not compile
    (?P<path>[^\s:][^:]*?)
    (?::(?P<line>\d+)(?::\d+)?:?|\((?P<at>\d+),\d+\):)  # a.py:3:5: or a.ts(3,5):
    \s(?:-\s)?(?P<message>\S.*)""",
    re.VERBOSE,
)


def read_lines(printed: str) -> Iterator[Finding]:
    """Reads one finding per line, as most checkers print it: `path:line:column: message`."""
    for text in printed.splitlines():
        if match := _LINE.fullmatch(text.rstrip()):
            yield Finding(match["path"], match["line"] or match["at"], match["message"])


_UNDER = re.compile(r"\s+(?P<line>\d+):\d+\s+(?P<message>\S.*)")


def read_headed(printed: str) -> Iterator[Finding]:
    """Reads a file name followed by its indented findings, as eslint prints them."""
    path = ""
    for text in printed.splitlines():
        if match := _UNDER.fullmatch(text.rstrip()):
            if path:
                yield Finding(path, match["line"], re.sub(r"\s{2,}", "  ", match["message"]))
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
        # never fixes files and never writes a cache, whatever the settings say
        "check --no-fix --no-cache --force-exclude --quiet --output-format concise {files}",
        read_lines,
    ),
    Checker(
        "pyright",
        PYTHON,
        ("pyrightconfig.json",),
        (("pyproject.toml", "[tool.pyright"),),
        (".venv/bin/pyright", "venv/bin/pyright", "node_modules/.bin/pyright"),
        "{files}",
        read_lines,
    ),
    Checker(
        "mypy",
        PYTHON,
        ("mypy.ini", ".mypy.ini"),
        (("pyproject.toml", "[tool.mypy"), ("setup.cfg", "[mypy")),
        (".venv/bin/mypy", "venv/bin/mypy"),
        "--no-error-summary --no-pretty --cache-dir=/dev/null {files}",
        read_lines,
    ),
    Checker(
        "tsc",
        SCRIPT,
        ("tsconfig.json",),
        (),
        ("node_modules/.bin/tsc",),
        "--noEmit -p tsconfig.json",
        read_lines,
    ),
    Checker(
        "eslint",
        (".js", ".jsx", ".mjs", ".cjs", *SCRIPT),
        (*_ESLINT, *_ESLINT_BEFORE),
        (),
        ("node_modules/.bin/eslint",),
        "--no-color {files}",
        read_headed,
    ),
    Checker(
        "cargo",
        (".rs",),
        ("Cargo.toml",),
        (),
        (),
        "check --quiet --offline --message-format short",
        read_lines,
    ),
    Checker("go", (".go",), ("go.mod",), (), (), "vet {folders}", read_lines),
)


def configured_checkers(files: Collection[str], text: Callable[[str], str]) -> tuple[Checker, ...]:
    """The checkers that a project configures. `there` lists its files of CHECKER_FILES; `text` reads one of them."""

    def has(checker: Checker) -> bool:
        if any(name in files for name in checker.files):
            return True
        return any(
            line.startswith(section) and line[len(section) :][:1] in ("]", ".", "-")
            for name, section in checker.sections
            if name in files
            for line in text(name).splitlines()
        )

    return tuple(checker for checker in CHECKERS if has(checker))


def checker_commands(checker: Checker, paths: Sequence[str], own: Callable[[str], bool]) -> tuple[str, ...]:
    """Command lines that run a checker, the project's own program first. `own` says whether that program exists."""
    folders = dict.fromkeys(os.path.dirname(path) or "." for path in paths)
    arguments = checker.arguments.format(files=_quote_paths(paths), folders=_quote_paths(folders))
    return tuple(f"{program} {arguments}" for program in (*filter(own, checker.own), checker.name))


def _quote_paths(paths: Iterable[str]) -> str:
    """Quotes the paths so that none of them is read as an option."""
    from shlex import quote

    return " ".join(quote(f"./{path}") for path in paths)


def findings_on(findings: Iterable[Finding], root: str, paths: Collection[str]) -> list[Finding]:
    """The findings on changed files, with paths relative to the root and without duplicates."""
    unique: dict[Finding, None] = {}
    for path, line, message in findings:
        name = os.path.relpath(os.path.join(root, path), root)
        if name in paths:
            unique[Finding(name, line, message[:MAX_MESSAGE_CHARS])] = None
    return list(unique)
