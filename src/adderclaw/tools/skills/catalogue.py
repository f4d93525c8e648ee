"""Which skills there are: every SKILL.md of the skill folders, of which only the frontmatter is read (stage 0)."""

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
"""Folders of a project whose Markdown files are commands: each is a skill of one file, called by that file's name."""
COMMAND = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
MAX_SKILLS = 10_000
"""Skills that are loaded; that there are more is said."""
MAX_DEPTH = 3
"""Levels below a folder of skills on which a skill is looked for."""
TRUE = frozenset({"true", "yes", "on", "1"})


class SkillFolder(NamedTuple):
    """A folder of skills."""

    folder: str
    """Also that of one skill, or one Markdown file of a plugin's commands."""
    scope: Scope
    root: str = ""
    """What links may not lead out of; empty where they may lead anywhere, since the folder is the operator's own."""
    commands: bool = False
    """Whether each Markdown file in it is one, instead of each folder."""
    prefix: str = ""
    """Stands before the names of a plugin's, as in `plugin:name`."""


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
    """What it asks to be allowed; whether it is, trust and the gate decide."""
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    diagnosis: tuple[str, ...] = ()
    """All that the specification would object to; some of it keeps a skill from being used."""
    repairs: tuple[str, ...] = ()
    """What was wrong and read as it was meant."""
    usable: bool = True
    file: str = "SKILL.md"
    fields: Json = field(default_factory=dict[str, Any])
    """The frontmatter as it is."""
    is_command: bool = False
    """A command: what else lies in its folder is not its own."""

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.file)

    @property
    def references_index(self) -> tuple[str, ...]:
        """Its other files, by their way from its folder; they are listed, not read."""
        if self.is_command:
            return ()
        return tuple(way for way in files.list_files(self.folder) if way != self.file)

    @property
    def for_model(self) -> bool:
        """False: only a person calls it (`disable-model-invocation`, or a command that says nothing of itself)."""
        if self.is_command and not self.fields.get("description"):
            return False
        return str(self.fields.get("disable-model-invocation", "")).lower() not in TRUE

    @property
    def for_user(self) -> bool:
        """False: it is no slash command (`user-invocable: false`)."""
        return str(self.fields.get("user-invocable", "true")).lower() in TRUE


class Duplicate(NamedTuple):
    """A name that appears twice: the one that counts, and the one that does not."""

    name: str
    used: str
    ignored: str


@dataclass(eq=False)
class Catalogue:
    """The one registry of skills: the router and the Skill tool read it."""

    skills: tuple[Skill, ...] = ()
    """Those that can be used, by name, in the order of their names."""
    invalid: tuple[Skill, ...] = ()
    """Those that cannot, each with its diagnosis."""
    directories: tuple[str, ...] = ()
    """The folders that were there to be looked into."""
    duplicates: tuple[Duplicate, ...] = ()
    notes: tuple[str, ...] = ()
    """What else is to be said: that there were too many, that a folder cannot be read."""

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
        """By its name; that of a plugin's also without the plugin's name, where only one is called so.

        Then it goes before a skill of the project: the operator trusted the plugin, and perhaps not the project.
        """
        name = checks.normalize_name(name)
        return self._short.get(name) or self.by_name.get(name)


# ------------------------------------------------------------------ loading


def skill_folders(
    project: str, home: str, own: str = "", further: Iterable[SkillFolder] = (), homes: Sequence[str] = ()
) -> tuple[SkillFolder, ...]:
    """Where skills are, in order of precedence: the operator's, then the project's, whether or not it is trusted.

    A name that appears twice counts where it comes first. `own` is skills.dir or --skills-dir: a folder outside of the
    project is one that the operator chose. `homes` are folders of the operator beside `home`, AdderClaw's own.
    """
    root = followed(project)
    named = [_named_folder(followed(own), root)] if own else []
    sources = [source for source in named if source.root != root]
    mine = [folder for folder in (home, *homes) if folder]
    sources += [SkillFolder(followed(os.path.join(folder, home_names.SKILLS)), "user") for folder in mine]
    sources += [
        SkillFolder(followed(os.path.join(folder, home_names.COMMANDS)), "user", commands=True) for folder in mine
    ]
    sources += [source for source in named if source.root == root]
    sources += _project_folders(root, PROJECT_FOLDERS, commands=False)
    sources += _project_folders(root, COMMANDS, commands=True)
    by_folder: dict[str, SkillFolder] = {}
    for source in (*sources, *further):
        by_folder.setdefault(source.folder, source)
    return tuple(by_folder.values())


def _project_folders(root: str, names: Sequence[str], *, commands: bool) -> list[SkillFolder]:
    """Its own folders; one that leads out of it is not its to bring."""
    folders = [followed(os.path.join(root, name)) for name in names]
    return [SkillFolder(folder, "project", root, commands) for folder in folders if beneath(folder, root)]


def _named_folder(folder: str, root: str) -> SkillFolder:
    """Links may not lead out of the project; of a folder elsewhere, which somebody named by hand, not out of that."""
    return SkillFolder(folder, "project", root if beneath(folder, root) else folder)


def load_skills(sources: Sequence[SkillFolder], most: int = MAX_SKILLS) -> Catalogue:
    """All skills of the places; an earlier place goes before a later one."""
    used: dict[str, Skill] = {}
    invalid: list[Skill] = []
    duplicates: list[Duplicate] = []
    notes: list[str] = []
    count = 0
    for source in sources:
        for skill in _skills_in(source, notes):
            count += 1
            if count > most:
                notes.append(f"there are more than {most:,} skills: those after {skill.folder} were not looked at")
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
    for entry in _folders(folder, notes):
        path = entry.path.text
        name = visible(entry.path.name, keep_newlines=False)
        if entry.is_link:
            real = followed(path)
            if source.root and not beneath(real, source.root):
                yield _broken_skill(name, real, source.scope, "its folder is a link that leads out of the project")
            elif _skill_file(real):
                yield inspect_skill(real, source.scope, entry.path.name)
            elif depth == 1:
                yield _broken_skill(name, real, source.scope, "its folder is a link to a folder that has no SKILL.md")
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
    """`a.md` is /a, and `b/a.md` is /b:a."""
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
            shown, folder, source.scope, "a command is named with letters, digits, '.', '_' and '-'", file
        )
    try:
        data = _head(folder, file)
        head = frontmatter.parse(data) if data.removeprefix(frontmatter.BOM).startswith(b"---") else NO_HEAD
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


NO_HEAD = frontmatter.Head({}, ())


def _entries(folder: str, notes: list[str]) -> list[workspace.Entry]:
    try:
        entries = workspace.entries(workspace.resolved_path(folder))
    except (FileNotFoundError, NotADirectoryError, PathRefused):
        return []
    except OSError as error:
        notes.append(f"{folder} cannot be looked into: {error.strerror}")
        return []
    return [entry for entry in entries if not entry.path.name.startswith(".") and entry.path.name not in files.SKIPPED]


def _folders(folder: str, notes: list[str]) -> list[workspace.Entry]:
    shown = _entries(folder, notes)
    return [entry for entry in shown if entry.is_folder or (entry.is_link and _leads_to_a_folder(entry))]


def _leads_to_a_folder(link: workspace.Entry) -> bool:
    return workspace.is_folder(workspace.resolved_path(followed(link.path.text)))


def _skill_file(folder: str) -> str:
    location = workspace.resolved_path(folder)
    return next((name for name in NAMES if workspace.exists(location / name)), "")


# ------------------------------------------------------------------ one skill


def inspect_skill(folder: str, scope: Scope = "project", called: str = "") -> Skill:
    """The skill in a folder, or what is wrong with it; `called` is the folder's name where that is a link."""
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
    if scope == "plugin" and COMMAND.fullmatch(named):  # there a name is a title, and the folder's is the name
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
        repairs.append("metadata is no mapping of names to texts and was passed over")
    more = cast(Json, metadata) if isinstance(metadata, dict) else {}
    description = _line(fields.get("description"))
    if description != " ".join(str(fields.get("description", "")).split()):
        repairs.append("invisible characters of the description are shown as \\u{…}")
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
    """A text on one line in which nothing is invisible; of anything else, how it is written."""
    if value is None:
        return ""
    return visible(" ".join(str(value).split()), keep_newlines=False)


def _words(value: Any) -> tuple[str, ...]:
    """Tags and keywords: a list, or a text with commas, else with blanks."""
    if isinstance(value, str):
        value = value.strip("[]").split("," if "," in value else None)
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(text for part in cast(list[Any], value)[:50] if (text := _line(part).strip("\"' "))))


def _tools(value: Any) -> tuple[str, ...]:
    """Permission rules: a list, or a text in which blanks and commas outside of parentheses part them."""
    if isinstance(value, list):
        return tuple(text for part in cast(list[Any], value)[:100] if (text := _line(part)))
    return tuple(re.findall(r"(?:[^\s,(]|\([^)]*\))+", _line(value)))[:100]
