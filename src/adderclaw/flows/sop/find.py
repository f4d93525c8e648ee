"""Finds and reads SOPs: those of a trusted workspace first, then the operator's, then those of an untrusted workspace.

A command can write into `sops/`, so a SOP of an untrusted workspace must not replace the operator's and its approvals.
"""

import os
from collections.abc import Iterator
from typing import Literal

from adderclaw.config.legacy.options import Options
from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.suggestions import did_you_mean
from adderclaw.flows.sop import tool_check
from adderclaw.flows.sop.parse import MAX_BYTES, read_draft
from adderclaw.flows.sop.sop import FILE, FOLDER, NAME, InvalidSop, Problem, Sop
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath

type Scope = Literal["workspace", "home", "path"]
MAX_LISTED = 500
"""How many SOPs of one folder are listed."""


class SopLocation(NamedTuple):
    """Where a SOP is; its file may be invalid."""

    name: str
    scope: Scope
    place: WorkspacePath
    hidden: bool = False
    """Whether another SOP of the same name takes precedence."""

    @property
    def file(self) -> str:
        return self.place.text


class SopFolders(NamedTuple):
    """The folders in which SOPs are searched."""

    root: str
    home: str
    trusted: bool
    """Whether the operator trusts the workspace with its current files."""

    @property
    def folders(self) -> tuple[tuple[Scope, WorkspacePath], ...]:
        """`sops` in the workspace and `~/.adderclaw/workspace/sops`, in order of precedence."""
        theirs: tuple[Scope, WorkspacePath] = ("workspace", WorkspacePath(followed(self.root), FOLDER))
        own: tuple[Scope, WorkspacePath] = (
            "home",
            WorkspacePath(followed(self.home), os.path.join("workspace", FOLDER)),
        )
        return (theirs, own) if self.trusted else (own, theirs)


def sop_folders(options: Options) -> SopFolders:
    from adderclaw import config

    loaded = config.load(config_file=options.config_file, workspace=options.workspace, here=options.here)
    return SopFolders(loaded.workspace, config.home(), loaded.trusted)


def list_sops(folders: SopFolders) -> list[SopLocation]:
    """Lists all SOPs, sorted by name."""
    locations = [location for scope, folder in folders.folders for location in _sops_in(scope, folder)]
    first: dict[str, Scope] = {}
    for location in locations:
        first.setdefault(location.name, location.scope)
    rows = [location._replace(hidden=location.scope != first[location.name]) for location in locations]
    return sorted(rows, key=lambda location: (location.name, location.hidden))


def _sops_in(scope: Scope, folder: WorkspacePath) -> Iterator[SopLocation]:
    try:
        entries = sorted(workspace.entries(folder), key=lambda entry: entry.path.name)
    except (OSError, PathRefused):  # the folder does not exist, or is a link, which is never followed
        return
    for entry in entries[:MAX_LISTED]:
        file = entry.path / FILE
        if entry.is_link or (entry.is_folder and _exists(file)):
            yield SopLocation(entry.path.name, scope, file)


def _exists(file: WorkspacePath) -> bool:
    """Whether a file exists. A link counts, so that reading it reports that it is a link."""
    try:
        workspace.status(file)
    except PathRefused:
        return True
    except OSError:
        return False
    return True


def find(name: str, folders: SopFolders) -> SopLocation:
    """Finds a SOP by its name, or by the path of its file or folder."""
    if is_path(name):
        return _locate_path(name, folders)
    if not NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is neither the name of a SOP nor a path; a path needs a / in it")
    for scope, folder in folders.folders:
        at = folder / name / FILE
        if _exists(at):
            return SopLocation(name, scope, at)
    names = [sop.name for sop in list_sops(folders)]
    searched = " and ".join(folder.text for _, folder in folders.folders)
    raise UsageError(
        f"there is no SOP {name!r} in {searched}{did_you_mean(name, names) or '; `adderclaw sop list` lists them'}"
    )


def is_path(name: str) -> bool:
    return "/" in name or name.endswith(".toml") or name in (".", "..")


def _locate_path(path: str, folders: SopFolders) -> SopLocation:
    """Locates a file that the operator named. Follows links, except those that lead out of the workspace."""
    whole = os.path.abspath(os.path.expanduser(path))
    if workspace.is_folder(workspace.resolved_path(followed(whole))):
        whole = os.path.join(whole, FILE)
    try:
        file = workspace.named_file(whole, (folders.root,))
    except PathRefused as refusal:
        raise UsageError(refusal.reason) from refusal
    return SopLocation(os.path.basename(os.path.dirname(file.text)), "path", file)


def load(location: SopLocation, known: tool_check.KnownTools) -> Sop:
    """Reads and checks a SOP; raises InvalidSop with all problems."""
    sop, problems = read_draft(_read_file(location), location.file)
    problems += tool_check.tool_problems(sop, known, {problem.step for problem in problems})
    if location.scope != "path" and sop.name and sop.name != location.name:
        message = f"its name is {sop.name!r}, but its folder is {location.name!r}; give both the same name"
        problems.append(Problem(1, "", message))
    if problems:
        raise InvalidSop(location.file, problems)
    return sop


def _read_file(location: SopLocation) -> str:
    try:
        data, _ = workspace.read_head(location.place, MAX_BYTES + 1)
    except PathRefused as refusal:
        raise InvalidSop(location.file, [Problem(0, "", f"it cannot be read: {refusal.reason}")]) from refusal
    except OSError as error:
        raise UsageError(f"{location.file}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InvalidSop(location.file, [Problem(0, "", f"it is larger than {MAX_BYTES:,} bytes")])
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidSop(location.file, [Problem(line, "", f"it is not UTF-8 text (byte {error.start})")]) from error
    return text.removeprefix("\ufeff")
