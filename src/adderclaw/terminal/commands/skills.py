"""`adderclaw skills`: lists skills, shows one, and checks one against the specification."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from adderclaw.agent.queries import parts
from adderclaw.agent.run import Options, start
from adderclaw.agent.run.skills import located
from adderclaw.config.paths import followed
from adderclaw.core.errors import EXIT_CODES, PathRefused, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, WorkspaceDir, group
from adderclaw.terminal.output import print_json
from adderclaw.tools.skills import catalogue, scripts
from adderclaw.tools.skills.catalogue import Catalogue, Skill
from adderclaw.tools.skills.disclosure import Disclosure
from adderclaw.tools.skills.markdown import sections

app = group("List skills, look at one, check one.")

SkillsDir = Annotated[
    str | None, typer.Option("--skills-dir", metavar="DIR", help="Folder of skills; default: skills.dir.")
]


@app.command("list")
def list_skills(
    skills_dir: SkillsDir = None,
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """List the skills by name, and those that cannot be used with their problems.

    Example: adderclaw skills list --skills-dir ./skills
    """
    known = _load_catalogue(skills_dir, config, workspace)
    if output_format == "json":
        print_json(parts.of_catalogue(known))
        return
    for skill in known.skills:
        print(f"{skill.name:<28} {skill.scope:<8} {skill.description[:200]}")
        for text in (*skill.diagnosis, *skill.repairs):
            print(f"    note: {text}")
    for skill in known.invalid:
        print(f"{skill.name:<28} invalid  {_plain(skill.folder)}")
        for text in skill.diagnosis:
            print(f"    {text}")
    for duplicate in known.duplicates:
        print(f"{duplicate.name} appears twice: {_plain(duplicate.used)} is used, {_plain(duplicate.ignored)} is not")
    for note in known.notes:
        print(_plain(note))
    if not known.skills and not known.invalid:
        looked = ", ".join(map(_plain, known.directories)) or "none of its folders is there"
        print(f"there are no skills ({looked})")


@app.command("inspect")
def inspect_skill(
    name: Annotated[str, typer.Argument(help="A skill's name.")],
    show_frontmatter: Annotated[bool, typer.Option("--show-frontmatter", help="With its frontmatter.")] = False,
    show_sections: Annotated[bool, typer.Option("--show-sections", help="With the headings of SKILL.md.")] = False,
    skills_dir: SkillsDir = None,
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show one skill: its description, files, scripts and problems.

    Example: adderclaw skills inspect workspace-inventory --show-frontmatter --show-sections
    """
    skill = _require_skill(_load_catalogue(skills_dir, config, workspace), name)
    shown = {**parts.skill(skill)} | _files(skill)
    if show_frontmatter:
        shown["frontmatter"] = skill.fields
    if show_sections:
        shown["sections"] = _sections(skill)
    if output_format == "json":
        print_json(shown)
        return
    _print(skill, shown)


@app.command("validate")
def validate_skill(
    path: Annotated[str, typer.Argument(help="A skill's folder, its SKILL.md, or a folder of skills.")],
    output_format: OutputFormat = "text",
) -> None:
    """Check skills against the Agent Skills specification; exits with 1 if there is a problem.

    Example: adderclaw skills validate ./skills/workspace-inventory
    """
    skills = _skills_at(path)
    bad = [skill for skill in skills if skill.diagnosis]
    if output_format == "json":
        print_json({"valid": not bad, "skills": [parts.skill(skill) for skill in skills]})
    else:
        for skill in skills:
            print(f"{'invalid' if skill.diagnosis else 'valid'}: {_plain(skill.folder)}")
            for text in skill.diagnosis:
                print(f"    {text}")
            for text in skill.repairs:
                print(f"    repaired: {text}")
            for text in _skill_json(skill):
                print(f"    blocked: {text} is outside the skill's folder")
    if bad:
        raise typer.Exit(EXIT_CODES["error"])


# ------------------------------------------------------------------ finding


def _load_catalogue(skills_dir: str | None, config: str | None, workspace: str | None) -> Catalogue:
    if skills_dir is not None and not os.path.isdir(os.path.expanduser(skills_dir)):
        raise UsageError(f"--skills-dir: {skills_dir!r} is not a folder")
    overrides: Json = {"skills": {"dir": os.path.abspath(os.path.expanduser(skills_dir))}} if skills_dir else {}
    options = Options(config_file=config, workspace=workspace, log_level="warning", overrides=overrides)
    runtime = start(replace(options, here=True, looks=True))
    return catalogue.load_skills(located(runtime))


def _require_skill(known: Catalogue, name: str) -> Skill:
    skill = known.find(name) or next((candidate for candidate in known.invalid if candidate.name == name), None)
    if skill is None:
        from adderclaw.core.decode import unknown_key_hint

        hint = unknown_key_hint(name, [candidate.name for candidate in (*known.skills, *known.invalid)])
        raise UsageError(f"there is no skill {name[:100]!r}{hint}; `adderclaw skills list` shows all")
    return skill


def _skills_at(path: str) -> list[Skill]:
    """The skill at a path, or those in a folder of skills."""
    whole = followed(os.path.expanduser(path))
    if os.path.basename(whole) in catalogue.NAMES and os.path.isfile(whole):
        whole = os.path.dirname(whole)
    if not os.path.isdir(whole):
        raise UsageError(f"{path!r} is neither a skill's folder nor its SKILL.md")
    if any(os.path.lexists(os.path.join(whole, name)) for name in catalogue.NAMES):
        return [catalogue.inspect_skill(whole)]
    loaded = catalogue.load_skills([catalogue.SkillFolder(whole, "project", whole)])
    several = sorted((*loaded.skills, *loaded.invalid), key=lambda skill: skill.folder)
    return several or [catalogue.inspect_skill(whole)]


# ------------------------------------------------------------------ showing


def _files(skill: Skill) -> Json:
    skill_scripts = scripts.list_scripts(skill.folder) if skill.usable else []
    return {
        "references_index": [_plain(way) for way in skill.references_index],
        "scripts": [
            {"path": script.way, "interpreter": script.interpreter, "summary": script.summary}
            for script in skill_scripts
        ],
        "outside": list(_skill_json(skill)),
    }


def _skill_json(skill: Skill) -> tuple[str, ...]:
    try:
        return scripts.outside_scripts(Disclosure(skill, max_bytes=0, max_tokens=0).body())
    except PathRefused:
        return ()


def _sections(skill: Skill) -> list[Json]:
    try:
        body = Disclosure(skill, max_bytes=0, max_tokens=0).body()
    except PathRefused:
        return []
    return [
        {"level": section.level, "title": _plain(section.title), "characters": len(section.own)}
        for section in sections(body)
        if section.level
    ]


def _print(skill: Skill, shown: Json) -> None:
    print(f"{skill.name} ({skill.scope}): {skill.description}")
    print(f"folder: {_plain(skill.folder)}")
    for name in ("version", "license", "compatibility"):
        if shown[name]:
            print(f"{name}: {shown[name]}")
    for name in ("tags", "keywords", "allowed_tools", "references_index", "diagnosis", "repairs", "outside"):
        if shown[name]:
            print(f"{name.replace('_', ' ')}: {', '.join(shown[name])}")
    for row in shown["scripts"]:
        print(f"script {_plain(row['path'])} ({row['interpreter']}): {row['summary']}")
    if "frontmatter" in shown:
        print("frontmatter:")
        for key, value in skill.fields.items():
            print(f"    {_plain(f'{key}: {value}')}")
    for row in shown.get("sections", ()):
        print(f"{'#' * row['level']} {row['title']} ({row['characters']:,} characters)")


def _plain(text: str) -> str:
    return visible(text, keep_newlines=False)
