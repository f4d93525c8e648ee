"""A command that the program inside a sandbox has started for us, and the socket that controls it."""

import contextlib
import errno
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Protocol

from adderclaw.sandbox.process import ProcessRequest
from adderclaw.sandbox.programs import resolve
from adderclaw.sandbox.watchdog import CALL_MARK

NOTE = "\nadderclaw: {report}\n"
SURVIVORS = (
    "{count} of this command's processes were killed but have not ended yet; they end with the sandbox at the latest"
)


class Program(Protocol):
    """The program inside the sandbox."""

    def send(self, payload: bytes, fds: list[int]) -> None: ...

    def close(self) -> None: ...


class StartedInside:
    def __init__(self, inside: Program, order: ProcessRequest, mark: str, roots: Sequence[str], wait: float) -> None:
        """`wait`: how many seconds the program inside has to answer."""
        self._inside, self._wait = inside, wait
        self._code = -int(signal.SIGKILL)
        self._over = self._ending = False
        self._left = 0
        """The number of processes that were killed but have not ended yet."""
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            inside.send(_payload(order, order.env, mark, roots), [theirs.fileno(), *order.streams, *order.pass_fds])
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self.fd = self._channel.fileno()

    def has_ended(self) -> bool:
        message = self._receive(socket.MSG_DONTWAIT)
        if message is None:
            return False
        word, *rest = message.split(b" ", 2)
        numbers = [int(part) for part in rest if part.removeprefix(b"-").isdigit()]
        if word == b"exit" and len(numbers) == 2:
            self._code, self._over = numbers[0], bool(numbers[1])
        elif word == b"error" and numbers:
            self._over = True
            raise OSError(numbers[0], os.strerror(numbers[0]), os.fsdecode(rest[-1]) if len(rest) > 1 else None)
        else:
            self._over = True  # the channel is closed: the command or the whole sandbox has ended
        return True

    def _receive(self, flags: int = 0) -> bytes | None:
        try:
            message = self._channel.recv(4096, flags)
            if message.startswith(b"left "):
                self._left = int(message[5:])
            return message
        except BlockingIOError:
            return None
        except TimeoutError:
            raise
        except OSError:
            return b""

    def signal(self, number: int) -> None:
        self._send(b"signal %d" % number)

    def kill(self) -> None:
        if not self._ending:
            self._ending = True
            self._send(b"end")

    def _send(self, text: bytes) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(text, socket.MSG_DONTWAIT)

    @property
    def note(self) -> str:
        return NOTE.format(report=SURVIVORS.format(count=self._left)) if self._left else ""

    def close(self) -> int:
        if not self._over:
            self.kill()
            self._channel.settimeout(self._wait)
            try:
                while self._receive():
                    pass
            except TimeoutError:
                self._inside.close()  # it does not answer, so end the whole sandbox
        self._channel.close()
        return self._code


def _payload(order: ProcessRequest, env: Mapping[str, str], mark: str, roots: Sequence[str]) -> bytes:
    program = order.argv[0]
    if not os.path.isabs(program):
        resolved = resolve(program, roots)
        if resolved is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
        program = resolved
    if (wrong := next((name for name in env if not name or "=" in name), None)) is not None:
        raise ValueError(f"{wrong!r} is not a valid name of an environment variable")
    words = [" ".join(map(str, (order.view, len(order.argv), *order.pass_fds))), order.cwd, program, *order.argv[1:]]
    words += [f"{name}={value}" for name, value in env.items()]
    text = "\0".join((*words, f"{CALL_MARK}={mark}"))
    if text.count("\0") != len(words):
        raise ValueError("embedded null byte")
    return os.fsencode(text)
