"""The coverage report of a plan: which test proves which criterion, with the output of each test."""

from collections.abc import Iterator, Sequence

from adderclaw.agent.view.page import Block, Heading, Line, Output, Table, Tone
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.sdlc import generated_tests
from adderclaw.storage.sdlc.criteria import Criterion
from adderclaw.storage.sdlc.generated_tests import Result, Test
from adderclaw.storage.sdlc.plans import Plan

WHERE = {
    "baseline": "before the change",
    "fault": "with the plan's fault",
    "now": "as it is",
    "other": "with programs that print something else",
    "status": "with programs that print something else and exit otherwise",
    "empty": "with programs that print nothing",
}


class Shown(NamedTuple):
    """A test with its last result on each tree."""

    test: Test
    results: dict[str, Result]

    @property
    def state(self) -> str:
        """passed, failed, not run, turned back, or another status of a test that was not accepted."""
        if self.test.status != "accepted":
            return "turned back" if self.test.status == "returned" else self.test.status
        now = self.results.get("now")
        return "not run" if now is None else "passed" if now.passed else "failed"


class Covered(NamedTuple):
    criterion: Criterion
    tests: Sequence[Shown]

    @property
    def is_covered(self) -> bool:
        return any(test.state == "passed" for test in self.tests)


class Coverage(NamedTuple):
    plan: Plan
    conversation_id: str
    phase: str
    rows: Sequence[Covered]
    reasons: Sequence[str]
    """Why the conversation cannot enter the phase `verify`."""

    @property
    def counted(self) -> list[Shown]:
        """The tests that are traced to a criterion."""
        return [test for row in self.rows for test in row.tests if test.test.status == "accepted"]

    @property
    def totals(self) -> dict[str, int]:
        states = [test.state for test in self.counted]
        passed, failed = states.count("passed"), states.count("failed")
        return {
            "criteria": len(self.rows),
            "uncovered": len(self.uncovered),
            "traced": len(states),
            "passed": passed,
            "failed": failed,
            "not_run": len(states) - passed - failed,
            "turned_back": sum(test.test.status == "returned" for row in self.rows for test in row.tests),
        }

    @property
    def uncovered(self) -> list[Criterion]:
        return [row.criterion for row in self.rows if not row.is_covered]

    def as_json(self) -> Json:
        return {
            "conversation_id": self.conversation_id,
            "phase": self.phase,
            "plan": {"id": self.plan.id, "hash": self.plan.hash, "status": self.plan.status},
            "totals": self.totals,
            "open_reasons": list(self.reasons),
            "uncovered": [entry.id for entry in self.uncovered],
            "criteria": [
                {
                    "id": row.criterion.id,
                    "text": row.criterion.text,
                    "keeps": row.criterion.keeps,
                    "covered": row.is_covered,
                    "tests": [_as_json(entry) for entry in row.tests],
                }
                for row in self.rows
            ],
        }


def _as_json(shown: Shown) -> Json:
    test = shown.test
    return {
        "id": test.id,
        "language": test.language,
        "hash": test.hash,
        "state": shown.state,
        "reason": test.reason,
        "content": test.content,
        "results": {
            tree: {
                "tree_digest": result.tree_digest,
                "exit_code": result.exit_code,
                "timed_out": result.timed_out,
                "seconds": result.seconds,
                "stdout": result.stdout,
                "stderr": result.stderr,
                "run_id": result.run_id,
            }
            for tree, result in shown.results.items()
        },
    }


def coverage(
    store: Store, plan: Plan, criteria: Sequence[Criterion], conversation_id: str, phase: str, reasons: Sequence[str]
) -> Coverage:
    results = generated_tests.results(store, plan.id)
    tests = [entry for entry in generated_tests.tests(store, plan.id) if entry.plan_hash == plan.hash]
    rows = [
        Covered(
            entry,
            [
                Shown(test, {result.variant or result.tree: result for result in results.get(test.id, [])})
                for test in tests
                if test.criterion == entry.id
            ],
        )
        for entry in criteria
    ]
    return Coverage(plan, conversation_id, phase, rows, reasons)


# ------------------------------------------------------------------ as blocks


def blocks(coverage: Coverage) -> Iterator[Block]:
    """The blocks of the report, in every format."""
    totals = coverage.totals
    yield Table(
        ("conversation", "phase", "plan", "traced tests", "passed", "failed", "not run", "turned back"),
        [
            [
                *(coverage.conversation_id, coverage.phase, f"{coverage.plan.id} ({coverage.plan.hash[:12]})"),
                *(str(totals[name]) for name in ("traced", "passed", "failed", "not_run", "turned_back")),
            ]
        ],
    )
    yield Heading("Coverage")
    yield Table(("criterion", "what it says", "tests", "covered"), [_row(row) for row in coverage.rows])
    yield Heading("Uncovered criteria")
    if not coverage.uncovered:
        yield Line("none", "each criterion has a test that passed")
    for entry in coverage.uncovered:
        yield Line("uncovered", f"{entry.id}: {entry.text}")
    if coverage.reasons:
        yield Heading("What prevents the phase `verify`")
        for reason in coverage.reasons:
            yield Line("open", reason)
    yield Heading("Tests")
    for row in coverage.rows:
        for entry in row.tests:
            yield from _test(row.criterion, entry)


def _row(row: Covered) -> list[str]:
    tests = [f"#{test.test.id} {test.state}" for test in row.tests if test.test.status == "accepted"]
    name = f"{row.criterion.id} (keeps)" if row.criterion.keeps else row.criterion.id
    return [name, row.criterion.text, "\n".join(tests) or "none", "yes" if row.is_covered else "no"]


def _test(criterion: Criterion, shown: Shown) -> Iterator[Block]:
    tones: dict[str, Tone] = {"passed": "good", "failed": "bad", "turned back": "bad"}
    yield Heading(f"#{shown.test.id} for {criterion.id}", 3, tones.get(shown.state, "open"), shown.state)
    if shown.test.reason:
        yield Line("reason", shown.test.reason)
    yield Output(f"the test ({shown.test.language})", shown.test.content)
    for tree, result in shown.results.items():
        how = "did not end in time" if result.timed_out else f"exit {result.exit_code}"
        yield Line(f"on the tree {WHERE[tree]}", f"{how} after {result.seconds:.2f} s ({result.tree_digest[:12]})")
        yield Output("stdout", result.stdout)
        yield Output("stderr", result.stderr)
