"""Git servers on loopback, with real parts: an sshd with a key in an agent, and `git http-backend` with a password."""

import base64
import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

SSHD = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
AcceptEnv GIT_PROTOCOL
"""
SSH = """
Host *
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""


class Ssh(NamedTuple):
    port: int
    agent: str
    bin: Path
    """A folder for the PATH: ssh with the settings of this operator, since it takes no home from the environment."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def missing() -> str:
    names = ("/usr/sbin/sshd", "ssh", "ssh-agent", "ssh-add", "ssh-keygen")
    return ", ".join(name for name in names if shutil.which(name) is None)


@contextmanager
def ssh_server(folder: Path) -> Generator[Ssh]:
    """The private key is in the agent alone."""
    folder.mkdir()
    port = free_port()
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True, timeout=60)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "sshd.conf").write_text(SSHD.format(port=port, folder=folder))
    (folder / "ssh.conf").write_text(SSH.format(folder=folder))
    own = folder / "bin" / "ssh"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh.conf "$@"\n')
    own.chmod(0o755)
    sock = str(folder / "agent")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL)
    log = (folder / "log").open("wb")
    server = subprocess.Popen(
        ["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd.conf"], stdin=subprocess.DEVNULL, stderr=log
    )
    try:
        _wait(lambda: os.path.exists(sock) and _answers(port))
        env = {**os.environ, "SSH_AUTH_SOCK": sock}
        subprocess.run(["ssh-add", "-q", folder / "key"], env=env, check=True, timeout=60)
        (folder / "key").unlink()
        yield Ssh(port, sock, own.parent)
    finally:
        for process in (server, agent):
            process.terminate()
            process.wait(10)
        log.close()


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _wait(ready: object) -> None:
    for _ in range(600):
        if callable(ready) and ready():
            return
        time.sleep(0.05)
    raise AssertionError("a server for the test did not start")


class Http(ThreadingHTTPServer):
    """Repositories of a folder, for whoever knows the name and the password."""

    daemon_threads = True

    def __init__(self, folder: Path, user: str, password: str) -> None:
        super().__init__(("127.0.0.1", 0), _Backend)
        self.folder = folder
        self.wanted: str | None = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        """None: anybody may."""
        self.refused = 0
        """How many in a row had not what is wanted: git-lfs asks thousands of times where it may hope."""
        self.requests: list[str] = []
        self.elsewhere = ""
        """Where it sends whoever asks, if anywhere."""
        self.large: dict[str, bytes] = {}
        """The large files (LFS) that it has, by their hashes."""
        self.large_at = ""
        """Where it says that they are, if not here."""

    @property
    def port(self) -> int:
        return self.server_address[1]


def certificate(folder: Path) -> Path:
    """One of the server's own making, for 127.0.0.1; its key is beside it."""
    made = folder / "server.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "server.key"), "-out", str(made)]
    subprocess.run([*words, *names], check=True, capture_output=True, timeout=120)
    return made


@contextmanager
def http_server(folder: Path, user: str, password: str, shows: Path | None = None) -> Generator[Http]:
    """`shows` is the certificate with which it speaks https."""
    server = Http(folder, user, password)
    if shows is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(shows, shows.with_suffix(".key"))
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Backend(BaseHTTPRequestHandler):
    server: Http  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self._body())

    def do_PUT(self) -> None:
        self._answer(self._body())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        parts: list[bytes] = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _large(self, body: bytes) -> None:
        """The batch API of LFS and its basic transfer: what there is to know of it is in git-lfs's docs/api."""
        oid = self.path.rpartition("/")[2]
        if self.path.endswith("/info/lfs/objects/batch"):
            asked = json.loads(body)
            found = [self._object(asked["operation"], one) for one in asked["objects"]]
            self._say(200, json.dumps({"transfer": "basic", "objects": found}).encode())
        elif self.command == "PUT" and hashlib.sha256(body).hexdigest() == oid:
            self.server.large[oid] = body
            self._say(200, b"")
        elif self.command == "GET" and oid in self.server.large:
            self._say(200, self.server.large[oid])
        else:
            self._say(404, b'{"message": "not here"}')

    def _object(self, operation: str, asked: dict[str, object]) -> dict[str, object]:
        oid = str(asked["oid"])
        there = oid in self.server.large
        if operation == "download" and not there:
            return {**asked, "error": {"code": 404, "message": "no such object"}}
        at = self.server.large_at or f"http://{self.headers['Host']}"
        href = f"{at}{self.path.partition('/info/lfs')[0]}/info/lfs/large/{oid}"
        if operation == "upload" and there:
            return asked
        return {**asked, "authenticated": bool(self.server.large_at), "actions": {operation: {"href": href}}}

    def _say(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.git-lfs+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, body: bytes) -> None:
        self.server.requests.append(self.path)
        if self.server.elsewhere:
            self.send_response(302)
            self.send_header("Location", self.server.elsewhere + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.server.wanted is not None and self.headers.get("Authorization") != self.server.wanted:
            self.server.refused += 1
            self.send_response(401 if self.server.refused < 10 else 403)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.refused = 0
        if "/info/lfs/" in self.path:
            self._large(body)
            return
        path, _, query = self.path.partition("?")
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "somebody",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=env, capture_output=True, timeout=60, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
        status = next((int(value.split()[0]) for name, value in lines if name == "Status"), 200)
        self.send_response(status)
        for name, value in lines:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass
