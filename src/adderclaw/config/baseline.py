"""What a project's file may change. An untrusted file can only tighten; no project's file can weaken the baseline."""

from collections.abc import Callable
from typing import Any

from adderclaw.config.schema import LIMIT_NAMES
from adderclaw.core.record import NamedTuple


class RuleResult(NamedTuple):
    value: Any
    whole: bool
    """Whether the requested value applies completely."""


type Rule = Callable[[Any, Any], RuleResult]
"""(current value, requested value) → effective value."""


def _stricter(*order: str | None) -> Rule:
    def rule(current: Any, requested: Any) -> RuleResult:
        strict = order.index(requested) <= order.index(current)
        return RuleResult(requested if strict else current, strict)

    return rule


def _only(value: Any) -> Rule:
    return lambda current, requested: RuleResult(
        requested if requested == value else current, requested in (value, current)
    )


def _lower(current: Any, requested: Any) -> RuleResult:
    return RuleResult(min(current, requested), requested <= current)


def _united(current: list[Any], requested: list[Any]) -> RuleResult:
    """The union of both lists. A request that only removes entries is rejected."""
    new = [item for item in requested if item not in current]
    return RuleResult([*current, *new], bool(new) or len(requested) >= len(current))


def _common(current: list[Any], requested: list[Any]) -> RuleResult:
    """The intersection of both lists; `*` means everything."""
    if "*" in current:
        return RuleResult(requested, True)
    both = [item for item in current if item in requested or "*" in requested]
    return RuleResult(both, all(item in current for item in requested))


def _fewer(current: list[Any], requested: list[Any]) -> RuleResult:
    """The requested list if it only removes entries; otherwise the current one."""
    fewer = all(item in current for item in requested)
    return RuleResult(requested if fewer else current, fewer)


def _unchangeable(current: Any, requested: Any) -> RuleResult:
    return RuleResult(current, requested == current)


MODE = "permissions.defaultMode"

_TRUE, _FALSE, _DENY = _only(True), _only(False), _only("deny")

EVERYWHERE: dict[str, Rule] = {
    "logging.sanitize_control_chars": _TRUE,
    "logging.redact_secrets": _TRUE,
}
"""Rules for every file, including the user's own."""

BASELINE: dict[str, Rule] = {
    "security.forbidden_paths": _united,
    "security.forbidden_commands": _united,
    "security.audit_log": _TRUE,
    "receipts.enabled": _TRUE,
    "receipts.path": _unchangeable,
    "checkpoints.enabled": _TRUE,
    "memory.path": _unchangeable,
    "memory.backend": _unchangeable,
    "disableAllHooks": _unchangeable,
    "compat.claude": _unchangeable,
    "runtime.shell_linux": _unchangeable,
    "runtime.shell_windows": _unchangeable,
    "sandbox.read_paths": _unchangeable,
    "sandbox.accept": _only("bubblewrap"),
    "spec.verify": _stricter("required", "auto", "off"),
}
"""Rules for a project's files, trusted or not. `of_project` rejects the profile `permissive`, which has no sandbox."""

TIGHTEN: dict[str, Rule] = {
    "security.autonomy": _stricter("readonly", "supervised", "full"),
    "security.workspace_only": _TRUE,
    "security.allowed_commands": _fewer,
    "security.allowed_domains": _fewer,
    "security.registries": _fewer,
    "security.additional_directories": _fewer,
    "security.raw_bash": _DENY,
    "security.network": _DENY,
    "security.sandbox_required": _TRUE,
    "runtime.profile": _stricter("readonly", "supervised", "sandboxed", "permissive"),
    "runtime.max_tool_rounds": _lower,
    "runtime.max_turns": _lower,
    "runtime.max_response_bytes": _lower,
    "runtime.tool_timeout_seconds": _lower,
    "runtime.shell_timeout_seconds": _lower,
    "runtime.http_timeout_seconds": _lower,
    "runtime.timeout_seconds": _lower,
    "runtime.max_llm_retries": _lower,
    "runtime.parallel_calls": _lower,
    "runtime.loop_warn_at": _lower,
    "runtime.loop_stop_at": _lower,
    **{f"limits.{name}": _lower for name in LIMIT_NAMES},
    "subagents.max_depth": _lower,
    "subagents.max_concurrent": _lower,
    "subagents.max_total": _lower,
    "subagents.max_tool_rounds": _lower,
    "subagents.result_chars": _lower,
    "channels.cli.tools_allow": _common,
    "web.fetches_per_minute": _lower,
    "web.searches_per_minute": _lower,
    "skills.disclosure_max_reference_bytes": _lower,
    "skills.disclosure_max_reference_tokens": _lower,
    "skills.inline_commands": _FALSE,
    "logging.debug_llm_bodies": _FALSE,
    "telemetry.enabled": _FALSE,
    "telemetry.include_content": _FALSE,
    "permissions.deny": _united,
    "permissions.ask": _united,
    MODE: _stricter("plan", "dontAsk", "default", None, "acceptEdits", "bypassPermissions"),
    "permissions.additionalDirectories": _fewer,
    "permissions.disableBypassPermissionsMode": _only("disable"),
    "permissions.allowManagedPermissionRulesOnly": _TRUE,
    "allowManagedHooksOnly": _TRUE,
}
"""Key → how an untrusted project's file may set it. Other keys are ignored."""


class BaselineVerdict(NamedTuple):
    value: Any
    why_not: str = ""
    """Why the requested value does not apply, or not completely."""


UNTRUSTED = "not trusted"
WEAKENS = "a project's file cannot weaken the baseline; only your own configuration can do that"
NO_SANDBOX = "a project's file cannot turn the sandbox off; use --profile permissive"


YOURS_ALONE = (
    "channels.webhook.",
    "notices.",
    "retention.",
)
"""Prefixes of keys that only the operator's own configuration can set. A notice target chosen by a project would
receive notices about other projects, and a retention limit chosen by a project would delete their data.
"""
ONLY_YOURS = "only your own configuration can set this; a project's file cannot, even if it is trusted"
NO_BYPASS = "bypassPermissions can only be set with `--permission-mode` or in your own settings in AdderClaw's folder"
STRICTER = "your own {named} applies; a project's mode can only be stricter"

_LIKE = {"readonly": "plan", "supervised": "default", "full": "bypassPermissions"}
"""Autonomy → the equally strict permission mode."""


def effective_mode_of_project(current: str | None, requested: str | None, autonomy: str) -> BaselineVerdict:
    """The effective mode if both the operator and a project set one: the stricter, even if the project is trusted."""
    value, whole = TIGHTEN[MODE](current or _LIKE[autonomy], requested)
    named = f"permissions.defaultMode = {current!r}" if current else f"security.autonomy = {autonomy!r}"
    return BaselineVerdict(value, "") if whole else BaselineVerdict(current, STRICTER.format(named=named))


def everywhere(key: str, current: Any, requested: Any) -> BaselineVerdict:
    """The effective value of a key under the rules for every file."""
    rule = EVERYWHERE.get(key)
    value, whole = rule(current, requested) if rule else (requested, True)
    return BaselineVerdict(value, "" if whole else "it cannot be turned off")


def effective_value_of_project(key: str, current: Any, requested: Any, *, trusted: bool) -> BaselineVerdict:
    """The effective value of a key that a project's file sets."""
    if key in BASELINE:
        value, whole = BASELINE[key](current, requested)
        return BaselineVerdict(value, "" if whole else WEAKENS)
    if key.startswith(YOURS_ALONE):
        return BaselineVerdict(current, "" if requested == current else ONLY_YOURS)
    if key == "runtime.profile" and requested == "permissive" != current:
        return BaselineVerdict(current, NO_SANDBOX)
    if trusted:
        return BaselineVerdict(requested)
    value, whole = TIGHTEN.get(key, _unchangeable)(current, requested)
    return BaselineVerdict(value, "" if whole else UNTRUSTED)
