"""The folders of a project that trust covers, and what shows cheaply that something in them has changed."""

import os
import stat
from collections.abc import Iterator, Sequence

from adderclaw.config.paths import beneath as within
from adderclaw.config.paths import followed
from adderclaw.errors import ConfigError, Problem

OURS = ("hooks", "plugins", "skills", "agents", "commands", "sops")
TREES = (
    *(f"{top}/{name}" for top in (".adderclaw", ".claude") for name in OURS),
    ".agents/skills",
    "skills",
    "plugins",
)
"""Folders whose content runs, or may grant itself tools."""
MOST_FILES = 5_000


def stamps(project: str, named: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """What shows cheaply whether anything that is no configuration has changed: names, sizes, times of change."""
    for path in (*(path for tree in TREES for path in beneath(project, tree, strict=False)), *named):
        whole = os.path.join(project, path)
        try:
            status = os.lstat(whole)
            # what a link leads out to is not ours to look at, and a loop leads nowhere
            if stat.S_ISLNK(status.st_mode) and not leads_out(project, path) and os.path.exists(whole):
                status = os.stat(whole)
        except OSError:
            continue
        yield path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def beneath(project: str, tree: str, *, strict: bool = True) -> Iterator[str]:
    """Every file of a folder, sorted, by its path inside the project. A link to a folder cannot be looked into."""
    if leads_out(project, tree):
        if strict:
            raise unfit(os.path.join(project, tree), "is a link that leads out of the project")
        return
    waiting, count = [tree], 0
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(project, folder)), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise unfit(os.path.join(project, folder), f"cannot be read: {error.strerror}") from None
        for entry in entries:
            name = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            elif strict and _is_link_to_folder(entry):
                raise unfit(os.path.join(project, name), "is a link to a folder, whose content could change unseen")
            else:
                yield name
            count += 1
            if count > 2 * MOST_FILES:
                raise unfit(os.path.join(project, tree), f"has more than {MOST_FILES} files")


def _is_link_to_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_symlink() and entry.is_dir()
    except OSError:  # a loop: whoever reads it says so
        return False


def leads_out(project: str, name: str) -> bool:
    """Whether a name in a project stands for something elsewhere: that is not the project's to bring."""
    return not within(followed(os.path.join(project, name)), followed(project))


def unfit(path: str, why: str) -> ConfigError:
    return ConfigError([Problem(path, "", f"{why}: the project cannot be trusted so")])
