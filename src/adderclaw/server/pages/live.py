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
    """Append plain text to the element of an arriving answer."""
    return _event("text", {"id": id, "text": more, "into": into}, at)


def reset(at: str = "") -> "ServerSentEvent":
    """Tell the page that events were lost, so that it reads its regions again."""
    return _event("reset", {}, at)


def end_of_changes() -> "ServerSentEvent":
    """Tell the page that nothing will change any more."""
    return _event("over", {}, "")


def _event(kind: str, data: dict[str, object], at: str) -> "ServerSentEvent":
    from sse_starlette import ServerSentEvent

    return ServerSentEvent(compact(data), event=kind, id=at or None, sep="\n")
