"""The server as a process: it listens, says where, and ends with everything at a safe point."""

import asyncio
import contextlib
import logging
import os
import resource
import socket
import ssl
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import uvicorn
from starlette.types import ASGIApp

from adderclaw import config
from adderclaw.channels.server import app, listening
from adderclaw.channels.server.house import House
from adderclaw.channels.server.listening import Address, Where
from adderclaw.channels.server.protocol import Seats, guarded
from adderclaw.errors import UsageError
from adderclaw.runtime import Options
from adderclaw.runtime.signals import ending
from adderclaw.store import clients

FILES = 16_384
"""Descriptors that we ask the system for: each connection has one, each conversation several."""
ANSWERS_END = 3
"""Seconds that answers under way have once everything else has ended."""


def run(options: Options, workspaces: Sequence[str], where: Where, *, openai: bool = False) -> int:
    """Serve until a signal comes; the exit code."""
    folders = list(workspaces) or [config.load(config_file=options.config_file, here=True).workspace]
    for folder in folders:
        if not os.path.isdir(os.path.expanduser(folder)):
            raise UsageError(f"--workspace {folder!r} is no folder")
    with ExitStack() as stack:
        lock = stack.enter_context(listening.alone())
        context = listening.tls(where)
        options = replace(options, workspace=os.path.abspath(os.path.expanduser(folders[0])))
        house = House(options, folders, hosts=listening.hosts(where), secure=context is not None, openai=openai)
        stack.callback(house.store.close)
        listening.check(where, has_token=clients.is_any_valid(house.store, house.clock.now()))
        port = stack.enter_context(listening.bound(where))
        beside = stack.enter_context(listening.unix_socket(where.socket))
        name = f"[{where.host}]" if ":" in where.host else where.host
        house.address = f"{'https' if context else 'http'}://{name}:{port.getsockname()[1]}"
        listening.announce(lock, Address(house.address, beside.getsockname() if beside else "", os.getpid()))
        _more_files()
        sockets = [(port, context), *([(beside, None)] if beside else [])]
        return asyncio.run(_serve(house, app.make(house), sockets))


def _more_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Server(uvicorn.Server):
    """Sockets and signals are ours: a signal ends what runs in the house first, and the server after that."""

    listeners: Sequence[tuple[socket.socket, ssl.SSLContext | None]] = ()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets
        loop = asyncio.get_running_loop()
        kind = guarded(Seats(most=_seats()))
        self.servers = [
            await loop.create_server(
                lambda: kind(config=self.config, server_state=self.server_state, app_state={}),
                sock=sock,
                ssl=context,
                backlog=listening.BACKLOG,
                ssl_handshake_timeout=10 if context else None,
            )
            for sock, context in self.listeners
        ]
        self.started = True


def _seats() -> int:
    """As many connections as there are descriptors for, with as many left for the work itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4_096 if soft == resource.RLIM_INFINITY else max(64, min(4_096, soft // 2))


def _made(application: ASGIApp) -> _Server:
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
    return _Server(settings)


async def _serve(
    house: House, application: ASGIApp, sockets: Sequence[tuple[socket.socket, ssl.SSLContext | None]]
) -> int:
    server = _made(application)
    server.listeners = sockets
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def stop(number: int) -> None:
        if asked.is_set():
            os._exit(128 + number)
        house.ready = False
        asked.set()

    for number in ending():
        loop.add_signal_handler(number, stop, number)
    serving = asyncio.ensure_future(server.serve())
    _announce(house)
    await asyncio.wait({serving, asyncio.ensure_future(asked.wait())}, return_when=asyncio.FIRST_COMPLETED)
    await house.close()
    server.should_exit = True
    await serving
    return 0


def _announce(house: House) -> None:
    print(f"serving {', '.join(house.workspaces)} at {house.address}", file=sys.stderr, flush=True)
    if not clients.is_any_valid(house.store, house.clock.now()):
        fix = "`adderclaw token create NAME --scope admin` makes one"
        print(f"no client has a token, so nobody can come in: {fix}", file=sys.stderr, flush=True)
