"""`$name` in texts: which names a text uses, and the text with their values."""

import re
from collections.abc import Collection, Mapping

from adderclaw.errors import UsageError

NAME = re.compile(r"\$(?:(\$)|\{([A-Za-z][A-Za-z0-9_-]*)\}|([A-Za-z][A-Za-z0-9_-]*))")
"""`$$` is a dollar sign; `${name}` says where a name ends."""


def used(text: str, known: Collection[str]) -> list[str]:
    """The names that a text uses, in its order, each once."""
    found: dict[str, None] = {}
    for match in NAME.finditer(text):
        if not match[1]:
            found[match[2] or _longest(match[3], known)] = None
    return list(found)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with each name replaced once: what a value says is never looked into."""

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return "$"
        if match[2]:
            return values[match[2]]
        name = _longest(match[3], values)
        return values[name] + match[3][len(name) :]

    return NAME.sub(value, text)


def _longest(written: str, known: Collection[str]) -> str:
    """A name may have hyphens, and a hyphen may follow a name: the longest that is known, else all of it."""
    name = written
    while name not in known:
        cut = name.rfind("-")
        if cut < 0:
            return written.split("-")[0] if "-" in written else written
        name = name[:cut]
    return name


def resolved(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """All inputs with their values: those given as they are, defaults with the inputs that they name."""
    values = dict(given)
    waiting = {name: text for name, text in defaults.items() if name not in given}
    names = {*values, *waiting}
    while waiting:
        ready = [name for name, text in waiting.items() if values.keys() >= set(used(text, names))]
        if not ready:
            raise UsageError(f"the defaults of {', '.join(waiting)} need each other or what is not given")
        for name in ready:
            values[name] = filled(waiting.pop(name), values)
    return values
