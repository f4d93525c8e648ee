"""The policy of a session, made of the configuration and of what was found around it."""

from adderclaw import policy, tools
from adderclaw.config.paths import followed
from adderclaw.config.schema.settings import Config
from adderclaw.core.tool_traits import NAMES
from adderclaw.core.types import Json


def policy_of(config: Config, policy_inputs: Json) -> policy.Policy:
    """The policy of what `made_of` names. Where links lead is noted in it, and taken from it when it is noted."""
    inputs = dict(policy_inputs)
    known: dict[str, str] = inputs.pop("real")

    def real(path: str) -> str:
        if path not in known:
            known[path] = followed(path)
        return known[path]

    return policy.policy_of(config, **inputs, aliases=tools.aliases(), known=NAMES, real=real)
