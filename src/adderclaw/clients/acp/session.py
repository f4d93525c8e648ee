"""One session of an editor: sends it a conversation's updates and questions, and takes its prompts."""

import asyncio
import sys
from collections.abc import Awaitable
from contextlib import suppress
from secrets import token_hex
from typing import Any, cast

from acp import RequestError, schema
from acp.interfaces import Client

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.conversation.updates import Update
from adderclaw.agent.run import Run
from adderclaw.agent.run.hook_calls import call_by_hand
from adderclaw.agent.session.session import Attached, Session, TurnResult
from adderclaw.agent.tool_call.approvals import AnswerRejected
from adderclaw.agent.view.items import Item
from adderclaw.agent.view.rows import Rows
from adderclaw.clients.acp import asking, choices, prompts, updates
from adderclaw.core import framing
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.events import EventRecord
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, answer_with
from adderclaw.core.tool_traits import READ
from adderclaw.core.types import Delta, MediaBlock, Usage

MOST_LINKS = 20
"""How many files that a prompt names are read for it; further names stay text."""


class EditorSession:
    """Connects an editor to one conversation."""

    def __init__(self, conversation: Conversation, editor: Client, client: str) -> None:
        self._conversation, self._editor, self._client = conversation, editor, client
        self._teller = updates.Teller(self.session.environment.context.workspace.root)
        self._seen = asyncio.Condition()
        self._at = conversation.updates.last
        """The id of the last update sent to the editor."""
        self._mode = choices.mode_now(self.session)
        self._commands: schema.AvailableCommandsUpdate | None = None
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._preparing: asyncio.Task[Any] | None = None
        """Work for a prompt before its turn begins."""
        self._turn = ""
        self._busy = self._cancelled = False
        self._stop = ""
        """The stop reason of the model's last reply."""
        self.run.runtime.bus.add_sink("acp", self._on_event)
        self._following = asyncio.ensure_future(self._follow())

    @property
    def id(self) -> str:
        return self._conversation.id

    @property
    def run(self) -> Run:
        run = self._conversation.run
        if run is None:
            raise UsageError(f"the session {self.id} has ended; load it again")
        return run

    @property
    def session(self) -> Session:
        return self.run.session

    async def close(self) -> None:
        await self._conversation.close("closed in the editor")
        await self.leave()

    async def leave(self) -> None:
        """Stop sending updates."""
        for task in (self._following, *self._asked.values()):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    # -------------------------------------------------------------- updates

    def _on_event(self, record: EventRecord) -> None:
        if record.event_type == "llm_response_received" and record.session_id == self.session.session_id:
            self._stop = str(record.payload.get("stop_reason", ""))

    async def tell(self, update: Any) -> None:
        await self._editor.session_update(self.id, update)

    async def replay(self) -> None:
        """Send the stored conversation."""
        rows = Rows(self.session.store, self.session.secrets.clean, self.session.environment.context.workspace.root)
        for item in rows.conversation(self.id):
            for update in self._teller.replayed(item):
                await self.tell(update)

    async def announce(self) -> None:
        """Send the list of commands if it has changed."""
        with suppress(AdderClawError, OSError):
            commands = await choices.commands(self.run)
            if commands != self._commands:
                self._commands = commands
                await self.tell(commands)

    async def _follow(self) -> None:
        try:
            async for update in self._conversation.follow(self._at):
                with suppress(OSError):  # the editor has closed its end
                    await self._send_update(update)
                await self._passed(update.id)
        finally:
            await self._passed(sys.maxsize)

    async def _passed(self, id: int) -> None:
        async with self._seen:
            self._at = id
            self._seen.notify_all()

    async def _send_update(self, update: Update) -> None:
        match update.kind:
            case "delta":
                messages = self._teller.delta(Delta(update.data["kind"], update.data["text"]))
            case "item":
                messages = self._teller.item(cast(Item, update.data))
            case "ended":
                messages = self._teller.unended()
            case "question":
                messages = []
                self._ask(update.data.id)
            case "answered":
                messages = []
                if (task := self._asked.get(str(update.data["id"]))) is not None:
                    task.cancel()
            case "dropped":
                messages = [updates.lost()]
            case _:
                messages = []
        for message in messages:
            await self.tell(message)
        await self._tell_mode()

    async def _tell_mode(self) -> None:
        if self._conversation.run is None or (now := choices.mode_now(self.session)) == self._mode:
            return
        self._mode = now
        await self.tell(schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=now))
        await self.tell_options()

    async def tell_options(self) -> None:
        options = choices.options(self.session)
        await self.tell(schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options))

    async def _caught_up(self) -> None:
        """Wait until all updates so far were sent to the editor."""
        last = self._conversation.updates.last
        async with self._seen:
            await self._seen.wait_for(lambda: self._at >= last)

    # -------------------------------------------------------------- questions

    def _ask(self, id: str) -> None:
        task = self._asked[id] = asyncio.ensure_future(self._answered(id))
        task.add_done_callback(lambda _done: self._asked.pop(id, None))

    async def _answered(self, id: str) -> None:
        """Ask the editor and answer the question with its response; an invalid response is a no."""
        request = self._conversation.questions.get(id)
        if request is None:
            return
        try:
            answer = await (self._approve(request) if isinstance(request, ApprovalRequest) else self._choose(request))
        except (RequestError, ValueError, OSError) as error:
            why = f"the editor did not answer: {type(error).__name__}"
            answer = Answer(approved=False, by="no_operator", comment=why)
        with suppress(AnswerRejected):  # another process answered first
            self._conversation.answer(id, answer, self._client, granted=True)

    async def _approve(self, request: ApprovalRequest) -> Answer:
        root = self.session.environment.context.workspace.root
        about, offered = asking.about(request, root), asking.options(request)
        return asking.answer(request, await self._editor.request_permission(self.id, about, offered))

    async def _choose(self, request: QuestionRequest) -> Answer:
        """Ask one question after the other; if one has no answer, the whole request has none."""
        replies: dict[str, str] = {}
        for question in request.questions:
            about, offered = asking.asked(request, question), asking.choices(question)
            chosen = asking.reply(question, await self._editor.request_permission(self.id, about, offered))
            if chosen is None:
                return answer_with(None)
            replies[question.question] = chosen
        return answer_with(replies)

    # -------------------------------------------------------------- prompts

    @property
    def busy(self) -> bool:
        return self._busy

    async def prompt(self, blocks: list[prompts.Block]) -> schema.PromptResponse:
        if self._busy:
            raise UsageError("this session is answering another prompt; wait for its end, or cancel it")
        self._busy, self._cancelled, self._turn, self._stop = True, False, "", ""
        try:
            return await self._prompted(prompts.read(blocks))
        finally:
            self._busy, self._turn = False, ""

    def cancel(self) -> None:
        """Cancel the work on the prompt; its response says so."""
        if not self._busy:
            return
        self._cancelled = True
        if self._preparing is not None:
            self._preparing.cancel()
        if self._turn:
            self._conversation.interrupt(self._client, turn=self._turn, granted=True)

    async def _prompted(self, request: prompts.ParsedPrompt) -> schema.PromptResponse:
        run = self.run
        try:
            text = await self._prepared(choices.expanded(run, request.text))
            attached = await self._prepared(self._attached(run, request)) if text is not None else Attached()
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
            return schema.PromptResponse(stop_reason="cancelled")
        before = run.session.budget.usage
        if self._cancelled:
            return schema.PromptResponse(stop_reason="cancelled")
        if text is None:
            size = run.session.state.history.size
            await self.tell(updates.note(f"the history sent to the model now has {size:,} bytes"))
            return schema.PromptResponse(stop_reason="end_turn")
        text = text if text.strip() else "See the attachments." if attached != Attached() else text
        self._turn = await self._conversation.send(text, client=self._client, attached=attached, granted=True)
        if self._cancelled:  # cancelled while the message was being queued
            self.cancel()
        result = await self._conversation.ended(self._turn)
        await self._caught_up()
        return await self._end(run, result, before)

    async def _prepared[T](self, work: Awaitable[T]) -> T:
        self._preparing = asyncio.ensure_future(work)
        try:
            return await self._preparing
        finally:
            self._preparing = None

    async def _attached(self, run: Run, request: prompts.ParsedPrompt) -> Attached:
        """Embedded resources, and the content of linked files: each is read by a judged Read call with a receipt."""
        texts, media = list(request.texts), list[MediaBlock](request.media)
        for link in request.links[:MOST_LINKS]:
            run.session.budget.restart_limits()
            why = f"named in a prompt in {self._client}"
            call = await call_by_hand(run.runtime, run.session, READ, link.arguments, run.session.operator, why)
            done = call.finished
            texts.append(framing.attachment(f"{link.path}:\n{framing.framed(token_hex(8), done.result.content)}"))
            media += done.result.media
        if media and not run.session.provider.capabilities().images:
            await self.tell(updates.note(f"{run.session.model} does not support images; they were left out"))
            media = []
        return Attached(tuple(texts), tuple(media))

    async def _end(self, run: Run, result: TurnResult, before: Usage) -> schema.PromptResponse:
        await self._tell_usage(run)
        if result.outcome == "error":
            if result.ended_by in ("missing_key", "authentication_failed"):
                raise RequestError(-32000, result.reason)
            raise RequestError(-32603, result.reason)
        reason = updates.stop_reason(result, self._stop, cancelled=self._cancelled)
        if reason != "cancelled" and result.outcome not in ("completed", "denied"):
            await self.tell(updates.note(f"{result.outcome}: {result.reason}"))
        await self.announce()
        meta = {} if result.outcome == "completed" else {"outcome": result.outcome, "reason": result.reason}
        used = updates.usage(run.session.budget.usage, before)
        return schema.PromptResponse(stop_reason=reason, usage=used, field_meta=meta or None)

    async def _tell_usage(self, run: Run) -> None:
        size = run.session.provider.capabilities().context_tokens
        busy = self._conversation.busy
        if busy is None or not busy.context or not size:
            return
        cost = schema.Cost(amount=run.session.budget.cost, currency="USD") if run.session.budget.cost else None
        await self.tell(
            schema.UsageUpdate(session_update="usage_update", used=min(busy.context, size), size=size, cost=cost)
        )
