"""The five demo skills: valid, found by the tasks that they are for, staged; their scripts do what they say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from skills_ref import validate  # pyright: ignore[reportMissingTypeStubs]

from adderclaw.tools.skills import router, scripts
from adderclaw.tools.skills.catalogue import SkillFolder, load_skills
from adderclaw.tools.skills.disclosure import Constraints, Disclosure
from tests.program import Done

DEMOS = Path(__file__).resolve().parents[3] / "demos" / "basic_demo_skills"
CATALOGUE = load_skills([SkillFolder(str(DEMOS), "project", str(DEMOS))])
NAMES = [
    "content-summarizer",
    "keyword-search-extractor",
    "markdown-report-drafter",
    "task-checklist-builder",
    "workspace-inventory",
]


def run(script: str, *arguments: str, cwd: Path) -> Done:
    found = next(DEMOS.glob(f"*/scripts/{script}"))
    program = "bash" if script.endswith(".sh") else sys.executable
    done = subprocess.run([program, str(found), *arguments], cwd=cwd, capture_output=True, timeout=30, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "notes.md").write_text(
        "# Plan\n\nThe timeout is 30 seconds. The timeout matters most of all.\n\n## Work\n\n- [ ] Fix the timeout\n"
        "- [x] Read the logs\n- Call Anna\n- apples\nAction: send the report\n\n```\n# no heading\n```\n"
    )
    (tmp_path / "main.py").write_text("x = 1  # TODO: raise the timeout\n")
    (tmp_path / "blob.bin").write_bytes(b"\0" * 4096)
    (tmp_path / "bad\x1b[2J.txt").write_text("timeout \x1b[31m red\n")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "node_modules").mkdir()
    return tmp_path


# ------------------------------------------------------------------ the skills


def test_there_are_five_and_nothing_is_wrong_with_them() -> None:
    assert [skill.name for skill in CATALOGUE.skills] == NAMES
    assert not CATALOGUE.invalid
    for skill in CATALOGUE.skills:
        assert validate(Path(skill.folder)) == []
        assert not skill.diagnosis
        assert not skill.repairs
        assert skill.version
        assert skill.tags


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("What is in this workspace? Count the files.", "workspace-inventory"),
        ("Find all lines that mention the keyword timeout", "keyword-search-extractor"),
        ("Summarize README.md in five sentences", "content-summarizer"),
        ("Make a checklist of the action items in these notes", "task-checklist-builder"),
        ("Draft a Markdown report about our findings", "markdown-report-drafter"),
    ],
)
def test_each_is_found_by_its_task(task: str, name: str) -> None:
    found = router.route(CATALOGUE, task)
    assert found.strategy == "matched"
    assert found.candidates[0].skill_name == name


@pytest.mark.parametrize("skill", CATALOGUE.skills, ids=NAMES)
def test_each_has_references_that_wait_and_scripts_that_are_described(skill: "router.Skill") -> None:
    made = Disclosure(skill, max_bytes=120_000, max_tokens=4_000)
    summary = made.summary()
    assert not summary.blocked
    assert "## Instructions" in summary.text
    references = [way for way in skill.references_index if way.startswith("references/")]
    assert references
    later = made.requested(references)
    assert [file.path for file in later.files] == references
    assert not any(file.cut for file in (*summary.files, *later.files))
    described = made.scripts(Constraints(30, "bubblewrap", network=False))
    assert len(described.files) == len(scripts.list_scripts(skill.folder)) > 0
    assert all(one.summary for one in scripts.list_scripts(skill.folder))


# ------------------------------------------------------------------ their scripts

REFUSED: list[tuple[str, list[str], str]] = [
    ("inventory.py", ["nowhere"], "is not a folder"),
    ("inventory.py", [".", "--top", "0"], "takes 1 to 100"),
    ("extract.py", ["--keyword", "x", "nowhere"], "there is no"),
    ("extract.py", ["--keyword", "", "."], "matches everything"),
    ("extract.py", ["--keyword", "(", "--regex", "."], "not a pattern"),
    ("digest.py", ["nowhere"], "cannot be read"),
    ("digest.py", ["blob.bin"], "not a text file"),
    ("checklist.py", ["nowhere"], "there is no"),
    ("checklist.py", ["docs", "--out", "main.py"], "was not written"),
    ("draft.py", ["--title", " "], "title is empty"),
    ("draft.py", ["--title", "T", "--section", "Summary"], "NAME=TEXT"),
    ("draft.py", ["--title", "T", "--section", "Summary=@nowhere"], "cannot be read"),
    ("draft.py", ["--title", "T", "--section", "a=1", "--section", "a=2"], "given twice"),
    ("draft.py", ["--title", "T", "--out", "main.py"], "was not written"),
    ("check_report.sh", ["nowhere.md"], "there is no file"),
    ("check_report.sh", [], "usage"),
]


@pytest.mark.parametrize(("script", "arguments", "said"), REFUSED)
def test_bad_input_is_refused_in_words(script: str, arguments: list[str], said: str, work: Path) -> None:
    before = (work / "main.py").read_text()
    done = run(script, *arguments, cwd=work)
    assert done.code != 0
    assert said in done.err
    assert "Traceback" not in done.err
    assert (work / "main.py").read_text() == before


def test_inventory(work: Path) -> None:
    made = json.loads(run("inventory.py", ".", "--json", cwd=work).out)
    assert (made["files"], made["folders"], made["skipped"], made["unreadable"]) == (4, 1, 1, 0)
    assert made["largest"][0] == {"path": "blob.bin", "bytes": 4096}
    assert {row["type"]: row["files"] for row in made["types"]} == {".bin": 1, ".md": 1, ".py": 1, ".txt": 1}
    text = run("inventory.py", cwd=work)
    assert text.out.startswith("4 files in 1 folders")
    assert "\x1b" not in text.out


def test_extract(work: Path) -> None:
    done = run("extract.py", "--keyword", "TIMEOUT", "--ending", ".md", "--context", "1", "docs", cwd=work)
    assert "docs/notes.md:3: The timeout is 30 seconds." in done.out
    assert "docs/notes.md-2- " in done.out
    assert done.out.endswith("2 matches in 1 of 1 files\n")
    everything = run("extract.py", "--keyword", "timeout", "--max", "1", cwd=work)
    assert "and more that are not shown" in everything.out
    made = json.loads(run("extract.py", "--keyword", "red", "--json", ".", cwd=work).out)
    assert made["matches"][0]["text"] == "timeout ?[31m red"
    assert made["skipped"] == 1


def test_digest(work: Path) -> None:
    made = json.loads(run("digest.py", "docs/notes.md", "--json", "--sentences", "1", cwd=work).out)
    assert [(row["level"], row["title"]) for row in made["outline"]] == [(1, "Plan"), (2, "Work")]
    assert made["terms"][0] == "timeout"
    assert made["sentences"] == ["The timeout is 30 seconds."]


def test_checklist(work: Path) -> None:
    done = run("checklist.py", "docs", "main.py", cwd=work)
    assert done.out == (
        "- [ ] Fix the timeout (docs/notes.md:7)\n- [ ] Call Anna (docs/notes.md:9)\n"
        "- [ ] send the report (docs/notes.md:11)\n- [ ] raise the timeout (main.py:1)\n\n4 open, 1 done\n"
    )
    assert run("checklist.py", "docs", "--out", "list.md", cwd=work).out == "3 tasks written to list.md\n"
    assert (work / "list.md").exists()


def test_a_report_is_drafted_filled_and_checked(work: Path) -> None:
    first = run("draft.py", "--title", "Timeouts", "--section", "findings=@docs/notes.md", "--out", "r.md", cwd=work)
    assert first.code == 0
    assert "Summary, Background, Next steps" in first.err
    text = (work / "r.md").read_text()
    assert "### Plan" in text
    assert "\n# no heading" in text
    assert run("check_report.sh", "r.md", cwd=work).out == "to be filled: 3\n"
    (work / "r.md").write_text(text.replace("TO BE FILLED", "It is 30 seconds."))
    assert run("check_report.sh", "r.md", cwd=work) == Done(0, "complete\n", "")
    (work / "bare.md").write_text("nothing\n")
    assert run("check_report.sh", "bare.md", cwd=work).code == 1
