"""A public collection of skills in a folder that somebody names: loaded, validated, inspected, and routed to.

ADDERCLAW_PUBLIC_SKILLS=~/some/skills .venv/bin/pytest tests/tools/skills/test_public.py
"""

import json
import os
from pathlib import Path

from skills_ref import validate  # pyright: ignore[reportMissingTypeStubs]

from adderclaw.tools.skills.catalogue import inspect_skill
from tests.program import Cli

FOLDER = Path(os.environ.get("ADDERCLAW_PUBLIC_SKILLS", "."))
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/SKILL.md"))


def test_each_gets_the_verdict_of_the_reference_implementation() -> None:
    assert NAMES, f"has no skills {FOLDER}"
    for name in NAMES:
        ours = inspect_skill(str(FOLDER / name))
        if not ours.repairs:  # those are ours alone, and are said
            assert bool(ours.diagnosis) == bool(validate(FOLDER / name)), (name, ours.diagnosis)


def test_each_is_loaded_inspected_and_found_by_its_own_words(cli: Cli) -> None:
    given = ("--skills-dir", str(FOLDER))
    listed = json.loads(cli("skills", "list", *given, "--output-format", "json").out)
    assert [one["name"] for one in listed["skills"]] == NAMES
    assert not listed["invalid"] + listed["notes"]
    assert [one["name"] for one in listed["skills"] if one["diagnosis"]] == []
    assert cli("skills", "validate", str(FOLDER)).code == 0
    for one in listed["skills"]:
        shown = cli("skills", "inspect", one["name"], "--show-frontmatter", "--show-sections", *given)
        assert (shown.code, shown.err) == (0, ""), shown
        planned = cli("run", "--dry-run", "--task", one["description"][:300], *given, "--output-format", "json")
        assert planned.code == 0, planned.err
        assert one["name"] in [name for name, *_ in json.loads(planned.out)["candidates"]]
