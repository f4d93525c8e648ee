"""Runs a program as on a file system without locks: each lock fails with ENOLCK, as on NFS without lockd.

The kernel itself answers so, by a filter of system calls.

python lockless.py PROGRAM ARGUMENT...
"""

import ctypes
import errno
import os
import platform
import struct
import sys

FCNTL, FLOCK = {"x86_64": (72, 73), "aarch64": (25, 32)}.get(platform.machine(), (0, 0))
LOCKING = (6, 7, 37, 38)
"""F_SETLK, F_SETLKW and those of open files. Asking who holds a lock (F_GETLK) goes through."""
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOLCK


def steps() -> list[tuple[int, int, int, int]]:
    """A program of the kernel's filter: its number of the call, then the second argument of fcntl."""
    many = len(LOCKING)
    return [
        (LOAD, 0, 0, 0),
        (EQUAL, many + 3, 0, FLOCK),
        (EQUAL, 0, many + 1, FCNTL),
        (LOAD, 0, 0, 24),
        *((EQUAL, many - number, 0, command) for number, command in enumerate(LOCKING)),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    ]


def refuse_locks() -> None:
    code = b"".join(struct.pack("HBBI", *step) for step in steps())
    buffer = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps()), ctypes.addressof(buffer)))
    call = ctypes.CDLL(None, use_errno=True).prctl
    call.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)
    if call(NO_NEW_PRIVS, 1, None, 0, 0) or call(SECCOMP, FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls can be set")


if __name__ == "__main__":
    refuse_locks()
    os.execvp(sys.argv[1], sys.argv[1:])
