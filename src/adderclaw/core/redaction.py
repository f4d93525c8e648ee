"""Keeps secrets and control characters out of whatever is shown, logged or leaves."""

import json
import re
from binascii import b2a_base64
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, cast

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import MISSING_KEY

MARK = "[redacted]"
MINIMUM = 6
"""Shorter values would turn ordinary words into marks."""
SPLIT = 16
"""Characters from which on a value is found across line ends, too, as `base64` and `fold` put them in."""
DEPTH = 64
_PLAIN = frozenset({bool, int, float})
REMEMBERED = 80
LONGEST_WORD = 20
LOOK_BACK = 400
"""Characters of a line before a word that may decide whether the word is a secret."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PLACEHOLDERS = _words(
    "anything dummy-key example lm-studio lmstudio local-key no-key no-key-required none-needed not-needed not-used"
    " ollama placeholder unused your-api-key"
)
"""What people give as a key where none is needed: no secrets, and some of them names that every text has."""


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
        if len(value) >= MINIMUM and value.lower() not in PLACEHOLDERS:
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

    def shown(self, text: str) -> str:
        """The text as it is shown or leaves: without registered values and secret shapes."""
        return without_shapes(self.scrub(text))

    def shown_all(self, value: Any) -> Any:
        """A JSON value as it leaves, all its strings so."""
        match value:
            case str():
                return self.shown(value)
            case dict():
                return {self.shown(str(key)): self._shown_entry(str(key), item) for key, item in _items(value)}
            case list() | tuple():
                return [self.shown_all(item) for item in cast(list[Any], value)]
            case _:
                return value

    def _shown_entry(self, key: str, value: Any) -> Any:
        return MARK if value and isinstance(value, str) and secret_name(key) else self.shown_all(value)

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
        cleaned = visible(self.shown(text))
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
    replaced: Callable[[re.Match[str]], str] = lambda _match: MARK


def _after_first(match: re.Match[str]) -> str:
    return f"{match[1]}{MARK}"


_REST_OF_LINE = r"(?:[^\n-]|-(?!----BEGIN ))"
"""A character of a line, up to where another key begins in it."""
_KEY_LINE = rf"(?={_REST_OF_LINE}*?[A-Za-z0-9+/]{{16}}){_REST_OF_LINE}*+"

_VALUE_SHAPES = (
    # words with hyphens have short parts: "sk-learn-contrib-2"
    Shape(
        ("sk-", "rk-", "pk-"),
        r"\b[srp]k-(?=[A-Za-z_\-]{0,256}+\d)(?=[A-Za-z0-9_\-]{40}|[A-Za-z0-9_\-]*?[A-Za-z0-9]{12})[A-Za-z0-9_\-]{16,}",
    ),
    Shape(("sk_live", "sk_test", "rk_live", "whsec_"), r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{12,}"),
    Shape(("gh", "github_pat_"), r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    Shape(("glpat-",), r"\bglpat-[A-Za-z0-9_\-]{16,}"),
    Shape(("xox", "xapp-"), r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9\-]{10,}"),
    Shape(("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    Shape(("aiza",), r"\bAIza[A-Za-z0-9_\-]{30,}"),
    Shape(("ya29.",), r"\bya29\.[A-Za-z0-9_\-]{20,}"),
    Shape(("hf_", "npm_", "pypi-"), r"\b(?:hf_|npm_|pypi-)[A-Za-z0-9_\-]{20,}"),
    # the first lookahead reads each run of letters once, however often "eyJ" occurs in it
    Shape(
        ("eyj",),
        r"(?<![A-Za-z0-9_\-])(?=[A-Za-z0-9_\-]{11,}+\.[A-Za-z0-9_\-]{8})"
        r"([A-Za-z0-9_\-]*?)\beyJ[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]*",
        _after_first,
    ),
    # without an end: the rest of the line, the next one, and those below that look like parts of a key
    Shape(
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?:(?:[^-]|-(?!----BEGIN ))*?-----END [A-Z0-9 ]*PRIVATE KEY-----"
        rf"|{_REST_OF_LINE}*+(?:\n{_REST_OF_LINE}++)?"
        rf"(?:\n(?:{_KEY_LINE}|[ \t\r]*(?=\n[A-Za-z0-9+/]{{16}})|[A-Za-z0-9+/=]+(?=\Z|\n-----BEGIN )))*)",
    ),
)


_WORD = r"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_'](?:[A-Z]?[a-z]+|[A-Z]+))*"
"""As people and programs write words: no digit in it, no capital in the middle of a part."""
_ORDINARY = _words(
    "absent access allowed always another argument authentication authorization boolean bytes cannot change changed"
    " could credentials default denied deprecated disabled either empty enabled encrypted environment error"
    " example expected expired expires failed failure field found given header hidden include incorrect integer"
    " invalid length masked maximum minimum missing mismatch needed neither nothing number object omitted optional"
    " please redacted rejected removed required revoked same-origin should something string there undefined unknown"
    " unset unused unsupported username value wrong your"
)
"""What is said of a password or a token in its own place."""
_CHOSEN = ("passw", "passp", "pwd", "secret")
"""What people choose themselves: it may well be a word."""
_CODE = r"(?:os|self|this|process|config|settings|env|args|options|params|request|req|ctx|cfg)\.[A-Za-z_.]+"


def _labelled(match: re.Match[str]) -> str:
    """`label: value` or `label=value`: a secret, unless the value is a word of a sentence, a path or code."""
    label, between, value = match[1], match[2], match[3]
    kept = f"{label}{between}{MARK}"
    bare = value.rstrip(".!?:")
    if ":" in between and (value.lower() in _ORDINARY or bare.lower() in _ORDINARY):
        return match[0]
    if ":" in between and _names_error(match) and _is_prose(value):
        return match[0]
    if label.lower() == "pwd" and value.startswith(("/", "~/", "./")):
        return match[0]
    behind = match.string[match.end() : match.end() + 2]
    if _is(_CODE, value) or (behind[:1] in ("(", "[") and _is(r"[A-Za-z_][A-Za-z_.]*", value)):
        return match[0]
    if between != ": " or label.lower().startswith(_CHOSEN) or not _is(_WORD, bare):
        return kept
    nearest = max(0, match.start() - LOOK_BACK)
    before = match.string[max(nearest, match.string.rfind("\n", nearest, match.start()) + 1) : match.start()]
    sentence = _compiled(r"[A-Za-z]\s").search(before) or _compiled(r"\s[A-Za-z]").match(behind)
    return match[0] if sentence else kept


def _names_error(match: re.Match[str]) -> bool:
    """Whether the label is the end of the code of an error, after which comes a sentence of ours."""
    start = match.end(1) - len(MISSING_KEY)
    whole = match.string[max(0, start) : match.end(1)]
    before = match.string[start - 1 : start] if start > 0 else ""
    return whole == MISSING_KEY and not (before.isalnum() or before in ("_", "-"))


def _is_prose(value: str) -> bool:
    """Whether a value is made of words and of nothing that a key is made of: digits, mixed case, long runs."""
    parts = re.findall(r"[A-Za-z0-9]+", value)
    return all(_is(_WORD, part) and len(part) <= LONGEST_WORD for part in parts)


def _scheme(match: re.Match[str]) -> str:
    """`Bearer …`: a credential, unless it goes on with a word, as "basic authentication" does."""
    ahead = match.string[max(0, match.start() - 40) : match.start()].lower()
    if _is(_WORD, match[3]) and len(match[3]) <= LONGEST_WORD and "authorization" not in ahead:
        return match[0]
    return f"{match[1]}{match[2]}{MARK}"


def _authority(match: re.Match[str]) -> str:
    """Who logs in at an address: the name of an account alone stays, as in `ssh://git@example.org`.

    So does `USER`, which our own messages show in its place.
    """
    return match[0] if _is(r"[a-z][a-z._-]{0,15}|USER", match[2]) else f"{match[1]}{MARK}@"


_LABELS = (
    r"api[_\-]?key|access[_\-]?key|private[_\-]?key|secret[_\-]?key|secret|token|passw(?:or)?d|passphrase|pwd"
    r"|authorization|credentials?|cookie"
)
_CONTEXT_SHAPES = (
    Shape(("bearer ", "basic "), r"(?i)\b(bearer|basic)(\s+)([A-Za-z0-9._~+/\-]{12,}=*)", _scheme),
    Shape(("://",), r"(?i)\b([a-z][a-z0-9+.\-]*://)([^\s/@?#\"']+)@", _authority),
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
        rf"(?i)({_LABELS})(\\?[\"']?\s*[=:]\s*\\?[\"']?)"
        r"(?!\[redacted\]|(?:bearer|basic)\b|true\b|false\b|null\b|none\b|\$)([^\s\"'\\,;&(){}\[\]<>]{6,})",
        _labelled,
    ),
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


def without_shapes(text: str) -> str:
    """The text without anything that looks like a secret."""
    lowered = text.lower()
    for shape in (*_VALUE_SHAPES, *_CONTEXT_SHAPES):
        for hint in shape.hints:
            if hint in lowered:
                text = _compiled(shape.pattern).sub(shape.replaced, text)
                break
    return text


_BEGIN_KEY, _END_KEY = (rf"-----{word} [A-Z0-9 ]*PRIVATE KEY-----" for word in ("BEGIN", "END"))
_VALUE, _BEARER_VALUE = r"[^\s\"'\\,;&(){}\[\]<>]", r"[A-Za-z0-9._~+/\-]"
_UNSETTLED = (
    (r"(?<!-)-+\Z|-----B[A-Z0-9 ]*-*\Z|://[^\s/@?#\"']*\Z", r""),
    (
        rf"(?i:{_LABELS})\\?[\"']?\s*(?:[=:]\s*\\?[\"']?(?:{_VALUE}+\s?)?)?\Z",
        rf"\s?{_VALUE}*[\"']?\\?\s*[=:]?\s*[\"']?\\?.{{0,16}}",
    ),
    (rf"(?i:\b(?:bearer|basic)\s*{_BEARER_VALUE}*=*\Z)", rf"=*{_BEARER_VALUE}*\s*.{{0,6}}"),
)
"""What may not be shown yet at the end of a text; and, if it may be long, a bound that is matched backwards: only
that much of the text is searched, since each of many labels before it would be followed to the end."""
_MAY_BE_UNSETTLED = ("-", "bearer", "basic", "://", *_CONTEXT_SHAPES[-1].hints)


def settled(text: str) -> int:
    """How much of a text that goes on can be shown: no shape begins in it that what comes could complete or clear."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _MAY_BE_UNSETTLED):
        return len(text)
    starts = [len(text)]
    if "-----BEGIN " in text:
        closed = max((match.start() for match in _compiled(_END_KEY).finditer(text)), default=0)
        starts += [match.start() for match in _compiled(_BEGIN_KEY).finditer(text) if match.end() > closed][:1]
    backwards = text[::-1]
    for pattern, reach in _UNSETTLED:
        longest = _compiled(reach).match(backwards) if reach else None
        begin = len(text) - longest.end() if longest is not None else 0
        if (found := _compiled(pattern).search(text, begin)) is not None:
            starts.append(found.start())
    return min(starts)


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


# ------------------------------------------------------------------ what steers a terminal

_HARMLESS = frozenset(
    "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Spaces, and signs of Arabic, Syriac and Kaithi, that Python does not call printable."""
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\U0001d159"
    "\ufff0\ufff1\ufff2\ufff3\ufff4\ufff5\ufff6\ufff7\ufff8"
)
"""Letters, marks and signs that draw nothing: fillers of Hangul, the empty pattern of Braille, and the like."""
MOST_MARKS = 10
"""Of the marks that stand on one letter: no script has more, and a tower of them covers the lines above it."""
MOST_ISOLATES = 4
"""How deeply isolates may be nested."""
_OPENING, _CLOSING, _DIRECTION = "\u2066\u2067\u2068", "\u2069", "\u200e\u200f\u061c"
_JOINING = (
    *((0x600, 0x8FF), (0x900, 0xDFF), (0xE00, 0x109F), (0x1700, 0x18AF), (0x1900, 0x1CFF), (0xA800, 0xABFF)),
    *((0xFB50, 0xFDFF), (0xFE70, 0xFEFE), (0x10A00, 0x11FFF), (0x1E900, 0x1E95F)),
)
"""Scripts in which a joiner between two letters is spelling: Arabic, those of India, of South-East Asia, Mongolian …"""


def visible(text: str, *, keep_newlines: bool = True, directions: bool = True) -> str:
    r"""The text with all that steers a terminal or hides in a text written as \u{..}; what people write stays.

    Escaped are control characters, line separators, what overrides or embeds a direction, invisible characters, tags,
    unpaired surrogates. A joiner stays within an emoji or a word of a script that needs it; a variation selector on
    its character; MOST_MARKS marks on a letter; isolates and marks of direction on a line that is written from right to
    left, where all that are opened are closed. Without `directions` they do not: so is shown what is to be approved.
    """
    if text.isascii():
        if text.isprintable():
            return text
        if keep_newlines:
            text = text.replace("\r\n", "\n")
            if text.replace("\n", "").replace("\t", "").isprintable():
                return text
    elif keep_newlines:
        text = text.replace("\r\n", "\n")
    if not keep_newlines:
        return _line(text, "", directions)
    return "\n".join(_line(line, "\t", directions) for line in text.split("\n"))


def _line(text: str, kept: str, directions: bool) -> str:
    import unicodedata

    directed = directions and _is_directed(text)
    made: list[str] = []
    marks = 0
    base = ""  # the last character that stands by itself
    for place, char in enumerate(text):
        if char < "\u0300":
            stays = char in kept or char.isprintable() or char in _HARMLESS
            base, marks = char, 0
        elif (kind := unicodedata.category(char)) in ("Mn", "Me"):
            marks += 1
            stays = (
                marks <= MOST_MARKS
                and char not in _UNSEEN
                and not (_selects(char) and _selects(text[place - 1 : place]))
            )
        elif kind == "Cf":
            stays = _belongs(char, base, text[place - 1 : place], text[place + 1 : place + 2], directed)
        else:
            # Private or not yet in Python's tables, such as new emoji: cannot steer a terminal.
            stays = kind in ("Co", "Cn") or char.isprintable() or char in _HARMLESS
            stays = stays and char not in _UNSEEN and not "\U000e0000" <= char <= "\U000e0fff"
            base, marks = char, 0
        if not stays:
            char, base = f"\\u{{{ord(char):x}}}", ""
        made.append(char)
    return "".join(made)


def _belongs(char: str, base: str, before: str, behind: str, directed: bool) -> bool:
    """Whether a format character is part of what is written around it."""
    if char == "\u200d" and _is_picture(base):
        return _is_picture(behind) and before != char
    if char in "\u200c\u200d":
        return _joins(base) and before not in ("\u200c", "\u200d")
    if char == "\u200b":  # between words of scripts that write no spaces
        return all(one and 0xE00 <= ord(one) <= 0x17FF and _joins(one) for one in (base, behind)) and before != char
    if char in _OPENING or char in _CLOSING or char in _DIRECTION:
        return directed
    return char in _HARMLESS


def _joins(char: str) -> bool:
    return bool(char) and any(first <= ord(char) <= last for first, last in _JOINING)


def _is_picture(char: str) -> bool:
    """Emoji and the signs that become such: the joiner between them makes one picture of two."""
    return bool(char) and (char in "\u2640\u2642" or 0x2190 <= ord(char) <= 0x2BFF or 0x1F000 <= ord(char) <= 0x1FAFF)


def _selects(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def _is_directed(text: str) -> bool:
    """Whether a line is written from right to left, in part, and closes every isolate that it opens."""
    import unicodedata

    if not any(char in text for char in (*_OPENING, *_CLOSING, *_DIRECTION)):
        return False
    depth = 0
    for char in text:
        depth += (char in _OPENING) - (char in _CLOSING)
        if not 0 <= depth <= MOST_ISOLATES:
            return False
    return depth == 0 and any(unicodedata.bidirectional(char) in ("R", "AL") for char in text if char not in _DIRECTION)


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
