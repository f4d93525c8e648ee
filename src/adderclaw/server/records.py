"""What was done, for programs: usage, receipts and their chain, checkpoints, and the search in what was said."""

import asyncio
from typing import Annotated

from adderclaw.agent.legacy.rewind import Group
from adderclaw.agent.queries import checkpoints, ledger, memory, usage
from adderclaw.agent.queries.checkpoints import CheckpointRow, RestoredRow
from adderclaw.agent.queries.ledger import ChainState, Head, OneReceipt, Receipts
from adderclaw.agent.queries.memory import HitRow
from adderclaw.agent.queries.usage import DayRow, Usage
from adderclaw.core.decode import Between
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.core.types import Risk
from adderclaw.server import client_scope
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.refusal import Refusal, missing
from adderclaw.storage import checkpoints as rows
from adderclaw.storage import transcript
from adderclaw.storage.ledger.chain import Status
from adderclaw.storage.model_calls import By

LARGEST = 2**53
"""The largest number that JSON carries for everybody."""

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


async def used(called: Called) -> Usage:
    asked: UsageQuery = called.given
    return await asyncio.to_thread(
        usage.usage, called.house.options, asked.by, asked.since, client_scope.places(called)
    )


async def by_day(called: Called) -> list[DayRow]:
    asked: SeriesQuery = called.given
    return await asyncio.to_thread(
        usage.series, called.house.options, asked.by, asked.since, client_scope.places(called)
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


async def receipts(called: Called) -> Receipts:
    asked: ReceiptsQuery = called.given
    return await asyncio.to_thread(
        ledger.receipts,
        called.house.options,
        limit=asked.limit,
        tool=asked.tool,
        status=asked.status,
        risk=asked.risk,
        conversation=asked.conversation,
        session=asked.session,
        run=asked.run,
        answered_by=asked.answered_by,
        before=asked.before,
        places=client_scope.places(called),
    )


async def receipt(called: Called) -> OneReceipt:
    seq, wanted = called.path["seq"], client_scope.places(called)
    number = int(seq) if seq.isascii() and seq.isdecimal() and len(seq) < 16 else -1
    found = await asyncio.to_thread(ledger.one, called.house.options, number, wanted)
    if found is None:
        raise missing("receipt", seq)
    return found


async def verified(called: Called) -> ChainState:
    against: str | None = called.given.against
    if against is not None and not ledger.is_head(against):
        raise Refusal(400, "invalid", "against: give a head as `GET /receipts/head` gives it: seq:receipt_hash")
    return await asyncio.to_thread(ledger.state, called.house.options, against)


async def head(called: Called) -> Head:
    return {"head": await asyncio.to_thread(ledger.head, called.house.options)}


# ------------------------------------------------------------------ checkpoints


@record
class CheckpointsQuery:
    conversation: str | None = None
    limit: Annotated[int, Between(1, 1000)] = 50


@record
class RestoreWanted:
    paths: list[str] | None = None
    """Only these paths, or what is in these folders; null: all."""
    force: bool = False
    """Also over what others changed since; with `paths`, also what may be a person's."""
    dry_run: bool = False
    """Say what would happen, and do nothing."""


async def changed(called: Called) -> list[Group]:
    asked: CheckpointsQuery = called.given
    if asked.conversation is not None and not transcript.workspace_of(called.house.store, asked.conversation):
        raise UsageError(f"there is no conversation {asked.conversation!r}")
    wanted = client_scope.places(called) or None
    return await asyncio.to_thread(
        checkpoints.listing, called.house.options, asked.conversation, asked.limit, places=wanted
    )


async def shown(called: Called) -> list[CheckpointRow]:
    return await asyncio.to_thread(checkpoints.shown, called.house.options, str(_checkpoint(called).id))


async def restored(called: Called) -> RestoredRow:
    """In a thread of its own: it reads and writes many files."""
    asked: RestoreWanted = called.given
    point = _checkpoint(called)
    folder = transcript.workspace_of(called.house.store, point.conversation_id)
    if not called.client.steers(transcript.client_of(called.house.store, point.conversation_id), folder):
        raise Refusal(
            403, "client", f"checkpoint {point.id} is of another client's conversation: restore nothing of it"
        )
    options, only = client_scope.options(called, folder), frozenset(asked.paths or ())
    _require_quiet(called, folder)
    here = called.house.conversations.get(point.conversation_id)
    session = here.run.session if here is not None and here.run is not None else None

    def work() -> RestoredRow:
        done = checkpoints.restored(
            options, str(point.id), paths=only, force=asked.force, dry_run=asked.dry_run, session=session
        )
        return checkpoints.as_json(asyncio.run(done), dry_run=asked.dry_run)

    return await asyncio.to_thread(work)


def _require_quiet(called: Called, folder: str) -> None:
    """Files do not change under a turn that works on them."""
    for one in called.house.conversations.all():
        if one.run is not None and one.state != "idle" and one.run.session.environment.context.workspace.root == folder:
            raise Refusal(409, "conflict", f"{one.id} works in {folder}: interrupt it, or wait, then restore")


def _checkpoint(called: Called) -> rows.Checkpoint:
    """By its number."""
    id = called.path["id"]
    found = rows.get(called.house.store, int(id)) if id.isascii() and id.isdecimal() and len(id) < 16 else None
    if found is None or found.kind == "other" or not transcript.workspace_of(called.house.store, found.conversation_id):
        raise missing("checkpoint", id)
    return found


# ------------------------------------------------------------------ memory


@record
class SearchQuery:
    q: str
    """Words, or a part of a message."""
    limit: Annotated[int, Between(1, 200)] = 10
    workspace: str | None = None
    """Only conversations that were held in this folder."""


async def search(called: Called) -> list[HitRow]:
    asked: SearchQuery = called.given
    wanted = list(client_scope.places(called)) or None
    if asked.workspace is not None:
        wanted = [asked.workspace]
    return await asyncio.to_thread(memory.search, called.house.options, asked.q, asked.limit, wanted)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/usage",
        "read",
        used,
        "What model calls took, put together by one key.",
        UsageQuery,
        Usage,
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/usage/series",
        "read",
        by_day,
        "What model calls took, day by day.",
        SeriesQuery,
        list[DayRow],
        reach="filtered",
    ),
    Endpoint(
        "GET", "/receipts", "read", receipts, "Receipts, the newest first.", ReceiptsQuery, Receipts, reach="filtered"
    ),
    Endpoint("GET", "/receipts/head", "read", head, "The head of the chain, to be kept elsewhere.", gives=Head),
    Endpoint(
        "GET",
        "/receipts/verification",
        "read",
        verified,
        "Replay the whole log: whether each receipt is true, and one is there for each call.",
        VerifyQuery,
        ChainState,
    ),
    Endpoint(
        "GET",
        "/receipts/{seq}",
        "read",
        receipt,
        "One receipt, with those before and after it.",
        gives=OneReceipt,
        reach="receipt",
    ),
    Endpoint(
        "GET",
        "/checkpoints",
        "read",
        changed,
        "What tools changed on disk, by the message that they worked for, oldest first.",
        CheckpointsQuery,
        list[Group],
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/checkpoints/{id}",
        "read",
        shown,
        "The changes of a message from a checkpoint on, with their lines.",
        gives=list[CheckpointRow],
        reach="checkpoint",
    ),
    Endpoint(
        "POST",
        "/checkpoints/{id}/restore",
        "operate",
        restored,
        "Put files back as they were before a checkpoint.",
        RestoreWanted,
        RestoredRow,
        reach="checkpoint",
    ),
    Endpoint(
        "GET",
        "/memory/search",
        "read",
        search,
        "Search what was said in conversations.",
        SearchQuery,
        list[HitRow],
        reach="filtered",
    ),
)
