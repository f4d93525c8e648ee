"""For another Python program: may this command run, by the gate's word? Nothing runs."""

from dataclasses import dataclass, replace
from functools import cached_property

from adderclaw.agent.run import start_reading, tool_environment
from adderclaw.agent.session.session import ToolEnvironment
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.clients.python.agent_client import options_of
from adderclaw.core.query import QueryOptions
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import ToolCall


@dataclass(frozen=True)
class ValidationResult:
    allowed: bool
    reason: str | None = None
    """Why not; of what is allowed, why a person is asked about it first, if one is."""


class BashSecurity:
    """`BashSecurity(QueryOptions(cwd="…")).is_command_allowed("ls")`: the gate's own verdict on a Bash call."""

    def __init__(self, options: QueryOptions | None = None) -> None:
        self._options = options or QueryOptions()

    @cached_property
    def _scene(self) -> ToolEnvironment:
        return tool_environment(start_reading(replace(options_of(self._options), asks="no")), None)

    def is_command_allowed(self, command: str) -> ValidationResult:
        """Whether it is denied whoever is there; what the mode asks about is allowed, for a person may say yes."""
        decision = prepare_and_judge(self._scene, ToolCall("validate", BASH, {"command": command})).decision
        return ValidationResult(decision.verdict != "deny", None if decision.verdict == "allow" else decision.reason)


__all__ = ["BashSecurity", "ValidationResult"]
