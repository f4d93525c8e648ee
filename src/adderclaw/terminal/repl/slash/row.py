"""What a slash command is: one row of the table."""

from collections.abc import Awaitable, Callable
from typing import Literal

from adderclaw.agent.run import Run
from adderclaw.core.record import NamedTuple

type Done = Literal["leave"] | None
"""What follows a command: nothing, or the end of this conversation."""
type Does = Callable[[Run, str], Done | Awaitable[Done]]
"""Gets what follows the name."""


class Row(NamedTuple):
    name: str
    help: str
    """One line: what it does."""
    run: Does
    arguments: str = ""
    """As they are typed: [OPTIONAL] NEEDED."""
    aliases: tuple[str, ...] = ()
    at_once: bool = False
    """Whether it runs while a turn does; the others wait for its end."""
    words: tuple[str, ...] = ()
    """What its argument may be, where that is one of a few words: the menu offers them."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".strip()
