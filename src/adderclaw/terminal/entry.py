"""The entry point. Until the command line can report Ctrl-C, SIGINT ends the process as in any program."""

import atexit
import os
import signal
import sys

NATIVE_WINDOWS = (
    "adderclaw: Windows is supported under WSL 2 alone: run `wsl --install`, then install adderclaw in that Linux and "
    "start it there (docs/systems.md)"
)
_ending: list[int] = []
"""The exit code, once the program has ended in order."""


def main() -> None:
    if sys.platform == "win32":
        print(NATIVE_WINDOWS, file=sys.stderr)
        sys.exit(1)
    atexit.register(_leave)  # registered first, called last
    early = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # otherwise our parent wants it ignored
    if early:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from adderclaw.terminal import commands

    try:
        if early:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        commands.main()
        _ending.append(0)
    except SystemExit as ended:
        _ending.append(int(isinstance(ended.code, str)) if not isinstance(ended.code, int) else ended.code)
        raise
    except KeyboardInterrupt:  # a second one while the first was reported
        sys.exit(130)


def _leave() -> None:
    """Exits without the interpreter's own teardown, which takes longer than many commands."""
    if not _ending or sys.gettrace() is not None:  # coverage must write its data
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return  # the interpreter reports it
    os._exit(_ending[0] & 0xFF)
