"""The rules that "always allow" would add: only exact ones, which allow this call and no wider one."""

import re
from dataclasses import replace

from adderclaw.core.tool_traits import BASH, traits
from adderclaw.policy import judges
from adderclaw.policy.case import Case
from adderclaw.policy.legacy import remotes
from adderclaw.policy.legacy.shell.planner import Plan, canonical_text, simples
from adderclaw.policy.rules import Anchors, InvalidRule, parse
from adderclaw.policy.verdict import policy_files

_MOST = 4
"""Commands of one plan: a person would not read more rules than this before approving."""
_JOINTS = r" (?:&&|\|\||\|) |; "


def exact_rules(case: Case) -> tuple[str, ...]:
    """Rules that would allow exactly this call; none if no exact rule exists, and never for raw bash."""
    command = case.touch.command
    if remotes.each_time(case):
        return ()
    if isinstance(command, Plan):
        texts = _rules_for_plan(command)
    elif command is None and not case.touch.opaque and not case.touch.hosts:
        texts = _rules_for_path(case)
    else:
        return ()
    return texts if texts and _would_allow(texts, case) else ()


def describe_rules(rules: tuple[str, ...]) -> str:
    """A description of such rules for the person who decides whether they apply from now on."""
    clauses: list[str] = []
    for rule in rules:
        tool, _, rest = rule.removesuffix(")").partition("(")
        clauses.append(f"`{rest}` may run, word for word" if tool == BASH else f"{rest[1:]} may {traits(tool).grant}")
    return f"{'; '.join(clauses)}, without a question"


def _rules_for_plan(command: Plan) -> tuple[str, ...]:
    """A rule for each command of a plan of simple commands, word for word."""
    commands = simples(command)
    texts = [canonical_text(simple) for simple in commands]
    if not 0 < len(commands) <= _MOST or re.split(_JOINTS, command.shown) != texts:
        return ()
    if any(re.search(r"[*\0]|  |[^\S ]", text) for text in texts):
        return ()  # a star would be a wildcard, and rules fold spaces
    return tuple(f"{BASH}({text})" for text in dict.fromkeys(texts))


def _rules_for_path(case: Case) -> tuple[str, ...]:
    facts = (*case.touch.reads, *case.touch.writes)
    # The other reading tools take folders, and a rule for a folder covers all that is in it.
    if not traits(case.tool).grant or len({(fact.path, fact.real) for fact in facts}) != 1:
        return ()
    path = facts[0].path
    if path != facts[0].real or re.search(r"[*?\[\]\\!\0\n]|[/ ]$", path):
        return ()
    return (f"{case.tool}(/{path})",)


def _would_allow(texts: tuple[str, ...], case: Case) -> bool:
    """Whether the policy would allow the call with these rules alone."""
    policy = case.policy
    anchors = Anchors(policy.workspace, policy.workspace, policy.user_home)
    try:
        rules = policy.rules._replace(allow=tuple(parse(text, "allow", anchors) for text in texts))
    except InvalidRule:
        return False
    opinion = judges.permission_rules(replace(case, policy=replace(policy, rules=rules)))
    others = (policy_files(case), judges.hook(case))
    silent = all(other is None or other.verdict in (None, "allow") for other in others)
    return opinion is not None and opinion.verdict == "allow" and silent
