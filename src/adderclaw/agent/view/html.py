"""HTML by construction: text is always escaped and made visible, and no string of anybody becomes markup."""

from collections.abc import Iterable
from html import escape
from urllib.parse import urlsplit

from adderclaw.core.redaction import visible

type Child = "Html | str | int | float | Iterable[Child] | None"
type Value = str | int | float | bool | None

SHOWN = 60_000
"""Characters of one text in a page; what is longer is cut, and the page says so."""
OUTSIDE = ("http", "https", "mailto")
"""Where a link may lead outside of this server. Nothing else is ever an address."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TAGS = _names(
    "a abbr article aside b blockquote br button caption code col colgroup datalist dd del details dialog div dl dt em "
    "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr i img input ins kbd label legend li main mark "
    "meter nav ol optgroup option output p pre progress s samp section select small span strong sub summary sup table "
    "tbody td textarea tfoot th thead time title tr u ul var "
    "svg g path rect line circle polyline polygon text tspan defs clipPath"
)
"""What a page is made of: nothing that loads, frames, embeds or runs anything."""
EMPTY = frozenset({"br", "col", "hr", "img", "input"})
ATTRIBUTES = _names(
    "accept action alt autocapitalize autocomplete autofocus checked class cols colspan content datetime dir disabled "
    "download for form formaction height hidden href id inputmode lang list max maxlength method min minlength "
    "multiple name novalidate open pattern placeholder readonly rel required role rows rowspan scope selected size "
    "span spellcheck src start step tabindex target title type value width wrap "
    "d cx cy r rx ry x x1 x2 y y1 y2 dx dy points fill stroke viewBox transform preserveAspectRatio opacity "
    "stroke-width stroke-dasharray stroke-linecap stroke-linejoin text-anchor dominant-baseline focusable"
)
"""Beside these `aria-…` and `data-…`; no handler, and no style: the policy of the page forbids both."""
ADDRESSES = frozenset({"href", "src", "action", "formaction"})
READ = frozenset({"alt", "title", "placeholder", "label"})
"""Attributes that a person reads."""

_KEY = object()


class Html:
    """Markup that this module made; nothing else can make one."""

    __slots__ = ("_made",)

    def __init__(self, made: str, key: object) -> None:
        if key is not _KEY:
            raise TypeError("markup is made by `el`, `many` and `picture` alone")
        self._made = made

    def __str__(self) -> str:
        return self._made


def el(tag: str, *children: Child, **attributes: Value) -> Html:
    """One element: `el("a", words, href="/ui/runs", class_="quiet", aria_current="page")`.

    `_` at the end of a name is dropped, elsewhere it is a hyphen. None and False leave an attribute out.
    """
    if tag not in TAGS:
        raise ValueError(f"{tag!r} is no element of a page; view/html.py lists them")
    made = "".join(_attribute(name, value) for name, value in attributes.items() if value is not None)
    if tag in EMPTY:
        return Html(f"<{tag}{made}>", _KEY)
    if tag == "textarea":  # what a person edits stays as it is; the first line break would be dropped
        return Html(f"<textarea{made}>\n{_exact(''.join(map(str, children)))}</textarea>", _KEY)
    inner: list[str] = []
    _add(inner, children)
    return Html(f"<{tag}{made}>{''.join(inner)}</{tag}>", _KEY)


def many(*children: Child) -> Html:
    """One after the other, in nothing."""
    inner: list[str] = []
    _add(inner, children)
    return Html("".join(inner), _KEY)


def whole(text: str) -> Html:
    """A text that a person decides about: all of it, and no mark of direction stays a mark."""
    return Html(escape(visible(text, directions=False)), _KEY)


def picture(title: str, media_type: str, data: bytes) -> Html:
    """A picture that stands in the page itself; the media type is checked by the caller's list."""
    import base64

    if media_type not in PICTURES:
        raise ValueError(f"{media_type!r} is no picture that a page shows")
    coded = base64.b64encode(data).decode("ascii")
    return Html(f'<img alt="{_read(title)}" src="data:{media_type};base64,{coded}">', _KEY)


PICTURES = {"image/png", "image/jpeg", "image/webp", "image/gif"}
"""Shown; no other kind is (an SVG is a program)."""


def document(head: Html, body: Html, *, theme: str = "") -> str:
    """A whole page. `head` is made by `head_of` or `alone`."""
    chosen = f' data-theme="{theme}"' if theme in ("light", "dark") else ""
    return f'<!doctype html>\n<html lang="en"{chosen}>\n<head>\n{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


_META = (
    '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="same-origin">\n'
)


def head_of(title: str, *, style: str, script: str, icon: str) -> Html:
    """The head of a page of the server, with the addresses of its own files."""
    for address in (style, script, icon):
        if not is_address(address) or not address.startswith("/"):
            raise ValueError(f"{address!r} is no file of this server")
    return Html(
        f"{_META}<title>{_read(title)}</title>\n"
        f'<link rel="stylesheet" href="{escape(style)}">\n'
        f'<link rel="icon" href="{escape(icon)}" type="image/svg+xml">\n'
        f'<script src="{escape(script)}" defer></script>\n',
        _KEY,
    )


def alone(title: str, style: str) -> Html:
    """The head of a page that stands alone: it loads nothing, runs nothing and reaches nobody.

    `style` is a file of ours; the policy lets exactly that text be the style of the page.
    """
    import base64
    import hashlib

    if "</" in style:
        raise ValueError("a stylesheet has no tags")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    return Html(
        f'{_META}<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{_read(title)}</title>\n<style>{style}</style>\n",
        _KEY,
    )


def is_address(text: str) -> bool:
    """Whether a link may have it: a path of this server, a place in the page, or http, https, mailto."""
    if not text or not text.isprintable() or "\\" in text or text != text.strip():
        return False
    if text[0] in "/#?":
        return not text.startswith("//")
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in OUTSIDE and bool(parts.netloc if parts.scheme != "mailto" else parts.path)


def _add(inner: list[str], children: Iterable[Child]) -> None:
    for child in children:
        if isinstance(child, str):
            inner.append(_shown(child))
        elif isinstance(child, Html):
            inner.append(str(child))
        elif isinstance(child, int | float):
            inner.append(escape(str(child)))
        elif child is not None:
            _add(inner, child)


def _shown(text: str) -> str:
    left = len(text) - SHOWN
    text = text if left <= 0 else f"{text[:SHOWN]}\n[… {left} characters left out …]"
    return escape(visible(text))


def _attribute(given: str, value: Value) -> str:
    name = given if given in ATTRIBUTES else given.removesuffix("_").replace("_", "-")
    if name not in ATTRIBUTES and not name.startswith(("aria-", "data-")):
        raise ValueError(f"{name!r} is no attribute of a page; view/html.py lists them")
    if value is False and not name.startswith("aria-"):
        return ""
    if value is True and not name.startswith("aria-"):
        return f" {name}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if name in ADDRESSES and not is_address(text):
        raise ValueError(f"{text[:80]!r} is no address that a page may have")
    return f' {name}="{_read(text) if name in READ or name == "aria-label" else _exact(text)}"'


def _read(text: str) -> str:
    return escape(visible(text[:2_000], keep_newlines=False))


def _exact(text: str) -> str:
    """As it is, for what a program reads or a person edits; what UTF-8 cannot say is replaced."""
    return escape(text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd"))
