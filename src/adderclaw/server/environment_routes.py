"""Endpoints about the environment of conversations: tools, policy, MCP servers, skills, hooks, settings, health."""

import asyncio
from typing import Any

from adderclaw.agent.queries import judging, parts
from adderclaw.agent.queries.judging import Explained, ToolRow
from adderclaw.agent.queries.parts import HookRow, ServerRow, Settings, Skills
from adderclaw.core.decode import unknown_key_hint
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.flows.doctor import health
from adderclaw.flows.doctor.health import Health
from adderclaw.server.client_scope import options_for
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.tools.hooks import catalogue


@record
class WorkspaceQuery:
    workspace: str | None = None
    """One of the folders of `/status`; null: the first."""


@record
class HooksQuery:
    workspace: str | None = None
    event: str | None = None
    """Only the hooks of this event."""


@record
class DoctorQuery:
    workspace: str | None = None
    connect: bool = False
    """Ask the model one word, wherever it is; that may cost a little."""


@record
class ExplainedCall:
    tool: str
    """A tool's name or alias."""
    input: dict[str, Any] | None = None
    """The call's arguments; null: none."""
    workspace: str | None = None
    profile: str | None = None
    """Judge as under this profile."""


async def list_tools(request: ApiRequest) -> list[ToolRow]:
    return await asyncio.to_thread(judging.tools, options_for(request, request.body.workspace))


async def explain_call(request: ApiRequest) -> Explained:
    from dataclasses import replace

    asked: ExplainedCall = request.body
    there = options_for(request, asked.workspace)
    there = replace(there, profile=asked.profile) if asked.profile is not None else there
    return await asyncio.to_thread(judging.explained, there, asked.tool, asked.input or {})


async def list_servers(request: ApiRequest) -> list[ServerRow]:
    return await asyncio.to_thread(parts.mcp_servers, options_for(request, request.body.workspace))


async def list_skills(request: ApiRequest) -> Skills:
    return await asyncio.to_thread(parts.skills, options_for(request, request.body.workspace))


async def list_hooks(request: ApiRequest) -> list[HookRow]:
    asked: HooksQuery = request.body
    if asked.event is not None and asked.event not in catalogue.EVENTS:
        raise UsageError(f"there is no hook event {asked.event!r}{unknown_key_hint(asked.event, [*catalogue.EVENTS])}")
    return await asyncio.to_thread(parts.hooks, options_for(request, asked.workspace), asked.event)


async def list_settings(request: ApiRequest) -> Settings:
    return await asyncio.to_thread(parts.settings, options_for(request, request.body.workspace))


async def run_doctor(request: ApiRequest) -> Health:
    asked: DoctorQuery = request.body
    return await asyncio.to_thread(health.doctor, options_for(request, asked.workspace), connect=asked.connect)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/tools",
        "read",
        list_tools,
        "The tools that a model may call.",
        WorkspaceQuery,
        list[ToolRow],
        reach="filtered",
    ),
    Endpoint(
        "POST",
        "/policy/explain",
        "read",
        explain_call,
        "What the policy would decide about a call, with the result of every guard and judge; nothing runs.",
        ExplainedCall,
        Explained,
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/mcp",
        "read",
        list_servers,
        "The configured MCP servers and which of their tools are approved; starts none of them.",
        WorkspaceQuery,
        list[ServerRow],
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/skills",
        "read",
        list_skills,
        "The skills, and why some cannot be used.",
        WorkspaceQuery,
        Skills,
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/hooks",
        "read",
        list_hooks,
        "The hooks in the order in which they run.",
        HooksQuery,
        list[HookRow],
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/settings",
        "read",
        list_settings,
        "Every setting with its origin; no secrets.",
        WorkspaceQuery,
        Settings,
        reach="filtered",
    ),
    Endpoint(
        "POST",
        "/doctor",
        "operate",
        run_doctor,
        "Check everything that a run needs; starts the configured MCP servers to check them.",
        DoctorQuery,
        Health,
    ),
)
