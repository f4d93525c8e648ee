"""A home and a project, each with whatever files a test writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config import Loaded, load
from adderclaw.core.errors import ConfigError


class World:
    """`user` and `project` write configuration; `load` reads it from inside the project."""

    def __init__(self, home: Path, root: Path) -> None:
        self.home, self.root = home, root
        self.own = home / ".adderclaw"
        self.own.mkdir(mode=0o700)
        (home / "adderclaw-workspace").mkdir()

    def user(self, text: str, name: str = "config.toml") -> Path:
        return self._write(self.own / name, text)

    def project(self, text: str, name: str = "agent.yaml") -> Path:
        return self._write(self.root / name, text)

    def settings(self, **table: Any) -> Path:
        return self._write(self.root / ".adderclaw" / "agent.json", json.dumps(table))

    def load(self, **options: Any) -> Loaded:
        chosen: dict[str, Any] = {"cwd": str(self.root)} | options
        return load(**chosen)

    def problems(self, **options: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load(**options)
        assert caught.value.exit_code == 2
        return [str(problem) for problem in caught.value.problems]

    def trust(self) -> None:
        from adderclaw.config.trust import trust

        found = trust.survey(str(self.root))
        trust.record(str(self.own), str(self.root), found, "2026-01-01T00:00:00Z")

    @staticmethod
    def _write(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def world(home: Path, tmp_path: Path) -> World:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    return World(home, root)
