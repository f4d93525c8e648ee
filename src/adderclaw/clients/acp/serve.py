"""Serves the protocol on stdin and stdout until the editor disconnects or a signal arrives."""

import asyncio
import logging
import sys
from typing import Any, cast

from acp.agent.connection import AgentSideConnection

from adderclaw.agent.run import Options
from adderclaw.agent.run.signals import ending
from adderclaw.clients import stdio
from adderclaw.clients.acp.agent import Agent
from adderclaw.clients.acp.wire import MOST_BYTES, Frames
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import Secrets, visible


class _OneLine(logging.Handler):
    """Writes the SDK's log to stderr, one line per record and without tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        text = f"{record.getMessage()}: {type(error).__name__}: {error}" if error is not None else record.getMessage()
        print(f"adderclaw: acp: {visible(Secrets().clean(text), keep_newlines=False)[:1_000]}", file=sys.stderr)


async def serve(options: Options) -> int:
    """Serve until the connection ends; returns the exit code."""
    if sys.stdin is None or sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - None where they are closed
        raise UsageError("acp needs stdin and stdout, which connect it to the editor")
    if sys.stdin.isatty():
        print("adderclaw: acp waits for an editor's messages on stdin; see docs/editors.md", file=sys.stderr)
    logging.basicConfig(handlers=[_OneLine()], level=logging.WARNING)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdio.readable())
    writer, written = await stdio.writer(loop)
    frames, agent = Frames(reader, writer), Agent(options)
    connection = AgentSideConnection(cast(Any, agent), frames, listening=False, use_unstable_protocol=True)
    signalled: asyncio.Future[int] = loop.create_future()
    for number in ending():
        loop.add_signal_handler(number, lambda got=number: signalled.done() or signalled.set_result(got))
    listening = asyncio.ensure_future(connection.listen())
    waits: list[asyncio.Future[Any]] = [listening, signalled, asyncio.ensure_future(frames.ended.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    await agent.end()
    await connection.close()
    for task in waits:
        task.cancel()
    written()
    return 128 + signalled.result() if signalled.done() and not signalled.cancelled() else 0
