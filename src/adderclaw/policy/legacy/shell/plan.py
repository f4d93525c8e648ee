"""A shell plan as a value: commands whose words are known, and the order in which bash runs them."""

import re
from collections.abc import Callable, Iterator

from adderclaw.core.record import NamedTuple

WRITING = frozenset({">", ">>", ">|", "&>", "&>>"})


class Variable(NamedTuple):
    """A variable of the shell whose value is only known when it runs, or `?`, `!`, `$`."""

    name: str
    quoted: bool
    number: bool = False
    """Whether it holds a whole number, whatever number it is: nothing of that is ever split."""
    many: bool = False
    """Whether it stands for any number of words, quoted or not: `"${a[@]}"`."""

    @property
    def base(self) -> str:
        """The variable alone, without a subscript and what `${…}` cuts."""
        return re.split(r"\W", self.name.lstrip("#"), maxsplit=1)[0]


class Output(NamedTuple):
    """What a plan prints, as part of a word: `$(…)`; or `<(…)`, the name of a file with that in it."""

    body: "Script"
    quoted: bool
    file: bool = False
    number: bool = False
    """Whether it is meant to print a number: a variable that holds it is counted with, digits alone."""


class Count(NamedTuple):
    """Arithmetic over numbers that are only known when it runs: `$((i + 1))`, in our own words."""

    text: str
    quoted: bool = True


class Glob(NamedTuple):
    """A pattern for names that are only there when it runs: each piece with whether bash reads it as a pattern."""

    parts: tuple[tuple[str, bool], ...]
    quoted: bool = False

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts)


type Unknown = Variable | Output | Count | Glob
type Piece = str | Unknown


class Live(str):
    """A word that is only known when it runs. As text it is what was written; it stands only where it is data."""

    __slots__ = ("guard", "pieces")
    pieces: tuple[Piece, ...]
    guard: str
    """What it may be when it runs: the name of one of `render.GUARDS`; nothing where that does not matter."""

    def __new__(cls, text: str, pieces: tuple[Piece, ...], guard: str = "") -> "Live":
        made = super().__new__(cls, text)
        made.pieces, made.guard = pieces, guard
        return made

    def guarded(self, guard: str) -> "Live":
        return Live(str(self), self.pieces, guard)

    @property
    def splits(self) -> bool:
        """Whether it may become several words, or none."""
        return not self.guard and (self.parts or self.is_many)

    @property
    def is_many(self) -> bool:
        """Whether it stands for the elements of an array."""
        return any(isinstance(piece, Variable) and piece.many for piece in self.pieces)

    @property
    def parts(self) -> bool:
        """Whether bash takes what it stands for apart at blanks."""
        return any(not isinstance(piece, str) and not piece.quoted for piece in self.pieces)

    @property
    def is_number(self) -> bool:
        """Whether it is one whole number, whatever number it is."""
        only = self.pieces[0] if len(self.pieces) == 1 else ""
        return isinstance(only, Count) or (isinstance(only, Variable) and only.number)

    @property
    def is_numeric(self) -> bool:
        """Whether all that is not known of it are whole numbers."""
        unknown = [piece for piece in self.pieces if not isinstance(piece, str)]
        return all(isinstance(p, Count) or (isinstance(p, Variable) and p.number) or _is_nproc(p) for p in unknown)

    def with_number(self, number: str) -> str:
        """The word with a number in the place of each that is not known."""
        return "".join(piece if isinstance(piece, str) else number for piece in self.pieces)

    @property
    def is_glob(self) -> bool:
        return isinstance(self.pieces[0], Glob)

    @property
    def is_file(self) -> bool:
        """Whether it is `<(…)`: a pipe that a program reads like a file."""
        only = self.pieces[0]
        return isinstance(only, Output) and only.file

    def with_outputs(self, change: "Callable[[Script], Script]") -> "Live":
        changed = (p._replace(body=change(p.body)) if isinstance(p, Output) else p for p in self.pieces)
        return Live(str(self), tuple(changed), self.guard)


def _is_nproc(piece: Unknown) -> bool:
    """Whether it is `$(nproc)`, which prints a number, whatever its surroundings."""
    if not isinstance(piece, Output) or piece.file or len(piece.body.steps) != 1 or piece.body.tail:
        return False
    only = piece.body.steps[0].commands
    made = only[0]
    return len(only) == 1 and isinstance(made, Simple) and made.words == ("nproc",) and not made.redirects


class Redirect(NamedTuple):
    fd: str
    """The descriptor that was written down, or none."""
    operator: str
    target: str

    @property
    def is_copy(self) -> bool:
        """Whether it only copies a descriptor, as 2>&1 does."""
        return self.operator == ">&"

    @property
    def is_text(self) -> bool:
        """Whether the target is what is read itself: a here-string, or a here-document that became one."""
        return self.operator == "<<<"

    @property
    def is_piped(self) -> bool:
        """Whether another command's output is read: `< <(…)`."""
        return isinstance(self.target, Live) and self.target.is_file

    @property
    def feeds(self) -> bool:
        """Whether the target is a file that becomes the standard input."""
        return self.operator == "<" and self.fd in ("", "0") and not self.is_piped

    @property
    def writes(self) -> bool:
        return self.operator in WRITING


def _opened(word: str) -> str:
    if not isinstance(word, Live):
        return word
    return (
        PIPE
        if word.is_file
        else word.with_number("2" if word.guard else "1")
        if word.is_numeric or word.guard
        else word
    )


HERE = ("",)
PIPE = "/dev/null"
"""Stands for `<(…)` where it is asked what a command does with its files: a place where nothing of anybody's is."""


class Simple(NamedTuple):
    """One program with its words, as bash would call it."""

    words: tuple[str, ...]
    program: str
    """Absolute path, builtin's name, the path as written, or nothing when no such program was found."""
    redirects: tuple[Redirect, ...] = ()
    name: str = ""
    """What policy knows it by: a bare name only if that name leads to this program."""
    text: str = ""
    env: tuple[tuple[str, str], ...] = ()
    """Variables that are set for it alone; none of them changes what code is loaded."""
    folders: tuple[str, ...] = HERE
    """Every directory that it may run in, from where the shell starts."""
    handed: bool = False
    """Whether it opens names that another command finds when it runs (`gate.found`)."""
    only_in: tuple[str, ...] = ()
    """Where it may run, of the directories in which it may come to run; nothing: in each of them."""

    @property
    def opened(self) -> "Simple":
        """The command with names in the place of `<(…)`, whose own commands are judged by themselves, and numbers in

        the place of numbers that are not known, and of what a guard keeps to its place.
        """
        words = self.words
        if "/" not in words[0] and "/" not in self.name and words[0] != self.name and self.name:
            words = (self.name, *words[1:])
        elif not any(isinstance(word, Live) for word in words):
            return self
        return self._replace(words=tuple(map(_opened, words)))


class Internal(NamedTuple):
    """Something that only concerns the shell itself: `set -e`, `export X`, `read -r line`, `wait`."""

    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = HERE


class Assign(NamedTuple):
    name: str
    value: str
    export: bool = False


class Array(NamedTuple):
    """`name=(…)` or `name+=(…)`."""

    name: str
    words: tuple[str, ...]
    appends: bool = False
    redirects: tuple[Redirect, ...] = ()
    folders: tuple[str, ...] = HERE


class Call(NamedTuple):
    """A function of the text, as this one call runs it: the words that it is given stand in its body already."""

    name: str
    number: int
    words: tuple[str, ...]
    body: "Script"
    redirects: tuple[Redirect, ...] = ()
    folders: tuple[str, ...] = HERE


class Block(NamedTuple):
    """A subshell `(`, or a group `{`."""

    opener: str
    body: "Script"
    redirects: tuple[Redirect, ...] = ()
    folders: tuple[str, ...] = HERE


class If(NamedTuple):
    branches: "tuple[tuple[Script, Script], ...]"
    otherwise: "Script | None"
    redirects: tuple[Redirect, ...] = ()
    folders: tuple[str, ...] = HERE


class Loop(NamedTuple):
    """`while` and `until` with a condition; `for` with a name and words that are only known when it runs."""

    kind: str
    condition: "Script | None"
    body: "Script"
    redirects: tuple[Redirect, ...] = ()
    folders: tuple[str, ...] = HERE
    name: str = ""
    words: tuple[str, ...] = ()


class Choice(NamedTuple):
    """`case`: each pattern is the text that we wrote for it."""

    word: str
    arms: "tuple[tuple[tuple[str, ...], Script], ...]"
    redirects: tuple[Redirect, ...] = ()
    folders: tuple[str, ...] = HERE


class Match(NamedTuple):
    """`[[ value =~ expression ]]`."""

    value: str
    expression: str
    redirects: tuple[Redirect, ...] = ()
    folders: tuple[str, ...] = HERE


type Compound = Block | If | Loop | Choice | Call
type Command = Simple | Internal | Assign | Array | Match | Compound


class Step(NamedTuple):
    """One pipeline with the operator that stands before it."""

    after: str
    negated: bool
    commands: tuple[Command, ...]
    joints: tuple[str, ...] = ()
    timed: bool = False


class Script(NamedTuple):
    steps: tuple[Step, ...]
    tail: str = ""
    """`&` where the last list runs in the background."""


class Plan(NamedTuple):
    text: str
    shown: str
    body: Script
    inside: "tuple[Plan, ...]" = ()
    """Commands that its words are for a shell: `bash -c "…"`."""


class Raw(NamedTuple):
    text: str
    shown: str
    reason: str
    words: tuple[str, ...]
    """Every word that the text shows, unquoted, those inside of quoted words too."""
    programs: tuple[str, ...]
    """The literal words in command position."""
    unknown: str = ""
    """The first thing of which it cannot be known what it stands for; nothing where every word is literal."""


# ------------------------------------------------------------------ looking through a plan


def commands(script: Script) -> Iterator[Command]:
    """Every command of a script, those inside of others and of words too."""
    for step in script.steps:
        for command in step.commands:
            yield from _within(command)


def _within(command: Command) -> Iterator[Command]:
    yield command
    for body in bodies(command):
        yield from commands(body)
    for word in live_words(command):
        for piece in word.pieces:
            if isinstance(piece, Output):
                yield from commands(piece.body)


def bodies(command: Command) -> Iterator[Script]:
    match command:
        case Block() | Call():
            yield command.body
        case If():
            for condition, body in command.branches:
                yield condition
                yield body
            if command.otherwise is not None:
                yield command.otherwise
        case Loop():
            if command.condition is not None:
                yield command.condition
            yield command.body
        case Choice():
            yield from (body for _, body in command.arms)
        case _:
            return


def live_words(command: Command) -> list[Live]:
    found: tuple[str, ...] = ()
    match command:
        case Simple() | Internal():
            found = command.words
            if command.env:
                found += tuple(value for _, value in command.env)
        case Assign() | Match():
            found = (command.value,)
        case Loop() | Call() | Array():
            found = command.words
        case Choice():
            found = (command.word,)
        case _:
            pass
    live = [word for word in found if isinstance(word, Live)]
    live += [redirect.target for redirect in redirects_of(command) if isinstance(redirect.target, Live)]
    return live


def redirects_of(command: Command) -> tuple[Redirect, ...]:
    return () if isinstance(command, Assign) else command.redirects


def whole(plan: Plan) -> Iterator[Plan]:
    """A plan, and those that shells are given in it."""
    yield plan
    for code in plan.inside:
        yield from whole(code)


def simples(plan: Plan) -> tuple[Simple, ...]:
    """Every simple command that may run: what the lists and the rules judge."""
    return tuple(command for command in _COMMANDS.of(plan.body) if isinstance(command, Simple))


def redirects(plan: Plan) -> tuple[Redirect, ...]:
    """Every redirect, those of groups and loops too."""
    return tuple(redirect for command in _COMMANDS.of(plan.body) for redirect in redirects_of(command))


class _Kept[T]:
    """What was made of the last few scripts: each guard and judge asks for the same again."""

    def __init__(self, make: "Callable[[Script], Iterator[T]]") -> None:
        self.make = make
        self.found: dict[int, tuple[Script, tuple[T, ...]]] = {}

    def of(self, script: Script) -> tuple[T, ...]:
        kept = self.found.get(id(script))
        if kept is not None and kept[0] is script:
            return kept[1]
        made = tuple(self.make(script))
        while len(self.found) >= 8:
            self.found.pop(next(iter(self.found), 0), None)
        self.found[id(script)] = script, made
        return made


class Flat(NamedTuple):
    """A pipeline as simple commands alone, whatever groups they stand in."""

    commands: tuple[Simple, ...]


def steps(plan: Plan) -> tuple[Flat, ...]:
    """Every pipeline at every level."""
    return _STEPS.of(plan.body)


def _steps(script: Script) -> Iterator[Flat]:
    for step in script.steps:
        within = [c for command in step.commands for c in _within(command)]
        yield Flat(tuple(c for c in within if isinstance(c, Simple)))
        for command in step.commands:
            for body in bodies(command):
                yield from _steps(body)
            for word in live_words(command):
                for piece in word.pieces:
                    if isinstance(piece, Output):
                        yield from _steps(piece.body)


_COMMANDS = _Kept(commands)
_STEPS = _Kept(_steps)


# ------------------------------------------------------------------ changing a plan


def with_simples(script: Script, change: Callable[[Simple], Simple]) -> Script:
    """The script with each simple command replaced, at every level."""

    def again(inner: Script) -> Script:
        return with_simples(inner, change)

    def one(command: Command) -> Command:
        command = _with_words(command, lambda word: word.with_outputs(again) if isinstance(word, Live) else word)
        match command:
            case Simple():
                return change(command)
            case Block() | Call():
                return command._replace(body=again(command.body))
            case If():
                branches = tuple((again(condition), again(body)) for condition, body in command.branches)
                return command._replace(
                    branches=branches, otherwise=again(command.otherwise) if command.otherwise else None
                )
            case Loop():
                condition = again(command.condition) if command.condition is not None else None
                return command._replace(condition=condition, body=again(command.body))
            case Choice():
                return command._replace(arms=tuple((patterns, again(body)) for patterns, body in command.arms))
            case _:
                return command

    changed = (step._replace(commands=tuple(map(one, step.commands))) for step in script.steps)
    return script._replace(steps=tuple(changed))


def _with_words(command: Command, change: Callable[[str], str]) -> Command:
    if not live_words(command):
        return command
    if isinstance(command, Assign | Match):
        return command._replace(value=change(command.value))
    targets = tuple(redirect._replace(target=change(redirect.target)) for redirect in command.redirects)
    match command:
        case Simple() | Internal():
            env = tuple((name, change(value)) for name, value in command.env)
            return command._replace(words=tuple(map(change, command.words)), env=env, redirects=targets)
        case Loop() | Call() | Array():
            return command._replace(words=tuple(map(change, command.words)), redirects=targets)
        case Choice():
            return command._replace(word=change(command.word), redirects=targets)
        case Block() | If():
            return command._replace(redirects=targets)
