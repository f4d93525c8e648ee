"""The phase of a conversation and its plan, as lines of text."""

from adderclaw.core.redaction import visible
from adderclaw.core.types import Json


def status_lines(report: Json) -> list[str]:
    """The same for people."""
    lines = [f"conversation {report['conversation']}, phase {report['phase']}"]
    if (plan := report["plan"]) is None:
        lines.append("no plan yet")
    else:
        baseline = "; the workspace before it is kept" if plan["baseline"] else ""
        lines.append(f"plan {plan['id']} (version {plan['version']}): {plan['status']}{baseline}")
        for criterion in plan["criteria"]:
            keeps = " (keeps)" if criterion["keeps"] else ""
            lines.append(f"  {criterion['id']}{keeps}  {visible(criterion['text'].replace(chr(10), ' '))}")
        if not plan["criteria"]:
            lines.append("  no success criteria: nothing of it can be proved, and verify stays closed")
    for step in report["next"]:
        closed = step["closed"]
        lines.append(f"next {step['phase']}: {'closed' if closed else 'open'} ({step['on']})")
        lines += [f"  {visible(reason)}" for reason in closed]
    return lines
