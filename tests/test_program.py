"""The tests' own ground: shares of long loops add up, and CI cannot pass by skipping."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.program import Soak, soak_of
from tests.sandbox.without import without
from tests.trial import why_not

SKIPS = {
    "a call": "import pytest\ndef test_a():\n    pytest.skip('no such part')\n",
    "a mark": "import pytest\n@pytest.mark.skipif(True, reason='no such part')\ndef test_a(): pass\n",
    "a module": "import pytest\npytest.skip('no such part', allow_module_level=True)\n",
    "a program": "def test_a(needs):\n    needs('no-such-program')\n",
}


def outcome(folder: Path, require_all: str) -> str:
    """What a run of all of them reports of each."""
    root = Path(__file__).resolve().parent.parent
    env = {**os.environ, "ADDERCLAW_REQUIRE_ALL": require_all, "PYTHONPATH": str(root)}
    argv = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    argv.append("--continue-on-collection-errors")
    done = subprocess.run(
        [*argv, "--rootdir", str(folder), str(folder)], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    return done.stdout


def test_a_skip_is_a_failure_where_all_is_required(tmp_path: Path) -> None:
    for name, text in SKIPS.items():
        (tmp_path / f"test_{name.replace(' ', '_')}.py").write_text(text)
    required = outcome(tmp_path, "1")
    for name in SKIPS:
        assert re.search(rf"^(FAILED|ERROR) test_{name.replace(' ', '_')}", required, re.MULTILINE), required
    assert "SKIPPED" not in required
    allowed = outcome(tmp_path, "")
    assert not re.search(r"^(FAILED|ERROR)", allowed, re.MULTILINE), allowed
    assert f"{len(SKIPS)} skipped" in allowed, allowed


@pytest.mark.parametrize("share", [6, 24])
def test_all_shares_are_the_whole(share: int) -> None:
    shares = [round_ for seed in range(100, 100 + share) for round_ in Soak(whole=False, seed=seed).of(200, share)]
    assert sorted(shares) == list(Soak(whole=True, seed=0).of(200, share))


def test_each_seed_has_its_turn() -> None:
    assert [seed for seed in range(12) if Soak(whole=False, seed=seed).turn(3)] == [3, 9]
    assert Soak(whole=True, seed=0).turn(3)


@pytest.mark.parametrize(("value", "whole"), [("", False), ("0", False), ("1", True)])
def test_the_environment_says_which(value: str, whole: bool) -> None:
    assert soak_of({"ADDERCLAW_SOAK": value, "ADDERCLAW_SOAK_SEED": "4"}) == Soak(whole, 4)


def test_a_share_is_a_sixth_and_the_soak_run_is_the_whole() -> None:
    assert len(soak_of({}).of(240)) == 40
    assert len(soak_of({"ADDERCLAW_SOAK": "1"}).of(240)) == 240


def test_where_landlock_is_the_only_sandbox_the_tests_say_so_and_accept_it() -> None:
    if why := why_not("landlock"):
        pytest.skip(f"Landlock does not start on this machine: {why}")
    code = """
from tests.trial import accepting, sandbox_in_use
print(sandbox_in_use())
for settings in ("", "[sandbox]\\nread_paths = []\\n", "[sandbox]\\naccept = 'bubblewrap'\\n"):
    print(repr(accepting(settings)))
"""
    argv = [*without("namespaces"), sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=120)
    summary, *settings = done.stdout.splitlines()
    assert summary.startswith("sandbox: Landlock, which the tests accept; bubblewrap does not start: "), done
    assert [tomllib.loads(ast.literal_eval(one)) for one in settings] == [
        {"sandbox": {"accept": "landlock"}},
        {"sandbox": {"accept": "landlock", "read_paths": []}},
        {"sandbox": {"accept": "bubblewrap"}},
    ]
