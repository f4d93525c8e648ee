"""Events that change an open page: replaced elements, arriving text, and the request to read the page again."""

from typing import TYPE_CHECKING

from adderclaw.storage.text import compact

if TYPE_CHECKING:
    from markupsafe import Markup
    from sse_starlette import ServerSentEvent


def put(id: str, html: "Markup | None", into: str = "", *, at: str = "") -> "ServerSentEvent":
    """Replace the element with this id, or append it to `into`; None removes it.

    `at` is what a client that connects again names as the last event it saw.
    """
    return _event("put", {"id": id, "html": str(html or ""), "into": into}, at)


def text(id: str, more: str, into: str, *, at: str = "") -> "ServerSentEvent":
    """More of a text that arrives, as text."""
    return _event("text", {"id": id, "text": more, "into": into}, at)


def reset(at: str = "") -> "ServerSentEvent":
    """Events were lost: the page reads its regions again."""
    return _event("reset", {}, at)


def end_of_changes() -> "ServerSentEvent":
    """Nothing will change any more."""
    return _event("over", {}, "")


def _event(kind: str, data: dict[str, object], at: str) -> "ServerSentEvent":
    from sse_starlette import ServerSentEvent

    return ServerSentEvent(compact(data), event=kind, id=at or None, sep="\n")
