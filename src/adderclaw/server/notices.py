"""Endpoints of notices: their targets and their history."""

import asyncio
from typing import Annotated, Literal

from adderclaw.agent.queries import notices
from adderclaw.agent.queries.notices import NoticeRow, TargetRow
from adderclaw.core.decode import Between
from adderclaw.core.record import record
from adderclaw.server import client_scope
from adderclaw.server.endpoint import ApiRequest, Endpoint


@record
class NoticesQuery:
    limit: Annotated[int, Between(1, 500)] = 50
    target: str | None = None
    """Only of this target."""
    state: Literal["waiting", "sent", "failed", "moot"] | None = None
    """Only those in this state; moot: what it was about was answered before it was sent."""


async def list_notices(request: ApiRequest) -> list[NoticeRow]:
    asked: NoticesQuery = request.body
    folders = client_scope.visible_folders(request)

    def read() -> list[NoticeRow]:
        target, state = asked.target or "", asked.state or ""
        return notices.history(request.state.options, limit=asked.limit, target=target, state=state, folders=folders)

    return await asyncio.to_thread(read)


async def list_targets(request: ApiRequest) -> list[TargetRow]:
    return await asyncio.to_thread(notices.targets, request.state.options)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/notices",
        "read",
        list_notices,
        "The last notices to the operator, the newest first, with why one was not delivered.",
        NoticesQuery,
        list[NoticeRow],
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/notices/targets",
        "read",
        list_targets,
        "Where notices are sent, and what is wrong with their configuration; no secrets.",
        gives=list[TargetRow],
    ),
)
