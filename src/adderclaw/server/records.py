"""Endpoints of records: usage, receipts and their chain, checkpoints, and the search in messages."""

import asyncio
from typing import Annotated

from adderclaw.agent.legacy.rewind import Group
from adderclaw.agent.queries import checkpoints, conversations, ledger, usage
from adderclaw.agent.queries.checkpoints import CheckpointRow, RestoredRow
from adderclaw.agent.queries.conversations import HitRow
from adderclaw.agent.queries.ledger import ChainState, Head, OneReceipt, Receipts
from adderclaw.agent.queries.usage import DayRow, Usage
from adderclaw.core.decode import Between
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.core.types import Risk
from adderclaw.server import client_scope
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal, not_found
from adderclaw.storage import checkpoints as rows
from adderclaw.storage import transcript
from adderclaw.storage.ledger.chain import Status
from adderclaw.storage.model_calls import By

LARGEST = 2**53
"""The largest integer that every JSON parser reads exactly."""

# ------------------------------------------------------------------ usage


@record
class UsageQuery:
    by: By = "day"
    since: str | None = None
    """2026-05-01, 2026-05-01T12:00, or how long ago: 12h, 7d, 4w; in UTC."""


@record
class SeriesQuery:
    by: By | None = None
    since: str | None = None
    """As for /usage."""


async def show_usage(request: ApiRequest) -> Usage:
    asked: UsageQuery = request.body
    return await asyncio.to_thread(
        usage.usage, request.state.options, asked.by, asked.since, client_scope.visible_folders(request)
    )


async def show_daily_usage(request: ApiRequest) -> list[DayRow]:
    asked: SeriesQuery = request.body
    return await asyncio.to_thread(
        usage.series, request.state.options, asked.by, asked.since, client_scope.visible_folders(request)
    )


# ------------------------------------------------------------------ receipts


@record
class ReceiptsQuery:
    limit: Annotated[int, Between(1, 500)] = 50
    tool: str | None = None
    status: Status | None = None
    risk: Risk | None = None
    conversation: str | None = None
    session: str | None = None
    run: str | None = None
    answered_by: str | None = None
    """As the receipt names who answered."""
    before: Annotated[int, Between(0, LARGEST)] | None = None
    """Only with a lower number: what `next_before` said."""


@record
class VerifyQuery:
    against: str | None = None
    """A head that was kept elsewhere, `seq:receipt_hash`: finds a rollback."""


async def list_receipts(request: ApiRequest) -> Receipts:
    asked: ReceiptsQuery = request.body
    folders = client_scope.visible_folders(request)
    return await asyncio.to_thread(ledger.receipts, request.state.options, places=folders, **vars(asked))


async def show_receipt(request: ApiRequest) -> OneReceipt:
    seq, folders = request.path["seq"], client_scope.visible_folders(request)
    number = int(seq) if seq.isascii() and seq.isdecimal() and len(seq) < 16 else -1
    row = await asyncio.to_thread(ledger.one, request.state.options, number, folders)
    if row is None:
        raise not_found("receipt", seq)
    return row


async def verify_receipts(request: ApiRequest) -> ChainState:
    against: str | None = request.body.against
    if against is not None and not ledger.is_head(against):
        raise Refusal(400, "invalid", "against: give a head in the form of `GET /receipts/head`: seq:receipt_hash")
    return await asyncio.to_thread(ledger.state, request.state.options, against)


async def show_head(request: ApiRequest) -> Head:
    return {"head": await asyncio.to_thread(ledger.head, request.state.options)}


# ------------------------------------------------------------------ checkpoints


@record
class CheckpointsQuery:
    conversation: str | None = None
    limit: Annotated[int, Between(1, 1000)] = 50


@record
class RestoreRequest:
    paths: list[str] | None = None
    """Only these paths, or what is in these folders; null: all."""
    force: bool = False
    """Also over what others changed since; with `paths`, also what may be a person's."""
    dry_run: bool = False
    """Say what would happen, and do nothing."""


async def list_checkpoints(request: ApiRequest) -> list[Group]:
    asked: CheckpointsQuery = request.body
    if asked.conversation is not None and not transcript.workspace_of(request.state.store, asked.conversation):
        raise UsageError(f"there is no conversation {asked.conversation!r}")
    folders = client_scope.visible_folders(request) or None
    return await asyncio.to_thread(
        checkpoints.listing, request.state.options, asked.conversation, asked.limit, places=folders
    )


async def show_checkpoint(request: ApiRequest) -> list[CheckpointRow]:
    return await asyncio.to_thread(checkpoints.shown, request.state.options, str(_checkpoint(request).id))


async def restore_checkpoint(request: ApiRequest) -> RestoredRow:
    """Restores files in a separate thread, because there may be many."""
    asked: RestoreRequest = request.body
    point = _checkpoint(request)
    folder = transcript.workspace_of(request.state.store, point.conversation_id)
    if not request.client.steers(transcript.client_of(request.state.store, point.conversation_id), folder):
        raise Refusal(
            403,
            "client",
            f"checkpoint {point.id} belongs to another client's conversation: this token may not restore it",
        )
    options, only = client_scope.options_for(request, folder), frozenset(asked.paths or ())
    _require_idle(request, folder)
    here = request.state.conversations.get(point.conversation_id)
    session = here.run.session if here is not None and here.run is not None else None

    def work() -> RestoredRow:
        done = checkpoints.restored(
            options, str(point.id), paths=only, force=asked.force, dry_run=asked.dry_run, session=session
        )
        return checkpoints.as_json(asyncio.run(done), dry_run=asked.dry_run)

    return await asyncio.to_thread(work)


def _require_idle(request: ApiRequest, folder: str) -> None:
    """Refuses while a turn is working on the files of the folder."""
    for conversation in request.state.conversations.all():
        if (
            conversation.run is not None
            and conversation.state != "idle"
            and conversation.run.session.environment.context.workspace.root == folder
        ):
            raise Refusal(
                409, "conflict", f"{conversation.id} is working in {folder}: interrupt it or wait, then restore"
            )


def _checkpoint(request: ApiRequest) -> rows.Checkpoint:
    """The checkpoint whose number is in the path."""
    id = request.path["id"]
    checkpoint = rows.get(request.state.store, int(id)) if id.isascii() and id.isdecimal() and len(id) < 16 else None
    if (
        checkpoint is None
        or checkpoint.kind == "other"
        or not transcript.workspace_of(request.state.store, checkpoint.conversation_id)
    ):
        raise not_found("checkpoint", id)
    return checkpoint


# ------------------------------------------------------------------ memory


@record
class SearchQuery:
    q: str
    """Words, or a part of a message."""
    limit: Annotated[int, Between(1, 200)] = 10
    workspace: str | None = None
    """Only conversations that were held in this folder."""


async def search_memory(request: ApiRequest) -> list[HitRow]:
    asked: SearchQuery = request.body
    folders = list(client_scope.visible_folders(request)) or None
    if asked.workspace is not None:
        folders = [asked.workspace]
    return await asyncio.to_thread(conversations.search, request.state.options, asked.q, asked.limit, folders)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/usage",
        "read",
        show_usage,
        "Tokens, cost and time of model calls, grouped by one key.",
        UsageQuery,
        Usage,
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/usage/series",
        "read",
        show_daily_usage,
        "Tokens, cost and time of model calls by day.",
        SeriesQuery,
        list[DayRow],
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/receipts",
        "read",
        list_receipts,
        "Receipts, the newest first.",
        ReceiptsQuery,
        Receipts,
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/receipts/head",
        "read",
        show_head,
        "The head of the receipt chain; store it elsewhere to detect a rollback later.",
        gives=Head,
    ),
    Endpoint(
        "GET",
        "/receipts/verification",
        "read",
        verify_receipts,
        "Verify the whole log: each receipt is genuine, and every call has one.",
        VerifyQuery,
        ChainState,
    ),
    Endpoint(
        "GET",
        "/receipts/{seq}",
        "read",
        show_receipt,
        "One receipt, with those before and after it.",
        gives=OneReceipt,
        reach="receipt",
    ),
    Endpoint(
        "GET",
        "/checkpoints",
        "read",
        list_checkpoints,
        "What tools changed on disk, by message, oldest first.",
        CheckpointsQuery,
        list[Group],
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/checkpoints/{id}",
        "read",
        show_checkpoint,
        "The changes of a message since a checkpoint, line by line.",
        gives=list[CheckpointRow],
        reach="checkpoint",
    ),
    Endpoint(
        "POST",
        "/checkpoints/{id}/restore",
        "operate",
        restore_checkpoint,
        "Put files back as they were before a checkpoint.",
        RestoreRequest,
        RestoredRow,
        reach="checkpoint",
    ),
    Endpoint(
        "GET",
        "/memory/search",
        "read",
        search_memory,
        "Search the messages of conversations.",
        SearchQuery,
        list[HitRow],
        reach="filtered",
    ),
)
