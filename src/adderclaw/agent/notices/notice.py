"""A notice: what the operator is told."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.config.schema import NoticeKind

type Clean = Callable[[Any], Any]
"""Removes secrets and control characters from a text."""


class Notice(NamedTuple):
    """A message to the operator. Only the notice of a question can become moot before it is sent."""

    kind: "NoticeKind | Literal['test']"
    title: str
    """One line: what happened, and where."""
    text: str
    """A few lines: the details, and the command to use next."""
    about: str = ""
    """The id of the question or whatever else it is about; notices with the same id are sent once."""
    workspace: str = ""
    """The folder; only its name is sent."""
    run_id: str = ""
    conversation_id: str = ""
    facts: Json = {}  # noqa: RUF012 - never changed
    """Fields for programs: outcome, reason, cost_usd, seconds, tool, risk, approval_id, schedule …"""
    full: str = ""
    """A call's input or an answer, added for targets whose `detail` is `full`."""
    page: str = ""
    """The path of the dashboard's page."""
    again: bool = False
    """Whether to send it again although a notice with the same `about` was sent."""
