"""Attempts: what an interruption and a task that cannot be laid out leave, and what is imported."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from adderclaw.channels.bench import catalogue
from adderclaw.channels.bench.attempts import Attempt, Runner
from adderclaw.channels.bench.catalogue import Named, Task
from adderclaw.channels.bench.results import Result, Terms
from tests.acceptance.test_bench import CONFIG
from tests.bench.models import Model, idle
from tests.scripted import Step


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_KEY", "none")


def ran(task: Named, *, config: Path | None = None, keep: Path | None = None) -> tuple[Runner, list[Result]]:
    results, limits = list[Result](), {"cost_usd": 0.1, "seconds": 30.0}
    provider, file = (None, str(config)) if config else ("local", None)
    terms = Terms((), "", "", provider, None, file, max_cost=1.0, rounds=1, limits=limits)
    runner = Runner(terms, 0.0, None if keep is None else str(keep), results.append)
    asyncio.run(runner.run([Attempt(task, 1)]))
    return runner, results


def interrupts(when: Callable[[], object]) -> None:
    """Ctrl-C, once that has come true."""

    def wait() -> None:
        while not when():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def test_the_process_imports_nothing_from_where_the_model_writes(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    files = {"adderclaw.py": f"open({str(marker)!r}, 'w')\n"}
    _, results = ran(Named("planted", Task("fix", "Say hello.", files, ())))
    assert results
    assert not marker.exists()


def test_interrupted_while_the_repository_is_made_no_run_begins(tmp_path: Path) -> None:
    keep, config = tmp_path / "kept", tmp_path / "config.toml"
    keep.mkdir()
    name, task = catalogue.tasks()[0]
    slow = replace(task, setup="touch laid-out; sleep 1")
    with Model(idle) as served:
        config.write_text(CONFIG.format(url=served.base_url), encoding="utf-8")
        interrupts(lambda: list(keep.rglob("laid-out")))
        runner, results = ran(Named(name, slow), config=config, keep=keep)
        assert not served.asked, "a model is paid for what nobody waits for"
    assert (runner.interrupted, runner.why, results) == (True, "interrupted", [])


def test_what_an_interrupted_attempt_cost_is_written_down(tmp_path: Path) -> None:
    config, task = tmp_path / "config.toml", catalogue.tasks()[0]
    asked, goes_on = threading.Event(), threading.Event()

    def hangs(_: Named) -> list[Step]:
        asked.set()
        goes_on.wait(30)
        return [{"text": "Done."}]

    with Model(hangs) as served:
        config.write_text(CONFIG.format(url=served.base_url), encoding="utf-8")
        interrupts(asked.is_set)
        runner, results = ran(task, config=config)
        goes_on.set()
    assert runner.interrupted
    assert [(one.outcome, one.counted, bool(one.run_id)) for one in results] == [("stopped", False, True)]


def test_a_task_that_cannot_be_laid_out_is_an_attempt_that_failed() -> None:
    _, results = ran(Named("broken", Task("fix", "Say hello.", {}, (), setup="echo no room >&2; exit 3")))
    assert [(one.outcome, one.counted) for one in results] == [("error", False)]
    assert "no room" in results[0].reason
