"""No spelling of a command line that a tool of an agent runs gives the operator's consent."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

from adderclaw.channels.cli import COMMANDS
from adderclaw.channels.cli.common import app_of
from adderclaw.channels.cli.operator_only import CONSENTS
from adderclaw.errors import DeniedError
from adderclaw.hosted import questions
from adderclaw.sandbox.watchdog import CALL_MARK, home_tag
from tests.program import Cli

REFUSED = "is the operator's decision"
SPELLINGS = (
    "trust .",
    "-- trust .",
    "trust -- --list",
    "token -- create phone",
    "token create phone --expires --help",
    "token create phone --expires --dry-run",
    "sop approve 20260512-140000-1f2e3d4c --comment --help",
    "schedule resume nightly --config --help",
    "plugin -- install ./plugin --trust 00",
    "plugin install ./plugin --trust --dry-run",
    "config -- set runtime.profile permissive",
    "mcp add files -- npx files",
    "memory confirm build",
    "restore home.tar.zst",
    "dashboard --no-browser",
    "attach",
    "fleet worker --enroll",
    "fleet webhook",
    "estop --status --clear",
)


@pytest.fixture
def by_agent(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The environment of what a tool of an agent of this home has started."""
    monkeypatch.setenv("ADDERCLAW_HOME", cli.env["ADDERCLAW_HOME"])
    return {CALL_MARK: f"1-2-{home_tag()}.1"}


@pytest.mark.parametrize("words", SPELLINGS)
def test_no_spelling_gives_the_operators_consent(cli: Cli, by_agent: Mapping[str, str], words: str) -> None:
    done = cli(*words.split(), env=by_agent)
    assert REFUSED in done.err, done
    assert done.code == 3


@pytest.mark.parametrize("words", ["trust --show .", "trust --list", "token create --help", "estop --status"])
def test_what_only_shows_something_is_not_refused(cli: Cli, by_agent: Mapping[str, str], words: str) -> None:
    assert REFUSED not in cli(*words.split(), env=by_agent).err


def test_another_home_with_the_agents_database_is_no_way_around(
    cli: Cli, by_agent: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("init").code == 0
    free, linked = tmp_path / "free", tmp_path / "linked"
    for folder in (free, linked):
        folder.mkdir()
    (linked / "memory.sqlite").symlink_to(cli.data / "memory.sqlite")
    for folder, refused in ((free, False), (linked, True)):
        done = cli("trust", ".", env={**by_agent, "ADDERCLAW_HOME": str(folder)})
        assert (REFUSED in done.err) == refused, done
    monkeypatch.setenv("ADDERCLAW_HOME", str(free))
    monkeypatch.setenv(CALL_MARK, by_agent[CALL_MARK])
    with pytest.raises(DeniedError):  # as where the other home's `memory.path` names it
        questions.answered(str(cli.data / "memory.sqlite"), "approval-1", "approvals", approved=True)


def test_every_option_that_makes_a_decision_or_none_exists() -> None:
    for path, consent in CONSENTS.items():
        command = get_command(app_of(import_module(f"adderclaw.channels.cli.{COMMANDS[path[0]].module}")))
        for name in path:
            command = getattr(command, "commands", {}).get(name, command)
        options = {option for parameter in command.params for option in parameter.opts}
        assert consent.only_with | consent.unless <= options, path
