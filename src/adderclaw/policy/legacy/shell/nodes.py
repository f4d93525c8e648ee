"""What can be seen in commands as they were written, before any of their words is expanded."""

import re

from adderclaw.policy.legacy.shell import syntax
from adderclaw.policy.legacy.shell.syntax import NotAPlan, Param, Text, Word


def begins_with_status(node: object) -> bool:
    """Whether what runs first asks for the status of what ran before it."""
    match node:
        case syntax.Script():
            return any(begins_with_status(one) for one in node.pipelines[0].commands)  # all of a pipeline begin at once
        case syntax.Group() | syntax.Function():
            return bool(node.redirects and asks_status(node.redirects)) or begins_with_status(node.body)
        case syntax.If():
            return asks_status(node.redirects) or begins_with_status(node.branches[0][0])
        case _:
            return asks_status(node)


def asks_status(syntax_of: object) -> bool:
    """Whether `$?` stands anywhere in some syntax, or `exit` without a status, which means it."""
    waiting = [syntax_of]
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.Command) and len(node.words) == 1 and is_word(node.words, "exit"):
            return True
        if isinstance(node, Param) and (node.name == "?" or node.name.startswith("PIPESTATUS[")):
            return True
        if isinstance(node, tuple | list):
            waiting += node
    return False


def is_word(words: tuple[Word, ...], name: str) -> bool:
    return (
        bool(words)
        and all(isinstance(part, Text) for part in words[0])
        and "".join(p.text for p in words[0] if isinstance(p, Text)) == name
    )


def declared(word: Word) -> tuple[str, Word | None]:
    """The name, and the value if there is one, of a word after `export`."""
    first = word[0]
    if not isinstance(first, Text) or first.quoted:
        raise NotAPlan("a declaration of a name that is not plain")
    parts = re.fullmatch(r"([A-Za-z_]\w*)(=?)(.*)", first.text, re.ASCII | re.DOTALL)
    if parts is None or (not parts[2] and len(word) > 1):
        raise NotAPlan("a declaration with more than names and values")
    if not parts[2]:
        return parts[1], None
    return parts[1], ((Text(parts[3]),) if parts[3] else ()) + word[1:]
