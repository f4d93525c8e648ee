"""Folders that the kernel watches for us, so that a look need not ask of each whether it has changed.

A notice can only make a look ask again; whatever a watch cannot be trusted with is asked by `stat` as ever.
"""

import ctypes
import os
import select
import struct

MOST = 50_000
"""Watches of one session. Each holds about 1 KB of the kernel's memory."""
SHARE = 4
"""At most one in so many of those that the user may have: editors need them, too."""
LIMIT = "/proc/sys/fs/inotify/max_user_watches"
MOUNTS = "/proc/self/mountinfo"
LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs"})
"""Where nobody changes a folder but through this kernel. What a share, a FUSE program or a layer beneath an overlay
changes is told to nobody; btrfs gives its folders numbers that the table of mounts does not know."""
CHANGES = 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""IN_ATTRIB, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF."""
ONCE = 0x01000000 | 0x80000000
"""Only folders, and each is told of once: however much a command changes, it fills no queue with one folder."""
OVERFLOW, OVER = 0x4000, 0x8000
EVENT = struct.Struct("iIII")
AT_ONCE = 1 << 16


class Watches[F]:
    """What is trusted to be as it was; each look begins with `renew`."""

    def __init__(self) -> None:
        self._fd = self._mounts = -1
        self._most = 0
        self._live: set[int] = set()
        self.trusted: dict[int, F] = {}
        """What nothing was told of since it was put here. Who looks at a folder of it again takes its watch over."""
        self._local: frozenset[int] = frozenset()
        self._poll = select.poll()
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._mounts = os.open(MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
            self._poll.register(self._mounts, select.POLLPRI)
            self._read_mounts()
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            with open(LIMIT, encoding="ascii") as file:
                self._most = min(MOST, int(file.read()) // SHARE) if self._fd >= 0 else 0
        except (OSError, ValueError, AttributeError):
            self._most = 0

    def __del__(self) -> None:
        for fd in (self._fd, self._mounts):
            if fd >= 0:
                os.close(fd)

    def renew(self) -> None:
        """Hear what has changed until now."""
        try:
            if self._poll.poll(0):  # something may be mounted over a folder: of that nobody is told
                self.trusted.clear()
                self._read_mounts()
            while self._fd >= 0:
                self._hear(os.read(self._fd, AT_ONCE))
        except BlockingIOError:
            return  # that was all
        except (OSError, ValueError):
            self.trusted.clear()
            self._most = 0

    def _hear(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            wd, mask, _, length = EVENT.unpack_from(events, at)
            at += EVENT.size + length
            if mask & OVERFLOW:
                self.trusted.clear()
            self.trusted.pop(wd, None)
            if mask & OVER:
                self._live.discard(wd)

    def has_room(self, device: int) -> bool:
        return len(self._live) < self._most and device in self._local

    def add(self, fd: int) -> int:
        """Watch an open folder from now on, -1 where that cannot be. Until then it may have changed: the caller looks
        once more, and only then trusts it."""
        wd: int = self._libc.inotify_add_watch(self._fd, b"/proc/self/fd/%d" % fd, CHANGES | ONCE)
        if wd < 0:  # the user has no more of them, or there is no /proc
            self._most = 0
            return -1
        self._live.add(wd)
        return wd

    def _read_mounts(self) -> None:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split() for line in file]
        local, others = set[int](), set[int]()
        for words in lines:
            major, minor = map(int, words[2].split(":"))
            kind = words[words.index("-", 6) + 1]
            (local if kind in LOCAL else others).add(os.makedev(major, minor))
        self._local = frozenset(local - others)
