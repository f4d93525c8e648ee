"""What forbidden paths and rules on files take from every command: looked for on the disk, for the sandbox to hide."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from adderclaw import gate
from adderclaw.config.paths import beneath, followed

MOST_NAMES = 100_000
"""Names of a workspace that are held against the rules, those near its top first."""
MOST_HELD = 400
"""Each is a mount of its own, and the time that they take grows with their square."""
BULK = frozenset({"node_modules", ".venv", "venv", "site-packages", "__pycache__", "target", "dist", "build", ".tox"})
"""Folders that hold much and little of it by hand: looked at last."""
NEEDED = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/dev", "/proc", "/sys", "/run")
"""Without these no program starts: a rule on them is kept by the verdict alone."""
ANY = "any-name.at all"
"""Stands for a name that no rule was written for."""
JUST_NOW = 100_000_000
"""Nanoseconds: a folder that was changed so shortly before it was read is read once more."""
TOO_MANY_NAMES = (
    f"the workspace has more than {MOST_NAMES:,} names: of the others, rules on files are kept by the verdict alone, "
    "not by the sandbox"
)
TOO_MANY_HELD = (
    f"rules on files match more than {MOST_HELD} files of the workspace: the others are kept by the verdict alone, "
    "not by the sandbox; a rule on their folder would hold them all"
)
UNHELD = (
    "Landlock cannot keep a command from reading what it finds by itself, though a rule or forbidden_paths denies it: "
    "{names}; install bubblewrap"
)


UNKEPT = (
    "Landlock cannot keep a command from changing this, though a rule denies it: {names}; a change is reported when "
    "the command has ended; install bubblewrap"
)


class Held(NamedTuple):
    """What lies on the disk now and is to be kept from commands."""

    unseen: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """Those of the unseen that a rule finds only where they are: the folders above them must keep their names."""
    limits: tuple[str, ...] = ()
    """What is not held, and why."""


class _Folder(NamedTuple):
    changed: int
    certain: bool
    names: int
    folders: tuple[str, ...]
    unseen: tuple[str, ...]
    unchanged: tuple[str, ...]


class Looker:
    """Finds it; a second look reads only the folders that were changed since."""

    def __init__(self, *, inside_too: bool = True) -> None:
        self._inside_too = inside_too
        """Whether the sandbox can hide a part of a folder that it shows."""
        self._shut: gate.Shut | None = None
        self._rules: object = None
        self._named: list[str] = []
        self._known: dict[str, _Folder] = {}

    def look(self, policy: gate.Policy, roots: Sequence[str]) -> Held:
        """What is to be held now, as far as the sandbox can, and what it cannot."""
        found = self._look(policy, roots)
        if self._inside_too:
            return found
        elsewhere = tuple(path for path in found.unseen if not any(beneath(path, root) for root in roots))
        unkept = UNKEPT.format(names=_some(found.unchanged)) if found.unchanged else ""
        said = (*found.limits, unheld(found, roots), unkept)
        return Held(elsewhere, found.unchanged, (), tuple(filter(None, said)))

    def _look(self, policy: gate.Policy, roots: Sequence[str]) -> Held:
        if self._rules != (rules := (policy.rules.deny, policy.files, policy.forbidden_paths, tuple(roots))):
            self._rules, self._shut, self._known = rules, gate.shuts(policy), {}
            self._named = _named(policy, roots)
        unseen = [path for path in self._named if os.path.lexists(path)]
        fixed = [path for path in unseen if any(beneath(path, root) for root in roots)]
        shut = self._shut
        if shut is None or (shut.unseen is None and shut.unchanged is None):
            return Held(tuple(unseen), (), tuple(fixed))
        unchanged: list[str] = []
        limits: list[str] = []
        names = 0
        for folder in self._folders(roots, shut):
            unseen += folder.unseen
            unchanged += folder.unchanged
            names += folder.names
            if names > MOST_NAMES:
                limits.append(TOO_MANY_NAMES)
                break
        unseen, unchanged = list(dict.fromkeys(unseen)), _outermost(unchanged)
        if len(unseen) + len(unchanged) > MOST_HELD:
            limits.append(TOO_MANY_HELD)
            unseen = unseen[:MOST_HELD]
            unchanged = unchanged[: MOST_HELD - len(unseen)]
        inner = (path for path in unseen if any(beneath(path, root) for root in roots))
        fixed += [path for path in inner if not _found_anywhere(path, roots, shut)]
        return Held(tuple(unseen), tuple(unchanged), tuple(dict.fromkeys(fixed)), tuple(limits))

    def _folders(self, roots: Sequence[str], shut: gate.Shut) -> Iterator[_Folder]:
        """The outer ones first, and those that hold what programs made after all others."""
        waiting, later = deque(roots), deque[str]()
        known: dict[str, _Folder] = {}
        while waiting or later:
            path = (waiting or later).popleft()
            if path in known or (folder := self._folder(path, roots, shut)) is None:
                continue
            self._known[path] = known[path] = folder
            yield folder
            for inner in folder.folders:
                (later if os.path.basename(inner) in BULK else waiting).append(inner)

    def _folder(self, path: str, roots: Sequence[str], shut: gate.Shut) -> _Folder | None:
        try:
            changed = os.lstat(path).st_ctime_ns
            before = self._known.get(path)
            if before is not None and before.certain and before.changed == changed:
                return before
            with os.scandir(path) as entries:
                listed = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError:
            return None
        unseen: list[str] = []
        unchanged: list[str] = []
        folders: list[str] = []
        for name, is_folder in listed:
            inner = os.path.join(path, name)
            if name == ".git":
                continue  # git needs it, and what must not be changed in it is protected anyway
            if _covers(shut.unseen, inner, is_folder):
                unseen += _and_its_target(inner, roots)
                continue
            if _covers(shut.unchanged, inner, is_folder):
                unchanged += _and_its_target(inner, roots)
            if is_folder:
                folders.append(inner)
        certain = time.time_ns() - changed > JUST_NOW
        return _Folder(changed, certain, len(listed), tuple(folders), tuple(unseen), tuple(unchanged))


def _covers(shut: Callable[[str], bool] | None, path: str, is_folder: bool) -> bool:
    """Whether a rule takes this, or whatever could ever lie in it: then the folder is held, and not each file."""
    if shut is None:
        return False
    return shut(path) or (is_folder and shut(f"{path}/{ANY}") and shut(f"{path}/{ANY}/{ANY}"))


def _outermost(paths: list[str]) -> list[str]:
    """Without what lies in another of them: a folder that cannot be changed keeps all that is in it."""
    kept: list[str] = []
    for path in sorted(dict.fromkeys(paths), key=lambda path: path.split("/")):
        if not kept or not beneath(path, kept[-1]):
            kept.append(path)
    return kept


def _and_its_target(path: str, roots: Sequence[str]) -> list[str]:
    """A link is kept by keeping what it leads to, which is the same file."""
    if not os.path.islink(path):
        return [path]
    real = followed(path)
    inside = real not in roots and any(beneath(real, root) for root in roots)
    return [real] if inside and os.path.exists(real) else []


def _named(policy: gate.Policy, roots: Sequence[str]) -> list[str]:
    """What is forbidden or denied by its whole name, in the workspace or elsewhere, where programs do not need it."""
    from adderclaw.sandbox.seen import toolchains

    needed = (*NEEDED, *roots, *toolchains(roots))

    def can_be_hidden(path: str) -> bool:
        if any(beneath(path, root) and path != root for root in roots):
            return True
        return not any(beneath(one, path) for one in needed) and not any(beneath(path, one) for one in NEEDED)

    return [*filter(can_be_hidden, dict.fromkeys((*policy.forbidden_paths, *gate.unseen_elsewhere(policy))))]


def _found_anywhere(path: str, roots: Sequence[str], shut: gate.Shut) -> bool:
    """Whether a rule knows a file by its name alone, so that it is found again wherever its folder is moved."""
    name = os.path.basename(path)
    return shut.unseen is not None and all(shut.unseen(f"{root}/{os.getpid()}.elsewhere/{name}") for root in roots)


def unheld(held: Held, roots: Sequence[str]) -> str:
    """What only bubblewrap could hide: Landlock takes nothing away within a folder that it gives."""
    names = [path for path in held.unseen if any(beneath(path, root) for root in roots)]
    return UNHELD.format(names=_some(names)) if names else ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
