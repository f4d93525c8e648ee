"""Runs one generated test: in the sandbox, in a copy of a tree that it sees at the workspace's own path."""

import json
import time
from collections.abc import Sequence

from adderclaw.config.denied_names import NOTHING, DeniedNames
from adderclaw.config.paths import followed
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox import confinement, inside_test, workspace
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.capture import Capture
from adderclaw.sandbox.legacy.survey import MOST_FOLDERS, Survey, Surveyor
from adderclaw.sandbox.process import StartFailed, environment, run
from adderclaw.sandbox.workspace import WorkspacePath

SECONDS = 120.0
"""What one test has, on each tree."""
HEAD, TAIL = 24_000, 8_000
"""Bytes of each stream that are kept."""
NO_SANDBOX = (
    "tests of a plan run in the sandbox, in place of the workspace, which only bubblewrap can do, and it does not "
    "start here ({why}): install it, or run where it works; `adderclaw doctor` tries it"
)
DATABASE = "/tmp/sdlc.db"
REPLACER = "replacer.py"
FILES = {"python": "test.py", "sh": "test.sh"}
COMMANDS = {"python": ("python3", "-I", "-B"), "sh": ("bash", "--norc", "--noprofile")}


class Ran(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


class Replacing(NamedTuple):
    """What is done with the programs of the project that a test starts (`sandbox/inside_test.py`)."""

    how: str
    names: Sequence[str]
    """By which a test in sh may start programs."""
    calls: Sequence[Sequence[object]]


class _NoSurvey(Surveyor):
    """Surveys nothing: a copy is deleted after the test, so no program runs its files later."""

    def survey(
        self,
        roots: Sequence[str],  # noqa: ARG002
        further: Sequence[str] = (),  # noqa: ARG002
        most: int = MOST_FOLDERS,  # noqa: ARG002
        shut: DeniedNames = NOTHING,  # noqa: ARG002
    ) -> Survey:
        return Survey()


def require_sandbox(root: str) -> None:
    if confinement.probe((root,)) != "bubblewrap":
        raise AdderClawError(
            NO_SANDBOX.format(why=confinement.try_confinement("bubblewrap", (root,)) or "at the last trial")
        )


async def run_test(
    language: str,
    content: str,
    *,
    root: str,
    copy: str,
    beside: str,
    places: tuple[str, ...],
    shown: tuple[str, ...] = (),
    replacing: Replacing | None = None,
    seconds: float = SECONDS,
) -> Ran:
    """`copy` is seen in place of `root`; `beside` is an empty folder of ours, `places` are lent, `shown` is read.
    `replacing`: what is done with the programs that the test starts."""
    name = FILES[language]
    workspace.write(WorkspacePath(beside, name), content.encode(), mode=0o644)
    command = [*COMMANDS[language], f"{beside}/{name}"]
    if replacing is not None:
        workspace.write(WorkspacePath(beside, REPLACER), inside_test.source(), mode=0o644)
        known = json.dumps({"names": replacing.names, "calls": replacing.calls})
        workspace.write(WorkspacePath(beside, "known.json"), known.encode(), mode=0o644)
        words = (replacing.how, language, f"{beside}/{name}", followed(root), f"{beside}/known.json")
        command = [*COMMANDS["python"], f"{beside}/{REPLACER}", *words]
    room = SandboxSpec(roots=(followed(root),), stand_in=copy, lent=places, shown=(beside, *shown))
    box = Box("bubblewrap", room, surveyor=_NoSurvey())
    own = {"AGENT_SDLC_DB": DATABASE, "ADDERCLAW_HOME": "/tmp/adderclaw", "PYTHONDONTWRITEBYTECODE": "1"}
    captures = Capture(HEAD, TAIL), Capture(HEAD, TAIL)
    began = time.monotonic()
    try:
        ended = await run(
            command,
            cwd=followed(root),
            env=environment(own, workspace_roots=room.roots),
            timeout=seconds,
            start=box.start,
            into=captures,
        )
    except StartFailed as error:
        raise AdderClawError(f"the test could not be started: {error.filename or ''} {error.strerror}") from error
    finally:
        box.close()
    took = round(time.monotonic() - began, 3)
    return Ran(ended.returncode, _text(ended.stdout), _text(ended.stderr), took, ended.timed_out)


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "replace").replace("\0", "\ufffd")
