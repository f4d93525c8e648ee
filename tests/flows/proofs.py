"""A small project with an approved plan, a scripted generator, and the proof of the plan, all in this process."""

import asyncio
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from adderclaw import config
from adderclaw.agent.legacy.plan_baseline import record_baseline
from adderclaw.agent.run.drive import Report
from adderclaw.config.legacy.options import Options
from adderclaw.flows.sdlc import baseline as sdlc
from adderclaw.flows.sdlc import begin_proof
from adderclaw.sandbox.legacy.checkpoints import baseline
from adderclaw.storage import Store, transcript
from adderclaw.storage.sdlc import generated_tests, phases, plans
from adderclaw.storage.sdlc.phases import Mover
from adderclaw.storage.sdlc.proof import open_reasons
from tests.scripted import ScriptedModel, Step

CONVERSATION = "conversation"
ANN = Mover("operator", "ann")
CONFIG = """
default_provider = "scripted"
[runtime]
retry_base_delay_seconds = 0.01
[providers.models.scripted]
kind = "openai-compatible"
base_url = "{url}"
model = "m"
"""
BEFORE = '#!/bin/sh\n# greets\ncase "$1" in --version) echo "greet 1.0"; exit 0 ;; esac\necho "Hi"\n'
AFTER = BEFORE.replace('echo "Hi"', 'echo "Hello, $1"')
PLAN = """# Greet by name

`greet NAME` says hello to NAME.

## Public interface

`./greet NAME`, `./greet --version`; see `docs/usage.md` and `src/secret.py`.

## Success criteria

- [C1] `./greet Ada` prints exactly `Hello, Ada`
- [C2] (keeps) `./greet --version` prints `greet 1.0`
  fault: in `greet` replace `greet 1.0` with `greet 0.9`
"""
GOOD = {
    "C1": 'out=$(./greet Ada)\n[ "$out" = "Hello, Ada" ] || exit 1\n',
    "C2": 'out=$(./greet --version)\n[ "$out" = "greet 1.0" ] || exit 1\n',
}


def hands_in(criterion: str, content: str, language: str = "sh") -> dict[str, Any]:
    return {"name": "SubmitTest", "arguments": {"criterion": criterion, "language": language, "content": content}}


def turn(*calls: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One session of the generator: all calls in one reply, then a word."""
    return [{"tool_calls": list(calls)}, {"text": "Done."}]


class Project:
    def __init__(self, home: Path, root: Path, model: ScriptedModel) -> None:
        self.home, self.root, self.model = home / ".adderclaw", root, model
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "config.toml").write_text(CONFIG.format(url=model.base_url))
        self.files(
            greet=BEFORE, **{"docs/usage.md": "# greet\nThe published usage.\n", "src/secret.py": "SECRET = 1\n"}
        )
        self.plan_id = 0

    def files(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    @property
    def options(self) -> Options:
        return Options(workspace=str(self.root))

    def store(self) -> Store:
        return Store.open(str(self.home / "memory.sqlite"))

    def approve(self, plan: str = PLAN) -> None:
        loaded = config.load(workspace=str(self.root))
        store = self.store()
        try:
            with store.write() as cursor:
                transcript.begin(
                    cursor, conversation_id=CONVERSATION, session_id="implementer", project_dir=str(self.root)
                )
                phases.transition(cursor, CONVERSATION, "planning", by=ANN)
                self.plan_id = plans.draft(cursor, CONVERSATION, plan)
            root = str(self.root.resolve())
            baseline.approve(
                store,
                CONVERSATION,
                self.plan_id,
                ANN,
                lambda: record_baseline(store, loaded.config, str(self.home), root),
            )
            with store.write() as cursor:
                phases.transition(cursor, CONVERSATION, "test", by=ANN)
        finally:
            store.close()

    def script(self, *sessions: list[dict[str, Any]]) -> None:
        """What the generator says in its next sessions."""
        self.model.add(*(cast(Step, step) for session in sessions for step in session))

    def told(self) -> str:
        """All that the model was sent."""
        return " ".join(request.body.decode() for request in self.model.requests)

    def prove(self) -> Report:
        store = self.store()
        try:
            loaded = config.load(workspace=str(self.root))
            made = begin_proof.ready(self.options, loaded, str(self.home), store, CONVERSATION)
        finally:
            store.close()
        return asyncio.run(begin_proof.prove(made))

    # -------------------------------------------------------------- what it left

    def tree(self) -> str:
        loaded = config.load(workspace=str(self.root))
        return sdlc.tree_now(loaded.config, str(self.home), str(self.root.resolve()))

    def reasons(self, tree: str | None = None) -> list[str]:
        store = self.store()
        try:
            with store.write() as cursor:
                plan = plans.approved_plan(cursor, CONVERSATION)
                assert plan is not None
                return open_reasons(cursor, plan, self.tree() if tree is None else tree)
        finally:
            store.close()

    def tests(self) -> list[generated_tests.Test]:
        store = self.store()
        try:
            return generated_tests.tests(store, self.plan_id)
        finally:
            store.close()

    def results(self) -> list[tuple[str, str, int]]:
        """(criterion, tree or what stood in for the programs, exit code), in the order of the runs."""
        sql = (
            "SELECT t.criterion, CASE WHEN r.tree_digest LIKE 'replaced-%' THEN substr(r.tree_digest, 10,"
            " instr(r.tree_digest, ':') - 10) ELSE r.tree END, r.exit_code"
            " FROM test_results r JOIN generated_tests t ON t.id = r.test_id"
            " ORDER BY r.id"
        )
        return [tuple(row) for row in self.sql(sql)]

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """As whoever has the database in their hands."""
        with sqlite3.connect(self.home / "memory.sqlite") as database:
            return database.execute(statement, values).fetchall()

    def copies(self) -> list[str]:
        folder = self.home / "proof"
        return (
            sorted(name for name in os.listdir(folder) if not name.startswith("generator")) if folder.is_dir() else []
        )
