"""The trees that tests run on: the workspace at the plan's approval, the same with a fault, and as it is now."""

import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from adderclaw.config.own_paths import OwnPaths
from adderclaw.core.errors import AdderClawError, StoreError
from adderclaw.core.record import NamedTuple
from adderclaw.flows.sdlc import lent, running
from adderclaw.flows.sdlc.running import SECONDS, Ran, Replacing
from adderclaw.sandbox import workspace
from adderclaw.sandbox.legacy.checkpoints import FOLDER, baseline
from adderclaw.sandbox.legacy.checkpoints.blobs import Blobs
from adderclaw.sandbox.legacy.checkpoints.tree import Limits
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import Store, checkpoints
from adderclaw.storage.checkpoints import State
from adderclaw.storage.sdlc import baselines, proof
from adderclaw.storage.sdlc.faults import Fault

COPIES = "proof"
"""The folder of the copies, in AdderClaw's home."""
MOST_BYTES = 8 << 20
"""The largest file that a fault may change or that a plan may name as a document."""
GONE = "it cannot be copied: files in the folder `checkpoints` were removed or changed. Save a checkpoint and try again"


class Where(NamedTuple):
    """The project's workspace, and what AdderClaw keeps for it."""

    root: str
    home: str
    limits: Limits
    own: OwnPaths
    shown: tuple[str, ...] = ()
    """What its commands, and therefore its tests, may also read (`sandbox.read_paths`)."""


class Tree(NamedTuple):
    """The content of a tree and its digest; equal trees have equal digests."""

    digest: str
    entries: Mapping[str, State]
    faults: Sequence[Fault] = ()
    is_before: bool = True
    """Whether it is the tree that was stored at the plan's approval."""


class Trees:
    def __init__(self, store: Store, where: Where, plan_id: int) -> None:
        self._store, self._where, self._plan = store, where, plan_id
        self._folder = f"{where.home}/{FOLDER}"
        self._name = f"{COPIES}/plan-{plan_id}"
        self._lent = lent.folders(where.root)
        self._blobs = Blobs(self._folder, store)

    def baseline(self) -> Tree:
        """Raises StoreError if it is not what was stored at the plan's approval."""
        entries = baselines.entries(self._store, self._plan)
        return Tree(lent.with_lent(baselines.digest_of(entries), self._where.root), entries)

    def faulty(self, faults: Sequence[Fault]) -> Tree:
        """The baseline with the fault that the plan names."""
        baseline = self.baseline()
        digest = hashlib.sha256(repr([baselines.digest_of(baseline.entries), *faults]).encode()).hexdigest()
        return Tree(lent.with_lent(digest, self._where.root), baseline.entries, faults)

    def require(self, faults: Sequence[Fault]) -> None:
        """Raises an error for what would make every test fail: missing file content, or a fault that does not apply."""
        entries = self.baseline().entries
        for path, state in entries.items():
            if state.kind == "file" and (not state.digest or self._blobs.read(state.digest) is None):
                what = f"the content of {path!r} before plan {self._plan} is not stored"
                raise StoreError(f"{what}, so nothing can be proved against it: {baselines.FIX}")
        for fault in faults:
            text = self.document(fault.path)
            if text is None:
                raise AdderClawError(
                    f"the fault of the plan names {fault.path!r}, which was not a file before the change: correct the "
                    "plan and approve it again"
                )
            if fault.old not in text:
                what = f"{fault.old!r}, which was not in {fault.path} before the change"
                raise AdderClawError(f"the fault of the plan replaces {what}: correct the plan and approve it again")

    def now(self) -> Tree:
        """The workspace as it is now. The digest is that of the copied content, even if files change meanwhile."""
        taken = baseline.take(self._store, self._folder, self._where.root, self._where.limits, self._where.own)
        if taken.reason:
            raise AdderClawError(f"the workspace cannot be copied for its tests: {taken.reason}")
        with self._store.write() as cursor:
            checkpoints.add_blobs(cursor, taken.blobs)
        digest = baseline.counted(self._where.root, taken.entries, proof.reports(self._store, self._plan))
        return Tree(lent.with_lent(digest, self._where.root), taken.entries, is_before=False)

    def document(self, path: str) -> str | None:
        """The text of a file of the baseline."""
        state = self.baseline().entries.get(path)
        if state is None or state.kind != "file" or state.size > MOST_BYTES:
            return None
        data = self._blobs.read(state.digest)
        return None if data is None else data.decode("utf-8", "surrogateescape")

    async def run(
        self, tree: Tree, language: str, content: str, replacing: Replacing | None = None, seconds: float = SECONDS
    ) -> Ran:
        """Runs a test in its own copy of a tree; `replacing`: what happens to the programs that it starts."""
        async with self._copied(tree) as (copy, test_folder):
            return await running.run_test(
                language,
                content,
                root=self._where.root,
                copy=copy,
                test_folder=test_folder,
                lent=lent.mountable(self._where.root, self._lent, tree.entries),
                shown=self._where.shown,
                replacing=replacing,
                seconds=seconds,
            )

    def clear(self) -> None:
        """Removes what a killed process left."""
        folder = WorkspacePath(self._where.home, self._name)
        if workspace.is_folder(folder):
            workspace.remove_tree(folder)

    @asynccontextmanager
    async def _copied(self, tree: Tree) -> AsyncGenerator[tuple[str, str]]:
        """A copy of the tree, and an empty folder for the test."""
        self.clear()
        try:
            for name in ("tree", "test"):
                workspace.make_folders(WorkspacePath(self._where.home, f"{self._name}/{name}"), 0o700)
            top = f"{self._where.home}/{self._name}"
            what = baseline.before(self._plan) if tree.is_before else ("the workspace as it is", GONE)
            baseline.write_out(self._blobs, tree.entries, f"{top}/tree", what)
            for fault in tree.faults:
                _break(f"{top}/tree", fault)
            yield f"{top}/tree", f"{top}/test"
        finally:
            self.clear()


def _break(copy: str, fault: Fault) -> None:
    target = WorkspacePath(copy, fault.path)
    if not fault.old:
        workspace.remove(target)
        return
    text = workspace.read(target, MOST_BYTES).decode("utf-8", "surrogateescape")
    workspace.write(target, text.replace(fault.old, fault.new).encode("utf-8", "surrogateescape"))
