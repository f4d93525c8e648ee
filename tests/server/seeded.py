"""A store as weeks of work leave it: conversations, runs of every kind, model calls, receipts of a real ledger."""

import json
import math
import os
import random
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adderclaw.core.json_text import digest
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import MediaBlock
from adderclaw.flows.agentfile.execute import fingerprint
from adderclaw.flows.agentfile.load import load
from adderclaw.flows.verifier.evidence import Keeper
from adderclaw.flows.verifier.results import Cited
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import Store, lists, model_calls, runs, subagents, transcript, workflows
from adderclaw.storage.ledger import ledger
from adderclaw.storage.ledger.chain import ReceiptDraft
from adderclaw.storage.sdlc import checks
from adderclaw.storage.text import compact, sql_time
from adderclaw.storage.workflows import GoalResult, WorkflowStart

DAY = 86_400.0
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MODELS = (
    ("anthropic", "claude-sonnet-5", 3.1, 15.5),
    ("openai", "gpt-5.2-mini", 0.3, 2.4),
    ("local", "qwen3-coder", 0, 0),
)
AGENTFILE = """NAME release
INPUT version
GOAL changelog "Write what changed since the last version"
GOAL build "Build the package for $version"
GOAL smoke "Install it in a clean place and run it"
GOAL publish "Upload the package"
RUN prepare USING changelog, build
RUN ship USING smoke, publish
"""
SCENARIOS: tuple[tuple[str, str, str, Any], ...] = (
    ("login-1", "Login", "A person logs in with the right password", "passed"),
    ("login-2", "Login", "Five wrong passwords lock the account for a minute", "passed"),
    ("login-3", "Login", "A session ends after a day", "failed"),
    ("cart-1", "Cart", "An article is put into the cart", "passed"),
    ("cart-2", "Cart", "The cart survives a reload", ""),
    ("cart-3", "Cart", "Two tabs show the same cart", None),
    ("pay-1", "Payment", "A card that is declined says why", None),
    ("pay-2", "Payment", "The bank's sandbox confirms a payment", "blocked"),
)


class Moving:
    """A clock that stands where the seed puts it."""

    def __init__(self, now: float) -> None:
        self.at = now

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Seeded:
    """What a test asks for by name."""

    spec: str = ""
    workflow: str = ""
    talk: str = ""
    """The conversation of `message`."""
    message: str = ""
    earlier: str = ""


class Seed:
    def __init__(self, database: Path, log: Path, key: Path, now: float) -> None:
        self.store = Store.open(str(database))
        self.clock = Moving(now - 40 * DAY)
        self.now = now
        self.random = random.Random(7)
        self.numbers: dict[str, int] = {}
        self.ledger = ledger.Ledger.open(str(log), self.store, str(key), clock=self.clock, ids=self.id)

    def id(self, kind: str) -> str:
        self.numbers[kind] = self.numbers.get(kind, 0) + 1
        return f"{kind}-{self.numbers[kind]:04d}"

    def close(self) -> None:
        self.ledger.close()
        self.store.close()

    # -------------------------------------------------------------- parts

    def conversation(self, project: str, words: str) -> tuple[str, str]:
        conversation, session = self.id("conv"), self.id("session")
        with self.store.write() as cursor:
            transcript.begin(cursor, conversation_id=conversation, session_id=session, project_dir=project)
            transcript.append(
                cursor, session, "user", {"uuid": self.id("entry"), "content": [{"type": "text", "text": words}]}
            )
            at = sql_time(self.clock.at)
            cursor.execute(
                "UPDATE conversations SET created_at = ?, last_active = ? WHERE id = ?", (at, at, conversation)
            )
        return conversation, session

    def run(self, kind: str, conversation: str, session: str) -> str:
        run_id = f"{sql_time(self.clock.at).replace('-', '').replace(' ', '-').replace(':', '')}-{self.id('r')[2:]}"
        with self.store.write() as cursor:
            runs.begin(
                cursor, run_id=run_id, kind=kind, conversation_id=conversation, session_id=session, pid=os.getpid()
            )
            cursor.execute("UPDATE runs SET started_at = ? WHERE run_id = ?", (sql_time(self.clock.at), run_id))
        return run_id

    def finish(self, run_id: str, outcome: Any, answer: str = "", reason: str | None = None) -> None:
        with self.store.write() as cursor:
            cost = cursor.execute("SELECT sum(cost) FROM model_calls WHERE run_id = ?", (run_id,)).fetchone()[0]
            usage = {"input_tokens": 0, "output_tokens": 0}
            code = 0 if outcome == "completed" else 1
            runs.finish(
                cursor,
                run_id=run_id,
                outcome=outcome,
                exit_code=code,
                answer=answer,
                usage=usage,
                reason=reason,
                cost=cost,
            )
            cursor.execute("UPDATE runs SET finished_at = ? WHERE run_id = ?", (sql_time(self.clock.at), run_id))

    def event(self, run_id: str, session: str, event_type: str, **payload: Any) -> None:
        with self.store.write() as cursor:
            cursor.execute(
                "INSERT INTO events(conversation_id, session_id, timestamp, event_type, detail)"
                " VALUES ('', ?, ?, ?, ?)",
                (session, sql_time(self.clock.at), event_type, compact({"run_id": run_id, "span_id": "", **payload})),
            )

    def asks(
        self, run_id: str | None, session: str, which: int = 0, *, seconds: float | None = None, called: str = ""
    ) -> None:
        """A model call with its row and events."""
        provider, model, price_in, price_out = MODELS[which]
        took = seconds if seconds is not None else 1.5 + self.random.expovariate(1 / 3)
        read, fresh = self.random.randrange(4_000, 60_000), self.random.randrange(300, 9_000)
        usage = {
            "input_tokens": fresh,
            "output_tokens": self.random.randrange(60, 1_900),
            "cache_read_tokens": read,
            "cache_write_tokens": 0,
        }
        cost = (
            (fresh * price_in + usage["output_tokens"] * price_out + read * price_in / 10) / 1e6 if price_in else None
        )
        if run_id is not None:
            self.event(run_id, session, "llm_request_sent", model=model)
        self.clock.at += took
        failed = self.random.random() < 0.01
        with self.store.write() as cursor:
            model_calls.record(
                cursor,
                session_id=session,
                step=1,
                provider=provider,
                model=model,
                request_hash=digest(took),
                response=None,
                usage=dict.fromkeys(usage, 0) if failed else usage,
                attempts=1,
                latency_ms=took * 1000,
                status="error" if failed else "ok",
                error="overloaded" if failed else None,
                cost=None if failed else cost,
                run_id=run_id,
            )
            cursor.execute(
                "UPDATE model_calls SET created_at = ? WHERE id = last_insert_rowid()", (sql_time(self.clock.at),)
            )
        if run_id is not None:
            self.event(
                run_id,
                session,
                "llm_response_received",
                model=model,
                latency_ms=took * 1000,
                called=[called] if called else [],
            )

    def calls(
        self,
        run_id: str,
        conversation: str,
        session: str,
        tool: str,
        *,
        seconds: float = 0.4,
        status: Any = "allowed",
        decision: dict[str, Any] | None = None,
        given: dict[str, Any] | None = None,
    ) -> None:
        """A tool call with its events and receipt."""
        use = self.id("call")
        decided = decision or {"verdict": "allow", "by": "mode", "reason": "low risk", "risk": "low"}
        with self.store.write() as cursor:
            transcript.append(
                cursor, session, "tool_use", {"id": use, "name": tool, "input": given or {}}, tool_use_id=use
            )
        if status == "denied":
            self.event(run_id, session, "tool_denied", tool=tool, tool_use_id=use)
        else:
            self.event(run_id, session, "tool_approved", tool=tool, tool_use_id=use)
            self.clock.at += seconds
            ended = "tool_completed" if status == "allowed" else "tool_failed"
            self.event(run_id, session, ended, tool=tool, tool_use_id=use, duration_ms=seconds * 1000)
        risk: Any = decided.get("risk", "low")
        text = "done"
        draft = ReceiptDraft(
            conversation, session, use, tool, digest(given or {}), digest(text), status, risk, decided, run_id
        )

        def rows(cursor: sqlite3.Cursor) -> None:
            entry = {"tool_use_id": use, "content": text, "is_error": status != "allowed"}
            transcript.append(cursor, session, "tool_result", entry, tool_use_id=use)

        self.ledger.append(draft, rows)

    def child(self, parent: str, kind: str, what: str) -> str:
        session = self.id("session")
        with self.store.write() as cursor:
            (conversation,) = cursor.execute(
                "SELECT conversation_id FROM sessions WHERE session_id = ?", (parent,)
            ).fetchone()
            transcript.begin(cursor, conversation_id=conversation, session_id=session, project_dir="")
            subagents.begin(
                cursor,
                session_id=session,
                parent_id=parent,
                tool_use_id=what,
                agent_type=kind,
                description=what,
                background=False,
            )
        return session


def seed(database: Path, log: Path, key: Path, project: Path, now: float) -> Seeded:
    """Five weeks, all of it in the past, and one run that nobody finished."""
    made = Seed(database, log, key, now)
    found = Seeded()
    try:
        _weeks(made, project)
        found.earlier = _specification(made, project, now - 2 * DAY, 4)
        found.message = _message(made, project)
        rows = made.store.read("SELECT conversation_id FROM runs WHERE run_id = ?", (found.message,))
        found.talk = str(rows[0][0])
        found.workflow = _workflow(made, project)
        found.spec = _specification(made, project, now - 3_000, 6)
    finally:
        made.close()
    return found


def _weeks(made: Seed, project: Path) -> None:
    """Use that rises and falls with the days of the week, in two projects."""
    other = str(project.parent / "website")
    for day in range(35, 0, -1):
        busy = 0 if day % 7 in (0, 1) else round(5 + 4 * math.sin(day / 3) + made.random.randrange(4))
        for _ in range(max(busy, 0)):
            made.clock.at = made.now - day * DAY + made.random.random() * DAY / 2
            conversation, session = made.conversation(
                str(project) if made.random.random() < 0.6 else other, "Look at the failing test"
            )
            run = made.run("agent", conversation, session)
            for _step in range(made.random.randrange(1, 4)):
                made.asks(run, session, made.random.choice((0, 0, 1, 2)))
            made.calls(run, conversation, session, made.random.choice(("Read", "Grep", "Bash", "Edit")))
            made.finish(run, made.random.choice(("completed", "completed", "completed", "error", "limit")), "Looked.")


def _message(made: Seed, project: Path) -> str:
    made.clock.at = made.now - 9_000
    conversation, session = made.conversation(
        str(project), "Mend the rounding error in the invoice totals and show me the difference"
    )
    run = made.run("agent", conversation, session)
    asked = {
        "verdict": "allow",
        "by": "operator",
        "asked_by": "mode",
        "answered_by": "ada at the browser",
        "reason": "runs a command",
        "risk": "medium",
    }
    denied = {
        "verdict": "deny",
        "by": "protected",
        "reason": "~/.ssh/config is protected: no setting lifts it",
        "risk": "high",
    }
    for tool, status, how, given in (
        ("Read", "allowed", None, {"file_path": "src/invoice.py"}),
        ("Bash", "allowed", asked, {"command": "python3 -m pytest -q tests/test_invoice.py"}),
        (
            "Edit",
            "allowed",
            asked,
            {"file_path": "src/invoice.py", "old_string": "round(x)", "new_string": "round(x, 2)"},
        ),
        ("Read", "denied", denied, {"file_path": "~/.ssh/config"}),
        ("Bash", "failed", asked, {"command": "python3 -m pytest -q"}),
        ("Bash", "allowed", asked, {"command": "python3 -m pytest -q"}),
    ):
        made.asks(run, session, called=tool)
        if how is asked:
            made.event(
                run, session, "approval_requested", tool=tool, tool_use_id=f"call-{made.numbers['call'] + 1:04d}"
            )
            made.clock.at += 6
            made.event(run, session, "approval_answered", tool=tool, tool_use_id=f"call-{made.numbers['call'] + 1:04d}")
        made.calls(
            run,
            conversation,
            session,
            tool,
            status=status,
            decision=how,
            given=given,
            seconds=2.2 if tool == "Bash" else 0.05,
        )
    made.asks(run, session)
    with made.store.write() as cursor:
        done = [
            lists.Todo(text, state, text)
            for text, state in (
                ("Find the rounding", "completed"),
                ("Mend it", "completed"),
                ("Run all tests", "in_progress"),
                ("Write the note", "pending"),
            )
        ]
        lists.replace_todos(cursor, session, done)
    made.finish(run, "completed", "The totals are rounded to cents now. All 42 tests pass.")
    return run


def _workflow(made: Seed, project: Path) -> str:
    made.clock.at = made.now - 6_000
    file = project / "Agentfile"
    file.write_text(AGENTFILE, encoding="utf-8")
    conversation, session = made.conversation(str(project), "release")
    run = made.run("agentfile", conversation, session)
    with made.store.write() as cursor:
        workflows.begin(
            cursor, WorkflowStart(run, str(file), "release", fingerprint(load(str(file))), {"version": "2.4.0"})
        )
    for place, goal, achieved in (("0.0.0", "changelog", True), ("0.0.1", "build", True), ("1.0.0", "smoke", False)):
        made.event(run, session, "goal_started", workflow="release", goal=goal)
        child = made.child(session, "goal", goal)
        for number in range(4):
            made.asks(run, child, number % 2, called="Bash")
            made.calls(
                run,
                conversation,
                child,
                "Bash",
                seconds=1.0 + 3 * number,
                status="allowed" if achieved or number < 3 else "failed",
            )
        with made.store.write() as cursor:
            summary = "Done, with 14 entries." if achieved else "The package imports a module that it does not bring."
            workflows.store_result(
                cursor,
                run,
                GoalResult(place, "", goal, child, {"achieved": achieved, "summary": summary, "outputs": {}}),
            )
        made.event(
            run,
            session,
            "goal_complete",
            workflow="release",
            goal=goal,
            outcome="achieved" if achieved else "not_achieved",
        )
    made.finish(run, "error", "", "goal smoke was not reached: the package imports a module that it does not bring")
    return run


def _specification(made: Seed, project: Path, at: float, sessions: int) -> str:
    made.clock.at = at
    (project / "SPEC.md").write_text("# A small shop\n", encoding="utf-8")
    folder = project / ".adderclaw"
    folder.mkdir(exist_ok=True)
    listed = [
        {"id": id, "feature": feature, "name": name, "passed": state == "passed"}
        for id, feature, name, state in SCENARIOS
    ]
    (folder / "status.json").write_text(json.dumps({"scenarios": listed}), encoding="utf-8")
    marks = {
        id: {"blocked": "the sandbox of the bank needs an account"}
        for id, _, _, state in SCENARIOS
        if state == "blocked"
    }
    (folder / "spec.json").write_text(json.dumps({"scenarios": marks}), encoding="utf-8")
    conversation, session = made.conversation(str(project), "Work on SPEC.md")
    run = made.run("spec", conversation, session)
    for number in range(sessions):
        child = made.child(session, "coding", f"session {number + 1}")
        made.event(run, child, "coding_session_started", number=number + 1, prompt="coding", passed=number, total=8)
        for step in range(3 + number % 3):
            made.asks(run, child, 0, called="Edit")
            made.calls(
                run, conversation, child, "Edit" if step % 2 else "Bash", seconds=0.2 if step % 2 else 4.0 + step
            )
    judged: list[tuple[str, str, Any]] = [
        (id, name, state) for id, _, name, state in SCENARIOS if state in ("passed", "failed", "")
    ][:sessions]
    keeper = Keeper(WorkspacePath(str(project), f"runs/{run}"), Secrets())
    with made.store.write() as cursor:
        cursor.execute(runs.UPSERT_TRACE, (run, os.fsencode(project), f"runs/{run}/events.jsonl".encode(), 0, 0, ""))
    for id, name, state in judged:
        checker = made.child(session, "verifier", id)
        with made.store.write() as cursor:
            checks.claim(cursor, project=str(project), scenario_id=f"{id}", name=name, run_id=run, session_id=session)
            (number,) = cursor.execute("SELECT max(id) FROM scenario_checks").fetchone()
        if state:
            made.asks(run, checker, 1, called="Bash")
            made.calls(run, conversation, checker, "Bash", given={"command": f"curl -s http://127.0.0.1:8000/{id}"})
            use, seen = f"call-{made.numbers['call']:04d}", MediaBlock("image/png", PIXEL)
            cited = Cited("E1", use, "Bash", {}, "done", (seen,), is_error=False)
            evidence = [keeper.keep(cited)]
            with made.store.write() as cursor:
                why = (
                    "Seen: the page shows the name after the login."
                    if state == "passed"
                    else "The session was still valid after 25 hours."
                )
                checks.settle(
                    cursor,
                    number,
                    state,
                    why,
                    run_id=run,
                    session_id=checker,
                    evidence=evidence,
                    tokens=4_210,
                    cost=0.0121,
                    seconds=21.5,
                )
    made.finish(run, "limit", "", "6 of 6 coding sessions were used up; 3 of 8 scenarios pass")
    return run
