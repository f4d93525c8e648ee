"""The phase of a conversation and its plan, as lines of text."""

from adderclaw.core.redaction import visible
from adderclaw.core.types import Json


def status_lines(found: Json) -> list[str]:
    """The same for people."""
    lines = [f"conversation {found['conversation']}, phase {found['phase']}"]
    if (plan := found["plan"]) is None:
        lines.append("no plan yet")
    else:
        kept = "; the workspace before it is kept" if plan["baseline"] else ""
        lines.append(f"plan {plan['id']} (version {plan['version']}): {plan['status']}{kept}")
        for one in plan["criteria"]:
            keeps = " (keeps)" if one["keeps"] else ""
            lines.append(f"  {one['id']}{keeps}  {visible(one['text'].replace(chr(10), ' '))}")
        if not plan["criteria"]:
            lines.append("  no success criteria: nothing of it can be proved, and verify stays closed")
    for step in found["next"]:
        closed = step["closed"]
        lines.append(f"next {step['phase']}: {'closed' if closed else 'open'} ({step['on']})")
        lines += [f"  {visible(reason)}" for reason in closed]
    return lines
