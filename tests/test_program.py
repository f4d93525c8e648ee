"""The tests' own ground: shares of long loops add up, and CI cannot pass by skipping."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import Soak, soak_of

SKIPS = {
    "a call": "import pytest\ndef test_a():\n    pytest.skip('no such part')\n",
    "a mark": "import pytest\n@pytest.mark.skipif(True, reason='no such part')\ndef test_a(): pass\n",
    "a module": "import pytest\npytest.skip('no such part', allow_module_level=True)\n",
    "a program": "def test_a(needs):\n    needs('no-such-program')\n",
}


def outcome(folder: Path, text: str, require_all: str) -> int:
    (folder / "test_it.py").write_text(text)
    root = Path(__file__).resolve().parent.parent
    env = {**os.environ, "ADDERCLAW_REQUIRE_ALL": require_all, "PYTHONPATH": str(root)}
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
    ]
    return subprocess.run([*argv, str(folder)], cwd=folder, env=env, capture_output=True, timeout=60).returncode


@pytest.mark.parametrize("text", SKIPS.values(), ids=SKIPS.keys())
def test_a_skip_is_a_failure_where_all_is_required(tmp_path: Path, text: str) -> None:
    passed_or_nothing_ran = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert outcome(tmp_path, text, "1") not in passed_or_nothing_ran
    assert outcome(tmp_path, text, "") in passed_or_nothing_ran


def test_six_shares_are_the_whole() -> None:
    shares = [round_ for seed in range(6) for round_ in Soak(whole=False, seed=seed).of(200)]
    assert sorted(shares) == list(Soak(whole=True, seed=0).of(200))


@pytest.mark.parametrize(("value", "whole"), [("", False), ("0", False), ("1", True)])
def test_the_environment_says_which(value: str, whole: bool) -> None:
    assert soak_of({"ADDERCLAW_SOAK": value, "ADDERCLAW_SOAK_SEED": "4"}) == Soak(whole, 4)
