"""Questions on the screen: what is asked about can be read, and is answered by a number, a letter or the arrows."""

import asyncio
from collections.abc import Sequence

from adderclaw.channels.repl.draw import Drawing, Fragments
from adderclaw.channels.repl.screen import Screen
from adderclaw.channels.terminal import MOST_GRANTED, meant
from adderclaw.credentials.redaction import visible
from adderclaw.gate.grants import in_words
from adderclaw.json_text import canonical
from adderclaw.questions import Answer, ApprovalRequest, Question, QuestionRequest, Replies, reached, replied
from adderclaw.record import NamedTuple
from adderclaw.types import Json
from adderclaw.view import calls
from adderclaw.view.items import Line


class Option(NamedTuple):
    key: str
    """A letter that chooses it."""
    label: str
    value: str
    writes: bool = False
    """The person writes something beside it."""


class Panel:
    """One question: choices, one of them at hand, and what is written where a choice asks for words."""

    def __init__(self, question: str, options: Sequence[Option], *, several: bool = False) -> None:
        self.question, self.options, self.several = question, tuple(options), several
        self.about: Sequence[Fragments] = ()
        """What is asked about, where there is room for it here."""
        self.note = ""
        """What a choice would mean, in words."""
        self.at = 0
        self.chosen: set[int] = set()
        self.writing: str | None = None
        """What is written so far, while something is."""
        self.answered: asyncio.Future[tuple[list[str], str]] = asyncio.get_running_loop().create_future()

    def lines(self, drawing: Drawing) -> list[Fragments]:
        rows = [*self.about]
        rows += [[("warn", row)] for row in drawing.flowed(self.question, drawing.width)]
        rows += [[("dim", row)] for row in drawing.flowed(self.note, drawing.width) if self.note]
        for number, option in enumerate(self.options):
            mark = ">" if number == self.at else " "
            tick = ("[x] " if number in self.chosen else "[ ] ") if self.several else ""
            style = "accent" if number == self.at else ""
            letter = f" ({option.key})" if option.key else ""
            first, *more = drawing.flowed(f"{tick}{option.label}{letter}", drawing.width - 5)
            rows.append([(style, f"{mark} {number + 1}. {first}")])
            rows += [[(style, f"     {row}")] for row in more]
        if self.writing is not None:
            rows.append([("accent", "  say: "), ("", f"{self.writing}_")])
        return rows

    # -------------------------------------------------------------- keys

    def press(self, key: str, text: str) -> None:
        """One key: its name where it has one, else the text that it types."""
        if self.answered.done():
            return
        if self.writing is not None:
            self._write(key, text)
        elif key in ("up", "down"):
            self.at = (self.at + (1 if key == "down" else -1)) % len(self.options)
        elif key == "space" and self.several:
            self.chosen ^= {self.at}
        elif key == "enter":
            self._choose(self.at)
        elif key == "escape":
            self.answered.set_result(([], ""))
        elif text.isdecimal() and 1 <= int(text) <= len(self.options):
            self._pick(int(text) - 1)
        else:
            self._pick(next((number for number, one in enumerate(self.options) if one.key and one.key == text), None))

    def _pick(self, number: int | None) -> None:
        if number is None:
            return
        self.at = number
        if self.several and not self.options[number].writes:
            self.chosen ^= {number}
        else:
            self._choose(number)

    def _choose(self, number: int) -> None:
        if self.options[number].writes:
            self.writing = ""
            return
        chosen = sorted(self.chosen | ({number} if not self.chosen else set())) if self.several else [number]
        self.answered.set_result(([self.options[one].value for one in chosen], ""))

    def _write(self, key: str, text: str) -> None:
        assert self.writing is not None
        match key:
            case "enter":
                self.answered.set_result(([self.options[self.at].value], self.writing))
            case "escape":
                self.writing = None
            case "backspace":
                self.writing = self.writing[:-1]
            case "" | "space":
                self.writing += text
            case _:
                pass


class OnScreen:
    """The operator of a conversation on a screen."""

    def __init__(self, *, everywhere: bool = True) -> None:
        """`everywhere`: a yes may be kept for every project."""
        self.screen: Screen | None = None
        self._everywhere = everywhere
        self._turn = asyncio.Lock()
        """Several sessions may ask; a person answers one question after the other."""

    @property
    def at_terminal(self) -> bool:
        return True

    async def approve(self, request: ApprovalRequest) -> Answer:
        from adderclaw.kernel.approvals import shown, unaskable

        screen = self.screen
        assert screen is not None
        if (refused := unaskable(request)) is not None:
            screen.print([[("warn", f"not asked, and denied: {request.tool}: {refused.comment}")]])
            return refused
        seen = shown(request)
        async with self._turn:
            about = _asked_about(request, seen.text, seen.marks, screen.drawing)
            offered = request.grants if len(request.shown) <= MOST_GRANTED else ()
            panel = Panel(
                f"{seen.tool}: {seen.reason}", _options(request.registries, self._granting if offered else ())
            )
            panel.note = f"always: {_line(in_words(offered))}" if offered else ""
            if len(about) + len(panel.lines(screen.drawing)) < screen.room:
                panel.about = [[], *about]
            else:  # what is asked about is the last thing above the question
                note = [[("dim", row)] for row in screen.drawing.flowed(panel.note, screen.width) if panel.note]
                panel.note = ""
                screen.print([*note, *about], apart=True)
                if request.preview:
                    screen.read_before[request.tool_use_id] = _change(request)
            values, words = await answered(screen, panel)
        return _answer(values, words, request)

    @property
    def _granting(self) -> tuple[Option, ...]:
        return GRANTING if self._everywhere else GRANTING[:-1]

    async def ask(self, request: QuestionRequest) -> Answer:
        screen = self.screen
        assert screen is not None
        replies: Replies = {}
        async with self._turn:
            for question in request.questions:
                values, words = await answered(screen, _question(question))
                if not values:
                    return replied(None)
                replies[question.question] = meant(question, words) if words else ", ".join(values)
        return replied(replies)


GRANTING = (
    Option("a", "yes, always in this session", "session"),
    Option("p", "yes, always in this project", "project"),
    Option("A", "yes, always in every project", "user"),
)


def _options(registries: Sequence[str], granting: Sequence[Option]) -> list[Option]:
    hosts = ", ".join(visible(host, keep_newlines=False) for host in registries)
    return [
        Option("y", "yes", "yes"),
        *([Option("r", f"yes, and let commands of this session reach {hosts}", "registries")] if registries else []),
        *granting,
        Option("n", "no", "no"),
        Option("i", "no, and say what to do instead", "instead", writes=True),
    ]


def _answer(values: list[str], words: str, request: ApprovalRequest) -> Answer:
    match values:
        case ["registries"]:
            return reached(request)
        case ["yes"]:
            return Answer(approved=True, by="operator")
        case ["session" | "project" | "user" as where]:
            return Answer(approved=True, by="operator", remember=where)
        case _:
            return Answer(approved=False, by="operator", comment=words.strip())


def _question(question: Question) -> Panel:
    def line(text: str) -> str:
        return visible(text, keep_newlines=False)

    options = [
        Option("", line(f"{option.label}: {option.description}" if option.description else option.label), option.label)
        for option in question.options
    ]
    own = Option("", "your own words", "own", writes=True)
    return Panel(f"{line(question.header)}: {line(question.question)}", [*options, own], several=question.multi)


def _asked_about(request: ApprovalRequest, text: str, marks: Sequence[str], drawing: Drawing) -> list[Fragments]:
    """What is asked about, whole: a change as a diff, a command as its plan, other calls by their arguments."""
    head = [("warn", f"{drawing.marks.call} "), ("tool", request.tool), ("dim", f" risk: {request.risk}")]
    if request.kind == "step":
        head = [("warn", f"{drawing.marks.call} "), ("tool", _line(request.tool)), ("dim", " asks for your approval")]
    rows: list[Fragments] = [head]
    if request.preview:
        path = str(request.input.get("file_path", "")) if request.input else ""
        rows.append([("accent", f"    {visible(path, keep_newlines=False, directions=False)}")])
        rows += drawing.changed(_change(request))
    else:
        lines = text.split("\n") if request.tool == "Bash" or not request.input else _arguments(request.input)
        rows += [[("", f"    {row}")] for line in lines for row in drawing.wrapped(line, drawing.width - 4)]
    for line in request.touches:
        rows += [[("dim", f"    {row}")] for row in drawing.wrapped(_line(line), drawing.width - 4)]
    return rows + [[("bad", f"    {mark}")] for mark in marks]


def _change(request: ApprovalRequest) -> tuple[Line, ...]:
    return calls.parsed(visible(request.preview, directions=False))


def _arguments(given: Json) -> list[str]:
    """Each by its name; what is no text as JSON."""
    rows: list[str] = []
    for name, value in given.items():
        shown = visible(value if isinstance(value, str) else canonical(value), directions=False)
        first, *more = shown.split("\n")
        rows += [f"{_line(name)}: {first}", *(f"  | {line}" for line in more)]
    return rows


def _line(text: str) -> str:
    return visible(text, keep_newlines=False, directions=False)


async def answered(screen: Screen, panel: Panel) -> tuple[list[str], str]:
    """Wait for the answer; keys that were typed before the question could be read count for nothing."""
    screen.ask(panel)
    try:
        return await panel.answered
    finally:
        screen.ask(None)
