"""Bubblewrap: the mounts and namespaces of a session's sandbox, as the options of `bwrap`."""

import os
import sys
from collections.abc import Iterable, Sequence

from adderclaw.config.paths import beneath, followed, settled
from adderclaw.record import record
from adderclaw.sandbox import limits, protected
from adderclaw.sandbox.programs import inside, search_path

SECRETS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config",
    ".local/share/keyrings",
    ".password-store",
)
"""Hidden where the workspace is a home directory, which then cannot be hidden whole."""
OF_THE_SYSTEM = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/ssl/private")
"""What root could read, and no command needs."""
SMALL = 16 << 20
"""Bytes in what is only there to be empty."""
KEPT_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN")
"""What lets root work in a workspace that belongs to somebody else."""
OF_THE_HOLDER = ("CAP_SYS_ADMIN", "CAP_SETPCAP")
"""With these the program inside adds mounts while commands run, and takes them from whatever it starts."""


@record
class Room:
    """What a session's commands see and may change."""

    roots: tuple[str, ...] = ()
    """The workspace and the further directories, links followed."""
    hidden: tuple[str, ...] = ()
    """Files and directories of ours, wherever they lie."""
    read_only: bool = False
    network: bool = False
    """Whether they share the network of the machine."""
    shown: tuple[str, ...] = ()
    """What they may read though it lies where nothing else is seen: programs that the operator configured."""
    kept: tuple[str, ...] = ()
    """Files in the workspace that must stay as they are, beside the protected names: what trusted settings start."""
    later: tuple[str, ...] = ()
    """Names in the workspace that decide what other programs run later: no command but git changes them."""
    watched: tuple[str, ...] = ()
    """Others of which it is said when they were changed while a command ran."""
    fixed: tuple[str, ...] = ()
    """Hidden places of the workspace that a rule knows by where they are: the folders above them are not renamed."""


def options(room: Room, places: protected.Places) -> list[str]:
    """All but the command. Order matters: what comes later lies on top."""
    return [
        *_namespaces(room),
        *_system(room),
        *_workspace(room, places),
        *_hidden(room),
        "--chdir",
        "/",
    ]


def _namespaces(room: Room) -> list[str]:
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1"]
    words += [] if room.network else ["--unshare-net"]
    words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += [word for name in OF_THE_HOLDER for word in ("--cap-add", name)]
    if os.geteuid() != 0:
        return [*words, "--unshare-user", "--disable-userns"]
    # In a user namespace root would be the only user there is, and could not write a workspace that another owns.
    return words + [word for name in KEPT_CAPABILITIES for word in ("--cap-add", name)]


def _system(room: Room) -> list[str]:
    """Everything readable, but no home, no sockets of the system's services, and an empty /tmp."""
    words = ["--ro-bind", "/", "/", "--dev", "/dev", *_empty("/dev/shm"), "--remount-ro", "/dev"]
    # Settings of the kernel ask for the user, not for capabilities: root without any could still write /proc/sys.
    words += ["--proc", "/proc", "--remount-ro", "/proc"]
    words += ["--perms", "1777", *_empty("/tmp"), *_empty("/run", SMALL)]
    words += _masks(OF_THE_SYSTEM)
    user = settled(os.path.expanduser("~"))
    for path in homes():
        words += _empty(path, None if path == user else SMALL)
    for path in (*toolchains(room.roots), *room.shown):
        if inside(path, (*homes(), "/tmp", "/run")):
            words += ["--ro-bind-try", path, path]
    resolver = followed("/etc/resolv.conf")
    if room.network and inside(resolver, ("/run",)):
        words += ["--ro-bind-try", resolver, resolver]
    return words


def _empty(path: str, size: int | None = None) -> list[str]:
    return ["--size", str(size or limits.space()), "--tmpfs", path]


def homes() -> tuple[str, ...]:
    """Every user's, and our own."""
    from adderclaw.config import home

    candidates = (os.path.expanduser("~"), home(), "/root", "/home")
    real = dict.fromkeys(map(settled, candidates))
    return tuple(path for path in real if path != "/" and os.path.isdir(path))


def toolchains(roots: Sequence[str]) -> tuple[str, ...]:
    """Programs that a user has installed at home stay usable: the directories of PATH, and the Python that runs us."""
    paths = [os.path.dirname(entry) if entry.endswith("/shims") else entry for entry in search_path(roots)]
    found = dict.fromkeys(followed(path) for path in (*paths, sys.prefix, sys.base_prefix))
    return tuple(path for path in found if path not in ("/", *homes()))


def _workspace(room: Room, places: protected.Places) -> list[str]:
    words: list[str] = []
    for root in room.roots:
        words += ["--ro-bind" if room.read_only else "--bind", root, root]
    if room.read_only:
        return words
    # A mount point cannot be renamed: without this, `mv .git x` would make room for another `.git/hooks`.
    for path in places.pinned:
        words += ["--bind", path, path]
    for path in places.kept:
        words += ["--ro-bind", path, path]
    return words


def _hidden(room: Room) -> list[str]:
    """What must stay hidden though it lies in a directory that was just made visible."""
    return _masks(hidden(room))


def hidden(room: Room) -> tuple[str, ...]:
    from adderclaw.config import home

    user = settled(os.path.expanduser("~"))
    paths = [settled(path) for path in (home(), *room.hidden)]
    paths += [os.path.join(user, name) for name in SECRETS]
    empty = (*homes(), "/tmp", "/run")
    seen = (*room.roots, *room.shown)
    found = (path for path in dict.fromkeys(paths) if inside(path, seen) or not inside(path, empty))
    return tuple(path for path in found if os.path.exists(path) and not os.path.islink(path))


def _masks(paths: Iterable[str]) -> list[str]:
    words: list[str] = []
    masked: list[str] = []
    for path in sorted(paths):
        if any(beneath(path, folder) for folder in masked):
            continue  # nothing is there any more
        if os.path.isdir(path):
            masked.append(path)
            words += [*_empty(path, SMALL), "--remount-ro", path]
        elif os.path.exists(path):
            words += ["--ro-bind", "/dev/null", path]
    return words
