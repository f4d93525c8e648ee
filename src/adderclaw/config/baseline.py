"""What a project's file may change: until it is trusted it can only tighten, and it never weakens the baseline."""

from collections.abc import Callable
from typing import Any

from adderclaw.core.record import NamedTuple


class Ruled(NamedTuple):
    value: Any
    whole: bool
    """Whether all that was wanted counts."""


type Rule = Callable[[Any, Any], Ruled]
"""(what counts so far, what the file wants) → what counts then."""


def _stricter(*order: str | None) -> Rule:
    def rule(current: Any, requested: Any) -> Ruled:
        strict = order.index(requested) <= order.index(current)
        return Ruled(requested if strict else current, strict)

    return rule


def _only(value: Any) -> Rule:
    return lambda current, requested: Ruled(requested if requested == value else current, requested in (value, current))


def _lower(current: Any, requested: Any) -> Ruled:
    return Ruled(min(current, requested), requested <= current)


def _united(current: list[Any], requested: list[Any]) -> Ruled:
    """Both lists; a list that only leaves something out is an attempt to shrink."""
    new = [item for item in requested if item not in current]
    return Ruled([*current, *new], bool(new) or len(requested) >= len(current))


def _common(current: list[Any], requested: list[Any]) -> Ruled:
    """What stands in both lists; `*` stands for everything."""
    if "*" in current:
        return Ruled(requested, True)
    both = [item for item in current if item in requested or "*" in requested]
    return Ruled(both, all(item in current for item in requested))


def _fewer(current: list[Any], requested: list[Any]) -> Ruled:
    """A list that leaves something out; one that also adds something was not meant to tighten."""
    fewer = all(item in current for item in requested)
    return Ruled(requested if fewer else current, fewer)


def _kept(current: Any, requested: Any) -> Ruled:
    return Ruled(current, requested == current)


MODE = "permissions.defaultMode"

_TRUE, _FALSE, _DENY = _only(True), _only(False), _only("deny")

EVERYWHERE: dict[str, Rule] = {
    "logging.sanitize_control_chars": _TRUE,
    "logging.redact_secrets": _TRUE,
}
"""Holds for every file, the user's own too."""

BASELINE: dict[str, Rule] = {
    "security.forbidden_paths": _united,
    "security.forbidden_commands": _united,
    "security.audit_log": _TRUE,
    "receipts.enabled": _TRUE,
    "receipts.path": _kept,
    "checkpoints.enabled": _TRUE,
    "memory.path": _kept,
    "memory.backend": _kept,
    "disableAllHooks": _kept,
    "compat.claude": _kept,
    "runtime.shell_linux": _kept,
    "runtime.shell_windows": _kept,
    "sandbox.read_paths": _kept,
    "sandbox.accept": _only("bubblewrap"),
    "spec.verify": _stricter("required", "auto", "off"),
}
"""Holds for a project's files, trusted or not. `permissive`, which has no sandbox, is kept out by `of_project`."""

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
    "limits.cost_usd": _lower,
    "limits.tokens": _lower,
    "limits.tool_calls": _lower,
    "limits.seconds": _lower,
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
"""Key → how an untrusted project's file may set it. A key that is not here does not count."""


class BaselineVerdict(NamedTuple):
    value: Any
    why_not: str = ""
    """Why what was wanted does not count, or not all of it."""


UNTRUSTED = "not trusted"
WEAKENS = "a project's file cannot weaken the baseline; only your own configuration can do that"
NO_SANDBOX = "a project's file cannot turn the sandbox off; use --profile permissive"


YOURS_ALONE = (
    "channels.webhook.",
    "notices.",
    "retention.",
)
"""What begins so counts from the operator's own configuration alone: a project's file, trusted or not, sets none of it.
A target of a project's choice would be told what is done in other projects; a limit of its choice would remove theirs.
"""
ONLY_YOURS = "only your own configuration can say that, never a project's file, trusted or not"
NO_BYPASS = "bypassPermissions comes from `--permission-mode` or from your own settings in AdderClaw's folder alone"
STRICTER = "your own {named} counts; a project's mode can only be stricter"

_LIKE = {"readonly": "plan", "supervised": "default", "full": "bypassPermissions"}
"""The mode that an autonomy without one is as strict as."""


def mode_of_project(current: str | None, requested: str | None, autonomy: str) -> BaselineVerdict:
    """What counts of a project's mode where the operator chose a mode or an autonomy: trusted or not, the stricter."""
    value, whole = TIGHTEN[MODE](current or _LIKE[autonomy], requested)
    named = f"permissions.defaultMode = {current!r}" if current else f"security.autonomy = {autonomy!r}"
    return BaselineVerdict(value, "") if whole else BaselineVerdict(current, STRICTER.format(named=named))


def everywhere(key: str, current: Any, requested: Any) -> BaselineVerdict:
    """What counts of one value, whoever wants it."""
    rule = EVERYWHERE.get(key)
    value, whole = rule(current, requested) if rule else (requested, True)
    return BaselineVerdict(value, "" if whole else "it cannot be turned off")


def of_project(key: str, current: Any, requested: Any, *, trusted: bool) -> BaselineVerdict:
    """What counts of one value in a project's file."""
    if key in BASELINE:
        value, whole = BASELINE[key](current, requested)
        return BaselineVerdict(value, "" if whole else WEAKENS)
    if key.startswith(YOURS_ALONE):
        return BaselineVerdict(current, "" if requested == current else ONLY_YOURS)
    if key == "runtime.profile" and requested == "permissive" != current:
        return BaselineVerdict(current, NO_SANDBOX)
    if trusted:
        return BaselineVerdict(requested)
    value, whole = TIGHTEN.get(key, _kept)(current, requested)
    return BaselineVerdict(value, "" if whole else UNTRUSTED)
