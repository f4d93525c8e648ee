"""A folder with a home of its own."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path / "home"))
    return tmp_path
