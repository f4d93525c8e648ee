"""Windows as far as the platform's name and the modules that it lacks go."""

import sys

for name in ("fcntl", "pwd", "grp", "termios", "resource"):
    sys.modules[name] = None  # type: ignore[assignment]
sys.platform = "win32"
