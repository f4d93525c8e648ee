"""What a generator is told: the plan, its open criteria, and the documents of the public interface that it names."""

import os
import re
from collections.abc import Iterable, Mapping

from adderclaw.core.framing import tagged
from adderclaw.flows.sdlc.running import SECONDS
from adderclaw.flows.sdlc.trees import Trees
from adderclaw.storage.sdlc.criteria import Criterion
from adderclaw.storage.sdlc.plans import Plan
from adderclaw.storage.text import plain

DOCUMENTS = (".md", ".rst", ".txt", ".adoc", ".json", ".yaml", ".yml", ".toml", ".sql", ".proto", ".graphql", ".xsd")
"""What a document of an interface is called; sources are none, whatever the plan says."""
MOST_DOCUMENTS, MOST_LETTERS = 8, 20_000
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_INTERFACE = re.compile(
    r"(?:\d+[.)]\s+)?(?:public\s+)?(?:interfaces?|api|contracts?|interface contracts?)\b.*", re.IGNORECASE
)
_NAMED = re.compile(r"`([^`\n]+)`|\]\(([^)\s]+)\)")


def system() -> str:
    with open(os.path.join(os.path.dirname(__file__), "generator.md"), encoding="utf-8") as file:
        return file.read().replace("{{seconds}}", f"{SECONDS:.0f}")


def prompt(
    plan: Plan, unproven: Iterable[Criterion], returned: Mapping[str, list[str]], documents: Mapping[str, str]
) -> str:
    """`returned`: criterion → why tests for it were turned back."""
    rows = ["The approved plan:", "", tagged("plan", plan.content), ""]
    for name, text in documents.items():
        rows += [f"{name}, as it was when the plan was approved:", "", tagged("document", text), ""]
    rows += ["Open criteria:", ""]
    for criterion in unproven:
        rows.append(f"- {criterion.id}{' (keeps)' if criterion.keeps else ''}: {criterion.text}")
        rows += [f"  - turned back before: {reason}" for reason in returned.get(criterion.id, [])[-3:]]
    return "\n".join(rows)


def interface(content: str) -> str:
    """The section of a plan that names its public interface; empty where it has none."""
    lines: list[str] = []
    level = 0
    for line in content.split("\n"):
        heading = _HEADING.match(line)
        if heading is not None and level and len(heading[1]) <= level:
            level = 0
        if heading is not None and not level and _INTERFACE.fullmatch(heading[2]):
            level = len(heading[1])
        elif level:
            lines.append(line)
    return "\n".join(lines)


def documents(trees: Trees, plan: Plan) -> dict[str, str]:
    """Those that the interface section names, from the baseline: nothing that was written since is in them."""
    texts: dict[str, str] = {}
    for match in _NAMED.finditer(interface(plan.content)):
        path = (match[1] or match[2]).strip().removeprefix("./")
        if len(texts) >= MOST_DOCUMENTS or not path.lower().endswith(DOCUMENTS) or path in texts:
            continue
        if (text := trees.document(path)) is not None:
            texts[path] = plain(text[:MOST_LETTERS])
    return texts
