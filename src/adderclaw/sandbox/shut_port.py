"""One TCP port of this machine that a program and all that it starts can neither connect to nor bind.

Landlock knows ports, and allows only what is listed: so every other one is. It looks at `connect` and `bind` alone; the
ways around those (a connection that is opened by the first bytes that are sent, other protocols that a TCP server
answers, io_uring) a filter of system calls refuses. What a thread of ours has given up, all that it starts has given
up: so a thread is kept that starts such programs, and none of them waits for 65,535 rules.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import landlock, seccomp

PORTS_VERSION = 4
"""The version of Landlock that knows of them."""
RESTRICT, NO_NEW_PRIVILEGES, SECCOMP, FILTER = 446, 38, 22, 2
UNKNOWN = "this kernel cannot shut a port to a program: that takes Landlock of Linux 6.7 or later"


def is_possible() -> bool:
    return os.name == "posix" and os.uname().machine in seccomp.INSTALL and landlock.version() >= PORTS_VERSION


def call_without_port[T](port: int, begin: Callable[[], T]) -> T:
    """What `begin` gives, which is called where the port is shut. Raises AdderClawError where it cannot be."""
    if not is_possible():
        raise AdderClawError(UNKNOWN)
    return _thread(port).submit(begin).result()


@cache
def _thread(port: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, f"without {port}", initializer=lambda: _shut(port))


def _shut(port: int) -> None:
    restrict_self(landlock.ports_except(port))
    install_filter(seccomp.tcp_connect_only_filter())


def restrict_self(rules: int) -> None:
    """Follow rules of Landlock: this thread, and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(ctypes.c_long(RESTRICT), rules, 0):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(rules)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def install_filter(rules: bytes) -> None:
    """Filter the system calls of this thread, and of what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SECCOMP, FILTER, ctypes.byref(_Program(len(rules) // 8, rules)), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")
