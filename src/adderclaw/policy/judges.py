"""Judges: each may give an opinion on a call; the strictest one counts."""

from collections.abc import Iterable

from adderclaw.core.tool_traits import BASH, EDIT, READ, traits
from adderclaw.core.types import PathFact
from adderclaw.policy import rules
from adderclaw.policy.case import Case, Opinion
from adderclaw.policy.legacy import inline
from adderclaw.policy.legacy.commands import handed_on, reachable
from adderclaw.policy.legacy.programs.allowlist import names, those
from adderclaw.policy.legacy.programs.wrappers import inner
from adderclaw.policy.legacy.shell.planner import Plan, Raw, Simple, canonical_text, quote_if_needed, redirects, simples
from adderclaw.policy.paths import is_device
from adderclaw.policy.rules import Rule


def hook(case: Case) -> Opinion | None:
    """The opinion of PreToolUse hooks. They cannot grant raw bash, which is asked about each time."""
    opinion = case.hook_opinion
    if opinion is not None and opinion.verdict == "allow" and isinstance(case.touch.command, Raw):
        return None
    return opinion


def permission_rules(case: Case) -> Opinion | None:
    """The first deny rule that matches, else the first ask rule, else the first allow rule."""
    policy = case.policy.rules
    for rule in (*policy.deny, *policy.ask):
        if forbids(rule, case):
            return Opinion("permission rules", rule.behaviour, f"{rule.behaviour} rule {rule.text}")
    granted = _granting_rule(policy.allow, case)
    return Opinion("permission rules", "allow", f"allow rule {granted}") if granted else None


def other_projects(case: Case) -> Opinion | None:
    """Only the operator may show conversations of other projects, whatever a mode or rule allows."""
    return Opinion("other projects", "ask", case.touch.beyond) if case.touch.beyond else None


# ------------------------------------------------------------------ deny and ask: anything that matches


def forbids(rule: Rule, case: Case) -> bool:
    touch = case.touch
    match rule.subject:
        case "all":
            return rules.names_tool(rule, case.tool)
        case "path":
            named = rules.names_tool(rule, case.tool) and rules.matches_field(rule, case.arguments)
            return named or any(rules.matches_path(rule, fact) for fact in _covered_paths(rule, case))
        case "command":
            if case.tool != BASH:
                return False
            return _command_matches(rule, case) or rules.matches_field(rule, case.arguments)
        case "domain":
            return rules.names_tool(rule, case.tool) and any(
                rules.matches_host(rule, case.tool, host) for host in touch.hosts
            )
        case "name":
            matched = _name_matches(rule, case) or rules.matches_field(rule, case.arguments)
            return matched and rules.names_tool(rule, case.tool)


def _covered_paths(rule: Rule, case: Case) -> Iterable[PathFact]:
    """The paths that a rule applies to, also for commands. A denied read denies writes, too."""
    reads, writes = case.touch.reads, case.touch.writes
    if rule.tool == READ:
        return (*reads, *writes) if rule.behaviour == "deny" else reads
    if rule.tool == EDIT:
        return writes
    return (*reads, *writes) if case.tool == rule.tool else ()


def _command_matches(rule: Rule, case: Case) -> bool:
    command = case.touch.command
    if not isinstance(command, Plan | Raw):
        return False
    return any(rules.matches_text(rule, text) for text in spellings(command))


def spellings(command: Plan | Raw) -> Iterable[str]:
    """All spellings that a deny or ask rule can match: as written, unquoted, by name, without wrappers."""
    yield " ".join(command.text.split())
    for simple in simples(command) if isinstance(command, Plan) else ():
        yield " ".join(simple.text.split())
    for words in reachable(command):
        yield " ".join(words)
        yield " ".join((words[0].rsplit("/", 1)[-1], *words[1:]))


# ------------------------------------------------------------------ allow: everything must match


def _granting_rule(allow: tuple[Rule, ...], case: Case) -> str | None:
    command = case.touch.command
    if isinstance(command, Raw):
        return None
    if isinstance(command, Plan):
        return plan_granted(allow, case, command)
    return next((rule.text for rule in allow if _grants(rule, case)), None)


def _grants(rule: Rule, case: Case) -> bool:
    # A rule that allows changing a file also allows reading it.
    implied = rule.tool == EDIT and rule.subject == "path" and traits(case.tool).family == READ
    if not implied and not rules.names_tool(rule, case.tool):
        return False
    touch = case.touch
    match rule.subject:
        case "all":
            return rule.tool == case.tool or traits(case.tool).scope != "domain" or not _sends_data(case)
        case "path":
            facts = (*touch.reads, *touch.writes)
            return bool(facts) and all(rules.matches_path(rule, fact) for fact in facts)
        case "domain":
            return bool(touch.hosts) and all(rules.matches_host(rule, case.tool, host) for host in touch.hosts)
        case "name":
            return _name_matches(rule, case)
        case "command":
            return False


def _sends_data(case: Case) -> bool:
    return any(host.method.upper() not in rules.PLAIN_METHODS for host in case.touch.hosts)


def _name_matches(rule: Rule, case: Case) -> bool:
    field = traits(case.tool).rule_field
    value = case.arguments.get(field) if field else None
    return isinstance(value, str) and bool(rule.pattern) and rules.matches_text(rule, value)


def plan_granted(allow: tuple[Rule, ...], case: Case, command: Plan) -> str | None:
    """Each simple command needs a rule of its own, and each file that a redirect writes an Edit rule."""
    used: list[str] = []
    # Names that are known only at run time are asked about each time.
    if any(simple.handed for simple in simples(command)):
        return None
    for simple in simples(command):
        # Without a sandbox, only a rule with the exact text allows a command that contains code.
        exact = not case.policy.sandboxed and inline.stands_in(simple)
        candidates = (rule for rule in allow if rule.tool == BASH and (not exact or _is_exact(rule)))
        rule = next((rule for rule in candidates if allows_simple(rule, simple)), None)
        if rule is None:
            return None
        used.append(rule.text)
    targets = {redirect.target for redirect in redirects(command) if redirect.writes}
    for fact in case.touch.writes:
        redirected = any(fact.given == target or fact.given.endswith("/" + target) for target in targets)
        if redirected and not is_device(fact) and not any(_allows_edit(rule, fact) for rule in allow):
            return None
    return ", ".join(dict.fromkeys(used))


def _is_exact(rule: Rule) -> bool:
    return rule.subject == "command" and "*" not in rule.specifier


def allows_simple(rule: Rule, simple: Simple) -> bool:
    if rule.subject == "all":
        return True
    if rule.subject != "command" or ("*" in rule.specifier and _needs_exact_rule(simple)):
        return False
    # An exact rule does not cover code that comes from standard input.
    if "*" not in rule.specifier and any(map(inline.comes_by_stdin, handed_on(simple.words))):
        return False
    # A program named by a path may be another program: the rule must contain the path, too.
    texts = (" ".join(canonical_text(simple).split(" ")), _without_redirects(simple), *_unwrapped(simple))
    return any(rules.matches_text(rule, text) for text in texts)


_ACTIONS = names("-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls")


def _needs_exact_rule(simple: Simple) -> bool:
    """Whether only an exact rule can allow the command, because a wildcard could match anything."""
    program = _innermost(simple.words)
    name = program[0].rsplit("/", 1)[-1]
    return name in those("whole") or (name == "find" and not _ACTIONS.isdisjoint(program))


def _innermost(words: tuple[str, ...]) -> tuple[str, ...]:
    while words[0] in those("through") and (within := inner(words)):
        words = within
    return words


def _unwrapped(simple: Simple) -> Iterable[str]:
    if simple.name in those("through"):
        yield " ".join(map(quote_if_needed, _innermost(simple.words)))


def _without_redirects(simple: Simple) -> str:
    return simple.text if not simple.redirects else canonical_text(simple)


def _allows_edit(rule: Rule, fact: PathFact) -> bool:
    if rule.tool != EDIT:
        return False
    return rule.subject == "all" or (rule.subject == "path" and rules.matches_path(rule, fact))
