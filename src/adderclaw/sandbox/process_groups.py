"""How a child leads a group, and how that group is asked to end and killed: on POSIX and on Windows, by one interface.

The Windows part has never run on Windows: its tests script the two calls that it makes.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

CREATE_NEW_PROCESS_GROUP = 0x200
CTRL_BREAK_EVENT = 1
KILL = 9
"""SIGKILL, which Windows has no name for."""


class Groups(Protocol):
    def options(self) -> dict[str, Any]:
        """What `Popen` is given so that the child leads a group of its own."""
        ...

    def signal(self, leader: int, number: int) -> None:
        """To the whole group. One that has ended is no error."""
        ...

    def kill(self, leader: int) -> None:
        """The whole group, now."""
        ...


class Posix:
    def options(self) -> dict[str, Any]:
        return {"start_new_session": True}

    def signal(self, leader: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)

    def kill(self, leader: int) -> None:
        self.signal(leader, KILL)


class Windows:
    """A new group ignores CTRL_C_EVENT, and that event cannot be sent to one group alone. CTRL_BREAK_EVENT can."""

    def __init__(
        self, send: Callable[[int, int], object] = os.kill, run: Callable[[Sequence[str]], object] | None = None
    ) -> None:
        self._send, self._run = send, run or _finished

    def options(self) -> dict[str, Any]:
        return {"creationflags": CREATE_NEW_PROCESS_GROUP}

    def signal(self, leader: int, number: int) -> None:
        if number == KILL:
            self.kill(leader)
            return
        with contextlib.suppress(OSError):
            self._send(leader, CTRL_BREAK_EVENT)

    def kill(self, leader: int) -> None:
        # By its whole path: Windows looks for a bare name in the current folder first.
        system = os.environ.get("SystemRoot", "C:\\Windows")  # noqa: SIM112 - Windows spells it so
        with contextlib.suppress(OSError):
            self._run((f"{system}\\System32\\taskkill.exe", "/T", "/F", "/PID", str(leader)))


def of_system() -> Groups:
    return Windows() if sys.platform == "win32" else Posix()


def _finished(argv: Sequence[str]) -> None:
    import subprocess

    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=5)
