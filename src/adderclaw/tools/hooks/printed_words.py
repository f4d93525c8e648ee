"""Finds the words of a hook's command that it only prints, so files with such names are not run by it.

Uses the grammar for the model's commands. If a text does not match this grammar, or could redefine `echo`, no word is
treated as printed.
"""

import re
from collections.abc import Iterator, Sequence

from adderclaw.policy.legacy.shell import syntax
from adderclaw.policy.legacy.shell.reader import Reader
from adderclaw.policy.legacy.shell.syntax import Command, Node, NotAPlan, Param, Redir, Script, Text, Word

type Span = tuple[int, int]

PRINTERS = ("echo", "printf")
MEANING_CHANGERS = frozenset(
    {"eval", "source", ".", "alias", "enable", "exec", "trap", "shopt", "builtin", "command", "unset"}
)
"""Commands that can change the meaning of later commands, or redirect their output."""
BASH_ONLY = re.compile(r"\$['\"]|&>|\|&|<<<|>&(?!\s*\d)|[<>]\(|\[\[|\bfunction\b")
"""Syntax that other shells interpret differently."""
HARMLESS_TARGETS = ("/dev/null", "/dev/stderr")
"""Targets of redirections from which no other program can read the output."""
PLAIN_NAME = re.compile(r"[\w./:+@-]+|\[")
"""A command's name that no shell expands to other words."""


class _PositionReader(Reader):
    """Records the position of each word and here-document of the text itself, not of substituted text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.spans: dict[int, Span] = {}

    def word(self) -> Word:
        start = self.at
        word = super().word()
        self.spans[id(word)] = start, self.at
        return word

    def document(self, mark: str, *, strips: bool, quoted: bool) -> Word:
        start = self.at
        word = super().document(mark, strips=strips, quoted=quoted)
        self.spans[id(word)] = start, self.at
        return word


def printed_spans(text: str, shell: str) -> tuple[Span, ...]:
    """The positions of the words in a hook's command that it only prints."""
    if shell not in ("bash", "sh") or (shell == "sh" and BASH_ONLY.search(text)):
        return ()
    reader = _PositionReader(text)
    try:
        script = reader.whole()
    except (NotAPlan, RecursionError):
        return ()
    if _changes_meanings(script):
        return ()
    return tuple(reader.spans[id(word)] for word in _script_words(script) if id(word) in reader.spans)


def _changes_meanings(script: Script) -> bool:
    waiting: list[object] = [script]
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.Function) and node.name in (*PRINTERS, "cat"):
            return True
        if isinstance(node, Command) and node.words:
            name = _literal(node.words[0])
            if name is None or name in MEANING_CHANGERS or not PLAIN_NAME.fullmatch(name):
                return True
        if isinstance(node, tuple | list):
            waiting += node
    return False


def _script_words(script: Script) -> Iterator[Word]:
    """In a pipeline, only the last command counts, because the next command reads the output of the others."""
    for pipeline in script.pipelines:
        yield from _node_words(pipeline.commands[-1])


def _node_words(node: Node) -> Iterator[Word]:
    if not _is_shown(node.redirects):
        return
    match node:
        case Command():
            yield from _command_words(node)
        case syntax.Group():
            yield from _script_words(node.body)
        case syntax.If():
            for script in (*(part for branch in node.branches for part in branch), node.otherwise):
                yield from _script_words(script) if script is not None else ()
        case syntax.While():
            yield from _script_words(node.condition)
            yield from _script_words(node.body)
        case syntax.For():
            yield from _script_words(node.body)
        case syntax.Case():
            for _, script in node.arms:
                yield from _script_words(script)
        case _:  # a function's output goes to wherever its caller's output goes
            return


def _command_words(command: Command) -> Iterator[Word]:
    name, *arguments = map(_literal, command.words) if command.words else ("",)
    sets_variable = name == "printf" and (not arguments or arguments[0] is None or arguments[0].startswith("-"))
    if name in PRINTERS and not sets_variable:  # printf -v assigns its words to a variable
        yield from filter(_is_plain, command.words[1:])
    elif name == "cat" and not arguments:
        yield from (
            redirect.target for redirect in command.redirects if redirect.document and _is_plain(redirect.target)
        )


def _is_shown(redirects: Sequence[Redir]) -> bool:
    return all(
        redirect.operator in ("<", "<<<", ">&") or _literal(redirect.target) in HARMLESS_TARGETS
        for redirect in redirects
    )  # the grammar allows >& only with 1 and 2


def _literal(word: Word) -> str | None:
    texts = [part.text for part in word if isinstance(part, Text)]
    return "".join(texts) if len(texts) == len(word) else None


def _is_plain(word: Word) -> bool:
    """Whether the word is expanded without running a command."""
    return all(
        isinstance(part, Text) or (isinstance(part, Param) and _is_plain(part.argument) and _is_plain(part.second))
        for part in word
    )
