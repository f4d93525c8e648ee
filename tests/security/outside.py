"""A program that tries to change files that are not its own, by every call and every way to name them.

Run inside a sandbox: `python outside.py FILE`, which has a path on each line. It prints what the kernel let through.
"""

import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator

HERE = -100
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"chmod": 90, "chown": 92, "lchown": 94, "utime": 132, "utimes": 235, "futimesat": 261},
    "aarch64": {},
}[os.uname().machine]
COMMON = {"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469}
TIMES = (ctypes.c_long * 4)(1, 0, 1, 0)


def call(name: str, *arguments: object) -> int:
    """A call by its number, where this processor has it."""
    number = (NUMBERS | COMMON).get(name)
    return -1 if number is None else libc.syscall(ctypes.c_long(number), *arguments)


def by_path(at: int, path: bytes) -> Iterator[tuple[str, int]]:
    """Every call that takes a path."""
    yield "fchmodat", libc.fchmodat(at, path, 0o666, 0)
    yield "fchmodat without following", libc.fchmodat(at, path, 0o666, 0x100)
    yield "fchmodat2", call("fchmodat2", at, path, 0o666, 0)
    yield "fchmodat2 without following", call("fchmodat2", at, path, 0o666, 0x100)
    yield "fchownat", libc.fchownat(at, path, os.getuid(), os.getgid(), 0)
    yield "fchownat without following", libc.fchownat(at, path, os.getuid(), os.getgid(), 0x100)
    yield "utimensat", libc.utimensat(at, path, TIMES, 0)
    yield "utimensat without following", libc.utimensat(at, path, TIMES, 0x100)
    yield "utimensat, now", libc.utimensat(at, path, None, 0)
    yield "futimesat", call("futimesat", at, path, TIMES)
    yield "setxattrat", call("setxattrat", at, path, 0, b"user.x", (ctypes.c_uint64 * 2)(0, 0), 16)
    yield "file_setattr", call("file_setattr", at, path, (ctypes.c_uint64 * 4)(), 24, 0)
    if at != HERE:
        return
    yield "chmod", libc.chmod(path, 0o666)
    yield "the older chmod", call("chmod", path, 0o666)
    yield "chown", libc.chown(path, os.getuid(), os.getgid())
    yield "lchown", libc.lchown(path, os.getuid(), os.getgid())
    yield "the older lchown", call("lchown", path, os.getuid(), os.getgid())
    yield "utime", call("utime", path, (ctypes.c_long * 2)(1, 1))
    yield "utimes", call("utimes", path, TIMES)
    yield "setxattr", libc.setxattr(path, b"user.x", b"y", 1, 0)
    yield "lsetxattr", libc.lsetxattr(path, b"user.x", b"y", 1, 0)
    yield "removexattr", libc.removexattr(path, b"user.canary")
    yield "lremovexattr", libc.lremovexattr(path, b"user.canary")
    yield "truncate", libc.truncate(path, ctypes.c_long(0))


def by_descriptor(fd: int) -> Iterator[tuple[str, int]]:
    """Every call that takes a descriptor."""
    yield "fchmod", libc.fchmod(fd, 0o666)
    yield "fchown", libc.fchown(fd, os.getuid(), os.getgid())
    yield "futimens", libc.futimens(fd, TIMES)
    yield "futimens, now", libc.futimens(fd, None)
    yield "fsetxattr", libc.fsetxattr(fd, b"user.x", b"y", 1, 0)
    yield "fremovexattr", libc.fremovexattr(fd, b"user.canary")
    yield "its flags", libc.ioctl(fd, ctypes.c_ulong(0x40086602), (ctypes.c_long * 1)(0x40))
    yield "ftruncate", libc.ftruncate(fd, ctypes.c_long(0))
    for name in ("fchmodat2", "fchownat", "utimensat"):
        yield f"{name} of a descriptor", empty(name, fd)
    yield from by_path(HERE, b"/proc/self/fd/%d" % fd)
    yield from by_path(HERE, b"/proc/%d/fd/%d" % (os.getpid(), fd))
    yield from by_path(HERE, b"/proc/thread-self/fd/%d" % fd)
    yield from by_path(HERE, b"/dev/fd/%d" % fd)


def empty(name: str, fd: int) -> int:
    """The same by an empty path."""
    if name == "fchmodat2":
        return call(name, fd, b"", 0o666, 0x1000)
    if name == "fchownat":
        return libc.fchownat(fd, b"", os.getuid(), os.getgid(), 0x1000)
    return libc.utimensat(fd, b"", TIMES, 0x1000)


def every(target: bytes, number: int) -> Iterator[tuple[str, int]]:
    """Every way to name it, and every call by that."""
    folder, name = os.path.split(target)
    yield from by_path(HERE, target)
    yield from by_path(HERE, os.path.relpath(target))
    link = b"link%d" % number
    os.symlink(target, link)
    own = ("without following", "lchown", "lsetxattr", "lremovexattr")
    yield from (one for one in by_path(HERE, link) if not one[0].endswith(own))  # the link itself is its own
    above = b"above%d" % number
    os.symlink(folder, above)
    yield from by_path(HERE, above + b"/" + name)
    for flags in (os.O_RDONLY, os.O_PATH):
        if (fd := opened(folder, flags)) >= 0:
            yield from by_path(fd, name)
        if (fd := opened(target, flags)) >= 0:
            yield from by_descriptor(fd)
    yield from linked(target, number)


def opened(path: bytes, flags: int) -> int:
    try:
        return os.open(path, flags)
    except OSError:
        return -1


def linked(target: bytes, number: int) -> Iterator[tuple[str, int]]:
    """A second name for it inside."""
    hard = b"hard%d" % number
    yield "link", libc.linkat(HERE, target, HERE, hard, 0)
    yield "rename", libc.rename(target, b"moved%d" % number)
    yield from by_path(HERE, hard)
    here = os.getcwd()
    try:
        os.chdir(os.path.dirname(target))
        yield from by_path(HERE, os.path.basename(target))
    except OSError:
        pass
    finally:
        os.chdir(here)


def in_a_thread(act: Callable[[], None]) -> None:
    """A thread is a process to the kernel: its number is not that of its process."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def main(targets: list[str]) -> None:
    def tried() -> None:
        for number, target in zip(numbers, targets, strict=False):
            done = [name for name, answer in every(os.fsencode(target), number) if answer == 0]
            print(f"{target}: {', '.join(done) or 'nothing'}")

    numbers = itertools.count()
    tried()
    in_a_thread(tried)
    print("tried all")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        main(file.read().splitlines())
