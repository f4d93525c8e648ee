"""A log of bounded size: when its file is full it is put behind the others, and the oldest goes."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from adderclaw.channels.service.sealed import refused

LONGEST_LINE = 65_536
"""Bytes after which a line is broken: a server that never ends one costs no memory."""


class LogFiles:
    """`serve.log`, and `serve.log.1` to `serve.log.N` behind it, the oldest last; nobody else reads them."""

    def __init__(self, path: str, most_bytes: int, files: int) -> None:
        self.path, self._most, self._files = path, most_bytes, files
        self._fd = -1
        self._size = 0
        self._begun = b""
        self._lost = 0
        self.last_said = ""
        """The last line that a server printed."""

    def open(self) -> None:
        """Raises where it cannot be written: whoever starts a server is to know."""
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            self._open()
        except OSError as error:
            raise refused(self.path, error) from error

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        self._fd = os.open(self.path, flags, 0o600)
        os.fchmod(self._fd, 0o600)
        self._size = os.fstat(self._fd).st_size

    def feed(self, data: bytes) -> None:
        """What a server printed, as it came: whole lines are written, the rest waits for its end."""
        *lines, self._begun = (self._begun + data).split(b"\n")
        while len(self._begun) > LONGEST_LINE:
            lines.append(self._begun[:LONGEST_LINE])
            self._begun = self._begun[LONGEST_LINE:]
        for line in lines:
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        if line.strip():
            self.last_said = line[:500].decode("utf-8", "replace").strip()
        self.line(line)

    def end_line(self) -> None:
        """The server has ended: what it began to say is all that comes."""
        if self._begun:
            self._hear(self._begun)
        self._begun = b""

    def line(self, text: bytes) -> None:
        """One line with its time. A disk that is full costs the line, and that is written down once there is room."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()).encode()
        note = b"%s(%d lines could not be written)\n" % (stamp, self._lost) if self._lost else b""
        data = note + stamp + text[:LONGEST_LINE] + b"\n"
        try:
            if self._fd < 0:
                self._open()
            if self._size and self._size + len(data) > self._most:
                self._rotate()
            written = os.write(self._fd, data)
            self._size += written
            if written < len(data):
                raise OSError("the disk is full")
            self._lost = 0
        except OSError:
            self._lost += 1

    def _rotate(self) -> None:
        os.close(self._fd)
        self._fd = -1
        for number in range(self._files - 1, 0, -1):
            before = f"{self.path}.{number - 1}" if number > 1 else self.path
            with contextlib.suppress(FileNotFoundError):
                os.replace(before, f"{self.path}.{number}")
        if self._files == 1:
            os.unlink(self.path)
        self._open()

    def fileno(self) -> int:
        return self._fd


def tail(path: str, count: int) -> list[str]:
    """The last lines, also of the files before this one."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"{path}.{number}" if number else path
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            if number:
                break
            fd = -1  # it was put behind a moment ago
        except OSError as error:
            raise refused(name, error) from error
        if fd >= 0:
            with open(fd, encoding="utf-8", errors="replace") as file:
                found = [*file.read().splitlines(), *found]
        number += 1
    return found[-count:] if count else []


def follow(path: str, pause: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Each line that comes from now on, over every rotation."""
    file = _opened(path)
    if file is not None:
        file.seek(0, os.SEEK_END)
    begun = ""
    while True:
        text = file.read() if file is not None else ""
        if text:
            *lines, begun = (begun + text).split("\n")
            yield from lines
            continue
        if file is None or not _is_at(path, os.fstat(file.fileno())):
            if file is not None:
                rest = file.read()  # what came between the last look and its being put behind
                *lines, begun = (begun + rest).split("\n")
                yield from lines
                file.close()
            file, begun = _opened(path), ""
        pause(0.2)


def _opened(path: str) -> TextIO | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused(path, error) from error
    return open(fd, encoding="utf-8", errors="replace")


def _is_at(path: str, about: os.stat_result) -> bool:
    try:
        now = os.lstat(path)
    except OSError:
        return False
    return (now.st_dev, now.st_ino) == (about.st_dev, about.st_ino)
