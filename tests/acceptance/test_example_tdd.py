"""The example workflow on a small project: from red to green, with a scripted model and real tests."""

import shutil
from pathlib import Path
from typing import Any

from tests.acceptance.test_agentfile import Flow, asked, of_several, result
from tests.acceptance.world import World, call
from tests.scripted import ScriptedModel

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tdd"
TESTS = """import unittest

from calc import add


class Add(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(add(2, 3), 5)


if __name__ == "__main__":
    unittest.main()
"""
RIGHT = "def add(a, b):\n    return a + b\n"


def red_to_green() -> list[dict[str, Any]]:
    tests = call("Bash", command="python3 -m unittest -q")
    return [
        result("add(a, b)", outputs={"plan": "calc.add(a, b) returns the sum"}),
        call("Write", file_path="test_calc.py", content=TESTS),
        result("a test of calc.add"),
        result("nothing beside the system test"),
        tests,
        of_several("test_adds fails: there is no calc"),
        of_several("write calc.add"),
        call("Write", file_path="calc.py", content=RIGHT),
        of_several("wrote calc.add"),
        tests,
        of_several("no test fails", "converged"),
    ]


def test_the_tdd_example_goes_from_red_to_green(world: World) -> None:
    views: dict[str, Any] = {
        "You look for the simplest design": {"text": "one function, add"},
        "You look for what breaks": {"text": "strings would be joined"},
    }
    with ScriptedModel(red_to_green(), aside=views) as model:
        flow = Flow(world, model)
        shutil.copytree(EXAMPLE, world.workspace, dirs_exist_ok=True)
        done = flow.run("--input", "feature_request=add two numbers")
    assert (done.code, done.out) == (0, "no test fails\n"), done.err
    assert [(one["rounds"], one["converged"]) for one in flow.events("loop_finished")] == [(2, "explicit")]
    runs = [entry["content"] for entry in world.entries("tool_result")]
    assert any("FAILED" in said or "ModuleNotFoundError" in said for said in runs)
    assert any("Ran 1 test" in said and "OK" in said for said in runs)
    assert "strings would be joined" in asked(model, 2)
    assert world.cli("receipt", "verify").code == 0


def test_the_examples_policy_holds(world: World) -> None:
    views: dict[str, Any] = {
        "You look for": {"text": "a view"},
    }
    steps = [
        result("x", outputs={"plan": "p"}),
        call("Bash", command="python3 -m http.server 8000"),
        call("Write", file_path="/etc/passwd2", content="x"),
        result("could not", achieved=False),
    ]
    with ScriptedModel(steps, aside=views) as model:
        flow = Flow(world, model)
        shutil.copytree(EXAMPLE, world.workspace, dirs_exist_ok=True)
        done = flow.run("--input", "feature_request=add two numbers")
    assert done.code == 1
    denied = [one["tool"] for one in world.receipts() if one["status"] == "denied"]
    assert denied == ["Bash", "Write"]
    assert "does not cover" in asked(model, 4) + asked(model, 5)
