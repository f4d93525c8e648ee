"""Starts a program as on a system where no sandbox starts: a filter hides Landlock, and PATH has no bwrap."""

import ctypes
import os
import struct
import sys

NOT_THERE = ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000))
"""Of landlock_create_ruleset, by its number: the same on every processor of today."""


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def main(argv: list[str]) -> None:
    code = b"".join(struct.pack("=HBBI", *step) for step in NOT_THERE)
    program = Program(len(NOT_THERE), code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        raise SystemExit(f"no filter: {os.strerror(ctypes.get_errno())}")
    folders = [part for part in os.environ["PATH"].split(os.pathsep) if not os.path.exists(os.path.join(part, "bwrap"))]
    wanted = {name: f"/usr/bin/{name}" for name in ("git", "rg", "touch", "cat", "sh", "grep", "true")}
    kept = os.path.join(os.environ["HOME"], "programs")  # where bwrap lies beside what a command needs
    os.makedirs(kept, exist_ok=True)
    for name, path in wanted.items():
        if os.path.exists(path) and not os.path.lexists(os.path.join(kept, name)):
            os.symlink(path, os.path.join(kept, name))
    os.environ["PATH"] = os.pathsep.join((*folders, kept))
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
