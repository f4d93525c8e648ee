"""Why the built-in list does not take a command, and the words that say so."""

from collections.abc import Callable
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.policy.case import CommandDenial

type Words = tuple[str, ...]


class Objection(NamedTuple):
    """Why the built-in list does not take a command."""

    why: str
    entry: str = ""
    """What the operator could list to have it allowed: then it is not listed, and no question of its options."""
    outside: bool = False
    """It would reach what lies outside of what the operator allows."""
    inline: Literal["", "words", "stdin"] = ""
    """Where code that it runs may stand: among its words, or in its standard input, which its words do not say."""

    @property
    def denial(self) -> CommandDenial:
        return "not listed" if self.entry else "outside" if self.outside else "no sandbox"


type Allowed = Callable[[str, Words, str], bool] | None
"""The operator's own list: whether it has a program with these words, by an entry that says no less than this one."""


class Ask(NamedTuple):
    """What a program's judge may ask about the command that its words name."""

    inner: Callable[[Words], Objection | None]
    """What the list says of a command that is run by this one."""
    allowed: Allowed = None
    domains: Words = ()
    """The hosts that the operator allows."""
    code: Callable[[str], Objection | None] | None = None
    """What is said of a text that a shell is given."""
    project: Callable[[str], bool] | None = None
    """Whether a file is there, and is the project's own."""
    stdin: str | None = None
    """The text that a here-document gives it."""
    fed: bool = False
    """Whether its standard input is a file that a redirect names."""


def unknown(option: str) -> Objection:
    return Objection(f"its option {option} is not one of those that are known to do no harm")


def harmful(option: str) -> Objection:
    return Objection(f"its option {option} can run a program, write a file or change its configuration")


def unlisted(entry: str) -> Objection:
    return Objection(f"{entry} is not on the list", entry)
