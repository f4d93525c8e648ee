"""Operators at the command line: a person who answers a line, their own hand, or nobody."""

import asyncio
import os
import sys

from adderclaw.credentials.redaction import visible
from adderclaw.types import Answer, ApprovalRequest


class Terminal:
    """Asks on stderr and reads a line of stdin, whatever stdin is: empty or the end of it denies."""

    async def approve(self, request: ApprovalRequest) -> Answer:
        print(
            f"Tool request:\n  tool: {visible(request.tool)}\n  risk: {request.risk}\n"
            f"  reason: {visible(request.reason)}\n  args: {visible(request.shown)}",
            file=sys.stderr,
        )
        print("Approve? [y/N] ", end="", file=sys.stderr, flush=True)
        line = await STDIN.read()
        if line is None:
            print(file=sys.stderr)
            return Answer(approved=False, by="no_operator", comment="no answer: the end of standard input")
        word, _, comment = line.strip().partition(" ")
        return Answer(approved=word.lower() in ("y", "yes"), by="operator", comment=comment.strip())


class OwnHand:
    """The operator typed the call: what the gate would ask about is approved, what it denies stays denied."""

    async def approve(self, request: ApprovalRequest) -> Answer:
        return Answer(approved=True, by="operator", comment=f"typed {request.tool} by hand")


class Lines:
    """Lines of a descriptor, read without a thread, so that a signal is heard while a person thinks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    async def read(self) -> str | None:
        """The next line, or None at the end."""
        while b"\n" not in self._buffer:
            chunk = await self._more()
            if not chunk:
                break
            self._buffer += chunk
        line, newline, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace") if line or newline else None

    async def _more(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, lambda: ready.done() or ready.set_result(None))
        except PermissionError:
            return os.read(self._descriptor, 65536)  # a plain file: it never makes us wait
        try:
            await ready
            return os.read(self._descriptor, 65536)
        finally:
            loop.remove_reader(self._descriptor)


STDIN = Lines(0)
"""The REPL and the approvals read the same lines, in turn."""
