"""Stdin and stdout as pipes of the event loop: lines in, of a bounded length, and a way out of our own."""

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import IO


async def lines(reader: asyncio.StreamReader, room: Callable[[], Awaitable[None]]) -> AsyncGenerator[bytes | None]:
    """Each line, up to the end of the input; None for one that is longer than the reader's limit."""
    while True:
        await room()
        try:
            yield await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            yield error.partial
            return
        except asyncio.LimitOverrunError as error:
            await _skip(reader, error.consumed)
            yield None


async def _skip(reader: asyncio.StreamReader, held: int) -> None:
    """To the end of a line that is too long."""
    await reader.readexactly(held)
    while True:
        try:
            await reader.readuntil(b"\n")
            return
        except asyncio.LimitOverrunError as error:
            await reader.readexactly(error.consumed)
        except asyncio.IncompleteReadError:
            return


def readable() -> IO[bytes]:
    """Stdin, or a pipe that a thread fills from it where it is a file, which no event loop can wait for."""
    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0):
        return sys.stdin.buffer
    ours, theirs = os.pipe()
    threading.Thread(target=_pumped, args=(os.dup(0), theirs), daemon=True).start()
    return os.fdopen(ours, "rb", buffering=0)


async def writer(loop: asyncio.AbstractEventLoop) -> tuple[asyncio.StreamWriter, Callable[[], None]]:
    """The client's end, on a descriptor of its own: all else goes to stderr. And what waits for the rest."""
    end = os.dup(1)
    os.dup2(2, 1)
    wait: Callable[[], None] = _nothing
    if stat.S_ISREG(os.fstat(end).st_mode):
        ours, theirs = os.pipe()
        thread = threading.Thread(target=_pumped, args=(ours, end), daemon=True)
        thread.start()
        end, wait = theirs, lambda: thread.join(5)
    own = os.fdopen(end, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, own)
    return asyncio.StreamWriter(transport, protocol, None, loop), wait


def _nothing() -> None:
    return None


def _pumped(source: int, target: int) -> None:
    """Everything from one descriptor to another, then both are closed."""
    try:
        with open(source, "rb", buffering=0) as reader, open(target, "wb", buffering=0) as writer:
            while data := reader.read(65_536):
                while data:
                    data = data[writer.write(data) :]
    except OSError:
        return
