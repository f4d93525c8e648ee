"""Runs one generated test in the sandbox, in a copy of a tree that appears at the workspace's path."""

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
"""The time limit of a test on each tree."""
HEAD, TAIL = 24_000, 8_000
"""Bytes of each stream that are stored."""
NO_SANDBOX = (
    "tests of a plan run in a copy that replaces the workspace, which needs bubblewrap, and bubblewrap does not "
    "start here ({why}): install it, or use a machine where it works; `adderclaw doctor` checks it"
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
    """What happens to the programs of the project that a test starts (`sandbox/inside_test.py`)."""

    how: str
    names: Sequence[str]
    """Under which a shell test may start programs."""
    calls: Sequence[Sequence[object]]


class _Blind(Surveyor):
    """Surveys nothing, because a copy is removed after the test."""

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
            NO_SANDBOX.format(why=confinement.try_confinement("bubblewrap", (root,)) or "at the last attempt")
        )


async def run_test(
    language: str,
    content: str,
    *,
    root: str,
    copy: str,
    test_folder: str,
    lent: tuple[str, ...],
    shown: tuple[str, ...] = (),
    replacing: Replacing | None = None,
    seconds: float = SECONDS,
) -> Ran:
    """Runs a test with `copy` mounted in place of `root`.

    `test_folder` is an empty folder for the test's own files, `lent` the installed folders, `shown` what it may also
    read. `replacing`: what happens to the programs that the test starts.
    """
    name = FILES[language]
    workspace.write(WorkspacePath(test_folder, name), content.encode(), mode=0o644)
    command = [*COMMANDS[language], f"{test_folder}/{name}"]
    if replacing is not None:
        workspace.write(WorkspacePath(test_folder, REPLACER), inside_test.source(), mode=0o644)
        known = json.dumps({"names": replacing.names, "calls": replacing.calls})
        workspace.write(WorkspacePath(test_folder, "known.json"), known.encode(), mode=0o644)
        words = (replacing.how, language, f"{test_folder}/{name}", followed(root), f"{test_folder}/known.json")
        command = [*COMMANDS["python"], f"{test_folder}/{REPLACER}", *words]
    spec = SandboxSpec(roots=(followed(root),), stand_in=copy, lent=lent, shown=(test_folder, *shown))
    box = Box("bubblewrap", spec, surveyor=_Blind())
    own = {"AGENT_SDLC_DB": DATABASE, "ADDERCLAW_HOME": "/tmp/adderclaw", "PYTHONDONTWRITEBYTECODE": "1"}
    captures = Capture(HEAD, TAIL), Capture(HEAD, TAIL)
    began = time.monotonic()
    try:
        ended = await run(
            command,
            cwd=followed(root),
            env=environment(own, workspace_roots=spec.roots),
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
