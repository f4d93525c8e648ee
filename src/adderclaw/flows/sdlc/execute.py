"""Proves a plan: a generator writes tests, each is proved against the tree before, then all run on the tree as it is.

What has been reached stands in rows, so that whoever comes after a kill goes on with what is left.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from sqlite3 import Cursor

from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.child import ChildRequest
from adderclaw.core.errors import AdderClawError, LimitError
from adderclaw.core.framing import tagged
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
"""Tests for one criterion that may be turned back; then somebody has to look at the plan."""
IDLE = 2
"""Sessions of the generator in a row that hand in nothing."""
GOES_ON = frozenset({"completed", "denied", "limit"})
ROUNDS = 30
NOTHING_YET = f"No test was handed in yet. Call {SUBMIT} for each open criterion now."
AGENT = "test-generator"
UNCOPIED = "the workspace cannot be copied for its tests ({why}): make room for it, then run `adderclaw sdlc test`"


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
        except OSError as error:  # the disk is full, for one: nothing was run on half of a copy
            return self._ended("error", UNCOPIED.format(why=error.strerror or error))

    def _read_criteria(self) -> tuple[Criterion, ...]:
        with self._session.store.snapshot() as cursor:
            return criteria.of_plan(cursor, self._plan.id)

    def _require_provable(self) -> None:
        """What no test could mend is found before one is written."""
        if not self._criteria:
            raise AdderClawError("the plan has no success criteria, so that nothing can be proved: add their section")
        self._trees.clear()
        named = [
            fault for criterion in self._criteria.values() if criterion.keeps for fault in faults.parse(criterion.fault)
        ]
        self._trees.require(named)

    # -------------------------------------------------------------- generating

    async def _generate(self) -> TurnResult | None:
        """Until each criterion has a test that is proved; how it ended where that cannot be reached."""
        idle = 0
        await self._prove_waiting()  # of a process that was killed
        while unproven := self._open():
            if tired := [id for id in unproven if len(self._returned().get(id, [])) >= ATTEMPTS]:
                why = f"{ATTEMPTS} tests were turned back for each: the last because {self._returned()[tired[0]][-1]}"
                fix = "say in the plan more exactly what can be seen from outside, and approve it again"
                return self._ended("limit", f"no test proves {', '.join(tired)}; {why}; {fix}")
            if idle == IDLE:
                return self._ended("limit", f"the generator handed in no test in {IDLE} sessions: not delivered")
            before = len(self._tests())
            outcome, reason = await self._ask(unproven)
            idle = idle + 1 if len(self._tests()) == before else 0
            await self._prove_waiting()
            if outcome not in GOES_ON:
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
            return "error", report.reason  # a limit of the run, which no further session would get past
        return report.outcome, report.reason

    # -------------------------------------------------------------- proving

    async def _prove_waiting(self) -> None:
        """Those that were handed in, and those that were proved with other packages installed than there are now."""
        before, results = self._trees.baseline(), generated_tests.results(self._session.store, self._plan.id)
        for test in self._tests():
            came = [run.tree_digest for run in results.get(test.id, []) if run.tree == "baseline"]
            if test.status != "submitted" and (test.status != "accepted" or came[-1:] == [before.digest]):
                continue
            self._require_going()
            judged = await proving.prove(self._trees, self._criteria[test.criterion], test)
            self._settle(test, judged)
            self._tell(test, judged.reason)

    def _settle(self, test: Test, judged: Judgement) -> None:
        with self._session.store.write() as cursor:
            for run in judged.runs:
                self._record(cursor, test, run)
            generated_tests.settle(cursor, test.id, "returned" if judged.reason else "accepted", judged.reason)

    async def _run_all(self) -> TurnResult | None:
        """On the tree as it is, and with the programs that each test starts replaced; None where one was turned back
        for that."""
        tree = await asyncio.to_thread(self._trees.now)
        failed: list[str] = []
        turned_back = False
        counted = [test for test in self._tests() if test.status == "accepted"]
        for test in counted:
            self._require_going()
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
                turned_back = True
                self._tell(test, judged.reason)
        if turned_back:
            return None
        if failed:
            names = ", ".join(dict.fromkeys(failed))
            fix = "`adderclaw sdlc report` shows what they printed; mend the change, then `adderclaw sdlc test`"
            return self._ended(
                "error", f"{len(failed)} of {len(counted)} tests fail on the tree as it is: {names}; {fix}"
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

    # -------------------------------------------------------------- where it stands

    def _tests(self) -> list[Test]:
        """Those that count for this plan as it is."""
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

    def _require_going(self) -> None:
        if self._session.environment.stopped():
            raise AdderClawError("the emergency stop is set; `adderclaw estop --clear` removes it")

    def _tell(self, test: Test, reason: str) -> None:
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
        answer = f"{len(self._criteria) - len(left)} of {len(self._criteria)} criteria have a test that is proved"
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
"""What a document of an interface is called; sources are none, whatever the plan says."""
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
    """`returned`: criterion → why tests for it were turned back."""
    rows = ["The approved plan:", "", tagged("plan", plan.content), ""]
    for name, text in documents.items():
        rows += [f"{name}, as it was when the plan was approved:", "", tagged("document", text), ""]
    rows += ["Open criteria:", ""]
    for criterion in unproven:
        rows.append(f"- {criterion.id}{' (keeps)' if criterion.keeps else ''}: {criterion.text}")
        rows += [f"  - turned back before: {reason}" for reason in returned.get(criterion.id, [])[-3:]]
    return "\n".join(rows)


def interface(content: str) -> str:
    """The section of a plan that names its public interface; empty where it has none."""
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
    """Those that the interface section names, from the baseline: nothing that was written since is in them."""
    texts: dict[str, str] = {}
    for match in _NAMED.finditer(interface(plan.content)):
        path = (match[1] or match[2]).strip().removeprefix("./")
        if len(texts) >= MOST_DOCUMENTS or not path.lower().endswith(DOCUMENTS) or path in texts:
            continue
        if (text := trees.document(path)) is not None:
            texts[path] = plain(text[:MOST_LETTERS])
    return texts
