"""A key that was meant for the input answers no question, however late the question came."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.renderer import CPR_Support

from adderclaw.terminal.repl.keys import Chips, KeyActions, Keys
from adderclaw.terminal.repl.panel import Option, Panel, answer_of
from adderclaw.terminal.repl.screen import Screen
from adderclaw.terminal.repl.terminal_mode import TerminalMode

LIMIT = 20.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.01)


class Terminal(DummyOutput):
    """A terminal that is asked where its cursor is, and answers when the test says so."""

    @property
    def responds_to_cpr(self) -> bool:
        return True

    def get_rows_below_cursor_position(self) -> int:
        raise NotImplementedError  # only Windows' own terminal knows that unasked


@asynccontextmanager
async def running(output: DummyOutput, buffer: Buffer | None = None) -> AsyncGenerator[tuple[Screen, PipeInput]]:
    with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=output):
        screen = Screen(TerminalMode(), buffer or Buffer(multiline=True), list)
        screen.app.key_bindings = Keys(screen, Chips(), KeyActions(lambda: False, lambda: None, lambda: None)).bindings
        screen.app.output = screen.app.renderer.output = output
        screen.app.renderer.cpr_support = CPR_Support.UNKNOWN if output.responds_to_cpr else CPR_Support.NOT_SUPPORTED
        shown = asyncio.ensure_future(screen.app.run_async())
        yield screen, keyboard
        screen.app.exit()
        await shown


def really() -> Panel:
    return Panel("really?", (Option("y", "yes", "yes"), Option("n", "no", "no")))


def test_the_terminals_own_answer_is_no_key() -> None:
    async def work() -> None:
        async with running(Terminal()) as (screen, keyboard):
            await until(lambda: screen.app.renderer.waiting_for_cpr)
            screen.pause = 2 * LIMIT  # who is taken for typing gets no answer in this test
            keyboard.send_text("\x1b[5;1R")
            asked = asyncio.ensure_future(answer_of(screen, really()))
            await until(lambda: screen.answers())
            keyboard.send_text("y\r")
            assert await asyncio.wait_for(asked, LIMIT) == (["yes"], "")

    asyncio.run(work())


def test_an_answer_that_nobody_waits_for_any_more_is_no_key() -> None:
    """The renderer waits a second for a report of the cursor; a busy terminal sends it later."""

    async def work() -> None:
        async with running(DummyOutput()) as (screen, keyboard):
            await until(lambda: screen.app.is_running)
            screen.pause = 2 * LIMIT
            keyboard.send_text("\x1b[5;1R")
            asked = asyncio.ensure_future(answer_of(screen, really()))
            await until(lambda: screen.answers())
            keyboard.send_text("y\r")
            assert await asyncio.wait_for(asked, LIMIT) == (["yes"], "")

    asyncio.run(work())


def test_a_key_behind_the_terminals_own_answer_is_one() -> None:
    async def work() -> None:
        async with running(Terminal()) as (screen, keyboard):
            screen.pause = 2.0
            await until(lambda: screen.app.renderer.waiting_for_cpr)
            keyboard.send_text("\x1b[5;1Ry")
            panel = really()
            asked = asyncio.ensure_future(answer_of(screen, panel))
            await until(lambda: screen.buffer.text == "y")
            assert not panel.answered.done(), "the key was there before the question"
            await until(lambda: screen.answers())
            keyboard.send_text("\x1b[B\x1b[B\r")  # the first arrow marks what Enter would give, the second moves on
            assert await asyncio.wait_for(asked, LIMIT) == (["no"], "")
            assert screen.buffer.text == "y", "what was typed before is in the input again"

    asyncio.run(work())


def test_who_types_when_a_question_appears_goes_on_typing() -> None:
    async def work() -> None:
        async with running(DummyOutput()) as (screen, keyboard):
            screen.pause = 2.0
            keyboard.send_text("a")
            await until(lambda: screen.buffer.text == "a")
            panel = really()
            asked = asyncio.ensure_future(answer_of(screen, panel))
            keyboard.send_text("y\r")
            await until(lambda: screen.queue == ["ay"])
            assert not panel.answered.done(), "the key belongs to the message that was being typed"
            await until(lambda: screen.answers())
            keyboard.send_text("y\r")
            assert await asyncio.wait_for(asked, LIMIT) == (["yes"], "")
            again = asyncio.ensure_future(answer_of(screen, Panel("and now?", panel.options)))
            await until(lambda: screen.answers())
            assert not screen.hint, "who answered the question before is not typing"
            keyboard.send_text("n\r")
            assert await asyncio.wait_for(again, LIMIT) == (["no"], "")

    asyncio.run(work())


GRANTS = (
    Option("y", "yes", "yes"),
    Option("a", "yes, always in this session", "session"),
    Option("p", "yes, always in this project", "project"),
    Option("n", "no", "no"),
    Option("i", "no, and say what to do instead", "instead", writes=True),
)
SENTENCES = ("also stop that", "pick p", "yes, but later", "A", "npx first", "2 more things", "fetch docs")


def test_no_sentence_answers_a_question() -> None:
    """Whatever it begins with: it is the next message, and the question waits."""

    async def work() -> None:
        async with running(DummyOutput()) as (screen, keyboard):
            panel = Panel("May it?", GRANTS)
            asked = asyncio.ensure_future(answer_of(screen, panel))
            await until(lambda: screen.answers())
            for sentence in SENTENCES:
                keyboard.send_text(sentence)
                await until(lambda sentence=sentence: panel.typed == sentence)
                keyboard.send_text("\r\r")  # nor does a second Enter
                await until(lambda: panel.marked)
            assert screen.queue == list(SENTENCES)
            assert not panel.answered.done()
            keyboard.send_text("\r")
            assert await asyncio.wait_for(asked, LIMIT) == (["yes"], "")

    asyncio.run(work())


def test_a_letter_a_number_or_a_word_marks_an_answer_and_enter_gives_it() -> None:
    async def work() -> None:
        async with running(DummyOutput()) as (screen, keyboard):
            for typed, value in (
                ("a", "session"),
                ("3", "project"),
                ("no", "no"),
                ("N\x7fn", "no"),
                ("\x1b[A\x1b[A", "no"),
            ):
                panel = Panel("May it?", GRANTS)
                asked = asyncio.ensure_future(answer_of(screen, panel))
                await until(lambda: screen.answers())
                keyboard.send_text(typed)
                await until(lambda panel=panel, value=value: panel.marked and GRANTS[panel.at].value == value)
                assert not panel.answered.done()
                keyboard.send_text("\r")
                assert await asyncio.wait_for(asked, LIMIT) == ([value], "")
            assert (screen.queue, screen.buffer.text) == ([], "")

    asyncio.run(work())


def test_words_at_a_question_can_say_what_to_do_instead() -> None:
    async def work() -> None:
        async with running(DummyOutput()) as (screen, keyboard):
            asked = asyncio.ensure_future(answer_of(screen, Panel("May it?", GRANTS)))
            await until(lambda: screen.answers())
            keyboard.send_text("use make\x1b[A\x1b[A\r please\r")
            assert await asyncio.wait_for(asked, LIMIT) == (["instead"], "use make please")

    asyncio.run(work())


def test_what_is_being_typed_when_a_question_appears_does_not_answer_it_after_a_pause() -> None:
    async def work() -> None:
        async with running(DummyOutput()) as (screen, keyboard):
            screen.pause = 0.1
            keyboard.send_text("fetch ")
            await until(lambda: screen.buffer.text == "fetch ")
            panel = Panel("May it?", GRANTS)
            asked = asyncio.ensure_future(answer_of(screen, panel))
            await until(lambda: screen.answers())
            keyboard.send_text("docs\r")
            await until(lambda: screen.queue == ["fetch docs"])
            keyboard.send_text("half a\x1b[200~\ny\x1b[201~")
            await until(lambda: panel.typed == "half a y")
            keyboard.send_text("\x03")
            assert await asyncio.wait_for(asked, LIMIT) == ([], "")
            assert screen.buffer.text == "half a y", "what was not sent is in the input"

    asyncio.run(work())
