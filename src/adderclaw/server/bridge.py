"""The incoming webhook channel: signed messages of a chat system, each sender in conversations of their own."""

import asyncio
from typing import TYPE_CHECKING

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.conversation.watched import Full, Unknown
from adderclaw.agent.queries.webhook_channels import door_of
from adderclaw.agent.queries.webhook_channels import secrets as channel_secrets
from adderclaw.agent.tool_call.approvals import AnswerRejected
from adderclaw.core.decode import decode, freeze
from adderclaw.core.errors import AdderClawError, SessionInUse, UsageError
from adderclaw.core.questions import Answer, QuestionRequest
from adderclaw.core.record import record
from adderclaw.server import replies, senders, signed
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.refusal import Refusal, missing
from adderclaw.server.replies import Chat, Reply
from adderclaw.storage import deliveries, threads
from adderclaw.storage.deliveries import Claim
from adderclaw.storage.text import compact

if TYPE_CHECKING:
    from starlette.responses import Response


@record
class Answered:
    """What a person says to a question."""

    id: str
    approved: bool = True
    """Yes or no; no to a question with options leaves it unanswered."""
    reply: str | None = None
    """To a question: the label of an option, or own words."""
    replies: dict[str, str] | None = None
    """To several questions that were asked together: question → reply."""
    comment: str = ""
    """Why not: the model reads it."""


@record
class Incoming:
    """Exactly one of `text`, `answer` and `turn`."""

    sender: str
    """Who sends, as the configuration lists them."""
    message_id: str
    """The chat system's own id of the message: one that came before counts no more."""
    text: str | None = None
    thread: str = ""
    """Each thread of a sender is a conversation of its own."""
    answer: Answered | None = None
    """The answer to a question of the sender's own conversations."""
    turn: str | None = None
    """What became of this turn of the sender's? Nothing begins."""


async def message(called: Called) -> "Response":
    """Every step may refuse, the cheap ones first; nothing begins before the request is claimed."""
    name, house = called.path["name"], called.house
    channel = await house.webhooks.get(name)
    secrets = channel_secrets(house.home, name, channel, house.clock.now())
    delivery = signed.verified(called, door_of(name), secrets)
    assert channel is not None  # without one there is no secret
    given = _given(called)
    entry = channel.senders.get(given.sender)
    if entry is None:
        signed.tell_refused(called, door_of(name), "the sender is not listed", given.sender)
        raise Refusal(403, "sender", f"{given.sender!r} is not listed as a sender of this channel")
    signed.require_open(called, door_of(name))
    chat = Chat(house, name, channel, given.sender, entry, given.thread, given.message_id)
    claims = [Claim(door_of(name), delivery.id)]
    if given.turn is not None:
        signed.claim(called, claims, sender=given.sender)
        return _response(await _asked_for(chat, given.turn))
    client = threads.client_id(name, given.sender)
    senders.require_budget(house, entry, client)
    claims.append(Claim(f"{door_of(name)}:{given.sender}", given.message_id))
    signed.claim(called, claims, sender=given.sender, most=entry.messages_per_day)
    try:
        one, turn, after = await (_sent(chat, given) if given.text is not None else _settled(chat, given))
    except AdderClawError as error:
        deliveries.release(house.store, claims)  # nothing began: the same message may come again
        raise _for_sender(chat, error) from error
    deliveries.record_start(house.store, claims, turn)
    return _response(await replies.within(chat, one, turn, after))


def _for_sender(chat: Chat, error: AdderClawError) -> AdderClawError:
    """What a sender may read of it: what is wrong in the configuration or on this machine is for the operator."""
    if isinstance(error, (Refusal, Full, AnswerRejected, SessionInUse)):
        return error
    message = f"channels.webhook.{chat.name}: a message of {chat.sender} could not begin: {error}"
    chat.house.tell({"event_type": "warning", "message": message})
    return Refusal(503, "unavailable", "nothing could begin; the operator can see why")


def _response(reply: Reply) -> "Response":
    from starlette.responses import Response

    return Response(compact(freeze(reply)), 202 if reply.state == "working" else 200, media_type="application/json")


def _given(called: Called) -> Incoming:
    kind = called.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "media_type", f"send the body as application/json, not as {kind or 'nothing in particular'}")
    given = decode(Incoming, signed.parsed(called.given))
    if sum(one is not None for one in (given.text, given.answer, given.turn)) != 1:
        raise Refusal(400, "invalid", "give exactly one of text, answer and turn")
    signed.require_name("sender", given.sender)
    signed.require_name("message_id", given.message_id)
    if given.thread:
        signed.require_name("thread", given.thread)
    signed.require_words("text", given.text or "")
    if given.text is not None and not given.text.strip():
        raise Refusal(400, "invalid", "the message is empty")
    if (answer := given.answer) is not None:
        for text in (answer.reply or "", answer.comment, *(answer.replies or {}).values()):
            signed.require_words("answer", text)
    return given


# ------------------------------------------------------------------ messages


async def _sent(chat: Chat, given: Incoming) -> tuple[Conversation, str, int]:
    """The conversation, its turn, and the update before it. Messages of one thread come in their order."""
    client = threads.client_id(chat.name, chat.sender)
    key = f"{client}\n{chat.thread}"
    if (lock := chat.house.threads.get(key)) is None:
        lock = chat.house.threads[key] = asyncio.Lock()
    async with lock:
        one = await _opened(chat, client)
        after = one.updates.last
        turn = await one.send(given.text or "", client=client, by_name=chat.entry.commands)
    return one, turn, after


async def _opened(chat: Chat, client: str) -> Conversation:
    """The conversation of this thread, by the rules that hold for the sender now."""
    house = chat.house
    wanted = await asyncio.to_thread(senders.options, house, chat.entry)
    id = threads.find(house.store, client, chat.thread, wanted.workspace or "")
    if id is not None and (here := house.conversations.get(id)) is not None and here.run is not None:
        if senders.is_as(here.options, wanted):
            return here
        if not await here.sleep():  # at work by other rules: those of the operator, or those before a change
            wait = {"Retry-After": "10"}
            raise Refusal(409, "busy", "the conversation is at work by other rules: try again later", headers=wait)
    way = f"webhook:{chat.name}"
    one = await house.conversations.open(client, resume=id, options=wanted, channel=way)
    if id is None:
        threads.record_thread(house.store, one.id, chat.thread)
    return one


# ------------------------------------------------------------------ answers


async def _settled(chat: Chat, given: Incoming) -> tuple[Conversation, str, int]:
    """A question of the sender's own conversations is answered; of others nobody learns that there are any."""
    assert given.answer is not None
    said, client = given.answer, threads.client_id(chat.name, chat.sender)
    found = next((one for one in chat.house.conversations.all() if _asks(one, client, said.id)), None)
    if found is None:
        raise missing("question of yours", said.id)
    request = found.questions[said.id]
    if not replies.may_answer(chat.entry, request):
        raise Refusal(403, "approve", "the operator answers this question, not its sender")
    told = said.replies
    if said.approved and isinstance(request, QuestionRequest) and told is None and said.reply is not None:
        told = {request.questions[0].question: said.reply} if len(request.questions) == 1 else None
    who = f"{chat.sender} (webhook channel {chat.name})"
    after, turn = found.updates.last, found.turn
    answer = Answer(said.approved, "operator", said.comment, who=who, replies=told if said.approved else None)
    try:
        is_known = found.answer(said.id, answer, client)
    except UsageError as error:  # a yes where words are asked for, or the other way round
        raise Refusal(400, "refused", str(error)) from error
    if not is_known:
        raise missing("question of yours", said.id)
    return found, turn, after


def _asks(one: Conversation, client: str, id: str) -> bool:
    return one.client == client and id in one.questions


async def _asked_for(chat: Chat, turn: str) -> Reply:
    client = threads.client_id(chat.name, chat.sender)
    for one in chat.house.conversations.all():
        if one.client == client and one.knows(turn):
            if one.turn == turn and (waits := next(iter(one.questions.values()), None)) is not None:
                return replies.asking(one, turn, waits, chat.entry)
            return await replies.within(replies.for_poll(chat), one, turn, one.updates.last)
    raise Unknown(f"no turn {turn[:100]!r} of yours is known here; after a restart its answer is in the conversation")


ENDPOINTS = (
    Endpoint(
        "POST",
        "/channels/{name}/messages",
        "open",
        message,
        "A signed message of a chat system: its sender's words, or the answer to a question (docs/channels.md).",
        takes=Incoming,
        gives=Reply,
        is_signed=True,
        body_limit=signed.BODY_LIMIT,
    ),
)
