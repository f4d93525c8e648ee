"""Shows a skill to the model in four stages: its metadata, its summary, the files it requests, its scripts."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from adderclaw.config.foreign import frontmatter
from adderclaw.core.errors import PathRefused
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.tools.skills import files, scripts
from adderclaw.tools.skills.catalogue import Skill
from adderclaw.tools.skills.markdown import Section, sections, slug

MAX_FILE_BYTES = 1_048_576
"""At most this much of one file is read."""
SUMMARY = re.compile(
    r"(?i)(?:overview|summary|purpose|introduction|about|description|goals?|instructions?|usage|workflow|steps?|process"
    r"|quick ?start|getting started|when (?:not )?to (?:use|apply)|what (?:it|this skill) does"
    r"|how (?:it works|to use))\b.*"
)
"""Titles of sections that explain what a skill is for and how it works."""
MAX_LISTED = 60
"""At most this many sections and files are listed."""


class Loaded(NamedTuple):
    """The disclosed part of one file or section."""

    path: str
    """Relative to the skill's folder; a section as `SKILL.md#Title`."""
    bytes: int
    tokens: int
    """Estimated."""
    text: str
    cut: int = 0
    """Bytes that were cut because of the caps."""


class Blocked(NamedTuple):
    path: str
    reason: str


class Disclosed(NamedTuple):
    """The result of one stage."""

    skill: str
    stage: int
    files: tuple[Loaded, ...]
    blocked: tuple[Blocked, ...] = ()
    """Requests that were not shown, each with the reason."""
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def tokens(self) -> int:
        return sum(file.tokens for file in self.files)

    @property
    def text(self) -> str:
        """The text for the model: each part with its source."""
        parts = [_framed(self.skill, file) for file in self.files]
        parts += [f"[{entry.path}: not shown: {entry.reason}]" for entry in self.blocked]
        return "\n".join((*parts, *(f"[{note}]" for note in self.notes)))

    def event(self) -> Json:
        """The fields of `skill_disclosure_loaded`."""
        pieces: list[Json] = [
            {"path": file.path, "bytes": file.bytes, "tokens": file.tokens, "cut": file.cut} for file in self.files
        ]
        pieces += [{"path": entry.path, "bytes": 0, "tokens": 0, "blocked": entry.reason} for entry in self.blocked]
        return {
            "skill": self.skill,
            "stage": self.stage,
            "files": pieces,
            "bytes": self.bytes,
            "tokens": self.tokens,
        }

    def as_json(self) -> Json:
        """Everything, as stored for replay; `disclosed_from_json` is the way back."""
        files, blocked = [list(file) for file in self.files], [list(entry) for entry in self.blocked]
        return {"skill": self.skill, "stage": self.stage, "files": files, "blocked": blocked, "notes": list(self.notes)}


def disclosed_from_json(data: Json) -> Disclosed:
    files, blocked = (Loaded(*file) for file in data["files"]), (Blocked(*entry) for entry in data["blocked"])
    return Disclosed(data["skill"], data["stage"], tuple(files), tuple(blocked), tuple(data["notes"]))


class Constraints(NamedTuple):
    """The limits under which scripts run."""

    timeout_seconds: float
    sandbox: str
    network: bool


def estimate_tokens(text: str) -> int:
    """The estimated tokens of a text: a quarter of its characters, rounded up."""
    return -(-len(text) // 4)


def _framed(skill: str, file: Loaded) -> str:
    rest = f"\n[{file.cut:,} more bytes were cut to stay within the limit]" if file.cut else ""
    body = file.text.replace("</skill", "<\\/skill")
    return f'<skill name="{skill}" file="{file.path}">\n{body}{rest}\n</skill>'


class Disclosure:
    """Discloses one skill stage by stage; all stages together stay below both caps."""

    def __init__(self, skill: Skill, *, max_bytes: int, max_tokens: int) -> None:
        self.skill = skill
        self._bytes, self._tokens = max_bytes, max_tokens
        self._body: str | None = None
        self.disclosed: dict[str, Loaded] = {}
        """Path → what was loaded, in loading order."""

    # ------------------------------------------------------------------ the stages

    def metadata(self) -> Disclosed:
        """Stage 0: the frontmatter."""
        skill = self.skill
        lines = [f"name: {skill.name}", f"description: {skill.description}"]
        lines += [f"tags: {', '.join(skill.tags)}"] if skill.tags else []
        lines += [f"version: {skill.version}"] if skill.version else []
        return self._result(0, [self._load(f"{skill.file}#frontmatter", "\n".join(lines))])

    def summary(self) -> Disclosed:
        """Stage 1: the heading and summary sections of SKILL.md, and a list of what else can be requested."""
        try:
            parts = sections(self.body())
        except PathRefused as error:
            return self._result(1, [], [Blocked(self.skill.file, error.reason)])
        shown, others = _split_summary(parts)
        if others:
            shown.append("More sections, available on request as SKILL.md#Title: " + _titles(others))
        if index := self.skill.references_index:
            more = f" and {len(index) - MAX_LISTED} more" if len(index) > MAX_LISTED else ""
            shown.append("More files, available on request by these paths: " + ", ".join(index[:MAX_LISTED]) + more)
        return self._result(1, [self._load(self.skill.file, "\n\n".join(shown))], _outside_scripts(self.body()))

    def requested(self, paths: Sequence[str]) -> Disclosed:
        """Stage 2: these files and sections (`references/x.md`, `SKILL.md#Title`), and nothing else."""
        loaded: list[Loaded] = []
        blocked: list[Blocked] = []
        notes: list[str] = []
        for request in dict.fromkeys(paths):
            shown = visible(request[:200], keep_newlines=False)
            try:
                path, text = self._find_part(request)
            except PathRefused as error:
                blocked.append(Blocked(shown, error.reason))
                continue
            if path in self.disclosed and path != self.skill.file:  # perhaps only the summary of SKILL.md was shown
                notes.append(f"{shown} was already shown")
            else:
                loaded.append(self._load(path, text))
        return self._result(2, loaded, blocked, notes)

    def refusal(self, request: str) -> str:
        """Why a file or section cannot be shown; empty if it can be."""
        try:
            self._find_part(request)
        except PathRefused as error:
            return error.reason
        return ""

    def scripts(self, constraints: Constraints) -> Disclosed:
        """Stage 3: which scripts exist, how they are started, and their limits; never their text."""
        try:
            body = self.body()
        except PathRefused:
            body = ""
        loaded: list[Loaded] = []
        for script in scripts.list_scripts(self.skill.folder, body):
            summary = f": {script.summary}" if script.summary else ""
            text = f"{script.way}{summary} ({script.size:,} bytes; run it as: {' '.join(script.argv)} …)"
            loaded.append(self._load(f"{script.way}#descriptor", text))
        network = "with" if constraints.network else "without"
        limits = (
            f"Scripts run in the sandbox ({constraints.sandbox}), {network} network, for at most "
            f"{constraints.timeout_seconds:g} seconds, from the workspace, and only after the policy judged the call."
        )
        return self._result(3, loaded, _outside_scripts(body), [limits if loaded else "there are no scripts"])

    # ------------------------------------------------------------------ loading

    def shown(self, path: str, text: str) -> str:
        """A text of the skill as the model sees it, cut to the caps."""
        return _framed(self.skill.name, self._load(path, text))

    def body(self) -> str:
        """SKILL.md without its frontmatter; raises PathRefused."""
        if self._body is None:
            self._body = frontmatter.body(
                _text(files.read_file(self.skill.folder, self.skill.file, MAX_FILE_BYTES), self.skill.file)
            )
        return self._body

    @property
    def room(self) -> tuple[int, int]:
        """Bytes and tokens that may still be disclosed."""
        taken = self.disclosed.values()
        return self._bytes - sum(file.bytes for file in taken), self._tokens - sum(file.tokens for file in taken)

    def _load(self, path: str, text: str) -> Loaded:
        text = visible(text)
        before = self.disclosed.pop(path, None)  # the same file counts once, even if more of it is shown now
        size, (room, tokens) = len(text.encode("utf-8", "replace")), self.room
        fitting = _cut_to_fit(text, max(0, room), max(0, tokens))
        count = len(fitting.encode("utf-8", "replace"))
        loaded = Loaded(path, count, estimate_tokens(fitting), fitting, size - count)
        self.disclosed[path] = loaded if before is None or loaded.bytes >= before.bytes else before
        return loaded

    def _find_part(self, request: str) -> tuple[str, str]:
        """The path and text of the file or section that was requested."""
        path, _, title = request.partition("#")
        way = files.path_inside(self.skill.folder, path) if path else self.skill.file
        own = way == self.skill.file
        text = self.body() if own else _text(files.read_file(self.skill.folder, way, MAX_FILE_BYTES), way)
        if not title:
            return way, text.strip()
        titles = (title.strip().lstrip("#").strip().lower(), slug(title))
        parts = sections(text)
        for section in parts:
            if section.level and (section.title.lower() == titles[0] or slug(section.title) == titles[1]):
                return f"{way}#{visible(section.title, keep_newlines=False)}", section.whole
        raise PathRefused(f"there is no such section. Available sections: {_titles(parts) or 'none'}")

    def _result(
        self, stage: int, loaded: list[Loaded], blocked: Sequence[Blocked] = (), notes: Sequence[str] = ()
    ) -> Disclosed:
        return Disclosed(self.skill.name, stage, tuple(loaded), tuple(blocked), tuple(notes))


def _outside_scripts(body: str) -> list[Blocked]:
    return [Blocked(way, "it is outside the skill's folder") for way in scripts.outside_scripts(body)]


def _split_summary(parts: Sequence[Section]) -> tuple[list[str], list[Section]]:
    """Splits the sections into the texts of the summary and the sections that do not belong to it."""
    shown: list[str] = []
    others: list[Section] = []
    heading = False
    for section in parts:
        if section.level == 0 or (section.level == 1 and not heading):
            heading = heading or section.level == 1
            shown.append(section.own)
        elif section.level <= 2:
            if SUMMARY.match(section.title):
                shown.append(section.whole)
            else:
                others.append(section)
    return shown, others


def _titles(parts: Sequence[Section]) -> str:
    named = [f"{section.title} ({len(section.whole):,} characters)" for section in parts if section.level]
    more = f" and {len(named) - MAX_LISTED} more" if len(named) > MAX_LISTED else ""
    return visible("; ".join(named[:MAX_LISTED]) + more, keep_newlines=False)


def _text(part: files.FilePart, way: str) -> str:
    shown = visible(way, keep_newlines=False)
    if b"\0" in part.data:
        raise PathRefused(f"{shown!r} is not a text file")
    try:
        text = part.data.decode("utf-8-sig", "strict" if part.size <= len(part.data) else "ignore")
    except UnicodeDecodeError:
        raise PathRefused(f"{shown!r} is not UTF-8 text") from None
    return text.replace("\r\n", "\n")


def _cut_to_fit(text: str, room: int, tokens: int) -> str:
    """The beginning of a text that fits, cut at the end of a line."""
    if len(text.encode("utf-8", "replace")) <= room and estimate_tokens(text) <= tokens:
        return text
    start = text[: tokens * 4].encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    end = start.rfind("\n")
    return start[:end] if end > 0 else start
