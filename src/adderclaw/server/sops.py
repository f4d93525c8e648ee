"""Endpoints of SOPs: list and show them, and the progress of their runs. `POST /runs` begins one."""

import asyncio

from adderclaw.agent import queries
from adderclaw.flows.queries import sops
from adderclaw.flows.queries.sops import SopRow, SopState
from adderclaw.flows.sop.sop import NAME
from adderclaw.server import client_scope
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.environment_routes import WorkspaceQuery
from adderclaw.server.refusal import not_found
from adderclaw.storage import runs


async def list_sops(request: ApiRequest) -> list[SopRow]:
    return await asyncio.to_thread(sops.listed, client_scope.options_for(request, request.body.workspace))


async def show_sop(request: ApiRequest) -> SopRow:
    name = request.path["name"]
    if not NAME.fullmatch(name):
        raise not_found("SOP", name)
    return await asyncio.to_thread(sops.one, client_scope.options_for(request, request.body.workspace), name)


async def show_steps(request: ApiRequest) -> SopState:
    id = request.path["id"]

    def read() -> SopState | None:
        with queries.reading(request.state.options) as store:
            run = runs.get(store, id, client_scope.visible_folders(request))
            return sops.of_run(store, run) if run is not None and run.run_id == id and run.kind == "sop" else None

    state = await asyncio.to_thread(read)
    if state is None:
        raise not_found("run of a SOP", id)
    return state


ENDPOINTS = (
    Endpoint(
        "GET",
        "/sops",
        "read",
        list_sops,
        "The SOPs, and what is wrong with invalid ones.",
        WorkspaceQuery,
        list[SopRow],
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/sops/{name}",
        "read",
        show_sop,
        "One SOP: its inputs and its steps.",
        WorkspaceQuery,
        SopRow,
        reach="filtered",
    ),
    Endpoint(
        "GET", "/runs/{id}/steps", "read", show_steps, "How far a run of a SOP has come.", gives=SopState, reach="run"
    ),
)
