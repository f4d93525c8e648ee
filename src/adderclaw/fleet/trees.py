"""Saves folders as objects. Only changed content goes into new ones; a manifest lists where everything is."""

import errno
import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterator
from typing import Any, Literal, Protocol

from adderclaw.config.safe_open import opener
from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple

PART = 16 * 1024 * 1024
"""Bytes of a piece of a file, and the approximate size of an object."""
MOST_BYTES = 4 * 1024**3
MOST_FILES = 200_000
"""Including folders and links."""
DEEPEST = 128
"""Maximum depth of folders."""
_MANIFEST = 256 * 1024 * 1024
"""Maximum size of a manifest in bytes."""
_MARKS = 32 * MOST_FILES
"""Maximum number of brackets, commas and colons in a manifest, each of which may become an object in memory."""
_LATEST = 2**62
"""The latest time of a file that systems accept, in nanoseconds since 1970."""
_TAIL = 8

type Piece = tuple[str, int, int]
"""The object with the piece (empty: the one with the manifest), the offset in it, and the length."""


class Puts(Protocol):
    def put(self, body: bytes) -> str: ...


class Gets(Protocol):
    def get(self, name: str) -> bytes: ...


class File(NamedTuple):
    mode: int
    size: int
    mtime_ns: int
    sha: str
    """The SHA-256 of the whole file."""
    pieces: tuple[Piece, ...]


class Tree(NamedTuple):
    """The content of some folders."""

    files: dict[str, File]
    links: dict[str, str]
    folders: dict[str, int]


EMPTY = Tree({}, {}, {})


class Seen(NamedTuple):
    identity: tuple[int, int, int, int]
    sha: str
    size: int


class Saver:
    """Saves the same folders repeatedly. Unchanged files are neither read nor sent again."""

    def __init__(self, objects: Puts, before: Tree = EMPTY, *, part: int = PART, most: int = MOST_BYTES) -> None:
        """`part`: the approximate size of an object; `most`: the maximum size of all files."""
        self._objects, self._part, self._most = objects, part, most
        self._seen: dict[str, Seen] = {}
        self._known: dict[str, tuple[Piece, ...]] = {file.sha: file.pieces for file in before.files.values()}
        """Hash of a file → its stored pieces."""

    def save(self, roots: dict[str, str], *, leave_out: frozenset[str] = frozenset()) -> str:
        """Saves the folders and returns the name of the object with the manifest.

        `roots`: prefix in the manifest → folder; `leave_out`: paths in the manifest to omit.
        """
        if not self._seen:  # before anything is read
            for prefix, path in roots.items():
                size = count = 0
                for entry in _walk(path, prefix, leave_out):
                    size, count = size + (entry.status.st_size if entry.kind == "file" else 0), count + 1
                    if size > MOST_BYTES or count > MOST_FILES:
                        raise UsageError(_too_much(path))
        saving = _Saving(self._objects, self._known, self._seen, self._part, self._most)
        for prefix, path in roots.items():
            saving.add(path, prefix, leave_out)
        name = saving.end()
        self._known = saving.known
        return name


class _Saving:
    """One save. If storing an object fails, the next save does not rely on anything of this one."""

    def __init__(
        self, objects: Puts, known: dict[str, tuple[Piece, ...]], seen: dict[str, Seen], part: int, most: int
    ) -> None:
        self._part, self._most = part, most
        self._objects, self._seen = objects, seen
        self.known = dict(known)
        self._tree, self._pack, self._total = Tree({}, {}, {}), bytearray(), 0

    def add(self, path: str, prefix: str, leave_out: frozenset[str]) -> None:
        tree = self._tree
        for entry in _walk(path, prefix, leave_out):
            self._total += entry.status.st_size if entry.kind == "file" else 0
            if self._total > self._most or sum(map(len, tree)) > MOST_FILES:
                raise UsageError(_too_much(path))
            if entry.kind == "folder":
                tree.folders[entry.name] = entry.status.st_mode & 0o777
            elif entry.kind == "link":
                tree.links[entry.name] = entry.target
            elif (file := self._file(entry)) is not None:
                tree.files[entry.name] = file

    def end(self) -> str:
        name = self._objects.put(_packed(self._tree, bytes(self._pack)))
        self.known = {file.sha: _named(file.pieces, name) for file in self._tree.files.values()}
        return name

    def _file(self, entry: "FolderEntry") -> File | None:
        """The entry of a file; None if it was removed meanwhile."""
        status, name = entry.status, entry.name
        identity = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        seen = self._seen.get(name)
        if seen is not None and seen.identity == identity and seen.sha in self.known:
            return File(status.st_mode & 0o777, seen.size, status.st_mtime_ns, seen.sha, self.known[seen.sha])
        try:
            descriptor = entry.open()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP):
                return None
            raise
        sha, size, pieces = self._read(descriptor, self._most - self._total + status.st_size)
        self._total += size - status.st_size
        self._seen[name] = Seen(identity, sha, size)
        return File(status.st_mode & 0o777, size, status.st_mtime_ns, sha, pieces)

    def _read(self, descriptor: int, most: int) -> tuple[str, int, tuple[Piece, ...]]:
        """Reads and stores a file. `most`: its maximum size, because it may have grown."""
        whole, pieces = hashlib.sha256(), list[Piece]()
        with os.fdopen(descriptor, "rb") as file:
            first = file.read(self._part)
            whole.update(first)
            size = len(first)
            if len(first) == self._part:
                pieces.append(self._own(first))
                while part := file.read(self._part):
                    whole.update(part)
                    size += len(part)
                    if size > most:
                        raise UsageError(_too_much("a file that grows while it is read"))
                    pieces.append(self._own(part))
        sha = whole.hexdigest()
        if sha not in self.known:
            self.known[sha] = tuple(pieces) if pieces or not first else (self._packed(first),)
        return sha, size, self.known[sha]

    def _packed(self, content: bytes) -> Piece:
        """Adds a small file to the shared object."""
        body = zlib.compress(content, 1)
        if len(self._pack) + len(body) > self._part:
            self._close_pack()
        self._pack += body
        return "", len(self._pack) - len(body), len(body)

    def _close_pack(self) -> None:
        name = self._objects.put(bytes(self._pack))
        self._pack.clear()
        for path, file in self._tree.files.items():
            self._tree.files[path] = file._replace(pieces=_named(file.pieces, name))
        self.known = {sha: _named(pieces, name) for sha, pieces in self.known.items()}

    def _own(self, part: bytes) -> Piece:
        body = zlib.compress(part, 1)
        return self._objects.put(body), 0, len(body)


def _named(pieces: tuple[Piece, ...], name: str) -> tuple[Piece, ...]:
    return tuple((held or name, start, length) for held, start, length in pieces)


def _too_much(path: str) -> str:
    fix = "leave out generated files, or submit a repository with --repo"
    return f"{path} is too large for an archive: at most {MOST_BYTES // 1024**3} GiB in {MOST_FILES:,} files; {fix}"


def _too_deep(path: str) -> str:
    return f"{path} is too deep for an archive, which may have at most {DEEPEST} nested folders"


def _packed(tree: Tree, pack: bytes) -> bytes:
    """The object with the manifest. The pack comes first, so that offsets of pieces are known."""
    files = {name: [*file[:4], [list(piece) for piece in file.pieces]] for name, file in tree.files.items()}
    text = json.dumps({"files": files, "links": tree.links, "folders": tree.folders}, sort_keys=True)
    manifest = zlib.compress(text.encode("utf-8", "surrogateescape"), 1)
    return pack + manifest + len(manifest).to_bytes(_TAIL)


def load(objects: Gets, name: str) -> Tree:
    """Reads a manifest. Submitters may write anything into one, so it is untrusted."""
    body = objects.get(name)
    length = int.from_bytes(body[-_TAIL:])
    try:
        text = _inflate(body[-_TAIL - length : -_TAIL], _MANIFEST).decode("utf-8", "surrogateescape")
        if sum(map(text.count, "[{,:")) > _MARKS:
            raise UsageError(_too_much(f"object {name[:16]}"))
        manifest: dict[str, Any] = json.loads(text)
        files = {str(path): _file(name, *file) for path, file in manifest["files"].items()}
        links = {str(path): str(target) for path, target in manifest["links"].items()}
        tree = Tree(files, links, {str(path): int(mode) & 0o777 for path, mode in manifest["folders"].items()})
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(f"object {name[:16]} is not a saved folder: {error}") from error
    if any(path.count("/") > DEEPEST for part in tree for path in part):
        raise UsageError(_too_deep(f"object {name[:16]}"))
    if sum(map(len, tree)) > MOST_FILES or sum(file.size for file in tree.files.values()) > MOST_BYTES:
        raise UsageError(_too_much(f"object {name[:16]}"))
    return tree


def _file(name: str, mode: Any, size: Any, mtime: Any, sha: Any, pieces: Any) -> File:
    placed = tuple((str(held or name), int(start), int(length)) for held, start, length in pieces)
    return File(int(mode) & 0o777, max(0, int(size)), max(-_LATEST, min(int(mtime), _LATEST)), str(sha), placed)


def _inflate(body: bytes, most: int) -> bytes:
    """Decompresses at most `most` bytes, to protect against archive bombs."""
    engine = zlib.decompressobj()
    body_text = engine.decompress(body, most + 1)
    if len(body_text) > most or not engine.eof:
        raise UsageError("the size of the archive does not match its manifest")
    return body_text


class _Pieces:
    """Reads pieces. Caches the last object, because the next piece is usually in the same one."""

    def __init__(self, objects: Gets) -> None:
        self._objects, self._last = objects, ("", b"")

    def read(self, piece: Piece) -> bytes:
        name, start, length = piece
        if self._last[0] != name:
            self._last = (name, self._objects.get(name))
        return _inflate(self._last[1][start : start + length], PART)


def restore(objects: Gets, name: str, roots: dict[str, str]) -> Tree:
    """Restores a tree into new folders and returns it.

    Paths outside of the roots are omitted, because it was not checked that the submitter may read their objects.
    """
    tree, pieces = _below(load(objects, name), roots), _Pieces(objects)
    for path, mode in sorted(tree.folders.items()):
        if (path_here := _target_path(path, roots)) is not None:
            os.makedirs(path_here, exist_ok=True)
            os.chmod(path_here, mode | 0o700)
    in_order = sorted(tree.files.items(), key=lambda item: item[1].pieces[:1])
    for path, file in in_order:
        if (path_here := _target_path(path, roots)) is not None:
            _write(path_here, file, pieces)
    for path, target in tree.links.items():  # last, so that nothing is written through a link
        if (path_here := _target_path(path, roots)) is not None:
            if path in roots or any(path[:at] in tree.links for at, sign in enumerate(path) if sign == "/"):
                raise UsageError(f"the archive names {path!r}, a link that leads out of its folder")
            os.makedirs(os.path.dirname(path_here), exist_ok=True)
            os.symlink(target, path_here)
    return tree


def _below(tree: Tree, roots: dict[str, str]) -> Tree:
    files = {path: file for path, file in tree.files.items() if _target_path(path, roots) is not None}
    return tree._replace(files=files)


def _write(path: str, file: File, pieces: _Pieces) -> None:
    """Writes a file and checks its hash, by which later saves recognize it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as opened:
        left, whole = file.size, hashlib.sha256()
        for piece in file.pieces:
            part = pieces.read(piece)
            whole.update(part)
            left -= opened.write(part)
            if left < 0:
                raise UsageError(f"{os.path.basename(path)!r} is larger in the archive than its manifest says")
        if whole.hexdigest() != file.sha:
            raise UsageError(f"{os.path.basename(path)!r} in the archive does not match its hash in the manifest")
        os.fchmod(opened.fileno(), file.mode)
    os.utime(path, ns=(file.mtime_ns, file.mtime_ns))


def _target_path(path: str, roots: dict[str, str]) -> str | None:
    """The local path of a path in a manifest; None if it is below no root."""
    first, slash, rest = path.partition("/")
    if first not in roots:
        return None
    if slash and any(part in ("", ".", "..") for part in rest.split("/")):
        raise UsageError(f"the archive names {path!r}, which leads out of its folder")
    return os.path.join(roots[first], rest) if rest else roots[first]


# ------------------------------------------------------------------ reading a folder that may change meanwhile


class FolderEntry(NamedTuple):
    """An entry of a folder, opened by the folder's descriptor and never through a link."""

    kind: Literal["file", "link", "folder"]
    name: str
    status: os.stat_result
    folder: int = -1
    entry: str = ""
    target: str = ""

    def open(self) -> int:
        return os.open(self.entry, _READ, dir_fd=self.folder)


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _walk(path: str, prefix: str, leave_out: frozenset[str]) -> Iterator[FolderEntry]:
    """Yields the entries of a folder. Skips sockets, pipes, devices and entries that disappear meanwhile.

    Only one folder is open at a time, whatever their depth.
    """
    root = os.open(path, _FOLDER)
    try:
        yield FolderEntry("folder", prefix, os.fstat(root))
        waiting = ["."]
        while waiting:
            way = waiting.pop()
            if way.count("/") >= DEEPEST:
                raise UsageError(_too_deep(path))
            try:
                folder = opener()(root, way, _FOLDER)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    raise UsageError(_too_deep(path)) from error
                if error.errno not in _GONE:
                    raise
                continue
            try:
                below: list[str] = []
                for entry in _entries(folder, prefix + way[1:], leave_out):
                    below += [f"{way}/{entry.entry}"] if entry.kind == "folder" else []
                    yield entry
            finally:
                os.close(folder)
            waiting += reversed(below)
    finally:
        os.close(root)


_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""The entry was removed or exchanged meanwhile."""


def _entries(folder: int, prefix: str, leave_out: frozenset[str]) -> Iterator[FolderEntry]:
    for entry in sorted(os.listdir(folder)):
        name = f"{prefix}/{entry}"
        if name in leave_out:
            continue
        try:
            status = os.stat(entry, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                yield FolderEntry("link", name, status, target=os.readlink(entry, dir_fd=folder))
            elif stat.S_ISREG(status.st_mode):
                yield FolderEntry("file", name, status, folder, entry)
            elif stat.S_ISDIR(status.st_mode):
                yield FolderEntry("folder", name, status, entry=entry)
        except OSError as error:
            if error.errno not in _GONE:
                raise


def content(objects: Gets, name: str, path: str) -> bytes | None:
    """The content of one saved file; None if there is none."""
    file = load(objects, name).files.get(path)
    if file is None:
        return None
    pieces = _Pieces(objects)
    return b"".join(pieces.read(piece) for piece in file.pieces)
