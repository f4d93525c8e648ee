"""`POST /chat`: sends a message and returns the answer when its turn has ended."""

from adderclaw.core.record import record
from adderclaw.core.types import Outcome
from adderclaw.server import bounds
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import not_found
from adderclaw.storage import transcript


@record
class ChatRequest:
    message: str
    conversation_id: str | None = None
    """The conversation that goes on; a new one is opened without it."""
    workspace: str | None = None
    """The folder of a new conversation; by default the first that the server offers."""


@record
class ChatAnswer:
    conversation_id: str
    turn_id: str
    outcome: Outcome
    answer: str
    reason: str
    """Why it did not complete, where it did not."""


async def chat(request: ApiRequest) -> ChatAnswer:
    """If the client disconnects early, the turn continues and its answer is stored."""
    client, state, body = request.client, request.state, request.body
    granted = False
    if body.conversation_id is None:
        folder = state.folder_for(client, body.workspace)
        conversation = await state.conversations.open(client.id, workspace=folder)
    else:
        id = transcript.by_id(state.store, body.conversation_id)
        folder = transcript.workspace_of(state.store, id) if id is not None else ""
        if id is None:
            raise not_found("conversation", body.conversation_id)
        granted = client.steers("", folder)
        conversation = await state.conversations.open(client.id, resume=id, granted=granted)
        await bounds.require_profile_of_conversation(request, conversation)
    turn = await conversation.send(body.message, client=client.id, granted=granted)
    result = await conversation.ended(turn)
    return ChatAnswer(conversation.id, turn, result.outcome, result.answer, result.reason)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/chat",
        "operate",
        chat,
        "Send a message and wait for the answer.",
        takes=ChatRequest,
        gives=ChatAnswer,
        reach="filtered",
    ),
)
