"""Part of the program inside a sandbox: drops rights and restricts commands."""

import ctypes
import posix
import resource
import sys
from _socket import SCM_RIGHTS, SOL_SOCKET, socket

from adderclaw.sandbox.inside_mounts import libc, raise_on_errno


def set_limit(name: str, value: int) -> None:
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def control_process(*arguments: int) -> None:
    if libc.prctl(*(ctypes.c_ulong(argument) for argument in (*arguments, *(0,) * (5 - len(arguments))))):
        raise OSError(ctypes.get_errno(), f"prctl {arguments[0]}")


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def drop_capabilities(retained: int = 0b1011) -> None:
    """Drop all capabilities but CHOWN, DAC_OVERRIDE, FOWNER: root needs them in a workspace of another user."""
    for number in range(64):
        if not retained >> number & 1:
            libc.prctl(24, ctypes.c_ulong(number), 0, 0, 0)  # PR_CAPBSET_DROP: fails without capabilities
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) == 0:
        left = [sets[0] & retained, sets[1] & retained, 0, 0, 0, 0]
        raise_on_errno(libc.capset(header, (ctypes.c_uint32 * 6)(*left)), "capset")


def filter_calls(rules: bytes) -> None:
    """Filter the system calls of this thread and of what it starts."""
    program = Program(len(rules) // 8, rules)
    control_process(22, 2, ctypes.addressof(program))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def apply_landlock(ruleset: int) -> None:
    """Apply a ruleset to this thread and to what it starts, and close it."""
    if libc.syscall(ctypes.c_long(446), ctypes.c_int(ruleset), ctypes.c_uint(0)):  # landlock_restrict_self
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    posix.close(ruleset)


def restrict(ruleset: int, code: int, refused: int, install: int, supervisor: int) -> bytes:
    """Apply Landlock and seccomp, if bubblewrap is missing; returns what is appended to the greeting "ready"."""
    control_process(36, 1)  # PR_SET_CHILD_SUBREAPER
    drop_capabilities()
    control_process(38, 1)  # PR_SET_NO_NEW_PRIVS
    apply_landlock(ruleset)
    listener = supervised_calls(install, posix.read(code, 1 << 16))
    if listener < 0:
        filter_calls(posix.read(refused, 1 << 16))
    else:
        channel = socket(fileno=supervisor)
        channel.sendmsg([b"calls"], [(SOL_SOCKET, SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))])
        channel.detach()
    for fd in (code, refused, supervisor, listener):
        posix.close(fd) if fd >= 0 else None
    return b"" if listener >= 0 else b" refusing"


def supervised_calls(install: int, rules: bytes) -> int:
    """Filter calls and pass some to a supervisor; returns the descriptor for those, or -1 without kernel support."""
    program = Program(len(rules) // 8, rules)
    for flags in (8 | 32, 8):  # SECCOMP_FILTER_FLAG_NEW_LISTENER, WAIT_KILLABLE_RECV
        arguments = (ctypes.c_uint(1), ctypes.c_uint(flags), ctypes.byref(program))  # SECCOMP_SET_MODE_FILTER
        if (listener := libc.syscall(ctypes.c_long(install), *arguments)) >= 0:
            return listener
    return -1
