"""Replies to chats: the answer or question of a turn, in the response or as a signed request."""

import asyncio
from dataclasses import replace
from typing import Any, Literal

from adderclaw.agent.conversation.asking import Request
from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.queries import clean
from adderclaw.agent.queries.webhook_channels import secrets as channel_secrets
from adderclaw.agent.session.clock import random_ids
from adderclaw.agent.session.session import TurnResult
from adderclaw.agent.tool_call.approvals import DisplayedRequest, displayed_request, questions_text
from adderclaw.config.schema import Sender, WebhookChannel
from adderclaw.core.errors import AdderClawError
from adderclaw.core.questions import QuestionRequest
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.tool_traits import ASK_USER
from adderclaw.models.http import signing
from adderclaw.server.state import ServerState
from adderclaw.storage.text import compact

RETRY_PAUSES = (0.0, 2.0, 15.0)
"""Seconds before each attempt to post."""
POST_SECONDS = 15.0
MOST_SHOWN = 8_000
"""The longest question, in characters, that can be answered in a chat; a longer one would not be shown whole."""


@record
class Reply:
    state: Literal["answered", "asking", "working"]
    """asking: `question` waits for an answer. working: the turn goes on; ask for it by its id."""
    conversation_id: str
    turn: str
    text: str
    """The answer, or the question in words, for a person."""
    outcome: str | None = None
    """How the turn ended: completed, failed, stopped …"""
    question: dict[str, Any] | None = None
    """`id`, `kind` (approval or question), `may_answer`, `options`."""


class Chat(NamedTuple):
    """One message of a sender and its channel."""

    state: ServerState
    name: str
    channel: WebhookChannel
    sender: str
    entry: Sender
    thread: str
    message_id: str


def answer_reply(conversation: Conversation, turn: str, result: TurnResult) -> Reply:
    """Leaves out why a turn failed: the reason may name files, servers or keys and is for the operator."""
    failed = f"(The turn ended early: {result.outcome}. The operator can see the reason.)"
    text = result.answer or ("" if result.outcome == "completed" else failed)
    return Reply("answered", conversation.id, turn, clean(text), result.outcome)


def working_reply(conversation: Conversation, turn: str) -> Reply:
    return Reply("working", conversation.id, turn, "")


def may_answer(entry: Sender, request: Request) -> bool:
    """A sender may answer questions that the model asks them; approving a call needs `may_approve`."""
    if isinstance(request, QuestionRequest):
        return entry.may_approve or request.asker == ASK_USER
    seen = displayed_request(request).text
    # secrets are redacted in what is sent, and nobody may approve what they were not shown
    return entry.may_approve and len(request.shown) <= MOST_SHOWN and clean(seen) == seen


def _waiting_text(seen: DisplayedRequest) -> str:
    return f"{seen.tool if seen.is_step else f'A call of {seen.tool}'} waits for the operator's approval."


def question_reply(conversation: Conversation, turn: str, request: Request, entry: Sender) -> Reply:
    allowed = may_answer(entry, request)
    if isinstance(request, QuestionRequest):
        kind, words = "question", questions_text(request.questions) if allowed else "The operator is asked something."
        fix = f"Answer {request.id} in your own words." if allowed else "The operator answers it."
    elif allowed:
        seen = displayed_request(request)
        kind, words = "approval", f"{seen.head}\n{seen.text}"
        words = "\n".join([words, *seen.marks])
        fix = f"Answer {request.id} with yes or no."
    else:
        kind, words = "approval", _waiting_text(displayed_request(request))
        fix = "The operator answers it."
    options = (
        [[choice.label for choice in question.options] for question in request.questions]
        if allowed and isinstance(request, QuestionRequest)
        else []
    )
    question = {"id": request.id, "kind": kind, "may_answer": allowed, "options": options}
    return Reply("asking", conversation.id, turn, clean(f"{words}\n{fix}"), question=clean(question))


# ------------------------------------------------------------------ what happens in a turn


class TurnNews(NamedTuple):
    reply: Reply
    at: int
    """The id of the update, after which the caller continues."""


async def next_news(chat: Chat, conversation: Conversation, turn: str, after: int) -> TurnNews:
    """Wait for the next question or the end of this turn."""
    if conversation.is_over(turn):
        return TurnNews(answer_reply(conversation, turn, await conversation.ended(turn)), conversation.updates.last)
    async for update in conversation.follow(after):
        if update.kind == "question" and update.data.id in conversation.questions:
            return TurnNews(question_reply(conversation, turn, update.data, chat.entry), update.id)
        if update.kind == "ended" and update.data.get("turn") == turn:
            break
        if update.kind == "dropped":  # updates were lost: read the current state instead
            for request in conversation.questions.values():
                return TurnNews(question_reply(conversation, turn, request, chat.entry), update.id)
            break
    return TurnNews(answer_reply(conversation, turn, await conversation.ended(turn)), conversation.updates.last)


async def reply_in_time(chat: Chat, conversation: Conversation, turn: str, after: int) -> Reply:
    """The reply that is ready within the channel's time limit; later ones are posted."""
    if chat.channel.reply == "post":
        post_later(chat, conversation, turn, after)
        return working_reply(conversation, turn)
    try:
        async with asyncio.timeout(chat.channel.reply_seconds):
            latest = await next_news(chat, conversation, turn, after)
    except TimeoutError:
        if chat.channel.reply_url is not None:
            post_later(chat, conversation, turn, after)
        open_now = next(iter(conversation.questions.values()), None)
        return (
            question_reply(conversation, turn, open_now, chat.entry)
            if open_now is not None
            else working_reply(conversation, turn)
        )
    return latest.reply


# ------------------------------------------------------------------ posting


def post_later(chat: Chat, conversation: Conversation, turn: str, after: int) -> None:
    """Posts the further questions and the answer of a turn in the background; once per turn."""
    posting = chat.state.posting
    if turn not in posting:
        posting[turn] = asyncio.ensure_future(_post_news(chat, conversation, turn, after))
        posting[turn].add_done_callback(lambda _done: posting.pop(turn, None))


async def _post_news(chat: Chat, conversation: Conversation, turn: str, after: int) -> None:
    while True:
        latest = await next_news(chat, conversation, turn, after)
        await post_reply(chat, latest.reply)
        if latest.reply.state == "answered":
            return
        after = latest.at


async def post_reply(chat: Chat, reply: Reply) -> None:
    """Sends a signed request to the channel's `reply_url`; retries a few times, then reports the failure."""
    from adderclaw.models.http import client, urls

    state, url = chat.state, chat.channel.reply_url or ""
    about = {"channel": chat.name, "sender": chat.sender, "thread": chat.thread, "in_reply_to": chat.message_id}
    body = compact({**about, **vars(reply)}).encode()
    id, why = random_ids("reply"), ""
    for pause in RETRY_PAUSES:
        await asyncio.sleep(pause)
        try:
            secrets = channel_secrets(state.home, chat.name, chat.channel, state.clock.now())
            signed = signing.headers(secrets, body, id=id, now=state.clock.now())
            target = urls.parse(url, "POST")
            headers = {"content-type": "application/json", "user-agent": "adderclaw", **signed}
            hosts = urls.Hosts.named_by_operator(target)
            response = await client.request(
                target, headers=headers, hosts=hosts, seconds=POST_SECONDS, limit=4_096, content=body
            )
        except (client.Failed, AdderClawError) as error:
            why = str(error)
            continue
        if response.status < 300:
            return
        why = f"it answered {response.status}"
        if response.status < 500 and response.status not in (408, 425, 429):
            break
    message = f"channels.webhook.{chat.name}: an answer to {chat.sender} could not be posted to {url}: {why}"
    state.record_event({"event_type": "warning", "message": message}, reply.conversation_id)


def without_posting(chat: Chat) -> Chat:
    """The same chat, but polling a turn posts nothing."""
    return chat._replace(channel=replace(chat.channel, reply="response", reply_url=None))
