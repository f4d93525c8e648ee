"""Endpoints that rewind a conversation to before one of its messages: the messages, the files, or both."""

from typing import Literal

from adderclaw.agent import queries
from adderclaw.agent.legacy import rewind
from adderclaw.agent.loop import resume
from adderclaw.agent.queries import restoring
from adderclaw.agent.queries.checkpoints import RestoredRow, as_json
from adderclaw.agent.run import Run
from adderclaw.core.record import record
from adderclaw.server.conversations import find_conversation, steers
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal


@record
class Prompt:
    sequence: int
    text: str
    paths: int
    """How many paths were changed for it."""


@record
class Prompts:
    prompts: list[Prompt]


@record
class RewindRequest:
    sequence: int
    """The place of the message; what follows it is left, and it itself."""
    what: Literal["both", "conversation", "files"] = "both"
    force: bool = False
    """Restore over what others changed since."""


@record
class RewindResult:
    conversation: bool
    """Whether what was said went back."""
    files: RestoredRow | None
    """What became of the files; nothing where none was changed, or they were not asked for."""


async def list_prompts(request: ApiRequest) -> Prompts:
    conversation = find_conversation(request)
    conversation.require(request.client.id, granted=steers(request, conversation))
    run = await conversation.awake()
    return Prompts(
        [Prompt(row.sequence, queries.clean(row.text[:500]), row.paths) for row in rewind.prompts(run.session)]
    )


async def rewind_conversation(request: ApiRequest) -> RewindResult:
    conversation, body = find_conversation(request), request.body

    async def work(run: Run) -> RewindResult:
        if all(prompt.sequence != body.sequence for prompt in rewind.prompts(run.session)):
            raise Refusal(
                404, "not_found", f"there is no message {body.sequence}: the list of prompts has the valid numbers"
            )
        files = None
        if body.what != "conversation":
            restored = await restoring.files_back(run, body.sequence, None, force=body.force)
            files = as_json(restored, dry_run=False) if restored is not None else None
        if files is not None and files["refused"]:
            return RewindResult(False, files)
        if body.what != "files":
            resume.rewind_to(run.session, body.sequence)
        return RewindResult(body.what != "files", files)

    return await conversation.alone(request.client.id, work, granted=steers(request, conversation))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/conversations/{id}/prompts",
        "operate",
        list_prompts,
        "The messages that a conversation can be rewound to.",
        gives=Prompts,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/rewind",
        "operate",
        rewind_conversation,
        "Rewind to before a message; files that others changed since are not touched.",
        takes=RewindRequest,
        gives=RewindResult,
        reach="conversation",
    ),
)
