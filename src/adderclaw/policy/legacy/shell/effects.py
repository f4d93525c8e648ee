"""Which names on the disk a command may change, so that no glob after it is looked up too early."""

import os
import re
from collections.abc import Iterable

from adderclaw.policy.legacy.programs import operands
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, those
from adderclaw.policy.legacy.programs.wrappers import only_looks
from adderclaw.policy.legacy.shell.plan import Redirect, Simple
from adderclaw.policy.legacy.shell.words import Component

ANYTHING = frozenset({"\0"})
"""The paths that a command changed of which it is not known what it changes."""


def changes(simple: Simple, folders: tuple[str, ...]) -> frozenset[str]:
    """The paths that a command may change, for globs that come after it."""
    found = written(simple.redirects, folders)
    name = simple.name
    if name == "source":
        return ANYTHING
    if name in those("harmless") | those("builtin"):
        return found
    if name in PROGRAMS and only_looks(simple.words) and (PROGRAMS[name].operands != "in-out" or len(simple.words) < 3):
        return found
    if name == "git" and len(simple.words) > 1 and simple.words[1] in PROGRAMS["git"].reads:
        return found
    if name == "rm" or name in those("exact"):
        named = operands.operands(name, simple.words)
        if not named.written_if_there and not named.merged:
            return found | _placed((*named.writes, *(named.reads if name == "mv" else ())), folders)
    return ANYTHING


def written(redirects: Iterable[Redirect], folders: tuple[str, ...]) -> frozenset[str]:
    return _placed((r.target for r in redirects if r.writes and r.target != "/dev/null"), folders)


def _placed(paths: Iterable[str], folders: tuple[str, ...]) -> frozenset[str]:
    return frozenset(os.path.normpath(os.path.join(folder, path)) for path in paths for folder in folders)


def may_match(changed: frozenset[str], folder: str, parts: tuple[Component, ...]) -> bool:
    """Whether a pattern may match other names than before, now that these paths were changed."""
    if not changed:
        return False
    if changed & ANYTHING:
        return True
    first = next(n for n, part in enumerate(parts) if part.pattern)
    lead = "/".join(part.text for part in parts[:first]) + ("/" if first else "")
    place = os.path.normpath(os.path.join(folder, lead)) if lead or folder else "."
    return any(_touches(path, place, parts[first:]) for path in changed)


def _touches(path: str, place: str, parts: tuple[Component, ...]) -> bool:
    if os.path.isabs(path) != os.path.isabs(place):
        return True
    if path == place or place.startswith(path + "/") or ".." in (path.split("/")[0], place.split("/")[0]):
        return True
    relative = path if place == "." else path.removeprefix(place + "/") if path.startswith(place + "/") else None
    if relative is None:
        return False
    return len(parts) > 1 or any(re.fullmatch(p.text, relative.split("/")[0], re.DOTALL) for p in parts)
