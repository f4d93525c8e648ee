"""Escaped texts and addresses for pages: the only way into a page for what others wrote."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from adderclaw.core.redaction import visible

if TYPE_CHECKING:
    from markupsafe import Markup

SHOWN = 60_000
"""Characters of one text in a page. A longer text is cut, and the page says so."""
OUTSIDE = ("http", "https", "mailto")
"""Schemes of links that leave this server."""


def text(value: str) -> "Markup":
    """A text as a page shows it."""
    from markupsafe import escape

    left = len(value) - SHOWN
    return escape(visible(value if left <= 0 else f"{value[:SHOWN]}\n[… {left} characters left out …]"))


def whole(value: str) -> "Markup":
    """A text that a person decides about: complete, with every direction mark spelled out."""
    from markupsafe import escape

    return escape(visible(value, directions=False))


def exact(value: object) -> "Markup":
    """The unchanged value of an attribute or a textarea; only what UTF-8 cannot encode is replaced."""
    from markupsafe import escape

    return escape(str(value).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd"))


def is_address(value: str) -> bool:
    """Whether a link may have this address: a path of this server, or http, https and mailto."""
    if not value or not value.isprintable() or "\\" in value or value != value.strip():
        return False
    if value[0] in "/#?":
        return not value.startswith("//")
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return parts.scheme in OUTSIDE and bool(parts.netloc if parts.scheme != "mailto" else parts.path)


def address(value: str) -> "Markup":
    """The address of a link or form; ValueError if a page may not have it."""
    if not is_address(value):
        raise ValueError(f"{value[:80]!r} is not an address that a page may have")
    return exact(value)
