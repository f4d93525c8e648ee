"""Finds the operator's editor outside of every folder that a run may write to."""

import os
import shlex

from adderclaw.core.errors import UsageError
from adderclaw.sandbox import programs


def command() -> list[str]:
    """The command that starts the editor, from VISUAL or EDITOR, else `vi`."""
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi") or ["vi"]
    program = programs.resolve_outside_sessions(words[0])
    if program is None:
        fix = "set EDITOR to another one, or give the text with --value"
        raise UsageError(f"the editor {words[0]!r} was not found on PATH outside of projects: {fix}")
    return [program, *words[1:]]


def pin_editor() -> None:
    """Put its whole path into VISUAL, where prompt_toolkit looks; without an editor that uses one of /usr/bin."""
    try:
        os.environ["VISUAL"] = shlex.join(command())
    except UsageError:
        for name in ("VISUAL", "EDITOR"):
            os.environ.pop(name, None)
