"""Measures skills: loading 500 and 2,000 by their frontmatter, routing a task among 500 at first and later on.

And what 5,000 cost a start that finds them as it left them: over a bare walk through the same folders.
"""

import json
import os
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from adderclaw.config.trust.folders import stamps
from adderclaw.tools.skills import router
from adderclaw.tools.skills.catalogue import Catalogue, SkillFolder, load_skills

ROUNDS = 21
TOPICS = ("invoices", "tables", "reports", "contracts", "photos", "notes", "meetings", "budgets", "recipes", "letters")
VERBS = ("extract", "summarize", "translate", "compare", "convert", "check", "draft", "sort", "merge", "review", "plan")
TASK = "Please summarise the meeting notes of last week and draft a short report for the team, with a table of budgets"


def planted(root: Path, count: int) -> SkillFolder:
    for number in range(count):
        verb, topic = VERBS[number % len(VERBS)], TOPICS[number % len(TOPICS)]
        folder = root / f"{verb}-{topic}-{number}"
        folder.mkdir(parents=True)
        text = f"{verb.title()} {topic} of kind {number}, with examples and templates. Use when somebody has {topic}."
        head = f"name: {folder.name}\ndescription: {text}\nmetadata:\n  version: '1.0'\n  tags: {verb}, {topic}"
        (folder / "SKILL.md").write_text(f"---\n{head}\n---\n# {folder.name}\n" + "Body of it.\n" * 500)
    return SkillFolder(str(root), "project", str(root))


def loaded(place: SkillFolder) -> tuple[float, Catalogue]:
    began = perf_counter()
    found = load_skills([place])
    router.prepare_index(found)
    return perf_counter() - began, found


def routed(catalogue: Catalogue) -> float:
    """In the processor's time: what else the machine does is not the router's."""
    began = process_time()
    router.route(catalogue, TASK)
    return process_time() - began


def looked_at(project: Path) -> float:
    began = process_time()
    count = len(list(stamps(str(project), ())))
    taken = process_time() - began
    assert count == 5_000, count
    return taken


def walked(project: Path) -> float:
    began = process_time()
    for folder, _, names, _ in os.fwalk(project):
        for name in names:
            os.stat(os.path.join(folder, name), follow_symlinks=False)
    return process_time() - began


def measured(folder: Path) -> dict[str, float]:
    few, many = planted(folder / "few", 500), planted(folder / "many", 2_000)
    catalogue = loaded(few)[1]
    planted(folder / "project" / "skills", 5_000)
    looks = min(looked_at(folder / "project") for _ in range(3))
    first = routed(catalogue)
    later = min(routed(catalogue) for _ in range(ROUNDS))
    return {
        "load_500_ms": min(loaded(few)[0] for _ in range(5)) * 1000,
        "load_2000_ms": min(loaded(many)[0] for _ in range(5)) * 1000,
        "look_5000_ms": looks * 1000,
        "look_5000_over_walk": looks / min(walked(folder / "project") for _ in range(3)),
        "route_500_first_ms": first * 1000,
        "route_500_ms": later * 1000,
        "route_first_over_later": first / later,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({name: round(value, 2) for name, value in measured(Path(folder)).items()}, indent=2))


if __name__ == "__main__":
    main()
