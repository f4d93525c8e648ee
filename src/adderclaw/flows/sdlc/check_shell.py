"""The static check of a shell test, with the same parser that judges commands."""

import re
from collections.abc import Iterator
from typing import cast

from adderclaw.flows.sdlc.check import (
    INLINE,
    INLINE_CODE,
    LOOKING,
    SHADOWING,
    SHADOWS,
    SLEEPS,
    UNEXERCISED,
    Problem,
    is_interpreter,
    weak,
)
from adderclaw.flows.sdlc.shell_assertions import Assertions, plain, words_of
from adderclaw.policy.legacy.shell import syntax
from adderclaw.policy.legacy.shell.reader import Reader
from adderclaw.policy.legacy.shell.syntax import Command, NotAPlan, Pipeline, Script

REFUSED = {
    "eval": "it runs text as commands, which cannot be checked",
    "source": "it runs the commands of another file, which cannot be checked",
    ".": "it runs the commands of another file, which cannot be checked",
    "exec": "it replaces the test with another program",
    "alias": "it replaces a program: do not stub anything",
    "hash": "it replaces a program: do not stub anything",
    "enable": "it replaces a shell builtin",
    "trap": "it changes how the test ends: no cleanup is needed, because the tree is a copy",
    "unset": "it removes a function or a variable",
    "sleep": SLEEPS,
    "usleep": SLEEPS,
    "timeout": "it sets its own time limit: every test already has one",
}
HELPERS = re.compile(r"(?:fail|die|setup|cleanup|(?:fail|assert|check|expect|require|run|setup)_\w+)", re.ASCII)
"""Allowed names for a test's functions: one with the name of a program would replace it."""
FEEDS = frozenset({"<<<"})


def problems(text: str) -> list[Problem]:
    reader = Reader(text if text.endswith("\n") else f"{text}\n")
    try:
        script = reader.whole()
    except NotAPlan as error:
        line = text.count("\n", 0, reader.at) + 1
        return [Problem(line, f"it cannot be checked ({error}): write it more simply, or in python")]
    except RecursionError:
        return [Problem(0, "it is nested too deeply to be parsed")]
    check = _Check(text)
    if line_problems := sorted(set(check.script(script, last=True))):
        return line_problems
    if not check.exercised:
        return [Problem(0, UNEXERCISED)]
    missing = weak(Assertions(script).kinds())
    return [Problem(0, missing)] if missing else []


class _Check:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.exercised = False
        """Whether it starts a program that does more than prepare or inspect."""
        self._functions: set[str] = set()

    def _line(self, text: str) -> int:
        """The line of a command; commands are visited in their order."""
        offset = self._text.find(text, self._at)
        if offset < 0:
            offset = max(self._text.find(text), 0)
        self._at = offset
        return self._text.count("\n", 0, offset) + 1

    def script(self, script: Script, *, last: bool = False) -> Iterator[Problem]:
        for number, pipeline in enumerate(script.pipelines):
            final = last and number == len(script.pipelines) - 1
            yield from self._pipeline(pipeline, final=final and not script.tail)

    def _pipeline(self, pipeline: Pipeline, *, final: bool) -> Iterator[Problem]:
        for node in pipeline.commands:
            if pipeline.after == "||" and isinstance(node, Command) and _succeeds(node):
                reason = f"`|| {node.text}` turns a failure into a success: remove it, or assert what is expected"
                yield Problem(self._line(node.text), reason)
            yield from self._node(node, final=final and pipeline.after != "||" and len(pipeline.commands) == 1)

    def _node(self, node: object, *, final: bool = False) -> Iterator[Problem]:
        match node:
            case Command():
                yield from self._command(node, final=final)
            case syntax.Function():
                if not HELPERS.fullmatch(node.name):
                    reason = f"the function {node.name} could replace a program: name helpers fail, assert_…"
                    yield Problem(self._line(node.name), reason)
                self._functions.add(node.name)
                yield from self._node(node.body)
            case Script():
                yield from self.script(node)
            case tuple() | list():
                for inner in cast("tuple[object, ...]", node):
                    yield from self._node(inner)
            case _:
                pass

    def _command(self, node: Command, *, final: bool) -> Iterator[Problem]:
        line = self._line(node.text)
        for name, _ in node.assigns:
            if name in SHADOWING:
                yield Problem(line, SHADOWS.format(name=name))
        words = words_of(node)
        if words:
            yield from (Problem(line, reason) for reason in self._reasons(node, words, final=final))
        for part in (*node.assigns, *node.words, *node.redirects):
            yield from self._node(part)

    def _reasons(self, node: Command, words: list[str | None], *, final: bool) -> Iterator[str]:
        program = words[0]
        if program is None:  # a variable: `"$BIN" add`
            self.exercised = True
            return
        name = program.rsplit("/", 1)[-1]
        if name in REFUSED:
            yield REFUSED[name]
        elif name in ("command", "builtin", "env", "nohup", "xargs", "sudo", "nice", "time"):
            yield f"it starts programs through {name}: call the program directly"
        elif name in ("export", "declare", "typeset", "readonly", "local"):
            for word in node.words[1:]:
                if (named := plain(word[:1]) or "").partition("=")[0] in SHADOWING:
                    yield SHADOWS.format(name=named.partition("=")[0])
        elif name == "exit" or name == "return":
            yield from _left(words, final=final)
        elif is_interpreter(name):
            yield from _interpreted(node, words)
        elif name == "set" and any(word and word.startswith("+") and "e" in word for word in words[1:]):
            yield "it turns `set -e` off: use `if` where a command is expected to fail"
        if name not in LOOKING and name not in self._functions and name not in REFUSED:
            self.exercised = True


def programs(text: str) -> list[str]:
    """The names under which a checked test may start programs: first words, and the values of variables."""
    names: dict[str, None] = {}

    def visit(node: object) -> None:
        if isinstance(node, Command):
            words = [*words_of(node)[:1], *(plain(value) for _, value in node.assigns)]
            names.update((word, None) for word in words if word and word not in LOOKING)
        if isinstance(node, tuple | list):
            for inner in cast("tuple[object, ...]", node):
                visit(inner)

    visit(Reader(text if text.endswith("\n") else f"{text}\n").whole())
    return list(names)


def _succeeds(node: Command) -> bool:
    words = words_of(node)
    return bool(words) and (
        words[0] in ("true", ":", "echo", "printf") or words[:2] in (["exit", "0"], ["return", "0"])
    )


def _left(words: list[str | None], *, final: bool) -> Iterator[str]:
    status = words[1] if len(words) > 1 else "0" if words[0] == "exit" else "1"
    if status is None or not status.isdecimal():
        yield f"`{words[0]}` with a status that is not a literal: write `exit 1` where something is wrong"
    elif int(status) % 256 == 0 and not (final and words[0] == "exit"):
        yield f"`{words[0]} 0` before the end skips what follows: let a passing test run to its end"


def _interpreted(node: Command, words: list[str | None]) -> Iterator[str]:
    fed = any(redirect.operator in FEEDS for redirect in node.redirects)
    operands = [word for word in words[1:] if word is None or not word.startswith("-") or word == "-"]
    if any(word in INLINE for word in words[1:]) or ((fed or "-" in words[1:]) and operands in ([], ["-"])):
        yield INLINE_CODE
