"""The file that a backup is: a zip with a manifest of hashes, and a reader that believes nothing of it."""

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
from adderclaw.core.record import record

MANIFEST = "manifest.json"
FORMAT = 1
PART = 1 << 20
MANIFEST_LIMIT = 256 << 20
MAX_FILES = 2_000_000
ALWAYS_ALLOWED_BYTES = 1 << 30
"""Bytes that an archive may hold however small it is; beyond, what it holds is at most RATIO times its size."""
RATIO = 200
NAME_LIMIT, PART_LIMIT = 4096, 255
BEFORE_1980 = (1980, 1, 1, 0, 0, 0)

type Progress = Callable[[int, int], None]
"""(bytes done, bytes in all)"""


class BadArchive(AdderClawError):
    """An archive that is not restored, and why. Nothing of it was written."""


@record
class Entry:
    """One file of an archive."""

    size: int
    sha256: str
    mode: int = 0o600


@record
class Manifest:
    """What an archive says of itself."""

    format: int
    adderclaw: str
    """The version that made it."""
    made_at: str
    home: str
    """Where it lay."""
    database: str
    """The file in the archive, or empty."""
    receipts: str
    head: str
    """"seq:hash" of the last receipt in it."""
    key_id: str
    """Which key sealed the receipts: a hash of it, or empty."""
    secrets: bool
    files: dict[str, Entry]
    runs: dict[str, str]
    """Folder in the archive → where the folder of that run lay."""
    notes: list[str]


def key_id(key: bytes | None) -> str:
    """What a key is known by: nothing can be sealed with it."""
    return hashlib.sha256(b"adderclaw receipt key\n" + key).hexdigest()[:32] if key else ""


# ------------------------------------------------------------------ writing


class Writer:
    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3)
        self.entries: dict[str, Entry] = {}

    def add(self, name: str, source: IO[bytes], *, mode: int = 0o600, limit: int | None = None) -> int:
        """Copy a file, or so many bytes of it; how many there were."""
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
        if kind is not None:  # what is unfinished gets no directory: there may be no room for one
            self._zip.fp = None

    def finish(self, manifest: Manifest) -> None:
        from adderclaw.core.decode import freeze

        info = zipfile.ZipInfo(MANIFEST, BEFORE_1980)
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        text = json.dumps(freeze(manifest), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        self._zip.writestr(info, text)
        self._zip.close()


# ------------------------------------------------------------------ reading


class Reader:
    """An archive whose names, sizes and kinds were checked; `copy` checks each byte."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._path = path
        size = os.fstat(file.fileno()).st_size
        try:
            self._zip = zipfile.ZipFile(file)
            self._infos = self._check_names()
            self.manifest = self._read_manifest()
        except (zipfile.BadZipFile, NotImplementedError, zlib.error, EOFError, OSError, ValueError) as error:
            raise BadArchive(
                f"{path} is no backup that can be read ({error}): make another one, or use an older one"
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
                what = "a link" if kind == stat.S_IFLNK else "no regular file"
                raise self._refused(f"{name!r} is {what}, and a backup holds only files")
            if name in infos:
                raise self._refused(f"{name!r} is in it twice")
            if info.flag_bits & 1:
                raise self._refused(f"{name!r} is encrypted, which no backup is")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self._refused(f"{name!r} is compressed as no backup is")
            infos[name] = info
        if MANIFEST not in infos:
            raise self._refused(f"it has no {MANIFEST}, so that it is no backup of adderclaw")
        for name in infos:
            parents = name.split("/")
            for end in range(1, len(parents)):
                if "/".join(parents[:end]) in infos:
                    raise self._refused(f"{name!r} lies in something that is a file itself")
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
            raise self._refused(f"its {MANIFEST} is no JSON") from error
        table = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        version = table.get("format")
        if isinstance(version, int) and version > FORMAT:
            made_by = table.get("adderclaw")
            from adderclaw import __version__

            raise self._refused(
                f"it was made by a newer adderclaw ({made_by}, format {version}), and this is {__version__} "
                f"(format {FORMAT}): upgrade first"
            )
        try:
            return decode(Manifest, table)
        except Invalid as error:
            key, message = error.problems[0]
            raise self._refused(f"its {MANIFEST} is damaged: {key}: {message}") from error

    def _check_manifest(self, archive_size: int) -> None:
        """The manifest and the archive speak of the same files, which are not larger than such an archive can hold."""
        names, total = set(self._infos) - {MANIFEST}, 0
        listed = self.manifest.files
        if names != listed.keys():
            odd = min(names ^ listed.keys())
            problem = "the manifest does not know it" if odd in names else "it is missing"
            raise self._refused(f"{odd[:200]!r} does not belong to the manifest: {problem}")
        for name, entry in listed.items():
            if self._infos[name].file_size != entry.size:
                raise self._refused(f"{name!r} has another size than the manifest says: it was changed")
            if not 0 <= entry.mode <= 0o777:
                raise self._refused(f"{name!r} has the mode {entry.mode:o}")
            total += entry.size
        if total > max(ALWAYS_ALLOWED_BYTES, RATIO * archive_size):
            raise self._refused(f"it would grow to {total >> 20} MiB, {RATIO} times its size and more: that is a bomb")
        self.total = total

    def copy(self, name: str, target: IO[bytes] | None, progress: Callable[[int], None] | None = None) -> None:
        """Read one file whole, and check that it is what the manifest says."""
        entry, digest, size = self.manifest.files[name], hashlib.sha256(), 0
        try:
            with self._zip.open(self._infos[name]) as source:
                while part := source.read(PART):
                    size += len(part)
                    if size > entry.size:
                        raise self._refused(f"{name!r} is larger than it says: it was changed")
                    digest.update(part)
                    if target is not None:
                        target.write(part)
                    if progress is not None:
                        progress(len(part))
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise self._refused(f"{name!r} is damaged ({error})") from error
        if size != entry.size or digest.hexdigest() != entry.sha256:
            raise self._refused(f"{name!r} is not what the manifest says: it was changed")

    def names(self) -> Iterator[str]:
        return iter(self.manifest.files)


def name_problem(name: str) -> str:
    """Why a name in an archive is not taken, or nothing."""
    if not name or len(name) > NAME_LIMIT or not name.isprintable() or "\\" in name:
        return "is no name of a file"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return "is an absolute path"
    parts = name.split("/")
    if ".." in parts:
        return "leads out of the folder"
    if any(not part or part == "." or len(os.fsencode(part)) > PART_LIMIT for part in parts):
        return "is no name of a file"
    return ""
