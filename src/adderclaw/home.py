"""Where AdderClaw's own folder is."""

import os


def home() -> str:
    """$ADDERCLAW_HOME, else ~/.adderclaw."""
    return os.path.abspath(os.path.expanduser(os.environ.get("ADDERCLAW_HOME") or "~/.adderclaw"))
