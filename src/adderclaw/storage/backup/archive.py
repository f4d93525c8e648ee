"""The file format of a backup: a zip with a manifest of hashes. The reader checks everything before it is used."""

import hashlib
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from adderclaw.core.decode import Invalid, decode
from adderclaw.core.errors import AdderClawError
from adderclaw.core.json_text import to_json
from adderclaw.core.record import record

MANIFEST = "manifest.json"
FORMAT = 1
PART = 1 << 20
MANIFEST_LIMIT = 256 << 20
MAX_FILES = 2_000_000
ALWAYS_ALLOWED_BYTES = 1 << 30
"""Uncompressed bytes that every archive may contain; a larger total may be at most RATIO times the archive's size."""
RATIO = 200
NAME_LIMIT, PART_LIMIT = 4096, 255
BEFORE_1980 = (1980, 1, 1, 0, 0, 0)

type Progress = Callable[[int, int], None]
"""(bytes done, total bytes)"""


class BadArchive(AdderClawError):
    """Why an archive is refused. Nothing was written."""


@record
class Entry:
    """One file of an archive."""

    size: int
    sha256: str
    mode: int = 0o600


@record
class Manifest:
    """The contents of an archive's manifest."""

    format: int
    adderclaw: str
    """The version that created it."""
    made_at: str
    home: str
    """The path of the home that was backed up."""
    database: str
    """The name of the database in the archive; empty if there is none."""
    receipts: str
    head: str
    """"seq:hash" of the last receipt in it."""
    key_id: str
    """A hash of the key that sealed the receipts, or empty."""
    secrets: bool
    files: dict[str, Entry]
    runs: dict[str, str]
    """Folder in the archive → the original folder of that run."""
    notes: list[str]


def key_id(key: bytes | None) -> str:
    """Identifies a key without revealing it."""
    return hashlib.sha256(b"adderclaw receipt key\n" + key).hexdigest()[:32] if key else ""


# ------------------------------------------------------------------ writing


class Writer:
    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3)
        self.entries: dict[str, Entry] = {}

    def add(self, name: str, source: IO[bytes], *, mode: int = 0o600, limit: int | None = None) -> int:
        """Copies a file, or its first `limit` bytes; returns the number of bytes."""
        digest, size = hashlib.sha256(), 0
        info = zipfile.ZipInfo(name, BEFORE_1980)
        info.external_attr = (stat.S_IFREG | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        with self._zip.open(info, "w", force_zip64=True) as target:
            while part := source.read(PART if limit is None else min(PART, limit - size)):
                digest.update(part)
                target.write(part)
                size += len(part)
        self.entries[name] = Entry(size, digest.hexdigest(), mode)
        return size

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # no directory for an unfinished archive: the disk may be full
            self._zip.fp = None

    def finish(self, manifest: Manifest) -> None:
        info = zipfile.ZipInfo(MANIFEST, BEFORE_1980)
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        text = json.dumps(to_json(manifest), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        self._zip.writestr(info, text)
        self._zip.close()


# ------------------------------------------------------------------ reading


class Reader:
    """An archive whose names, sizes and file types are checked on opening; `copy` checks every byte."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._path = path
        size = os.fstat(file.fileno()).st_size
        try:
            self._zip = zipfile.ZipFile(file)
            self._infos = self._check_names()
            self.manifest = self._read_manifest()
        except (zipfile.BadZipFile, NotImplementedError, zlib.error, EOFError, OSError, ValueError) as error:
            raise BadArchive(
                f"{path} is not a readable backup ({error}); create a new one or use an older one"
            ) from error
        self._check_manifest(size)

    def _refused(self, why: str) -> BadArchive:
        return BadArchive(f"{self._path} is not restored: {why}. Nothing was written; use a backup that you trust")

    def _check_names(self) -> dict[str, zipfile.ZipInfo]:
        infos: dict[str, zipfile.ZipInfo] = {}
        listed = self._zip.infolist()
        if len(listed) > MAX_FILES:
            raise self._refused(f"it holds {len(listed)} files, more than {MAX_FILES}")
        for info in listed:
            name = info.filename
            kind = stat.S_IFMT(info.external_attr >> 16)
            if why := name_problem(name):
                raise self._refused(f"{name[:200]!r} {why}")
            if kind not in (0, stat.S_IFREG) or info.is_dir():
                what = "a link" if kind == stat.S_IFLNK else "not a regular file"
                raise self._refused(f"{name!r} is {what}, but a backup contains only files")
            if name in infos:
                raise self._refused(f"{name!r} occurs twice")
            if info.flag_bits & 1:
                raise self._refused(f"{name!r} is encrypted, which backups never are")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self._refused(f"{name!r} uses a compression that backups do not use")
            infos[name] = info
        if MANIFEST not in infos:
            raise self._refused(f"it has no {MANIFEST}, so it is not a backup of adderclaw")
        for name in infos:
            parents = name.split("/")
            for end in range(1, len(parents)):
                if "/".join(parents[:end]) in infos:
                    raise self._refused(f"{name!r} is inside of another file")
        return infos

    def _read_manifest(self) -> Manifest:
        info = self._infos[MANIFEST]
        if info.file_size > MANIFEST_LIMIT:
            raise self._refused(f"its {MANIFEST} is larger than {MANIFEST_LIMIT >> 20} MiB")
        with self._zip.open(info) as source:
            data = source.read(MANIFEST_LIMIT + 1)
        try:
            value: Any = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._refused(f"its {MANIFEST} is not valid JSON") from error
        table = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        version = table.get("format")
        if isinstance(version, int) and version > FORMAT:
            made_by = table.get("adderclaw")
            from adderclaw import __version__

            raise self._refused(
                f"it was created by a newer adderclaw ({made_by}, format {version}) than this one ({__version__}, "
                f"format {FORMAT}); upgrade first"
            )
        try:
            return decode(Manifest, table)
        except Invalid as error:
            key, message = error.problems[0]
            raise self._refused(f"its {MANIFEST} is damaged: {key}: {message}") from error

    def _check_manifest(self, archive_size: int) -> None:
        """Requires that the manifest and the archive list the same files, and limits their total size."""
        names, total = set(self._infos) - {MANIFEST}, 0
        listed = self.manifest.files
        if names != listed.keys():
            odd = min(names ^ listed.keys())
            problem = "is not in the manifest" if odd in names else "is in the manifest but missing from the archive"
            raise self._refused(f"{odd[:200]!r} {problem}")
        for name, entry in listed.items():
            if self._infos[name].file_size != entry.size:
                raise self._refused(f"{name!r} differs in size from its entry in the manifest: it was changed")
            if not 0 <= entry.mode <= 0o777:
                raise self._refused(f"{name!r} has the mode {entry.mode:o}")
            total += entry.size
        if total > max(ALWAYS_ALLOWED_BYTES, RATIO * archive_size):
            raise self._refused(
                f"it would expand to {total >> 20} MiB, more than {RATIO} times its size: it is a zip bomb"
            )
        self.total = total

    def copy(self, name: str, target: IO[bytes] | None, progress: Callable[[int], None] | None = None) -> None:
        """Reads one file completely and checks it against the manifest."""
        entry, digest, size = self.manifest.files[name], hashlib.sha256(), 0
        try:
            with self._zip.open(self._infos[name]) as source:
                while part := source.read(PART):
                    size += len(part)
                    if size > entry.size:
                        raise self._refused(f"{name!r} is larger than its entry in the manifest: it was changed")
                    digest.update(part)
                    if target is not None:
                        target.write(part)
                    if progress is not None:
                        progress(len(part))
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise self._refused(f"{name!r} is damaged ({error})") from error
        if size != entry.size or digest.hexdigest() != entry.sha256:
            raise self._refused(f"{name!r} does not match its hash in the manifest: it was changed")

    def names(self) -> Iterator[str]:
        return iter(self.manifest.files)


def name_problem(name: str) -> str:
    """Why a name in an archive is refused; empty if it is accepted."""
    if not name or len(name) > NAME_LIMIT or not name.isprintable() or "\\" in name:
        return "is not a valid file name"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return "is an absolute path"
    parts = name.split("/")
    if ".." in parts:
        return "leads out of the folder"
    if any(not part or part == "." or len(os.fsencode(part)) > PART_LIMIT for part in parts):
        return "is not a valid file name"
    return ""
