"""A den for each attack: on each rung of the sandbox, as root and as an ordinary user."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.security.world import Den, Rung
from tests.trial import no_namespaces, why_not

type Who = str
WHO = ("root", "user")
RUNGS: tuple[Rung, ...] = ("bubblewrap", "landlock")


@contextmanager
def den(rung: Rung, who: Who) -> Generator[Den]:
    if why := why_not(rung):
        pytest.skip(f"{rung} does not start on this machine: {why}")
    if who == "root" and os.geteuid() != 0:
        pytest.skip("whoever runs the tests is an ordinary user")
    if who == "user" and os.geteuid() == 0:
        if why := no_namespaces():
            pytest.skip(why)
        if not shutil.which("setpriv"):
            pytest.skip("setpriv is not installed on this machine")
    base = Path(tempfile.mkdtemp(prefix="adderclaw-den-", dir="/var/tmp"))
    base.chmod(0o755)
    made = Den(base, rung, as_user=who == "user" and os.geteuid() == 0)
    try:
        yield made
    finally:
        made.canaries.clear()


@pytest.fixture(params=WHO)
def who(request: pytest.FixtureRequest) -> Who:
    return request.param


@pytest.fixture(params=RUNGS)
def rung(request: pytest.FixtureRequest) -> Rung:
    return request.param


@pytest.fixture
def world(home: Path) -> Generator[Den]:
    """On bubblewrap, as whoever runs the tests."""
    with den("bubblewrap", "root" if os.geteuid() == 0 else "user") as made:
        yield made


@pytest.fixture
def anyone(home: Path, who: Who) -> Generator[Den]:
    """On bubblewrap, as root and as an ordinary user."""
    with den("bubblewrap", who) as made:
        yield made


@pytest.fixture
def everywhere(home: Path, rung: Rung, who: Who) -> Generator[Den]:
    """On each rung, as root and as an ordinary user."""
    with den(rung, who) as made:
        yield made


@pytest.fixture
def landlocked(home: Path, who: Who) -> Generator[Den]:
    """On Landlock, as root and as an ordinary user."""
    with den("landlock", who) as made:
        yield made


@pytest.fixture
def on_each_rung(home: Path, rung: Rung) -> Generator[Den]:
    """On each rung, as whoever runs the tests."""
    with den(rung, "root" if os.geteuid() == 0 else "user") as made:
        yield made
