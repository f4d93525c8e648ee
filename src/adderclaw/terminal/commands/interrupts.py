"""Makes SIGINT end every command, no matter how the program was started or what it was doing."""

import os
import select
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager


def restore_sigint() -> None:
    """A shell without job control starts `adderclaw … &` with SIGINT ignored, and Python leaves it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interrupt_in_pauses() -> Generator[Callable[[float], None]]:
    """A `sleep` that SIGINT ends even if it arrived just before, or if its exception was lost in a destructor."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def pause(seconds: float) -> None:
        ready, _, _ = select.select([reader], [], [], seconds)
        if ready and signal.SIGINT in os.read(reader, 4096):
            raise KeyboardInterrupt

    try:
        yield pause
        pause(0)
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
