"""The risk of a call from what it touches: low, medium or high, with the reason that the operator reads."""

from collections.abc import Iterator

from adderclaw.config.paths import beneath
from adderclaw.core.record import NamedTuple
from adderclaw.core.tool_traits import SKILL
from adderclaw.core.types import HostFact, PathFact, Risk
from adderclaw.policy.case import Case, CommandDenial
from adderclaw.policy.hosts import PLAIN_METHODS, is_listed
from adderclaw.policy.legacy import inline
from adderclaw.policy.legacy.commands import endless, unlisted, unnamed
from adderclaw.policy.legacy.looking import has_look_room
from adderclaw.policy.legacy.shell.environment import folders_of
from adderclaw.policy.legacy.shell.planner import Plan, Raw, simples
from adderclaw.policy.paths import forms, is_device

ORDER: dict[Risk, int] = {"low": 0, "medium": 1, "high": 2}


class AssessedRisk(NamedTuple):
    risk: Risk
    why: str
    denial: CommandDenial | None = None
    """Why a command with this risk is denied."""


def risk_of(case: Case) -> AssessedRisk:
    """The greatest risk among everything that the call touches; the first of that risk gives the reason."""
    best = AssessedRisk("low", case.touch.why or "touches no file, host or program")
    for part in _assess_parts(case):
        # Without a sandbox, name an unlisted program before a problem that a sandbox would turn into a question.
        if ORDER[part.risk] > ORDER[best.risk] or (part.risk == "high" and best.denial == "no sandbox" != part.denial):
            best = part
    return best


def _assess_parts(case: Case) -> Iterator[AssessedRisk]:
    touch, policy = case.touch, case.policy
    if touch.beyond:
        yield AssessedRisk("medium", touch.beyond)
    if touch.opaque:
        yield AssessedRisk("medium", touch.why or "what it touches is not known")
    if isinstance(touch.command, Raw):
        yield AssessedRisk(
            "high", f"raw bash ({touch.command.reason})", "not listed" if policy.sandboxed else "no sandbox"
        )
    elif isinstance(touch.command, Plan):
        yield from _assess_plan(case, touch.command)
    elif touch.command is not None:
        yield AssessedRisk("high", "a command of an unknown kind", "not listed")
    for fact in touch.writes:
        if not is_device(fact):
            if is_inside(fact, policy.roots) or is_scratch(fact, case):
                yield AssessedRisk("medium", touch.why or "writes to the workspace")
            else:
                yield AssessedRisk("high", f"writes {fact.path}", "outside")
    for fact in touch.reads:
        known = is_device(fact) or is_inside(fact, policy.roots) or is_scratch(fact, case) or is_kept(fact, case)
        if not known:
            yield AssessedRisk("medium", f"reads {fact.path}, outside the workspace")
    for host in touch.hosts:
        yield _host_risk(host, policy.allowed_domains)


def _assess_plan(case: Case, plan: Plan) -> Iterator[AssessedRisk]:
    """The risks of a plan. Uncertain parts are asked about in a sandbox and denied without one."""
    touch, policy = case.touch, case.policy
    unsure: list[str] = []
    for simple in simples(plan):
        unlisted_command = unlisted(simple, policy, lambda name: _is_project_code(name, case), plan.inside)
        if unlisted_command is not None and unlisted_command.denial == "no sandbox":
            unsure.append(unlisted_command.why)
        elif unlisted_command is not None:
            yield AssessedRisk("high", unlisted_command.why, unlisted_command.denial)
    folders = (folder for simple in simples(plan) for folder in folders_of(simple.env))
    scratch = {fact.given for fact in touch.reads if is_scratch(fact, case)}
    unsure += [f"code from {folder}, which does not belong to the project" for folder in folders if folder in scratch]
    unsure += (*unnamed(plan), *inline.brought(plan), *endless(plan))
    for why in unsure:
        yield AssessedRisk("medium", why) if policy.sandboxed else AssessedRisk("high", why, "no sandbox")
    if not unsure and has_look_room(case):
        yield AssessedRisk("low", touch.why or "only reads the workspace")
    elif touch.looks and case.unmasked:
        yield AssessedRisk(
            "medium", "could show files that are denied to Read, because they cannot be hidden from it now"
        )
    else:
        yield AssessedRisk("medium", touch.why or "runs a command")


def _is_project_code(program: str, case: Case) -> bool:
    """Whether a program is named by a path in the workspace that does not lead out of it."""
    named = [fact for fact in case.touch.reads if fact.given == program or fact.given.endswith(f"/{program}")]
    if program.endswith(".py") and not program.startswith(("/", ".")):
        # A module can be one of two files; an installed module has the name of neither.
        named = [fact for fact in named if fact.identity is not None]
    return "/" in program and bool(named) and all(is_inside(f, case.policy.roots) or is_scratch(f, case) for f in named)


def _host_risk(fact: HostFact, allowed: tuple[str, ...]) -> AssessedRisk:
    method = fact.method.upper()
    if method not in PLAIN_METHODS:
        return AssessedRisk("high", f"sends {method} to {fact.host}")
    if is_listed(fact, allowed):
        return AssessedRisk("low", f"asks {fact.host}")
    return AssessedRisk("medium", f"asks {fact.host}, which is not in [security] allowed_domains")


def is_kept(fact: PathFact, case: Case) -> bool:
    """Whether the call reads a skill of the operator's, or stored long output of this session by a file tool."""
    if is_inside(fact, case.policy.shown):
        return True
    policy = case.policy
    own = f"{policy.home}/skills" if policy.home and case.tool == SKILL else ""
    return case.touch.command is None and is_inside(fact, tuple(folder for folder in (policy.kept, own) if folder))


def is_scratch(fact: PathFact, case: Case) -> bool:
    """Whether a command names a place in the sandbox's own /tmp, which is empty when the session begins.

    If the workspace or the home is in the real /tmp, its top folder does not count as scratch, and neither does a path
    with `..`.
    """
    policy, written = case.policy, fact.given
    if not policy.scratch or case.touch.command is None or not beneath(fact.path, policy.scratch):
        return False
    if not written.startswith(policy.scratch) or ".." in written.split("/"):
        return False
    occupied = (*policy.roots, policy.home, policy.user_home)
    tops = (root[len(policy.scratch) + 1 :].split("/", 1)[0] for root in occupied if beneath(root, policy.scratch))
    return not any(beneath(fact.path, f"{policy.scratch}/{top}") for top in tops)


def is_inside(fact: PathFact, roots: tuple[str, ...]) -> bool:
    """Whether a path and its target are both in the workspace or an additional directory."""
    return all(any(beneath(path, root) for root in roots) for path in forms(fact))
