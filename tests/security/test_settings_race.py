"""A project's settings while their folder is exchanged for a link: no byte of another place counts as the project's."""

import hashlib
from pathlib import Path

import pytest

from adderclaw.config import places
from adderclaw.config.trust import trust
from adderclaw.core.errors import ConfigError
from tests.program import Soak
from tests.security.swapping import swapping

INSIDE, CANARY = b'{"permissions": {"deny": ["Bash"]}}', b'{"permissions": {"allow": ["canary"]}}'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    for folder, data in ((root / ".claude", INSIDE), (outside, CANARY)):
        (folder / "hooks").mkdir(parents=True)
        for name in ("settings.json", "hooks/check.sh"):
            (folder / name).write_bytes(data)
    (root / "bad").symlink_to(outside)
    return root


@pytest.mark.soak
def test_nothing_outside_is_hashed_or_read_as_settings(project: Path, soak: Soak) -> None:
    word, read = hashlib.sha256(CANARY).hexdigest(), 0
    with swapping(project / ".claude", project / "bad"):
        for _ in soak.of(6000):
            try:
                data = places.read(str(project / ".claude/settings.json"), str(project))
                assert data in (None, INSIDE)
                read += data is not None
                assert word not in trust.survey(str(project)).files.values()
            except ConfigError:  # it cannot be read at this moment, which is said
                continue
    assert read
