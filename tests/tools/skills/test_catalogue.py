"""Stage 0: the same verdict as the specification's own implementation, nothing dropped silently, nothing unbounded."""

import os
import re
from pathlib import Path
from time import monotonic

import pytest
from skills_ref import validate  # pyright: ignore[reportMissingTypeStubs]

from adderclaw.tools.skills.catalogue import Skill, SkillFolder, inspect_skill, load_skills, skill_folders
from tests.tools.skills.conftest import Write

HEAD = "---\nname: pdf\ndescription: Reads PDF files.\n"
LONG = "x" * 1025

# name → (the file, the name of its folder)
SAME = {
    "valid": (f"{HEAD}---\n# Body\n", "pdf"),
    "crlf": (f"{HEAD}---\n# Body\n".replace("\n", "\r\n"), "pdf"),
    "all fields": (
        f"{HEAD}license: MIT\ncompatibility: Linux\nallowed-tools: Bash(jq:*) Read\nmetadata:\n  a: b\n  v: 1\n---\n",
        "pdf",
    ),
    "folded text": ("---\nname: pdf\ndescription: >-\n  Reads\n  files.\n---\n", "pdf"),
    "quoted text": ("---\nname: \"pdf\"\ndescription: 'Reads: all.'\n---\n", "pdf"),
    "a number as name": ("---\nname: 123\ndescription: d\n---\n", "123"),
    "a name that YAML takes for a truth value": ("---\nname: true\ndescription: d\n---\n", "true"),
    "letters of other languages": ("---\nname: навык\ndescription: d\n---\n", "навык"),
    "metadata that is a text": (f"{HEAD}metadata: text\n---\n", "pdf"),
    "metadata with a number": (f"{HEAD}metadata:\n  n: 1\n---\n", "pdf"),
    "nested metadata": (f"{HEAD}metadata:\n  a:\n    b: c\n---\n", "pdf"),
    "description of 1024": (f"---\nname: pdf\ndescription: {LONG[1:]}\n---\n", "pdf"),
    "compatibility of 500": (f"{HEAD}compatibility: {'c' * 500}\n---\n", "pdf"),
    "name of 64": (f"---\nname: {'n' * 64}\ndescription: d\n---\n", "n" * 64),
    "no file": (None, "pdf"),
    "an empty file": ("", "pdf"),
    "no frontmatter": ("# Title\n", "pdf"),
    "a blank line first": (f"\n{HEAD}---\n", "pdf"),
    "not closed": (HEAD, "pdf"),
    "an empty head": ("---\n---\n", "pdf"),
    "a list": ("---\n- a\n- b\n---\n", "pdf"),
    "a text": ("---\nonly words\n---\n", "pdf"),
    "no name": ("---\ndescription: d\n---\n", "pdf"),
    "no description": ("---\nname: pdf\n---\n", "pdf"),
    "an empty name": ("---\nname:\ndescription: d\n---\n", "pdf"),
    "an empty description": ("---\nname: pdf\ndescription: ''\n---\n", "pdf"),
    "blanks for a description": ("---\nname: pdf\ndescription: '   '\n---\n", "pdf"),
    "a list for a description": ("---\nname: pdf\ndescription:\n  - a\n---\n", "pdf"),
    "upper case": ("---\nname: PDF\ndescription: d\n---\n", "PDF"),
    "an underscore": ("---\nname: a_b\ndescription: d\n---\n", "a_b"),
    "a hyphen first": ("---\nname: -a\ndescription: d\n---\n", "-a"),
    "a hyphen last": ("---\nname: a-\ndescription: d\n---\n", "a-"),
    "two hyphens": ("---\nname: a--b\ndescription: d\n---\n", "a--b"),
    "a blank in the name": ("---\nname: a b\ndescription: d\n---\n", "a b"),
    "an invisible character in the name": ("---\nname: pd\u200bf\ndescription: d\n---\n", "pd\u200bf"),
    "another folder": (f"{HEAD}---\n", "other"),
    "name of 65": (f"---\nname: {'n' * 65}\ndescription: d\n---\n", "n" * 65),
    "description of 1025": (f"---\nname: pdf\ndescription: {LONG}\n---\n", "pdf"),
    "compatibility of 501": (f"{HEAD}compatibility: {'c' * 501}\n---\n", "pdf"),
    "compatibility that is a list": (f"{HEAD}compatibility:\n  - a\n---\n", "pdf"),
    "a field that it does not have": (f"{HEAD}version: 1\n---\n", "pdf"),
    "fields of the reference product": (f"{HEAD}argument-hint: x\nuser-invocable: true\n---\n", "pdf"),
    "a key twice": (f"{HEAD}description: again\n---\n", "pdf"),
    "an alias": ("---\nname: &n pdf\ndescription: *n\n---\n", "pdf"),
    "a tag": ("---\nname: !!str pdf\ndescription: d\n---\n", "pdf"),
    "a tab": (f"{HEAD}metadata:\n\ta: b\n---\n", "pdf"),
}

REPAIRED = {
    "an unquoted colon": ("---\nname: pdf\ndescription: Use when: reading PDF.\n---\n", "colon"),
    "a colon and a quote": ("---\nname: pdf\ndescription: It's for: PDF.\n---\n", "colon"),
    "a byte order mark": (f"\ufeff{HEAD}---\n", "byte order mark"),
    "three hyphens in a line": ("---\ndescription: Reads --- and writes.\nname: pdf\n---\n", "`---`"),
    "a list in brackets": (f"{HEAD}allowed-tools: [Read, Grep]\n---\n", "brackets"),
}


def made(root: Path, content: str | None, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    if content is not None:
        (folder / "SKILL.md").write_bytes(content.encode())
    return folder


@pytest.mark.parametrize("case", SAME)
def test_the_verdict_is_the_specifications(case: str, tmp_path: Path) -> None:
    folder = made(tmp_path, *SAME[case])
    oracle = validate(folder)
    found = inspect_skill(str(folder))
    assert bool(found.diagnosis) == bool(oracle), (found.diagnosis, oracle)
    assert not found.repairs or case == "metadata that is a text"
    assert found.usable or found.diagnosis


@pytest.mark.parametrize("case", REPAIRED)
def test_what_is_mended_is_said(case: str, tmp_path: Path) -> None:
    content, said = REPAIRED[case]
    folder = made(tmp_path, content, "pdf")
    assert validate(folder)
    found = inspect_skill(str(folder))
    assert found.usable
    assert not found.diagnosis
    assert said in " ".join(found.repairs)


def test_a_field_that_the_specification_lacks_keeps_nobody_from_using_the_skill(write: Write) -> None:
    found = inspect_skill(str(write("pdf", "description: d\nversion: 2\ntags: [a, b]\nuser-invocable: no")))
    assert found.usable
    assert "tags, user-invocable, version" in found.diagnosis[0]
    assert (found.version, found.tags, found.for_user, found.for_model) == ("2", ("a", "b"), False, True)


def test_what_the_frontmatter_says(write: Write) -> None:
    head = (
        "description: Reads   PDF.\nlicense: MIT\ncompatibility: Linux\nallowed-tools: Bash(git log:*), Read Grep\n"
        "metadata:\n  tags: pdf, tables\n  keywords: forms pages\n  version: '1.2'\n  author: somebody"
    )
    folder = write("pdf", head)
    (folder / "references").mkdir()
    (folder / "references" / "a.md").write_text("a")
    found = inspect_skill(str(folder))
    assert found.description == "Reads PDF."
    assert (found.tags, found.keywords, found.version) == (("pdf", "tables"), ("forms", "pages"), "1.2")
    assert found.allowed_tools == ("Bash(git log:*)", "Read", "Grep")
    assert found.metadata["author"] == "somebody"
    assert found.references_index == ("references/a.md",)


# ------------------------------------------------------------------ bad input


def bomb() -> str:
    levels = "\n".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]" for n in range(20))
    return f"---\nname: pdf\na: &a [x]\n{levels}\n---\n"


BAD: dict[str, tuple[bytes, str]] = {
    "binary": (os.urandom(64).replace(b"-", b"\0") + b"\0", "NUL|does not begin"),
    "NUL in the head": (b"---\nname: a\0b\n---\n", "NUL"),
    "not UTF-8": (b"---\nname: \xff\xfe\n---\n", "not UTF-8"),
    "a head without end": (b"---\nname: pdf\n" + b"x: y\n" * 200_000, "does not end within 65,536 bytes"),
    "aliases that multiply": (bomb().encode(), "anchors, aliases and tags"),
    "nested without end": (b"---\na: " + b"[" * 3_000 + b"\n---\n", "nested|YAML"),
    "no YAML": (b"---\nname: 'pdf\n---\n", "not YAML"),
    "a mapping as key": (b"---\n? {a: b}\n: c\n---\n", "is no name"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_heads(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "pdf"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(BAD[case][0])
    began = monotonic()
    found = inspect_skill(str(folder))
    assert monotonic() - began < 30
    assert not found.usable
    assert re.search(BAD[case][1], found.diagnosis[0]), found.diagnosis


def test_of_ten_megabytes_the_head_is_read_and_no_more(write: Write) -> None:
    folder = write("pdf", body="x" * 10_000_000)
    assert inspect_skill(str(folder)).usable


def test_what_is_no_file(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "a" / "SKILL.md")
    (tmp_path / "b" / "SKILL.md").mkdir()
    (tmp_path / "c" / "SKILL.md").symlink_to("/etc/passwd")
    found = load_skills([SkillFolder(str(tmp_path), "project", str(tmp_path))])
    assert [skill.name for skill in found.invalid] == ["a", "b", "c"]
    reasons = [skill.diagnosis[0] for skill in found.invalid]
    assert "not a regular file" in reasons[0]
    assert "leads out" in reasons[2]


def test_invisible_characters_of_a_description_are_shown(write: Write) -> None:
    found = inspect_skill(str(write("pdf", "description: Reads\u202e \U000e0041PDF\u200b.")))
    assert found.description == "Reads\\u{202e} \\u{e0041}PDF\\u{200b}."
    assert "invisible" in found.repairs[0]


# ------------------------------------------------------------------ places


def names(skills: tuple[Skill, ...]) -> list[str]:
    return [skill.name for skill in skills]


def test_the_operator_goes_before_the_project_and_a_name_twice_is_said(write: Write, tmp_path: Path) -> None:
    write("a", where="home/skills")
    write("b", where="home/skills")
    write("a", "description: of the project", where="project/.agents/skills")
    write("a", "description: first", where="project/skills")
    write("c", where="project/.adderclaw/skills")
    project, home = str(tmp_path / "project"), str(tmp_path / "home")
    found = load_skills(skill_folders(project, home, f"{project}/skills"))
    assert names(found.skills) == ["a", "b", "c"]
    assert (found.skills[0].description, found.skills[0].scope, found.skills[1].scope) == (
        "Does something.",
        "user",
        "user",
    )
    assert [one.ignored for one in found.duplicates] == [f"{project}/skills/a", f"{project}/.agents/skills/a"]
    assert len(found.directories) == 4


def test_one_folder_under_two_names_is_looked_into_once(write: Write, tmp_path: Path) -> None:
    write("a", where=".agents/skills")
    (tmp_path / "skills").symlink_to(".agents/skills")
    found = load_skills(skill_folders(str(tmp_path), "", str(tmp_path / "skills")))
    assert names(found.skills) == ["a"]
    assert not found.duplicates


def test_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    found = load_skills(skill_folders(str(tmp_path), str(tmp_path / "none"), str(tmp_path / "skills")))
    assert (found.skills, found.invalid, found.directories) == ((), (), (str(tmp_path / "skills"),))


def test_links_out_of_the_project_and_loops(write: Write, tmp_path: Path) -> None:
    outside = write("outside", where="elsewhere")
    inside = write("inside", where="project/shared")
    skills = tmp_path / "project" / "skills"
    skills.mkdir()
    (skills / "outside").symlink_to(outside)
    (skills / "inside").symlink_to(inside)
    (skills / "loop").symlink_to(skills)
    (skills / "empty").mkdir()
    (skills / "deep" / "er").mkdir(parents=True)
    (skills / "deep" / "er" / "back").symlink_to(skills)
    found = load_skills(skill_folders(str(tmp_path / "project"), "", str(skills)))
    assert names(found.skills) == ["inside"]
    told = {skill.name: skill.diagnosis[0] for skill in found.invalid}
    assert "leads out of the project" in told["outside"]
    assert "no SKILL.md" in told["loop"]
    assert {"empty", "deep"} <= set(told)


def test_skills_in_groups_are_found_and_a_skill_alone(write: Write, tmp_path: Path) -> None:
    write("docx", where="skills/documents")
    alone = write("alone", where="other")
    (tmp_path / "skills" / ".git").mkdir()
    assert names(load_skills([SkillFolder(str(tmp_path / "skills"), "project")]).skills) == ["docx"]
    assert names(load_skills([SkillFolder(str(alone), "project")]).skills) == ["alone"]


def test_too_many_are_cut_and_that_is_said(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / "skills" / f"s{number:05}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: s{number:05}\ndescription: d\n---\n")
    found = load_skills([SkillFolder(str(tmp_path / "skills"), "project")], most=10)
    assert len(found.skills) == 10
    assert "more than 10 skills; those after" in found.notes[0]


def test_a_collection_as_people_publish_them_loads_without_a_diagnosis(tmp_path: Path) -> None:
    """Seventeen heads in the styles that collections use: folded, quoted, long, with licence files, with metadata."""
    styles = (
        "description: {text}\nlicense: Complete terms in LICENSE.txt",
        "description: \"{text}: with a colon, 'quotes' and (1) numbers\"",
        "description: |\n  {text}\n  Second line.",
        "description: >\n  {text}\n  folded.\nmetadata:\n  author: example-org\n  version: '1.0'",
        "description: {text} Supports (1) .docx, (2) changes, & more; 50% faster!\nallowed-tools: Bash(jq:*) Read",
    )
    for number in range(17):
        head = styles[number % len(styles)].format(text=f"Comprehensive work on kind {number} of documents.")
        folder = made(tmp_path, f"---\nname: kind-{number}\n{head}\n---\n\n# Kind {number}\n", f"kind-{number}")
        assert validate(folder) == []
    found = load_skills([SkillFolder(str(tmp_path), "project")])
    assert len(found.skills) == 17
    assert not found.invalid
    assert not any(skill.diagnosis or skill.repairs for skill in found.skills)
