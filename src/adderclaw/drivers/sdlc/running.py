"""Runs one generated test: in the sandbox, in a copy of a tree that it sees at the workspace's own path."""

import time
from collections.abc import Sequence

from adderclaw import workspace
from adderclaw.config.paths import followed
from adderclaw.errors import AdderClawError
from adderclaw.record import NamedTuple
from adderclaw.sandbox import confinement
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import Room
from adderclaw.sandbox.capture import Capture
from adderclaw.sandbox.process import NotStarted, environment, run
from adderclaw.workspace import Place
from adderclaw.workspace.shut import NOTHING, Shut
from adderclaw.workspace.survey import MOST_FOLDERS, Survey, Surveyor

SECONDS = 120.0
"""What one test has, on each tree."""
HEAD, TAIL = 24_000, 8_000
"""Bytes of each stream that are kept."""
NO_SANDBOX = (
    "tests of a plan run in the sandbox, in place of the workspace, which only bubblewrap can do, and it does not "
    "start here ({why}): install it, or run where it works; `adderclaw doctor` tries it"
)
DATABASE = "/tmp/sdlc.db"
FILES = {"python": "test.py", "sh": "test.sh"}
COMMANDS = {"python": ("python3", "-I", "-B"), "sh": ("bash", "--norc", "--noprofile")}


class Ran(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


class _Blind(Surveyor):
    """Nobody looks at a copy: what becomes of it, nobody runs later."""

    def look(
        self,
        roots: Sequence[str],  # noqa: ARG002
        further: Sequence[str] = (),  # noqa: ARG002
        most: int = MOST_FOLDERS,  # noqa: ARG002
        shut: Shut = NOTHING,  # noqa: ARG002
    ) -> Survey:
        return Survey()


def require_sandbox(root: str) -> None:
    if confinement.probe((root,)) != "bubblewrap":
        raise AdderClawError(NO_SANDBOX.format(why=confinement.trial("bubblewrap", (root,)) or "at the last trial"))


async def run_test(
    language: str,
    content: str,
    *,
    root: str,
    copy: str,
    beside: str,
    places: tuple[str, ...],
    shown: tuple[str, ...] = (),
) -> Ran:
    """`copy` is seen in place of `root`; `beside` is an empty folder of ours, `places` are lent, `shown` is read."""
    name = FILES[language]
    workspace.write(Place(beside, name), content.encode(), mode=0o644)
    room = Room(roots=(followed(root),), stand_in=copy, lent=places, shown=(beside, *shown))
    box = Box("bubblewrap", room, surveyor=_Blind())
    own = {"AGENT_SDLC_DB": DATABASE, "ADDERCLAW_HOME": "/tmp/adderclaw", "PYTHONDONTWRITEBYTECODE": "1"}
    kept = Capture(HEAD, TAIL), Capture(HEAD, TAIL)
    began = time.monotonic()
    try:
        ended = await run(
            [*COMMANDS[language], f"{beside}/{name}"],
            cwd=followed(root),
            env=environment(own, workspace_roots=room.roots),
            timeout=SECONDS,
            start=box.start,
            into=kept,
        )
    except NotStarted as error:
        raise AdderClawError(f"the test could not be started: {error.filename or ''} {error.strerror}") from error
    finally:
        box.close()
    seconds = round(time.monotonic() - began, 3)
    return Ran(ended.returncode, _text(ended.stdout), _text(ended.stderr), seconds, ended.timed_out)


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "replace").replace("\0", "\ufffd")
