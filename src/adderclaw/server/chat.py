"""`POST /chat`: a message, and the answer to it when its turn has ended (C-26)."""

from adderclaw.core.record import record
from adderclaw.core.types import Outcome
from adderclaw.server import bounds
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.refusal import missing
from adderclaw.storage import transcript


@record
class Chat:
    message: str
    conversation_id: str | None = None
    """The conversation that goes on; a new one is opened without it."""
    workspace: str | None = None
    """The folder of a new conversation; by default the first that the server offers."""


@record
class Answered:
    conversation_id: str
    turn_id: str
    outcome: Outcome
    answer: str
    reason: str
    """Why it did not complete, where it did not."""


async def chat(called: Called) -> Answered:
    """A client that goes away before the answer has come loses nothing: the turn goes on, and its answer is stored."""
    client, house, given = called.client, called.house, called.given
    granted = False
    if given.conversation_id is None:
        folder = house.folder_for(client, given.workspace)
        conversation = await house.conversations.open(client.id, workspace=folder)
    else:
        id = transcript.by_id(house.store, given.conversation_id)
        folder = transcript.workspace_of(house.store, id) if id is not None else ""
        if id is None:
            raise missing("conversation", given.conversation_id)
        granted = client.steers("", folder)
        conversation = await house.conversations.open(client.id, resume=id, granted=granted)
        await bounds.require_own(called, conversation)
    turn = await conversation.send(given.message, client=client.id, granted=granted)
    result = await conversation.ended(turn)
    return Answered(conversation.id, turn, result.outcome, result.answer, result.reason)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/chat",
        "operate",
        chat,
        "Send a message and wait for the answer.",
        takes=Chat,
        gives=Answered,
        reach="filtered",
    ),
)
