"""Values that `${…}` cuts, as bash does it."""

import re

from adderclaw.policy.legacy.shell.syntax import NotAPlan, Param, Text, Word

SLICE = r"(\d{1,6}| -\d{1,6})(?::(\d{1,6}))?"
"""`:1`, `:1:2`, `: -3`"""


_PATTERN = r"[\w.*?/:@,-]"
_PLAIN = r"[\w./:@,+=-]*"


def written(part: Param) -> str | None:
    """What stands in `${x##…}`, in our own words, where bash cuts a value that is not known; None where it is more."""
    text = _literal(part.argument)
    second = _literal(part.second)
    if text is None or second is None:
        return None
    match part.op:
        case "#" | "##" | "%" | "%%":
            return _pattern(text) if text else None
        case "^^" | ",," | "^" | ",":
            return "" if not text else None
        case ":":
            return text if re.fullmatch(SLICE, text, re.ASCII) else None
        case "/" | "//":
            plain = re.fullmatch(_PLAIN, second, re.ASCII) and text and text[0] not in "#%/"
            return f"{_pattern(text).replace('/', chr(92) + '/')}/{second}" if plain else None
        case ":-" | ":+" | "-" | "+":
            return text if re.fullmatch(_PLAIN, text, re.ASCII) else None
        case _:
            return None


def _literal(word: Word) -> str | None:
    texts = [piece.text for piece in word if isinstance(piece, Text) and not piece.quoted]
    return "".join(texts) if len(texts) == len(word) else None


def _pattern(text: str) -> str:
    """A pattern with a backslash before all that is neither plain nor one of its marks."""
    if not re.fullmatch(r"[\w.*?/:@,\]()\[;&|<>!^=+ %#-]+", text, re.ASCII) or re.search(r"\[.*\]", text):
        raise NotAPlan("a pattern with brackets, or an unusual one, for a value that is not known")
    return "".join(char if re.fullmatch(_PATTERN, char, re.ASCII) else f"\\{char}" for char in text)


def substring(value: str, text: str) -> str:
    """`${value:1:2}`."""
    found = re.fullmatch(SLICE, text, re.ASCII)
    if found is None:
        raise NotAPlan("variable expansion of a form that plans do not have")
    first = int(found[1])
    start = first + len(value) if first < 0 else first
    return value[start : start + int(found[2]) if found[2] else None] if start >= 0 else ""


def trimmed(value: str, wanted: str, op: str) -> str:
    compiled = re.compile(wanted, re.DOTALL)
    lengths = range(len(value) + 1)
    for length in lengths if len(op) == 1 else reversed(lengths):
        if op[0] == "#" and compiled.fullmatch(value, 0, length):
            return value[length:]
        if op[0] == "%" and compiled.fullmatch(value, len(value) - length):
            return value[: len(value) - length]
    return value


def replaced(value: str, wanted: str, instead: str, *, every: bool) -> str:
    """The longest match at each place, from the left."""
    compiled = re.compile(wanted, re.DOTALL)
    out: list[str] = []
    at = 0
    while at < len(value):
        # An expression of `patterns` matches as much as it can.
        found = compiled.match(value, at)
        end = found.end() if found is not None else at
        if end == at:
            out.append(value[at])
            at += 1
            continue
        out.append(instead)
        at = end
        if not every:
            break
    return "".join(out) + value[at:]
