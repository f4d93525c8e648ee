"""Starts a program as on a machine whose kernel refuses a kind of sandbox: `without.py namespaces[,landlock] PROGRAM…`.

Most container engines refuse namespaces in this way, so every bubblewrap fails, wherever it is installed.
"""

import ctypes
import os
import struct
import sys

ALLOW, DENY, NOT_THERE = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
LANDLOCK, CLONE3 = 444, 435
"""Their numbers are the same on every processor of today."""
CLONE, UNSHARE = {"x86_64": (56, 272), "aarch64": (220, 97)}.get(os.uname().machine, (0, 0))
NAMESPACES = 0x7E020000
"""The flags of all kinds of namespaces."""


def without(*kinds: str) -> tuple[str, ...]:
    """The words in front of a program that is to start so."""
    return (sys.executable, __file__, ",".join(kinds))


def rules(kinds: list[str]) -> bytes:
    """A seccomp filter: these system calls fail as they do where the kernel was built or told so."""
    steps = [(0x20, 0, 0, 0)]  # load the number of the call
    if "landlock" in kinds:
        steps += [(0x15, 0, 1, LANDLOCK), (0x06, 0, 0, NOT_THERE)]
    if "namespaces" in kinds:
        steps += [(0x15, 0, 1, CLONE3), (0x06, 0, 0, NOT_THERE)]  # its flags cannot be read: libc then takes clone
        steps += [(0x15, 1, 0, CLONE), (0x15, 0, 3, UNSHARE), (0x20, 0, 0, 16), (0x45, 0, 1, NAMESPACES)]
        steps += [(0x06, 0, 0, DENY)]
    steps += [(0x06, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def main(kinds: str, argv: list[str]) -> None:
    code = rules(kinds.split(","))
    program = Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 and libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS: root needs none, and keeps its setuid
        raise SystemExit("no_new_privs cannot be set")
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        raise SystemExit(f"no filter: {os.strerror(ctypes.get_errno())}")
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
