"""Where the server listens: loopback unless TLS and a token exist, one server per home, nothing that the sandbox can
reach."""

import errno
import fcntl
import ipaddress
import os
import socket
import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from adderclaw import config
from adderclaw.config.paths import beneath, followed
from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.models.http import own_server
from adderclaw.models.http.own_server import Running

OWN_NAME = "adderclaw.localhost"
"""Browsers resolve it to this machine, and send its cookies only to this name. Cookies ignore ports, so a cookie of
127.0.0.1 or localhost would also be sent to every other server on this machine."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", OWN_NAME})
"""Host names that reach this server only from this machine."""
BACKLOG = 2_048
LONGEST_SOCKET = 107
"""The longest path of a Unix socket, in bytes."""


class Listen(NamedTuple):
    """The options of the command line about listening."""

    host: str = "127.0.0.1"
    port: int = 0
    socket: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None


# ------------------------------------------------------------------ one server for each home


def lock_path() -> str:
    """In the folder of the address file, which no sandbox shows."""
    return os.path.join(own_server.folder(), "lock")


def running() -> Running | None:
    """The running server of this home, if there is one."""
    try:
        fd = os.open(lock_path(), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return None if _try_lock(fd, fcntl.LOCK_SH) else own_server.found()
    finally:
        os.close(fd)


@contextmanager
def hold_lock() -> Generator[None]:
    """Ensures that a home has one server. The lock is released when the process ends, even if it is killed."""
    os.makedirs(own_server.folder(), mode=0o700, exist_ok=True)
    fd = os.open(lock_path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while not _try_lock(fd, fcntl.LOCK_EX):
            if not _try_lock(fd, fcntl.LOCK_SH):
                other = own_server.found()
                at = f"at {other.address} (process {other.pid})" if other else "and is just starting"
                raise UsageError(f"a server of {config.home()} is already running {at}: use that one, or stop it first")
            fcntl.flock(fd, fcntl.LOCK_UN)  # another process only checked whether a server is running
            time.sleep(0.001)
        own_server.remove()  # left by a killed server
        try:
            yield
        finally:
            own_server.remove()
    finally:
        os.close(fd)


def _try_lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# ------------------------------------------------------------------ sockets


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def check_address(where: Listen, *, has_token: bool) -> None:
    """Require TLS and a token for an address that other machines can reach."""
    if bool(where.tls_cert) != bool(where.tls_key):
        raise UsageError("--tls-cert and --tls-key must be given together")
    if is_loopback(where.host):
        return
    missing = [*(() if where.tls_cert else ("TLS (--tls-cert, --tls-key)",)), *(() if has_token else ("a token",))]
    if missing:
        fix = "" if has_token else "; `adderclaw token create NAME` makes a token"
        raise UsageError(
            f"--host {where.host}: an address that other machines can reach needs {' and '.join(missing)}{fix}"
        )


def bind(where: Listen) -> socket.socket:
    host = "127.0.0.1" if where.host == "localhost" else where.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, where.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fix = "give another --port; 0 chooses a free one"
            raise UsageError(f"port {where.port} of {host} is in use by another program: {fix}") from error
        raise UsageError(f"cannot listen on {host}, port {where.port}: {error.strerror or error}") from error
    # accepted connections inherit it; asyncio sets it only on sockets that name their protocol, as this one does not
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@contextmanager
def unix_socket(path: str | None) -> Generator[socket.socket | None]:
    """A socket in the home that only its owner may connect to; replaces the socket of a killed server."""
    if path is None:
        yield None
        return
    absolute = os.path.abspath(os.path.expanduser(path))
    folder = followed(os.path.dirname(absolute))
    if not beneath(folder, followed(config.home())):
        raise UsageError(
            f"--socket {path!r}: the socket must be in {config.home()}, which sandboxed commands cannot see"
        )
    absolute = os.path.join(folder, os.path.basename(absolute))
    if len(os.fsencode(absolute)) > LONGEST_SOCKET:
        raise UsageError(f"--socket {path!r}: a socket's path has at most {LONGEST_SOCKET} bytes; give a shorter one")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind_private(listener, absolute)
        yield listener
    finally:
        listener.close()
        with suppress(OSError):
            os.unlink(absolute)


def _bind_private(listener: socket.socket, path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    try:
        if os.path.lexists(path):
            if not os.path.exists(path) or not _is_socket(path):
                raise UsageError(f"--socket {path!r}: another file has that name; move it")
            os.unlink(path)  # this process holds the lock of the home, so no server is listening on it
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
    except OSError as error:
        raise UsageError(f"cannot listen on {path}: {error.strerror or error}") from error


def _is_socket(path: str) -> bool:
    import stat

    return stat.S_ISSOCK(os.lstat(path).st_mode)


# ------------------------------------------------------------------ TLS


def tls_context(where: Listen) -> ssl.SSLContext | None:
    if not where.tls_cert or not where.tls_key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(where.tls_cert, where.tls_key, password=lambda: "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        fix = "give a PEM certificate and its key without a passphrase"
        raise UsageError(f"--tls-cert {where.tls_cert}, --tls-key {where.tls_key}: {error}: {fix}") from error
    return context


def host_names(where: Listen) -> frozenset[str]:
    """The accepted host names: those of loopback, the address itself, and those of the certificate."""
    named = {where.host.lower()} - {"0.0.0.0", "::"}
    if where.tls_cert:
        named |= _certificate_names(where.tls_cert)
    return LOOPBACK | named


def _certificate_names(path: str) -> set[str]:
    from cryptography import x509

    with open(path, "rb") as file:
        certificate = x509.load_pem_x509_certificate(file.read())
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    by_name = names.get_values_for_type(x509.DNSName)
    return {name.lower() for name in by_name} | {str(name) for name in names.get_values_for_type(x509.IPAddress)}
