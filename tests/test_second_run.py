"""The second run of CI: what it never forgives first, then what it does."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.rows import rows
from tests.second_run import AGAIN

ROOT = Path(__file__).resolve().parent.parent
ONCE = """
import pathlib, pytest
@pytest.mark.parametrize("n", range({count}))
def test_late(n):
    seen = pathlib.Path(__file__).with_suffix(f".{{n}}")
    was, _ = seen.exists(), seen.touch()
    assert was, "too early"
"""
SOAKED = ONCE.replace("@pytest.mark.param", "@pytest.mark.soak\n@pytest.mark.param")
NEVER = "def test_never(): assert False, 'wrong'\n"


def run(folder: Path, files: dict[str, str], *more: str, ci: str = "1") -> tuple[int, str, ET.Element]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    soak\n")
    env = {name: value for name, value in os.environ.items() if name != AGAIN and "XDIST" not in name}
    env |= {"ADDERCLAW_REQUIRE_ALL": ci, "PYTHONPATH": str(ROOT), "PYTEST_PLUGINS": "tests.second_run"}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml", *more]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, ET.parse(folder / "report.xml").getroot()


def wrong(report: ET.Element) -> int:
    return sum(one.tag in ("failure", "error") for case in report.iter("testcase") for one in case)


@rows(
    ("name", "files", "ci", "failures"),
    [
        ("not in CI", {"test_a.py": ONCE.format(count=1)}, "", 1),
        ("four", {"test_a.py": ONCE.format(count=4)}, "1", 4),
        ("in a soak loop", {"test_a.py": SOAKED.format(count=1)}, "1", 1),
        ("beside one in security", {"tests/security/test_a.py": NEVER, "test_b.py": ONCE.format(count=1)}, "1", 2),
    ],
)
def test_these_count_at_once(name: str, files: dict[str, str], ci: str, failures: int, tmp_path: Path) -> None:
    code, out, report = run(tmp_path / name, files, ci=ci)
    assert (code, wrong(report)) == (1, failures), out
    assert "second run" not in out


def test_a_second_failure_is_red_for_all(tmp_path: Path) -> None:
    code, out, report = run(tmp_path, {"test_a.py": NEVER, "test_b.py": ONCE.format(count=1)})
    assert (code, wrong(report)) == (1, 2), out
    assert "second run" not in out


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "two"])
def test_up_to_three_that_pass_then_are_named_in_both_reports(tmp_path: Path, workers: tuple[str, ...]) -> None:
    code, out, report = run(tmp_path, {"test_a.py": ONCE.format(count=3), "test_b.py": "def test_b(): ..."}, *workers)
    assert code == 0, out
    for n in range(3):
        assert f"passed only at the second run: test_a.py::test_late[{n}]; at the first:" in out
    assert "1 passed, 3 passed only at the second run" in out
    assert wrong(report) == 0
    assert [suite.get("failures") for suite in report.iter("testsuite")] == ["0"]
    late = [
        case.get("name")
        for case in report.iter("testcase")
        if "second run; at the first" in (case.findtext("system-out") or "")
    ]
    assert sorted(map(str, late)) == ["test_late[0]", "test_late[1]", "test_late[2]"]
