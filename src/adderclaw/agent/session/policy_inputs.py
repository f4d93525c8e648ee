"""Builds the policy of a session from the configuration and the recorded inputs."""

from adderclaw import policy, tools
from adderclaw.config.paths import followed
from adderclaw.config.schema.settings import Config
from adderclaw.core.tool_traits import NAMES
from adderclaw.core.types import Json


def policy_of(config: Config, policy_inputs: Json) -> policy.Policy:
    """Build the policy from `policy_inputs`. Resolved links are recorded in it, and reused if already recorded."""
    inputs = dict(policy_inputs)
    known: dict[str, str] = inputs.pop("real")

    def real(path: str) -> str:
        if path not in known:
            known[path] = followed(path)
        return known[path]

    return policy.policy_of(config, **inputs, aliases=tools.aliases(), known=NAMES, real=real)
