"""Caches of package managers: one folder per project, which outlives sessions and is used only in the sandbox."""

import fcntl
import hashlib
import os
from collections.abc import Iterator

from adderclaw.core import home_names
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox.clearing import clear

MOUNT_POINT = "/var/cache/adderclaw"
"""Its path in a bubblewrap sandbox; with Landlock it has its real path."""


class Cache(NamedTuple):
    folder: str
    workspace: str
    size: int


def folder_of(home: str, workspace: str, *, servers: bool = False) -> str:
    """The cache folder of a project, or of its MCP servers, which commands cannot write to. It may not exist yet."""
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]
    return os.path.join(home, home_names.CACHES, f"{name}-servers" if servers else name)


def environment(folder: str) -> dict[str, str]:
    """Variables that point package managers to a cache folder."""
    return {
        "npm_config_cache": f"{folder}/npm",
        "YARN_CACHE_FOLDER": f"{folder}/yarn",
        "PIP_CACHE_DIR": f"{folder}/pip",
        "UV_CACHE_DIR": f"{folder}/uv",
        "UV_LINK_MODE": "copy",  # it is on another file system than the workspace
        "CARGO_HOME": f"{folder}/cargo",
        "GOCACHE": f"{folder}/go-build",
        "GOMODCACHE": f"{folder}/go-mod",
        "GOFLAGS": "-modcacherw",
    }


def lock_cache(folder: str, workspace: str) -> int:
    """Create the folder and lock it while the descriptor is open, so that it is not removed meanwhile."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    fd = os.open(f"{folder}.txt", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    fcntl.flock(fd, fcntl.LOCK_SH)
    if not os.fstat(fd).st_size:
        os.write(fd, os.fsencode(workspace))
    return fd


def project_caches(home: str) -> Iterator[Cache]:
    """The caches of all projects."""
    top = os.path.join(home, home_names.CACHES)
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        folder = os.path.join(top, name)
        if os.path.isdir(folder):
            yield Cache(folder, _workspace(folder), _size(folder))


def remove_cache(folder: str) -> bool:
    """Remove a cache unless a session uses it; returns whether it was removed."""
    fd = os.open(f"{folder}.txt", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        clear(folder)
        os.unlink(f"{folder}.txt")
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _workspace(folder: str) -> str:
    try:
        with open(f"{folder}.txt", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return "?"


def _size(folder: str) -> int:
    files = (os.path.join(top, name) for top, _, names in os.walk(folder) for name in names)
    return sum(os.lstat(path).st_size for path in files if os.path.lexists(path))
