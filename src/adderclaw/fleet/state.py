"""A run's folder on a worker: filled from the submission or the last state, and saved again."""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from typing import IO

from adderclaw.core import home_names
from adderclaw.core.decode import decode
from adderclaw.core.errors import AdderClawError
from adderclaw.core.types import Json
from adderclaw.fleet import places, trees
from adderclaw.fleet.keys import Key, environment_for_runs
from adderclaw.fleet.objects import Objects
from adderclaw.fleet.places import Place

OPERATORS = (home_names.CONFIG, home_names.POLICY, home_names.SETTINGS, home_names.INSTRUCTIONS[0])
"""Files of the worker's home that apply to its runs. They are never part of a state."""
KEPT = (home_names.DATABASE, home_names.RECEIPTS)
"""The files of a run's home that are part of its state. Keys and configuration are not."""
RELOCATED = (
    ("conversations", "project_dir"),
    ("workflows", "file"),
    ("state", "value"),
    ("later_state", "workspace"),
    ("traces", "root"),
)
"""Columns with paths of the workspace, which differ between workers."""
CLONE_SECONDS = 600
_LOCK = ".lock"
"""The suffix of the file that a worker keeps locked for its folder."""
_OURS = re.compile(r".+-[0-9a-f]{8}\.lock")
"""Names of such files. All other files in the folder of `--root` are left alone."""


class WorkerFolder:
    """Manages the folder for the runs of a worker, and removes those that killed workers left."""

    def __init__(self, root: str) -> None:
        self._root, self._own, self._lock = root, "", -1

    def take(self, worker: str) -> str:
        """Creates a folder that other workers do not touch while this process lives."""
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        for name in os.listdir(self._root):
            if _OURS.fullmatch(name):
                self._clear(os.path.join(self._root, name))
        self._own = os.path.join(self._root, worker)
        while not self._locked(self._own + _LOCK):
            os.close(self._lock)
        os.makedirs(self._own, mode=0o700)
        return self._own

    def _locked(self, path: str) -> bool:
        """Locks a file. Returns False if another worker removed it meanwhile, taking it for that of a dead one."""
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            return os.path.samestat(os.fstat(self._lock), os.stat(path))
        except FileNotFoundError:
            return False

    def _clear(self, lock: str) -> None:
        with contextlib.suppress(OSError), open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its worker lives
            if os.fstat(file.fileno()).st_size:
                return  # lock files are empty
            remove(lock.removesuffix(_LOCK))
            os.unlink(lock)

    def leave(self) -> None:
        remove(self._own)
        with contextlib.suppress(OSError):
            os.unlink(self._own + _LOCK)


class AttemptFolder:
    """The folder of one attempt at a run, which no other attempt shares."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.home, self.workspace = os.path.join(root, "home"), os.path.join(root, "workspace")
        self._saving = os.path.join(root, "saving")

    def fill(
        self,
        objects: Objects,
        row: Json,
        key: Key,
        operators_home: str,
        unwanted: Callable[[], bool] = lambda: False,
        *,
        local_repos: bool = False,
    ) -> trees.Saver:
        """Creates everything that the run's process needs. Returns the saver. `unwanted` cancels a long clone."""
        os.makedirs(self.home, mode=0o700)
        os.makedirs(self._saving, mode=0o700)
        saver = self._state(objects, row, unwanted, local_repos=local_repos)
        for name in OPERATORS:
            source = os.path.join(operators_home, name)
            if os.path.isfile(source):
                shutil.copyfile(source, os.path.join(self.home, name))
        fd = os.open(os.path.join(self.home, home_names.RECEIPT_KEY), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(fd, key.receipts(row["id"]))
        os.close(fd)
        return saver

    def _state(self, objects: Objects, row: Json, unwanted: Callable[[], bool], *, local_repos: bool) -> trees.Saver:
        source, submitter = decode(Place, row["place"]), str(row["submitter"])
        if row["saved"]:
            tree = trees.restore(objects.of(submitter), row["saved"], {"home": self.home, "workspace": self.workspace})
            for name in (*tree.files, *tree.links, *tree.folders):
                if name.startswith("home/") and not name.startswith(tuple(f"home/{part}" for part in KEPT)):
                    why = f"its state contains {name!r}, which does not belong to a state"
                    raise AdderClawError(f"{why}, so the run cannot continue from it")
            self._relocate()
            return trees.Saver(objects, tree)
        if source.archive is not None:
            submitted = objects.of(submitter, submitted=True)
            return trees.Saver(objects, trees.restore(submitted, source.archive, {"workspace": self.workspace}))
        clone(source.repo or "", source.commit or "", self.workspace, unwanted, local=local_repos)
        return trees.Saver(objects)

    def save(self, saver: trees.Saver) -> str:
        """Saves home and workspace while the run's process waits. Returns the name of the state."""
        for name in KEPT:
            source, target = os.path.join(self.home, name), os.path.join(self._saving, name)
            if not os.path.exists(source):
                continue
            if name.endswith(".sqlite"):
                # a consistent snapshot of a database that may be in use
                with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as live, sqlite3.connect(target) as copy:
                    live.backup(copy)
                live.close()
                copy.close()
            else:
                shutil.copyfile(source, target)
        return saver.save({"home": self._saving, "workspace": self.workspace})

    def head(self) -> tuple[int, str]:
        """Number and hash of the last receipt in the saved state."""
        store = os.path.join(self._saving, home_names.DATABASE)
        if not os.path.exists(store):
            return 0, ""
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
            row = connection.execute(
                "SELECT seq, receipt_hash FROM receipts WHERE archive = '' ORDER BY seq DESC LIMIT 1"
            ).fetchone()
        connection.close()
        return (int(row[0]), str(row[1])) if row else (0, "")

    def stop(self) -> None:
        """Sets the emergency stop of this run only."""
        with open(os.path.join(self.home, home_names.ESTOP), "a", encoding="utf-8"):
            pass

    def remove(self) -> None:
        remove(self.root)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(self.root))  # the folder of the run, if this was its last attempt here

    def _relocate(self) -> None:
        path = os.path.join(self.home, home_names.DATABASE)
        if not os.path.exists(path):
            return
        connection = sqlite3.connect(path)
        try:
            row = connection.execute("SELECT project_dir FROM conversations ORDER BY rowid LIMIT 1").fetchone()
            before = str(row[0]) if row else ""
            if before and before != self.workspace:
                with connection:
                    for table, column in RELOCATED:
                        _rewrite_paths(connection, table, column, before, self.workspace)
        finally:
            connection.close()


def remove(folder: str) -> None:
    """Removes a folder with everything in it, at any depth and with any permissions.

    Processes that a run left may still change it, so entries are reached only from their folder, never through links.
    """
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
        top = os.open(folder, _FOLDER)
        try:
            waiting = ["."]
            while waiting:
                waiting += _empty_folder(top, waiting.pop())
        finally:
            os.close(top)
        os.rmdir(folder)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _empty_folder(top: int, name: str) -> list[str]:
    """Removes a folder in `top`. Moves its subfolders to `top`, so that paths stay short, and returns their names."""
    moved: list[str] = []
    with contextlib.suppress(OSError):
        here = os.open(name, _FOLDER, dir_fd=top)
        try:
            for _ in range(2):  # again, for entries that were exchanged meanwhile
                moved += filter(None, [_removed(entry, here, top) for entry in os.listdir(here)])
        finally:
            os.close(here)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=top)  # it was exchanged for a file meanwhile
    return moved


def _removed(entry: str, here: int, top: int) -> str:
    """Removes a file, or moves a folder to `top` and returns its new name."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.stat(entry, dir_fd=here, follow_symlinks=False).st_mode):
            os.unlink(entry, dir_fd=here)
            return ""
        _make_writable(here, entry)
        os.rename(entry, name := uuid.uuid4().hex, src_dir_fd=here, dst_dir_fd=top)
        return name
    return ""


def _make_writable(folder: int, name: str) -> None:
    """Makes a folder writable, which moving it requires."""
    if (handle := getattr(os, "O_PATH", 0)) == 0:
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
        return
    opened = os.open(name, handle | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{opened}", 0o700)
    finally:
        os.close(opened)


def _rewrite_paths(connection: sqlite3.Connection, table: str, column: str, before: str, now: str) -> None:
    """Rewrites paths, which are text in some tables and bytes in others."""
    rows = connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()  # noqa: S608 - constant names
    for (path,) in rows:
        text = os.fsdecode(path) if isinstance(path, (bytes, str)) else ""
        if text == before or text.startswith(f"{before}/"):
            moved = now + text[len(before) :]
            value = os.fsencode(moved) if isinstance(path, bytes) else moved
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (value, path))  # noqa: S608


def clone(
    url: str, commit: str, target: str, unwanted: Callable[[], bool] = lambda: False, *, local: bool = False
) -> None:
    """Clones a repository at one commit, without hooks, filters or other protocols than those allowed."""
    places.require_reachable(url, local=local)
    places.require_commit(url, commit)
    git, path = places.find_git()
    quiet = {
        **environment_for_runs(os.environ),
        "PATH": path,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    careful = ("-c", "core.hooksPath=/dev/null", *places.protocol_options(local=local), "-c", "core.fsmonitor=false")
    steps = (
        (git, *careful, "clone", "--quiet", "--no-checkout", "--", url, target),
        (git, *careful, "-C", target, "checkout", "--quiet", "--detach", commit),
    )
    for step in steps:
        with tempfile.TemporaryFile() as output:
            code = _waited(step, output, quiet, unwanted)
            output.seek(0)
            lines = output.read(100_000).decode("utf-8", "replace").strip().splitlines()
        if unwanted():
            os.makedirs(target, exist_ok=True)
            return
        if code is None:
            raise AdderClawError(f"{url} could not be cloned within {CLONE_SECONDS} s")
        if code:
            raise AdderClawError(f"{url} at {commit} cannot be cloned: {lines[-1] if lines else 'git failed'}")


def _waited(step: Sequence[str], output: IO[bytes], env: dict[str, str], unwanted: Callable[[], bool]) -> int | None:
    """The exit code of git; None if it took too long. Kills its process group when it is no longer wanted."""
    process = subprocess.Popen(
        step, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
    )
    limit = time.monotonic() + CLONE_SECONDS
    try:
        while time.monotonic() < limit and not unwanted():
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.1)
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
