"""Runs the operator's status line command in a read-only sandbox."""

import os
import re
import stat
from typing import TYPE_CHECKING

from adderclaw.agent.run.start import Runtime, operators_own
from adderclaw.config.paths import beneath, followed
from adderclaw.config.trust.named_files import SCRIPT
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox.workspace import stat_target

if TYPE_CHECKING:
    from adderclaw.agent.session.session import Session

SECONDS = 5.0
"""The command's time limit."""
MOST_BYTES = 65_536
"""Maximum bytes of its output."""
KEY = "statusLine.command"
_WORD = re.compile(r"(?<![\w./$~-])(?:~|\$HOME|\$\{HOME\})?/[\w./@+-]+")
"""An absolute path or one below the home, as in a shell command, quoted or not."""


class Printed(NamedTuple):
    text: str
    failure: str = ""
    """Why the command failed, for a person."""


def _home(word: str) -> str:
    return os.path.expanduser(re.sub(r"^\$(?:HOME|\{HOME\})", "~", word))


def files(runtime: Runtime) -> tuple[str, ...]:
    """Scripts outside of the workspace that the operator's own command names, which the sandbox shows.

    Only files that are programs by their mode or extension: any other file may be secret, and every command in the
    sandbox can read what is shown. A project's settings add nothing.
    """
    command = runtime.config.statusLine.command
    if not command or not _is_operators(runtime):
        return ()
    root = followed(runtime.loaded.workspace)
    paths = (_home(word) for word in _WORD.findall(command))
    return tuple(path for path in dict.fromkeys(paths) if _is_program(path) and not beneath(followed(path), root))


def _is_operators(runtime: Runtime) -> bool:
    origin = runtime.loaded.origins.get(KEY, "")
    foreign = any(os.path.dirname(origin) == home for home in runtime.foreign_homes)
    return foreign or operators_own(runtime.options, runtime.loaded, KEY)


def _is_program(path: str) -> bool:
    status = stat_target(path)
    return (
        status is not None and stat.S_ISREG(status.st_mode) and (bool(status.st_mode & 0o111) or path.endswith(SCRIPT))
    )


async def run(runtime: Runtime, session: "Session", stdin: bytes, columns: int, lines: int) -> Printed:
    """Run the command with this input; all its processes are ended."""
    from adderclaw.core.errors import AdderClawError
    from adderclaw.sandbox import process

    workspace, kit = session.environment.context.workspace, session.environment.kit
    roots = (workspace.root, *workspace.extra)
    more = {**kit.env, "COLUMNS": str(columns), "LINES": str(lines)}
    # the sandbox has another home, but the operator means their own
    command = _WORD.sub(lambda word: _home(word[0]), runtime.config.statusLine.command)
    try:
        done = await process.run(
            ("/bin/sh", "-c", command),
            cwd=workspace.root,
            env=process.environment(more, workspace_roots=roots),
            timeout=SECONDS,
            max_bytes=MOST_BYTES,
            stdin=stdin,
            start=process.in_view(kit.start, "read_only"),
        )
    except (AdderClawError, OSError) as error:
        return Printed("", f"could not be started: {error}")
    if done.timed_out:
        return Printed("", f"did not end within {SECONDS:g} s")
    if done.returncode:
        complaint = " ".join(done.stderr.decode("utf-8", "replace").split())[-200:]
        return Printed("", f"exited with {done.returncode}{f': {complaint}' if complaint else ''}")
    return Printed(done.stdout.decode("utf-8", "replace"))
