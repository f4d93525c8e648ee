"""One turn of the agent for an OpenAI-compatible client: opened, followed to its end, closed."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Literal

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.run.start import loaded_by
from adderclaw.agent.view.items import Call
from adderclaw.core.deltas import GrowingText
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Outcome
from adderclaw.server import client_scope
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.openai.requests import CompletionRequest
from adderclaw.server.refusal import Refusal, not_found
from adderclaw.storage import transcript
from adderclaw.storage.queries import conversations
from adderclaw.storage.text import plain

AGENT_MODEL = "adderclaw"
"""The name of the model for the agent as it is configured."""
HEARTBEAT_SECONDS = 15.0
"""Seconds without text after which a stream sends a comment."""

LONGEST_VALUE = 512
"""The longest value in the API's metadata, in characters."""
type Reason = Literal["stop", "length", "content_filter"]
"""content_filter: the agent's last action was denied; the API has no other value for that."""
REASONS: dict[Outcome, Reason] = {"limit": "length", "denied": "content_filter"}

_closing: set["asyncio.Task[None]"] = set()


class Usage(NamedTuple):
    input: int
    cached: int
    output: int


class TextDelta(NamedTuple):
    text: str


class Heartbeat(NamedTuple):
    """Nothing new arrived for a while."""

    seconds: float


class TurnEnd(NamedTuple):
    answer: str
    rest: str
    """The part of the answer that was not in the text deltas."""
    reason: Reason
    usage: Usage
    metadata: dict[str, str]
    """Values without a field in the API: an outcome other than success with its reason, and the denied calls."""


def models(request: ApiRequest) -> list[str]:
    """The models: the agent as it is configured, and with each configured provider."""
    options = client_scope.options_for(request)
    known = loaded_by(options, options.workspace, options.overrides, here=True).config.providers.models
    return [AGENT_MODEL, *(f"{AGENT_MODEL}/{name}" for name in known)]


class Turn:
    """A running turn. It asks no questions; without the scope `operate` it is read-only."""

    def __init__(self, request: ApiRequest, conversation: Conversation, model: str) -> None:
        self.request, self.conversation, self.model = request, conversation, model
        self.created = int(time.time())
        self.number = 1 + conversations.turn_count(request.state.store, conversation.id)
        """The number of the turn in its conversation."""
        self._after = conversation.updates.last
        self._turn = ""
        self._sent = GrowingText()
        self._breaks = False
        """Whether the next text begins another reply, because the agent called tools or retried."""
        self._denied: dict[str, str] = {}
        """Id of a denied call → its tool and the reason."""

    @staticmethod
    async def begin(request: ApiRequest, prompt: CompletionRequest, model: str, resume: str | None = None) -> "Turn":
        if model not in models(request):
            raise Refusal(404, "model_not_found", f"there is no model {model!r}: GET /v1/models lists them")
        client, state = request.client, request.state
        mine = resume is not None and transcript.client_of(state.store, resume) == client.id
        here = state.conversations.get(resume) if resume is not None and mine else None
        if here is not None and here.run is not None:
            raise Refusal(
                409, "conflict", f"{resume} is still running: wait for its answer, then continue from that one"
            )
        held = None if resume is None else transcript.workspace_of(state.store, resume)
        conversation = await state.conversations.open(
            client.id,
            workspace=state.folder_for(client, held),
            profile=None if client.has("operate") else "readonly",
            provider=model.partition("/")[2] or None,
            resume=resume,
            asks=False,
            options=state.options,  # each request names its model
        )
        turn = Turn(request, conversation, model)
        try:
            turn._turn = await conversation.send(prompt.text, client=client.id, attached=prompt.attached)
        except BaseException:
            turn.close_conversation()
            raise
        return turn

    async def updates(self) -> AsyncGenerator[TextDelta | Heartbeat | TurnEnd]:
        """Yield the agent's text as it arrives, then the end of the turn. Raises Refusal if there is no answer."""
        updates = self.conversation.follow(self._after)
        waiting: asyncio.Task[Any] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(updates))
                done, _ = await asyncio.wait({waiting}, timeout=HEARTBEAT_SECONDS)
                if not done:
                    yield Heartbeat(HEARTBEAT_SECONDS)
                    continue
                update, waiting = waiting.result(), None
                if update.kind == "delta" and update.data["kind"] == "text":
                    yield TextDelta(self._text_delta(update.data["text"]))
                elif update.kind in ("item", "delta"):
                    self._breaks = True
                    if isinstance(update.data, Call) and update.data.state == "denied":
                        self._denied[update.data.key] = f"{update.data.tool}: {update.data.verdict}"
                elif update.kind == "ended" and update.data["turn"] == self._turn:
                    await self.conversation.close()  # so that the client can continue it as soon as it has read this
                    yield self._turn_end(update.data)
                    return
        except StopAsyncIteration:
            raise Refusal(503, "ending", "the server is shutting down: the turn was interrupted") from None
        finally:
            if waiting is not None:
                waiting.cancel()
            self.close_conversation()

    def _text_delta(self, text: str) -> str:
        text = f"\n\n{text}" if self._breaks and self._sent else text
        self._breaks = False
        self._sent.add(text)
        return text

    def _turn_end(self, data: dict[str, Any]) -> TurnEnd:
        outcome: Outcome = data["outcome"]
        answer: str = data["answer"]
        if outcome not in ("completed", "limit", "denied") or not answer:
            raise _refusal_of(outcome, data["reason"])
        rest = "" if str(self._sent).endswith(answer) else f"\n\n{answer}" if self._sent else answer
        used: dict[str, int] = data.get("usage") or {}
        read, written = used.get("cache_read_tokens", 0), used.get("cache_write_tokens", 0)
        usage = Usage(used.get("input_tokens", 0) + read + written, read, used.get("output_tokens", 0))
        metadata = {} if outcome == "completed" else {"outcome": outcome, "reason": data["reason"]}
        if self._denied:
            metadata["denied"] = "\n".join(self._denied.values())
        if used.get("estimated"):
            metadata["usage"] = "estimated"
        metadata = {name: value[:LONGEST_VALUE] for name, value in metadata.items()}
        return TurnEnd(answer, rest, REASONS.get(outcome, "stop"), usage, metadata)

    async def wait_for_end(self) -> TurnEnd:
        """Wait for the end of the turn; interrupt it if the client disconnects."""
        gone = asyncio.ensure_future(self._wait_for_disconnect())
        whole = asyncio.ensure_future(self._last_update())
        try:
            await asyncio.wait({gone, whole}, return_when=asyncio.FIRST_COMPLETED)
            if not whole.done():
                raise Refusal(400, "gone", "the client disconnected before the answer was complete")
            return whole.result()
        finally:
            gone.cancel()
            whole.cancel()
            self.close_conversation()

    async def _last_update(self) -> TurnEnd:
        async for update in self.updates():
            if isinstance(update, TurnEnd):
                return update
        raise AssertionError("a turn always ends")

    async def _wait_for_disconnect(self) -> None:
        while (await self.request.http.receive())["type"] != "http.disconnect":
            pass

    def close_conversation(self) -> None:
        """Close the conversation in the background; a running turn is interrupted."""

        async def close() -> None:
            with suppress(AdderClawError):
                await self.conversation.close("the client went away")

        task = asyncio.get_running_loop().create_task(close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


def _refusal_of(outcome: Outcome, reason: str) -> Refusal:
    match outcome:
        case "limit":
            return Refusal(429, "limit", reason or "a limit of the agent is reached")
        case "stopped":
            return Refusal(503, "stopped", reason or "the agent was stopped")
        case "denied":
            return Refusal(403, "denied", reason or "an action of the agent was denied")
        case _:
            return Refusal(502, "agent_error", reason or "the agent returned no answer")


def response_id(turn: Turn) -> str:
    return f"resp_{turn.number}_{turn.conversation.id}"


def conversation_of_response(request: ApiRequest, id: str) -> str:
    """The conversation whose last response this is."""
    store = request.state.store
    mark, _, rest = id.partition("_")
    number, _, conversation = rest.partition("_")
    turns = conversations.turn_count(store, plain(conversation))
    if mark != "resp" or not turns or not number.isascii() or not number.isdecimal() or len(number) > 15:
        raise not_found("response", id)
    if turns != int(number):
        why = "it is not the last response of its conversation: only the last one can be continued"
        raise Refusal(400, "invalid_value", f"previous_response_id: {why}", [("previous_response_id", why)])
    return conversation
