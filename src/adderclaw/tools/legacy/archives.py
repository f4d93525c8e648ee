"""What is in an archive or a patch, before it is unpacked or applied: the names that it would write."""

import bz2
import gzip
import io
import lzma
import mmap
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from adderclaw.config.paths import followed
from adderclaw.policy.legacy.programs import patches
from adderclaw.policy.legacy.programs.operands import ARCHIVE, PATCH
from adderclaw.policy.paths import protected_name
from adderclaw.sandbox import workspace
from adderclaw.tools.paths import PathRefused

MAX_MEMBERS = 100_000
MAX_BYTES = 512 << 20
MAX_UNPACKED = 4 << 30
"""Of a compressed tar: it is read to its end for the names in it."""
MAX_DIRECTORY = 64 << 20
"""Of the list of files of a zip, which is read whole."""
MAX_HEADER = 1 << 20
_MAX_PATCH = 32 << 20


def names(marked: str) -> Iterator[str]:
    """The names that matter: each first one, each folder, and whatever is protected. `marked` says which kind it is."""
    is_patch = marked.endswith(PATCH)
    path = marked.removesuffix(PATCH if is_patch else ARCHIVE)
    seen: set[str] = set()
    for name in _changed(path) if is_patch else _members(path):
        parts = name.split("/")
        for part in (parts[0] or "/", os.path.dirname(name), name if _matters(name, parts) else ""):
            if part and part not in seen:
                seen.add(part)
                yield part


def _matters(name: str, parts: list[str]) -> bool:
    return name.startswith("/") or ".." in parts or bool(protected_name(f"/{name}", ()))


def _members(path: str) -> Iterator[str]:
    import tarfile
    import zipfile

    try:
        with _opened(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise PathRefused(f"{path} is too large to look into before it is unpacked")
            if zipfile.is_zipfile(file):
                _check_directory(path, file)
                archive = zipfile.ZipFile(file)
                yield from _bounded(
                    path, (_whole(info.filename, _zip_link(archive, info)) for info in archive.infolist())
                )
                return
            file.seek(0)
            archive = tarfile.open(fileobj=_Unpacked(path, _decompressed(file)), mode="r:")  # noqa: SIM115 - the file below it is closed
            yield from _bounded(path, (_whole(member.name, _tar_link(member)) for member in archive))
    except PathRefused:
        raise
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, *_BROKEN) as error:
        raise PathRefused(f"{path} cannot be looked into before it is unpacked: {error}") from error


_BROKEN = (NotImplementedError, RuntimeError, ValueError, lzma.LZMAError, zlib.error)


def _check_directory(path: str, file: BinaryIO) -> None:
    """Raises Refused if a zip has too many files or too long a list of them, before the list is read."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        end = data.rfind(b"PK\x05\x06")
        size = int.from_bytes(data[end + 12 : end + 16], "little")
        if data[end - 20 : end - 16] == b"PK\x06\x07":  # zip64: its own record stands before
            size = int.from_bytes(data[end - 36 : end - 28], "little")
        if size > MAX_DIRECTORY:
            raise PathRefused(f"{path} has a list of files of {size:,} bytes, which is too long to read")
        count, at = 0, data.find(b"PK\x01\x02")
        while at >= 0 and count <= MAX_MEMBERS:
            count, at = count + 1, data.find(b"PK\x01\x02", at + 4)
        if count > MAX_MEMBERS:
            raise PathRefused(f"{path} holds more than {MAX_MEMBERS:,} files")


def _decompressed(file: BinaryIO) -> BinaryIO:
    head = file.read(6)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if head.startswith(b"BZh"):
        return cast(BinaryIO, bz2.BZ2File(file))
    if head.startswith((b"\xfd7zXZ\0", b"\x5d\0\0")):
        return cast(BinaryIO, lzma.LZMAFile(file))
    return file


class _Unpacked(io.RawIOBase):
    """A tar as `tarfile` reads it: no header longer than is sensible, and no more of it than can be looked at."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self._path, self._file = path, file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_HEADER:
            raise PathRefused(f"{self._path} has a header of {size:,} bytes, which is too long to read")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if offset > MAX_UNPACKED:
            raise PathRefused(f"{self._path} would unpack to more than {MAX_UNPACKED >> 30} GiB")
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _opened(path: str) -> BinaryIO:
    """What the path leads to now, through no link that is put there afterwards."""
    return os.fdopen(workspace.open_file(workspace.resolved_path(followed(path))), "rb")


def _tar_link(member: object) -> str:
    import tarfile

    if not isinstance(member, tarfile.TarInfo):
        return ""
    if member.isfile() or member.isdir():
        return ""
    return member.linkname or "/dev"


def _zip_link(archive: object, info: object) -> str:
    import zipfile

    if not isinstance(archive, zipfile.ZipFile) or not isinstance(info, zipfile.ZipInfo):
        return ""
    is_link = (info.external_attr >> 16) & 0o170000 == 0o120000
    return archive.read(info).decode(errors="replace") if is_link and info.file_size < 4096 else "/" if is_link else ""


def _whole(name: str, link: str) -> str:
    """A member that leads out, by its name or as a link, is named by where it leads."""
    if link.startswith("/") or ".." in link.split("/"):
        raise PathRefused(f"it holds {name}, a link that leads to {link}")
    return name.removeprefix("./")


def _bounded(path: str, members: Iterator[str]) -> Iterator[str]:
    for count, name in enumerate(members):
        if count >= MAX_MEMBERS:
            raise PathRefused(f"{path} holds more than {MAX_MEMBERS:,} files")
        yield name


def _changed(path: str) -> Iterator[str]:
    try:
        with _opened(path) as file:
            text = file.read(_MAX_PATCH + 1).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise PathRefused(f"{path} cannot be looked into before it is applied: {error}") from error
    if len(text) > _MAX_PATCH:
        raise PathRefused(f"{path} is too large to look into before it is applied")
    if not patches.is_plain(text):
        raise PathRefused(f"{path} is not a patch of plain names and hunks alone")
    yield from patches.changed(text)
