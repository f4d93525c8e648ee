"""Removes, renames and moves workspace paths, always by descriptors."""

import errno
import os
import stat
from contextlib import suppress

from adderclaw.config.safe_open import READ, opener
from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.path import WorkspacePath, printable
from adderclaw.sandbox.workspace.reading import FOLDER, closing_fd, parent_of

_STEP = 1 << 20


def remove(path: WorkspacePath) -> None:
    """Removes a file, a link (not its target) or an empty folder. Raises OSError as unlink and rmdir do."""
    with parent_of(path) as parent:
        if stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.rmdir(path.name, dir_fd=parent)
        else:
            os.unlink(path.name, dir_fd=parent)


def remove_tree(path: WorkspacePath) -> None:
    """Removes a folder with its content, or a single file; links are removed, never followed."""
    with parent_of(path) as parent:
        remove_tree_at(parent, path.name)


def remove_tree_at(parent: int, name: str) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    with closing_fd(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=parent)) as top:
        folders = ["."]
        for relative in folders:  # the list grows while the loop runs; the deepest folders come last
            with closing_fd(opener()(top, relative, FOLDER)) as here:
                folders += [f"{relative}/{folder}" for folder in _remove_files(here)]
        for relative in reversed(folders[1:]):
            above, last = os.path.split(relative)
            with closing_fd(opener()(top, above, FOLDER)) as here:
                os.rmdir(last, dir_fd=here)
    os.rmdir(name, dir_fd=parent)


def _remove_files(folder: int) -> list[str]:
    """Removes everything in a folder except folders, and returns their names."""
    with os.scandir(folder) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in names if is_folder]


def rename(path: WorkspacePath, to: WorkspacePath) -> None:
    """Renames within the workspace; raises FileExistsError if the target exists."""
    with parent_of(path) as parent, parent_of(to) as other:
        with suppress(FileNotFoundError):
            os.stat(to.name, dir_fd=other, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to.text)
        os.rename(path.name, to.name, src_dir_fd=parent, dst_dir_fd=other)


def move_out(path: WorkspacePath, folder: str, name: str) -> None:
    """Moves a path to a folder of our own outside the workspace, by renaming, or else by copying and removing."""
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


# ------------------------------------------------------------------ copying to another file system


def _copy(parent: int, name: str, ours: int, new: str) -> None:
    """Copies files, links (as links) and folders. Nothing else can be moved between file systems."""
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
                f"{printable(name)} is not a file, link or folder, so it cannot be moved to another file system"
            )
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with closing_fd(os.open(new, flags, 0o600, dir_fd=there)) as target:
            while part := os.read(source, _STEP):
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(target, rest) :]
            os.fchmod(target, mode & 0o700)
