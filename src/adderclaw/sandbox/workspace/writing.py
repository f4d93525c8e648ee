"""Writing to places: one step from the old content to the new, each folder on the way by its descriptor."""

import os
from contextlib import suppress

from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.place import WorkspacePath, printable
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
    """The folder and those above it, where they are missing."""
    os.close(open_or_make_folder(path, mode))


def open_or_make_folder(path: WorkspacePath, mode: int = 0o777) -> int:
    """A descriptor of the folder, made with its parents where it is missing, each step by descriptor."""
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
    """Put `data` there in one step over whatever regular file is there, whose mode stays unless another is given."""
    with closing_fd(_parent(path)) as parent:
        old = _status(path.name, parent)
        if old is not None:
            require_replaceable(old, path)
        _put(path, data, old, parent, mode)


def replace_unchanged(path: WorkspacePath, data: bytes, old: OldFile | None) -> None:
    """The same, if what is there is still `old`; Refused else."""
    with closing_fd(_parent(path)) as parent:
        _require_unchanged_file(path, parent, old)
        _put(path, data, old.stat if old else None, parent, None)


def open_append(path: WorkspacePath) -> int:
    """A regular file with one name, to write at its end; made with its folders where missing. The caller closes it."""
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
        with suppress(OSError):  # also where nothing could be made: a read-only disk refuses this, too
            os.unlink(temporary, dir_fd=parent)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path.text  # nobody asked for a file of the other name
        raise
    os.fsync(parent)


def _put_nameless(name: str, data: bytes, old: os.stat_result | None, parent: int, mode: int | None) -> bool:
    """Fill a file that has no name before it is whole, and then give it one: a process that is killed meanwhile leaves
    nothing behind. Whether this file system, and /proc, can do that."""
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
        with suppress(PermissionError):  # somebody else's file in a folder of ours: the new one is ours
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


def _require_unchanged_file(path: WorkspacePath, parent: int, old: OldFile | None) -> None:
    _require_unchanged(path, parent, old.stat if old else None)


def _require_unchanged(path: WorkspacePath, parent: int, old: os.stat_result | None) -> None:
    """Nobody may have put something else there since we looked."""
    status = _status(path.name, parent)
    if status is not None:
        require_replaceable(status, path)
    if _fingerprint(status) != _fingerprint(old):
        raise PathRefused(f"{printable(path.text)} was changed by somebody else at this moment: read it again")


def _fingerprint(status: os.stat_result | None) -> tuple[int, ...] | None:
    return status and (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def put_link(path: WorkspacePath, target: str) -> None:
    """A symbolic link in one step, over a file or link that is there; it is only written, never followed."""
    with parent_of(path) as parent:
        temporary = f".adderclaw-{os.urandom(8).hex()}.tmp"
        os.symlink(target, temporary, dir_fd=parent)
        try:
            os.rename(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(temporary, dir_fd=parent)
            raise


def chmod(path: WorkspacePath, mode: int) -> None:
    """The mode of a folder or a regular file with one name, by its descriptor; no setuid, setgid or sticky bit."""
    from adderclaw.config.safe_open import READ

    with closing_fd(open_path(path, READ)) as fd:
        status = os.fstat(fd)
        with suppress(IsADirectoryError):
            require_regular(status, path)
            require_replaceable(status, path)
        os.fchmod(fd, mode & 0o777)
