"""The SDK's stdio transport over a child process in the session's sandbox."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from adderclaw.core.json_text import check_size
from adderclaw.sandbox.piped import PipedProcess

MAX_BAD_LINES = 200
"""Lines on stdout that are not messages, after which the connection ends."""


@asynccontextmanager
async def child_streams(child: PipedProcess) -> AsyncGenerator[TransportStreams]:
    """Message streams to and from the child, one message per line. The child always ends with them."""
    inward, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outward = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, child, inward)
            tasks.start_soon(_write, child, outward)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()
        await child.stop()
    except Exception:
        await child.stop()  # why it failed is in its exit code and its last words
        raise
    finally:
        child.abandon()
        for stream in (inward, read, write, outward):
            stream.close()


async def _read(child: PipedProcess, inward: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    rubbish = 0
    with inward:
        while rubbish <= MAX_BAD_LINES and (line := await _line(child)):
            child.report_first_output()
            try:
                check_size(line)
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                rubbish += bool(line.strip())
                continue
            try:
                await inward.send(SessionMessage(message))
            except anyio.BrokenResourceError:
                return


async def _line(child: PipedProcess) -> bytes:
    try:
        return await child.stdout.readline()
    except ValueError:  # longer than the reader takes
        return b""


async def _write(child: PipedProcess, outward: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with outward:
        async for message in outward:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            child.stdin.write(text.encode("utf-8", "replace") + b"\n")
            try:
                await child.stdin.drain()
            except OSError:
                return  # it has ended: the reader sees that too
