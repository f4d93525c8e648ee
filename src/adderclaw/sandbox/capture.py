"""What a program printed to one stream: its head, its true end, and how much between them was dropped."""


class Capture:
    """The first `most` bytes of a stream, and the last `end` of those after them."""

    __slots__ = ("_end", "_head", "_most", "_tail", "_total")

    def __init__(self, most: int, end: int = 0) -> None:
        self._most, self._end = most, end
        self._head, self._tail = bytearray(), bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        room = self._most - len(self._head)
        self._head += chunk[:room]
        if self._end and len(chunk) > room:
            self._tail += chunk[room:]
            if len(self._tail) > 2 * self._end:  # not for each chunk: that would move the whole tail each time
                del self._tail[: -self._end]

    def note(self, text: bytes) -> None:
        """Append a note of AdderClaw's own, which is never dropped."""
        if self._tail:
            self.add(text)
        else:
            self._head += text
            self._most += len(text)
            self._total += len(text)

    @property
    def dropped(self) -> int:
        """How many bytes are in neither part."""
        return max(self._total - len(self._head) - len(self._last()), 0)

    @property
    def cut(self) -> bool:
        return self.dropped > 0

    @property
    def data(self) -> bytes:
        """All stored output, with a line where something was dropped."""
        if not self._end or not self.cut:
            return bytes(self._head + self._tail)
        return bytes(self._head) + f"\n[… {self.dropped} bytes were dropped here …]\n".encode() + self._last()

    def latest(self, size: int = 2_000) -> bytes:
        """The last whole lines so far: half a line may be half a secret."""
        end = bytes((self._tail or self._head)[-size:])
        return end[end.find(b"\n") + 1 if len(end) == size else 0 : end.rfind(b"\n") + 1]

    def _last(self) -> bytes:
        """The tail from the start of a line: redaction would not recognize half of a secret."""
        last = bytes(self._tail[-self._end :]) if self._end else b""
        if len(self._head) + len(last) == self._total:
            return last
        return last[last.find(b"\n", 0, len(last) // 2) + 1 :]
