"""macOS: the same room as a Seatbelt profile, for `sandbox-exec`."""

from collections.abc import Iterable, Sequence

from adderclaw.sandbox.bubblewrap import Room

PROGRAM = "/usr/bin/sandbox-exec"
READ = "file-read*"
WRITE = "file-write*"
DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper")
OF_THE_SYSTEM = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/ssl/private")
"""What root could read, and no command needs."""


def profile(room: Room, *, homes: Sequence[str], toolchains: Sequence[str], kept: Sequence[str], tmp: str) -> str:
    """What may be done, then what may not: of several rules that match, Seatbelt takes the last."""
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
        "(allow pseudo-tty)",
        f"(allow {READ})",
        f"(allow {WRITE} {_literals(DEVICES)})",
        _deny(READ, homes),
        _deny(READ, OF_THE_SYSTEM),
        _allow(READ, toolchains),
        _allow(READ, room.roots),
        _allow(f"{READ} {WRITE}", [tmp]),
        "" if room.read_only else _allow(WRITE, room.roots),
        _deny(WRITE, kept),
        _deny(f"{READ} {WRITE}", room.hidden),
        "(allow network*)" if room.network else '(allow network* (local ip "localhost:*") (remote ip "localhost:*"))',
    ]
    return "\n".join(line for line in lines if line) + "\n"


def wrap(argv: Sequence[str], text: str) -> list[str]:
    return [PROGRAM, "-p", text, "--", *argv]


def _allow(what: str, paths: Sequence[str]) -> str:
    return f"(allow {what} {_subpaths(paths)})" if paths else ""


def _deny(what: str, paths: Sequence[str]) -> str:
    return f"(deny {what} {_subpaths(paths)})" if paths else ""


def _subpaths(paths: Iterable[str]) -> str:
    return " ".join(f"(subpath {quoted(path)})" for path in paths)


def _literals(paths: Iterable[str]) -> str:
    return " ".join(f"(literal {quoted(path)})" for path in paths)


def quoted(path: str) -> str:
    """A string of the profile's language, which has two special characters; a line end is refused."""
    if any(ord(char) < 32 for char in path):
        raise ValueError(f"{path!r} cannot be named in a sandbox profile")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
