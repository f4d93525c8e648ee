"""Seatbelt on macOS: the description of a room as a profile for `sandbox-exec`. It was not run on a Mac yet."""

import os
from collections.abc import Iterable, Sequence

from adderclaw.errors import AdderClawError
from adderclaw.sandbox.bubblewrap import Room
from adderclaw.sandbox.protected_paths import NO_MOUNTS, Mounts

PROGRAM = "/usr/bin/sandbox-exec"
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library/Apple",
    "/Library/Developer",
    "/Applications/Xcode.app",
    "/opt/homebrew",
    "/private/etc/ssl",
    "/private/etc/resolv.conf",
    "/private/var/db/timezone",
    "/private/var/select",
)
"""What every command may read: the system's programs, and what they need."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dtracehelper")


def profile(room: Room, *, tmp: str = "", mounts: Mounts = NO_MOUNTS, offline: bool = False) -> str:
    """The rules, the last that fits counting: nothing but what is listed, then what stays closed in that."""
    shown = (*SYSTEM, *room.shown, *((room.cache,) if room.cache else ()))
    writable = [] if room.read_only else [*room.roots, *([room.cache] if room.cache else [])]
    writable += [tmp] if tmp else []
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork)",
        "(allow process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow sysctl-read)",
        _rule("allow", "file-read-metadata", "literal", _above((*shown, *room.roots, tmp))),
        _rule("allow", "file-read*", "subpath", (*shown, *room.roots)),
        _rule("allow", "file-read* file-write*", "literal", DEVICES),
        _rule("allow", "file-read* file-write*", "subpath", writable),
        _rule("deny", "file-write*", "subpath", (*mounts.kept, *room.kept, *room.traces)),
        _rule("deny", "file-write*", "literal", (*mounts.pinned, *_above(room.fixed, room.roots))),
        "(allow network*)" if room.network and not offline else "(deny network*)",
        _rule("deny", "file-read* file-write* process-exec", "subpath", room.hidden),
    ]
    return "\n".join(filter(None, lines)) + "\n"


def command(text: str, argv: Sequence[str], program: str = PROGRAM) -> tuple[str, ...]:
    """What is started in place of a command."""
    return (program, "-p", text, *argv)


def quoted(path: str) -> str:
    """A path as a string of a profile. One that cannot be written plainly is refused: it would not be confined."""
    if not os.path.isabs(path) or not path.isprintable():
        raise AdderClawError(f"{path!r} cannot stand in a Seatbelt profile: it is relative, or has control characters")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _rule(verdict: str, what: str, how: str, paths: Iterable[str]) -> str:
    found = [f"({how} {quoted(path)})" for path in dict.fromkeys(paths) if path]
    return f"({verdict} {what} {' '.join(found)})" if found else ""


def _above(paths: Iterable[str], below: Sequence[str] = ("/",)) -> list[str]:
    """The folders on the way to paths: their names must be found, and those of fixed places must not be moved."""
    found: dict[str, None] = {}
    for path in paths:
        folder = os.path.dirname(path)
        while path and folder not in found and (folder == "/" or below == ("/",) or folder not in below):
            found[folder] = None
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)
    return [folder for folder in found if below == ("/",) or folder != "/"]
