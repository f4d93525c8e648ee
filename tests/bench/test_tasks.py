"""The tasks of `bench tasks`: their checks fail before the work and for plausible wrong work, and pass after it."""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from adderclaw.channels.bench import catalogue, checking
from adderclaw.channels.bench.catalogue import Named, Task
from adderclaw.channels.bench.checking import Bench
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.process import environment, in_view, run
from tests.bench.solutions import FOLDER, Solution, solutions
from tests.program import Soak

NOTHING = Solution("nothing is done", {}, "")


async def failed(box: Box, root: Path, task: Task, solution: Solution) -> list[str]:
    """What the checks say when the workspace was changed so."""
    root.mkdir()
    bench = Bench(os.path.realpath(root), box)
    await bench.lay_out(task)
    for name, text in solution.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    if solution.run:
        env = environment(checking.WHO, workspace_roots=(bench.root,))
        argv = ["bash", "-euc", solution.run]
        done = await run(argv, cwd=bench.root, env=env, timeout=30, start=in_view(box.start, "git"))
        assert done.returncode == 0, done.stderr
    found = await bench.failed(task)
    shutil.rmtree(root)
    return found


async def told_apart(folder: Path, tasks: Sequence[Named]) -> list[str]:
    """Where the checks are wrong. All share one sandbox: starting one for each would take most of the time."""
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
    size = sum(path.stat().st_size for path in Path(catalogue.FOLDER).iterdir())
    assert size < 300_000, "it ships in the wheel"


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
