"""What a channel is: a way in to a conversation."""

from typing import Protocol

from adderclaw.runtime import Run


class Channel(Protocol):
    """A way in. A conversation is opened for it, and it talks to it until it has nothing more to say."""

    @property
    def name(self) -> str: ...
    @property
    def supports_draft_updates(self) -> bool:
        """Whether an answer can be shown while it is written."""
        ...

    def start(self, run: Run) -> int:
        """Hold the conversation; the exit code when it is over."""
        ...

    def send(self, conversation_id: str, message: str) -> None:
        """Show a message of the conversation to whoever is there."""
        ...
