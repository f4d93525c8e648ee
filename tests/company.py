"""A company's proxy on this machine: it asks for a login, resolves names itself, and reads what is encrypted."""

import base64
import re
import socket
import ssl
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress

LOGIN = ("clerk", "Kept-Outside-42")


class Company:
    def __init__(self, trust: ssl.SSLContext | None, places: Mapping[str, int]) -> None:
        """`trust`: what it shows itself as, in the place of every host; None: it passes on what it is sent. `places`:
        the port of this machine that each host stands for."""
        self.asked: list[str] = []
        """Every host and port that it was asked for with the right login."""
        self._trust, self._places = trust, places
        self._door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{LOGIN[0]}:{LOGIN[1]}@127.0.0.1:{self._door.getsockname()[1]}"

    def close(self) -> None:
        self._door.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                threading.Thread(target=self._one, args=(client,), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            head = b""
            while not head.endswith(b"\r\n\r\n") and (part := client.recv(1)):
                head += part
            login = base64.b64encode(":".join(LOGIN).encode())
            if b"Proxy-Authorization: Basic " + login not in head:
                client.sendall(b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n")
                return
            found = re.match(rb"CONNECT (\S+):(\d+) ", head)
            place = found[1].decode() if found else ""
            self.asked.append(f"{place}:{found[2].decode() if found else ''}")
            if place not in self._places:
                client.sendall(b"HTTP/1.1 403 Not at work\r\nContent-Length: 0\r\n\r\n")
                return
            client.sendall(b"HTTP/1.1 200 Go on\r\n\r\n")
            inner = client if self._trust is None else self._trust.wrap_socket(client, server_side=True)
            with inner, socket.create_connection(("127.0.0.1", self._places[place])) as there:
                back = threading.Thread(target=_pump, args=(there, inner), daemon=True)
                back.start()
                _pump(inner, there)
                back.join()


def _pump(source: socket.socket, into: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            into.sendall(part)
    with suppress(OSError):
        into.shutdown(socket.SHUT_WR)


@contextmanager
def company(trust: ssl.SSLContext | None, places: Mapping[str, int]) -> Generator[Company]:
    made = Company(trust, places)
    try:
        yield made
    finally:
        made.close()
