"""Finds and replaces `$name` in texts."""

import re
from collections.abc import Collection, Mapping

from adderclaw.core.errors import UsageError

NAME = re.compile(r"\$(?:(\$)|\{([A-Za-z][A-Za-z0-9_-]{0,255})\}|([A-Za-z][A-Za-z0-9_-]{0,255}))")
"""`$$` is a dollar sign; `${name}` marks where a name ends."""


MAX_TEXT = 4 << 20
"""How many characters a text may have with its values."""


def names_in(text: str, known: Collection[str]) -> list[str]:
    """The names that a text uses, in order, without duplicates."""
    names: dict[str, None] = {}
    for match in NAME.finditer(text):
        if not match[1]:
            names[match[2] or _longest_known(match[3], known)] = None
    return list(names)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replaces each name once; names inside values are not replaced."""

    size = len(text)

    def value(match: re.Match[str]) -> str:
        nonlocal size
        if match[1]:
            return "$"
        name = match[2] or _longest_known(match[3], values)
        size += len(values[name])
        if size > MAX_TEXT:
            raise UsageError(f"a text with the values of its variables has over {MAX_TEXT:,} characters (at ${name})")
        return values[name] + ("" if match[2] else match[3][len(name) :])

    return NAME.sub(value, text)


def _longest_known(written: str, known: Collection[str]) -> str:
    """Returns the longest known name at the start of a word, since a hyphen may be part of a name or follow it."""
    name = written
    while name not in known:
        cut = name.rfind("-")
        if cut < 0:
            return written.split("-")[0] if "-" in written else written
        name = name[:cut]
    return name


def resolve_inputs(defaults: Mapping[str, str], inputs: Mapping[str, str]) -> dict[str, str]:
    """Returns the values of all inputs, with the inputs that defaults refer to filled in."""
    values = dict(inputs)
    waiting = {name: text for name, text in defaults.items() if name not in inputs}
    names = {*values, *waiting}
    needs = {name: {*names_in(text, names)} - values.keys() for name, text in waiting.items()}
    needed_by: dict[str, list[str]] = {}
    for name, others in needs.items():
        for other in others:
            needed_by.setdefault(other, []).append(name)
    ready = [name for name, others in needs.items() if not others]
    while ready:
        name = ready.pop()
        values[name] = fill(waiting.pop(name), values)
        for other in needed_by.get(name, ()):
            needs[other].discard(name)
            if not needs[other]:
                ready.append(other)
    if waiting:
        shown = ", ".join(list(waiting)[:10])
        raise UsageError(f"the defaults of {shown} refer to each other or to inputs without a value")
    return values
