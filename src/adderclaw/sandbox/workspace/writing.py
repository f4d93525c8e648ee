"""Writes workspace paths atomically, opening each folder on the way by its descriptor."""

import os
from contextlib import suppress

from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.path import WorkspacePath, printable
from adderclaw.sandbox.workspace.reading import (
    FOLDER,
    OldFile,
    closing_fd,
    open_path,
    parent_of,
    require_regular,
    require_replaceable,
)

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_folders(path: WorkspacePath, mode: int = 0o777) -> None:
    """Creates a folder and its missing parents."""
    os.close(open_or_make_folder(path, mode))


def open_or_make_folder(path: WorkspacePath, mode: int = 0o777) -> int:
    """Opens a folder, creating it and its missing parents step by step through descriptors."""
    try:
        return open_path(path, FOLDER)
    except FileNotFoundError:
        pass
    fd = os.open(path.root, FOLDER)
    try:
        for part in path.relative.split("/"):
            with suppress(FileExistsError):
                os.mkdir(part, mode, dir_fd=fd)
            below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
    except OSError as error:
        os.close(fd)
        error.filename = path.text
        raise
    return fd


def write(path: WorkspacePath, data: bytes, *, mode: int | None = None) -> None:
    """Writes a file atomically, replacing a regular file, whose mode is preserved unless `mode` is given."""
    with closing_fd(_parent(path)) as parent:
        old = _status(path.name, parent)
        if old is not None:
            require_replaceable(old, path)
        _put(path, data, old, parent, mode)


def replace_unchanged(path: WorkspacePath, data: bytes, old: OldFile | None) -> None:
    """Like `write`, but raises PathRefused unless the file on disk is still `old`."""
    status = old.stat if old else None
    with closing_fd(_parent(path)) as parent:
        _require_unchanged(path, parent, status)
        _put(path, data, status, parent, None)


def open_append(path: WorkspacePath) -> int:
    """Opens a regular file for appending, creating it and its folders if missing. The caller closes it."""
    with closing_fd(open_or_make_folder(path.parent, 0o700)) as parent:
        fd = os.open(path.name, os.O_APPEND | os.O_NONBLOCK | NEW & ~os.O_EXCL, 0o600, dir_fd=parent)
    try:
        status = os.fstat(fd)
        require_regular(status, path)
        require_replaceable(status, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _parent(path: WorkspacePath) -> int:
    if path.is_root:
        raise PathRefused(f"{printable(path.root)} is the root of the workspace itself")
    return open_or_make_folder(path.parent)


def _put(path: WorkspacePath, data: bytes, old: os.stat_result | None, parent: int, mode: int | None) -> None:
    temporary = f".adderclaw-{os.urandom(8).hex()}.tmp"
    try:
        if not _put_nameless(temporary, data, old, parent, mode):
            with closing_fd(os.open(temporary, NEW, 0o666, dir_fd=parent)) as fd:
                _fill(fd, data, old, mode)
        _require_unchanged(path, parent, old)
        os.rename(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException as error:
        with suppress(OSError):  # the file may not exist, for example on a read-only disk
            os.unlink(temporary, dir_fd=parent)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path.text  # the caller does not know the temporary name
        raise
    os.fsync(parent)


def _put_nameless(name: str, data: bytes, old: os.stat_result | None, parent: int, mode: int | None) -> bool:
    """Writes a nameless file and names it once it is complete, so that a killed process leaves nothing behind. Returns
    False if the file system or /proc does not support it."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        nameless = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=parent)
    except OSError:
        return False
    with closing_fd(nameless) as fd:
        _fill(fd, data, old, mode)
        try:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=parent, follow_symlinks=True)
        except OSError:
            return False
    return True


def _fill(fd: int, data: bytes, old: os.stat_result | None, mode: int | None) -> None:
    if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):  # another user's file in our folder: the new file is ours
            os.fchown(fd, old.st_uid, old.st_gid)
    new_mode = mode if mode is not None else old.st_mode if old is not None else None
    if new_mode is not None:
        os.fchmod(fd, new_mode & 0o777)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _status(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _require_unchanged(path: WorkspacePath, parent: int, old: os.stat_result | None) -> None:
    """Raises PathRefused if the file on disk is no longer `old`."""
    status = _status(path.name, parent)
    if status is not None:
        require_replaceable(status, path)
    if _fingerprint(status) != _fingerprint(old):
        raise PathRefused(f"{printable(path.text)} was changed by another process just now; read it again")


def _fingerprint(status: os.stat_result | None) -> tuple[int, ...] | None:
    return status and (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def put_link(path: WorkspacePath, target: str) -> None:
    """Creates a symbolic link atomically, replacing an existing file or link. The target is not followed."""
    with parent_of(path) as parent:
        temporary = f".adderclaw-{os.urandom(8).hex()}.tmp"
        os.symlink(target, temporary, dir_fd=parent)
        try:
            os.rename(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(temporary, dir_fd=parent)
            raise


def chmod(path: WorkspacePath, mode: int) -> None:
    """Sets the mode of a folder or a regular file without hard links; never a setuid, setgid or sticky bit."""
    from adderclaw.config.safe_open import READ

    with closing_fd(open_path(path, READ)) as fd:
        status = os.fstat(fd)
        with suppress(IsADirectoryError):
            require_regular(status, path)
            require_replaceable(status, path)
        os.fchmod(fd, mode & 0o777)
