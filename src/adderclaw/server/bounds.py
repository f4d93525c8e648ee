"""Bounds for clients that are not administrators: at most the operator's own profile, limits and providers."""

import asyncio
from dataclasses import replace

from adderclaw.agent import queries
from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.config.legacy.options import Options
from adderclaw.config.managed import PROFILES, profile_for_others
from adderclaw.flows.request import RunRequest, limits_above_own
from adderclaw.server.endpoint import ApiRequest, Client
from adderclaw.server.refusal import Refusal


def require_profile(client: Client, options: Options, profile: str | None) -> None:
    """Refuse a profile that is looser than the operator's in that folder.

    Also for an administrator of some folders: a looser profile may reach others.
    """
    if profile is None or (client.has("admin") and not client.folders):
        return
    most = profile_for_others(queries.loaded(queries.read_only(options)).config, options.profile)
    if PROFILES.index(profile) > PROFILES.index(most):
        raise Refusal(
            403, "profile", f"the operator's profile is {most}: {profile} needs the scope admin, for all folders"
        )


async def require_profile_of_conversation(request: ApiRequest, conversation: Conversation) -> None:
    """Refuse a message to a conversation that another client opened with a looser profile than this client may use."""
    if (
        conversation.client != request.client.id and conversation.otherwise is None
    ):  # else it has at most the operator's
        there = replace(request.state.options, workspace=conversation.options.workspace)
        await asyncio.to_thread(require_profile, request.client, there, conversation.options.profile)


def require_limits(client: Client, options: Options, run_request: RunRequest) -> None:
    """Refuse limits that are wider than the operator's."""
    if not run_request.limits or client.has("admin"):
        return
    if most := limits_above_own(run_request, queries.loaded(options).config.limits):
        raise Refusal(
            403, "limits", f"the limits exceed the operator's ({most}): lower them, or use a token with the scope admin"
        )


def require_provider(options: Options, provider: str | None) -> None:
    """Refuse a provider that the operator has not configured, with 400: sending the request again would not help."""
    if provider is None:
        return
    models = queries.loaded(queries.read_only(options)).config.providers.models
    if provider not in models:
        known = ", ".join(sorted(models)) or "none"
        raise Refusal(400, "refused", f"no provider has the name {provider!r}; known: {known}")
