"""A server of a home as an attack sees it: it writes down whoever connects, and has a secret in its environment.

`python3 stand_in_server.py HOME LOG ABSTRACT`: prints its port once it listens.
"""

import selectors
import socket
import sys
from pathlib import Path

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def main(home: str, log: str, abstract: str) -> None:
    first = socket.create_server(("127.0.0.1", 0))
    port = first.getsockname()[1]
    folder = Path(home, ".adderclaw", "server")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    listeners = [first]
    try:
        listeners.append(socket.create_server(("::1", port), family=socket.AF_INET6))
    except OSError:
        pass
    for path in (str(folder / "http.sock"), f"\0{abstract}"):
        one = socket.socket(socket.AF_UNIX)
        one.bind(path)
        one.listen(100)
        listeners.append(one)
    ready = selectors.DefaultSelector()
    for one in listeners:
        ready.register(one, selectors.EVENT_READ)
    print(port, flush=True)
    while True:
        for key, _ in ready.select():
            assert isinstance(key.fileobj, socket.socket)
            client, _ = key.fileobj.accept()
            with open(log, "a") as file:
                file.write(f"{key.fileobj.getsockname()!r}\n")
            with client:
                client.settimeout(3)
                try:
                    client.recv(1000)
                    client.sendall(ANSWER)
                except OSError:
                    continue


if __name__ == "__main__":
    main(*sys.argv[1:])
