"""What lies in a workspace and yet no command may change: what runs code later, outside, or changes our own settings.

The kernel keeps what is there. It cannot keep what is not: a mount needs something to lie on, and an empty `.git` or
`.mcp.json` that we put there would itself change what other programs do. So what a command puts where nothing was is
taken away when it ends, before its result is told, and kept under our own home. Where no mount can be had, or a
place has come to be since the sandbox was started, what it held is remembered, and put back in the same way.
"""

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from adderclaw.config.paths import beneath, settled

IN_GIT = ("hooks", "config", "config.worktree", "commondir")
"""Of a repository: `commondir` would let another folder's hooks and settings count."""
NAMES = (
    ".adderclaw",
    ".claude",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".devcontainer.json",
    ".mcp.json",
    ".envrc",
)
PLAIN_CONFIG = (
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)"
    r"|user\.(name|email)|remote\..+\.(url|fetch)|branch\..+\.(remote|merge)|init\.defaultbranch"
)
"""Settings of a new repository that run nothing."""


class Places(NamedTuple):
    """The protected places of a workspace as they are now."""

    kept: tuple[str, ...]
    """There: the kernel keeps them as they are."""
    pinned: tuple[str, ...]
    """Directories that may be changed inside, but not moved away to make room for others."""
    missing: tuple[str, ...]
    """Not there, or a link: looked at when a command ends."""
    linked: frozenset[str]
    """Those of the missing that are links."""


def places(roots: Sequence[str], further: Sequence[str] = (), fixed: Sequence[str] = ()) -> Places:
    """`further` are files and folders that are to stay as they are, too; `fixed` what is to stay where it is."""
    kept: list[str] = []
    pinned: list[str] = []
    missing: list[str] = []
    linked: list[str] = []
    for root in roots:
        top = root.rstrip("/")
        git = f"{top}/.git"
        mode = _mode(git)
        if repository := stat.S_ISDIR(mode):
            pinned.append(git)
        elif stat.S_ISREG(mode):
            kept.append(git)  # a work tree's: it says where the repository is
            kept += (path for path in _repository(pointed(git), roots) if os.path.lexists(path))
        else:
            missing.append(git)
            linked += [git] if mode else []
        inside = (*(f"{git}/{name}" for name in IN_GIT), *_modules(git)) if mode else ()
        for path in (*(f"{top}/{name}" for name in NAMES), *inside):
            mode = _mode(path)
            if mode and not stat.S_ISLNK(mode):
                kept.append(path)
            elif repository or path not in inside:
                missing.append(path)
                linked += [path] if mode else []
    for path in map(settled, further):
        root = next((root for root in roots if path.startswith(root.rstrip("/") + "/")), None)
        if root is None:
            continue
        (kept if os.path.lexists(path) else missing).append(path)
        pinned += _between(root, os.path.dirname(path))
    for path in fixed:
        pinned += (folder for root in roots if beneath(path, root) for folder in _between(root, os.path.dirname(path)))
    return Places(
        tuple(dict.fromkeys(kept)), tuple(dict.fromkeys(pinned)), tuple(dict.fromkeys(missing)), frozenset(linked)
    )


def _mode(path: str) -> int:
    """What a path itself is, links not followed; 0 for nothing."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _between(root: str, folder: str) -> Iterator[str]:
    """The folders on the way, the outermost first."""
    parts = os.path.relpath(folder, root).split("/") if folder != root else []
    for count in range(1, len(parts) + 1):
        path = os.path.join(root, *parts[:count])
        if _is_folder(path):
            yield path


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _modules(git: str) -> Iterator[str]:
    """Hooks and settings of the submodules that are there."""
    try:
        names = os.listdir(os.path.join(git, "modules"))
    except OSError:
        return
    for name in names:
        for part in ("hooks", "config"):
            path = os.path.join(git, "modules", name, part)
            if os.path.lexists(path):
                yield path


def pointed(file: str) -> str:
    """Where a `.git` file leads."""
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as stream:
            found = re.match(r"gitdir: ([^\0\n]+)", stream.read(4096))
    except OSError:
        return ""
    return settled(os.path.join(os.path.dirname(file), found[1])) if found else ""


def _repository(folder: str, roots: Sequence[str]) -> Iterator[str]:
    """What is to be kept of a repository that lies in the workspace under another name; outside, nothing is written."""
    if not folder or not any(folder.startswith(root.rstrip("/") + "/") for root in roots):
        return
    common = os.path.join(folder, "commondir")
    tops = [folder]
    try:
        with open(common, encoding="utf-8", errors="surrogateescape") as stream:
            tops.append(settled(os.path.join(folder, stream.read(4096).strip())))
    except OSError:
        pass
    yield from (os.path.join(top, name) for top in tops for name in IN_GIT)


# ------------------------------------------------------------------ what is only watched

MOST_WATCHED = 300
"""Entries of a folder, and folders of a workspace, that are looked at: it is done for each command."""
MOST_LOOKED = 2_000
"""Names that are looked at in all of it together; those that lie highest come first."""
DEEPEST = 16


class Look(NamedTuple):
    """What a place looked like."""

    held: dict[str, tuple[int, ...]]
    """It and each path within → what says whether it is still the same."""
    is_whole: bool
    """False where there is more in it than is looked at."""


type Looks = dict[str, Look | None]
"""Path → what it looked like; None for nothing."""


def looks(roots: Sequence[str], names: Sequence[str], now: Places, *, repositories: bool = True) -> Looks:
    """What runs later and no mount keeps: such names in the workspace, and repositories right beneath it."""
    if not names:
        return {}
    held = {*now.kept, *now.missing, *now.pinned}
    absent: Looks = {}
    found: list[str] = []
    for root in roots:
        top = root.rstrip("/")
        every, by_first = _named(top, tuple(names))
        there, folders = _listed(top)
        absent |= every
        for first, paths in by_first.items():
            if there is None or first in there:
                found += paths
        gits = (git for folder in folders if repositories and _is_folder(git := f"{folder}/.git"))
        found += (f"{git}/{part}" for git in gits for part in IN_GIT)
    seen = absent | _looked([path for path in dict.fromkeys(found) if path not in held])
    return {path: look for path, look in seen.items() if path not in held} if held & seen.keys() else seen


@lru_cache(maxsize=16)
def _named(top: str, names: tuple[str, ...]) -> tuple[Looks, dict[str, list[str]]]:
    """The path of each name as if nothing were there, and all of them by which name in the workspace they begin."""
    by_first: dict[str, list[str]] = {}
    for name in names:
        by_first.setdefault(name.split("/", 1)[0].casefold(), []).append(f"{top}/{name}")
    return dict.fromkeys(f"{top}/{name}" for name in names), by_first


def _listed(top: str) -> tuple[set[str] | None, list[str]]:
    """The names in a folder, in whatever letters, unless there are more than are listed; and the folders in it.

    One listing says of nearly all watched names that they are not there, without a look at each.
    """
    there: set[str] = set()
    folders: list[str] = []
    try:
        with os.scandir(top) as entries:
            for entry in islice(entries, MOST_WATCHED):
                there.add(entry.name.casefold())
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
            is_all = next(entries, None) is None
    except OSError:
        return None, folders
    return there if is_all else None, folders


def _looked(tops: Sequence[str]) -> Looks:
    """Level by level, so that no one place, however deep or full, keeps the others from being looked at."""
    held: dict[str, dict[str, tuple[int, ...]]] = {top: {} for top in tops}
    cut: set[str] = set()
    level, room = [(top, top) for top in tops], MOST_LOOKED
    for depth in range(DEEPEST + 1):
        deeper: list[tuple[str, str]] = []
        for top, path in level:
            try:
                status = os.lstat(path)
                if not stat.S_ISDIR(status.st_mode):
                    held[top][path] = (status.st_ino, status.st_size, status.st_mtime_ns)
                    continue
                inner, more = _entries(path, min(room, MOST_WATCHED) if depth < DEEPEST else 0)
            except OSError:
                continue
            held[top][path] = (status.st_mtime_ns,) if more else ()  # says of the rest whether names came or went
            cut |= {top} if more else set()
            deeper += ((top, one) for one in inner)
            room -= len(inner)
        level = deeper
    return {top: Look(found, top not in cut) if found else None for top, found in held.items()}


def _entries(folder: str, most: int) -> tuple[list[str], bool]:
    """So many of the paths in a folder, and whether there are more."""
    with os.scandir(folder) as entries:
        found = [entry.path for entry in islice(entries, most + 1)]
    return [path for path in found[:most] if not path.endswith(".sample")], len(found) > most


def changed(before: Looks, after: Looks) -> list[str]:
    """A repository that has come with a command is that command's own; one that has gone can run nothing."""
    return [path for path, look in after.items() if path in before and look is not None and before[path] != look]


def partly(found: Looks) -> list[str]:
    """The places that hold more than is looked at."""
    return [path for path, look in found.items() if look is not None and not look.is_whole]


# ------------------------------------------------------------------ what has appeared


def links(now: Places) -> dict[str, str | None]:
    """What is where nothing may come to be: nothing, or a link."""
    return {path: led(path) if path in now.linked else None for path in now.missing}


def led(link: str) -> str | None:
    try:
        return os.readlink(link)
    except OSError:  # gone meanwhile, or something else by now
        return None


def take_away(before: dict[str, str | None], store: str) -> list[str]:
    """Put away what has appeared since; the paths that it was taken from."""
    taken: list[str] = []
    for path, link in before.items():
        if link is not None:
            if led(path) != link:
                taken += put_away(path, store)
                os.symlink(link, path)
        elif os.path.basename(path) == ".git":
            taken += new_repository(path, store)
        elif os.path.lexists(path):
            taken += put_away(path, store)
    return taken


MOST_KEPT = 4 << 20
MOST_FILES = 2_000
"""Of one protected place that only memory keeps: more than this cannot be put back."""

type Content = dict[str, tuple[int, bytes]]
"""Path within a place → its mode, and its bytes or where it leads."""


def remembered(paths: Sequence[str]) -> dict[str, Content]:
    """What protected places hold that no mount keeps, so that it can be put back. Raises OSError for too much."""
    return {path: _content(path) for path in paths}


def _content(top: str) -> Content:
    found: Content = {}
    waiting, size = [top], 0
    while waiting:
        path = waiting.pop()
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode):
            waiting += (entry.path for entry in os.scandir(path))
            data = b""
        elif stat.S_ISLNK(status.st_mode):
            data = os.fsencode(os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            data = _bytes(path, MOST_KEPT - size)
        else:
            data = b""
        size += len(data)
        found[os.path.relpath(path, top)] = (status.st_mode, data)
        if len(found) > MOST_FILES or size > MOST_KEPT:
            raise OSError(f"{top} is protected, and too large to be kept without bubblewrap: install bubblewrap")
    return found


def _bytes(path: str, room: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return file.read(room + 1)


def put_back(before: dict[str, Content], store: str) -> list[str]:
    """Restore each place that is no longer what it was; what it had become is put away. The places."""
    changed: list[str] = []
    for top, content in before.items():
        try:
            now = _content(top)
        except OSError:
            now = None
        if now == content:
            continue
        put_away(top, store)
        for name, (mode, data) in sorted(content.items()):
            _make(os.path.normpath(os.path.join(top, name)), mode, data)
        changed.append(top)
    return changed


def _make(path: str, mode: int, data: bytes) -> None:
    if stat.S_ISDIR(mode):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, stat.S_IMODE(mode))
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if stat.S_ISLNK(mode):
        os.symlink(data, path)
    elif stat.S_ISREG(mode):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, stat.S_IMODE(mode)), "wb") as file:
            file.write(data)


def new_repository(git: str, store: str) -> list[str]:
    """`git init` is harmless; hooks that would run, or settings that name programs, are not."""
    if not os.path.lexists(git):
        return []
    if not _is_folder(git):
        return put_away(git, store)
    taken: list[str] = []
    hooks, config = os.path.join(git, "hooks"), os.path.join(git, "config")
    if os.path.lexists(hooks) and not _is_folder(hooks):
        taken += put_away(hooks, store)
    elif os.path.isdir(hooks):
        for name in os.listdir(hooks):
            if not name.endswith(".sample"):
                taken += put_away(os.path.join(hooks, name), store)
    if os.path.lexists(config) and not _is_plain(config):
        taken += put_away(config, store)
    for name in ("config.worktree", "commondir"):
        taken += put_away(os.path.join(git, name), store)
    return taken


def _is_plain(config: str) -> bool:
    if os.path.islink(config) or not os.path.isfile(config):
        return False
    with open(config, encoding="utf-8", errors="replace") as stream:
        text = stream.read(65537)
    section = ""
    for line in map(str.strip, text.splitlines()):
        head = re.fullmatch(r"\[([a-zA-Z0-9.-]+)(?: \"([^\"\\]+)\")?\]", line)
        if head:
            section = head[1].lower() + (f".{head[2]}" if head[2] else "")
        elif line:
            name = line.partition("=")[0].strip().lower()
            if not re.fullmatch(PLAIN_CONFIG, f"{section}.{name}") or line.endswith("\\"):
                return False
            if name == "url" and "::" in line:
                return False
    return len(text) <= 65536


def put_away(path: str, store: str) -> list[str]:
    """Move it to our own home; to a name beside it, by which nothing knows it, where it cannot be had there whole."""
    if not os.path.lexists(path):
        return []
    name = f"{time.time_ns()}-{os.path.basename(path)}"
    target = os.path.join(store, name)
    try:
        os.makedirs(store, mode=0o700, exist_ok=True)
        os.rename(path, target)
    except OSError:
        try:  # another file system, or a folder that lets nobody in
            _copied(path, target)
        except OSError:
            os.rename(path, os.path.join(os.path.dirname(path), f"removed-{name}"))
    return [path]


def _copied(path: str, target: str) -> None:
    """Raises OSError for what is too much to be copied; nothing here recurses, however deep it is."""
    content = _content(path)
    for name, (mode, data) in sorted(content.items()):
        _make(os.path.normpath(os.path.join(target, name)), mode | stat.S_IRWXU, data)
    for name, (mode, _) in sorted(content.items(), reverse=True):
        inner = os.path.normpath(os.path.join(path, name))
        os.rmdir(inner) if stat.S_ISDIR(mode) else os.unlink(inner)
