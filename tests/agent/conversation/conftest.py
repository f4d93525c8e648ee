"""A world whose settings are those of this process too: conversations are hosted in the test itself."""

from pathlib import Path

import pytest

from adderclaw.agent.conversation.conversations import Conversations
from adderclaw.agent.conversation.watched import BOUNDS, Bounds
from adderclaw.agent.run import Options
from tests.acceptance.world import World
from tests.program import Cli


@pytest.fixture
def world(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(cli, tmp_path)
    made.script()
    for name, value in made.cli.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(made.workspace)
    return made


def hosted(
    world: World, patience: float | None = None, bounds: Bounds = BOUNDS, rest: float | None = None
) -> Conversations:
    options = Options(workspace=str(world.workspace), log_level="off")
    return Conversations(options, "http", patience=patience, bounds=bounds, rest=rest)
