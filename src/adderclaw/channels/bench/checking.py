"""Lays out a task's repository, and checks what a run made of it: in the sandbox, by what commands print.

The checks begin when the run has ended and nothing of it runs any more. Only commands and their input go into the
sandbox. What they must print is compared here, so that no file which a run leaves (a changed test, a conftest.py, a
module that ends the process with success) can make a check pass without the right answer.
"""

import os
from collections.abc import Mapping

from adderclaw import workspace
from adderclaw.channels.bench.catalogue import FOLDER, Probe, Task
from adderclaw.errors import AdderClawError, Refused
from adderclaw.sandbox import confinement
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import Room
from adderclaw.sandbox.process import Finished, View, environment, in_view, run
from adderclaw.workspace import Place

SECONDS = 30.0
"""What one command of a check has."""
MOST = 1 << 18
"""Bytes of what it prints that are read."""
BEGIN = "git init -q -b main; git config user.name 'Sam Porter'; git config user.email sam@example.com\n"
COMMIT = "git add -A; git commit -q -m 'Initial commit'"
WHO = {
    f"GIT_{who}_{name}": value
    for who in ("AUTHOR", "COMMITTER")
    for name, value in (("NAME", "Sam Porter"), ("EMAIL", "sam@example.com"), ("DATE", "2026-01-05T09:00:00Z"))
}
IMPORT = "import sys; sys.path.insert(0, '.'); sys.dont_write_bytecode = True\n"


class Bench:
    """A workspace of one task, and the sandbox in which its repository is made and checked."""

    def __init__(self, root: str, box: Box | None = None) -> None:
        self.root = root
        self.box = box or sandbox(root)

    def close(self) -> None:
        self.box.close()

    async def lay_out(self, task: Task) -> None:
        self._put(task.files)
        made = await self._run(["bash", "-euc", BEGIN + (task.setup or COMMIT)], view="git", more=WHO)
        if made.returncode:
            raise AdderClawError(f"the task's repository could not be made: {made.stderr.decode('utf-8', 'replace')}")

    async def failed(self, task: Task) -> list[str]:
        """The checks that do not hold, by what they look at; none: the task is done."""
        return [f"{probe.what}: {why}" for probe in task.check if (why := await self._wrong(task, probe))]

    async def _wrong(self, task: Task, probe: Probe) -> str:
        try:
            for name in probe.same:
                if workspace.read(Place(self.root, name), MOST).decode("utf-8", "replace") != task.files[name]:
                    return f"{name} was changed"
            self._put({name: task.files[name] for name in probe.back} | (probe.put or {}))
        except (OSError, Refused) as error:
            return str(error)
        argv = _argv(probe)
        if argv is None:
            return ""
        ended = await self._run(argv, stdin=probe.stdin.encode())
        return _difference(probe, ended)

    def _put(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            place = Place(self.root, name)
            workspace.make_folders(place.parent)
            workspace.write(place, text.encode(), mode=0o755 if text.startswith("#!") else 0o644)

    async def _run(
        self, argv: list[str], *, stdin: bytes = b"", view: View = "all", more: Mapping[str, str] | None = None
    ) -> Finished:
        own = {"PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8", **(more or {})}
        env = environment(own, workspace_roots=(self.root,))
        start = in_view(self.box.start, view)
        return await run(argv, cwd=self.root, env=env, timeout=SECONDS, max_bytes=MOST, stdin=stdin, start=start)


def sandbox(root: str) -> Box:
    return confinement.box(confinement.required((root,)), Room(roots=(root,), hidden=(FOLDER,)))


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
    workspace.remove_tree(Place(os.path.dirname(folder), os.path.basename(folder)))
