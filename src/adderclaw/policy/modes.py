"""The mode decides if no judge has an opinion: by risk, the stricter of autonomy and permission mode."""

from adderclaw.core.tool_traits import BASH, traits
from adderclaw.core.types import Autonomy, PermissionMode, Risk, Verdict
from adderclaw.policy.case import STRICTNESS, Case, Opinion, Policy
from adderclaw.policy.legacy import inline
from adderclaw.policy.legacy.commands import unknowable
from adderclaw.policy.legacy.looking import has_look_room, is_harmless
from adderclaw.policy.legacy.shell.planner import Plan, Raw, simples
from adderclaw.policy.risk import AssessedRisk

BY_AUTONOMY: dict[Autonomy, dict[Risk, Verdict]] = {
    "readonly": {"low": "allow", "medium": "deny", "high": "deny"},
    "supervised": {"low": "allow", "medium": "ask", "high": "deny"},
    "full": {"low": "allow", "medium": "allow", "high": "allow"},
}


def waits_for_plan(tool: str) -> bool:
    """Whether a tool needs an approved plan while planning."""
    return tool == BASH or traits(tool).writes


def is_readonly(policy: Policy) -> bool:
    return policy.mode == "plan" or policy.autonomy_now == "readonly"


def decide(case: Case, weighed: AssessedRisk) -> Opinion:
    policy, risk = case.policy, weighed.risk
    autonomy = policy.autonomy_now
    first = _by_autonomy(case, autonomy, risk)
    if policy.mode is None:
        return _opinion(case, first, autonomy, weighed)
    second = _by_mode(case, policy.mode, risk)
    accepts = policy.mode == "acceptEdits" and not policy.autonomy_set and second == "allow"
    verdict = second if accepts or STRICTNESS[second] > STRICTNESS[first] else first
    return _opinion(case, verdict, policy.mode if verdict != first else autonomy, weighed)


def _by_autonomy(case: Case, autonomy: Autonomy, risk: Risk) -> Verdict:
    command = case.touch.command
    if isinstance(command, Raw):
        return _raw_bash(case, autonomy, command)
    if autonomy == "full" and isinstance(command, Plan) and not case.policy.sandboxed and unknowable(command):
        return "deny"
    if autonomy == "readonly" and isinstance(command, Plan) and is_harmless(command) and risk == "medium":
        return "allow"
    return BY_AUTONOMY[autonomy][risk]


def _raw_bash(case: Case, autonomy: Autonomy, command: Raw) -> Verdict:
    """Raw bash runs in a sandbox or with `full` autonomy; elsewhere it is denied, or asked about each time."""
    if autonomy == "full" and (case.policy.sandboxed or not unknowable(command)):
        return "allow"
    asked = case.policy.raw_bash == "ask" or (case.policy.bubblewrap and case.at_terminal)
    return "ask" if autonomy != "readonly" and asked else "deny"


def _by_mode(case: Case, mode: PermissionMode, risk: Risk) -> Verdict:
    match mode:
        case "bypassPermissions":
            return "allow"
        case "dontAsk":
            return "allow" if risk == "low" else "deny"
        case "acceptEdits" if traits(case.tool).accepted and risk != "high":
            return "allow"
        case "plan" if waits_for_plan(case.tool):
            only_reads = has_look_room(case) or is_harmless(case.touch.command)
            return "allow" if only_reads and risk != "high" else "deny"
        case "default" | "acceptEdits" | "plan":
            return "allow" if risk == "low" else "ask"


def _opinion(case: Case, verdict: Verdict, mode: str, weighed: AssessedRisk) -> Opinion:
    if verdict != "deny":
        return Opinion("mode", verdict, weighed.why)
    fix = _fix_hint(case, mode, weighed)
    return Opinion("mode", "deny", f"{weighed.why}: {weighed.risk} risk is denied in {mode}{fix}", weighed.denial)


def _fix_hint(case: Case, mode: str, weighed: AssessedRisk) -> str:
    """The setting that would allow what the mode denies."""
    command = case.touch.command
    if mode == "full":
        unknown = unknowable(command) if isinstance(command, Plan | Raw) else None
        return f"; no sandbox is active, and it cannot be known before it runs: {unknown}"
    if mode != "supervised":
        return ""
    if isinstance(command, Raw):
        return (
            "; at the terminal, in bubblewrap, you would be asked; else write it without that construct, or set "
            'raw_bash = "ask" under [security] to be asked each time'
        )
    if weighed.denial == "no sandbox":
        rule_hint = ", and a rule in [permissions] allow that says all of it, without a star, would allow it"
        has_inline_code = isinstance(command, Plan) and any(map(inline.stands_in, simples(command)))
        hint = rule_hint if has_inline_code else ""
        return f"; in a sandbox (bubblewrap or Landlock; see `adderclaw doctor`) you would be asked{hint}"
    if any(rule_hint in weighed.why for rule_hint in ("allowed_commands", "allowed_domains", "not installed")):
        return ""
    if case.touch.hosts:
        return f'; add "{case.tool}(domain:{case.touch.hosts[0].host})" to [permissions] allow'
    return f'; add a rule for {case.tool} to [permissions] allow, or set autonomy = "full"'
