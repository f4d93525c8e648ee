"""A server on loopback whose listening socket is closed only when nobody waits at it any more.

A thread that is about to wait at a descriptor that was closed meanwhile waits at whatever has its number by then:
another server's socket, whose next client it would answer.
"""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def accepting(server: socket.socket, take: Callable[[socket.socket], object]) -> threading.Thread:
    """Hands every connection to `take`, which must not wait, until `left` ends it."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            take(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def left(server: socket.socket, thread: threading.Thread | None) -> None:
    """Nobody is let in any more, and the socket is closed."""
    with suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept() wakes at this, not at close
    if thread is not None:
        thread.join()
    server.close()


@contextmanager
def listening(talk: Callable[[socket.socket], object]) -> Generator[int]:
    """The port of a server that talks to each of its clients in a thread of its own."""
    server = socket.create_server(("127.0.0.1", 0), backlog=64)

    def take(connection: socket.socket) -> None:
        threading.Thread(target=talk, args=(connection,), daemon=True).start()

    thread = accepting(server, take)
    try:
        yield int(server.getsockname()[1])
    finally:
        left(server, thread)


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Generator[int]:
    """The port of a web server, whose thread has ended when this is left."""
    server = ThreadingHTTPServer((host, 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
