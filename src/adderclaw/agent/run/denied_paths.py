"""Which files the sandbox hides from commands or makes read-only, by forbidden paths and file rules."""

import os
from collections.abc import Iterable, Sequence

from adderclaw import policy as gate
from adderclaw.config.denied_names import DeniedNames, by_name, in_git
from adderclaw.config.paths import beneath
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox.legacy.survey import Survey
from adderclaw.sandbox.workspace import is_named

MOST_HELD = 400
"""The maximum number of protected paths. Each is a mount, and the time for them grows with the square."""
BULK = frozenset({"node_modules", ".venv", "venv", "site-packages", "__pycache__", "target", "dist", "build", ".tox"})
"""Folders with many generated files, which are protected last."""
NEEDED = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/dev", "/proc", "/sys", "/run")
"""Folders without which no program starts; rules on them are enforced only by the verdict."""
NOT_WHOLE = (
    "the workspace is too large or too deep to be scanned completely: beyond its first {folders:,} folders, only the "
    "verdict enforces rules on files, not the sandbox"
)
TOO_MANY_HELD = (
    f"rules on files match more than {MOST_HELD} files of the workspace: only the verdict enforces them for the other "
    "files, not the sandbox; use a rule on their folder instead"
)
UNHELD = (
    "Landlock cannot prevent a command from reading files that a rule or forbidden_paths denies: {names}; install "
    "bubblewrap"
)
UNKEPT = (
    "Landlock cannot prevent a command from changing files that a rule denies: {names}; a change is reported after the "
    "command has ended; install bubblewrap"
)


class Held(NamedTuple):
    """The existing paths that are protected from commands."""

    unseen: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """Those of the unseen that a rule finds only where they are: the folders above them must keep their names."""
    limits: tuple[str, ...] = ()
    """What is not held, and why."""


class Shutter:
    """Says what the look is to note, and what of that is held."""

    def __init__(self, *, inside_too: bool = True) -> None:
        self._inside_too = inside_too
        """Whether the sandbox can hide a part of a folder that it shows."""
        self._shut = DeniedNames()
        self._rules: object = None
        self._named: list[str] = []

    def has_changed(self, policy: gate.Policy, roots: Sequence[str]) -> bool:
        return self._rules != _rules(policy, roots)

    def shut(self, policy: gate.Policy, roots: Sequence[str]) -> DeniedNames:
        """What the look is to note of the workspace."""
        if self.has_changed(policy, roots):
            self._rules, self._shut, self._named = (
                _rules(policy, roots),
                gate.denied_patterns(policy),
                _named(policy, roots),
            )
        return self._shut

    def held(self, survey: Survey, policy: gate.Policy, roots: Sequence[str]) -> Held:
        """What is to be held now, as far as the sandbox can, and what it cannot."""
        matching = self._found(survey, self.shut(policy, roots), roots)
        if self._inside_too:
            return matching
        elsewhere = tuple(path for path in matching.unseen if not any(beneath(path, root) for root in roots))
        unkept = UNKEPT.format(names=_some(matching.unchanged)) if matching.unchanged else ""
        limits = (*matching.limits, unheld(matching, roots), unkept)
        return Held(elsewhere, matching.unchanged, (), tuple(filter(None, limits)))

    def _found(self, survey: Survey, shut: DeniedNames, roots: Sequence[str]) -> Held:
        named = [path for path in self._named if is_named(path)]
        limits = [NOT_WHOLE.format(folders=survey.folders)] if shut.is_any and not survey.is_whole else []
        unseen = list(dict.fromkeys((*named, *_nearest(_outermost(survey.unseen), roots))))
        unchanged = _nearest(_outermost(survey.unchanged), roots)
        if len(unseen) + len(unchanged) > MOST_HELD:
            limits.append(TOO_MANY_HELD)
            unseen = unseen[:MOST_HELD]
            unchanged = unchanged[: MOST_HELD - len(unseen)]
        inner = (path for path in unseen if any(beneath(path, root) for root in roots))
        fixed = [path for path in inner if path in named or not _found_anywhere(path, roots, shut)]
        return Held(tuple(unseen), tuple(unchanged), tuple(fixed), tuple(limits))


def _rules(policy: gate.Policy, roots: Sequence[str]) -> object:
    return policy.rules.deny, policy.files, policy.forbidden_paths, tuple(roots)


def _outermost(paths: Iterable[str]) -> list[str]:
    """The paths that are not inside another one, because protecting a folder protects everything in it."""
    outermost: list[str] = []
    for path in sorted(dict.fromkeys(paths), key=lambda path: path.split("/")):
        if not outermost or not beneath(path, outermost[-1]):
            outermost.append(path)
    return outermost


def _nearest(paths: list[str], roots: Sequence[str]) -> list[str]:
    """The paths with those near the top first and generated files last, since only some of many can be protected."""

    def far(path: str) -> tuple[bool, int]:
        parts = path.split("/")
        return not BULK.isdisjoint(parts[min(len(root.split("/")) for root in roots) :]), len(parts)

    return sorted(paths, key=far)


def _named(policy: gate.Policy, roots: Sequence[str]) -> list[str]:
    """Paths that are forbidden or denied by their full name, without those that programs need."""
    from adderclaw.sandbox.seen import toolchains

    needed = (*NEEDED, *roots, *toolchains(roots))

    def can_be_hidden(path: str) -> bool:
        if any(beneath(path, root) and path != root for root in roots):
            return True
        return not any(beneath(needed_path, path) for needed_path in needed) and not any(
            beneath(path, needed_path) for needed_path in NEEDED
        )

    return [*filter(can_be_hidden, dict.fromkeys((*policy.forbidden_paths, *gate.denied_literal_paths(policy))))]


def _found_anywhere(path: str, roots: Sequence[str], shut: DeniedNames) -> bool:
    """Whether a rule still matches the path if its folder is moved, also into a git directory."""
    name = os.path.basename(path)
    return all(by_name(shut.unseen, root, name) and in_git(shut.unseen, root, name) for root in roots)


def unheld(held: Held, roots: Sequence[str]) -> str:
    """A warning about paths that only bubblewrap could hide, since Landlock cannot exclude parts of a folder."""
    names = [path for path in held.unseen if any(beneath(path, root) for root in roots)]
    return UNHELD.format(names=_some(names)) if names else ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
