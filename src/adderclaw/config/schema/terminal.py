"""The part of the schema for work at a terminal: checks after edits, commits, keys and the status line."""

from dataclasses import field
from typing import Annotated, Any, Literal

from adderclaw.core.decode import Between
from adderclaw.core.record import record


@record
class AfterEdit:
    """The project's own type checkers and linters, after an edit: those of `run`, and where the gate does not ask."""

    check: bool = True
    """Tell the model the problems found in a file that it edited."""
    seconds: Annotated[float, Between(0.001, 60)] = 5.0
    """How long each may take."""
    run: list[Literal["ruff", "pyright", "mypy", "tsc", "eslint"]] = field(default_factory=list[Any])
    """Checkers that run without asking, in a read-only sandbox without network. A project's own settings cannot set
    this."""


@record
class Git:
    """Commits of `/commit`."""

    co_author: str = ""
    """`Name <address>`: put into each message as its Co-authored-by line. Empty: no such line."""


@record
class Repl:
    """The conversation at a terminal."""

    editing: Literal["emacs", "vi"] = "emacs"
    """Which keys edit the input: those of emacs, or the modes of vi."""
    plain: bool = False
    """Print lines only, nothing is redrawn: for screen readers and simple terminals; as `--plain`."""
    motion: bool = True
    """Show progress by animations; false is the same as `--no-motion`."""
    theme: Literal["auto", "light", "dark"] = "auto"
    """The colours: for a light or a dark terminal; `auto` goes by what the terminal says of its background."""
    titles: Literal["small", "model", "words"] = "small"
    """What a conversation is called that nobody has named: what the small model (providers.small) says after the first
    answer, where there is one; with `model`, else what the model of the session says; with `words` no model is asked.
    Without a title it is called by its first words."""
    terminal_title: bool = True
    """Show it as the title of the terminal."""


@record
class StatusLine:
    """Your own command that fills the line below the input (docs/repl.md). It runs in a sandbox without write access
    and network. A trusted project's file can set one."""

    type: Literal["command"] = "command"
    """The only type."""
    command: str = ""
    """A command line for `sh` that gets JSON on stdin and whose output is shown. Empty: the default status line."""
    padding: Annotated[int, Between(0, 20)] = 0
    """Spaces before it."""
    refreshInterval: Annotated[float, Between(1)] | None = None
    """Seconds after which it runs again even if nothing has changed; without it, it runs only after changes."""
