"""No spelling of a command line that a tool of an agent runs gives the operator's consent."""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

from adderclaw.agent.conversation import questions
from adderclaw.agent.tool_call import approvals
from adderclaw.core.errors import DeniedError
from adderclaw.core.questions import ApprovalRequest, Kind
from adderclaw.sandbox.watchdog import CALL_MARK, home_tag
from adderclaw.terminal.commands.common import CONSENTS, app_of
from adderclaw.terminal.commands.table import COMMANDS
from tests.acceptance.test_sdlc import phase, seeded
from tests.acceptance.world import World, call, text
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
    "onboard",
    "memory confirm build",
    "restore home.tar.zst",
    "dashboard --no-browser",
    "attach",
    "fleet worker --enroll",
    "fleet webhook",
    "estop --status --clear",
)


def mark(cli: Cli) -> str:
    return f"1-2-{home_tag(cli.env['ADDERCLAW_HOME'])}.1"


@pytest.fixture
def world(cli: Cli, tmp_path: Path) -> World:
    return World(cli, tmp_path)


@pytest.fixture
def by_agent(cli: Cli) -> Mapping[str, str]:
    """The environment of what a tool of an agent of this home has started."""
    return {CALL_MARK: mark(cli)}


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


PLAN = "# Change the title\n\n1. Edit README.md.\n"


def test_a_plan_is_not_approved_by_calling_exit_plan_mode(world: World) -> None:
    """Neither as the one tool that is run by hand, nor by answering the question of an agent at a terminal."""
    id, env = "test-conv-1", {CALL_MARK: mark(world.cli)}
    seeded(world, "planning")
    call_by_hand = json.dumps({"tool": "ExitPlanMode", "input": {"plan": PLAN}})
    done = world.cli("--eval", call_by_hand, "--conversation", id, env=env)
    assert REFUSED in done.err, done
    world.script(call("ExitPlanMode", plan=PLAN), text("done"))
    world.cli.env |= env
    typed = world.cli.typed("agent", "-r", id, stdin="go on\ny\n/exit\n")
    assert "It is stored as draft" in typed.out + typed.err, typed
    assert phase(world) == "planning"


@pytest.mark.parametrize(("tool", "kind", "refused"), [("sop", "step", True), ("Write", "call", False)])
def test_a_step_is_not_approved_either(
    by_agent: Mapping[str, str], cli: Cli, monkeypatch: pytest.MonkeyPatch, tool: str, kind: Kind, refused: bool
) -> None:
    monkeypatch.setenv("ADDERCLAW_HOME", cli.env["ADDERCLAW_HOME"])
    monkeypatch.setenv(CALL_MARK, by_agent[CALL_MARK])
    answer = approvals.refuse_from_agent(ApprovalRequest(tool, "medium", "why", "what", "", kind=kind))
    assert (answer is not None and not answer.approved) == refused


def test_every_option_that_makes_a_decision_or_none_exists() -> None:
    for path, consent in CONSENTS.items():
        command = get_command(app_of(import_module(f"adderclaw.terminal.commands.{COMMANDS[path[0]].module}")))
        for name in path:
            command = getattr(command, "commands", {}).get(name, command)
        options = {option for parameter in command.params for option in parameter.opts}
        assert consent.only_with | consent.unless <= options, path
