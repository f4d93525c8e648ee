"""A process that exchanges two names with each other as fast as it can: what a hostile background task would do."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

AT_FDCWD, RENAME_EXCHANGE = -100, 2
SOURCE = Path(__file__)


class Swapper:
    """A running exchange; `count` is known when it has ended."""

    def __init__(self, one: Path, other: Path) -> None:
        self.count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(SOURCE), str(one), str(other)], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"began\n"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        out, _ = self._process.communicate(timeout=60)
        self.count = int(out)


@contextmanager
def swapping(one: Path, other: Path) -> Generator[Swapper]:
    """While the block runs, what is called `one` is now the one and now the other; afterwards as it was."""
    swapper = Swapper(one, other)
    try:
        yield swapper
    finally:
        swapper.stop()


def _exchange(one: bytes, other: bytes) -> None:
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    if renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _main(one: bytes, other: bytes) -> None:
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    _exchange(one, other)
    count = 1
    print("began", flush=True)
    while not stopped or count % 2:
        _exchange(one, other)
        count += 1
    print(count, flush=True)


def main() -> NoReturn:
    _main(os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]))
    raise SystemExit


if __name__ == "__main__":
    main()
