"""The common base of conversations and runs in this process: updates, questions, and access checks."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Literal

from adderclaw.agent.conversation.asking import Asking, Request
from adderclaw.agent.conversation.updates import MOST, Update, Updates
from adderclaw.agent.run import Run
from adderclaw.agent.tool_call.approvals import person_answering
from adderclaw.agent.view.items import Call, Item
from adderclaw.agent.view.live import Busy, Live
from adderclaw.agent.view.rows import Rows
from adderclaw.core.errors import AdderClawError, DeniedError, UsageError
from adderclaw.core.events import EventRecord
from adderclaw.core.questions import Answer
from adderclaw.core.record import NamedTuple

LOOKED_AT = ("tool_", "approval_", "llm_request_sent", "turn_finished", "context_compacted")
"""Prefixes of events after which new messages may be stored."""
END = 1 << 62
"""A sequence number after all entries."""

type State = Literal["idle", "working", "asking", "ended"]


class NotYours(DeniedError):
    """A client tried to control what another client opened, without a grant."""


class Unknown(UsageError):
    """No conversation, run or turn has this id."""


class Full(AdderClawError):
    """This process is at its limit; retry later."""


class Bounds(NamedTuple):
    """Limits of one conversation, and of the process."""

    updates: int = MOST
    """Updates that are kept for slow or returning followers."""
    queued: int = 100
    """Messages that wait while a turn works."""
    awake: int = 200
    """Conversations that are open at the same time."""


BOUNDS = Bounds()


class Watched(ABC):
    """Work that clients follow. The client that opened it is its operator; others need a grant."""

    def __init__(self, id: str, client: str, channel: str, bounds: Bounds = BOUNDS) -> None:
        self.id, self.client, self.channel = id, client, channel
        self.updates = Updates(bounds.updates)
        self._asking = Asking(self._ask, self._changed)
        self._published: tuple[State, str] | None = None
        self._rows: Rows | None = None
        self._live: Live | None = None
        self._session_id = ""
        self._sequence = -1
        self._held: list[Call] = []
        """Requested calls that are not stored yet."""

    # -------------------------------------------------------------- what clients see and do

    @property
    @abstractmethod
    def state(self) -> State: ...

    @property
    def turn(self) -> str:
        """The id of the current turn; empty if there is none."""
        return ""

    def follow(self, after: int | None = None) -> AsyncGenerator[Update]:
        """See `Updates.follow`."""
        return self.updates.follow(after)

    @property
    def busy(self) -> Busy | None:
        """What it waits for and has used so far; None while it sleeps."""
        return self._live.busy if self._live is not None else None

    @property
    def questions(self) -> dict[str, Request]:
        """Id → the open question."""
        return self._asking.open

    def answer(self, id: str, answer: Answer, client: str, *, granted: bool = False, plan: str = "") -> bool:
        """Answer a question; False if no question here had this id.

        `granted`: the client's token allows it to answer what others opened. The receipt names `answer.who`, or the
        client.
        """
        self.require(client, granted=granted)
        who = answer.who or person_answering(f"{self.channel}: {client}")
        return self._asking.answer(id, answer._replace(who=who), plan)

    @property
    def running(self) -> dict[str, Call]:
        """Calls in progress in their current state, which their rows do not have yet."""
        return {call.key: call for call in self._live.running} if self._live is not None else {}

    def require(self, client: str, *, granted: bool = False) -> None:
        if not granted and client != self.client:
            raise NotYours(f"{self.id} was opened by another client; your token needs the scope for those")

    # -------------------------------------------------------------- events

    def _attach(self, run: Run) -> None:
        """Follow the events of a run from now on."""
        session = run.session
        root = session.environment.context.workspace.root
        self._rows = Rows(session.store, session.secrets.clean, root)
        self._session_id = session.session_id
        self._sequence = self._rows.last(session.session_id)
        self._live = Live(self._rows, session.session_id, self._show, root)
        run.runtime.bus.add_sink("hosted", self._hear)

    def _detach(self) -> None:
        self._rows, self._live, self._held = None, None, []

    def _hear(self, record: EventRecord) -> None:
        """An event sink. Events may arrive late, after further rows were written; messages are still in order."""
        if self._live is None:
            return
        if record.event_type != "tool_requested":
            held, self._held = self._held, []
            for call in held:
                self._publish(call)
        if record.event_type.startswith(LOOKED_AT):
            self._say()
        self._live.hear(record)
        if record.event_type == "approval_answered":
            update = {"id": record.payload.get("approval_id", ""), "approved": record.payload.get("approved", False)}
            about = {name: record.payload.get(name, "") for name in ("tool", "tool_use_id", "by", "comment")}
            self.updates.publish("answered", {**update, **about})

    def _show(self, item: Item) -> None:
        if isinstance(item, Call) and item.state == "waiting" and self._place(item) <= self._sequence:
            self._held.append(item)  # messages before it are stored together with its result
        else:
            self._publish(item)

    def _publish(self, item: Item) -> None:
        if isinstance(item, Call) and item.session_id == self._session_id:
            sequence = item.sequence or self._place(item)
            self._say(sequence)
            self._sequence = max(self._sequence, sequence)
        self.updates.publish("item", item)

    def _place(self, call: Call) -> int:
        return self._rows.place(call.session_id, call.key) if self._rows is not None else -1

    def _say(self, before: int | None = None) -> None:
        """Publish new messages up to the next call, or up to this sequence number."""
        if self._rows is None:
            return
        items, self._sequence = self._rows.since(self._session_id, self._sequence, before)
        for words in items:
            self.updates.publish("item", words)

    def _ask(self, request: Request) -> None:
        self.updates.publish("question", request)
        self._changed()

    def _changed(self) -> None:
        """Publish the state if it changed."""
        now = (self.state, self.turn)
        if now != self._published:
            self._published = now
            self.updates.publish("state", {"state": now[0], "turn": now[1]})
