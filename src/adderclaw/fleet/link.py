"""Lines of JSON between a worker and the process of one of its runs."""

import json
import socket
import threading
import time

from adderclaw.core.types import Json

LONGEST = 16 * 1024 * 1024


def now() -> float:
    """The clock for leases, in seconds. It continues while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Link:
    """One end of a pair of sockets. Many threads may send; only one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._rest = end, b""
        self._sending = threading.Lock()

    def send(self, message: Json) -> None:
        """Sends a message. Raises OSError if the other end is closed."""
        body = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._sending:
            self._end.sendall(body)

    def receive(self) -> Json | None:
        """The next message; None if the other end is closed."""
        while b"\n" not in self._rest:
            try:
                part = self._end.recv(65_536)
            except OSError:
                return None
            if not part or len(self._rest) > LONGEST:
                return None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        message: Json = json.loads(line)
        return message

    def close(self) -> None:
        self._end.close()
