"""HTML from Jinja2 templates: every text is escaped and its hidden characters are made visible.

A template prints text, numbers and `Markup`; anything else is an error. Only the functions of this package that escape
their input return `Markup`. Jinja2 is imported when the first page or report is rendered.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from adderclaw.agent.view.escaping import address, exact, text, whole
from adderclaw.core.redaction import Secrets, visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

FOLDED = 12
"""Lines of a text that is shown unfolded."""
PICTURES = {"image/png", "image/jpeg", "image/webp", "image/gif"}
"""Pictures that a page shows; an SVG is a program."""
_PACKAGES = ["adderclaw.agent.view"]
"""Packages with a folder `templates`."""


def add_templates(package: str) -> None:
    """Use the templates of this package, too."""
    if package not in _PACKAGES:
        _PACKAGES.append(package)


def render(template: str, /, **values: object) -> str:
    """One page."""
    return _environment(len(_PACKAGES)).get_template(template).render(values)


def block(template: str, name: str, /, **values: object) -> "Markup":
    """One block of a page, for the stream that updates the page while it is open."""
    from markupsafe import Markup

    page = _environment(len(_PACKAGES)).get_template(template)
    return Markup("").join(map(Markup, page.blocks[name](page.new_context(values))))


def macro(library: str, name: str, /, *values: object) -> "Markup":
    """The result of one macro of a library: `ui`, `items`, `plots`, or `parts` of the server."""
    markup: Markup = getattr(_environment(len(_PACKAGES)).globals[library], name)(*values)
    return markup


def element_id(key: str, kind: str = "i") -> str:
    """The id of an element. The key may come from a model, so the id contains only its hash."""
    return f"{kind}-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:20]}"


def picture(data: bytes, media_type: str) -> "Markup":
    """The address of a picture that is part of the page."""
    if media_type not in PICTURES:
        raise ValueError(f"{media_type!r} is not a picture that a page shows")
    return exact(f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}")


def folds(value: str) -> str:
    """How long a text is, in words, if it is too long to be shown unfolded."""
    lines = value.count("\n") + 1
    if lines <= FOLDED and len(value) < 1_500:
        return ""
    return f" ({lines:,} lines)" if lines > 1 else f" ({len(value):,} characters)"


def _finalize(value: object) -> object:
    """Called with every value that a template prints, before it is escaped."""
    from jinja2 import Undefined

    if isinstance(value, str) and not hasattr(value, "__html__"):
        return text(value)
    if value is None:
        return ""
    if isinstance(value, int | float | Undefined) or hasattr(value, "__html__"):
        return value
    raise TypeError(f"a template prints text, numbers and markup, not {type(value).__name__}")


def _is_blank(value: str) -> bool:
    return not visible(value).strip()


def _kind(value: object) -> str:
    return type(value).__name__


def _quoted(value: str) -> str:
    """One part of the path of an address."""
    return quote(value.encode("utf-8", "replace"), safe="")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _source(name: str) -> str | None:
    for package in _PACKAGES:
        file = resources.files(package).joinpath("templates", name)
        if file.is_file():
            return file.read_text("utf-8")
    return None


def style() -> str:
    """The stylesheet of items and reports."""
    return resources.files(__package__ or "").joinpath("style.css").read_text("utf-8")


@cache
def _environment(packages: int) -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    from adderclaw.agent.view import html_code, html_markdown, numbers

    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters: dict[str, Callable[..., Any]] = {
        "address": address,
        "clean": Secrets().clean,
        "code": html_code.code,
        "day": moment,
        "duration": numbers.duration,
        "element_id": element_id,
        "exact": exact,
        "folds": folds,
        "is_blank": _is_blank,
        "iso": iso_seconds,
        "kind": _kind,
        "markdown": html_markdown.markdown,
        "picture": picture,
        "quoted": _quoted,
        "json": _json,
        "short": numbers.short,
        "whole": whole,
    }
    environment.filters.update(filters)
    shared: dict[str, Any] = environment.globals  # pyright: ignore[reportAssignmentType] - typed after its defaults
    shared["PICTURES"] = PICTURES
    for library in ("ui", "items", "plots", "parts")[: packages + 2]:
        shared[library] = environment.get_template(f"{library}.html").module
    return environment


# ------------------------------------------------------------------ times

UNITS = ((60, 1, "second"), (3600, 60, "minute"), (86_400, 3600, "hour"), (864_000, 86_400, "day"))


def moment(seconds: float | None) -> "Markup | str":
    """A time element, to which the page's script adds the local time; empty if the time is unknown."""
    from markupsafe import Markup

    if seconds is None:
        return ""
    at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" data-when>{}</time>').format(at, ago(seconds))


def ago(seconds: float, now: float | None = None) -> str:
    past = (time.time() if now is None else now) - seconds
    for limit, size, unit in UNITS:
        if past < limit:
            count = max(int(past // size), 0)
            return "now" if unit == "second" and count < 5 else f"{count} {unit}{'' if count == 1 else 's'} ago"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def iso_seconds(text: str | None) -> float | None:
    """Seconds since 1970 of a time as rows and receipts store it, in UTC; None if the text is not a time."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
