"""What changes a page that is open: elements drawn anew, text that arrives, and the word to read it all anew."""

from typing import TYPE_CHECKING

from adderclaw.agent.view.html import Html
from adderclaw.storage.text import compact

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent


def put(id: str, made: Html | None, into: str = "", *, at: str = "") -> "ServerSentEvent":
    """The element with this id as it is now, or at the end of `into`; None: it is gone.

    `at`: by which who comes back says what was seen last.
    """
    html = str(made) if made is not None else ""
    return _event("put", {"id": id, "html": html, "into": into}, at)


def text(id: str, more: str, into: str, *, at: str = "") -> "ServerSentEvent":
    """More of a text that arrives, as text."""
    return _event("text", {"id": id, "text": more, "into": into}, at)


def reset(at: str = "") -> "ServerSentEvent":
    """Something was lost: the page reads its regions anew."""
    return _event("reset", {}, at)


def over() -> "ServerSentEvent":
    """Nothing more will change."""
    return _event("over", {}, "")


def _event(kind: str, data: dict[str, object], at: str) -> "ServerSentEvent":
    from sse_starlette import ServerSentEvent

    return ServerSentEvent(compact(data), event=kind, id=at or None, sep="\n")
