"""Writing to places: one step from the old content to the new, each folder on the way by its descriptor."""

import os
from contextlib import suppress

from adderclaw.core.errors import PathRefused
from adderclaw.sandbox.workspace.place import Place, shown
from adderclaw.sandbox.workspace.reading import FOLDER, Old, held, opened, parent_of, regular, replaceable

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_folders(place: Place, mode: int = 0o777) -> None:
    """The folder and those above it, where they are missing."""
    os.close(opened_or_made(place, mode))


def opened_or_made(place: Place, mode: int = 0o777) -> int:
    """A descriptor of the folder, made with its parents where it is missing, each step by descriptor."""
    try:
        return opened(place, FOLDER)
    except FileNotFoundError:
        pass
    here = os.open(place.root, FOLDER)
    try:
        for part in place.way.split("/"):
            with suppress(FileExistsError):
                os.mkdir(part, mode, dir_fd=here)
            below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
    except OSError as error:
        os.close(here)
        error.filename = place.text
        raise
    return here


def write(place: Place, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` there in one step over whatever regular file is there, whose mode stays unless another is given."""
    with held(_parent(place)) as parent:
        old = _status(place.name, parent)
        if old is not None:
            replaceable(old, place)
        _put(place, data, old, parent, mode)


def replace(place: Place, data: bytes, old: Old | None) -> None:
    """The same, if what is there is still `old`; Refused else."""
    with held(_parent(place)) as parent:
        _same(place, parent, old)
        _put(place, data, old.stat if old else None, parent, None)


def open_append(place: Place) -> int:
    """A regular file with one name, to write at its end; made with its folders where missing. The caller closes it."""
    with held(opened_or_made(place.parent, 0o700)) as parent:
        fd = os.open(place.name, os.O_APPEND | os.O_NONBLOCK | NEW & ~os.O_EXCL, 0o600, dir_fd=parent)
    try:
        found = os.fstat(fd)
        regular(found, place)
        replaceable(found, place)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _parent(place: Place) -> int:
    if place.is_root:
        raise PathRefused(f"{shown(place.root)} is the root of the workspace itself")
    return opened_or_made(place.parent)


def _put(place: Place, data: bytes, old: os.stat_result | None, parent: int, mode: int | None) -> None:
    temporary = f".adderclaw-{os.urandom(8).hex()}.tmp"
    try:
        if not _put_nameless(temporary, data, old, parent, mode):
            with held(os.open(temporary, NEW, 0o666, dir_fd=parent)) as fd:
                _fill(fd, data, old, mode)
        _unchanged(place, parent, old)
        os.rename(temporary, place.name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException as error:
        with suppress(OSError):  # also where nothing could be made: a read-only disk refuses this, too
            os.unlink(temporary, dir_fd=parent)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = place.text  # nobody asked for a file of the other name
        raise
    os.fsync(parent)


def _put_nameless(name: str, data: bytes, old: os.stat_result | None, parent: int, mode: int | None) -> bool:
    """Fill a file that has no name before it is whole, and then give it one: a process that is killed meanwhile leaves
    nothing behind. Whether this file system, and /proc, can do that."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        made = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=parent)
    except OSError:
        return False
    with held(made) as fd:
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
    wanted = mode if mode is not None else old.st_mode if old is not None else None
    if wanted is not None:
        os.fchmod(fd, wanted & 0o777)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _status(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _same(place: Place, parent: int, old: Old | None) -> None:
    _unchanged(place, parent, old.stat if old else None)


def _unchanged(place: Place, parent: int, old: os.stat_result | None) -> None:
    """Nobody may have put something else there since we looked."""
    found = _status(place.name, parent)
    if found is not None:
        replaceable(found, place)
    if _mark(found) != _mark(old):
        raise PathRefused(f"{shown(place.text)} was changed by somebody else at this moment: read it again")


def _mark(found: os.stat_result | None) -> tuple[int, ...] | None:
    return found and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def put_link(place: Place, target: str) -> None:
    """A symbolic link in one step, over a file or link that is there; it is only written, never followed."""
    with parent_of(place) as parent:
        temporary = f".adderclaw-{os.urandom(8).hex()}.tmp"
        os.symlink(target, temporary, dir_fd=parent)
        try:
            os.rename(temporary, place.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(temporary, dir_fd=parent)
            raise


def chmod(place: Place, mode: int) -> None:
    """The mode of a folder or a regular file with one name, by its descriptor; no setuid, setgid or sticky bit."""
    from adderclaw.config.safe_open import READ

    with held(opened(place, READ)) as fd:
        found = os.fstat(fd)
        with suppress(IsADirectoryError):
            regular(found, place)
            replaceable(found, place)
        os.fchmod(fd, mode & 0o777)
