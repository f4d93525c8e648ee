"""Prevents a program and its children from connecting to or binding one TCP port of this machine.

Landlock allows only listed ports, so all others are listed. It checks only `connect` and `bind`; a seccomp filter
refuses the ways around them (opening a connection with the first data sent, other protocols that a TCP server answers,
io_uring). A thread passes its restrictions on to the programs that it starts, so one restricted thread starts all such
programs, and they need not wait for 65,535 rules.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import landlock, seccomp

PORTS_VERSION = 4
"""The first version of Landlock that supports ports."""
RESTRICT, NO_NEW_PRIVILEGES, SECCOMP, FILTER = 446, 38, 22, 2
UNKNOWN = "this kernel cannot block a port for a program; that needs Landlock from Linux 6.7 or later"


def is_possible() -> bool:
    return os.name == "posix" and os.uname().machine in seccomp.INSTALL and landlock.version() >= PORTS_VERSION


def call_without_port[T](port: int, begin: Callable[[], T]) -> T:
    """Calls `begin` in a thread that cannot use the port. Raises AdderClawError if the kernel cannot block ports."""
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
    """Applies Landlock rules to this thread and to the programs that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(ctypes.c_long(RESTRICT), rules, 0):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(rules)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def install_filter(rules: bytes) -> None:
    """Applies a seccomp filter to this thread and to the programs that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SECCOMP, FILTER, ctypes.byref(_Program(len(rules) // 8, rules)), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")
