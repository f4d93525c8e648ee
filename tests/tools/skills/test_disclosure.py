"""Only what a stage is for, only inside of the skill's folder, never over a cap."""

import os
from pathlib import Path

import pytest

from adderclaw.core.errors import PathRefused
from adderclaw.tools.skills import invocation, scripts
from adderclaw.tools.skills.catalogue import inspect_skill
from adderclaw.tools.skills.disclosure import Constraints, Disclosure, estimate_tokens
from adderclaw.tools.skills.markdown import sections
from tests.rows import rows
from tests.tools.skills.conftest import Write

BODY = """\
Before.

# PDF tools

Introduction.

## When to use

Whenever.

### Deeper

Still summary.

## Instructions

Run `scripts/read.py`.

```bash
# no heading
## none either
```

## Secret details

DETAILS

# Another part

PART
"""
HELD = Constraints(30.0, "bubblewrap", network=False)


@pytest.fixture
def skill(write: Write) -> Path:
    folder = write("pdf", "description: d\nmetadata:\n  tags: t", BODY)
    for name, content in {
        "references/a.md": "# A\n\nalpha\n\n## B\n\nbeta\n",
        "references/b.md": "b\n" * 10,
        "scripts/read.py": '#!/usr/bin/env python3\n"""Reads pages."""\nSECRET_CODE = 1\n',
        "scripts/go.sh": "# Goes.\nexit 0\n",
        "scripts/data.csv": "a,b\n",
    }.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return folder


def disclosure(folder: Path, most: int = 100_000, tokens: int = 10_000) -> Disclosure:
    return Disclosure(inspect_skill(str(folder)), max_bytes=most, max_tokens=tokens)


# ------------------------------------------------------------------ the stages


def test_stage_0_reads_the_frontmatter_only(skill: Path) -> None:
    (skill / "SKILL.md").write_text((skill / "SKILL.md").read_text().replace("DETAILS", "\0"))
    found = disclosure(skill).metadata()
    assert found.stage == 0
    assert found.files[0].text == "name: pdf\ndescription: d\ntags: t"


def test_stage_1_has_heading_and_summary_and_names_the_rest(skill: Path) -> None:
    found = disclosure(skill).summary()
    assert [file.path for file in found.files] == ["SKILL.md"]
    for text in ("Before.", "# PDF tools", "Introduction.", "Whenever.", "Still summary.", "# no heading"):
        assert text in found.text
    for text in ("DETAILS", "PART", "alpha", "SECRET_CODE"):
        assert text not in found.text
    assert "Secret details (" in found.text
    assert "Another part (" in found.text
    assert "references/a.md" in found.text


def test_stage_2_has_what_was_asked_for_and_nothing_else(skill: Path) -> None:
    found = disclosure(skill).requested(["references/a.md#b", "SKILL.md#secret-details", "#Another part"])
    assert [file.path for file in found.files] == [
        "references/a.md#B",
        "SKILL.md#Secret details",
        "SKILL.md#Another part",
    ]
    assert [file.text for file in found.files] == [
        "## B\n\nbeta",
        "## Secret details\n\nDETAILS",
        "# Another part\n\nPART",
    ]
    assert "alpha" not in found.text


def test_what_was_shown_is_not_shown_again(skill: Path) -> None:
    made = disclosure(skill)
    made.requested(["references/a.md"])
    again = made.requested(["references/a.md", "./references/../references/a.md"])
    assert not again.files
    assert len(again.notes) == 2


def test_stage_3_describes_scripts_and_shows_no_code(skill: Path) -> None:
    found = disclosure(skill).scripts(HELD)
    assert [file.path for file in found.files] == ["scripts/go.sh#descriptor", "scripts/read.py#descriptor"]
    assert "Reads pages." in found.text
    assert f"python3 {skill}/scripts/read.py" in found.text
    assert "without network, for at most 30 seconds" in found.text
    assert "SECRET_CODE" not in found.text


def test_a_skill_without_scripts(write: Write) -> None:
    found = disclosure(write("plain")).scripts(HELD)
    assert not found.files
    assert found.notes == ("there are no scripts",)


def test_the_event_has_exact_files_bytes_and_tokens(skill: Path) -> None:
    found = disclosure(skill).requested(["references/b.md", "nowhere.md"])
    text = "b\n" * 9 + "b"
    assert found.event() == {
        "skill": "pdf",
        "stage": 2,
        "files": [
            {"path": "references/b.md", "bytes": len(text), "tokens": 5, "cut": 0},
            {"path": "nowhere.md", "bytes": 0, "tokens": 0, "blocked": found.blocked[0].reason},
        ],
        "bytes": 19,
        "tokens": 5,
    }


# ------------------------------------------------------------------ caps


@pytest.mark.parametrize(("most", "tokens"), [(0, 100), (100, 0), (50, 1000), (1000, 12), (200, 50), (1, 1), (333, 77)])
def test_both_caps_hold_over_all_stages(skill: Path, most: int, tokens: int) -> None:
    (skill / "references" / "wide.md").write_text("ééé ßßß\n" * 500)
    made = disclosure(skill, most, tokens)
    found = [
        made.metadata(),
        made.summary(),
        made.requested(["references/wide.md", "references/a.md"]),
        made.scripts(HELD),
    ]
    files = [file for one in found for file in one.files]
    assert sum(file.bytes for file in files) <= most
    assert sum(file.tokens for file in files) <= tokens
    assert all(file.bytes == len(file.text.encode()) and file.tokens == estimate_tokens(file.text) for file in files)
    assert any(file.cut for file in files)
    assert min(made.room) >= 0


def test_what_is_cut_ends_with_a_line_and_says_so(skill: Path) -> None:
    (skill / "references" / "long.md").write_text("line\n" * 1000)
    found = disclosure(skill, 103, 1000).requested(["references/long.md"])
    assert found.files[0].text == "\n".join(["line"] * 20)
    assert found.files[0].cut == 4999 - 99
    assert "4,900 more bytes were cut" in found.text


def test_ten_megabytes_are_not_held(write: Write) -> None:
    folder = write("pdf", body="# T\n\n" + "word " * 2_000_000)
    found = disclosure(folder, 1000, 100).summary()
    assert found.bytes <= 400


# ------------------------------------------------------------------ what is blocked

OUT = ["../other/SKILL.md", "/etc/passwd", "~/x.md", "references/../../x", "..", "a\0b", "", "link.md", "dir/passwd",
       "https://example.org/x.md", "..\\x", "x" * 5000, "fifo", "references", "binary.md"]  # fmt: skip


@pytest.mark.parametrize("path", OUT)
def test_nothing_outside_of_the_folder_is_read(skill: Path, path: str) -> None:
    (skill.parent / "x").write_text("outside")
    (skill / "link.md").symlink_to("/etc/passwd")
    (skill / "dir").symlink_to("/etc")
    (skill / "binary.md").write_bytes(b"a\0b")
    os.mkfifo(skill / "fifo")
    found = disclosure(skill).requested([path])
    if path:
        assert not found.files
        assert len(found.blocked) == 1
    assert "root:" not in found.text
    assert "outside" not in "".join(file.text for file in found.files)


def test_a_link_that_stays_inside_is_followed(skill: Path) -> None:
    (skill / "references" / "same.md").symlink_to("b.md")
    assert disclosure(skill).requested(["references/same.md"]).files[0].path == "references/b.md"


def test_a_section_that_is_not_there_names_those_that_are(skill: Path) -> None:
    (blocked,) = disclosure(skill).requested(["references/a.md#Z"]).blocked
    assert "there is no such section. Available sections: A (" in blocked.reason


OUTWARD = {
    "run `../evil.sh`": ("../evil.sh",),
    "see [it](../../x.py)": ("../../x.py",),
    "```\npython3 /opt/tool.py --x\n```": ("/opt/tool.py",),
    "`bash ~/go.sh`": ("~/go.sh",),
    "`scripts/../../out.rb`": ("scripts/../../out.rb",),
    "run `scripts/ok.py` and `./scripts/../scripts/ok.sh`": (),
    "the word ../prose.sh outside of code": (),
    "`python /path/to/script.py`": (),
    "[docs](https://example.org/../x.py)": (),
}


@pytest.mark.parametrize("text", OUTWARD)
def test_scripts_outside_are_named_and_blocked(text: str, write: Write) -> None:
    assert scripts.outside_scripts(text) == OUTWARD[text]
    made = disclosure(write("pdf", body=f"# T\n\n{text}\n"))
    for found in (made.summary(), made.scripts(HELD)):
        assert tuple(one.path for one in found.blocked) == OUTWARD[text]
        assert not any("#descriptor" in file.path for file in found.files)


@pytest.mark.parametrize("way", ["../evil.sh", "/bin/sh", "link.sh", "scripts/data.csv", "scripts/none.py", "scripts"])
def test_only_scripts_of_the_skill_can_be_started(skill: Path, way: str) -> None:
    (skill / "link.sh").symlink_to("/bin/sh")
    with pytest.raises(PathRefused):
        scripts.find_script(str(skill), way)


def test_a_script_is_started_by_its_first_line_or_its_ending(skill: Path) -> None:
    (skill / "scripts" / "run").write_text("#!/bin/bash -e\n")
    (skill / "scripts" / "strange.py").write_text("#!/opt/evil --x\n")
    found = {one.way: one.interpreter for one in scripts.list_scripts(str(skill))}
    assert found == {
        "scripts/go.sh": "bash", "scripts/read.py": "python3", "scripts/run": "bash", "scripts/strange.py": "python3",
    }  # fmt: skip


# ------------------------------------------------------------------ Markdown and arguments


def test_headings_are_told_from_code() -> None:
    text = "# A\n~~~\n# no\n~~~~ x\n~~~\n    # indented\n#hash\n## B ##\n```\n# open to the end"
    assert [(one.level, one.title) for one in sections(text)] == [(1, "A"), (2, "B")]


FILLED = [
    ("do $ARGUMENTS now", "a b", "do a b now"),
    ("do $ARGUMENTS now", "", "do  now"),
    ("first $0, second $ARGUMENTS[1], third $2.", "x 'y z'", "first x, second y z, third $2."),
    ("plain", "a", "plain\n\nARGUMENTS: a"),
    ("awk '{print $1}'", "", "awk '{print $1}'"),
    ("costs \\$5 for $ARGUMENTS", "me", "costs $5 for me"),
    ("in ${CLAUDE_SKILL_DIR} and ${ADDERCLAW_SKILL_DIR}, ${CLAUDE_OTHER}", "", "in /s and /s, ${CLAUDE_OTHER}"),
    ("$ARGUMENTS", "$ARGUMENTS ${CLAUDE_SKILL_DIR}", "$ARGUMENTS ${CLAUDE_SKILL_DIR}"),
    ("$0", "'unclosed", "'unclosed"),
]


@rows(("body", "given", "wanted"), FILLED)
def test_arguments_are_filled_in_once(body: str, given: str, wanted: str) -> None:
    assert invocation.fill_arguments(body, given, {"SKILL_DIR": "/s"}) == wanted
