"""Tells another Python program whether the policy allows a command, without running it."""

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
    """Why it is denied, or why a person would be asked first; None if it is simply allowed."""


class BashSecurity:
    """`BashSecurity(QueryOptions(cwd="…")).is_command_allowed("ls")`: the policy's verdict on a Bash call."""

    def __init__(self, options: QueryOptions | None = None) -> None:
        self._options = options or QueryOptions()

    @cached_property
    def _environment(self) -> ToolEnvironment:
        return tool_environment(start_reading(replace(options_of(self._options), asks="no")), None)

    def is_command_allowed(self, command: str) -> ValidationResult:
        """Judge a command. One that a person would be asked about counts as allowed, because they may say yes."""
        decision = prepare_and_judge(self._environment, ToolCall("validate", BASH, {"command": command})).decision
        return ValidationResult(decision.verdict != "deny", None if decision.verdict == "allow" else decision.reason)


__all__ = ["BashSecurity", "ValidationResult"]
