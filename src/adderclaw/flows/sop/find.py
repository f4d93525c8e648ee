"""Finds and reads SOPs: those of a trusted workspace first, then the operator's, then those of an untrusted workspace.

A command can write into `sops/`: what nobody trusts must not replace the operator's SOP and drop its approvals.
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
from adderclaw.flows.sop.parse import MAX_BYTES, read
from adderclaw.flows.sop.sop import FILE, FOLDER, NAME, InvalidSop, Problem, Sop
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Place

type Scope = Literal["workspace", "home", "path"]
MOST = 500
"""SOPs of one folder that are listed."""


class Found(NamedTuple):
    """A SOP that is there, whatever is wrong with it."""

    name: str
    scope: Scope
    place: Place
    hidden: bool = False
    """Another SOP of the same name takes precedence and is the one that runs."""

    @property
    def file(self) -> str:
        return self.place.text


class Where(NamedTuple):
    """In which workspace and home to look."""

    root: str
    home: str
    trusted: bool
    """Whether the operator trusts the workspace as it is now, with its SOPs."""

    @property
    def folders(self) -> tuple[tuple[Scope, Place], ...]:
        """`sops` in the workspace and `~/.adderclaw/workspace/sops`, in order of precedence."""
        theirs: tuple[Scope, Place] = ("workspace", Place(followed(self.root), FOLDER))
        own: tuple[Scope, Place] = ("home", Place(followed(self.home), os.path.join("workspace", FOLDER)))
        return (theirs, own) if self.trusted else (own, theirs)


def where(options: Options) -> Where:
    from adderclaw import config

    loaded = config.load(config_file=options.config_file, workspace=options.workspace, here=options.here)
    return Where(loaded.workspace, config.home(), loaded.trusted)


def listed(place: Where) -> list[Found]:
    """All that are there, by name."""
    found = [one for scope, folder in place.folders for one in _in(scope, folder)]
    first: dict[str, Scope] = {}
    for one in found:
        first.setdefault(one.name, one.scope)
    rows = [one._replace(hidden=one.scope != first[one.name]) for one in found]
    return sorted(rows, key=lambda one: (one.name, one.hidden))


def _in(scope: Scope, folder: Place) -> Iterator[Found]:
    try:
        entries = sorted(workspace.entries(folder), key=lambda entry: entry.place.name)
    except (OSError, PathRefused):  # a folder that is not there, or is a link: nothing is found through one
        return
    for entry in entries[:MOST]:
        place = entry.place / FILE
        if entry.is_link or (entry.is_folder and _is_there(place)):
            yield Found(entry.place.name, scope, place)


def _is_there(place: Place) -> bool:
    """A link counts as one that is there: who reads it is told that it is a link."""
    try:
        workspace.status(place)
    except PathRefused:
        return True
    except OSError:
        return False
    return True


def find(wanted: str, place: Where) -> Found:
    """By its name, or by the path of its file or folder."""
    if is_path(wanted):
        return _at(wanted, place)
    if not NAME.fullmatch(wanted):
        raise UsageError(f"{wanted[:80]!r} is no name of a SOP, and no path: a path has a / in it")
    for scope, folder in place.folders:
        at = folder / wanted / FILE
        if _is_there(at):
            return Found(wanted, scope, at)
    names = [one.name for one in listed(place)]
    looked = " and ".join(folder.text for _, folder in place.folders)
    raise UsageError(
        f"there is no SOP {wanted!r} in {looked}{did_you_mean(wanted, names) or '; `adderclaw sop list` lists them'}"
    )


def is_path(wanted: str) -> bool:
    return "/" in wanted or wanted.endswith(".toml") or wanted in (".", "..")


def _at(path: str, place: Where) -> Found:
    """The operator named the file: its links are followed, and of the workspace none that leads out of it."""
    whole = os.path.abspath(os.path.expanduser(path))
    if workspace.is_folder(workspace.anywhere(followed(whole))):
        whole = os.path.join(whole, FILE)
    try:
        file = workspace.named(whole, (place.root,))
    except PathRefused as refusal:
        raise UsageError(refusal.reason) from refusal
    return Found(os.path.basename(os.path.dirname(file.text)), "path", file)


def load(found: Found, known: tool_check.Known) -> Sop:
    """Read and check it; InvalidSop has every problem."""
    sop, problems = read(_text(found), found.file)
    problems += tool_check.problems(sop, known, {one.step for one in problems})
    if found.scope != "path" and sop.name and sop.name != found.name:
        fix = "name both the same"
        problems.append(Problem(1, "", f"it calls itself {sop.name!r}, and its folder is {found.name!r}; {fix}"))
    if problems:
        raise InvalidSop(found.file, problems)
    return sop


def _text(found: Found) -> str:
    try:
        data, _ = workspace.start(found.place, MAX_BYTES + 1)
    except PathRefused as refusal:
        raise InvalidSop(found.file, [Problem(0, "", f"it is not read: {refusal.reason}")]) from refusal
    except OSError as error:
        raise UsageError(f"{found.file}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InvalidSop(found.file, [Problem(0, "", f"it is larger than {MAX_BYTES:,} bytes")])
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidSop(found.file, [Problem(line, "", f"it is not UTF-8 text (byte {error.start})")]) from error
    return text.removeprefix("\ufeff")
