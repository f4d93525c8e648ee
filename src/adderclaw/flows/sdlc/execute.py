"""Proves a plan: a generator writes tests, each is proved on the tree before the change, then all run on the tree now.

Progress is stored in rows, so that a run after a kill continues with the rest.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from sqlite3 import Cursor

from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.errors import AdderClawError, LimitError
from adderclaw.core.framing import tagged
from adderclaw.core.host import ChildRequest
from adderclaw.core.types import Outcome
from adderclaw.flows.sdlc import proving, running
from adderclaw.flows.sdlc.proving import Judgement, Proved
from adderclaw.flows.sdlc.running import SECONDS
from adderclaw.flows.sdlc.tools import SUBMIT, submit_tool
from adderclaw.flows.sdlc.trees import Trees
from adderclaw.storage.sdlc import criteria, faults, generated_tests
from adderclaw.storage.sdlc.criteria import Criterion
from adderclaw.storage.sdlc.generated_tests import Test
from adderclaw.storage.sdlc.plans import Plan
from adderclaw.storage.text import plain

ATTEMPTS = 6
"""Tests for one criterion that may be returned; after that an operator must revise the plan."""
IDLE = 2
"""Consecutive sessions of the generator that may submit nothing."""
CONTINUES = frozenset({"completed", "denied", "limit"})
"""Outcomes of a generator's session after which another one may begin."""
ROUNDS = 30
NOTHING_YET = f"No test was submitted yet. Call {SUBMIT} for each open criterion now."
AGENT = "test-generator"
UNCOPIED = "the workspace cannot be copied for its tests ({why}): free some space, then run `adderclaw sdlc test`"


class Proof:
    def __init__(self, session: Session, plan: Plan, trees: Trees) -> None:
        self._session, self._plan, self._trees = session, plan, trees
        self._criteria = {criterion.id: criterion for criterion in self._read_criteria()}

    async def run(self) -> TurnResult:
        try:
            running.require_sandbox(self._session.environment.context.workspace.root)
            self._require_provable()
            while True:
                if (ended := await self._generate()) is not None:
                    return ended
                if (ended := await self._run_all()) is not None:
                    return ended
        except asyncio.CancelledError:
            return self._ended("stopped", "interrupted")
        except AdderClawError as error:
            return self._ended("limit" if isinstance(error, LimitError) else "error", str(error))
        except OSError as error:  # for example a full disk; no test ran on an incomplete copy
            return self._ended("error", UNCOPIED.format(why=error.strerror or error))

    def _read_criteria(self) -> tuple[Criterion, ...]:
        with self._session.store.snapshot() as cursor:
            return criteria.of_plan(cursor, self._plan.id)

    def _require_provable(self) -> None:
        """Checks what would make every test fail, before one is written."""
        if not self._criteria:
            raise AdderClawError("the plan has no success criteria, so nothing can be proved: add a section with them")
        self._trees.clear()
        self._trees.require(
            [fault for row in self._criteria.values() if row.keeps for fault in faults.parse(row.fault)]
        )

    # -------------------------------------------------------------- generating

    async def _generate(self) -> TurnResult | None:
        """Asks for tests until each criterion has a proved one. Returns how the run ended if that is impossible."""
        idle = 0
        await self._prove_waiting()  # those of a process that was killed
        while unproven := self._open():
            if exhausted := [id for id in unproven if len(self._returned().get(id, [])) >= ATTEMPTS]:
                last = self._returned()[exhausted[0]][-1]
                why = f"{ATTEMPTS} tests for each were returned, the last because {last}"
                fix = "describe more exactly in the plan what can be observed from outside, and approve it again"
                return self._ended("limit", f"no test proves {', '.join(exhausted)}; {why}; {fix}")
            if idle == IDLE:
                return self._ended("limit", f"the generator submitted no test in {IDLE} sessions")
            before = len(self._tests())
            outcome, reason = await self._ask(unproven)
            idle = idle + 1 if len(self._tests()) == before else 0
            await self._prove_waiting()
            if outcome not in CONTINUES:
                return self._ended(outcome, f"the generator ended: {reason or outcome}")
        return None

    async def _ask(self, unproven: dict[str, Criterion]) -> tuple[Outcome, str]:
        before = len(self._tests())

        def missing() -> str | None:
            return NOTHING_YET if len(self._tests()) == before else None

        child = ChildRequest(
            prompt=prompt(self._plan, unproven.values(), self._returned(), documents(self._trees, self._plan)),
            agent_type=AGENT,
            description=f"tests for {', '.join(unproven)}"[:200],
            system=system(),
            tools=(),
            extra_tools=(submit_tool(self._session, self._plan, unproven),),
            before_end=missing,
            max_rounds=ROUNDS,
            waits_for_slot=True,
            without_hooks=True,
        )
        try:
            self._session.budget.before_tool_call()
            report = await self._session.host.spawn(child)
        except AdderClawError as error:
            if self._session.environment.stopped():
                return "stopped", str(error)
            return ("limit" if isinstance(error, LimitError) else "error"), f"{error}"
        if report.outcome == "limit" and not report.tool_calls:
            return "error", report.reason  # a limit of the run, which would also stop every further session
        return report.outcome, report.reason

    # -------------------------------------------------------------- proving

    async def _prove_waiting(self) -> None:
        """Proves the submitted tests, and again those that were proved with other packages than are installed now."""
        before, results = self._trees.baseline(), generated_tests.results(self._session.store, self._plan.id)
        for test in self._tests():
            digests = [run.tree_digest for run in results.get(test.id, []) if run.tree == "baseline"]
            if test.status != "submitted" and (test.status != "accepted" or digests[-1:] == [before.digest]):
                continue
            self._require_not_stopped()
            judged = await proving.prove(self._trees, self._criteria[test.criterion], test)
            self._settle(test, judged)
            self._publish_judgement(test, judged.reason)

    def _settle(self, test: Test, judged: Judgement) -> None:
        with self._session.store.write() as cursor:
            for run in judged.runs:
                self._record(cursor, test, run)
            generated_tests.settle(cursor, test.id, "returned" if judged.reason else "accepted", judged.reason)

    async def _run_all(self) -> TurnResult | None:
        """Runs the accepted tests on the tree as it is now, then with their programs replaced.

        Returns None if one passed with them replaced, and was therefore returned to the generator.
        """
        tree = await asyncio.to_thread(self._trees.now)
        failed: list[str] = []
        any_returned = False
        counted = [test for test in self._tests() if test.status == "accepted"]
        for test in counted:
            self._require_not_stopped()
            ran = await self._trees.run(tree, test.language, test.content)
            with self._session.store.write() as cursor:
                self._record(cursor, test, Proved("now", tree, ran))
            self._session.bus.publish(
                {
                    "event_type": "test_ran",
                    "test": test.id,
                    "criterion": test.criterion,
                    "exit_code": ran.exit_code,
                    "seconds": ran.seconds,
                }
            )
            if ran.exit_code or ran.timed_out:
                failed.append(test.criterion)
                continue
            judged = await proving.prove_replaced(self._trees, tree, self._criteria[test.criterion], test, ran)
            self._settle(test, judged)
            if judged.reason:
                any_returned = True
                self._publish_judgement(test, judged.reason)
        if any_returned:
            return None
        if failed:
            names = ", ".join(dict.fromkeys(failed))
            fix = "`adderclaw sdlc report` shows what they printed; correct the change, then run `adderclaw sdlc test`"
            return self._ended(
                "error", f"{len(failed)} of {len(counted)} tests fail on the tree as it is now: {names}; {fix}"
            )
        return self._ended("completed", "")

    def _record(self, cursor: Cursor, test: Test, proved: Proved) -> None:
        scrub = self._session.secrets.scrub
        generated_tests.record(
            cursor,
            test,
            tree=proved.kind,
            tree_digest=proved.tree.digest,
            exit_code=proved.ran.exit_code,
            stdout=scrub(proved.ran.stdout),
            stderr=scrub(proved.ran.stderr),
            seconds=proved.ran.seconds,
            timed_out=proved.ran.timed_out,
            run_id=self._session.bus.run_id,
        )

    # -------------------------------------------------------------- progress

    def _tests(self) -> list[Test]:
        """The tests of this version of the plan."""
        tests = generated_tests.tests(self._session.store, self._plan.id)
        return [test for test in tests if test.plan_hash == self._plan.hash and test.is_whole]

    def _open(self) -> dict[str, Criterion]:
        proved = {test.criterion for test in self._tests() if test.status == "accepted"}
        return {id: criterion for id, criterion in self._criteria.items() if id not in proved}

    def _returned(self) -> dict[str, list[str]]:
        reasons: dict[str, list[str]] = {}
        for test in self._tests():
            if test.status in ("returned", "withdrawn") and test.reason:
                reasons.setdefault(test.criterion, []).append(test.reason)
        return reasons

    def _require_not_stopped(self) -> None:
        if self._session.environment.stopped():
            raise AdderClawError("the emergency stop is set; `adderclaw estop --clear` removes it")

    def _publish_judgement(self, test: Test, reason: str) -> None:
        self._session.bus.publish(
            {
                "event_type": "test_judged",
                "test": test.id,
                "criterion": test.criterion,
                "accepted": not reason,
                "reason": reason,
            }
        )

    def _ended(self, outcome: Outcome, reason: str) -> TurnResult:
        tests = self._tests()
        left = self._open()
        counted = sum(test.status == "accepted" for test in tests)
        answer = f"{len(self._criteria) - len(left)} of {len(self._criteria)} criteria have a proved test"
        answer += f"; open: {', '.join(left)}" if left else ""
        details = {
            "plan": self._plan.id,
            "criteria": len(self._criteria),
            "open": list(left),
            "tests": counted,
            "turned_back": sum(test.status == "returned" for test in tests),
        }
        return TurnResult(outcome, answer, reason, details=details)


DOCUMENTS = (".md", ".rst", ".txt", ".adoc", ".json", ".yaml", ".yml", ".toml", ".sql", ".proto", ".graphql", ".xsd")
"""Extensions of interface documents; source files are never shown to the generator."""
MOST_DOCUMENTS, MOST_LETTERS = 8, 20_000
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_INTERFACE = re.compile(
    r"(?:\d+[.)]\s+)?(?:public\s+)?(?:interfaces?|api|contracts?|interface contracts?)\b.*", re.IGNORECASE
)
_NAMED = re.compile(r"`([^`\n]+)`|\]\(([^)\s]+)\)")


def system() -> str:
    with open(os.path.join(os.path.dirname(__file__), "generator.md"), encoding="utf-8") as file:
        return file.read().replace("{{seconds}}", f"{SECONDS:.0f}")


def prompt(
    plan: Plan, unproven: Iterable[Criterion], returned: Mapping[str, list[str]], documents: Mapping[str, str]
) -> str:
    """`returned`: criterion → why tests for it were returned."""
    rows = ["The approved plan:", "", tagged("plan", plan.content), ""]
    for name, text in documents.items():
        rows += [f"{name}, as it was when the plan was approved:", "", tagged("document", text), ""]
    rows += ["Open criteria:", ""]
    for criterion in unproven:
        rows.append(f"- {criterion.id}{' (keeps)' if criterion.keeps else ''}: {criterion.text}")
        rows += [f"  - an earlier test was returned: {reason}" for reason in returned.get(criterion.id, [])[-3:]]
    return "\n".join(rows)


def interface(content: str) -> str:
    """The section of a plan about its public interface; empty if it has none."""
    lines: list[str] = []
    level = 0
    for line in content.split("\n"):
        heading = _HEADING.match(line)
        if heading is not None and level and len(heading[1]) <= level:
            level = 0
        if heading is not None and not level and _INTERFACE.fullmatch(heading[2]):
            level = len(heading[1])
        elif level:
            lines.append(line)
    return "\n".join(lines)


def documents(trees: Trees, plan: Plan) -> dict[str, str]:
    """The documents that the interface section names, as they are in the baseline."""
    texts: dict[str, str] = {}
    for match in _NAMED.finditer(interface(plan.content)):
        path = (match[1] or match[2]).strip().removeprefix("./")
        if len(texts) >= MOST_DOCUMENTS or not path.lower().endswith(DOCUMENTS) or path in texts:
            continue
        if (text := trees.document(path)) is not None:
            texts[path] = plain(text[:MOST_LETTERS])
    return texts
