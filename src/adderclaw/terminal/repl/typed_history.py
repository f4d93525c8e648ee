"""What was typed, across conversations: a file for its owner alone, without the values of secrets."""

import json
import os
from collections.abc import Callable, Iterable

from prompt_toolkit.history import History

KEPT = 1 << 20
"""Bytes of the file that are read; it is cut to them when it has twice as many."""
LONGEST = 20_000
"""Characters of an entry."""


class TypedHistory(History):
    def __init__(self, path: str, scrub: Callable[[str], str]) -> None:
        super().__init__()
        self._path, self._scrub = path, scrub

    def load_history_strings(self) -> Iterable[str]:
        """The newest first. A line that is none of ours is passed over."""
        try:
            with open(self._opened(os.O_RDONLY), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - KEPT, 0))
                lines = file.read(KEPT).split(b"\n")
        except OSError:
            return
        for line in reversed(lines[1:] if size > KEPT else lines):
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                yield text

    def store_string(self, string: str) -> None:
        line = json.dumps(self._scrub(string)[:LONGEST]).encode() + b"\n"
        try:
            with open(self._opened(os.O_RDWR | os.O_APPEND | os.O_CREAT), "rb+", buffering=0) as file:
                if file.seek(0, os.SEEK_END) > 2 * KEPT:
                    file.seek(-KEPT, os.SEEK_END)
                    rest = file.read(KEPT).partition(b"\n")[2]
                    file.truncate(0)
                    file.write(rest)
                file.write(line)
        except OSError:
            pass  # a full disk or a file that is not ours costs the history, and not the message

    def _opened(self, flags: int) -> int:
        fd = os.open(self._path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        os.fchmod(fd, 0o600)
        return fd
