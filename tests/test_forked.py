"""A start by a fork against a real one: what comes out, and what goes in."""

import re
from pathlib import Path

import pytest

from tests import program
from tests.forked import STARTED
from tests.program import Cli, Done

HERE = Path(__file__).parent


def both(cli: Cli, *arguments: str, **more: str) -> Done:
    """What it is by a fork; a start says the same, but for what names the moment."""
    cli.forks = True
    forked = cli(*arguments, env=more)
    cli.forks = False
    started = cli(*arguments, env=more)
    assert [re.sub(r"\d\d:\d\d:\d\d", "", str(one)) for one in forked] == [
        re.sub(r"\d\d:\d\d:\d\d", "", str(one)) for one in started
    ]
    return forked


def test_it_is_the_same_by_both(cli: Cli) -> None:
    assert both(cli, "--version").code == 0
    assert both(cli, "no-such-command").code == 2
    assert both(cli, "config", "show", "--workspace", str(cli.cwd), ADDERCLAW_HOME=str(cli.home / "other")).code == 0
    assert both(cli, "tool", "list", "--output-format", "json").out.startswith("[")
    (cli.cwd / "x.txt").write_text("här\n", encoding="utf-8")
    assert "här" in both(cli, "tool", "run", "Read", "--json", '{"file_path": "x.txt"}').out


def test_one_that_takes_too_long_is_ended(cli: Cli) -> None:
    cli.forks = True
    with pytest.raises(AssertionError, match="took over"):
        cli("rpc", timeout=0)
    assert cli("--version").code == 0


def test_what_the_interpreter_reads_at_its_start_is_started(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[object, object] = {}
    monkeypatch.setattr(program, "_FORKS", made)
    cli.forks = True
    assert cli("--version", env={"PYTHONUTF8": "1"}).code == 0
    assert made == {}
    assert cli("--version").code == 0
    assert len(made) == 1


def test_each_module_that_does_not_fork_is_there() -> None:
    assert [name for name in STARTED if not (HERE / f"{name}.py").is_file()] == []
