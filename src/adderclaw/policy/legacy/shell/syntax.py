"""Commands and words as they were written, not yet expanded: what `reader` makes of a text."""

from collections.abc import Sequence

from adderclaw.core.record import NamedTuple

MAX_CHARACTERS = 10_000
"""How long a text may be, without its here-documents."""


class NotAPlan(Exception):
    """Carries what made the command raw."""


# ------------------------------------------------------------------ words


class Text(NamedTuple):
    text: str
    quoted: bool = False


class Param(NamedTuple):
    """`$name` or `${name<op>argument}`."""

    name: str
    op: str = ""
    argument: "Word" = ()
    second: "Word" = ()
    """What `${name/argument/second}` puts in its place."""
    quoted: bool = False
    bare: bool = False
    """Written without braces, so that what follows it may become part of its name."""


class Sub(NamedTuple):
    """`$(…)` or backticks; `<(…)`, which stands for the name of a file with the output in it."""

    body: "Script"
    text: str
    quoted: bool = False
    file: bool = False


class Arith(NamedTuple):
    text: str
    quoted: bool = False


type Part = Text | Param | Sub | Arith
type Word = tuple[Part, ...]

# ------------------------------------------------------------------ commands


class Redir(NamedTuple):
    fd: str
    operator: str
    """As bash has it; a here-document is `<<<` with its lines as one quoted word."""
    target: Word
    document: bool = False


class Command(NamedTuple):
    assigns: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: Sequence[Redir]
    text: str


class Group(NamedTuple):
    opener: str
    body: "Script"
    redirects: Sequence[Redir] = ()


class If(NamedTuple):
    branches: "tuple[tuple[Script, Script], ...]"
    otherwise: "Script | None"
    redirects: Sequence[Redir] = ()


class While(NamedTuple):
    kind: str
    condition: "Script"
    body: "Script"
    redirects: Sequence[Redir] = ()


class For(NamedTuple):
    name: str
    words: tuple[Word, ...]
    body: "Script"
    redirects: Sequence[Redir] = ()


class Case(NamedTuple):
    word: Word
    arms: "tuple[tuple[tuple[Word, ...], Script], ...]"
    redirects: Sequence[Redir] = ()


class Match(NamedTuple):
    """`[[ value =~ expression ]]`."""

    value: Word
    expression: str
    name: str = ""
    """The variable that holds the expression, where it is not written here."""
    redirects: Sequence[Redir] = ()


class Function(NamedTuple):
    """`name() { …; }`: what a call of that name runs."""

    name: str
    body: "Node"
    redirects: Sequence[Redir] = ()


class Array(NamedTuple):
    """`name=(…)` or `name+=(…)`."""

    name: str
    words: tuple[Word, ...]
    appends: bool = False
    redirects: Sequence[Redir] = ()


type Node = Command | Group | If | While | For | Case | Match | Function | Array


class Pipeline(NamedTuple):
    after: str
    """The operator before it: nothing, `&&`, `||`, `;` or `&`."""
    negated: bool
    timed: bool
    commands: tuple[Node, ...]
    joints: tuple[str, ...]


class Script(NamedTuple):
    pipelines: tuple[Pipeline, ...]
    tail: str = ""
    """`&` where the last list runs in the background."""
