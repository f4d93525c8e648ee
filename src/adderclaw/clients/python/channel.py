"""The interface of channels, which connect people to a conversation; docs/channels.md shows how to write one."""

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Protocol, runtime_checkable

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run import Run
from adderclaw.agent.run.drive import drive, one_turn
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import TurnResult
from adderclaw.agent.tool_call.approvals import NoOperator, displayed_request, questions_text, refuse_unaskable
from adderclaw.core.deltas import MUCH, GrowingText
from adderclaw.core.questions import Answer, ApprovalRequest, Operator, QuestionRequest
from adderclaw.core.types import Delta, OnDelta


class Channel(Protocol):
    """A channel. It gets a conversation, and sends messages to it until it ends."""

    @property
    def name(self) -> str:
        """Its name in rows, receipts and events."""
        ...

    @property
    def supports_draft_updates(self) -> bool:
        """Whether it can show an answer while it is written. If so, and it has a method `draft`, that is called."""
        ...

    def start(self, handle: "Handle") -> int:
        """Hold the conversation; returns the exit code at the end."""
        ...

    def send(self, conversation_id: str, message: str) -> None:
        """Show a message of the conversation."""
        ...


@runtime_checkable
class Drafts(Protocol):
    """A channel that shows an answer while it is written."""

    def draft(self, conversation_id: str, text: str) -> None:
        """Show the answer so far; `send` is called when it is complete."""
        ...


@runtime_checkable
class Approves(Protocol):
    """A channel that can ask a person for approval. On other channels, calls that need approval are denied."""

    def approve(self, conversation_id: str, question: str) -> bool | Awaitable[bool]:
        """Show the complete question and wait for the answer."""
        ...


class Handle:
    """The conversation of a channel."""

    def __init__(self, channel: Channel, run: Run) -> None:
        self.channel, self.run = channel, run

    @property
    def conversation_id(self) -> str:
        return self.run.session.conversation_id

    def hold(self, messages: Iterable[str] | AsyncIterable[str]) -> int:
        """Run a turn for each message in order, and pass each answer to `send`; returns the exit code."""
        return asyncio.run(self._ended(messages))

    async def _ended(self, messages: Iterable[str] | AsyncIterable[str]) -> int:
        work: Awaitable[TurnResult] = self._held(messages)
        if threading.current_thread() is threading.main_thread():  # so that Ctrl-C ends it cleanly
            work = until_signal(self.run, work)
        return (await drive(self.run, work)).exit_code

    async def _held(self, messages: Iterable[str] | AsyncIterable[str]) -> TurnResult:
        last = TurnResult("completed", "")
        await lifecycle.run_start_hooks(self.run.session)
        async for text in _each(messages):
            if text.strip():
                last = await self.answered(text)
        return last

    async def answered(self, text: str) -> TurnResult:
        """Run one turn. A channel with its own event loop calls this instead of `hold`, and drives the run itself."""
        session = self.run.session
        session.budget.restart_limits()

        def work(hear: OnDelta) -> Awaitable[TurnResult]:
            return run_turn(session, text, hear)

        result, rest = await one_turn(session, work, self._drafting())
        why = f"[{result.outcome}] {result.reason}" if result.outcome != "completed" and result.reason else ""
        answer = rest or session.secrets.redact(result.answer)
        self.channel.send(self.conversation_id, "\n".join(filter(None, [answer, session.secrets.redact(why)])))
        return result

    def _drafting(self) -> "_Draft | None":
        channel = self.channel
        if not channel.supports_draft_updates or not isinstance(channel, Drafts):
            return None
        return _Draft(lambda text: channel.draft(self.conversation_id, self.run.session.secrets.redact(text)))


class _Draft:
    def __init__(self, show: Callable[[str], None]) -> None:
        self._show, self._text = show, GrowingText()
        self._size = self._show_from = 0

    @property
    def text(self) -> str:
        return str(self._text)

    def __call__(self, delta: Delta) -> None:
        if delta.kind == "reset":
            self._text.clear()
            self._size = self._show_from = 0
        elif delta.kind == "text":
            self._text.add(delta.text)
            self._size += len(delta.text)
            if self._size >= self._show_from:  # a draft is the whole text, so a long one is shown less often
                self._show_from = self._size * 9 // 8 if self._size > MUCH else 0
                self._show(self.text)


async def _each(messages: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(messages, AsyncIterable):
        async for text in messages:
            yield text
    else:
        for text in messages:
            yield text


class ChannelOperator:
    """The operator behind a channel that can ask for approval."""

    def __init__(self, asks: Approves, send: Callable[[str, str], None], conversation: Callable[[], str]) -> None:
        self._asks, self._send, self._conversation = asks, send, conversation

    async def approve(self, request: ApprovalRequest) -> Answer:
        if (refused := refuse_unaskable(request)) is not None:
            return refused
        seen = displayed_request(request)
        answer = self._asks.approve(self._conversation(), "\n".join([seen.head, seen.text, *seen.marks]))
        return Answer((await answer if isinstance(answer, Awaitable) else answer) is True, "operator")

    async def ask(self, request: QuestionRequest) -> Answer:
        """Show the question without waiting: a channel can answer only with yes or no."""
        self._send(self._conversation(), questions_text(request.questions))
        return Answer(approved=False, by="no_operator")


def operator_of(channel: Channel, conversation: Callable[[], str]) -> Operator:
    if isinstance(channel, Approves):
        return ChannelOperator(channel, channel.send, conversation)
    return NoOperator(waits=False)
