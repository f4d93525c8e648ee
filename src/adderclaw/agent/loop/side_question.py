"""Asks the small model a question outside of the conversation, within the session's budget, and stores the call."""

from dataclasses import replace

from adderclaw.agent.loop import model_call
from adderclaw.agent.session.prompt import make_prompt
from adderclaw.agent.session.session import Session
from adderclaw.core.errors import ProviderError
from adderclaw.core.history import History
from adderclaw.core.types import ChatResponse, Delta, Json, Message, Provider, TextBlock, Thinking


async def ask(
    session: Session,
    instructions: str,
    text: str,
    *,
    purpose: str,
    provider: Provider | None = None,
    named: str = "",
    max_tokens: int | None = None,
) -> str:
    """Ask a question; returns the answer without secrets. `provider` and its model `named` replace the session's own.

    Raises ProviderError or LimitError.
    """
    # The budget is shared, so that the cost counts against the session.
    asking = session if provider is None else replace(session, provider=provider, model=named)
    response = await ask_and_record(
        asking, instructions, History([Message("user", (TextBlock(text),))]), purpose, max_tokens
    )
    if not response.final_text.strip():
        raise ProviderError("malformed", "the small model answered without a word", provider=asking.provider.name)
    return response.final_text


async def ask_and_record(
    session: Session, instructions: str, messages: History, purpose: str, max_tokens: int | None = None
) -> ChatResponse:
    """Ask with these messages in place of the conversation's; the answer has no secrets and is stored before use."""
    session = replace(session, thinking=Thinking(mode="disabled"))  # thoughts would use up a short answer's limit
    # Several questions may run at once: each reserves its part of the budget, and is settled without an await.
    reply = await model_call.ask(session, make_prompt(instructions, ()), _ignore_delta, messages, max_tokens=max_tokens)
    response = replace(reply.response, final_text=session.secrets.scrub(reply.response.final_text))
    unheard: Json = {"stop_reason": response.stop_reason} if response.stop_reason != "end" else {}
    if response.tool_calls:  # which are not run
        unheard["calls"] = len(response.tool_calls)
    with session.store.write() as cursor:
        model_call.store_reply(
            session,
            cursor,
            reply,
            session.budget.steps,
            {"text": response.final_text, "purpose": purpose, **unheard},
        )
    return response


def _ignore_delta(_delta: Delta) -> None:
    """The answer is not for the user, so its parts are not shown."""
