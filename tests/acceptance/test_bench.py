"""`bench tasks` through the program: what is solved passes, what is not does not, and bad input is refused."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from adderclaw.channels.bench import catalogue
from adderclaw.channels.bench.results import wilson
from tests.acceptance.world import World
from tests.bench.models import MODELS, Model
from tests.program import PROGRAM, Soak

JSON = ("--output-format", "json")
SOME = ("--only", "py-slug-fix", "--only", "git-revert")
NOBODY = "http://127.0.0.1:9/v1"
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
input_per_mtok = 1000.0
output_per_mtok = 1000.0
"""


def bench(world: World, model: str, *more: str) -> dict[str, Any]:
    with Model(MODELS[model]) as served:
        world.cli.configure(CONFIG.format(url=served.base_url))
        world.cli.env["NO_KEY"] = "none"
        done = world.cli("bench", "tasks", *more, *JSON)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_solved_tasks_pass_and_each_is_a_run_that_can_be_proved(world: World, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    found = bench(world, "reference", *SOME, "--jobs", "2", "--report", str(page))
    assert (found["passed"], found["attempts"], found["left"]) == (2, 2, 0)
    assert found["by_kind"] == {"fix": "1/1", "git": "1/1"}
    assert "| py-slug-fix | fix | 1 | pass |" in page.read_text(encoding="utf-8")
    assert world.cli("replay", found["results"][0]["run_id"], "--verify").code == 0
    assert world.cli("receipt", "verify").code == 0
    again = world.cli("bench", "tasks", "--resume", "last", *JSON)
    assert json.loads(again.out)["passed"] == 2, "nothing is left, and nothing runs"


def test_an_idle_and_a_cheating_model_pass_nothing_and_see_no_check(world: World, tmp_path: Path) -> None:
    assert bench(world, "idle", *SOME)["passed"] == 0
    keep = tmp_path / "kept"
    keep.mkdir()
    found = bench(world, "cheating", *SOME, "--keep", str(keep))
    assert (found["passed"], found["attempts"]) == (0, 2)
    for one in found["results"]:
        planted = Path(one["workspace"], "found.txt")
        assert not planted.exists() or not planted.read_text(encoding="utf-8").strip()
    assert "[[check]]" not in json.dumps(world.entries("tool_result"))


@pytest.mark.soak
def test_all_fifty_are_solved_by_their_reference_solutions(world: World, soak: Soak) -> None:
    names = catalogue.names()
    some = [word for number in soak.of(len(names)) for word in ("--only", names[number])]
    found = bench(world, "reference", *some, "--jobs", "2")
    assert found["passed"] == found["attempts"] == len(some) // 2, found["results"]


def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(world: World) -> None:
    with Model(MODELS["reference"]) as served:
        world.cli.configure(CONFIG.format(url=served.base_url))
        env = {**world.cli.env, "NO_KEY": "none"}
        argv = [str(PROGRAM), "bench", "tasks", "--only", "git", *JSON]
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, env=env, cwd=world.workspace, stdout=pipe, stderr=pipe, text=True)
        assert process.stderr
        assert any("[  1/4]" in line for line in process.stderr)
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        before = json.loads(out)
        assert 1 <= before["passed"] < 4
        assert f"--resume {before['bench_id']}" in err
        world.cli.env["NO_KEY"] = "none"
        after = json.loads(world.cli("bench", "tasks", "--resume", before["bench_id"], *JSON).out)
    assert (after["passed"], after["left"]) == (4, 0)
    first = {one["run_id"] for one in before["results"] if one["counted"]}
    assert first <= {one["run_id"] for one in after["results"]}, "what was done is not done again"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "py-slug-fx"), "did you mean py-slug-fix?"),
        (("--report", "results.txt"), ".html or .md"),
        (("--report", "/no/such/folder/results.md"), "there is no folder"),
        (("--keep", "/no/such/folder"), "make it first"),
        (("--resume", "nothing"), "none was begun"),
        (("--resume", "last", "--model", "x"), "leave the others out"),
        (("--limit", "speed=1"), "NAME is one of"),
        (("--repeat", "0"), "--repeat"),
        (("--jobs", "0"), "--jobs"),
        (("--max-cost", "nan"), "number of dollars"),
        (("--max-cost", "inf"), "number of dollars"),
        (("--report", "folder.md"), "it cannot be written"),
        (("--keep", "/proc/self"), "nothing can be written there"),
        (("--provider", "nope"), "no provider has that name"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(words: tuple[str, ...], said: str, world: World) -> None:
    (world.workspace / "folder.md").mkdir()
    done = world.cli("bench", "tasks", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err
    assert not (world.cli.data / "bench").exists()


def test_without_a_model_no_bench_begins(world: World) -> None:
    done = world.cli("bench", "tasks", *SOME)
    assert (done.code, done.out) == (2, "")
    assert "no model is chosen" in done.err
    assert not (world.cli.data / "bench").exists()


def test_a_provider_whose_key_is_in_the_environment_counts_as_for_agent(world: World) -> None:
    world.cli.env["OPENAI_API_KEY"] = "sk-of-nobody"
    done = world.cli("bench", "tasks", *SOME, "--provider", "openai", "--max-cost", "0", *JSON)
    assert (done.code, json.loads(done.out)["provider"]) == (4, "openai"), done.err


def test_a_cost_limit_that_cannot_hold_is_refused(world: World) -> None:
    world.cli.configure(CONFIG.format(url="https://llm.invalid/v1"))
    unknown = "the price of the model 'scripted' is unknown"
    for words in (("--max-cost", "3"), ("--limit", "cost_usd=1")):
        done = world.cli("bench", "tasks", *SOME, *words)
        assert (done.code, f"{unknown}, so no limit of the cost can be enforced" in done.err) == (2, True), done.err
    world.cli.configure(CONFIG.format(url="https://llm.invalid/v1") + PRICES)
    assert unknown not in world.cli("bench", "tasks", *SOME, "--max-cost", "0").err


def test_no_cost_is_no_attempt(world: World) -> None:
    world.cli.configure(CONFIG.format(url=NOBODY))
    done = world.cli("bench", "tasks", *SOME, "--max-cost", "0", *JSON)
    assert done.code == 4
    assert json.loads(done.out)["attempts"] == 0
    assert "--max-cost 0" in done.err


def test_a_page_that_cannot_be_written_after_all_takes_no_result_away(world: World, tmp_path: Path) -> None:
    world.cli.configure(CONFIG.format(url=NOBODY))
    page = tmp_path / "full.md"
    page.symlink_to("/dev/full")
    done = world.cli("bench", "tasks", *SOME, "--max-cost", "0", "--report", str(page), *JSON)
    bench_id = json.loads(done.out)["bench_id"]
    assert done.code == 1
    assert f"--report {page}: No space left on device; `adderclaw bench tasks --resume {bench_id} --report" in done.err


def test_an_attempt_without_money_is_called_so(world: World) -> None:
    world.cli.configure(CONFIG.format(url=NOBODY))
    done = world.cli("bench", "tasks", *SOME, "--limit", "cost_usd=0", *JSON)
    assert (done.code, json.loads(done.out)["attempts"]) == (4, 0)
    assert "--limit cost_usd=0 allows no attempt" in done.err


def test_attempts_at_once_wait_for_money_that_others_do_not_use(world: World) -> None:
    """Two of 0.25 dollars are all that may be under way; four are made, since they cost nothing."""
    found = bench(world, "reference", "--only", "git", "--jobs", "4", "--max-cost", "0.5")
    assert (found["attempts"], found["passed"], found["left"]) == (4, 4, 0)


def test_an_attempt_that_max_cost_cuts_short_is_not_counted(world: World) -> None:
    with Model(MODELS["reference"]) as served:
        world.cli.configure(CONFIG.format(url=served.base_url) + PRICES)
        world.cli.env["NO_KEY"] = "none"
        one = ("bench", "tasks", "--only", "git-revert", *JSON)
        cut = world.cli(*one, "--max-cost", "0.15", "--limit", "cost_usd=4")
        found = json.loads(cut.out)
        assert (cut.code, found["attempts"], found["left"]) == (4, 0, 1), cut.err
        assert [(row["outcome"], row["counted"]) for row in found["results"]] == [("limit", False)]
        own = json.loads(world.cli(*one, "--limit", "cost_usd=0.15").out)
        assert (own["attempts"], own["passed"]) == (1, 0), "its own limit is part of what is measured"
        more = json.loads(world.cli("bench", "tasks", "--resume", found["bench_id"], "--max-cost", "5", *JSON).out)
    assert (more["passed"], more["left"]) == (1, 0)


def test_the_interval_is_wilsons() -> None:
    assert [round(bound, 3) for bound in wilson(0.5, 50)] == [0.366, 0.634]
    assert [round(bound, 3) for bound in wilson(1.0, 50)] == [0.929, 1.0]
    assert wilson(0.0, 0) == (0.0, 1.0)
