"""Stdin and stdout as pipes of the event loop: lines of bounded length in, and a separate descriptor for output."""

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import IO


async def lines(reader: asyncio.StreamReader, room: Callable[[], Awaitable[None]]) -> AsyncGenerator[bytes | None]:
    """Each line of the input; None for a line that is longer than the reader's limit.

    `room` is awaited before each line, so that the caller can limit what is read.
    """
    while True:
        await room()
        try:
            yield await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            yield error.partial
            return
        except asyncio.LimitOverrunError as error:
            await skip_line(reader, error.consumed)
            yield None


async def skip_line(reader: asyncio.StreamReader, held: int) -> None:
    """Skip the rest of a line that is too long."""
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
    """Stdin; if it is a file, which an event loop cannot wait for, a pipe that a thread fills from it."""
    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0):
        return sys.stdin.buffer
    ours, theirs = os.pipe()
    threading.Thread(target=_copy, args=(os.dup(0), theirs), daemon=True).start()
    return os.fdopen(ours, "rb", buffering=0)


async def writer(loop: asyncio.AbstractEventLoop) -> tuple[asyncio.StreamWriter, Callable[[], None]]:
    """A writer to stdout on a separate descriptor, and a function that waits until everything is written.

    Anything else that is printed on stdout goes to stderr from now on.
    """
    end = os.dup(1)
    os.dup2(2, 1)
    thread: threading.Thread | None = None
    if stat.S_ISREG(os.fstat(end).st_mode):
        ours, theirs = os.pipe()
        thread = threading.Thread(target=_copy, args=(ours, end), daemon=True)
        thread.start()
        end = theirs

    def wait() -> None:
        if thread is not None:
            thread.join(5)

    own = os.fdopen(end, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, own)
    return asyncio.StreamWriter(transport, protocol, None, loop), wait


def _copy(source: int, target: int) -> None:
    """Copy everything from one descriptor to another, then close both."""
    try:
        with open(source, "rb", buffering=0) as reader, open(target, "wb", buffering=0) as writer:
            while data := reader.read(65_536):
                while data:
                    data = data[writer.write(data) :]
    except OSError:
        return
