"""docs/users/fleet.md, followed word by word on three machines: one that begins, one that works, one that submits."""

import json
import shlex
import shutil
from pathlib import Path

import psycopg

from tests.fleet.farm import reached
from tests.fleet.postgres import Cluster
from tests.program import Cli, Done
from tests.test_docs import DOCS, blocks

ADDRESS = "postgresql://adderclaw@db.internal/adderclaw"
BATCH = "batch-1f2e3d4c5b6a"
CONFIG = """
default_provider = "local"
[providers.models.local]
kind = "mock"
model = "mock"
fixture = "{fixture}"
"""
ENDS = {"worker": "--until-idle", "watch": "--once"}
"""What goes on until Ctrl-C, and the option that ends it by itself."""


def machine(root: Path, name: str, *files: Path) -> Cli:
    home = root / name
    data = home / ".adderclaw"
    data.mkdir(parents=True, mode=0o700)
    for file in files:
        shutil.copy(file, data)
    return Cli(home, home)


def shown() -> list[list[str]]:
    """The commands of the page that take a database."""
    page = (DOCS / "users" / "fleet.md").read_text(encoding="utf-8")
    marked = [block.text for block in blocks(page) if "test_first_steps.py" in block.mark]
    return [shlex.split(line.removeprefix("$ ")) for text in marked for line in text.splitlines()]


def done(cli: Cli, words: list[str], **instead: str) -> Done:
    program, *rest = [instead.get(word, word) for word in words]
    assert program == "adderclaw"
    ended = cli(*rest, *filter(None, [ENDS.get(rest[1])]))
    assert ended.code == 0, f"{words}\n{ended.out}\n{ended.err}"
    return ended


def test_the_page_can_be_followed(cluster: Cluster, tmp_path: Path) -> None:
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
        connection.execute(b"CREATE DATABASE first_steps")
    init, enroll, worker, submit, watch, report = shown()
    first = machine(tmp_path, "first")
    done(first, init, **{ADDRESS: cluster.url("first_steps")})
    key, where = first.data / "fleet.key", first.data / "fleet.toml"

    submitter = machine(tmp_path, "submitter", where)
    (submitter.cwd / "Agentfile").write_text('NAME t\nINPUT ticket\nGOAL fix "Fix $ticket"\nRUN all USING fix\n')
    (submitter.cwd / "tickets.csv").write_text("ticket\none\ntwo\n")
    submitted = done(submitter, submit)
    (batch,) = {word.strip("`") for word in submitted.err.split() if word.startswith("batch-")}

    works = machine(tmp_path, "works", key, where)
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"steps": [reached()], "partial": True}))
    works.configure(CONFIG.format(fixture=script))
    done(works, enroll)
    done(works, worker)
    assert "ended 2" in done(submitter, watch).out
    assert "completed" in done(submitter, report, **{BATCH: batch}).out
    assert batch in (submitter.cwd / "report.html").read_text(encoding="utf-8")
