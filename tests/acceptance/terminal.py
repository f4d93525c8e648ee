"""The program at a terminal of its own, as a person sits there."""

import os
import subprocess

from tests.acceptance.world import World
from tests.program import PROGRAM


def at_a_terminal(
    world: World, *arguments: str, typed: tuple[tuple[str, str], ...] = (), ahead: str = ""
) -> tuple[int, str]:
    """The exit code and all that was shown. Of `typed` each text waits until its mark is shown anew; `ahead` is typed
    before the program begins."""
    terminal, theirs = os.openpty()
    os.write(terminal, ahead.encode())
    program = subprocess.Popen(
        [PROGRAM, *arguments],
        cwd=world.workspace,
        env={"TERM": "xterm", **world.cli.env},
        start_new_session=True,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown, seen, waiting = b"", 0, list(typed)
    while True:
        try:
            shown += os.read(terminal, 65_536)
        except OSError:  # the program has ended
            break
        while waiting and (at := shown.find(waiting[0][0].encode(), seen)) >= 0:
            seen = at + len(waiting[0][0])
            os.write(terminal, waiting.pop(0)[1].encode())
    os.close(terminal)
    return program.wait(), shown.decode()
