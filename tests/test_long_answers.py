"""The time that an answer takes grows with its length and not with its square, whatever is in it and whoever shows it.

Measured in CPU seconds of this process: four times the text may take at most seven times as long.
"""

import asyncio
import contextlib
import io
import time
from collections.abc import Callable, Iterable

from adderclaw.agent.conversation.updates import Updates
from adderclaw.agent.session.clock import SystemClock
from adderclaw.clients.acp.updates import Teller
from adderclaw.core.deltas import WholeWords
from adderclaw.core.redaction import Secrets, mask_secret_shapes, settled_length
from adderclaw.core.types import Delta
from adderclaw.models.providers import gemini_reply, openai_reply
from adderclaw.models.providers.text_calls import TextCallFilter
from adderclaw.models.providers.wire import Wire, endpoint
from adderclaw.terminal.one_shot import AnswerPrinter
from adderclaw.terminal.repl.markdown import Block, RenderStyle, Stream, render, tail_lines
from tests.rows import rows

PIECE = 7


def is_proportional(work: Callable[[int], object], size: int) -> None:
    """Four times `size` takes less than seven times as long; a second look, since the machine does other things."""
    for last in (False, True):
        few, many = cpu(work, size), cpu(work, 4 * size)
        if many < 7 * few + 0.1:
            return
        assert not last, f"{size} characters took {few:.2f} s, four times as many {many:.2f} s"


def cpu(work: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    work(size)
    return time.process_time() - began


def filled(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def pieces(text: str) -> Iterable[str]:
    return (text[place : place + PIECE] for place in range(0, len(text), PIECE))


@rows(
    "unit, size",
    [
        ('{"a":[1,2,3]},', 10_000),
        ("z", 20_000),
        ("MIIEvQIBADANBgkqh kiG9w0BAQ\n", 10_000),
        ("words with blanks ", 20_000),
        ("日本語", 20_000),
    ],
)
def test_an_answer_is_passed_on_word_by_word(unit: str, size: int) -> None:
    def passed_on(size: int) -> None:
        heard: list[str] = []
        secrets = Secrets()
        words = WholeWords(lambda delta: heard.append(delta.text), secrets.redact, settled_length)
        text = ("-----BEGIN PRIVATE KEY-----\n" if unit.startswith("MII") else "") + filled(unit, size)
        for piece in pieces(text):
            words(Delta("text", piece))
        words.end()
        assert "".join(heard) == secrets.redact(text)

    is_proportional(passed_on, size)


REPEATED = (
    "-",
    "- ",
    "token=",
    "token: ",
    "sk-",
    "sk-1",
    "eyJ-",
    "eyJabcdefgh.",
    "bearer ",
    "bearer-",
    "basic/",
    "://",
)
KEYS = ("-----BEGIN PRIVATE KEY-----\n", "-----BEGIN A PRIVATE KEY-----", "-----B")


@rows("unit", [*REPEATED, *KEYS])
@rows("end", ["", ",", "x ,\n"], ids=["nothing", "a comma", "a line end"])
def test_what_may_be_a_secret_is_found_in_one_pass(unit: str, end: str) -> None:
    is_proportional(lambda size: settled_length(filled(unit, size) + end), 10_000)
    is_proportional(lambda size: mask_secret_shapes(filled(unit, size) + end), 10_000)


def wire() -> Wire:
    place = endpoint("http://127.0.0.1:9/v1", "/x")
    return Wire("test", place, Secrets(), SystemClock(), timeout=1, max_bytes=1 << 24)


def test_the_thoughts_of_a_router_are_joined_once() -> None:
    def read(size: int) -> None:
        answer = openai_reply.Answer(wire(), lambda _delta: None)
        for piece in pieces(filled("a thought ", size)):
            detail = {"type": "reasoning.text", "index": 0, "text": piece}
            answer.take({"choices": [{"delta": {"reasoning_details": [detail]}}]})
        [kept] = answer.opaque("openai")
        assert kept.payload["reasoning_details"][0]["text"] == filled("a thought ", size)

    is_proportional(read, 400_000)


def test_the_thoughts_of_gemini_are_joined_once() -> None:
    def read(size: int) -> None:
        answer = gemini_reply.Answer(wire(), lambda _delta: None)
        for piece in pieces(filled("a thought ", size)):
            answer.take({"candidates": [{"content": {"parts": [{"text": piece, "thought": True}]}}]})
        [kept] = answer.opaque(())
        assert kept.payload["parts"][0]["part"]["text"] == filled("a thought ", size)

    is_proportional(read, 400_000)


def shown_in_lines(size: int) -> None:
    shown = AnswerPrinter()
    with contextlib.redirect_stdout(io.StringIO()):
        for piece in pieces(filled("a word ", size)):
            shown(Delta("text", piece))
    assert len(shown.text) == size


def told_to_an_editor(size: int) -> None:
    teller = Teller("/")
    for piece in pieces(filled("a word ", size)):
        teller.delta(Delta("text", piece))


def held_behind_a_curtain(size: int) -> None:
    curtain, text = TextCallFilter(), filled("a word ", size)
    assert "".join(curtain.show(piece) for piece in pieces(text)) + curtain.rest(text) == text


def followed_by_many(size: int) -> None:
    async def followed() -> list[int]:
        updates = Updates()

        async def follower() -> int:
            return sum([len(update.data["text"]) async for update in updates.follow(0)])

        followers = [asyncio.create_task(follower()) for _ in range(3)]
        await asyncio.sleep(0)
        for number, piece in enumerate(pieces(filled("a word ", size))):
            updates.delta("text", piece)
            if not number % 100:
                await asyncio.sleep(0)
        updates.end()
        return await asyncio.gather(*followers)

    assert asyncio.run(followed()) == [size] * 3


@rows(
    "shows", [shown_in_lines, told_to_an_editor, held_behind_a_curtain, followed_by_many], ids=lambda one: one.__name__
)
def test_whoever_shows_an_answer_copies_no_part_of_it_with_each_piece(shows: Callable[[int], None]) -> None:
    is_proportional(shows, 250_000)


MARKDOWN = {
    "a table": ("| a | b |\n|---|---|\n", "| one | two words |\n"),
    "one item": ("- first\n", "  goes on here with more words\n"),
    "a quotation": ("", "> quoted words in a line of forty characters\n"),
    "HTML": ("<div>\n", "words in html\n"),
    "a heading": ("# ", "words in it "),
    "one line of code": ("```json\n", '{"a": 1}, '),
    "indented code": ("", "    indented code of a line\n"),
    "lines": ("", "some words of a line that has about sixty characters in it\n"),
}


@rows("name", MARKDOWN)
def test_the_terminal_parses_a_block_again_only_when_it_has_grown(name: str) -> None:
    first, unit = MARKDOWN[name]

    def fed(size: int) -> None:
        stream, blocks = Stream(), list[Block]()
        text = first + filled(unit, size)
        for piece in pieces(text):
            blocks += stream.feed(piece)
        assert len(tail_lines(stream.rest).source) < 10_000
        blocks += stream.end()
        assert sum(len(block.source) for block in blocks) >= size

    is_proportional(fed, 6_000)


def test_what_arrives_in_a_long_fence_is_drawn_as_code() -> None:
    code = "```python\n" + "x = 1 # *not* emphasis " * 1_000
    shown = render(tail_lines(Block(code)), RenderStyle(80, colours=False))
    assert shown.rstrip().endswith("x = 1 # *not* emphasis")
    assert len(shown) < 10_000
