"""Results that are too long to be shown whole: kept in a folder of the session's own, where Read may look."""

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from adderclaw.core.framing import MOST_SHOWN, shorten
from adderclaw.core.types import ToolResult

SESSION_BYTES = 512 << 20
"""What is kept of one session, at most."""
PAGE = 100_000
"""The same of a page that Read was asked for: it is how the rest of anything is read."""
DAYS = 30
"""After so long the outputs of an earlier session are removed."""
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def shown(text: str, keep: Callable[[str], str | None], most: int = MOST_SHOWN, dropped: int = 0) -> str:
    """The text as the model sees it: of a long one the head and the tail, and where the rest of it can be read.

    `dropped` are the bytes that the text itself lacks.
    """
    if len(text) <= most:
        return text
    path = keep(text)
    where = f"; Read {path} has all of it" if path else ""
    if dropped:
        where = f", {dropped:,} bytes dropped" + (f"; Read {path} has all but those" if path else "")
    return shorten(text, most, where)


class LongOutputs:
    """`keep(text)` gives the path to read it by, or None where nothing can be kept."""

    def __init__(self, folder: str, scrub: Callable[[str], str], clock: Callable[[], float] = time.time) -> None:
        self.folder, self.scrub = folder, scrub
        self._clock = clock
        self._used = 0
        self._made = False

    def __call__(self, text: str) -> str | None:
        data = self.scrub(text).encode("utf-8", "replace")
        if self._used + len(data) > SESSION_BYTES:
            return None
        # Named by its content: the same output is kept once, and a call that is repeated has the same result.
        name = f"output-{hashlib.sha256(data).hexdigest()[:16]}.txt"
        if self.folder and os.path.exists(there := os.path.join(self.folder, name)):
            return there
        made = self.create(name)
        if made is None:
            return None
        fd, path = made
        try:
            self.write(fd, data)
        except OSError:
            os.unlink(path)
            return None
        finally:
            os.close(fd)
        return path

    def shortened(self, result: ToolResult) -> ToolResult:
        """A result as it is recorded, and as hooks and the model see it: this is the one limit, for every tool.

        Secrets go first: half of one, at the place where a text is cut, would be known by nobody.
        """
        most = PAGE if result.page else MOST_SHOWN
        if len(result.content) <= most:
            return result
        dropped = int(result.metadata.get("dropped_bytes", 0))
        return replace(result, content=shown(self.scrub(result.content), self, most, dropped))

    def create(self, name: str) -> tuple[int, str] | None:
        """A new file of that name, open for writing and reading."""
        if not self.folder:
            return None
        path = os.path.join(self.folder, name)
        try:
            if not self._made:
                self._make()
            return os.open(path, CREATE, 0o600), path
        except OSError:
            return None

    def write(self, fd: int, data: bytes) -> None:
        self._used += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    @property
    def full(self) -> bool:
        return self._used > SESSION_BYTES

    def _make(self) -> None:
        top = os.path.dirname(self.folder)
        os.makedirs(top, mode=0o700, exist_ok=True)
        with suppress(OSError):
            self._sweep(top)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self._made = True

    def _sweep(self, top: str) -> None:
        import shutil

        oldest = self._clock() - DAYS * 86_400
        with os.scandir(top) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                    shutil.rmtree(entry.path, ignore_errors=True)
