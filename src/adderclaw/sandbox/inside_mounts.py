"""Part of the program inside a sandbox: mounts paths of the workspace onto themselves, by descriptor."""

import ctypes
import posix

BIND_ALL = 0x1000 | 0x4000
OPEN_TREE, MOVE_MOUNT, SET_MOUNT = 428, 429, 442
AT_EMPTY_PATH, AT_RECURSIVE = 0x1000, 0x8000
"""AT_EMPTY_PATH, AT_RECURSIVE: the file of a descriptor, with everything mounted in it."""
PATH_FLAGS = posix.O_PATH | posix.O_NOFOLLOW | posix.O_CLOEXEC
REMOUNT = 0x1000 | 0x20
READ_ONLY, NO_PROGRAMS = 1, 8
"""Mount attributes; mount and mount_setattr use the same numbers."""
libc = ctypes.CDLL(None, use_errno=True)
PROC = posix.open("/proc", posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC) if __spec__ is None else -1
"""The /proc of all process namespaces."""


def raise_on_errno(answer: int, what: str | bytes) -> None:
    if answer < 0:
        raise OSError(ctypes.get_errno(), "it failed", what)


class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


def split_lists(text: bytes) -> list[list[bytes]]:
    return [part.split(b"\0") if part else [] for part in text.split(b"\0\0")]


def protect(pinned: list[bytes], read_only: list[bytes]) -> None:
    """Prevent the commands of this view from moving the pinned folders or changing the read-only files.

    Each path is opened name by name, and the opened file is mounted: a link that replaces a folder has no effect.
    """
    mounted_paths = [path for path in sorted(read_only) if bind_path(path, read_only=True)]
    if read_only and not mounted_paths:  # a folder above the workspace was moved: otherwise nothing would be protected
        raise OSError(2, "none of these paths exists", read_only[0])
    mounted = mount_points()
    # Inner mounts first, each with what is mounted in it: processes already in such a folder see those, too.
    for path in sorted({*pinned} - mounted, reverse=True):
        bind_path(path, read_only=False)


def bind_path(path: bytes, *, read_only: bool) -> bool:
    """Mount a path onto itself; returns whether it exists."""
    fd = open_path(path)
    if fd < 0:
        return False
    try:
        if not (read_only and is_read_only(fd)):
            bind(fd, path, read_only=read_only)
    except OSError as error:
        if error.errno != 2:
            raise
        return False
    finally:
        posix.close(fd)
    return True


def open_path(path: bytes) -> int:
    """A descriptor of a path without links; -1 if there is none. `PATH_FLAGS` follows no link."""
    fd = posix.open(b"/", PATH_FLAGS)
    for name in filter(None, path.split(b"/")):
        try:
            inner = posix.open(name, PATH_FLAGS, dir_fd=fd)
        except OSError as error:
            if error.errno in (2, 20, 40):  # removed meanwhile, or now a link
                return -1
            raise
        finally:
            posix.close(fd)
        fd = inner
    if posix.fstat(fd).st_mode & 0o170000 != 0o120000:
        return fd
    posix.close(fd)
    return -1


def mount_points() -> set[bytes]:
    """The mount points that this thread sees; other threads may see others."""
    fd = posix.open("thread-self/mountinfo", posix.O_RDONLY | posix.O_CLOEXEC, dir_fd=PROC)
    paths = {line.split(b" ", 5)[4] for line in contents(fd).splitlines()}
    posix.close(fd)
    for code, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        paths = {path.replace(code, character) for path in paths}
    return paths


def is_read_only(fd: int) -> bool:
    return bool(posix.fstatvfs(fd).f_flag & READ_ONLY)


def bind(fd: int, path: bytes, *, read_only: bool) -> None:
    """Mount the file of a descriptor onto itself; it is read-only before it becomes visible."""
    tree = libc.syscall(ctypes.c_long(OPEN_TREE), fd, b"", AT_EMPTY_PATH | AT_RECURSIVE | 1 | posix.O_CLOEXEC)
    if tree < 0:
        bind_by_name(fd, path, read_only=read_only)
        return
    try:
        attributes = Attributes(READ_ONLY, 0, 0, 0)
        if read_only:
            size = ctypes.c_size_t(32)
            raise_on_errno(
                libc.syscall(
                    ctypes.c_long(SET_MOUNT), tree, b"", AT_EMPTY_PATH | AT_RECURSIVE, ctypes.byref(attributes), size
                ),
                path,
            )
        raise_on_errno(libc.syscall(ctypes.c_long(MOVE_MOUNT), tree, b"", fd, b"", 0x04 | 0x40), path)
    finally:
        posix.close(tree)


def bind_by_name(fd: int, path: bytes, *, read_only: bool) -> None:
    """The same on a kernel before 5.12."""
    posix.fchdir(PROC)  # /proc belongs to another process namespace
    try:
        name = b"thread-self/fd/%d" % fd
        raise_on_errno(libc.mount(name, name, None, ctypes.c_ulong(BIND_ALL), None), path)
        top = open_path(path) if read_only else -1
        if top >= 0:
            set_mount(b"thread-self/fd/%d" % top, READ_ONLY)
            posix.close(top)
    finally:
        posix.chdir("/")


def set_mount(path: bytes, attribute: int, *, whole: bool = True) -> None:
    """Set an attribute of a mount, and by default of everything mounted in it."""
    attributes, recursive = Attributes(attribute, 0, 0, 0), 0x8000 if whole else 0
    if libc.syscall(ctypes.c_long(442), -100, path, recursive, ctypes.byref(attributes), ctypes.c_size_t(32)) == 0:
        return  # mount_setattr
    flags = posix.statvfs(path).f_flag
    same = flags & (1 | 2 | 4 | 8 | 1024 | 2048) | (1 << 21 if flags & 4096 else 0)
    raise_on_errno(libc.mount(None, path, None, ctypes.c_ulong(REMOUNT | same | attribute), None), path)


def contents(fd: int) -> bytes:
    parts: list[bytes] = []
    while part := posix.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def read_whole(fd: int) -> bytes:
    content = contents(fd)
    posix.close(fd)
    return content
