"""The incoming webhook channel: signed messages of a chat system; each sender has separate conversations."""

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adderclaw.agent import queries
from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.conversation.watched import Full, Unknown
from adderclaw.agent.queries.webhook_channels import door_of
from adderclaw.agent.queries.webhook_channels import secrets as channel_secrets
from adderclaw.agent.run import Options
from adderclaw.agent.tool_call.approvals import AnswerRejected
from adderclaw.config.managed import PROFILES, profile_for_others
from adderclaw.config.paths import followed
from adderclaw.config.schema import Config, Sender
from adderclaw.core.decode import decode
from adderclaw.core.errors import AdderClawError, SessionInUse, UsageError
from adderclaw.core.json_text import to_json
from adderclaw.core.questions import Answer, QuestionRequest
from adderclaw.core.record import record
from adderclaw.server import replies, signed
from adderclaw.server.body import require_media_type
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal, not_found
from adderclaw.server.replies import Chat, Reply
from adderclaw.server.state import ServerState
from adderclaw.storage import deliveries, threads
from adderclaw.storage.deliveries import DAY, Claim
from adderclaw.storage.text import compact

if TYPE_CHECKING:
    from starlette.responses import Response


@record
class IncomingAnswer:
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
    answer: IncomingAnswer | None = None
    """The answer to a question of the sender's own conversations."""
    turn: str | None = None
    """What became of this turn of the sender's? Nothing begins."""


async def receive_message(request: ApiRequest) -> "Response":
    """Handles a message. Each step may refuse, cheap ones first; nothing starts before the delivery is claimed."""
    name, state = request.path["name"], request.state
    channel = await state.webhooks.get(name)
    secrets = channel_secrets(state.home, name, channel, state.clock.now())
    delivery = signed.verify_signature(request, door_of(name), secrets)
    assert channel is not None  # without one there is no secret
    incoming = _read_message(request)
    entry = channel.senders.get(incoming.sender)
    if entry is None:
        signed.tell_refused(request, door_of(name), "the sender is not listed", incoming.sender)
        raise Refusal(403, "sender", f"{incoming.sender!r} is not listed as a sender of this channel")
    signed.require_accepting(request, door_of(name))
    chat = Chat(state, name, channel, incoming.sender, entry, incoming.thread, incoming.message_id)
    claims = [Claim(door_of(name), delivery.id)]
    if incoming.turn is not None:
        signed.claim_delivery(request, claims, sender=incoming.sender)
        return _response(await _reply_of_turn(chat, incoming.turn))
    client = threads.client_id(name, incoming.sender)
    require_budget(state, entry, client)
    claims.append(Claim(f"{door_of(name)}:{incoming.sender}", incoming.message_id))
    signed.claim_delivery(request, claims, sender=incoming.sender, most=entry.messages_per_day)
    try:
        conversation, turn, after = await (
            _send_to_thread(chat, incoming) if incoming.text is not None else _answer_question(chat, incoming)
        )
    except AdderClawError as error:
        deliveries.release(state.store, claims)  # nothing began: the same message may come again
        raise _shown_to_sender(chat, error) from error
    deliveries.record_start(state.store, claims, turn)
    return _response(await replies.reply_in_time(chat, conversation, turn, after))


def _shown_to_sender(chat: Chat, error: AdderClawError) -> AdderClawError:
    """The error that a sender may see; problems of the configuration or the machine go to the operator."""
    if isinstance(error, (Refusal, Full, AnswerRejected, SessionInUse)):
        return error
    message = f"channels.webhook.{chat.name}: a message of {chat.sender} could not begin: {error}"
    chat.state.record_event({"event_type": "warning", "message": message})
    return Refusal(503, "unavailable", "the message could not be processed; the server's log has the reason")


def _response(reply: Reply) -> "Response":
    from starlette.responses import Response

    return Response(compact(to_json(reply)), 202 if reply.state == "working" else 200, media_type="application/json")


def _read_message(request: ApiRequest) -> Incoming:
    require_media_type(request.http, "application/json")
    incoming = decode(Incoming, signed.parse_json(request.body))
    if sum(field is not None for field in (incoming.text, incoming.answer, incoming.turn)) != 1:
        raise Refusal(400, "invalid", "give exactly one of text, answer and turn")
    signed.require_name("sender", incoming.sender)
    signed.require_name("message_id", incoming.message_id)
    if incoming.thread:
        signed.require_name("thread", incoming.thread)
    signed.require_visible_text("text", incoming.text or "")
    if incoming.text is not None and not incoming.text.strip():
        raise Refusal(400, "invalid", "the message is empty")
    if (answer := incoming.answer) is not None:
        for text in (answer.reply or "", answer.comment, *(answer.replies or {}).values()):
            signed.require_visible_text("answer", text)
    return incoming


# ------------------------------------------------------------------ messages


async def _send_to_thread(chat: Chat, incoming: Incoming) -> tuple[Conversation, str, int]:
    """Send the message in order of its thread. Returns the conversation, the turn and the last update before it."""
    client = threads.client_id(chat.name, chat.sender)
    key = f"{client}\n{chat.thread}"
    if (lock := chat.state.threads.get(key)) is None:
        lock = chat.state.threads[key] = asyncio.Lock()
    async with lock:
        conversation = await _conversation_of_thread(chat, client)
        after = conversation.updates.last
        turn = await conversation.send(incoming.text or "", client=client, by_name=chat.entry.commands)
    return conversation, turn, after


async def _conversation_of_thread(chat: Chat, client: str) -> Conversation:
    """The conversation of this thread, opened with the sender's current rules."""
    state = chat.state
    options = await asyncio.to_thread(sender_options, state, chat.entry)
    id = threads.find(state.store, client, chat.thread, options.workspace or "")
    if id is not None and (here := state.conversations.get(id)) is not None and here.run is not None:
        if has_same_rules(here.options, options):
            return here
        if not await here.sleep():  # running under other rules: the operator's, or those before a configuration change
            wait = {"Retry-After": "10"}
            raise Refusal(409, "busy", "the conversation is busy under other rules: try again later", headers=wait)
    way = f"webhook:{chat.name}"
    conversation = await state.conversations.open(client, resume=id, options=options, channel=way)
    if id is None:
        threads.record_thread(state.store, conversation.id, chat.thread)
    return conversation


# ------------------------------------------------------------------ answers


async def _answer_question(chat: Chat, incoming: Incoming) -> tuple[Conversation, str, int]:
    """Answer a question of the sender's own conversations; others look as if they did not exist."""
    assert incoming.answer is not None
    reply, client = incoming.answer, threads.client_id(chat.name, chat.sender)
    conversation = next(
        (candidate for candidate in chat.state.conversations.all() if _is_asked(candidate, client, reply.id)), None
    )
    if conversation is None:
        raise not_found("question of yours", reply.id)
    request = conversation.questions[reply.id]
    if not replies.may_answer(chat.entry, request):
        raise Refusal(403, "approve", "only the operator may answer this question")
    chosen = reply.replies
    if reply.approved and isinstance(request, QuestionRequest) and chosen is None and reply.reply is not None:
        chosen = {request.questions[0].question: reply.reply} if len(request.questions) == 1 else None
    who = f"{chat.sender} (webhook channel {chat.name})"
    after, turn = conversation.updates.last, conversation.turn
    answer = Answer(reply.approved, "operator", reply.comment, who=who, replies=chosen if reply.approved else None)
    try:
        is_known = conversation.answer(reply.id, answer, client)
    except UsageError as error:  # for example a yes to a question that needs words
        raise Refusal(400, "refused", str(error)) from error
    if not is_known:
        raise not_found("question of yours", reply.id)
    return conversation, turn, after


def _is_asked(conversation: Conversation, client: str, id: str) -> bool:
    return conversation.client == client and id in conversation.questions


async def _reply_of_turn(chat: Chat, turn: str) -> Reply:
    client = threads.client_id(chat.name, chat.sender)
    for conversation in chat.state.conversations.all():
        if conversation.client == client and conversation.knows(turn):
            if conversation.turn == turn and (waits := next(iter(conversation.questions.values()), None)) is not None:
                return replies.question_reply(conversation, turn, waits, chat.entry)
            return await replies.reply_in_time(
                replies.without_posting(chat), conversation, turn, conversation.updates.last
            )
    raise Unknown(
        f"no turn {turn[:100]!r} of yours is known to this server; after a restart, read its answer in the conversation"
    )


ENDPOINTS = (
    Endpoint(
        "POST",
        "/channels/{name}/messages",
        "open",
        receive_message,
        "A signed message of a chat system: its sender's words, or the answer to a question (docs/channels.md).",
        takes=Incoming,
        gives=Reply,
        is_signed=True,
        body_limit=signed.BODY_LIMIT,
    ),
)


def allowed_tools(sender: Sender, config: Config) -> list[str]:
    """The sender's, out of those that the operator offers."""
    offered, allowed = config.channels.cli.tools_allow, sender.tools_allow
    return list(allowed) if "*" in offered else [name for name in offered if name in allowed or "*" in allowed]


def sender_options(state: ServerState, sender: Sender) -> Options:
    """The options for conversations of this sender. Raises Refusal if its folder does not exist."""
    folder = followed(os.path.abspath(sender.workspace))
    if not os.path.isdir(folder):
        raise Refusal(
            503, "workspace", "the folder of this sender does not exist: the operator must fix the configuration"
        )
    here = replace(state.options, workspace=folder)
    config = queries.loaded(queries.read_only(here)).config
    offered: dict[str, Any] = {"channels": {"cli": {"tools_allow": allowed_tools(sender, config)}}}
    if sender.cost_usd_per_day is not None:  # also a limit of the run, so that a model without a price is refused
        own = state.options.overrides.get("limits", {})
        offered["limits"] = {**own, "cost_usd": min(sender.cost_usd_per_day, config.limits.cost_usd)}
    mode = min(sender.profile, profile_for_others(config, state.options.profile), key=PROFILES.index)
    return replace(here, profile=mode, overrides={**state.options.overrides, **offered})


def has_same_rules(options: Options, other: Options) -> bool:
    """Whether an open conversation has the same workspace, profile and overrides."""
    return (options.workspace, options.profile, options.overrides) == (other.workspace, other.profile, other.overrides)


def require_budget(state: ServerState, sender: Sender, client: str) -> None:
    most = sender.cost_usd_per_day
    if most is not None and (spent := threads.cost_since(state.store, client, state.clock.now() - DAY)) >= most:
        raise Refusal(429, "cost", f"this sender has used {spent:.2f} of {most:.2f} USD within 24 hours: try later")
