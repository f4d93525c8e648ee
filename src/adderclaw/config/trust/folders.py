"""The folders of a project that trust covers, and a cheap way to detect changes in them."""

import os
from collections.abc import Iterator, Sequence
from stat import S_ISLNK

from adderclaw.config.paths import beneath as within
from adderclaw.config.paths import followed
from adderclaw.config.safe_open import ANCHOR, open_real, opener
from adderclaw.core.errors import ConfigError, Problem

OURS = ("hooks", "plugins", "skills", "agents", "commands", "sops")
TREES = (
    *(f"{top}/{name}" for top in (".adderclaw", ".claude") for name in OURS),
    ".agents/skills",
    "skills",
    "plugins",
    "sops",
)
"""Folders whose content is executed or may grant itself tools."""
UNITS = {
    "plugins": (("manifest.toml", ".claude-plugin", "plugin.json"), 1),
    "skills": (("SKILL.md", "skill.md"), 3),
    "sops": (("SOP.toml",), 1),
}
"""For folder names that any repository may use: the file names that mark a plugin, skill or SOP, and their maximum
depth. Trust covers only the marked folders, completely."""
MOST_FILES = 5_000
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def stamps(project: str, named: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Names, sizes and times of covered files other than configuration, to detect changes cheaply."""
    files = (file for tree in TREES for file in _walked(project, tree, strict=False))
    for path, known in (*files, *((path, None) for path in named)):
        status = known or _status(os.path.join(project, path), project)
        if status is None:
            continue
        yield path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _status(path: str, project: str) -> os.stat_result | None:
    """The status of a link's target, or of the link itself if the target is outside the project or missing."""
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


def beneath(project: str, tree: str) -> Iterator[str]:
    """Every file of a folder, sorted, by its path inside the project. Links to folders are rejected."""
    return (path for path, _ in _walked(project, tree, strict=True))


def _walked(project: str, tree: str, *, strict: bool) -> Iterator[tuple[str, os.stat_result | None]]:
    """The files of a folder, each with its status (None for a link)."""
    if leads_out(project, tree):
        if strict:
            raise untrustable(os.path.join(project, tree), "is a link that leads out of the project")
        return
    try:
        root = open_real(followed(os.path.join(project, tree)), ANCHOR)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise untrustable(os.path.join(project, tree), f"cannot be read: {error.strerror}") from None
    names, deepest = UNITS.get(tree, ((), 0))
    waiting, count = [(".", 0, not names)], 0
    try:
        while waiting:
            folder, depth, covered = waiting.pop()
            covered, entries = _listed(root, folder, os.path.join(project, tree), () if covered else names)
            for name, is_folder, status in entries:
                below = name if folder == "." else f"{folder}/{name}"
                path = f"{tree}/{below}"
                if is_folder:
                    if covered or depth < deepest:
                        waiting.append((below, depth + 1, covered))
                elif not covered and not any(
                    _status(os.path.join(project, path, unit_name), project) for unit_name in names
                ):
                    continue
                elif strict and status is None and _is_folder(os.path.join(project, path)):
                    raise untrustable(
                        os.path.join(project, path), "is a link to a folder, whose content could change unseen"
                    )
                else:
                    yield path, status
                count += 1
                if count > 2 * MOST_FILES:
                    raise untrustable(os.path.join(project, tree), f"has more than {MOST_FILES} files")
    finally:
        os.close(root)


type _Entry = tuple[str, bool, os.stat_result | None]


def _listed(root: int, folder: str, tree: str, names: Sequence[str]) -> tuple[bool, list[_Entry]]:
    """Whether a folder is covered, and its entries: all if it is, otherwise only its folders and links.

    A folder is covered if it contains one of `names`, or if `names` is empty. It is opened without following links, so
    that a folder that is replaced by a link meanwhile is not read.
    """
    try:
        fd = opener()(root, folder, FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return False, []
    except OSError as error:
        raise untrustable(os.path.normpath(os.path.join(tree, folder)), f"cannot be read: {error.strerror}") from None
    try:
        with os.scandir(fd) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
            covered = not names or any(entry.name in names for entry in sorted_entries)
            relevant = (
                entry
                for entry in sorted_entries
                if covered or entry.is_dir(follow_symlinks=False) or entry.is_symlink()
            )
            return covered, [(entry.name, *_kind(entry)) for entry in relevant]
    finally:
        os.close(fd)


def _kind(entry: "os.DirEntry[str]") -> tuple[bool, os.stat_result | None]:
    """Whether an entry is a folder, and the status of a file; None for a folder, a link or an unreadable entry."""
    if entry.is_dir(follow_symlinks=False):
        return True, None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # removed meanwhile, or unreadable
        return False, None
    return False, None if S_ISLNK(status.st_mode) else status


def _is_folder(path: str) -> bool:
    try:
        os.close(open_real(followed(path), FOLDER))
    except OSError:  # a loop of links too, which is reported when the path is read
        return False
    return True


def leads_out(project: str, name: str) -> bool:
    """Whether a name in a project resolves to something outside the project."""
    return not within(followed(os.path.join(project, name)), followed(project))


def untrustable(path: str, why: str) -> ConfigError:
    return ConfigError([Problem(path, "", f"{why}: the project cannot be trusted like this")])
