"""Paths as the policy compares them: folded names, containment, and protected names."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from adderclaw.config.paths import beneath, is_run_name
from adderclaw.config.run_later_names import names
from adderclaw.core import home_names
from adderclaw.core.types import PathFact

DEVICES = frozenset(
    ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout", "/dev/stderr")
)
"""Always allowed: they store nothing and lead nowhere."""

READABLE_AT_HOME = frozenset({home_names.SKILLS, "workspace"})
"""The entries of AdderClaw's own folder that the model may read."""

_IGNORABLE = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff]"
)
"""Characters that some file systems ignore when they compare names."""


def is_normal_absolute(path: str) -> bool:
    """Whether a path is absolute and normalized, as the policy requires."""
    return path.startswith("/") and "\0" not in path and not {".", ".."} & set(path.split("/"))


def fold_name(name: str) -> str:
    """A name as the most forgiving file system compares it: case, trailing dots and blanks, streams, ignorables."""
    if not name.isascii():
        import unicodedata

        name = unicodedata.normalize("NFKC", re.sub(_IGNORABLE, "", name))
    if name.strip(". ") == "":
        return name
    return name.split(":", 1)[0].casefold().rstrip(". ") or name.casefold()


@lru_cache(maxsize=2048)
def fold_path(path: str) -> str:
    return "/" + "/".join(fold_name(part) for part in path.split("/") if part)


def forms(fact: PathFact) -> tuple[str, ...]:
    """The path as named and its target, each once."""
    return (fact.path,) if fact.path == fact.real else (fact.path, fact.real)


def is_device(fact: PathFact) -> bool:
    return fact.path in DEVICES


def containing_folder(path: str, folders: Iterable[str]) -> str | None:
    """The first folder that contains a path, with names compared as loosely as any file system does."""
    loose = fold_path(path)
    return next((folder for folder in folders if folder and beneath(loose, fold_path(folder))), None)


def contained_path(path: str, others: Iterable[str]) -> str | None:
    """The first of the others that is beneath a path."""
    loose = fold_path(path)
    return next((other for other in others if other and beneath(fold_path(other), loose)), None)


def root_of(path: str, roots: Iterable[str]) -> str | None:
    """The outermost root that contains a path."""
    return min((root for root in roots if beneath(path, root)), key=len, default=None)


def protected_name(path: str, roots: Iterable[str]) -> str | None:
    """The part of a path that makes it one that other programs run later; above a root names do not count."""
    parts = _parts(path, roots)
    return names().found(parts) or names().is_denied(parts)


def denied_name(path: str, roots: Iterable[str]) -> str | None:
    """The part of a path that belongs to git, the user or AdderClaw: it is never written, whatever the answer."""
    return names().is_denied(_parts(path, roots))


def _parts(path: str, roots: Iterable[str]) -> list[str]:
    root = root_of(path, roots)
    return [fold_name(part) for part in (path[len(root) :] if root else path).split("/") if part]


def is_run(path: str, folders: Iterable[str], roots: Iterable[str]) -> bool:
    """Whether a path is the folder of one of our runs, or is in one."""
    for folder in folders:
        if not beneath(fold_path(path), fold_path(folder)):
            continue
        rest = path[len(folder.rstrip("/")) + 1 :]
        if is_run_name(rest) or rest.rsplit("/", 1)[-1] == "events.jsonl" or (not rest and folder not in roots):
            return True
    return False


def is_kernel_path(path: str) -> bool:
    """Whether a path is not a file: processes' memory, descriptors and environment, devices, bash's sockets."""
    return bool(re.match(r"/proc/(\d+|self|thread-self|sys|kcore|sysrq-trigger)(/|$)|/dev(/|$)|/sys(/|$)", path)) and (
        path not in DEVICES and path != "/dev"
    )


def mentioned_paths(words: Iterable[str], home: str, base: str) -> Iterator[str]:
    """Paths in words, alone or after an equals sign, colon or at sign, without reading the disk."""
    for word in words:
        for part in re.split(r"[=:@,]", word):
            at_home = re.match(r"(?:~|\$HOME|\$\{HOME\})(?=/|$)", part)
            if at_home:
                yield normalize(f"{home}/{part[at_home.end() :]}")
            elif part.startswith("/"):
                yield normalize(part)
            elif part:
                yield normalize(f"{base}/{part}")


def normalize(path: str) -> str:
    """The path without `.` and `..`, without reading the disk."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
