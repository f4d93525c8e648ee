"""Tab takes what the menu offers first, also where the menu is still being made."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.output import DummyOutput

from adderclaw.terminal.repl.keys import reload_names
from tests.terminal.test_question_keys import running, until


class Slow(Completer):
    """One completion of a name, which comes when the test lets it."""

    def __init__(self) -> None:
        self.asked, self.known = 0, asyncio.Event()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return []

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        self.asked += 1
        await self.known.wait()
        if document.text == "@sh":
            yield Completion("@shot.png ", -3)


@pytest.mark.parametrize(("keys", "left"), [("\t", "@shot.png "), ("\t!", "@sh!"), ("", "@sh")])
def test_tab_before_the_menu_is_there(keys: str, left: str) -> None:
    async def work() -> None:
        slow = Slow()
        buffer = Buffer(multiline=True, completer=slow, complete_while_typing=True)
        async with running(DummyOutput(), buffer) as (_screen, keyboard):
            keyboard.send_text("@sh")
            await until(lambda: slow.asked > 0)
            keyboard.send_text(keys)
            await until(lambda: buffer.text == f"@sh{keys.strip()}")
            await asyncio.sleep(0.05)  # for a key that changes nothing yet
            slow.known.set()
            await until(lambda: buffer.complete_state is None or bool(buffer.complete_state.completions))
            await until(lambda: buffer.text == left)

    asyncio.run(work())


def test_tab_while_the_menu_is_made_anew() -> None:
    async def work() -> None:
        slow = Slow()
        slow.known.set()
        buffer = Buffer(multiline=True, completer=slow, complete_while_typing=True)
        async with running(DummyOutput(), buffer) as (_screen, keyboard):
            keyboard.send_text("@sh")
            await until(lambda: buffer.complete_state is not None and bool(buffer.complete_state.completions))
            slow.known.clear()
            reload_names(buffer)  # more files are known
            await until(lambda: slow.asked > 1)
            keyboard.send_text("\t")
            await asyncio.sleep(0.05)
            slow.known.set()
            await until(lambda: buffer.text == "@shot.png ")

    asyncio.run(work())
