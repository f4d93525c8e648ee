"""`$name` in texts: which names a text uses, and the text with their values."""

import re
from collections.abc import Collection, Mapping

from adderclaw.core.errors import UsageError

NAME = re.compile(r"\$(?:(\$)|\{([A-Za-z][A-Za-z0-9_-]{0,255})\}|([A-Za-z][A-Za-z0-9_-]{0,255}))")
"""`$$` is a dollar sign; `${name}` says where a name ends."""


MOST = 4 << 20
"""Characters of a text with its values."""


def used(text: str, known: Collection[str]) -> list[str]:
    """The names that a text uses, in its order, each once."""
    found: dict[str, None] = {}
    for match in NAME.finditer(text):
        if not match[1]:
            found[match[2] or _longest(match[3], known)] = None
    return list(found)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with each name replaced once: what a value says is never looked into."""

    size = len(text)

    def value(match: re.Match[str]) -> str:
        nonlocal size
        if match[1]:
            return "$"
        name = match[2] or _longest(match[3], values)
        size += len(values[name])
        if size > MOST:
            raise UsageError(f"a text with the values of its variables has over {MOST:,} characters (at ${name})")
        return values[name] + ("" if match[2] else match[3][len(name) :])

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
    needs = {name: {*used(text, names)} - values.keys() for name, text in waiting.items()}
    needed_by: dict[str, list[str]] = {}
    for name, others in needs.items():
        for other in others:
            needed_by.setdefault(other, []).append(name)
    ready = [name for name, others in needs.items() if not others]
    while ready:
        name = ready.pop()
        values[name] = filled(waiting.pop(name), values)
        for other in needed_by.get(name, ()):
            needs[other].discard(name)
            if not needs[other]:
                ready.append(other)
    if waiting:
        shown = ", ".join(list(waiting)[:10])
        raise UsageError(f"the defaults of {shown} need each other or what is not given")
    return values
