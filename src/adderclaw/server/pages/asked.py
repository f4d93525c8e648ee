"""What the address of a page asks for: short words, and only such as the page knows."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from adderclaw.agent.view.html import Child, Html, el
from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import AdderClawError
from adderclaw.server.client_scope import options as options_of
from adderclaw.server.endpoint import Called
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import empty, field, link
from adderclaw.server.refusal import refused

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

LONGEST = 400
"""Characters of one word of an address."""


def word(called: Called, name: str) -> str:
    """What was given under a name, trimmed; empty where nothing was."""
    return str(called.request.query_params.get(name, "")).strip()[:LONGEST]


def one_of(called: Called, name: str, known: Sequence[str], default: str = "") -> str:
    """One of those that are known; anything else is as if nothing was given."""
    given = word(called, name)
    return given if given in known else default


def number(called: Called, name: str) -> int | None:
    given = word(called, name)
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else None


async def found[T](look: Callable[[], T]) -> T:
    """What waits for files and the database is asked in a thread."""
    return await asyncio.to_thread(look)


def here_options(called: Called) -> Options:
    """Of the folder that the address names, or the first that the client may open."""
    return options_of(called, word(called, "workspace") or None)


def folders(called: Called) -> list[str]:
    return [one for one in called.house.workspaces if called.client.sees(one)]


def folder_field(called: Called) -> Html | None:
    """Which folder, where this server offers several."""
    offered = folders(called)
    if len(offered) < 2:
        return None
    chosen = select("f-workspace", "workspace", word(called, "workspace"), [(one, one) for one in offered])
    return field("Folder", chosen, id="f-workspace")


def tilde(path: str) -> str:
    """A path as people write it: `~` for the home of whoever runs the server."""
    own = os.path.expanduser("~").rstrip("/")
    return f"~{path[len(own) :]}" if own and (path == own or path.startswith(f"{own}/")) else path


def missing(called: Called, title: str, why: str, here: str, *, status: int = 404) -> "HTMLResponse":
    """A page that says what is not there, and where to go on."""
    return layout(called, title, empty(why, el("div", link("Back", here), class_="row")), here=here, status=status)


def failed(called: Called, title: str, error: AdderClawError, here: str) -> "HTMLResponse":
    return missing(called, title, str(error), here, status=refused(error).status)


def select(id: str, name: str, chosen: str, options: Sequence[tuple[str, str]]) -> Html:
    """`options`: value and words."""
    made = [el("option", words, value=value, selected=value == chosen) for value, words in options]
    return el("select", made, id=id, name=name)


def filters(action: str, fills: str, *fields: Child) -> Html:
    """A form whose answer replaces one part of the page; without the script it is an ordinary form."""
    told = el("p", class_="error", role="alert", data_error=True)
    return el(
        "form",
        fields,
        el("div", el("button", "Show", type="submit"), class_="field last"),
        told,
        method="get",
        action=action,
        data_fill=fills,
        class_="filters",
    )
