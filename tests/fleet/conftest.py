"""A fleet for each test: a database of its own, an operator's home, and as many workers as it starts."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fleet.farm import Farm
from tests.fleet.postgres import Cluster, programs
from tests.forked import Forks
from tests.program import EXEC, MEASURED, PROGRAM, Cli


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed on this machine")
    made = Cluster(found)
    made.start()
    try:
        made.template(tmp_path_factory.mktemp("template") / "home")
        yield made
    finally:
        made.remove()


ENGINE = ("dbos", "psycopg", "obstore", "cryptography.hazmat.primitives.asymmetric.ed25519")
"""What a worker imports of others."""


@pytest.fixture(scope="session")
def forks() -> Generator[Forks | None]:
    if EXEC or MEASURED:
        yield None
        return
    env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "TZ": "UTC"}
    made = Forks(str(PROGRAM), env, modules=ENGINE)
    yield made
    made.close()


@pytest.fixture
def farm(cluster: Cluster, cli: Cli, tmp_path: Path, forks: Forks | None) -> Generator[Farm]:
    cli.forks = True
    made = Farm(cluster.database(), cli, tmp_path, forks)
    try:
        yield made
    finally:
        made.close()
