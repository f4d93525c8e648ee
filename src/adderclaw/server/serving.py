"""The server process: listens, announces its address, and shuts down at a safe point."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import uvicorn
from starlette.types import ASGIApp

from adderclaw import config
from adderclaw.agent.queries import notices
from adderclaw.agent.run import Options
from adderclaw.agent.run.signals import ending
from adderclaw.core.errors import UsageError
from adderclaw.flows.schedules.ticking import tick_forever
from adderclaw.models.http import own_server
from adderclaw.models.http.own_server import Running
from adderclaw.server import app, listening
from adderclaw.server.limits import ANSWERS_END, EXIT_SLACK, LAST_NOTICES
from adderclaw.server.listening import Listen
from adderclaw.server.protocol import ConnectionLimits, connection_class
from adderclaw.server.state import ServerState
from adderclaw.storage import clients
from adderclaw.storage.files import folder_of

OPEN_FILES = 16_384
"""The requested limit of open files: each connection needs one, each conversation several."""
LAST_EVENTS = 0.5
"""Seconds for streams to send the end of what they follow."""


def serve(options: Options, workspaces: Sequence[str], where: Listen, *, openai: bool = False) -> int:
    """Serve until a signal arrives. Returns the exit code."""
    loaded = config.load(config_file=options.config_file, workspace=next(iter(workspaces), None), here=True)
    grace = loaded.config.runtime.signal_grace_seconds
    folders = list(workspaces) or [loaded.workspace]
    for folder in folders:
        if not os.path.isdir(os.path.expanduser(folder)):
            raise UsageError(f"--workspace {folder!r} is not a folder")
    memory = loaded.config.memory
    if memory.backend == "file" or os.path.isdir(folder_of(memory.path)):
        fix = 'set [memory] backend = "sqlite", and path to a file on a local disk'
        raise UsageError(f"{memory.path} is stored in files, which allow only one conversation at a time: {fix}")
    with ExitStack() as stack:
        stack.enter_context(listening.hold_lock())
        context = listening.tls_context(where)
        options = replace(options, workspace=os.path.abspath(os.path.expanduser(folders[0])))
        state = ServerState(
            options, folders, hosts=listening.host_names(where), secure=context is not None, openai=openai
        )
        stack.callback(state.store.close)
        clients.delete_ended(state.store, state.clock.now())
        listening.check_address(where, has_token=clients.is_any_valid(state.store, state.clock.now()))
        port = stack.enter_context(listening.bind(where))
        unix_socket = stack.enter_context(listening.unix_socket(where.socket))
        name = f"[{where.host}]" if ":" in where.host else where.host
        number = int(port.getsockname()[1])
        state.address = f"{'https' if context else 'http'}://{name}:{number}"
        _forbid_inspection()
        own_server.write(Running(state.address, number, unix_socket.getsockname() if unix_socket else "", os.getpid()))
        _raise_file_limit()
        sockets = [(port, context), *([(unix_socket, None)] if unix_socket else [])]
        server = Server(app.make_app(state), sockets, ConnectionLimits(most=_connection_limit()))
        return asyncio.run(_serve_until_signal(state, server, grace))


def _forbid_inspection() -> None:
    """Keep unprivileged processes from reading the memory, environment and open files of the server."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


type Listener = tuple[socket.socket, ssl.SSLContext | None]


class Server(uvicorn.Server):
    """Listens on sockets that are already bound. Leaves signals to `_serve_until_signal`, which ends runs first."""

    def __init__(self, application: ASGIApp, listeners: Sequence[Listener], seats: ConnectionLimits) -> None:
        logging.getLogger("uvicorn").addHandler(logging.NullHandler())
        logging.getLogger("uvicorn").propagate = False
        settings = uvicorn.Config(
            application,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=ANSWERS_END,
        )
        super().__init__(settings)
        self._listeners, self._seats = listeners, seats

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets
        loop = asyncio.get_running_loop()
        kind = connection_class(self._seats)
        self.servers = [
            await loop.create_server(
                lambda: kind(config=self.config, server_state=self.server_state, app_state={}),
                sock=sock,
                ssl=context,
                backlog=listening.BACKLOG,
                ssl_handshake_timeout=10 if context else None,
            )
            for sock, context in self._listeners
        ]
        self.started = True


def _connection_limit() -> int:
    """The most connections: half of the file descriptors, the rest is for the work itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4_096 if soft == resource.RLIM_INFINITY else max(64, min(4_096, soft // 2))


async def _serve_until_signal(state: ServerState, server: Server, grace: float) -> int:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def stop(number: int) -> None:
        if asked.is_set():
            os._exit(128 + number)
        state.ready = False  # first, so that a load balancer sends no new work
        asked.set()
        last = threading.Timer(grace + LAST_NOTICES + ANSWERS_END + EXIT_SLACK, os._exit, (128 + number,))
        last.daemon = True
        last.start()  # exits even if something hangs; the watchdogs of the sandboxes end its processes
        name = signal.Signals(number).name
        state.record_event({"event_type": "signal_received", "signal": name})
        state.record_event({"event_type": "graceful_shutdown_started", "reason": name, "grace_seconds": grace})

    def complain(text: str) -> None:
        """Called from another thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_warn, state, text)

    for number in ending():
        loop.add_signal_handler(number, stop, number)
    serving = asyncio.ensure_future(server.serve())
    ticking = asyncio.ensure_future(
        tick_forever(state.scheduler, state.store, state.address, lambda text: _warn(state, text))
    )
    courier = notices.courier_of(state.options, complain)
    print(f"serving {', '.join(state.workspaces)} at {state.address}", file=sys.stderr, flush=True)
    if not clients.is_any_valid(state.store, state.clock.now()):
        fix = "`adderclaw dashboard` opens the pages, `adderclaw token create NAME` creates a token for a program"
        print(f"no client has a token yet: {fix}", file=sys.stderr, flush=True)
    _tell_manager(b"READY=1")
    await asyncio.wait({serving, asyncio.ensure_future(asked.wait())}, return_when=asyncio.FIRST_COMPLETED)
    ticking.cancel()
    try:
        await asyncio.wait_for(state.close(), grace)
    except TimeoutError:
        print(f"not everything ended within {grace:g} s: the rest was interrupted and can be resumed", file=sys.stderr)
    if courier is not None:
        await asyncio.to_thread(courier.close, LAST_NOTICES)
    if state.streams:  # let them send the end of what they follow; streams of pages never end by themselves
        await asyncio.wait({*state.streams}, timeout=LAST_EVENTS)
        for stream in state.streams:
            stream.cancel()
    server.should_exit = True
    await serving
    return 0


def _warn(state: ServerState, text: str) -> None:
    state.record_event({"event_type": "warning", "message": text})


def _tell_manager(text: bytes) -> None:
    """Tell the service manager that the server listens (sd_notify(3)); child processes must not inherit the socket."""
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto(text, "\0" + address[1:] if address[0] == "@" else address)
