"""Windows as far as signals, locks and the platform's name go."""

import asyncio
import os
import signal
import sys

WHOLE = "ADDERCLAW_TEST_SIGNALS_ALONE" not in os.environ
"""Else the platform is Linux with the signals of Windows, so that a run of our program can be seen to its end."""

for name in ("SIGHUP", "SIGQUIT", "pthread_sigmask", "pthread_kill", "sigwait"):
    delattr(signal, name)
for name in ("add_signal_handler", "remove_signal_handler"):
    delattr(asyncio.SelectorEventLoop, name)  # what it inherits raises NotImplementedError

if WHOLE:
    for name in ("fcntl", "pwd", "grp", "termios", "resource"):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.platform = "win32"
