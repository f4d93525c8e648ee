"""The folders of a project that trust covers, and what shows cheaply that something in them has changed."""

import os
from collections.abc import Iterator, Sequence

from adderclaw.config.paths import beneath as within
from adderclaw.config.paths import followed
from adderclaw.config.safe_open import ANCHOR, open_real
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
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def stamps(project: str, named: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """What shows cheaply whether anything that is no configuration has changed: names, sizes, times of change."""
    for path in (*(path for tree in TREES for path in beneath(project, tree, strict=False)), *named):
        whole = os.path.join(project, path)
        status = _status(whole, project)
        if status is None:
            continue
        yield path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _status(path: str, project: str) -> os.stat_result | None:
    """Of what a link leads to, unless that lies out of the project, or nowhere: then of the link itself."""
    folder, name = os.path.split(path)
    for real in (followed(path), os.path.join(followed(folder), name)):
        if not within(real, followed(project)):
            continue
        try:
            fd = open_real(os.path.dirname(real), ANCHOR)
        except OSError:
            continue
        try:
            return os.stat(os.path.basename(real), dir_fd=fd, follow_symlinks=False)
        except OSError:
            continue
        finally:
            os.close(fd)
    return None


def beneath(project: str, tree: str, *, strict: bool = True) -> Iterator[str]:
    """Every file of a folder, sorted, by its path inside the project. A link to a folder cannot be looked into."""
    if leads_out(project, tree):
        if strict:
            raise unfit(os.path.join(project, tree), "is a link that leads out of the project")
        return
    waiting, count, real = [tree], 0, followed(os.path.join(project, tree))
    while waiting:
        folder = waiting.pop()
        try:
            entries = _listed(os.path.normpath(os.path.join(real, os.path.relpath(folder, tree))))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise unfit(os.path.join(project, folder), f"cannot be read: {error.strerror}") from None
        for entry in entries:
            name = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            elif strict and entry.is_symlink() and _is_folder(os.path.join(project, name)):
                raise unfit(os.path.join(project, name), "is a link to a folder, whose content could change unseen")
            else:
                yield name
            count += 1
            if count > 2 * MOST_FILES:
                raise unfit(os.path.join(project, tree), f"has more than {MOST_FILES} files")


def _listed(real: str) -> list["os.DirEntry[str]"]:
    """By descriptor, through no link: what is exchanged for one meanwhile is not looked into."""
    fd = open_real(real, FOLDER)
    try:
        with os.scandir(fd) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    finally:
        os.close(fd)


def _is_folder(path: str) -> bool:
    try:
        os.close(open_real(followed(path), FOLDER))
    except OSError:  # a loop as well: who reads it says so
        return False
    return True


def leads_out(project: str, name: str) -> bool:
    """Whether a name in a project stands for something elsewhere: that is not the project's to bring."""
    return not within(followed(os.path.join(project, name)), followed(project))


def unfit(path: str, why: str) -> ConfigError:
    return ConfigError([Problem(path, "", f"{why}: the project cannot be trusted so")])
