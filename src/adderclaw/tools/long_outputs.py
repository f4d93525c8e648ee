"""Stores results that are too long to show whole in a session folder that Read can open."""

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from adderclaw.core.framing import MOST_SHOWN, shorten
from adderclaw.core.types import ToolResult

SESSION_BYTES = 512 << 20
"""Most bytes stored for one session."""
PAGE = 100_000
"""Characters shown of a file page that Read returns: the limit is higher, because Read shows the rest of any result."""
DAYS = 30
"""Days after which the outputs of an earlier session are removed."""
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def shorten_text(text: str, keep: Callable[[str], str | None], most: int = MOST_SHOWN, dropped: int = 0) -> str:
    """The text as the model sees it. A long text is cut to its head and tail, with a hint where to read the rest.

    `dropped` is the number of bytes that `text` itself already lacks.
    """
    if len(text) <= most:
        return text
    path = keep(text)
    where = f"; Read {path} has all of it" if path else ""
    if dropped:
        where = f", {dropped:,} bytes dropped" + (f"; Read {path} shows the rest" if path else "")
    return shorten(text, most, where)


class LongOutputs:
    """Stores a text when called and returns its path, or None if it cannot be stored."""

    def __init__(self, folder: str, scrub: Callable[[str], str], clock: Callable[[], float] = time.time) -> None:
        self.folder, self.scrub = folder, scrub
        self._clock = clock
        self._used = 0
        self._made = False

    def __call__(self, text: str) -> str | None:
        data = self.scrub(text).encode("utf-8", "replace")
        if self._used + len(data) > SESSION_BYTES:
            return None
        # Named by its content, so that the same output is stored once and a repeated call has the same result.
        name = f"output-{hashlib.sha256(data).hexdigest()[:16]}.txt"
        if self.folder and os.path.exists(existing := os.path.join(self.folder, name)):
            return existing
        created = self.create(name)
        if created is None:
            return None
        fd, path = created
        try:
            self.write(fd, data)
        except OSError:
            os.unlink(path)
            return None
        finally:
            os.close(fd)
        return path

    def shorten_result(self, result: ToolResult) -> ToolResult:
        """A result cut to the limit that applies to every tool, as it is recorded and as hooks and the model see it.

        Secrets are redacted first, because half a secret at the cut would not be recognized.
        """
        most = PAGE if result.page else MOST_SHOWN
        if len(result.content) <= most:
            return result
        dropped = int(result.metadata.get("dropped_bytes", 0))
        return replace(result, content=shorten_text(self.scrub(result.content), self, most, dropped))

    def create(self, name: str) -> tuple[int, str] | None:
        """Creates a file and returns its descriptor and path, or None if it cannot be stored."""
        if not self.folder:
            return None
        path = os.path.join(self.folder, name)
        try:
            if not self._made:
                self._make_folder()
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

    def _make_folder(self) -> None:
        top = os.path.dirname(self.folder)
        os.makedirs(top, mode=0o700, exist_ok=True)
        with suppress(OSError):
            self._remove_old(top)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self._made = True

    def _remove_old(self, top: str) -> None:
        import shutil

        oldest = self._clock() - DAYS * 86_400
        with os.scandir(top) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                    shutil.rmtree(entry.path, ignore_errors=True)
