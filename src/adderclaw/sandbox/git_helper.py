"""The helper that git starts in a sandbox for ssh or for a password: it asks the broker outside and forwards bytes.

Its text is run by `python -I -S -c`, with the number of the broker's socket in ADDERCLAW_BROKER. Its first word is
`ssh` (the rest are git's arguments for ssh), `credential` (a credential helper) or `proxy` (prints a proxy's port).
"""

import errno
import os
import selectors
import socket
import sys


def ask(kind: str, words: list[str], more: list[int]) -> tuple[socket.socket, bytes, list[int]]:
    """Send a request to the broker; returns the channel, the answer and the descriptors that came with it."""
    broker = socket.socket(fileno=os.dup(int(os.environ["ADDERCLAW_BROKER"])))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with broker, theirs:
        text = "\0".join((kind, os.environ.get("GIT_PROTOCOL", ""), *words)).encode("utf-8", "surrogateescape")
        socket.send_fds(broker, [text[:30000]], [theirs.fileno(), *more])
    answer, fds, _, _ = socket.recv_fds(ours, 65536, 8)
    return ours, answer, fds


def ssh(words: list[str]) -> int:
    channel, answer, fds = ask("ssh", words, [])
    if answer != b"go" or len(fds) != 2:
        print(answer.decode("utf-8", "replace") or "adderclaw: the broker for ssh has ended", file=sys.stderr)
        return 255
    stdin_pipe, stdout_pipe = fds
    routes = {0: stdin_pipe, stdout_pipe: 1}
    with selectors.DefaultSelector() as selector:
        for source in routes:
            selector.register(source, selectors.EVENT_READ)
        while stdout_pipe in routes:
            for key, _ in selector.select():
                pump(selector, routes, key.fd)
    for fd in (stdin_pipe,) if 0 in routes else ():
        os.close(fd)
    code, _, complaint = channel.recv(4096).partition(b" ")
    sys.stderr.write(complaint.decode("utf-8", "replace"))
    return int(code) if code.isdigit() else 255


def pump(selector: selectors.BaseSelector, routes: dict[int, int], source: int) -> None:
    data = os.read(source, 65536)
    try:
        while data:
            data = data[os.write(routes[source], data) :]
            if not data:
                return
    except BrokenPipeError:
        pass
    selector.unregister(source)
    os.close(routes.pop(source))


def credential(words: list[str]) -> int:
    if words[-1:] != ["get"]:
        return 0
    _, answer, _ = ask("credential", [sys.stdin.read(10000)], [])
    sys.stdout.write(answer.decode("utf-8", "replace"))
    return 0


def proxy() -> int:
    """Print the port of a proxy, and whether the port of a server on this machine could be bound as well.

    git-lfs uses no proxy for such a server: what it sends there must reach the broker, and no command of the session.
    """
    listeners = [listen_on("127.0.0.1", 0)]
    port, port_state = os.environ.get("ADDERCLAW_NEAR", ""), "clear"
    for address in ("127.0.0.1", "::1") if port else ():
        try:
            listeners.append(listen_on(address, int(port)))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                port_state = "occupied"
    _, answer, _ = ask("proxy", [port_state], [listener.fileno() for listener in listeners])
    if answer not in (b"clear", b"occupied"):
        return 1
    print(listeners[0].getsockname()[1], answer.decode())  # another git of this call may have bound it before
    return 0


def listen_on(address: str, port: int) -> socket.socket:
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    # Connections of an earlier call may linger; a port that another process listens on is still refused.
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen(64)
    return server


def main(words: list[str]) -> int:
    match words:
        case ["ssh", *rest]:
            return ssh(rest)
        case ["credential", *rest]:
            return credential(rest)
        case ["proxy"]:
            return proxy()
        case _:
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
