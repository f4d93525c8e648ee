"""A world for each test that drives the installed program."""

from pathlib import Path

import pytest

from tests.acceptance.world import World
from tests.program import Cli


@pytest.fixture
def world(cli: Cli, tmp_path: Path) -> World:
    return World(cli, tmp_path)
