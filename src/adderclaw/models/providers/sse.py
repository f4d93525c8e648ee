"""Server-sent events out of bytes that may be cut anywhere."""


class Events:
    """Feed pieces as they come; each feed gives the data of the events that are complete by then."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._begun = False

    def feed(self, piece: bytes) -> list[str]:
        ends_line = b"\n" in piece or b"\r" in piece or self._rest.endswith(b"\r")
        self._rest += piece
        if not ends_line:
            return []
        # A CR at the very end waits: the LF that belongs to it may come with the next piece.
        whole = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r", 0, len(self._rest) - 1)) + 1
        lines = bytes(self._rest[:whole]).splitlines()  # of bytes: splits at CR, LF and CRLF only
        del self._rest[:whole]
        return self._take(lines)

    def end(self) -> list[str]:
        """The stream is over: an event without its closing blank line counts too."""
        lines = bytes(self._rest).splitlines()
        self._rest.clear()
        return self._take([*lines, b""])

    def _take(self, lines: list[bytes]) -> list[str]:
        complete: list[str] = []
        for line in lines:
            if not self._begun:
                self._begun = True
                line = line.removeprefix(b"\xef\xbb\xbf")
            if not line:
                if self._data:
                    complete.append(b"\n".join(self._data).decode("utf-8", "replace"))
                    self._data.clear()
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif line == b"data":
                self._data.append(b"")
        return complete
