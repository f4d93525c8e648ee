"""Landlock: kernel rules for a process and its children, for systems where namespaces are not available."""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence

from adderclaw.sandbox.programs import is_inside

CREATE, ADD = 444, 445
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
MAKE_DEVICES = 1 << 6 | 1 << 11
READ = EXECUTE | READ_FILE | READ_DIR
ALL_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Landlock version → all file rights that it knows."""
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
"""The rights that a plain file can have; the others are for directories."""
TCP = 0b11
"""Bind and connect."""
PORT_RULE = 2
"""The kind of a rule."""
ABSTRACT_SOCKETS = 0b01
SCOPES = 0b11
"""Restrict abstract Unix sockets and signals to the sandbox."""
SCOPE_VERSION = 6
"""The first version of Landlock that has scopes: Linux 6.12."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def version() -> int:
    """Which Landlock this kernel has; 0 if none."""
    if sys.platform != "linux":  # the number is another call there, or ends the process
        return 0
    number = _syscall(CREATE, None, 0, 1)
    return max(number, 0)


def ruleset(readable: Sequence[str], writable: Sequence[str], *, network: bool) -> int:
    """A ruleset descriptor: read some paths, read and write others, nothing else. Raises OSError."""
    known = version()
    if known < 1:
        raise OSError(0, "this kernel has no Landlock")
    everything = ALL_FILES[max(number for number in ALL_FILES if number <= known)]
    attributes = struct.pack("=QQQ", everything, 0 if network else TCP, SCOPES)
    size = 8 if known < 4 else 16 if known < SCOPE_VERSION else 24
    rules = _syscall(CREATE, attributes[:size], size, 0)
    if rules < 0:
        raise _failure("landlock_create_ruleset")
    os.set_inheritable(rules, False)
    for path in readable:
        _allow_path(rules, path, READ)
    for path in writable:
        _allow_path(rules, path, everything & ~(IOCTL_DEVICE | MAKE_DEVICES))
    for name in DEVICES:
        _allow_path(rules, f"/dev/{name}", (READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE) & everything)
    return rules


def create_read_ruleset(readable: Iterable[str]) -> int:
    """A ruleset descriptor that restricts only reading files, to these paths. Raises OSError."""
    rules = _syscall(CREATE, struct.pack("=Q", READ_FILE), 8, 0)
    if rules < 0:
        raise _failure("landlock_create_ruleset")
    for path in readable:
        _allow_path(rules, path, READ_FILE)
    return rules


def scope() -> int | None:
    """A ruleset descriptor that only forbids abstract Unix sockets and signals to processes outside.

    None where this kernel's Landlock is too old for that. Raises OSError.
    """
    if version() < SCOPE_VERSION:
        return None
    rules = _syscall(CREATE, struct.pack("=QQQ", 0, 0, SCOPES), 24, 0)
    if rules < 0:
        raise _failure("landlock_create_ruleset")
    return rules


def ports_except(shut: int) -> int:
    """A ruleset descriptor that forbids one TCP port, and abstract Unix sockets of other processes if supported.

    Rules can only allow, so there is one for each other port, which takes a tenth of a second. Raises OSError.
    """
    attributes = struct.pack("=QQQ", 0, TCP, ABSTRACT_SOCKETS)
    size = 16 if version() < SCOPE_VERSION else 24
    rules = _syscall(CREATE, attributes[:size], size, 0)
    if rules < 0:
        raise _failure("landlock_create_ruleset")
    call, rule = ctypes.CDLL(None, use_errno=True).syscall, ctypes.create_string_buffer(16)
    for port in range(65_536):
        struct.pack_into("=QQ", rule, 0, TCP, port)
        if port != shut and call(ADD, rules, PORT_RULE, rule, 0):
            raise _failure(f"landlock_add_rule {port}")
    return rules


def _allow_path(rules: int, path: str, rights: int) -> None:
    """Allow rights for a path; one that cannot be opened needs no rule."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            rights &= FILE_RIGHTS
        if _syscall(ADD, rules, 1, struct.pack("=Qi", rights, fd), 0) < 0:
            raise _failure(f"landlock_add_rule {path}")
    finally:
        os.close(fd)


def _failure(what: str) -> OSError:
    """An error with the kernel's text, by which `confinement.is_transient` recognizes it."""
    number = ctypes.get_errno()
    return OSError(number, f"{os.strerror(number)}: {what}")


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    converted = [ctypes.c_long(part) if isinstance(part, int) else ctypes.c_char_p(part) for part in arguments]
    return int(libc.syscall(ctypes.c_long(number), *converted))


def visible(hidden: Sequence[str], shown: Sequence[str], top: str = "/") -> Iterator[str]:
    """The fewest paths that cover everything except what is hidden; what is shown is covered in any case.

    Landlock rules can only allow, so a directory with something hidden in it is listed entry by entry.
    """
    if is_inside(top, hidden):
        yield from (path for path in shown if is_inside(path, (top,)))
        return
    if not any(is_inside(path, (top,)) for path in hidden):
        yield top
        return
    try:
        entries = sorted(os.scandir(top), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.is_symlink():
            yield from visible(hidden, shown, entry.path)
