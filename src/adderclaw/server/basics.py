"""Endpoints for health, status and the emergency stop."""

import asyncio
import os
import time
from typing import Literal

from adderclaw import __version__
from adderclaw.agent.queries import notices
from adderclaw.core.record import record
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal


@record
class Health:
    status: Literal["ok"]
    version: str


@record
class Ready:
    ready: bool


@record
class Status:
    version: str
    pid: int
    address: str
    ready: bool
    stopped: bool
    """Whether the emergency stop is set."""
    started_at: float
    workspaces: list[str]
    """Folders that clients may open, of those that this client sees."""
    client: str
    scopes: list[str]


@record
class StopState:
    stopped: bool


async def health(_: ApiRequest) -> Health:
    return Health("ok", __version__)


async def ready(request: ApiRequest) -> Ready:
    if not request.state.ready:
        raise Refusal(503, "ending", "the server is shutting down")
    return Ready(True)


async def status(request: ApiRequest) -> Status:
    state, client = request.state, request.client
    return Status(
        version=__version__,
        pid=os.getpid(),
        address=state.address,
        ready=state.ready,
        stopped=state.stopped,
        started_at=state.started,
        workspaces=[folder for folder in state.workspaces if client.sees(folder)],
        client=client.name,
        scopes=sorted(client.scopes),
    )


async def set_stop(request: ApiRequest) -> StopState:
    """Write the stop file first, because it is what stops the tools."""
    path = request.state.stop_path
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"stopped at {stamp} by {request.client.who}\n")
    await asyncio.to_thread(notices.stopped, request.state.options, by=request.client.who, flushed=False)
    return StopState(True)


async def release_stop(request: ApiRequest) -> StopState:
    if os.path.lexists(request.state.stop_path):
        os.unlink(request.state.stop_path)
    return StopState(False)


ENDPOINTS = (
    Endpoint("GET", "/health", "open", health, "Whether the server is alive.", gives=Health),
    Endpoint(
        "GET", "/ready", "open", ready, "Whether the server accepts new work; 503 while it shuts down.", gives=Ready
    ),
    Endpoint(
        "GET",
        "/status",
        "read",
        status,
        "What the server is, and what this token may do.",
        gives=Status,
        reach="filtered",
    ),
    Endpoint(
        "POST",
        "/estop",
        "operate",
        set_stop,
        "Set the emergency stop: no tool runs until it is released.",
        gives=StopState,
        while_ending=True,
    ),
    Endpoint(
        "DELETE", "/estop", "admin", release_stop, "Release the emergency stop.", gives=StopState, while_ending=True
    ),
)
