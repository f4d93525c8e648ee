"""Lays out a task's repository, and checks what a run made of it: in the sandbox, by what commands print.

The checks begin when the run has ended and nothing of it runs any more. Only commands and their input go into the
sandbox. What they must print is compared here, so that no file which a run leaves (a changed test, a conftest.py, a
module that ends the process with success) can make a check pass without the right answer. Each command gets a copy of
the workspace as the run left it, and a sandbox of its own: nothing can count which check it is.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping

from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.sandbox import confinement, workspace
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.process import Finished, View, environment, in_view, run
from adderclaw.sandbox.workspace import WorkspacePath
from bench.tasks.catalogue import FOLDER, Probe, Task

SECONDS = 30.0
"""What one command of a check has."""
MOST = 1 << 18
"""Bytes of what it prints that are read."""
MOST_LEFT = 1 << 30
"""Bytes of a workspace that is copied for each check; a file with holes counts whole."""
BEGIN = "git init -q -b main; git config user.name 'Sam Porter'; git config user.email sam@example.com\n"
COMMIT = "git add -A; git commit -q -m 'Initial commit'"
WHO = {
    f"GIT_{who}_{name}": value
    for who in ("AUTHOR", "COMMITTER")
    for name, value in (("NAME", "Sam Porter"), ("EMAIL", "sam@example.com"), ("DATE", "2026-01-05T09:00:00Z"))
}
IMPORT = (
    "import sys; sys.dont_write_bytecode = True; sys.path.insert("
    "next((at for at, way in enumerate(sys.path) if way.endswith('-packages')), len(sys.path)), '.')\n"
)
"""Modules of the workspace go before installed ones, and behind Python's own: none of those is a run's."""


class Workspace:
    """A workspace of one task: its repository is made in it, and checked."""

    def __init__(self, root: str) -> None:
        self.root = root

    async def lay_out(self, task: Task) -> None:
        self._put(task.files)
        made = await self._run(["bash", "-euc", BEGIN + (task.setup or COMMIT)], view="git", more=WHO)
        if made.returncode:
            raise AdderClawError(f"the task's repository could not be made: {made.stderr.decode('utf-8', 'replace')}")

    async def failed(self, task: Task) -> list[str]:
        """The checks that do not hold, by what they look at; none: the task is done."""
        left = f"{self.root}-left"
        os.rename(self.root, left)
        try:
            return [f"{probe.what}: {why}" for probe in task.check if (why := await self._wrong(task, probe, left))]
        finally:
            os.rename(left, self.root)

    async def _wrong(self, task: Task, probe: Probe, left: str) -> str:
        try:
            try:
                _copy(left, self.root)
                for name in probe.same:
                    if (
                        workspace.read(WorkspacePath(self.root, name), MOST).decode("utf-8", "replace")
                        != task.files[name]
                    ):
                        return f"{name} was changed"
                self._put({name: task.files[name] for name in probe.back} | (probe.put or {}))
            except (OSError, PathRefused) as error:
                return str(error)
            argv = _argv(probe)
            return "" if argv is None else _difference(probe, await self._run(argv, stdin=probe.stdin.encode()))
        finally:
            with contextlib.suppress(FileNotFoundError):
                empty(self.root)

    def _put(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            place = WorkspacePath(self.root, name)
            workspace.make_folders(place.parent)
            workspace.write(place, text.encode(), mode=0o755 if text.startswith("#!") else 0o644)

    async def _run(
        self, argv: list[str], *, stdin: bytes = b"", view: View = "all", more: Mapping[str, str] | None = None
    ) -> Finished:
        own = {"PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8", **(more or {})}
        env = environment(own, workspace_roots=(self.root,))
        box = sandbox(self.root)
        start = in_view(box.start, view)
        try:
            return await run(argv, cwd=self.root, env=env, timeout=SECONDS, max_bytes=MOST, stdin=stdin, start=start)
        finally:
            box.close()


def sandbox(root: str) -> Box:
    return confinement.create_box(
        confinement.require_confinement((root,)), SandboxSpec(roots=(root,), hidden=(FOLDER,))
    )


def _argv(probe: Probe) -> list[str] | None:
    if probe.py is not None:
        return ["python3", "-I", "-B", "-c", IMPORT + probe.py]
    if probe.js is not None:
        return ["node", "-e", probe.js]
    return None if probe.sh is None else ["bash", "--norc", "--noprofile", "-c", probe.sh]


def _difference(probe: Probe, ended: Finished) -> str:
    if ended.timed_out:
        return f"not done after {SECONDS:.0f} s"
    code = ended.returncode
    wrong_code = code == 0 if probe.code == "nonzero" else probe.code != "any" and code != probe.code
    printed = ended.stdout.decode("utf-8", "replace")
    if wrong_code:
        last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"exit code {code}, not {probe.code}" + (f" ({last[:160]})" if last else "")
    if probe.out is not None and printed.rstrip() != probe.out.rstrip():
        return f"printed {printed.rstrip()[:160]!r}"
    missing = [text for text in probe.has if text not in printed]
    if missing or any(text in printed for text in probe.lacks):
        return f"{len(missing)} of {len(probe.has)} expected texts missing" if missing else "prints what it must not"
    return ""


def lacking(task: Task) -> list[str]:
    """Programs that a task needs and this machine does not have."""
    from adderclaw.sandbox.programs import resolve

    return [name for name in ("git", "python3", *task.needs) if not resolve(name, ())]


def empty(folder: str) -> None:
    """Remove a workspace with all that a run left in it, through no link."""
    workspace.remove_tree(WorkspacePath(os.path.dirname(folder), os.path.basename(folder)))


def _copy(left: str, root: str) -> None:
    """What a run left: folders, files and links. What else there is, and what cannot be read, no check sees."""
    room = MOST_LEFT
    for folder, folders, names in os.walk(left):
        there = root + folder.removeprefix(left)
        os.mkdir(there)  # with a mode of its own: it can be emptied again
        for name in [*names, *folders]:
            source = os.path.join(folder, name)
            found = os.lstat(source)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                continue
            room -= found.st_size
            if room < 0:
                raise PathRefused(f"the workspace holds more than {MOST_LEFT >> 30} GiB")
            with contextlib.suppress(PermissionError):
                shutil.copy2(source, os.path.join(there, name), follow_symlinks=False)
