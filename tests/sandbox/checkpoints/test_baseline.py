"""The workspace before a plan: what of it can no longer be trusted is said, and nothing that counts is removed."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from adderclaw.core.errors import StoreError
from adderclaw.sandbox.legacy.checkpoints import baseline
from adderclaw.sandbox.legacy.checkpoints.blobs import Blobs, moment, prune
from adderclaw.sandbox.legacy.checkpoints.tree import NOBODYS, Limits
from adderclaw.storage import Store
from adderclaw.storage.sdlc import baselines, plans
from adderclaw.storage.sdlc.baselines import TreeSnapshot

LIMITS = Limits(1_000, 1 << 20, 64 << 20)
PLAN = "## Success criteria\n- [C1] it prints 2\n"


class Project:
    def __init__(self, folder: Path) -> None:
        self.store = Store.open(str(folder / "memory.sqlite"))
        self.kept = folder / "kept"
        self.root = folder / "project"
        (self.root / "src").mkdir(parents=True)
        (self.root / "node_modules").mkdir()
        (self.root / "node_modules/x.js").write_text("left out by its name")
        (self.root / "src/a.py").write_text("print(1)\n")
        (self.root / "run.sh").write_text("#!/bin/sh\n")
        (self.root / "run.sh").chmod(0o755)
        (self.root / "odd\udcff").write_bytes(b"\0\xff")
        (self.root / "link").symlink_to("../../etc/passwd")
        (self.root / "src").chmod(0o555)
        self.here = folder / "laid"
        self.here.mkdir()

    def take(self) -> TreeSnapshot:
        return baseline.take(self.store, str(self.kept), str(self.root), LIMITS, NOBODYS)

    def now(self) -> str:
        return baseline.now(str(self.root), LIMITS, NOBODYS)

    def approved(self) -> int:
        taken = self.take()
        with self.store.write() as cursor:
            number = plans.draft(cursor, "c", PLAN)
            assert plans.approve(cursor, number, "ann")
            baselines.put(cursor, number, taken)
        return number

    def lay_out(self, number: int) -> None:
        with closing(Blobs(str(self.kept), self.store)) as blobs:
            baseline.write_out(blobs, baselines.entries(self.store, number), str(self.here), baseline.before(number))

    def packs(self) -> list[Path]:
        return sorted(self.kept.glob("pack-*"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_is_laid_out_as_it_was_whatever_became_of_the_workspace(project: Project) -> None:
    before = project.now()
    number = project.approved()
    (project.root / "run.sh").write_text("rm\n")
    (project.root / "new").write_text("x")
    assert project.now() != before
    project.lay_out(number)
    assert sorted(os.listdir(project.here)) == sorted(["src", "run.sh", "odd\udcff", "link"])
    assert (project.here / "src/a.py").read_text() == "print(1)\n"
    assert (project.here / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (project.here / "src").stat().st_mode & 0o777 == 0o555
    assert os.readlink(project.here / "link") == "../../etc/passwd"
    assert baseline.now(str(project.here), LIMITS, NOBODYS) == before


def without_packs(project: Project) -> None:
    for pack in project.packs():
        pack.unlink()


def with_other_bytes(project: Project) -> None:
    for pack in project.packs():
        pack.write_bytes(pack.read_bytes().replace(b"print(1)", b"print(2)"))


def with_another_tree(project: Project) -> None:
    with sqlite3.connect(project.store.path) as connection:
        ((tree,),) = connection.execute("SELECT tree FROM plan_baselines").fetchall()
        connection.execute("UPDATE plan_baselines SET tree = ?", (tree[:-1],))


def of_an_empty_folder(project: Project) -> None:
    import zlib

    with project.store.write() as cursor:
        cursor.execute("UPDATE plan_baselines SET tree = ?", (zlib.compress(b"{}"),))


def without_its_row(project: Project) -> None:
    with project.store.write() as cursor:
        cursor.execute("DELETE FROM plan_baselines")


LOST = [
    (without_packs, "is not kept"),
    (with_other_bytes, "is not kept"),
    (with_another_tree, "cannot be read"),
    (of_an_empty_folder, "was changed since it was stored"),
    (without_its_row, "is not stored"),
]


@pytest.mark.parametrize(("spoil", "said"), LOST)
def test_a_baseline_of_which_something_is_gone_proves_nothing(project: Project, spoil: object, said: str) -> None:
    number = project.approved()
    assert callable(spoil)
    spoil(project)
    with pytest.raises(StoreError, match=said) as lost:
        project.lay_out(number)
    assert "sdlc transition planning" in str(lost.value)


def test_pruning_spares_it_as_long_as_its_plan_counts(project: Project) -> None:
    number = project.approved()
    for pack in project.packs():
        os.utime(pack, (0, 0))
    prune(project.store, str(project.kept), older_than=moment(-1), needed=())
    project.lay_out(number)
    with project.store.write() as cursor:
        plans.supersede(cursor, "c")
    prune(project.store, str(project.kept), older_than=moment(-1), needed=())
    assert project.packs() == []


def test_a_workspace_that_is_too_large_has_none_and_says_so(project: Project) -> None:
    taken = baseline.take(project.store, str(project.kept), str(project.root), LIMITS._replace(max_files=2), NOBODYS)
    assert (taken.digest, taken.blobs) == ("", ())
    assert "checkpoints.max_files" in taken.reason
    with project.store.write() as cursor:
        number = plans.draft(cursor, "c", PLAN)
        baselines.put(cursor, number, taken)
        found = baselines.get(cursor, number)
    assert found is not None
    assert "checkpoints.max_files" in found.left_out[0]
    with pytest.raises(StoreError, match="is not stored"):
        project.lay_out(number)


def test_what_there_is_no_room_for_is_named(project: Project) -> None:
    taken = baseline.take(
        project.store, str(project.kept), str(project.root), LIMITS._replace(max_total_bytes=9), NOBODYS
    )
    assert taken.left_out
    with project.store.write() as cursor:
        number = plans.draft(cursor, "c", PLAN)
        baselines.put(cursor, number, taken)
    with pytest.raises(StoreError, match="is not kept"):
        project.lay_out(number)
