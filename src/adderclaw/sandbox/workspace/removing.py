"""Taking places away: removed bottom up, renamed, or moved out to a folder of our own, all by descriptors."""

import errno
import os
import stat
from contextlib import suppress

from adderclaw.config.safe_open import READ, opener
from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.place import WorkspacePath, printable
from adderclaw.sandbox.workspace.reading import FOLDER, closing_fd, parent_of

_STEP = 1 << 20


def remove(path: WorkspacePath) -> None:
    """A file, a link (not what it leads to) or an empty folder. Raises OSError as unlink and rmdir do."""
    with parent_of(path) as parent:
        _remove_one(path.name, parent)


def _remove_one(name: str, parent: int) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.rmdir(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


def remove_tree(path: WorkspacePath) -> None:
    """A folder with all that it holds, or a single file; links are removed, never followed."""
    with parent_of(path) as parent:
        remove_tree_at(parent, path.name)


def remove_tree_at(parent: int, name: str) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    with closing_fd(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=parent)) as top:
        folders = ["."]
        for relative in folders:  # grows while it runs: the deepest come last
            with closing_fd(opener()(top, relative, FOLDER)) as here:
                folders += [f"{relative}/{folder}" for folder in _remove_files(here)]
        for relative in reversed(folders[1:]):
            above, last = os.path.split(relative)
            with closing_fd(opener()(top, above, FOLDER)) as here:
                os.rmdir(last, dir_fd=here)
    os.rmdir(name, dir_fd=parent)


def _remove_files(folder: int) -> list[str]:
    """Remove all but the folders of a folder, whose names are returned."""
    with os.scandir(folder) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in names if is_folder]


def rename(path: WorkspacePath, to: WorkspacePath) -> None:
    """Within the workspace, over nothing: raises FileExistsError where something is there."""
    with parent_of(path) as parent, parent_of(to) as other:
        with suppress(FileNotFoundError):
            os.stat(to.name, dir_fd=other, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to.text)
        os.rename(path.name, to.name, src_dir_fd=parent, dst_dir_fd=other)


def move_out(path: WorkspacePath, folder: str, name: str) -> None:
    """To a folder of our own, outside the workspace, under a new name: renamed, or copied and removed."""
    with parent_of(path) as parent, closing_fd(os.open(folder, FOLDER)) as ours:
        try:
            os.stat(name, dir_fd=ours, follow_symlinks=False)
        except FileNotFoundError:
            pass
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.path.join(folder, name))
        try:
            os.rename(path.name, name, src_dir_fd=parent, dst_dir_fd=ours)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(parent, path.name, ours, name)
            remove_tree_at(parent, path.name)


# ------------------------------------------------------------------ to another file system


def _copy(parent: int, name: str, ours: int, new: str) -> None:
    """Files, links as links, folders; what is none of these cannot be moved between file systems."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        _copy_one(parent, name, ours, new)
        return
    with closing_fd(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=parent)) as top:
        os.mkdir(new, 0o700, dir_fd=ours)
        with closing_fd(os.open(new, FOLDER | os.O_NOFOLLOW, dir_fd=ours)) as target:
            folders = ["."]
            for relative in folders:
                with (
                    closing_fd(opener()(top, relative, FOLDER)) as here,
                    closing_fd(opener()(target, relative, FOLDER)) as below,
                ):
                    folders += [f"{relative}/{folder}" for folder in _copy_files(here, below)]


def _copy_files(source: int, target: int) -> list[str]:
    with os.scandir(source) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        if is_folder:
            os.mkdir(name, 0o700, dir_fd=target)
        else:
            _copy_one(source, name, target, name)
    return [name for name, is_folder in names if is_folder]


def _copy_one(here: int, name: str, there: int, new: str) -> None:
    mode = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=here), new, dir_fd=there)
        return
    with closing_fd(os.open(name, READ | os.O_NOFOLLOW, dir_fd=here)) as source:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            raise PathRefused(
                f"{printable(name)} is no file, link or folder: it cannot be moved to another file system"
            )
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with closing_fd(os.open(new, flags, 0o600, dir_fd=there)) as target:
            while part := os.read(source, _STEP):
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(target, rest) :]
            os.fchmod(target, mode & 0o700)
