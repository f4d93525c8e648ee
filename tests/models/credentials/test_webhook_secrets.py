"""Secrets of doors: for their owner only, replaced with time to change over, and a damaged file lets nobody in."""

import os
from pathlib import Path

import pytest

from adderclaw.core.errors import UsageError
from adderclaw.models.credentials import webhook_secrets as secrets
from adderclaw.models.credentials.encrypted_file import VaultError

NOW = 1_800_000_000.0
DOOR = "channel:chat"


def test_a_door_without_a_secret_has_none(tmp_path: Path) -> None:
    assert secrets.known(str(tmp_path), DOOR, NOW) == []
    assert not secrets.forget(str(tmp_path), DOOR)
    assert os.listdir(tmp_path) == []


def test_a_new_secret_counts_at_once_and_the_old_one_for_a_day(tmp_path: Path) -> None:
    home = str(tmp_path)
    first = secrets.make(home, DOOR, NOW)
    other = secrets.make(home, "trigger:s1", NOW)
    second = secrets.make(home, DOOR, NOW + 10)
    assert secrets.known(home, DOOR, NOW + 20) == [second, first]
    assert secrets.known(home, DOOR, NOW + 10 + secrets.GRACE) == [second]
    third = secrets.make(home, DOOR, NOW + 30, grace=0)  # it leaked: nothing from before counts
    assert secrets.known(home, DOOR, NOW + 30) == [third]
    assert secrets.forget(home, DOOR)
    assert secrets.known(home, DOOR, NOW) == []
    assert secrets.known(home, "trigger:s1", NOW) == [other]
    assert os.stat(secrets.place(home)).st_mode & 0o777 == 0o600


def test_a_later_secret_never_lengthens_what_an_earlier_one_has(tmp_path: Path) -> None:
    home = str(tmp_path)
    first = secrets.make(home, DOOR, NOW)
    secrets.make(home, DOOR, NOW, grace=60)
    secrets.make(home, DOOR, NOW + 30, grace=86_400)
    assert first in secrets.known(home, DOOR, NOW + 59)
    assert first not in secrets.known(home, DOOR, NOW + 60)


def test_a_secret_that_a_sender_gave_must_be_strong(tmp_path: Path) -> None:
    given = "the text that the sender shows"
    assert secrets.make(str(tmp_path), DOOR, NOW, text=given) == given
    with pytest.raises(UsageError):
        secrets.make(str(tmp_path), DOOR, NOW, text="short")
    assert secrets.known(str(tmp_path), DOOR, NOW) == [given]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"channel:chat": "x"}', '{"channel:chat": [{"secret": 1}, 2, null]}', '{"a": {}}']
)
def test_a_damaged_file_lets_nobody_in(tmp_path: Path, text: str) -> None:
    path = tmp_path / "webhooks.json"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    assert secrets.known(str(tmp_path), DOOR, NOW) == []


def test_a_file_that_others_can_read_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    secrets.make(str(tmp_path), DOOR, NOW)
    path = tmp_path / "webhooks.json"
    path.chmod(0o644)
    with pytest.raises(VaultError, match="can be read by others"):
        secrets.known(str(tmp_path), DOOR, NOW)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to("elsewhere")
    with pytest.raises(VaultError):
        secrets.known(str(tmp_path), DOOR, NOW)
