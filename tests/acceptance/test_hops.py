"""The ways that docs/dev/architecture.md lists are the ways that the program goes, in that order."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_agentfile import Flow
from tests.acceptance.world import World, call, text
from tests.hops import ways
from tests.scripted import ScriptedModel

TRACED = Path(__file__).with_name("traced.py")


@pytest.fixture
def flow(world: World) -> Iterator[Flow]:
    with ScriptedModel() as model:
        yield Flow(world, model)


def called(world: World, out: Path, *arguments: str) -> list[str]:
    """The functions that a run of the program calls, in the order of their first calls."""
    world.cli.before = (sys.executable, str(TRACED), str(out))
    done = world.cli(*arguments, cwd=world.workspace)
    assert done.code == 0, done.err
    return out.read_text(encoding="utf-8").split()


def assert_way(title: str, seen: list[str]) -> None:
    listed = ways()[title]
    assert [name for name in listed if name not in seen] == [], "these were never called"
    assert sorted(listed, key=seen.index) == listed, "they are called in another order"


def test_one_message(world: World, tmp_path: Path) -> None:
    (world.workspace / "a.txt").write_text("hello\n")
    world.script(call("Read", file_path="a.txt"), text("It says hello."))
    assert_way("A message: `agent -m`", called(world, tmp_path / "calls", "agent", "-m", "what is in a.txt?"))


def test_one_agentfile(flow: Flow, tmp_path: Path) -> None:
    flow.write('GOAL look "Look at the files."\nRUN r USING look\n')
    flow.add(call("GoalResult", achieved=True, summary="looked"))
    assert_way("An Agentfile: `run Agentfile`", called(flow.world, tmp_path / "calls", "run", "Agentfile"))


def test_one_specification(flow: Flow, tmp_path: Path) -> None:
    (flow.folder / "SPEC.md").write_text("# A program that greets\n")
    flow.configure('[spec]\nverify = "off"\n')
    scenario = {"id": "SC-1", "feature": "greeting.feature", "name": "It greets"}
    flow.add(call("DeclareScenarios", scenarios=[scenario]), text("declared"))
    flow.add(call("UpdateStatus", scenario_id="SC-1", passed=True), text("done"))
    assert_way("A specification: `run`", called(flow.world, tmp_path / "calls", "run"))
