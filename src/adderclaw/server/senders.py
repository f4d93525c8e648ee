"""The senders of webhook channels and what the agent may do for them, from the operator's configuration."""

import os
from dataclasses import replace
from typing import Any

from adderclaw.agent import queries
from adderclaw.agent.run import Options
from adderclaw.config.managed import PROFILES, profile_for_others
from adderclaw.config.paths import followed
from adderclaw.config.schema.settings import Config, Sender
from adderclaw.server.refusal import Refusal
from adderclaw.server.state import ServerState
from adderclaw.storage import threads
from adderclaw.storage.deliveries import DAY


def allowed_tools(sender: Sender, config: Config) -> list[str]:
    """The sender's, out of those that the operator offers."""
    offered, allowed = config.channels.cli.tools_allow, sender.tools_allow
    return list(allowed) if "*" in offered else [name for name in offered if name in allowed or "*" in allowed]


def sender_options(state: ServerState, sender: Sender) -> Options:
    """How conversations of this sender are held; a Refusal where its folder is not there."""
    folder = followed(os.path.abspath(sender.workspace))
    if not os.path.isdir(folder):
        raise Refusal(
            503, "workspace", "the folder of this sender does not exist: the operator must fix the configuration"
        )
    here = replace(state.options, workspace=folder)
    config = queries.loaded(queries.looking(here)).config
    offered: dict[str, Any] = {"channels": {"cli": {"tools_allow": allowed_tools(sender, config)}}}
    if sender.cost_usd_per_day is not None:  # as a limit of the run, too, it refuses a model without a price
        own = state.options.overrides.get("limits", {})
        offered["limits"] = {**own, "cost_usd": min(sender.cost_usd_per_day, config.limits.cost_usd)}
    mode = min(sender.profile, profile_for_others(config, state.options.profile), key=PROFILES.index)
    return replace(here, profile=mode, overrides={**state.options.overrides, **offered})


def has_same_rules(options: Options, other: Options) -> bool:
    """Whether a conversation that is open is held by these rules."""
    return (options.workspace, options.profile, options.overrides) == (other.workspace, other.profile, other.overrides)


def require_budget(state: ServerState, sender: Sender, client: str) -> None:
    most = sender.cost_usd_per_day
    if most is not None and (spent := threads.cost_since(state.store, client, state.clock.now() - DAY)) >= most:
        raise Refusal(429, "cost", f"this sender has used {spent:.2f} of {most:.2f} USD within 24 hours: try later")
