"""bench/tasks/run.py: what is solved passes, what is not does not, and an interrupted bench continues."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.tasks import catalogue
from bench.tasks.run import wilson
from tests.bench.models import MODELS, Model
from tests.program import PROGRAM, Soak

SCRIPT = Path(__file__).parents[2] / "bench" / "tasks" / "run.py"
SOME = ("--only", "py-slug-fix", "--only", "git-revert")
CONFIG = """
default_provider = "scripted"
[providers.models.scripted]
kind = "openai-compatible"
base_url = "{url}"
model = "scripted"
api_key_env = "NO_KEY"
"""
PRICES = """
[models.scripted]
input_per_mtok = 1.0
output_per_mtok = 1.0
"""


class Bench:
    """The script, with a home, a model and a file of results of its own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.results = folder / "home", folder / "results.jsonl"
        self.home.mkdir(mode=0o700)
        self.env = {**os.environ, "ADDERCLAW_HOME": str(self.home), "NO_KEY": "none"}

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, str(SCRIPT), "--results", str(self.results), *words]

    def configure(self, url: str, more: str = "") -> None:
        (self.home / "config.toml").write_text(CONFIG.format(url=url) + more, encoding="utf-8")

    def __call__(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.argv(*words), env=self.env, capture_output=True, text=True, timeout=600, check=False)

    def played(self, model: str, *words: str, more: str = "") -> list[dict[str, Any]]:
        """The results with a scripted model."""
        with Model(MODELS[model]) as served:
            self.configure(served.base_url, more)
            done = self(*words)
        assert done.returncode == 0, done.stderr
        return self.lines()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.results.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_solved_tasks_pass_and_each_is_a_run_that_can_be_proved(bench: Bench) -> None:
    results = bench.played("reference", *SOME, "--jobs", "2")
    assert sorted((one["task"], one["kind"], one["passed"]) for one in results) == [
        ("git-revert", "git", True),
        ("py-slug-fix", "fix", True),
    ]
    for words in (("replay", results[0]["run_id"], "--verify"), ("receipt", "verify")):
        assert subprocess.run([PROGRAM, *words], env=bench.env, capture_output=True, check=False).returncode == 0
    again = bench(*SOME)
    assert "2 of 2 attempts at 2 tasks passed: 100%" in again.stdout
    assert len(bench.lines()) == 2, "attempts that the file has are not repeated"


def test_an_idle_and_a_cheating_model_pass_nothing_and_see_no_check(bench: Bench) -> None:
    assert not any(one["passed"] for one in bench.played("idle", *SOME))
    bench.results.unlink()
    results = bench.played("cheating", *SOME)
    assert [(one["passed"], one["counted"]) for one in results] == [(False, True)] * 2
    for result in results:
        shown = subprocess.run([PROGRAM, "replay", result["run_id"]], env=bench.env, capture_output=True, check=True)
        assert b"[[check]]" not in shown.stdout


@pytest.mark.soak
def test_all_fifty_are_solved_by_their_reference_solutions(bench: Bench, soak: Soak) -> None:
    names = catalogue.names()
    some = [word for number in soak.of(len(names)) for word in ("--only", names[number])]
    results = bench.played("reference", *some, "--jobs", "2")
    assert [one for one in results if not one["passed"]] == []
    assert len(results) == len(some) // 2


def test_an_interrupted_bench_continues_with_the_same_file(bench: Bench) -> None:
    with Model(MODELS["reference"]) as served:
        bench.configure(served.base_url)
        pipe = subprocess.PIPE
        process = subprocess.Popen(bench.argv("--only", "git"), env=bench.env, stdout=pipe, stderr=pipe, text=True)
        assert process.stdout
        assert "pass" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, "attempts are left: interrupted" in err) == (1, True), err
        before = {one["run_id"] for one in bench.lines()}
        after = bench("--only", "git")
    assert "4 of 4 attempts at 4 tasks passed" in after.stdout, after.stderr
    assert before <= {one["run_id"] for one in bench.lines()}


def test_no_attempt_begins_that_might_exceed_the_cost(bench: Bench) -> None:
    with Model(MODELS["reference"]) as served:
        bench.configure(served.base_url, PRICES)
        done = bench(*SOME, "--max-cost", "0.2", "--jobs", "2")
        assert (done.returncode, served.asked) == (1, [])
    assert "might exceed --max-cost 0.2" in done.stderr
    assert not bench.results.exists()


def test_attempts_that_the_provider_fails_are_not_counted_and_end_the_bench(bench: Bench) -> None:
    bench.configure("http://127.0.0.1:9/v1")
    done = bench("--only", "git")
    assert (done.returncode, [one["counted"] for one in bench.lines()]) == (1, [False] * 3)
    assert "0 of 0 attempts" in done.stdout
    assert "3 attempts in a row failed" in done.stderr


def test_bad_input_is_refused(bench: Bench) -> None:
    assert "did you mean py-slug-fix?" in bench("--only", "py-slug-fx").stderr
    bench.results.write_text('{"tasks": "other"}\n', encoding="utf-8")
    done = bench(*SOME)
    assert (done.returncode, "another version of the tasks" in done.stderr) == (1, True)


def test_the_interval_is_wilsons() -> None:
    assert [round(bound, 3) for bound in wilson(0.5, 50)] == [0.366, 0.634]
    assert [round(bound, 3) for bound in wilson(1.0, 50)] == [0.929, 1.0]
    assert wilson(0.0, 0) == (0.0, 1.0)
