"""What must come to no harm outside a workspace: files with words of their own, and one comparison of all of them."""

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

KEY = """\
{word}
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
{word}
-----END OPENSSH PRIVATE KEY-----
"""
HOME = {
    ".bashrc": "# {word}\n",
    ".profile": "# {word}\n",
    ".ssh/id_rsa": KEY,
    ".ssh/authorized_keys": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{word} me@here\n",
    ".aws/credentials": "[default]\naws_secret_access_key = {word}\n",
    ".netrc": "machine example.org login me password {word}\n",
    ".gitconfig": "[user]\n\tname = Me\n\temail = me@example.org\n# {word}\n",
    ".config/nested/deep/file.txt": "{word}\n",
    "bin/tool": "#!/bin/sh\n# {word}\n",
}
OURS = {
    "receipt.key": "{word}",
    "hooks/of-the-operator": "#!/bin/sh\n# {word}\nexit 0\n",
    "skills/mine/SKILL.md": "---\nname: mine\ndescription: of the operator\n---\n{word}\n",
}
"""In our own folder, `~/.adderclaw`, beside config.toml."""
NEIGHBOUR = {
    "secret.txt": "{word}\n",
    ".git/config": "[core]\n\tbare = false\n# {word}\n",
    ".git/hooks/pre-commit": "#!/bin/sh\n# {word}\n",
    "src/main.py": "# {word}\n",
}
SYSTEM = ("/srv", "/opt", "/mnt", "/var/lib")
"""Where machines keep what is nobody's home; a canary lies there when root runs the tests."""
NOT_READ = (".ssh/id_rsa", ".ssh/authorized_keys", ".aws/credentials", ".netrc", "secret.txt", "src/main.py")
"""What no program of ours has a reason to open: here the time of the last access counts, too."""
APPENDED = ("tool_receipts.log", "workspaces")
"""What we write ourselves: what stood there before stands there still."""
DATABASE = ("memory.sqlite", "memory.sqlite-shm", "memory.sqlite-wal")
GROWING = (*DATABASE, "cache", "logs", "runs", "trash", "checkpoints", "trusted", "pins", "caches")
"""What we keep in our own folder beside the canaries, and may change at any time."""


class Seen(NamedTuple):
    """Everything about a file that an attack could change."""

    kind: str
    mode: str
    owner: tuple[int, int]
    content: str
    modified: int
    changed: int
    links: int
    attributes: tuple[str, ...]
    read: int | None


def look(path: Path, *, read_time: bool) -> Seen:
    """One file as it is, without leaving a trace of having looked."""
    at = os.lstat(path)
    folder = stat.S_ISDIR(at.st_mode)
    return Seen(
        kind=stat.filemode(at.st_mode)[0],
        mode=stat.filemode(at.st_mode),
        owner=(at.st_uid, at.st_gid),
        content=_content(path, at),
        modified=at.st_mtime_ns,
        changed=at.st_ctime_ns,
        links=0 if folder else at.st_nlink,
        attributes=tuple(f"{name}={os.getxattr(path, name, follow_symlinks=False)!r}" for name in _attributes(path)),
        read=at.st_atime_ns if read_time else None,
    )


def _attributes(path: Path) -> list[str]:
    return sorted(os.listxattr(path, follow_symlinks=False))


def _content(path: Path, at: os.stat_result) -> str:
    if stat.S_ISLNK(at.st_mode):
        return os.readlink(path)
    if stat.S_ISDIR(at.st_mode):
        return " ".join(sorted(map(repr, os.listdir(path))))
    if not stat.S_ISREG(at.st_mode):
        return ""
    return hashlib.sha256(quietly(path)).hexdigest()


def quietly(path: Path) -> bytes:
    """A file's bytes, its time of access untouched."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOATIME | os.O_NOFOLLOW)
    except PermissionError:  # an ordinary user's own file, which a hostile program shut
        before = os.lstat(path).st_mode
        path.chmod(0o600)
        fd = os.open(path, os.O_RDONLY | os.O_NOATIME | os.O_NOFOLLOW)
        path.chmod(before)
    with open(fd, "rb") as file:
        sparse = os.fstat(file.fileno()).st_size > 1 << 30
        return file.read(1 << 20) if sparse else file.read()


def every(folder: Path) -> Iterator[Path]:
    yield folder
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(above, name)


class Canaries:
    """Files outside of the workspace, with a word in each that stands nowhere else."""

    def __init__(self, base: Path, home: Path, workspace: Path) -> None:
        self.base, self.home, self.workspace = base, home, workspace
        self.ours = home / ".adderclaw"
        self.neighbour = base / "neighbour"
        self.system: list[Path] = []
        self.words: dict[str, str] = {}
        """Word → the file that it stands in."""
        for folder, files in ((home, HOME), (self.ours, OURS), (self.neighbour, NEIGHBOUR)):
            self._plant(folder, files)
        (home / ".ssh").chmod(0o700)
        (home / ".ssh" / "id_rsa").chmod(0o600)
        (home / "bin" / "tool").chmod(0o755)
        (self.ours / "receipt.key").chmod(0o600)
        self._before: dict[Path, Seen] = {}
        self._appended: dict[Path, bytes] = {}

    def _plant(self, folder: Path, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = folder / name
            word = f"canary{secrets.token_hex(13)}"
            self.words[word] = str(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.format(word=word), encoding="utf-8")

    def plant_in_the_system(self) -> None:
        """Readable by everybody: only a sandbox keeps them from being read."""
        for top in SYSTEM:
            folder = Path(top, f"adderclaw-canary-{secrets.token_hex(4)}")
            folder.mkdir(parents=True, mode=0o755)
            self.system.append(folder)
            self._plant(folder, {"secret.txt": "{word}\n", "writable/secret.txt": "{word}\n"})
            (folder / "writable").chmod(0o777)
            (folder / "writable" / "secret.txt").chmod(0o666)

    def remember(self) -> None:
        """How everything is before the attack."""
        reads = self._read_times()
        for path in self._watched():
            seen = look(path, read_time=False)
            if reads and self._is_private(path):
                os.utime(path, ns=(seen.modified - 10**9, seen.modified), follow_symlinks=False)
                seen = look(path, read_time=True)
            self._before[path] = seen
        self._appended = {path: path.read_bytes() for name in APPENDED if (path := self.ours / name).exists()}

    def _is_private(self, path: Path) -> bool:
        return path.is_file() and any(str(path).endswith(f"/{name}") for name in NOT_READ)

    def _read_times(self) -> bool:
        """Whether this file system notes that a file was read."""
        probe = self.base / "probe"
        probe.write_text("x")
        before = probe.stat().st_mtime_ns
        os.utime(probe, ns=(before - 10**9, before))
        probe.read_text()
        noted = probe.stat().st_atime_ns >= before
        probe.unlink()
        return noted

    def _watched(self) -> Iterator[Path]:
        """Everything outside but what we keep for ourselves, and what the test's own machinery needs."""
        own = {self.ours / name for name in (*GROWING, *APPENDED)}
        for folder in (self.home, self.neighbour, *self.system):
            for path in every(folder):
                if path == self.ours or self.workspace in (path, *path.parents):
                    continue
                if any(
                    path == one or one in path.parents or str(path).startswith((f"{one}.", f"{one}-")) for one in own
                ):
                    continue
                yield path

    def harm(self, said: Iterable[tuple[str, bytes]]) -> list[str]:
        """What came to harm: each line names one file, and what is wrong with it."""
        now = {path: look(path, read_time=True) for path in self._watched()}
        found = [f"{path} is new" for path in now.keys() - self._before.keys() if not self._is_ours(path)]
        found += [f"{path} is gone" for path in self._before.keys() - now.keys()]
        for path in self._before.keys() & now.keys():
            found += [f"{path}: {change}" for change in self._changes(path, self._before[path], now[path])]
        for path, before in self._appended.items():
            if not path.exists() or not path.read_bytes().startswith(before):
                found.append(f"{path}: what stood there was changed")
        return sorted(found) + self._leaks(said)

    def _changes(self, path: Path, before: Seen, now: Seen) -> Iterator[str]:
        watched = [name for name in Seen._fields if name != "read" or before.read is not None]
        if before.kind == "d" and (path in (self.home, self.base) or self.ours in (path, *path.parents)):
            watched = ["kind", "mode", "owner", "attributes"]  # we keep things there ourselves
        for name in watched:
            if getattr(before, name) != getattr(now, name):
                yield f"{name} was {getattr(before, name)}, is {getattr(now, name)}"

    def _is_ours(self, path: Path) -> bool:
        """New files in our own folder are for tests that know what we keep there; links and programs never are."""
        at = os.lstat(path)
        runs = stat.S_ISREG(at.st_mode) and at.st_mode & 0o111
        return self.ours in path.parents and not stat.S_ISLNK(at.st_mode) and not runs

    def _leaks(self, said: Iterable[tuple[str, bytes]]) -> list[str]:
        return [
            f"{place} has the word of {file}"
            for place, content in said
            for word, file in self.words.items()
            if word.encode() in content
        ]

    def clear(self) -> None:
        for folder in filter(os.path.isdir, (*self.system, self.base)):
            shutil.rmtree(folder, onexc=_open_and_retry)


def _open_and_retry(remove: object, path: str, _why: BaseException) -> None:
    """A hostile workspace has folders that their owner cannot look into."""
    for folder in (os.path.dirname(path), path):
        if os.path.isdir(folder) and not os.path.islink(folder):
            os.chmod(folder, 0o700)
    if callable(remove) and remove is not os.open:
        remove(path)
    else:
        shutil.rmtree(path, ignore_errors=True)
