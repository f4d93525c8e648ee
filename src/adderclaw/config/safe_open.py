"""Opens files below a directory descriptor without following links, so that the checked file is the opened one."""

import errno
import os
import sys
from collections.abc import Callable
from functools import cache

RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
OPENAT2 = 437
"""One number on every architecture."""
TRIES = 32
"""openat2 fails with EAGAIN while directories in the path are being renamed."""

ANCHOR = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


type Opener = Callable[[int, str, int], int]
"""(root descriptor, relative path, flags) → descriptor, opened without following links."""


@cache
def _openat2() -> Callable[[int, bytes, int], int]:
    import ctypes

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    call = ctypes.CDLL(None, use_errno=True).syscall
    resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS

    def openat2(root: int, way: bytes, flags: int) -> int:
        how = OpenHow(flags, 0, resolve)
        number, size = ctypes.c_long(OPENAT2), ctypes.c_size_t(ctypes.sizeof(how))
        fd = call(number, ctypes.c_int(root), ctypes.c_char_p(way), ctypes.byref(how), size)
        if fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return fd

    return openat2


def by_openat2(root: int, way: str, flags: int) -> int:
    openat2 = _openat2()
    for _ in range(TRIES):
        try:
            return openat2(root, os.fsencode(way), flags)
        except BlockingIOError:
            continue
    raise OSError(errno.EAGAIN, "the parent directories keep changing")


def by_walk(root: int, way: str, flags: int) -> int:
    """The equivalent for kernels without openat2: opens one component at a time and never follows links."""
    *folders, name = way.split("/")
    here = os.dup(root)
    try:
        for folder in folders:
            below = os.open(folder, ANCHOR | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        os.close(here)


def open_real(path: str, flags: int = READ) -> int:
    """Opens a resolved absolute path without following any link."""
    root = os.open("/", ANCHOR)
    try:
        return opener()(root, path.strip("/") or ".", flags)
    finally:
        os.close(root)


@cache
def opener() -> Opener:
    """openat2 if the kernel and its system call filters allow it, else the walk."""
    if sys.platform != "linux":  # the number means another call there, or ends the process
        return by_walk
    root = os.open("/", ANCHOR)
    try:
        os.close(by_openat2(root, ".", ANCHOR))
    except (OSError, AttributeError):
        return by_walk
    finally:
        os.close(root)
    return by_openat2
