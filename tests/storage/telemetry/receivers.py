"""Who receives notices in tests: an HTTP server with its moods, and an SMTP server."""

import base64
import datetime
import hashlib
import hmac
import ipaddress
import ssl
import threading
import time
from collections.abc import Callable
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Request(NamedTuple):
    headers: dict[str, str]
    body: bytes

    def is_genuine(self, secret: str) -> bool:
        """As docs/channels.md tells a receiver to verify it; nothing of ours is used."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        right = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return any(hmac.compare_digest(right, one) for one in self.headers["webhook-signature"].split())


class Receiver:
    """`moods` says how each request in turn is answered; after the last all are as the last. Each is written down."""

    def __init__(self, *moods: str, trust: ssl.SSLContext | None = None) -> None:
        self.moods = list(moods) or ["ok"]
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                outer.answer(self, Request({name.lower(): value for name, value in self.headers.items()}, body))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if trust is not None:
            self._server.socket = trust.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._ended = threading.Event()

    def url(self, path: str = "/hook", scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        with self._lock:
            mood = self.moods[min(len(self.requests), len(self.moods) - 1)]
            self.requests.append(request)
        word, _, more = mood.partition(" ")
        if word == "hang":
            self._ended.wait(30)
            return
        status = {"ok": 204, "redirect": 302, "huge": 200, "drip": 200}.get(word) or int(word)
        handler.send_response(status)
        if word == "redirect":
            handler.send_header("location", more)
        if word == "429" and more:
            handler.send_header("retry-after", more)
        if word in ("huge", "drip"):
            handler.send_header("content-length", str(1 << 30))
            handler.end_headers()
            self._pour(handler, 0.0 if word == "huge" else 0.2)
            return
        if word != "ok":
            handler.send_header("content-length", "0")
        handler.end_headers()

    def _pour(self, handler: BaseHTTPRequestHandler, pause: float) -> None:
        try:
            for _ in range(1 << 14):
                handler.wfile.write(b"x" * (65_536 if not pause else 1))
                if self._ended.wait(pause):
                    return
        except OSError:
            pass

    def waited_for(self, count: int, seconds: float = 10) -> list[Request]:
        until(lambda: len(self.requests) >= count, seconds)
        return self.requests


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.02)


# ------------------------------------------------------------------ certificates


class Certificate(NamedTuple):
    file: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context


def certificate(folder: Path, *more: str) -> Certificate:
    """One of our own making, for localhost, 127.0.0.1 and more names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = map(x509.DNSName, ("localhost", *more))
    names = [*hosts, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, secret = folder / "cert.pem", folder / "key.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return Certificate(file, secret)


# ------------------------------------------------------------------ mail


class Mailbox:
    """An SMTP server: `tls` from the first byte or by STARTTLS, with a login where a password is given."""

    def __init__(self, cert: Certificate, *, mode: str = "starttls", user: str = "", password: str = "") -> None:
        self.messages: list[EmailMessage] = []
        self.envelopes: list[tuple[str, list[str]]] = []
        self.encrypted: list[bool] = []

        def login(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
            right = isinstance(data, LoginPassword) and data == LoginPassword(user.encode(), password.encode())
            return AuthResult(success=right, handled=False)

        more: dict[str, Any] = {"hostname": "127.0.0.1", "port": 0}
        if mode == "tls":
            more["ssl_context"] = cert.server()
        if mode == "starttls":
            more |= {"tls_context": cert.server(), "require_starttls": True}
        if password:
            more |= {"authenticator": login, "auth_required": True, "auth_require_tls": mode != "tls"}
        self._controller = _Anywhere(self, **more)
        self._mode = mode

    @property
    def port(self) -> int:
        return self._controller.port

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:
        self.messages.append(message_from_bytes(envelope.content, policy=policy.default))
        self.envelopes.append((envelope.mail_from, list(envelope.rcpt_tos)))
        self.encrypted.append(session.ssl is not None or self._mode == "tls")
        return "250 OK"


class _Anywhere(Controller):
    """On a port that the system chose."""

    def _trigger_server(self) -> None:
        server: Any = self.server
        self.port = int(server.sockets[0].getsockname()[1])
        super()._trigger_server()
