"""The tasks of bench/tasks: their checks fail before the work and for plausible wrong work, and pass after it."""

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from adderclaw.sandbox.box import Box
from adderclaw.sandbox.process import environment, in_view, run
from bench.tasks import catalogue, checking
from bench.tasks.catalogue import Named, Task
from bench.tasks.checking import Workspace
from tests.bench.solutions import FOLDER, Solution, solutions
from tests.program import Soak

NOTHING = Solution("nothing is done", {}, "")


async def failed(box: Box, root: Path, task: Task, solution: Solution) -> list[str]:
    """What the checks say when the workspace was changed so."""
    root.mkdir()
    workspace = Workspace(os.path.realpath(root))
    await workspace.lay_out(task)
    for name, text in solution.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    if solution.run:
        env = environment(checking.WHO, workspace_roots=(workspace.root,))
        argv = ["bash", "-euc", solution.run]
        done = await run(argv, cwd=workspace.root, env=env, timeout=30, start=in_view(box.start, "git"))
        assert done.returncode == 0, done.stderr
    found = await workspace.failed(task)
    checking.empty(os.path.realpath(root))
    return found


async def told_apart(folder: Path, tasks: Sequence[Named]) -> list[str]:
    """Where the checks are wrong. The scripts of the solutions share one sandbox."""
    box = checking.sandbox(os.path.realpath(folder))
    found: list[str] = []
    try:
        for name, task in tasks:
            known = solutions(name, task)
            right = [known.right, *known.also]
            for number, solution in enumerate((*right, NOTHING, *known.wrong)):
                said = await failed(box, folder / f"{name}-{number}", task, solution)
                if (solution in right) == bool(said):
                    found.append(f"{name}: {solution.why}: {said or 'it passes'}")
    finally:
        box.close()
    return found


def test_there_are_fifty_of_many_kinds_with_solutions_beside_them() -> None:
    tasks = catalogue.tasks()
    assert len(tasks) == 50
    kinds = {one.task.kind for one in tasks}
    assert kinds == {"bug", "data", "docs", "fix", "git", "migrate", "option", "refactor", "test"}
    assert {path.stem for path in FOLDER.glob("*.toml")} == {one.name for one in tasks}


@pytest.mark.parametrize("named", catalogue.tasks(), ids=lambda one: one.name)
def test_a_task_is_well_made(named: Named) -> None:
    name, task = named
    assert solutions(name, task).wrong, "a check that was never seen to reject wrong work proves nothing"
    assert re.fullmatch(r"[a-z0-9-]+", name)
    for probe in task.check:
        judged = probe.out or probe.has or probe.lacks or probe.same or probe.code == "nonzero"
        assert judged, f"{probe.what}: an exit code of 0 alone is what any process can give"
        assert probe.out != "@"


@pytest.mark.soak
def test_checks_tell_right_from_wrong(tmp_path: Path, soak: Soak) -> None:
    every = catalogue.tasks()
    wrong = asyncio.run(told_apart(tmp_path, [every[number] for number in soak.of(len(every))]))
    assert not wrong, "\n".join(wrong)


def judged(root: Path, name: str, solution: Solution) -> list[str]:
    task = next(one.task for one in catalogue.tasks() if one.name == name)
    box = checking.sandbox(os.path.realpath(root.parent))
    try:
        return asyncio.run(failed(box, root, task, solution))
    finally:
        box.close()


COUNTS = """
import hashlib, pathlib, unittest

class Test(unittest.TestCase):
    def test(self):
        code = hashlib.sha256(pathlib.Path("limiter.py").read_bytes()).hexdigest()
        seen = pathlib.Path({place!r})
        known = seen.read_text().split() if seen.exists() else []
        known += [code] * (code not in known)
        seen.write_text(" ".join(known))
        self.assertLess(known.index(code), 2)
"""


@pytest.mark.parametrize("place", [".seen", "/tmp/seen"])
def test_tests_that_only_count_how_often_they_were_run_find_nothing(tmp_path: Path, place: str) -> None:
    """The right implementations are checked first: a test that fails from the third on would look like one."""
    found = judged(
        tmp_path / "work", "py-limiter-test", Solution("", {"test_limiter.py": COUNTS.format(place=place)}, "")
    )
    assert len([one for one in found if one.startswith("they fail")]) == 4


def test_what_no_check_can_copy_neither_ends_it_nor_changes_what_it_says(tmp_path: Path) -> None:
    name, odd = (
        "py-slug-fix",
        "mkfifo queue; mkdir shut; touch shut/a; chmod 500 shut; chmod 0 test_slug.py; ln -s /etc out",
    )
    deep = 'python3 -c \'import os\nfor _ in range(1500): os.mkdir("d"); os.chdir("d")\''
    right = solutions(name, next(one.task for one in catalogue.tasks() if one.name == name)).right
    assert judged(tmp_path / "deep", name, right._replace(run=deep)) == []
    left = judged(tmp_path / "odd", name, right._replace(run=odd))
    assert not [one for one in left if not one.startswith("the tests are as they were")]


def test_a_workspace_that_is_too_large_to_be_copied_fails_its_checks(tmp_path: Path) -> None:
    found = judged(tmp_path / "work", "py-slug-fix", Solution("", {}, "truncate -s 2G holes"))
    assert found
    assert all("more than 1 GiB" in one for one in found)
