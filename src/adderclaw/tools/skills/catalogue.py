"""The registry of skills: every SKILL.md in the skill folders. Only the frontmatter is read (stage 0)."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast

from adderclaw.config.foreign import frontmatter
from adderclaw.config.paths import beneath, followed
from adderclaw.core import home_names
from adderclaw.core.errors import PathRefused
from adderclaw.core.record import record
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.sandbox import workspace
from adderclaw.tools.skills import checks, files

type Scope = Literal["project", "user", "plugin"]

NAMES = ("SKILL.md", "skill.md")
PROJECT_FOLDERS = (".adderclaw/skills", ".agents/skills", ".claude/skills")
COMMANDS = (".adderclaw/commands", ".claude/commands")
"""Folders of a project whose Markdown files are commands: each is a skill of one file, named after that file."""
COMMAND = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
MAX_SKILLS = 10_000
"""At most this many skills are loaded; a note says when there are more."""
MAX_DEPTH = 3
"""How many levels below a skill folder are searched."""
TRUE = frozenset({"true", "yes", "on", "1"})


class SkillFolder(NamedTuple):
    """A folder of skills."""

    folder: str
    """May also be the folder of one skill, or one Markdown file of a plugin's commands."""
    scope: Scope
    root: str = ""
    """Links must not lead out of this folder; empty for the operator's own folder, where links may lead anywhere."""
    commands: bool = False
    """Each Markdown file is a skill, instead of each folder."""
    prefix: str = ""
    """Put before the names of a plugin's skills, as in `plugin:name`."""


@record
class Skill:
    """A skill as its frontmatter describes it."""

    name: str
    description: str
    folder: str
    """Absolute, links followed."""
    scope: Scope = "project"
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    version: str = ""
    allowed_tools: tuple[str, ...] = ()
    """Permission rules that it requests. Trust and the policy decide whether they apply."""
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    diagnosis: tuple[str, ...] = ()
    """Every violation of the specification. Some make a skill unusable."""
    repairs: tuple[str, ...] = ()
    """Errors that were corrected while reading."""
    usable: bool = True
    file: str = "SKILL.md"
    fields: Json = field(default_factory=dict[str, Any])
    """The unchanged frontmatter."""
    is_command: bool = False
    """A command does not own the other files in its folder."""

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.file)

    @property
    def references_index(self) -> tuple[str, ...]:
        """The relative paths of its other files; they are listed, not read."""
        if self.is_command:
            return ()
        return tuple(way for way in files.list_files(self.folder) if way != self.file)

    @property
    def for_model(self) -> bool:
        """False: only a person can call it (`disable-model-invocation`, or a command without a description)."""
        if self.is_command and not self.fields.get("description"):
            return False
        return str(self.fields.get("disable-model-invocation", "")).lower() not in TRUE

    @property
    def for_user(self) -> bool:
        """False: it is not a slash command (`user-invocable: false`)."""
        return str(self.fields.get("user-invocable", "true")).lower() in TRUE


class Duplicate(NamedTuple):
    """A name that appears twice: the folder that is used and the folder that is ignored."""

    name: str
    used: str
    ignored: str


@dataclass(eq=False)
class Catalogue:
    """The one registry of skills: the router and the Skill tool read it."""

    skills: tuple[Skill, ...] = ()
    """The usable skills, ordered by name."""
    invalid: tuple[Skill, ...] = ()
    """The unusable skills, each with its diagnosis."""
    directories: tuple[str, ...] = ()
    """The skill folders that exist."""
    duplicates: tuple[Duplicate, ...] = ()
    notes: tuple[str, ...] = ()
    """Other problems: too many skills, or a folder that cannot be read."""

    def __post_init__(self) -> None:
        self.by_name = {skill.name: skill for skill in self.skills}
        self._short: dict[str, Skill | None] = {}
        for skill in self.skills:
            if skill.scope == "plugin":
                short = skill.name.partition(":")[2]
                taken = self.by_name.get(short)
                is_operators = taken is not None and taken.scope != "project"
                self._short[short] = None if short in self._short or is_operators else skill

    def find(self, name: str) -> Skill | None:
        """The skill called `name`; a plugin's skill also without the plugin's name, if only one has that name.

        It then takes precedence over a skill of the project: the operator trusts the plugin, perhaps not the project.
        """
        name = checks.normalize_name(name)
        return self._short.get(name) or self.by_name.get(name)


# ------------------------------------------------------------------ loading


def skill_folders(
    project: str, home: str, own: str = "", further: Iterable[SkillFolder] = (), homes: Sequence[str] = ()
) -> tuple[SkillFolder, ...]:
    """All skill folders in order of precedence: the operator's, then the project's, whether or not it is trusted.

    If a name appears twice, the first one is used. `own` is skills.dir or --skills-dir: the operator chose that folder
    if it is outside the project. `homes` are folders of the operator in addition to `home`, AdderClaw's own.
    """
    root = followed(project)
    named: list[SkillFolder] = []
    if own:
        # links must not lead out of the project, or out of a folder elsewhere
        folder = followed(own)
        named = [SkillFolder(folder, "project", root if beneath(folder, root) else folder)]
    sources = [source for source in named if source.root != root]
    mine = [folder for folder in (home, *homes) if folder]
    sources += [SkillFolder(followed(os.path.join(folder, home_names.SKILLS)), "user") for folder in mine]
    sources += [
        SkillFolder(followed(os.path.join(folder, home_names.COMMANDS)), "user", commands=True) for folder in mine
    ]
    sources += [source for source in named if source.root == root]
    for names, commands in ((PROJECT_FOLDERS, False), (COMMANDS, True)):
        folders = [followed(os.path.join(root, name)) for name in names]
        # a link that leads out of the project is ignored
        sources += [SkillFolder(folder, "project", root, commands) for folder in folders if beneath(folder, root)]
    by_folder: dict[str, SkillFolder] = {}
    for source in (*sources, *further):
        by_folder.setdefault(source.folder, source)
    return tuple(by_folder.values())


def load_skills(sources: Sequence[SkillFolder], most: int = MAX_SKILLS) -> Catalogue:
    """All skills of the folders; an earlier folder takes precedence over a later one."""
    used: dict[str, Skill] = {}
    invalid: list[Skill] = []
    duplicates: list[Duplicate] = []
    notes: list[str] = []
    count = 0
    for source in sources:
        for skill in _skills_in(source, notes):
            count += 1
            if count > most:
                notes.append(f"there are more than {most:,} skills; those after {skill.folder} were not loaded")
                break
            if not skill.usable:
                invalid.append(skill)
            elif skill.name in used:
                duplicates.append(Duplicate(skill.name, used[skill.name].folder, skill.folder))
            else:
                used[skill.name] = skill
        if count > most:
            break
    ordered = tuple(used[name] for name in sorted(used))
    existing = tuple(source.folder for source in sources if workspace.is_folder(workspace.resolved_path(source.folder)))
    return Catalogue(ordered, tuple(invalid), existing, tuple(duplicates), tuple(notes))


def _skills_in(source: SkillFolder, notes: list[str]) -> Iterator[Skill]:
    if source.prefix:
        for skill in _skills_in(source._replace(prefix=""), notes):
            yield replace(skill, name=f"{source.prefix}:{skill.name}")
        return
    if source.commands and source.folder.endswith(".md"):
        yield _command(source, source.folder, os.path.basename(source.folder).removesuffix(".md"))
        return
    if source.commands:
        yield from _commands(source, source.folder, "", 1, notes)
        return
    if _skill_file(source.folder):
        yield inspect_skill(source.folder, source.scope)
        return
    yield from _skills_beneath(source, source.folder, 1, notes)


def _skills_beneath(source: SkillFolder, folder: str, depth: int, notes: list[str]) -> Iterator[Skill]:
    for entry in _entries(folder, notes):
        path = entry.path.text
        name = visible(entry.path.name, keep_newlines=False)
        if entry.is_link:
            real = followed(path)
            if not workspace.is_folder(workspace.resolved_path(real)):
                continue
            if source.root and not beneath(real, source.root):
                yield _broken_skill(name, real, source.scope, "its folder is a link that leads out of the project")
            elif _skill_file(real):
                yield inspect_skill(real, source.scope, entry.path.name)
            elif depth == 1:
                yield _broken_skill(name, real, source.scope, "its folder is a link to a folder that has no SKILL.md")
        elif not entry.is_folder:
            continue
        elif _skill_file(path):
            yield inspect_skill(path, source.scope)
        else:
            has_skill = False
            for skill in _skills_beneath(source, path, depth + 1, notes) if depth < MAX_DEPTH else ():
                has_skill = True
                yield skill
            if not has_skill and depth == 1:
                yield _broken_skill(name, path, source.scope, "there is no SKILL.md in its folder")


def _commands(source: SkillFolder, folder: str, prefix: str, depth: int, notes: list[str]) -> Iterator[Skill]:
    """The commands in a folder: `a.md` is /a, and `b/a.md` is /b:a."""
    for entry in _entries(folder, notes):
        name, path = entry.path.name, entry.path.text
        if entry.is_folder:
            if depth < MAX_DEPTH:
                yield from _commands(source, path, f"{prefix}{name}:", depth + 1, notes)
        elif name.endswith(".md"):
            yield _command(source, followed(path) if entry.is_link else path, f"{prefix}{name.removesuffix('.md')}")


def _command(source: SkillFolder, path: str, name: str) -> Skill:
    folder, file = os.path.split(path)
    shown = visible(name, keep_newlines=False)
    if source.root and not beneath(path, source.root):
        return _broken_skill(shown, folder, source.scope, "it is a link that leads out of the project", file)
    if not all(COMMAND.fullmatch(part) for part in name.split(":")):
        return _broken_skill(
            shown, folder, source.scope, "a command's name may contain only letters, digits, '.', '_' and '-'", file
        )
    try:
        data = _head(folder, file)
        has_head = data.removeprefix(frontmatter.BOM).startswith(b"---")
        head = frontmatter.parse(data) if has_head else frontmatter.Head({}, ())
    except (frontmatter.Malformed, PathRefused) as error:
        return _broken_skill(shown, folder, source.scope, str(error), file)
    except OSError as error:
        return _broken_skill(shown, folder, source.scope, f"{file} cannot be read: {error.strerror}", file)
    fields = head.fields
    return Skill(
        checks.normalize_name(name),
        _line(fields.get("description")),
        folder,
        source.scope,
        allowed_tools=_tools(fields.get("allowed-tools")),
        repairs=head.repairs,
        file=file,
        fields=fields,
        is_command=True,
    )


def _entries(folder: str, notes: list[str]) -> list[workspace.Entry]:
    try:
        entries = workspace.entries(workspace.resolved_path(folder))
    except (FileNotFoundError, NotADirectoryError, PathRefused):
        return []
    except OSError as error:
        notes.append(f"{folder} cannot be read: {error.strerror}")
        return []
    return [entry for entry in entries if not entry.path.name.startswith(".") and entry.path.name not in files.SKIPPED]


def _skill_file(folder: str) -> str:
    location = workspace.resolved_path(folder)
    return next((name for name in NAMES if workspace.exists(location / name)), "")


# ------------------------------------------------------------------ one skill


def inspect_skill(folder: str, scope: Scope = "project", called: str = "") -> Skill:
    """The skill in a folder, or a skill with a diagnosis; `called` is the name of the link that led to the folder."""
    named = called or os.path.basename(folder)
    shown = visible(named, keep_newlines=False)
    file = _skill_file(folder)
    if not file:
        return _broken_skill(shown, folder, scope, "there is no SKILL.md in its folder")
    try:
        head = frontmatter.parse(_head(folder, file))
    except (frontmatter.Malformed, PathRefused) as error:
        return _broken_skill(shown, folder, scope, str(error), file)
    except OSError as error:
        return _broken_skill(shown, folder, scope, f"{file} cannot be read: {error.strerror}", file)
    return _build_skill(head, folder, scope, named, file)


def _head(folder: str, file: str) -> bytes:
    way = files.path_inside(folder, file) if files.is_link(folder, file) else file
    data = b""
    with os.fdopen(files.open_file(folder, way), "rb", buffering=0) as source:
        while not frontmatter.complete(data) and (part := source.read(frontmatter.PART)):
            data += part
    return data


def _broken_skill(name: str, folder: str, scope: Scope, why: str, file: str = "SKILL.md") -> Skill:
    return Skill(name, "", folder, scope, diagnosis=(visible(why, keep_newlines=False),), usable=False, file=file)


def _build_skill(head: frontmatter.Head, folder: str, scope: Scope, named: str, file: str) -> Skill:
    fields = head.fields
    wrong_name, wrong = checks.name_problems(fields, named), checks.other_problems(fields)
    repairs = list(head.repairs)
    if scope == "plugin" and COMMAND.fullmatch(named):  # in a plugin, `name` is a title and the folder gives the name
        repairs += wrong_name
        wrong_name = []
        fields = {**fields, "name": named}
    diagnosis = [
        visible(text, keep_newlines=False) for text in (*wrong_name, *wrong, *checks.specification_objections(fields))
    ]
    name = fields.get("name")
    own = isinstance(name, str) and not wrong_name
    metadata: Any = fields.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        repairs.append("metadata was ignored because it is not a mapping of names to texts")
    more = cast(Json, metadata) if isinstance(metadata, dict) else {}
    description = _line(fields.get("description"))
    if description != " ".join(str(fields.get("description", "")).split()):
        repairs.append("invisible characters in the description are shown as \\u{…}")
    return Skill(
        checks.normalize_name(cast(str, name)) if own else visible(named, keep_newlines=False),
        description[: checks.LONGEST_DESCRIPTION],
        folder,
        scope,
        _words(more.get("tags", fields.get("tags"))),
        _words(more.get("keywords", fields.get("keywords"))),
        _line(more.get("version", fields.get("version"))),
        _tools(fields.get("allowed-tools")),
        _line(fields.get("license")),
        _line(fields.get("compatibility")),
        {_line(key): _line(value) for key, value in more.items()},
        tuple(diagnosis),
        tuple(repairs),
        not wrong,
        file,
        fields,
    )


def _line(value: Any) -> str:
    """A value as text on one line, with invisible characters shown."""
    if value is None:
        return ""
    return visible(" ".join(str(value).split()), keep_newlines=False)


def _words(value: Any) -> tuple[str, ...]:
    """Tags and keywords: a list, or a text separated by commas, else by spaces."""
    if isinstance(value, str):
        value = value.strip("[]").split("," if "," in value else None)
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(text for part in cast(list[Any], value)[:50] if (text := _line(part).strip("\"' "))))


def _tools(value: Any) -> tuple[str, ...]:
    """Permission rules: a list, or a text separated by spaces and commas outside parentheses."""
    if isinstance(value, list):
        return tuple(text for part in cast(list[Any], value)[:100] if (text := _line(part)))
    return tuple(re.findall(r"(?:[^\s,(]|\([^)]*\))+", _line(value)))[:100]
