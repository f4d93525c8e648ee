"""A home, a workspace and a scripted model, as a user would have them; tests look at what it leaves."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.program import Cli, Done

CONFIG = """
workspace_dir = "{workspace}"
default_provider = "local"
[security]
autonomy = "{autonomy}"
{security}
[runtime]
max_tool_rounds = {rounds}
retry_base_delay_seconds = 0.01
[providers.models.local]
kind = "mock"
model = "mock"
{more}
"""


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def text(said: str) -> dict[str, Any]:
    return {"text": said}


def add_skill(folder: Path) -> None:
    """A skill in this folder of skills: with one, a task is worked on by decisions."""
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "SKILL.md").write_text("---\nname: notes\ndescription: Keeps notes\n---\n# Notes\n")


class World:
    """`world.script(call("file_list", path="."), text("done"))`, then `world.agent("hi")`."""

    def __init__(self, cli: Cli, root: Path) -> None:
        self.cli = cli
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.cli.cwd = self.workspace
        self.fixture = root / "fixture.json"
        self.configure()

    def configure(self, autonomy: str = "supervised", security: str = "", rounds: int = 40, more: str = "") -> None:
        made = CONFIG.format(workspace=self.workspace, autonomy=autonomy, security=security, rounds=rounds, more=more)
        self.cli.configure(made)

    def script(self, *steps: Mapping[str, Any]) -> None:
        self.fixture.write_text(json.dumps({"steps": list(steps)}), encoding="utf-8")
        self.cli.env["ADDERCLAW_MOCK_FIXTURE"] = str(self.fixture)

    def agent(self, message: str, *more: str, stdin: str = "") -> Done:
        return self.cli("agent", "-m", message, *more, stdin=stdin)

    @property
    def database(self) -> Path:
        return self.cli.data / "memory.sqlite"

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as connection:
            return connection.execute(sql, parameters).fetchall()

    def entries(self, entry_type: str) -> list[dict[str, Any]]:
        sql = "SELECT payload_json FROM transcript_entries WHERE entry_type = ? ORDER BY id"
        return [json.loads(row[0]) for row in self.rows(sql, entry_type)]

    @property
    def log(self) -> Path:
        return self.cli.data / "tool_receipts.log"

    def receipts_so_far(self) -> list[bytes]:
        """Whole lines of the log of a run that is still going on."""
        return self.log.read_bytes().split(b"\n")[:-1] if self.log.exists() else []

    def receipts(self) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
