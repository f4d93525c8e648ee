"""A slash command as a value: a row of the table."""

from collections.abc import Awaitable, Callable
from typing import Literal

from adderclaw.agent.run import Run
from adderclaw.core.record import NamedTuple

type Done = Literal["leave"] | None
"""What a command returns: "leave" ends the conversation."""
type Action = Callable[[Run, str], Done | Awaitable[Done]]
"""Called with the words after the command's name."""


class Row(NamedTuple):
    name: str
    help: str
    """What it does, in one line."""
    run: Action
    arguments: str = ""
    """Its arguments for /help: [OPTIONAL] REQUIRED."""
    aliases: tuple[str, ...] = ()
    at_once: bool = False
    """Whether it runs during a turn; other commands wait for the end of the turn."""
    words: tuple[str, ...] = ()
    """The possible values of its argument, which the menu offers."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".strip()
