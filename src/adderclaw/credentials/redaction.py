"""Keeps secrets and control characters out of whatever is shown, logged or leaves."""

import json
import re
from binascii import b2a_base64
from functools import cache, lru_cache
from typing import Any, cast

from adderclaw.record import NamedTuple

MARK = "[redacted]"
MINIMUM = 6
"""Shorter values would turn ordinary words into marks."""
SPLIT = 16
"""Characters from which on a value is found across line ends, too, as `base64` and `fold` put them in."""
DEPTH = 64
_PLAIN = frozenset({bool, int, float})
REMEMBERED = 80


class Secrets:
    """The exact values of loaded credentials, in every form in which they may turn up."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()
        self._long: tuple[str, ...] = ()
        """Those that are found even where blanks or line ends stand between their characters."""
        self._cleaned: dict[str, str] = {}
        """Short texts that come again and again (names, reasons), and what became of them."""

    def add(self, value: str) -> None:
        """Register a value, and its URL, JSON and base64 forms."""
        value = value.strip()
        if len(value) >= MINIMUM:
            # longest first: a form may be part of another
            self._cleaned.clear()
            self._forms = tuple(sorted({*self._forms, *_forms(value)}, key=lambda form: (-len(form), form)))
            together = dict.fromkeys("".join(form.split()) for form in self._forms)
            self._long = tuple(form for form in together if len(form) >= SPLIT)

    def scrub(self, text: str) -> str:
        """The text without any registered value."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MARK)
        if self._long and "\n" in text:
            together = "".join(text.split())
            for form in self._long:
                if form in together:
                    text = _compiled(r"\s*".join(map(re.escape, form))).sub(MARK, text)
        return text

    def scrub_all(self, value: Any) -> Any:
        """A JSON value without any registered value; nothing else of it changes."""
        if not self._forms:
            return value
        match value:
            case str():
                return self.scrub(value)
            case dict():
                return {self.scrub(str(key)): self.scrub_all(item) for key, item in _items(value)}
            case list():
                return [self.scrub_all(item) for item in cast(list[Any], value)]
            case _:
                return value

    def clean(self, value: Any) -> Any:
        """A JSON value without registered values, secret shapes and control characters."""
        return self._clean(value, 0)

    def _clean(self, value: Any, depth: int) -> Any:
        if value is None or type(value) in _PLAIN:  # asked first: this is what most values of an event are
            return value
        match value:
            case str():
                return self._cleaned.get(value) or self._text(value)
            case bool() | int() | float():
                return value
            case dict() | list() | tuple() if depth >= DEPTH:
                return "[nested too deeply]"
            case dict():
                known = self._cleaned
                return {
                    known.get(key) or self._text(str(key)): self._entry(str(key), item, depth)
                    for key, item in _items(value)
                }
            case list() | tuple():
                return [self._clean(item, depth + 1) for item in cast(list[Any], value)]
            case _:
                return self._text(str(value))

    def _entry(self, key: str, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return MARK if value and secret_name(key) else self._cleaned.get(value) or self._text(value)
        return self._clean(value, depth + 1)

    def _text(self, text: str) -> str:
        cleaned = visible(without_shapes(self.scrub(text)))
        if len(text) <= REMEMBERED:
            if len(self._cleaned) > 2_000:
                self._cleaned.clear()
            self._cleaned[text] = cleaned
        return cleaned


def _items(table: Any) -> list[tuple[Any, Any]]:
    return list(cast(dict[Any, Any], table).items())


# ------------------------------------------------------------------ forms of one value

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _forms(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogatepass")
    percent = "".join(chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}" for byte in raw)
    forms = {value, percent, percent.lower(), percent.replace("%20", "+"), percent.replace("%2F", "/")}
    forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    forms |= {raw.hex(), raw.hex().upper()}
    forms |= {encoded for shift in range(3) if len(encoded := _base64_core(raw, shift)) >= 8}
    forms |= {form.replace("+", "-").replace("/", "_") for form in forms if form not in (value, percent)}
    return {form for form in forms if len(form) >= MINIMUM}


def _base64_core(raw: bytes, shift: int) -> str:
    """The part of a base64 text that depends on `raw` alone when it stands `shift` bytes past a multiple of three."""
    text = b2a_base64(b"\0" * shift + raw, newline=False).decode()
    start = (0, 2, 3)[shift]
    cut = (0, 3, 2)[(shift + len(raw)) % 3]
    return text[start : len(text) - cut] if cut else text[start:]


# ------------------------------------------------------------------ shapes


class Shape(NamedTuple):
    """A form that only secrets have. The pattern is compiled and run only where one of its hints occurs."""

    hints: tuple[str, ...]
    """In lower case."""
    pattern: str
    replacement: str = MARK


_VALUE_SHAPES = (
    Shape(("sk-", "rk-", "pk-"), r"\b[srp]k-(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{16,}"),
    Shape(("sk_live", "sk_test", "rk_live", "whsec_"), r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{12,}"),
    Shape(("gh", "github_pat_"), r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    Shape(("glpat-",), r"\bglpat-[A-Za-z0-9_\-]{16,}"),
    Shape(("xox", "xapp-"), r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9\-]{10,}"),
    Shape(("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    Shape(("aiza",), r"\bAIza[A-Za-z0-9_\-]{30,}"),
    Shape(("ya29.",), r"\bya29\.[A-Za-z0-9_\-]{20,}"),
    Shape(("hf_", "npm_", "pypi-"), r"\b(?:hf_|npm_|pypi-)[A-Za-z0-9_\-]{20,}"),
    Shape(("eyj",), r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*"),
    Shape(("private key",), r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"),
)
_CONTEXT_SHAPES = (
    Shape(("bearer ", "basic "), r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/\-]{12,}=*", rf"\1\2{MARK}"),
    Shape(("://",), r"(?i)\b([a-z][a-z0-9+.\-]*://)[^\s/@?#\"']+@", rf"\1{MARK}@"),
    Shape(
        (
            "apikey",
            "_key",
            "-key",
            "token",
            "secret",
            "passw",
            "passphrase",
            "pwd",
            "authorization",
            "credential",
            "cookie",
        ),
        r"(?i)(api[_\-]?key|access[_\-]?key|private[_\-]?key|secret[_\-]?key|secret|token|passw(?:or)?d|passphrase|pwd"
        r"|authorization|credentials?|cookie)(\\?[\"']?\s*[=:]\s*\\?[\"']?)"
        r"(?!\[redacted\]|(?:bearer|basic)\b|true\b|false\b|null\b|none\b|\$)([^\s\"'\\,;&(){}\[\]<>]{6,})",
        rf"\1\2{MARK}",
    ),
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def without_shapes(text: str) -> str:
    """The text without anything that looks like a secret."""
    lowered = text.lower()
    for shape in (*_VALUE_SHAPES, *_CONTEXT_SHAPES):
        for hint in shape.hints:
            if hint in lowered:
                text = _compiled(shape.pattern).sub(shape.replacement, text)
                break
    return text


def looks_secret(text: str) -> bool:
    """Whether some part of the text has the form of a key or token."""
    lowered = text.lower()
    return any(
        any(hint in lowered for hint in shape.hints) and _compiled(shape.pattern).search(text)
        for shape in _VALUE_SHAPES
    )


_SECRET_ENDINGS = (
    "apikey", "accesskey", "secretkey", "privatekey", "authtoken", "token", "secret", "password", "passwd",
    "passphrase", "pwd", "authorization", "credential", "credentials", "cookie",
)  # fmt: skip


@lru_cache(maxsize=1024)
def secret_name(name: str) -> bool:
    """Whether a key of this name holds a secret: `api_key`, `X-Auth-Token`; not `api_key_env`, not `max_tokens`."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "").endswith(_SECRET_ENDINGS)


# ------------------------------------------------------------------ control characters

_HARMLESS = frozenset("\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
"""Spaces that Python does not call printable."""


def visible(text: str, *, keep_newlines: bool = True) -> str:
    r"""The text with every control, bidirectional, zero-width and unpaired character written as \u{..}."""
    if text.isprintable():
        return text
    if keep_newlines:
        text = text.replace("\r\n", "\n")
        if text.replace("\n", "").replace("\t", "").isprintable():
            return text
    kept = "\n\t" if keep_newlines else ""
    return "".join(
        char
        if char.isprintable() or char in kept or char in _HARMLESS or _is_unknown(char)
        else f"\\u{{{ord(char):x}}}"
        for char in text
    )


def _is_unknown(char: str) -> bool:
    """Private or not yet in Python's tables, such as new emoji: cannot steer a terminal."""
    import unicodedata

    return unicodedata.category(char) in ("Co", "Cn")


_ALPHABETS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN", "LISU"})
"""Whose letters can be taken for one another's."""
MOST_LOOKALIKES = 20


def lookalikes(text: str) -> list[str]:
    r"""Words that mix letters of several such alphabets, those that are not ASCII written as \u{..}."""
    if text.isascii():
        return []
    import unicodedata

    found: dict[str, None] = {}
    for word in re.findall(r"[\w.-]*[^\x00-\x7f][\w.-]*", text):
        alphabets = {unicodedata.name(char, "?").split()[0] for char in word if char.isalpha()}
        if len(alphabets & _ALPHABETS) > 1:
            found["".join(char if char.isascii() else f"\\u{{{ord(char):x}}}" for char in word)] = None
        if len(found) >= MOST_LOOKALIKES:
            break
    return list(found)
