"""Removes secrets and escapes control characters in everything that is shown, logged or sent."""

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
"""Shorter values are not registered, because ordinary words would be masked."""
SPLIT = 16
"""Values of at least this length are also found across line breaks, such as those of `base64` and `fold`."""
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
"""Dummy keys for servers that need none. They are not secrets, and some are common words."""


class Secrets:
    """The exact values of loaded credentials, in every encoding in which they may appear."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()
        self._long: tuple[str, ...] = ()
        """Forms that are found even with whitespace between their characters."""
        self._cleaned: dict[str, str] = {}
        """Cache of cleaned short texts that occur often, such as names and reasons."""

    def add(self, value: str) -> None:
        """Register a value and its URL, JSON and base64 forms."""
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
        """A JSON value without any registered value, otherwise unchanged."""
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

    def redact(self, text: str) -> str:
        """The text without registered values and without anything that looks like a secret."""
        return mask_secret_shapes(self.scrub(text))

    def redact_all(self, value: Any) -> Any:
        """A JSON value with all its strings redacted like `redact`."""
        match value:
            case str():
                return self.redact(value)
            case dict():
                return {self.redact(str(key)): self._shown_entry(str(key), item) for key, item in _items(value)}
            case list() | tuple():
                return [self.redact_all(item) for item in cast(list[Any], value)]
            case _:
                return value

    def _shown_entry(self, key: str, value: Any) -> Any:
        return MARK if value and isinstance(value, str) and is_secret_name(key) else self.redact_all(value)

    def clean(self, value: Any) -> Any:
        """A JSON value without registered values, secret shapes and control characters."""
        return self._clean(value, 0)

    def _clean(self, value: Any, depth: int) -> Any:
        if value is None or type(value) in _PLAIN:  # fast path: most values of events
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
            return MARK if value and is_secret_name(key) else self._cleaned.get(value) or self._text(value)
        return self._clean(value, depth + 1)

    def _text(self, text: str) -> str:
        cleaned = visible(self.redact(text))
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
    """The part of a base64 text that depends only on `raw`, if `raw` starts `shift` bytes after a multiple of three."""
    text = b2a_base64(b"\0" * shift + raw, newline=False).decode()
    start = (0, 2, 3)[shift]
    cut = (0, 3, 2)[(shift + len(raw)) % 3]
    return text[start : len(text) - cut] if cut else text[start:]


# ------------------------------------------------------------------ shapes


class Shape(NamedTuple):
    """A form that only secrets have. The pattern is compiled and run only if one of its hints occurs."""

    hints: tuple[str, ...]
    """In lower case."""
    pattern: str
    replaced: Callable[[re.Match[str]], str] = lambda _match: MARK


def _mask_after_first(match: re.Match[str]) -> str:
    return f"{match[1]}{MARK}"


_REST_OF_LINE = r"(?:[^\n-]|-(?!----BEGIN ))"
"""A character of a line, up to the beginning of another key."""
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
        _mask_after_first,
    ),
    # without an END line: the rest of the line, the next line, and following lines that look like parts of a key
    Shape(
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?:(?:[^-]|-(?!----BEGIN ))*?-----END [A-Z0-9 ]*PRIVATE KEY-----"
        rf"|{_REST_OF_LINE}*+(?:\n{_REST_OF_LINE}++)?"
        rf"(?:\n(?:{_KEY_LINE}|[ \t\r]*(?=\n[A-Za-z0-9+/]{{16}})|[A-Za-z0-9+/=]+(?=\Z|\n-----BEGIN )))*)",
    ),
)


_WORD = r"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_'](?:[A-Z]?[a-z]+|[A-Z]+))*"
"""An ordinary word: no digits, and no capitals in the middle of a part."""
_ORDINARY = _words(
    "absent access allowed always another argument authentication authorization boolean bytes cannot change changed"
    " could credentials default denied deprecated disabled either empty enabled encrypted environment error"
    " example expected expired expires failed failure field found given header hidden include incorrect integer"
    " invalid length masked maximum minimum missing mismatch needed neither nothing number object omitted optional"
    " please redacted rejected removed required revoked same-origin should something string there undefined unknown"
    " unset unused unsupported username value wrong your"
)
"""Words that often follow a label such as "password:" and are not secrets."""
_CHOSEN = ("passw", "passp", "pwd", "secret")
"""Labels of secrets that people choose, which may be ordinary words."""
_CODE = r"(?:os|self|this|process|config|settings|env|args|options|params|request|req|ctx|cfg)\.[A-Za-z_.]+"


def _mask_labelled(match: re.Match[str]) -> str:
    """`label: value` or `label=value`: a secret, unless the value is a word of a sentence, a path or code."""
    label, between, value = match[1], match[2], match[3]
    masked = f"{label}{between}{MARK}"
    bare = value.rstrip(".!?:")
    if ":" in between and (value.lower() in _ORDINARY or bare.lower() in _ORDINARY):
        return match[0]
    if ":" in between and _names_error(match) and _is_prose(value):
        return match[0]
    if label.lower() == "pwd" and value.startswith(("/", "~/", "./")):
        return match[0]
    behind = match.string[match.end() : match.end() + 2]
    if _fully_matches(_CODE, value) or (behind[:1] in ("(", "[") and _fully_matches(r"[A-Za-z_][A-Za-z_.]*", value)):
        return match[0]
    if between != ": " or label.lower().startswith(_CHOSEN) or not _fully_matches(_WORD, bare):
        return masked
    nearest = max(0, match.start() - LOOK_BACK)
    before = match.string[max(nearest, match.string.rfind("\n", nearest, match.start()) + 1) : match.start()]
    sentence = _compiled(r"[A-Za-z]\s").search(before) or _compiled(r"\s[A-Za-z]").match(behind)
    return match[0] if sentence else masked


def _names_error(match: re.Match[str]) -> bool:
    """Whether the label is the end of our error code, which is followed by a message."""
    start = match.end(1) - len(MISSING_KEY)
    whole = match.string[max(0, start) : match.end(1)]
    before = match.string[start - 1 : start] if start > 0 else ""
    return whole == MISSING_KEY and not (before.isalnum() or before in ("_", "-"))


def _is_prose(value: str) -> bool:
    """Whether a value consists of ordinary words, without the digits, mixed case or long runs of a key."""
    parts = re.findall(r"[A-Za-z0-9]+", value)
    return all(_fully_matches(_WORD, part) and len(part) <= LONGEST_WORD for part in parts)


def _mask_scheme(match: re.Match[str]) -> str:
    """`Bearer …` is a credential, unless an ordinary word follows, as in "basic authentication"."""
    ahead = match.string[max(0, match.start() - 40) : match.start()].lower()
    if _fully_matches(_WORD, match[3]) and len(match[3]) <= LONGEST_WORD and "authorization" not in ahead:
        return match[0]
    return f"{match[1]}{match[2]}{MARK}"


def _mask_authority(match: re.Match[str]) -> str:
    """Masks the user part of an address. A plain account name is left, as in `ssh://git@example.org`.

    So is `USER`, the placeholder in our own messages.
    """
    return match[0] if _fully_matches(r"[a-z][a-z._-]{0,15}|USER", match[2]) else f"{match[1]}{MARK}@"


_LABELS = (
    r"api[_\-]?key|access[_\-]?key|private[_\-]?key|secret[_\-]?key|secret|token|passw(?:or)?d|passphrase|pwd"
    r"|authorization|credentials?|cookie"
)
_CONTEXT_SHAPES = (
    Shape(("bearer ", "basic "), r"(?i)\b(bearer|basic)(\s+)([A-Za-z0-9._~+/\-]{12,}=*)", _mask_scheme),
    Shape(("://",), r"(?i)\b([a-z][a-z0-9+.\-]*://)([^\s/@?#\"']+)@", _mask_authority),
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
        _mask_labelled,
    ),
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _fully_matches(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


def mask_secret_shapes(text: str) -> str:
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
"""Patterns for the end of a text that cannot be shown yet. The second pattern is matched backwards and bounds how much
of the text is searched, because otherwise every earlier label would be followed to the end."""
_MAY_BE_UNSETTLED = ("-", "bearer", "basic", "://", *_CONTEXT_SHAPES[-1].hints)


def settled_length(text: str) -> int:
    """How many characters of an incomplete text can be shown: no later text can make them part of a secret."""
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
        if (unsettled := _compiled(pattern).search(text, begin)) is not None:
            starts.append(unsettled.start())
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
def is_secret_name(name: str) -> bool:
    """Whether a key of this name contains a secret: `api_key`, `X-Auth-Token`; not `api_key_env`, not `max_tokens`."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "").endswith(_SECRET_ENDINGS)


# ------------------------------------------------------------------ terminal control characters

_HARMLESS = frozenset(
    "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Spaces and Arabic, Syriac and Kaithi signs that Python does not consider printable."""
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\U0001d159"
    "\ufff0\ufff1\ufff2\ufff3\ufff4\ufff5\ufff6\ufff7\ufff8"
)
"""Invisible letters, marks and signs, such as Hangul fillers and the blank Braille pattern."""
MOST_MARKS = 10
"""Combining marks per letter. No script needs more, and a stack of them covers the lines above."""
MOST_ISOLATES = 4
"""Maximum nesting depth of directional isolates."""
_OPENING, _CLOSING, _DIRECTION = "\u2066\u2067\u2068", "\u2069", "\u200e\u200f\u061c"
_JOINING = (
    *((0x600, 0x8FF), (0x900, 0xDFF), (0xE00, 0x109F), (0x1700, 0x18AF), (0x1900, 0x1CFF), (0xA800, 0xABFF)),
    *((0xFB50, 0xFDFF), (0xFE70, 0xFEFE), (0x10A00, 0x11FFF), (0x1E900, 0x1E95F)),
)
"""Scripts in which a joiner between two letters is spelling: Arabic, those of India, of South-East Asia, Mongolian …"""


def visible(text: str, *, keep_newlines: bool = True, directions: bool = True) -> str:
    r"""Escapes everything that controls a terminal or is invisible as \u{..}, and leaves ordinary text unchanged.

    Escaped are control characters, line separators, direction overrides and embeddings, invisible characters, tags and
    unpaired surrogates. Unchanged are joiners within emoji and words of scripts that need them, variation selectors,
    up to MOST_MARKS marks per letter, and balanced isolates and direction marks on lines written from right to left.
    With `directions=False` those are escaped too; this is used for everything that a person is asked to approve.
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
        return _escape_line(text, "", directions)
    return "\n".join(_escape_line(line, "\t", directions) for line in text.split("\n"))


def _escape_line(text: str, allowed: str, directions: bool) -> str:
    import unicodedata

    directed = directions and _is_directed(text)
    chars: list[str] = []
    marks = 0
    base = ""  # the last character that is not a mark
    for index, char in enumerate(text):
        if char < "\u0300":
            stays = char in allowed or char.isprintable() or char in _HARMLESS
            base, marks = char, 0
        elif (kind := unicodedata.category(char)) in ("Mn", "Me"):
            marks += 1
            stays = (
                marks <= MOST_MARKS
                and char not in _UNSEEN
                and not (_selects(char) and _selects(text[index - 1 : index]))
            )
        elif kind == "Cf":
            stays = _belongs(char, base, text[index - 1 : index], text[index + 1 : index + 2], directed)
        else:
            # Private or not yet in Python's tables, such as new emoji: cannot control a terminal.
            stays = kind in ("Co", "Cn") or char.isprintable() or char in _HARMLESS
            stays = stays and char not in _UNSEEN and not "\U000e0000" <= char <= "\U000e0fff"
            base, marks = char, 0
        if not stays:
            char, base = f"\\u{{{ord(char):x}}}", ""
        chars.append(char)
    return "".join(chars)


def _belongs(char: str, base: str, before: str, behind: str, directed: bool) -> bool:
    """Whether a format character is a legitimate part of the surrounding text."""
    if char == "\u200d" and _is_picture(base):
        return _is_picture(behind) and before != char
    if char in "\u200c\u200d":
        return _joins(base) and before not in ("\u200c", "\u200d")
    if char == "\u200b":  # between words of scripts that write no spaces
        return (
            all(neighbour and 0xE00 <= ord(neighbour) <= 0x17FF and _joins(neighbour) for neighbour in (base, behind))
            and before != char
        )
    if char in _OPENING or char in _CLOSING or char in _DIRECTION:
        return directed
    return char in _HARMLESS


def _joins(char: str) -> bool:
    return bool(char) and any(first <= ord(char) <= last for first, last in _JOINING)


def _is_picture(char: str) -> bool:
    """Whether it is an emoji or a sign that can become one; a joiner between two makes them a single picture."""
    return bool(char) and (char in "\u2640\u2642" or 0x2190 <= ord(char) <= 0x2BFF or 0x1F000 <= ord(char) <= 0x1FAFF)


def _selects(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def _is_directed(text: str) -> bool:
    """Whether a line contains right-to-left text and closes every isolate that it opens."""
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
"""Alphabets whose letters can be mistaken for one another."""
MOST_LOOKALIKES = 20


def lookalikes(text: str) -> list[str]:
    r"""Words that mix letters of several such alphabets, with non-ASCII letters written as \u{..}."""
    if text.isascii():
        return []
    import unicodedata

    words: dict[str, None] = {}
    for word in re.findall(r"[\w.-]*[^\x00-\x7f][\w.-]*", text):
        alphabets = {unicodedata.name(char, "?").split()[0] for char in word if char.isalpha()}
        if len(alphabets & _ALPHABETS) > 1:
            words["".join(char if char.isascii() else f"\\u{{{ord(char):x}}}" for char in word)] = None
        if len(words) >= MOST_LOOKALIKES:
            break
    return list(words)
