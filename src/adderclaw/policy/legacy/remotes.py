"""Git and other machines: a remote that a command would reach is asked about, with its address."""

from adderclaw.policy import judges
from adderclaw.policy.case import Case, Opinion

VERBS = {"fetch": "git asks", "push": "git sends to", "set": "git sets a remote:"}
HOW = ' (unasked by a rule in [permissions] allow, such as "Bash(git fetch:*)")'


def remotes(case: Case) -> Opinion | None:
    """Asked unless an allow rule names the command; each time where nothing may be granted for longer than a call."""
    facts = case.touch.remotes
    if not facts or not case.policy.sandboxed:
        return None
    each, granted = each_time(case), _is_granted(case)
    if not each and (case.policy.mode == "bypassPermissions" or granted):
        return None
    where = ", ".join(dict.fromkeys(f"{VERBS[fact.verb]} {fact.address}" for fact in facts))
    if each:
        return Opinion("git remote", "ask", f"{where}: {each}, so it is asked about each time")
    return Opinion("git remote", "ask", f"{where}, with your keys for that host{HOW}")


def each_time(case: Case) -> str:
    """Why no rule and no "always" covers the call; empty where one may."""
    return next((fact.each_time for fact in case.touch.remotes if fact.each_time), "")


def _is_granted(case: Case) -> bool:
    opinion = judges.permission_rules(case)
    return opinion is not None and opinion.verdict == "allow"
