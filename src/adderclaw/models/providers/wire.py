"""Sends JSON to a model server and receives the answer over HTTP/1.1 with keep-alive. Classifies every failure."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Never, cast
from urllib.parse import urlsplit

import h11

from adderclaw.core.errors import ProviderError, ProviderErrorKind
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Clock
from adderclaw.models.providers.faults import BROKE_OFF, advice, error_message_in, kind_of, retry_after, retry_delay

CONNECT_SECONDS = 15.0
IDLE_SECONDS = 50.0
"""Connections idle for longer are not reused, because a proxy in between may have dropped them silently."""
ERROR_BODY_BYTES = 65_536
PAUSE_BYTES = 1_048_576


class Endpoint(NamedTuple):
    """The address of requests, fixed for the lifetime of a provider."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def loopback(self) -> bool:
        numeric = self.host.startswith("127.") and self.host.replace(".", "").isdigit()  # not 127.example.org
        return numeric or self.host in ("localhost", "::1") or self.host.endswith(".localhost")

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def endpoint(base_url: str, tail: str) -> Endpoint:
    """Parses a base_url. Raises ValueError with the problem, which never repeats a password."""
    parts = urlsplit(base_url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("has a user name or password in it; name the key's variable in api_key_env instead")
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"{base_url!r} is not an http:// or https:// address such as http://127.0.0.1:8080/v1")
    query = f"?{parts.query}" if parts.query else ""
    target = parts.path.rstrip("/") + tail + query
    if parts.fragment or not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise ValueError(f"{base_url!r} has a fragment, a space or characters outside ASCII; percent-encode it")
    return Endpoint(parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme], target)


class Wire:
    """The connections of one provider to its one endpoint. Redirects are never followed."""

    def __init__(
        self,
        provider: str,
        target: Endpoint,
        secrets: Secrets,
        clock: Clock,
        *,
        timeout: float,
        max_bytes: int,
        between: float | None = None,
    ) -> None:
        self.provider, self.place = provider, target
        self._secrets, self._clock = secrets, clock
        self.first_seconds = timeout
        # Some servers send tool arguments only when they are complete, so a longer timeout also allows longer gaps.
        self.between_seconds = between if between is not None else max(60.0, timeout / 2)
        self.max_bytes = max_bytes
        self.socket = ""
        """A Unix socket to connect to instead. The program there forwards requests with its own credential."""
        self.advise: Callable[[ProviderErrorKind, int | None, str], str] = lambda kind, status, _words: advice(
            kind, status
        )
        """The advice for an error of this kind, status and text. Adapters may replace it."""
        self._idle: list[_Connection] = []
        self._tls: ssl.SSLContext | None = None

    async def post(self, headers: Sequence[tuple[str, str]], body: bytes, *, target: str | None = None) -> "Reply":
        """Sends a request. Returns the reply when its head has arrived, and raises if its status is not 2xx.

        `target`: another path on the same server.
        """
        request = self._request(headers, len(body), target or self.place.target)
        while True:
            connection = self._reusable() or await self._open()
            try:
                reply = await self._exchange(connection, request, body)
                break
            except (OSError, h11.RemoteProtocolError) as error:
                connection.abort()
                if not connection.closed_while_idle(error):
                    self._give_up(error, connection)
                await self.close()  # the other connections are as old; use a new one
            except BaseException:
                connection.abort()
                raise
        if 200 <= reply.status < 300:
            return reply
        raise await self._refused(reply)

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()
            await asyncio.sleep(0)  # lets the transport close before the loop ends

    def fault(self, kind: ProviderErrorKind, message: str, **more: Any) -> ProviderError:
        line = " ".join(f"provider {self.provider!r}: {message}".split())
        return ProviderError(kind, str(self._secrets.clean(line)), provider=self.provider, **more)

    def malformed(self, what: str, content_type: str, start: bytes) -> ProviderError:
        came = self.excerpt(start.decode("utf-8", "replace"), 80)
        beginning = f"it sent {content_type or 'no content-type'}, beginning “{came}”" if came else "it sent nothing"
        return self.fault("malformed", f"{self.place.origin} {what}: {beginning}; {self.advise('malformed', None, '')}")

    def broken_off(self, what: str) -> ProviderError:
        """The error for an answer that started correctly but is incomplete."""
        return self.fault("malformed", f"{self.place.origin} {what}; {BROKE_OFF}")

    def excerpt(self, text: str, length: int) -> str:
        """A short quote. It is redacted before it is cut, because half of a key would not be recognized."""
        return " ".join(str(self._secrets.clean(text)).split())[:length]

    def too_large(self) -> ProviderError:
        limit = f"runtime.max_response_bytes = {self.max_bytes}"
        return self.fault("invalid_request", f"the answer is larger than {limit}; raise it or ask for less")

    # ------------------------------------------------------------------ one exchange

    def _request(self, headers: Sequence[tuple[str, str]], length: int, target: str) -> h11.Request:
        fixed = [
            ("host", self.place.authority),
            ("content-type", "application/json"),
            ("content-length", str(length)),
            ("accept-encoding", "identity"),
        ]
        reserved = {name for name, _ in fixed} | {"transfer-encoding", "connection"}
        sent = [*fixed, *((name, value) for name, value in headers if name.lower() not in reserved)]
        try:
            return h11.Request(method="POST", target=target, headers=sent)
        except (h11.LocalProtocolError, UnicodeError):
            message = "a header has characters that HTTP does not allow; check `headers` and the key's variable"
            raise self.fault("invalid_request", message) from None

    async def _exchange(self, connection: "_Connection", request: h11.Request, body: bytes) -> "Reply":
        http = connection.http
        head = http.send(request)
        http.send(h11.Data(data=body))
        http.send(h11.EndOfMessage())
        connection.write(head, body)
        due = connection.loop.time() + self.first_seconds
        while True:
            event = await connection.event(due)
            if isinstance(event, h11.Response):
                return Reply(self, connection, event, due)

    def keep(self, connection: "_Connection") -> None:
        connection.used = True
        connection.idle_since = connection.loop.time()
        self._idle.append(connection)

    def _reusable(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.ready_again():
                return connection
            connection.abort()
        return None

    # ------------------------------------------------------------------ opening

    async def _open(self) -> "_Connection":
        target, loop = self.place, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(min(CONNECT_SECONDS, self.first_seconds)):
                if self.socket:
                    return (await loop.create_unix_connection(lambda: _Connection(loop), self.socket))[1]
                tls = await self._context() if target.scheme == "https" else None
                if tls is not None and (way := await _through_proxy(target)) is not None:
                    opening = loop.create_connection(
                        lambda: _Connection(loop), sock=way, ssl=tls, server_hostname=target.host
                    )
                    return (await opening)[1]
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop),
                    target.host,
                    target.port,
                    ssl=tls,
                    happy_eyeballs_delay=None if target.loopback else 0.25,
                )
        except UnicodeError:
            raise self.fault("network", f"{target.host!r} is not a host name; correct base_url") from None
        except OSError as error:
            self._give_up(error, None)
        return connection

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = await asyncio.to_thread(tls_context)
        return self._tls

    # ------------------------------------------------------------------ errors

    def _give_up(self, error: Exception, connection: "_Connection | None") -> Never:
        where = self.place.origin
        match error:
            case TimeoutError() if connection is None:
                raise self.fault("timeout", f"{where} did not accept a connection in time; {advice('timeout')}")
            case TimeoutError():
                waited = f"{self.first_seconds:g} seconds"
                raise self.fault("timeout", f"{where} sent nothing for {waited}; {advice('timeout')}")
            case ssl.SSLCertVerificationError():
                fix = "set SSL_CERT_FILE to your authority's file if the server is yours"
                raise self.fault("network", f"the certificate of {where} is not valid ({error.verify_message}); {fix}")
            case OSError() if self.socket and connection is None:
                why = error.strerror or type(error).__name__
                raise self.fault(
                    "network",
                    f"nothing answers at the socket {self.socket} ({why}); start the program that provides it",
                )
            case OSError() if _refused(error):
                raise self.fault("network", f"nothing listens at {where}; start the server or correct base_url")
            case socket.gaierror():
                raise self.fault("network", f"the host {self.place.host} has no address; {advice('network')}")
            case h11.RemoteProtocolError():
                message = f"{where} does not speak HTTP/1.1 as it should ({error}); is base_url right?"
                raise self.fault("malformed", message)
            case OSError():
                why = error.strerror or str(error) or type(error).__name__
                raise self.fault("network", f"the connection to {where} failed ({why}); {advice('network')}")
            case _:
                raise error

    async def _refused(self, reply: "Reply") -> ProviderError:
        """The error for a status other than 2xx, with the redacted message of the server."""
        body = await reply.rest_of_error()
        message_of_server, words = error_message_in(body)
        status, headers = reply.status, reply.headers
        if 300 <= status < 400:
            message = (
                f"{self.place.origin} answered {status}: redirects are not followed; set base_url to the final address"
            )
            return self.fault("invalid_request", message, status=status)
        kind = kind_of(status, words)
        quoted = f": {self.excerpt(message_of_server, 300)}" if message_of_server else ""
        wait = None
        if kind in ProviderError.RETRYABLE:
            wait = retry_after(headers, self._clock.now())
            wait = retry_delay(body) if wait is None else wait
        message = f"{self.place.origin} answered {status}{quoted}; {self.advise(kind, status, words)}"
        return self.fault(kind, message, status=status, retry_after=wait)


class Reply:
    """An answer whose head has arrived. Read it to its end, then close it, so that the connection can be reused."""

    def __init__(self, wire: Wire, connection: "_Connection", head: h11.Response, due: float) -> None:
        self.status = head.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        self.content_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._wire, self._connection = wire, connection
        self._due, self._bytes, self._open = due, 0, True
        self._seconds = wire.first_seconds
        """Timeout for content. Comments, pings and blanks do not extend the deadline."""
        self.max_bytes = wire.max_bytes

    async def read(self) -> bytes:
        """The next piece of the body; b"" at its end."""
        try:
            event = await self._connection.event(self._due)
        except TimeoutError:
            silent = f"{self._wire.place.origin} fell silent for {self._seconds:g} seconds"
            hint = "comments and pings do not count"
            raise self._wire.fault("timeout", f"{silent} ({hint}); {advice('timeout')}") from None
        except (OSError, h11.RemoteProtocolError):
            raise self._wire.broken_off("cut the answer off") from None
        if not isinstance(event, h11.Data):
            return b""
        self._bytes += len(event.data)
        if self._bytes > self.max_bytes:
            raise self._wire.too_large()
        return bytes(event.data)

    def extend_deadline(self) -> None:
        """Part of the answer arrived, so extend the deadline."""
        self._wait(self._wire.between_seconds)

    def _wait(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = self._connection.loop.time() + seconds

    async def rest_of_error(self) -> bytes:
        body = b""
        self._wait(min(self._seconds, 10.0))
        try:
            while len(body) < ERROR_BODY_BYTES and (piece := await self.read()):
                body += piece
        except ProviderError:
            pass  # the status says enough
        finally:
            self.close()
        return body[:ERROR_BODY_BYTES]

    def close(self) -> None:
        """Reuse the connection if the answer is complete or only its end is still arriving; otherwise close it."""
        if self._open:
            self._open = False
            if self._connection.may_finish:
                self._wire.keep(self._connection)
            else:
                self._connection.abort()

    def mark_finished(self) -> None:
        """Everything of interest was read; only the end of the message may still be arriving."""
        self._connection.may_finish = True


class _Connection(asyncio.Protocol):
    """Bytes as they come in, and the state of the HTTP conversation; one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=65_536)
        self.used = self.heard = self.may_finish = False
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._ended = self._paused = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    # asyncio calls these four

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # of a TCP or TLS stream; TCP_NODELAY is asyncio's default

    def data_received(self, data: bytes) -> None:
        self.heard = True
        self._received += data
        if len(self._received) > PAUSE_BYTES and self._transport:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended, self._error = True, exc
        self._wake()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    # used by Wire and Reply

    def write(self, head: bytes, body: bytes) -> None:
        self.may_finish = self.heard = False
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("closed before the request was sent")
        self._transport.writelines((head, body))

    async def event(self, due: float) -> object:
        """The next of the conversation; what has come by then is read, and nothing is waited for any longer."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            data = await self._receive(due)
            if not data and not self.heard:
                raise ConnectionResetError("closed without an answer")
            self.http.receive_data(data)
        if isinstance(event, h11.EndOfMessage):
            self.may_finish = True
        return event

    async def _receive(self, due: float) -> bytes:
        if not self._received and not self._ended:
            self._waiter = self.loop.create_future()
            try:
                async with asyncio.timeout_at(due):
                    await self._waiter
            finally:
                self._waiter = None
        if not self._received and self._error:
            raise self._error
        return self._drain()

    def _drain(self) -> bytes:
        data = bytes(self._received)
        self._received.clear()
        if self._paused and self._transport:
            self._paused = False
            self._transport.resume_reading()
        return data

    def ready_again(self) -> bool:
        """Whether the connection can be reused: the last answer is complete, server and loop are the same."""
        if self._ended or self.loop is not asyncio.get_running_loop():
            return False
        if self.loop.time() - self.idle_since > IDLE_SECONDS:
            return False
        try:
            if self._received:
                self.http.receive_data(self._drain())
            while self.http.their_state is h11.SEND_BODY and self.http.next_event() is not h11.NEED_DATA:
                pass
            self.http.start_next_cycle()
        except h11.ProtocolError:
            return False
        return not self.http.trailing_data[0]

    def closed_while_idle(self, error: Exception) -> bool:
        return self.used and not self.heard and not isinstance(error, TimeoutError)

    def abort(self) -> None:
        if self._transport and not self.loop.is_closed():
            self._transport.abort()


def _refused(error: OSError) -> bool:
    """Whether the connection was refused. A host with several addresses gives one error that lists them."""
    return isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error)


def tls_context() -> ssl.SSLContext:
    """The TLS context. Call it in a thread, because it reads a few hundred certificates."""
    from adderclaw.models.http import own_network

    context = own_network.tls_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _through_proxy(target: Endpoint) -> socket.socket | None:
    """A connection to a model's server through the proxy that the environment names, if any."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from adderclaw.models.http import upstream

    above = upstream.of("https", target.host, target.port)
    return None if above is None else await upstream.tunnel(above, target.host, target.port, target.host)
