"""Reports each message of a session's turns once it is in the history."""

from collections.abc import Callable

from adderclaw.agent.session.session import Session
from adderclaw.core.events import EventRecord
from adderclaw.core.types import Message


class NewMessages:
    """An event sink that checks for new messages at each event."""

    def __init__(self, session: Session, tell: Callable[[Message], bool | None]) -> None:
        """`tell` returns False to postpone a message until the next check."""
        self._session, self._tell = session, tell
        self._history = session.state.history
        self._seen = 0
        self._first = True
        self.begin()

    def begin(self) -> None:
        """A turn is about to begin; its first message is the caller's own and is not reported."""
        self._history = self._session.state.history
        self._seen = len(self._history.messages)
        self._first = True

    def event(self, _record: EventRecord) -> None:
        self.check()

    def check(self) -> None:
        history = self._session.state.history
        if history is not self._history:  # compacted; everything in it was reported before
            self._history, self._seen = history, len(history.messages)
        for message in history.messages[self._seen :]:
            if self._first and message.role == "user":
                self._first = False
            elif self._tell(message) is False:
                return
            self._seen += 1
