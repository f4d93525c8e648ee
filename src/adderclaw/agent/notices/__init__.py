"""Notices to the operator: written down with what they report, then delivered beside the work, at least once.

`send` writes one down for each target that wants it. A courier delivers: the server's, that of a run, or `flush` where
a command ends right after. Nothing of this is imported where no target is configured.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from sqlite3 import Cursor

    from adderclaw.config.schema.settings import NoticeKind, Notices
    from adderclaw.storage import Store

type Clean = Callable[[Any], Any]
"""Takes secrets and control characters out of a text."""


class Notice(NamedTuple):
    """What the operator is to know. Only a question is about something that may be settled before it is sent."""

    kind: "NoticeKind | Literal['test']"
    title: str
    """One line: what happened, and where."""
    text: str
    """A few lines: what a person would want to know, and the command that goes on from here."""
    about: str = ""
    """The question's id, or what else it is about: the same is sent once."""
    workspace: str = ""
    """The folder; only its name leaves."""
    run_id: str = ""
    conversation_id: str = ""
    facts: Json = {}  # noqa: RUF012 - of a named tuple: never changed
    """For programs that read it: outcome, reason, cost_usd, seconds, tool, risk, approval_id, schedule …"""
    full: str = ""
    """What is added where a target's `detail` is `full`: a call's input, an answer."""
    page: str = ""
    """The path of the dashboard's page."""
    again: bool = False
    """The same was said before, and is said again all the same."""


def send(
    settings: "Notices",
    store: "Store",
    notice: Notice,
    *,
    now: float,
    due_in: float = 0.0,
    only: Collection[str] | None = None,
) -> int:
    """Write it down for each target that wants it, in a transaction of its own; how many those are.

    `only`: no other target.
    """
    rows = prepared(settings, notice, now=now, due_in=due_in, only=only)
    if not rows:
        return 0
    with store.write() as cursor:
        for row in rows:
            row(cursor)
    return len(rows)


def prepared(
    settings: "Notices",
    notice: Notice,
    *,
    now: float,
    clean: Clean | None = None,
    due_in: float = 0.0,
    only: Collection[str] | None = None,
) -> "list[Callable[[Cursor], None]]":
    """The rows of a notice, to be written with whatever it reports; one that is there already stays as it is.

    `clean` knows the secrets of a session; those with the shape of one go anyway.
    """
    from adderclaw.agent.notices.wanted import letters

    return letters(settings, notice, now=now, clean=clean, due_in=due_in, only=only)
