"""Decides from stored rows alone whether the criteria of a plan are proved, as the transition to `verify` requires."""

import json
import sqlite3
from collections.abc import Iterator

from adderclaw.storage import Store
from adderclaw.storage.sdlc import baselines, criteria, generated_tests
from adderclaw.storage.sdlc.criteria import Criterion
from adderclaw.storage.sdlc.generated_tests import Result, Test, lent_digest
from adderclaw.storage.sdlc.plans import Plan

RUN_TESTS = "run `adderclaw sdlc test`"


def open_reasons(cursor: sqlite3.Cursor, plan: Plan, tree: str) -> list[str]:
    """Why the coverage gate is closed; empty if it is open. `tree`: the digest of the current workspace."""
    if not tree:
        return ["the current content of the workspace is unknown, so no result can count for it"]
    required = criteria.of_plan(cursor, plan.id)
    if not required:
        return [
            f"plan {plan.id} has no success criteria, so nothing can be proved; add them and approve the plan again"
        ]
    baseline = baselines.get(cursor, plan.id)
    if baseline is None or not baseline.digest:
        return [f"the workspace before plan {plan.id} is not stored, so nothing can be proved; approve the plan again"]
    tests = generated_tests.of_plan(cursor, plan.id)
    gate = _Gate(cursor, plan, tree, baseline.digest, tests)
    return [reason for criterion in required for reason in gate.reasons(criterion)]


REPORT = "report_written"


def reports(store: Store, plan_id: int) -> dict[str, str]:
    """The reports of a plan's conversation that were written to files of its workspace: path → SHA-256."""
    rows = store.read(
        "SELECT e.detail FROM events e JOIN plans p ON p.conversation_id = e.conversation_id"
        " WHERE p.id = ? AND e.event_type = ? ORDER BY e.id",
        (plan_id, REPORT),
    )
    return {detail["path"]: detail["sha256"] for detail in (json.loads(row[0]) for row in rows)}


class _Gate:
    def __init__(self, cursor: sqlite3.Cursor, plan: Plan, tree: str, before: str, tests: list[Test]) -> None:
        self._cursor, self._plan, self._tree, self._before, self._tests = cursor, plan, tree, before, tests
        self._lent = lent_digest(tree)

    def reasons(self, criterion: Criterion) -> Iterator[str]:
        own = [
            candidate
            for candidate in self._tests
            if candidate.criterion == criterion.id and candidate.status == "accepted"
        ]
        counted = [candidate for candidate in own if candidate.is_whole and candidate.plan_hash == self._plan.hash]
        for test in own:
            if not test.is_whole:
                yield f"test {test.id} of {criterion.id} differs from the submitted one: its row was changed"
            elif test.plan_hash != self._plan.hash:
                yield f"test {test.id} of {criterion.id} was written for another version of the plan: {RUN_TESTS}"
        if not counted:
            yield f"no test proves {criterion.id} ({_short(criterion.text)}): {RUN_TESTS}"
        for test in counted:
            yield from self._test_reasons(criterion, test)

    def _test_reasons(self, criterion: Criterion, test: Test) -> Iterator[str]:
        name = f"test {test.id} of {criterion.id}"
        results = [
            result for result in generated_tests.results_of(self._cursor, test.id) if result.test_hash == test.hash
        ]
        if any(not result.is_whole for result in results):
            yield f"a result of {name} differs from the recorded one: its row was changed"
            return
        yield from self._mutation_reasons(criterion, name, results)
        now = [result for result in results if result.tree == "now"]
        if not now:
            yield f"{name} was not run on the current workspace: {RUN_TESTS}"
        elif now[-1].tree_digest != self._tree:
            yield f"the workspace has changed since {name} was run: {RUN_TESTS}"
        elif not now[-1].passed:
            how = "did not end in time" if now[-1].timed_out else f"failed with status {now[-1].exit_code}"
            yield f"{name} {how}: `adderclaw sdlc report` shows its output; fix the change, then {RUN_TESTS}"
        else:
            yield from self._replacement_reasons(name, results)

    def _replacement_reasons(self, name: str, results: list[Result]) -> Iterator[str]:
        """Requires that the test failed when the programs that it starts were replaced."""
        last = {result.variant: result for result in results if result.variant and result.own_digest == self._tree}
        if "other" not in last:
            yield f"{name} was not run with the programs that it starts replaced: {RUN_TESTS}"
        elif any(
            result.passed for result in (last.get("status", last["other"]), last.get("empty")) if result is not None
        ):
            yield f"{name} passes with the programs that it starts replaced, so it proves nothing"

    def _mutation_reasons(self, criterion: Criterion, name: str, results: list[Result]) -> Iterator[str]:
        """The mutation proof: the results of the test on the workspace before the change, and on the fault."""
        before = [
            result
            for result in results
            if result.tree == "baseline" and result.tree_digest.partition("+")[0] == self._before
        ]
        broken = (
            [result for result in results if result.tree == "fault" and not result.variant] if criterion.keeps else []
        )
        if before and any(lent_digest(result.tree_digest) != self._lent for result in (before[-1], *broken[-1:])):
            what = "what package managers installed in the workspace has changed"
            yield f"{what} since {name} was run on the workspace before the change: {RUN_TESTS}"
        elif not before:
            yield f"{name} was not run on the workspace before the change, so it proves nothing: {RUN_TESTS}"
        elif before[-1].passed and not criterion.keeps:
            yield f"{name} passes without the change, so it proves nothing"
        elif not before[-1].passed and criterion.keeps:
            yield f"{name} fails before the change, although the criterion already holds there"
        if criterion.keeps and (not broken or broken[-1].passed):
            yield f"{name} does not fail on the fault that the plan names"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
