"""From plan to done by the installed program: tests that a generator writes, kills in between, and the report."""

import html
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.acceptance.test_agentfile import Flow
from tests.acceptance.test_rpc import Rpc
from tests.acceptance.world import World
from tests.flows.proofs import AFTER, BEFORE, GOOD, PLAN, hands_in, turn
from tests.program import Done
from tests.scripted import ScriptedModel
from tests.trial import why_not


class Work(Flow):
    """A project with a plan that is approved, and a change."""

    def begin(self, plan: str = PLAN) -> str:
        (self.folder / "greet").write_text(BEFORE)
        (self.folder / "greet").chmod(0o755)
        drafted = self.sdlc("plan", "-", "--new", "--output-format", "json", stdin=plan)
        assert drafted.code == 0, drafted.err
        approved = self.sdlc("approve", "--yes")
        assert approved.code == 0, approved.err
        return str(json.loads(drafted.out)["conversation"])

    def change(self, text: str = AFTER) -> None:
        (self.folder / "greet").write_text(text)

    def sdlc(self, *words: str, stdin: str = "") -> Done:
        return self.world.cli("sdlc", *words, stdin=stdin, timeout=120)

    def generates(self, *sessions: list[dict[str, Any]]) -> None:
        self.add(*(step for session in sessions for step in session))

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.world.database) as database:
            return database.execute(statement).fetchall()


@pytest.fixture
def work(world: World) -> Iterator[Work]:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    with ScriptedModel() as model:
        yield Work(world, model)


def test_d80_d81_d90_d91_from_plan_to_done(work: Work, tmp_path: Path) -> None:
    """Entering `test` generates and runs; the gate opens by results alone; the report is the same in every form."""
    conversation = work.begin()
    closed = work.sdlc("transition", "verify")
    assert (closed.code, "the tests are not bypassed" in closed.err) == (3, True)
    hostile = GOOD["C1"].replace(
        "|| exit 1", "|| exit 1\nprintf '<script>alert(1)</script>\\n'\nprintf '\\033[31mred' >&2\nexit 0"
    )
    work.generates(turn(hands_in("C1", hostile), hands_in("C2", GOOD["C2"])))
    entered = work.sdlc("transition", "test")
    assert entered.code == 0
    assert "1 of 2 tests fail on the tree as it is now: C1" in entered.err
    closed = work.sdlc("transition", "verify")
    assert (closed.code, "test 1 of C1 failed with status 1" in closed.err) == (3, True)
    work.change()
    again = work.sdlc("test")
    assert (again.code, again.out) == (0, "2 of 2 criteria have a proved test\n"), again.err
    assert work.sdlc("transition", "verify").code == 0
    reports = {form: work.sdlc("report", "--output-format", form).out for form in ("text", "markdown", "json", "html")}
    found = json.loads(reports["json"])
    assert found["totals"] == {
        "criteria": 2, "uncovered": 0, "traced": 2, "passed": 2, "failed": 0, "not_run": 0, "turned_back": 0
    }  # fmt: skip
    assert found["criteria"][0]["tests"][0]["results"]["now"]["stdout"] == "<script>alert(1)</script>\n"
    for form in ("text", "markdown", "html"):
        assert "C1" in reports[form]
        assert "with the plan's fault" in html.unescape(reports[form])
        assert "\x1b" not in reports[form]
    assert "<script>" not in reports["html"]
    assert "alert(1)" in reports["html"]
    written = work.sdlc("report", "--output-format", "html", "--file", str(tmp_path / "report.html"))
    assert (written.code, (tmp_path / "report.html").read_text()) == (0, reports["html"])
    written = work.sdlc("report", "--output-format", "json", "--file", str(tmp_path / "report.json"))
    assert (written.code, (tmp_path / "report.json").read_text()) == (0, reports["json"])
    assert work.sdlc("approve").code == 5
    done = work.sdlc("approve", "--yes")
    assert (done.code, "verify → done" in done.out) == (0, True), done.err
    assert work.sql(f"SELECT phase FROM conversations WHERE id = '{conversation}'") == [("done",)]


def test_a_killed_proof_goes_on_with_what_is_left(work: Work) -> None:
    """kill -9 while the generator speaks, after it handed in one of two tests: that one is not asked for again."""
    work.begin()
    work.change()
    work.sql("UPDATE conversations SET phase = 'test' WHERE phase = 'implement'")
    work.generates([{"tool_calls": [hands_in("C1", GOOD["C1"])]}, {"hang": 60}])
    process = work.world.cli.start("sdlc", "test")
    work.wait_for(2, 0, process)
    process.kill()
    process.communicate()
    assert work.sql("SELECT criterion, status FROM generated_tests") == [("C1", "submitted")]
    (left := work.world.cli.data / "proof" / "plan-1" / "tree").mkdir(parents=True)
    work.generates(turn(hands_in("C2", GOOD["C2"])))
    again = work.sdlc("test")
    assert again.code == 0, again.err
    assert work.sql("SELECT criterion, status FROM generated_tests") == [("C1", "accepted"), ("C2", "accepted")]
    asked = cast(str, work.model.requests[-2].messages[-1]["content"])
    assert "- C2 (keeps)" in asked
    assert "- C1:" not in asked
    assert not left.exists()


def test_the_operator_alone_withdraws_a_test(work: Work) -> None:
    """A test that is wrong is not skipped: another is generated, and the generator receives the reason."""
    work.begin()
    work.change()
    work.generates(turn(hands_in("C1", GOOD["C1"].replace("Hello, Ada", "Hello Ada")), hands_in("C2", GOOD["C2"])))
    assert work.sdlc("transition", "test").code == 0
    assert work.sdlc("test", "--withdraw", "1").code == 2
    assert "has no accepted test 9" in work.sdlc("test", "--withdraw", "9", "--reason", "x").err
    work.generates(turn(hands_in("C1", GOOD["C1"])))
    again = work.sdlc("test", "--withdraw", "1", "--reason", "there is a comma")
    assert again.code == 0, again.err
    assert "the operator withdrew it: there is a comma" in cast(str, work.model.requests[-2].messages[-1]["content"])
    assert work.sdlc("transition", "verify").code == 0
    assert work.sql("SELECT event_type FROM events WHERE event_type = 'test_withdrawn'") == [("test_withdrawn",)]


def test_tests_wait_for_their_phase_and_a_plan(work: Work) -> None:
    work.begin("# Plan\n\nNo criteria.\n")
    early = work.sdlc("test")
    assert (early.code, "run `adderclaw sdlc transition test` first" in early.err) == (2, True)
    assert work.sdlc("transition", "test").code == 0
    late = work.sdlc("test")
    assert (late.code, "the plan has no success criteria" in late.err) == (1, True)
    assert work.sdlc("transition", "verify").code == 3


def test_the_same_over_rpc_and_in_the_repl(work: Work) -> None:
    conversation = work.begin()
    work.change()
    work.generates(turn(hands_in("C1", GOOD["C1"])))
    work.generates(*[[{"text": "No."}, {"text": "No."}]] * 2)
    typed = work.world.cli.typed("agent", stdin=f"/resume {conversation}\n/phase test\n/exit\n", timeout=120)
    assert "tests limit: 1 of 2 criteria have a proved test; open: C2" in typed.out, (typed.out, typed.err)
    work.generates(turn(hands_in("C2", GOOD["C2"])))
    client = Rpc(work.world)
    try:
        client.request(1, "sdlc.test", conversation=conversation)
        ended = client.until(id=1)
        assert "result" in ended, ended
        ended = ended["result"]
        assert (ended["outcome"], ended["reason"], ended["open"]) == ("completed", "", [])
        client.request(2, "sdlc.report", conversation=conversation)
        assert client.until(id=2)["result"]["totals"]["passed"] == 2
        client.request(3, "sdlc.transition", phase="verify", conversation=conversation)
        assert client.until(id=3)["result"]["phase"] == "verify"
    finally:
        client.close()


def test_verify_is_no_dead_end(work: Work) -> None:
    """What git ignores and our own report change nothing; any other change needs the tests again, within verify."""
    subprocess.run(["git", "init", "-q"], cwd=work.folder, check=True)
    (work.folder / ".gitignore").write_text("*.log\n")
    conversation = work.begin()
    work.change()
    work.generates(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    assert work.sdlc("transition", "test").code == 0
    assert work.sdlc("transition", "verify").code == 0
    (work.folder / "greet.log").write_text("tried by hand\n")
    assert work.sdlc("report", "--output-format", "html", "--file", str(work.folder / "report.html")).code == 0
    assert json.loads(work.sdlc("report", "--output-format", "json").out)["open_reasons"] == []
    (work.folder / "notes.txt").write_text("one more file\n")
    closed = work.sdlc("approve", "--yes")
    assert (closed.code, "the workspace has changed since test 1 of C1 was run" in closed.err) == (3, True)
    again = work.sdlc("test")
    assert again.code == 0, again.err
    # a new version of the plan: what was done for the last one is not taken for the state before it
    assert work.sdlc("plan", "-", stdin=PLAN).code == 0
    approved = work.sdlc("approve", "--yes")
    assert (approved.code, "the workspace before plan 1 is kept as its baseline" in approved.err) == (0, True)
    work.generates(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    assert work.sdlc("transition", "test").code == 0
    assert work.sdlc("transition", "verify").code == 0
    (work.folder / "more.txt").write_text("and one more\n")
    assert work.sdlc("test").code == 0
    done = work.sdlc("approve", "--yes")
    assert (done.code, "verify → done" in done.out) == (0, True), done.err
    # the change is done: the next plan begins with the workspace as it is
    assert work.sdlc("plan", "-", "--conversation", conversation, stdin=PLAN).code == 0
    assert work.sdlc("approve", "--yes").err == ""
