"""What a client that is no administrator may want of a conversation or a run: at most what the operator has."""

import asyncio
from dataclasses import replace

from adderclaw.agent import queries
from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.config.legacy.options import Options
from adderclaw.config.managed import PROFILES, profile_for_others
from adderclaw.flows.request import RunRequest, limits_above_own
from adderclaw.server.endpoint import Called, Client
from adderclaw.server.refusal import Refusal


def require_profile(client: Client, options: Options, wanted: str | None) -> None:
    """Refuse a profile that is looser than the operator's in that folder.

    Also for an administrator of some folders: a looser profile may reach others.
    """
    if wanted is None or (client.has("admin") and not client.folders):
        return
    most = profile_for_others(queries.loaded(queries.looking(options)).config, options.profile)
    if PROFILES.index(wanted) > PROFILES.index(most):
        raise Refusal(
            403, "profile", f"the operator's profile is {most}: {wanted} needs the scope admin, for all folders"
        )


async def require_own(called: Called, one: Conversation) -> None:
    """A Refusal of a message to a conversation that somebody else was let have in a looser profile."""
    if one.client != called.client.id and one.otherwise is None:  # else it has at most the operator's
        there = replace(called.house.options, workspace=one.options.workspace)
        await asyncio.to_thread(require_profile, called.client, there, one.options.profile)


def require_limits(client: Client, options: Options, given: RunRequest) -> None:
    """A Refusal where one is wider than the operator's."""
    if not given.limits or client.has("admin"):
        return
    if most := limits_above_own(given, queries.loaded(options).config.limits):
        raise Refusal(403, "limits", f"a run may use up at most: {most}; more needs the scope admin")


def require_provider(options: Options, wanted: str | None) -> None:
    """A Refusal where the operator has none of this name: the request is wrong, and to send it again mends nothing."""
    if wanted is None:
        return
    models = queries.loaded(queries.looking(options)).config.providers.models
    if wanted not in models:
        known = ", ".join(sorted(models)) or "none"
        raise Refusal(400, "refused", f"no provider has the name {wanted!r}; known: {known}")
