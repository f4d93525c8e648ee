"""Questions on the screen: a number, a letter or the arrows select an answer, and Enter confirms it."""

import asyncio
from collections.abc import Sequence

from adderclaw.agent.view import calls
from adderclaw.agent.view.items import Line
from adderclaw.core.json_text import canonical
from adderclaw.core.questions import (
    MOST_GRANTED,
    Answer,
    ApprovalRequest,
    Question,
    QuestionRequest,
    Replies,
    answer_with,
    approval_with_registries,
)
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import Json
from adderclaw.policy.grants import describe_rules
from adderclaw.terminal.operators import reply_values
from adderclaw.terminal.repl.draw import Drawing, Fragments
from adderclaw.terminal.repl.screen import Screen


class Option(NamedTuple):
    key: str
    """The letter that selects it."""
    label: str
    value: str
    writes: bool = False
    """Whether the person writes a text with it."""


MESSAGE_HINT = "Enter sends this as your next message, and the question stays open. The arrows select an answer."
SELECT_HINT = "The arrows, a number or a letter select an answer, and Enter confirms it."


class Panel:
    """One question. Enter gives the selected answer. Typed words that name no answer become a message instead."""

    def __init__(self, question: str, options: Sequence[Option], *, several: bool = False) -> None:
        self.question, self.options, self.several = question, tuple(options), several
        self.about: Sequence[Fragments] = ()
        """What the question is about, if there is room for it in the panel."""
        self.note = ""
        """What an answer would permit, in words."""
        self.at = self._before = 0
        self.marked = True
        """Whether the answer at `at` is selected."""
        self.typed = ""
        """What was typed at the question. It selects an answer if it is its number, its letter or its words."""
        self._names = False
        """Whether the typed text selects an answer."""
        self.message = ""
        """A message that was entered instead of an answer, until the screen takes it."""
        self.chosen: set[int] = set()
        self.writing: str | None = None
        """The text of an answer while it is written; otherwise None."""
        self.answered: asyncio.Future[tuple[list[str], str]] = asyncio.get_running_loop().create_future()

    def lines(self, drawing: Drawing) -> list[Fragments]:
        rows = [*self.about]
        rows += [[("warn", row)] for row in drawing.flowed(self.question, drawing.width)]
        rows += [[("dim", row)] for row in drawing.flowed(self.note, drawing.width) if self.note]
        for number, option in enumerate(self.options):
            marked = self.marked and number == self.at
            tick = ("[x] " if number in self.chosen else "[ ] ") if self.several else ""
            style = "accent" if marked else ""
            letter = f" ({option.key})" if option.key else ""
            first, *more = drawing.flowed(f"{tick}{option.label}{letter}", drawing.width - 5)
            rows.append([(style, f"{'>' if marked else ' '} {number + 1}. {first}")])
            rows += [[(style, f"     {row}")] for row in more]
        if self.writing is not None:
            rows.append([("accent", "  say: "), ("", f"{self.writing}_")])
        elif self.unsent:
            typed = f"message: {' '.join(self.typed.split())}_"
            rows += [[("accent", f"  {row}")] for row in drawing.flowed(typed, drawing.width - 2)]
        if self.writing is None and not self.marked:
            hint = MESSAGE_HINT if self.unsent else SELECT_HINT
            rows += [[("dim", f"  {row}")] for row in drawing.flowed(hint, drawing.width - 2)]
        return rows

    # -------------------------------------------------------------- keys

    @property
    def unsent(self) -> str:
        """Typed text that is no answer. It is never lost, whatever happens to the question."""
        return "" if self._names else self.typed

    def take_draft(self, draft: str) -> None:
        """Takes the text of the input when the question gets the keys. As no answer to it, it selects nothing."""
        self.typed, self.marked, self._names = draft, not draft, False

    def press(self, key: str, text: str) -> None:
        """Handles a key, given by its name or the text it types. Pasted text never selects an answer."""
        if self.answered.done():
            return
        if self.writing is not None:
            self._write(key, text)
        elif key in ("up", "down"):
            self._move(1 if key == "down" else -1)
        elif key == "space" and self.several and self.marked:
            self.chosen ^= {self.at}
            self.typed, self._names = self.unsent, False
        elif key == "enter":
            self._enter()
        elif key == "escape":
            self.answered.set_result(([], ""))
        else:
            self._type(self.typed[:-1] if key == "backspace" else self.typed + text, pasted=key == "paste")

    def _type(self, text: str, *, pasted: bool) -> None:
        if not self.typed:
            self._before = self.at
        self.typed = text
        number = None if pasted else self._named_option()
        self._names = number is not None
        self.marked = not text or self._names
        self.at = self._before if number is None else number

    def _named_option(self) -> int | None:
        """The answer that the typed text names by its number, its letter or its words."""
        text = self.typed.strip()
        if text.isdecimal() and 1 <= int(text) <= len(self.options):
            return int(text) - 1
        for number, option in enumerate(self.options):
            words = (option.label, "" if option.key else option.value)
            if text and (text == option.key or text.lower() in (word.lower() for word in words)):
                return number
        return None

    def _move(self, by: int) -> None:
        self.typed, self._names = self.unsent, False
        self.at = (self.at + by) % len(self.options) if self.marked else self.at
        self.marked = True

    def _enter(self) -> None:
        if self.marked:
            self._choose(self.at)
        elif self.typed.strip():
            self.message, self.typed = self.typed, ""  # nothing is selected, so a second Enter does not answer
        else:
            self._type("", pasted=False)

    def _choose(self, number: int) -> None:
        if self.options[number].writes:
            self.writing, self.typed = self.unsent, ""
            return
        chosen = sorted(self.chosen | ({number} if not self.chosen else set())) if self.several else [number]
        self.answered.set_result(([self.options[index].value for index in chosen], ""))

    def _write(self, key: str, text: str) -> None:
        assert self.writing is not None
        match key:
            case "enter":
                self.answered.set_result(([self.options[self.at].value], self.writing))
            case "escape":
                self.writing = None
            case "backspace":
                self.writing = self.writing[:-1]
            case "" | "space" | "paste":
                self.writing += text
            case _:
                pass


class ScreenOperator:
    """The operator of a conversation on a screen."""

    def __init__(self, *, everywhere: bool = True) -> None:
        """`everywhere`: whether an approval can be granted for every project."""
        self.screen: Screen | None = None
        self._everywhere = everywhere
        self._turn = asyncio.Lock()
        """Questions of several sessions are asked one at a time."""

    @property
    def at_terminal(self) -> bool:
        return True

    async def approve(self, request: ApprovalRequest) -> Answer:
        from adderclaw.agent.tool_call.approvals import displayed_request, refuse_unaskable

        screen = self.screen
        assert screen is not None
        if (refused := refuse_unaskable(request)) is not None:
            screen.print([[("warn", f"denied without asking: {request.tool}: {refused.comment}")]])
            return refused
        seen = displayed_request(request)
        async with self._turn:
            about = _request_fragments(request, seen.text, seen.marks, screen.drawing)
            offered = request.grants if len(request.shown) <= MOST_GRANTED else ()
            grants = (GRANTS if self._everywhere else GRANTS[:-1]) if offered else ()
            panel = Panel(f"{seen.tool}: {seen.reason}", _options(request.registries, grants))
            panel.note = f"always: {_line(describe_rules(offered))}" if offered else ""
            if len(about) + len(panel.lines(screen.drawing)) < screen.room:
                panel.about = [[], *about]
            else:  # print it, so that it is directly above the question
                note = [[("dim", row)] for row in screen.drawing.flowed(panel.note, screen.width) if panel.note]
                panel.note = ""
                screen.print([*note, *about], apart=True)
                if request.preview:
                    screen.read_before[request.tool_use_id] = _change(request)
            values, words = await answer_of(screen, panel)
        return _answer(values, words, request)

    async def ask(self, request: QuestionRequest) -> Answer:
        screen = self.screen
        assert screen is not None
        replies: Replies = {}
        async with self._turn:
            for question in request.questions:
                values, words = await answer_of(screen, _question(question))
                if not values:
                    return answer_with(None)
                replies[question.question] = reply_values(question, words) if words else ", ".join(values)
        return answer_with(replies)


GRANTS = (
    Option("a", "yes, always in this session", "session"),
    Option("p", "yes, always in this project", "project"),
    Option("A", "yes, always in every project", "user"),
)


def _options(registries: Sequence[str], grants: Sequence[Option]) -> list[Option]:
    hosts = ", ".join(visible(host, keep_newlines=False) for host in registries)
    return [
        Option("y", "yes", "yes"),
        *([Option("r", f"yes, and let commands of this session reach {hosts}", "registries")] if registries else []),
        *grants,
        Option("n", "no", "no"),
        Option("i", "no, and say what to do instead", "instead", writes=True),
    ]


def _answer(values: list[str], words: str, request: ApprovalRequest) -> Answer:
    match values:
        case ["registries"]:
            return approval_with_registries(request)
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


def _request_fragments(request: ApprovalRequest, text: str, marks: Sequence[str], drawing: Drawing) -> list[Fragments]:
    """The whole request: a change as a diff, a command as its plan, other calls by their arguments."""
    head = [("warn", f"{drawing.marks.call} "), ("tool", request.tool), ("dim", f" risk: {request.risk}")]
    if request.kind == "step":
        head = [("warn", f"{drawing.marks.call} "), ("tool", _line(request.tool)), ("dim", " asks for your approval")]
    rows: list[Fragments] = [head]
    if request.preview:
        path = str(request.input.get("file_path", "")) if request.input else ""
        rows.append([("accent", f"    {visible(path, keep_newlines=False, directions=False)}")])
        rows += drawing.changed(_change(request))
    else:
        lines = text.split("\n") if request.tool == BASH or not request.input else _arguments(request.input)
        rows += [[("", f"    {row}")] for line in lines for row in drawing.wrapped(line, drawing.width - 4)]
    for line in request.touches:
        rows += [[("dim", f"    {row}")] for row in drawing.wrapped(_line(line), drawing.width - 4)]
    return rows + [[("bad", f"    {mark}")] for mark in marks]


def _change(request: ApprovalRequest) -> tuple[Line, ...]:
    return calls.parsed(visible(request.preview, directions=False))


def _arguments(arguments: Json) -> list[str]:
    """Each argument with its name; values that are not texts as JSON."""
    rows: list[str] = []
    for name, value in arguments.items():
        shown = visible(value if isinstance(value, str) else canonical(value), directions=False)
        first, *more = shown.split("\n")
        rows += [f"{_line(name)}: {first}", *(f"  | {line}" for line in more)]
    return rows


def _line(text: str) -> str:
    return visible(text, keep_newlines=False, directions=False)


async def answer_of(screen: Screen, panel: Panel) -> tuple[list[str], str]:
    """Shows a question and waits for the answer. Keys typed before it could be read do not answer it."""
    screen.ask(panel)
    try:
        return await panel.answered
    finally:
        screen.ask(None)
