"""A key that was meant for the input answers no question, however late the question came."""

import asyncio
from collections.abc import Callable

from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from adderclaw.channels.repl.chips import Chips
from adderclaw.channels.repl.keys import Doing, Keys
from adderclaw.channels.repl.manner import Manner
from adderclaw.channels.repl.panel import Option, Panel, answered
from adderclaw.channels.repl.screen import Screen

LIMIT = 30.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.01)


def test_who_types_when_a_question_appears_goes_on_typing() -> None:
    async def work() -> None:
        with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=DummyOutput()):
            screen = Screen(Manner(), Buffer(multiline=True), list)
            screen.app.key_bindings = Keys(screen, Chips(), Doing(lambda: False, lambda: None, lambda: None)).bindings
            screen.app.output = screen.app.renderer.output = DummyOutput()
            screen.pause = 2.0
            shown = asyncio.ensure_future(screen.app.run_async())
            keyboard.send_text("a")
            await until(lambda: screen.buffer.text == "a")
            panel = Panel("really?", (Option("y", "yes", "yes"), Option("n", "no", "no")))
            asked = asyncio.ensure_future(answered(screen, panel))
            keyboard.send_text("y\r")
            await until(lambda: screen.queue == ["ay"])
            assert not panel.answered.done(), "the key belongs to the message that was being typed"
            await until(lambda: screen.answers())
            keyboard.send_text("y")
            assert await asyncio.wait_for(asked, LIMIT) == (["yes"], "")
            again = asyncio.ensure_future(answered(screen, Panel("and now?", panel.options)))
            await until(lambda: screen.answers())
            assert not screen.hint, "who answered the question before is not typing"
            keyboard.send_text("n")
            assert await asyncio.wait_for(again, LIMIT) == (["no"], "")
            screen.app.exit()
            await shown

    asyncio.run(work())
