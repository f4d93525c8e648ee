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
"""Hidden if the workspace is a home directory, which cannot be hidden as a whole then."""
EMPTY_FOLDER_BYTES = 16 << 20
"""Size of a file system that only has to be empty."""
KEPT_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN")
"""Let root work in a workspace that belongs to another user."""
HOLDER_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETPCAP")
"""The holder needs these to add mounts while commands run; it drops them for the commands that it starts."""


@record
class SandboxSpec:
    """What a session's commands can see and change."""

    roots: tuple[str, ...] = ()
    """The workspace and its additional directories, links followed."""
    unsearched: tuple[str, ...] = ()
    """Further folders that no program is taken from: a trial has no workspace, and must start nothing from one."""
    hidden: tuple[str, ...] = ()
    """AdderClaw's own files and directories, wherever they are."""
    own: str = ""
    """AdderClaw's home: if the workspace contains it, changes in it are AdderClaw's own."""
    read_only: bool = False
    network: bool = False
    """Whether they share the network of the machine."""
    shown: tuple[str, ...] = ()
    """Further paths that commands may read: configured programs and `sandbox.read_paths`."""
    cache: str = ""
    """The folder for the caches of package managers; empty: none."""
    cache_at: str = ""
    """Its path in the sandbox, if not the usual one."""
    named: tuple[str, ...] = ()
    """The roots and the readable paths as they were named: links on the way there exist in the sandbox, too."""
    kept: tuple[str, ...] = ()
    """Read-only files of the workspace besides the protected names: those that trusted settings run."""
    traces: tuple[str, ...] = ()
    """Folders of the workspace with the traces of runs: read-only; AdderClaw's own writes there are not reported."""
    fixed: tuple[str, ...] = ()
    """Hidden paths of the workspace that a rule names by their location: the folders above them cannot be renamed."""
    stand_in: str = ""
    """A folder that is shown in place of the first root, at its path: a temporary copy."""
    lent: tuple[str, ...] = ()
    """Paths of the first root that the stand-in shows read-only, because they are too large to copy."""
    bwrap: str = ""
    """The bubblewrap to start; empty: the one of the last successful trial."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables about the operator's network, unless a command sets them."""
    masked: tuple[tuple[int, int], ...] = ()
    """Device and inode of each hidden file of the workspace: a mask is lost when its file is replaced."""


def options(spec: SandboxSpec, files: Mapping[str, int]) -> list[str]:
    """All options but the command; later mounts cover earlier ones. `files`: open settings, by name in /etc."""
    return [
        *_namespaces(spec),
        *_system(spec, files),
        *_workspace(spec),
        *_mask_hidden(spec),
        "--remount-ro",
        "/",
        "--chdir",
        "/",
    ]


def _namespaces(spec: SandboxSpec) -> list[str]:
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1"]
    words += [] if spec.network else ["--unshare-net"]
    words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += [word for name in HOLDER_CAPABILITIES for word in ("--cap-add", name)]
    if os.geteuid() != 0:
        return [*words, "--unshare-user", "--disable-userns"]
    # In a user namespace root would be the only user, and could not write to a workspace of another user.
    return words + [word for name in KEPT_CAPABILITIES for word in ("--cap-add", name)]


def _system(spec: SandboxSpec, files: Mapping[str, int]) -> list[str]:
    """A root file system with programs, what they need, and empty folders of the session, and nothing else."""
    words = ["--dev", "/dev", *_empty("/dev/shm"), "--remount-ro", "/dev"]
    # Kernel settings check the user, not capabilities: root without capabilities could still write to /proc/sys.
    words += ["--proc", "/proc", "--remount-ro", "/proc"]
    words += ["--perms", "1777", *_empty("/tmp"), *_empty("/run", EMPTY_FOLDER_BYTES)]
    # not a link to /tmp: a workspace may be beneath /var/tmp and must have the same path in the sandbox
    words += ["--perms", "1777", *_empty("/var/tmp"), "--symlink", "../run", "/var/run"]
    words += [word for user in _home() for word in _empty(user)]
    words += _settings(files)
    readable = seen.readable_outside_etc(spec.roots, spec.shown)
    for path in seen.SYSTEM:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
    for path in readable:
        words += ["--ro-bind", path, path]
    if spec.cache and not spec.read_only:
        words += ["--bind", spec.cache, spec.cache_at or caches.MOUNT_POINT]
    return words + _links(spec, readable)


def _home() -> list[str]:
    """The user's home, which is empty in the sandbox; nothing if it is a system folder."""
    user = settled(os.path.expanduser("~"))
    return [] if user == "/" or any(beneath(folder, user) for folder in seen.SYSTEM) else [user]


def scratch_folders(spec: SandboxSpec) -> list[str]:
    """The session's folders in memory: what is written there is lost when the sandbox ends."""
    return [path for path in ("/dev/shm", "/tmp", "/run", "/var/tmp", *_home()) if path not in spec.roots]


def _settings(files: Mapping[str, int]) -> list[str]:
    """The settings in /etc that programs need. Files are copied, because one mount costs more than all copies."""
    words: list[str] = []
    for name, fd in files.items():
        words += ["--perms", "0644", "--file", str(fd), f"/etc/{name}"]
    for name in seen.etc_folders():
        words += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    return words


def _links(spec: SandboxSpec, readable: Sequence[str]) -> list[str]:
    """Links outside everything visible that the names of visible paths lead over."""
    named = (*search_path(spec.roots), *spec.named, os.path.expanduser("~"))
    links = dict(link for path in named for link in seen.links_on_path(path))
    existing = (*readable, *seen.SYSTEM)
    return [
        word
        for link, target in links.items()
        if not any(beneath(link, folder) for folder in (*existing, *spec.roots))
        for word in ("--symlink", target, link)
    ]


def _empty(path: str, size: int | None = None) -> list[str]:
    return ["--size", str(size or limits.scratch_bytes()), "--tmpfs", path]


def _workspace(spec: SandboxSpec) -> list[str]:
    """The mounts of the workspace; the holder adds the read-only mounts before the first command and later."""
    bind = "--ro-bind" if spec.read_only else "--bind"
    seen_as = {spec.roots[0]: spec.stand_in} if spec.stand_in and spec.roots else {}
    words = [word for root in spec.roots for word in (bind, seen_as.get(root, root), root)]
    return words + [word for path in spec.lent for word in ("--ro-bind", path, path)]


def _mask_hidden(spec: SandboxSpec) -> list[str]:
    """Mask what must stay hidden although its directory is visible."""
    return _masks(hidden_paths(spec))


def hidden_paths(spec: SandboxSpec) -> tuple[str, ...]:
    from adderclaw.config import home

    user = settled(os.path.expanduser("~"))
    paths = [settled(path) for path in (home(), *spec.hidden)]
    paths += [os.path.join(user, name) for name in SECRETS]
    # follow links once, not for each path
    visible = (*spec.roots, *map(followed, spec.roots), *seen.readable(spec.roots, spec.shown))
    candidates = (path for path in dict.fromkeys(paths) if _is_among((path, followed(path)), visible))
    return tuple(path for path in candidates if os.path.exists(path) and not os.path.islink(path))


def _is_among(names: Iterable[str], folders: Iterable[str]) -> bool:
    return any(beneath(name, folder) for name in names for folder in folders)


def _masks(paths: Iterable[str]) -> list[str]:
    words: list[str] = []
    masked: list[str] = []
    for path in sorted(paths):
        if any(beneath(path, folder) for folder in masked):
            continue  # already hidden with its folder
        if os.path.isdir(path):
            masked.append(path)
            words += [*_empty(path, EMPTY_FOLDER_BYTES), "--remount-ro", path]
        elif os.path.exists(path):
            words += ["--ro-bind", "/dev/null", path]
    return words
