"""The command that fills the line below the input: started in the sandbox, in the room where nothing can be written."""

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
"""How long it may take."""
MOST_BYTES = 65_536
"""Of what it prints."""
KEY = "statusLine.command"
_WORD = re.compile(r"(?<![\w./$~-])(?:~|\$HOME|\$\{HOME\})?/[\w./@+-]+")
"""A path from the root or the home, as a shell takes it with quotes or without."""


class Printed(NamedTuple):
    text: str
    failure: str = ""
    """What is wrong with it, for a person."""


def _home(word: str) -> str:
    return os.path.expanduser(re.sub(r"^\$(?:HOME|\{HOME\})", "~", word))


def files(runtime: Runtime) -> tuple[str, ...]:
    """Scripts outside of the workspace that the operator's own command names: the sandbox shows them.

    Only what is a program by its mode or its ending: another file that the command reads may be a secret, and whatever
    is shown there every command sees. A project's word opens nothing.
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
    """What the command prints for this; nothing that it starts is left behind."""
    from adderclaw.core.errors import AdderClawError
    from adderclaw.sandbox import process

    workspace, kit = session.environment.context.workspace, session.environment.kit
    roots = (workspace.root, *workspace.extra)
    more = {**kit.env, "COLUMNS": str(columns), "LINES": str(lines)}
    # the home in there is another one: the operator means theirs
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
        return Printed("", f"it could not be started: {error}")
    if done.timed_out:
        return Printed("", f"it did not end within {SECONDS:g} s")
    if done.returncode:
        complaint = " ".join(done.stderr.decode("utf-8", "replace").split())[-200:]
        return Printed("", f"it ended with {done.returncode}{f': {complaint}' if complaint else ''}")
    return Printed(done.stdout.decode("utf-8", "replace"))
