"""Bubblewrap: the mounts and namespaces of a session's sandbox, as the options of `bwrap`."""

import os
from collections.abc import Iterable, Mapping, Sequence

from adderclaw.config.paths import beneath, followed, settled
from adderclaw.core.record import record
from adderclaw.sandbox import caches, limits, seen
from adderclaw.sandbox.programs import search_path

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
EMPTY_FOLDER_BYTES = 16 << 20
"""Bytes in what is only there to be empty."""
KEPT_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN")
"""What lets root work in a workspace that belongs to somebody else."""
HOLDER_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETPCAP")
"""With these the program inside adds mounts while commands run, and takes them from whatever it starts."""


@record
class SandboxSpec:
    """What a session's commands see and may change."""

    roots: tuple[str, ...] = ()
    """The workspace and the further directories, links followed."""
    unsearched: tuple[str, ...] = ()
    """Where no program is looked for, beside the roots: a trial shows no workspace, and starts nothing of one."""
    hidden: tuple[str, ...] = ()
    """Files and directories of ours, wherever they lie."""
    own: str = ""
    """Our own folder: where the workspace holds it, what changes in it is our own work."""
    read_only: bool = False
    network: bool = False
    """Whether they share the network of the machine."""
    shown: tuple[str, ...] = ()
    """What else they may read: programs that the operator configured, and `sandbox.read_paths`."""
    cache: str = ""
    """The folder of ours in which package managers keep their caches; empty: nowhere."""
    cache_at: str = ""
    """Where it lies inside, if not at the usual place."""
    named: tuple[str, ...] = ()
    """The roots and what is shown as they were named: links on the way there are links inside, too."""
    kept: tuple[str, ...] = ()
    """Files in the workspace that must stay as they are, beside the protected names: what trusted settings start."""
    traces: tuple[str, ...] = ()
    """Folders of the workspace with the traces of runs: read-only, and nobody looks at what we write there."""
    fixed: tuple[str, ...] = ()
    """Hidden places of the workspace that a rule knows by where they are: the folders above them are not renamed."""
    stand_in: str = ""
    """A folder that is seen in place of the first root, at its path: a copy that nobody keeps."""
    lent: tuple[str, ...] = ()
    """Places of the first root itself that lie in the stand-in, read-only: what is too large to be copied."""
    bwrap: str = ""
    """The bubblewrap to start; empty: the one that the last trial could start."""
    variables: tuple[tuple[str, str], ...] = ()
    """What programs are told of the operator's network, unless a command says otherwise."""
    masked: tuple[tuple[int, int], ...] = ()
    """What lay at hidden places of the workspace: a mask goes with the file that it lies on, when that is replaced."""


def options(room: SandboxSpec, files: Mapping[str, int]) -> list[str]:
    """All but the command. Order matters: what comes later lies on top. `files`: open settings, by name in /etc."""
    return [
        *_namespaces(room),
        *_system(room, files),
        *_workspace(room),
        *_mask_hidden(room),
        "--remount-ro",
        "/",
        "--chdir",
        "/",
    ]


def _namespaces(room: SandboxSpec) -> list[str]:
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1"]
    words += [] if room.network else ["--unshare-net"]
    words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += [word for name in HOLDER_CAPABILITIES for word in ("--cap-add", name)]
    if os.geteuid() != 0:
        return [*words, "--unshare-user", "--disable-userns"]
    # In a user namespace root would be the only user there is, and could not write a workspace that another owns.
    return words + [word for name in KEPT_CAPABILITIES for word in ("--cap-add", name)]


def _system(room: SandboxSpec, files: Mapping[str, int]) -> list[str]:
    """A root with nothing in it but what is listed: programs, what they need, and empty folders of the session's."""
    words = ["--dev", "/dev", *_empty("/dev/shm"), "--remount-ro", "/dev"]
    # Settings of the kernel ask for the user, not for capabilities: root without any could still write /proc/sys.
    words += ["--proc", "/proc", "--remount-ro", "/proc"]
    words += ["--perms", "1777", *_empty("/tmp"), *_empty("/run", EMPTY_FOLDER_BYTES)]
    # no link to /tmp: a workspace may lie beneath /var/tmp, and must be called so inside, too
    words += ["--perms", "1777", *_empty("/var/tmp"), "--symlink", "../run", "/var/run"]
    words += [word for user in _home() for word in _empty(user)]
    words += _settings(files)
    readable = seen.readable_without_settings(room.roots, room.shown)
    for path in seen.SYSTEM:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
    for path in readable:
        words += ["--ro-bind", path, path]
    if room.cache and not room.read_only:
        words += ["--bind", room.cache, room.cache_at or caches.MOUNT_POINT]
    return words + _links(room, readable)


def _home() -> list[str]:
    """The user's home, which is empty inside; nothing where it is a place of the system."""
    user = settled(os.path.expanduser("~"))
    return [] if user == "/" or any(beneath(folder, user) for folder in seen.SYSTEM) else [user]


def scratch_folders(room: SandboxSpec) -> list[str]:
    """Folders of the session's own, in memory: what is written there ends with the sandbox."""
    return [path for path in ("/dev/shm", "/tmp", "/run", "/var/tmp", *_home()) if path not in room.roots]


def _settings(files: Mapping[str, int]) -> list[str]:
    """What programs need of /etc. Files are copied, since each mount costs more than all of them."""
    words: list[str] = []
    for name, fd in files.items():
        words += ["--perms", "0644", "--file", str(fd), f"/etc/{name}"]
    for name in seen.etc_folders():
        words += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    return words


def _links(room: SandboxSpec, readable: Sequence[str]) -> list[str]:
    """Links outside of all that is shown which the names of shown places lead over."""
    named = (*search_path(room.roots), *room.named, os.path.expanduser("~"))
    links = dict(link for path in named for link in seen.links_on_path(path))
    existing = (*readable, *seen.SYSTEM)
    return [
        word
        for link, target in links.items()
        if not any(beneath(link, folder) for folder in (*existing, *room.roots))
        for word in ("--symlink", target, link)
    ]


def _empty(path: str, size: int | None = None) -> list[str]:
    return ["--size", str(size or limits.scratch_bytes()), "--tmpfs", path]


def _workspace(room: SandboxSpec) -> list[str]:
    """What in it is read-only is mounted by the program inside, before the first command and whenever it grows."""
    bind = "--ro-bind" if room.read_only else "--bind"
    seen_as = {room.roots[0]: room.stand_in} if room.stand_in and room.roots else {}
    words = [word for root in room.roots for word in (bind, seen_as.get(root, root), root)]
    return words + [word for path in room.lent for word in ("--ro-bind", path, path)]


def _mask_hidden(room: SandboxSpec) -> list[str]:
    """What must stay hidden though it lies in a directory that was just made visible."""
    return _masks(hidden_paths(room))


def hidden_paths(room: SandboxSpec) -> tuple[str, ...]:
    from adderclaw.config import home

    user = settled(os.path.expanduser("~"))
    paths = [settled(path) for path in (home(), *room.hidden)]
    paths += [os.path.join(user, name) for name in SECRETS]
    # links followed once, not for each of the paths
    visible = (*room.roots, *map(followed, room.roots), *seen.readable(room.roots, room.shown))
    candidates = (path for path in dict.fromkeys(paths) if _is_among((path, followed(path)), visible))
    return tuple(path for path in candidates if os.path.exists(path) and not os.path.islink(path))


def _is_among(names: Iterable[str], folders: Iterable[str]) -> bool:
    return any(beneath(name, folder) for name in names for folder in folders)


def _masks(paths: Iterable[str]) -> list[str]:
    words: list[str] = []
    masked: list[str] = []
    for path in sorted(paths):
        if any(beneath(path, folder) for folder in masked):
            continue  # nothing is there any more
        if os.path.isdir(path):
            masked.append(path)
            words += [*_empty(path, EMPTY_FOLDER_BYTES), "--remount-ro", path]
        elif os.path.exists(path):
            words += ["--ro-bind", "/dev/null", path]
    return words
