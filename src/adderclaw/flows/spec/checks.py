"""Records the passes that coding sessions claim, and has a separate session verify them before they count."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from adderclaw.agent.session.session import Session
from adderclaw.core.errors import AdderClawError, LimitError, PathRefused
from adderclaw.core.framing import content_mark, framed, shorten
from adderclaw.core.host import ChildReport, Spawn
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import EndedBy, Json, Outcome
from adderclaw.flows.spec import features, status, tree
from adderclaw.flows.spec.browser import SERVER
from adderclaw.flows.spec.status import Scenario, Status
from adderclaw.flows.verifier.evidence import Keeper
from adderclaw.flows.verifier.verify import Claim, Finding, verify
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import transcript
from adderclaw.storage.sdlc import checks
from adderclaw.storage.sdlc.checks import Check

UNVERIFIED_CLAIMS = (
    "claims of sessions count here without being verified: an isolated session needs bubblewrap (`adderclaw doctor` "
    'says why it is not used; set `verify = "off"` under [spec] to accept that)'
)
FEATURE_CHARS = 20_000
"""The most characters of a feature file that the verifying session gets."""
MAX_RESULT_CHARS = 1_500
"""The most characters of a cited result that the next coding session gets."""
MAX_REJECTED = 5
"""The most rejected claims in a prompt."""
MAX_BATCH = 40
"""The most scenarios that one session verifies again."""


class RunEnd(NamedTuple):
    """Why a run cannot continue."""

    outcome: Outcome
    reason: str
    by: EndedBy = ""


class Checked(NamedTuple):
    """The result of checking the claims of a session."""

    turned_back: bool = False
    """Whether a claim was wrong, or could not be proven."""
    ended: RunEnd | None = None
    """Why the run must end; unchecked claims stay open."""


class Checker:
    """Checks the claims of one run, and those that an earlier process left unchecked."""

    def __init__(self, session: Session, spawn: Spawn) -> None:
        self._session, self._spawn = session, spawn
        self._root = session.environment.context.workspace.root
        runs = workspace.configured_path(session.config.logging.jsonl_dir, self._root)
        self._keeper = Keeper(runs / session.bus.run_id, session.secrets)

    # -------------------------------------------------------------- claims

    def claim(self, scenario: Scenario, session_id: str) -> None:
        with self._session.store.write() as cursor:
            checks.claim(
                cursor,
                project=self._root,
                scenario_id=scenario.id,
                name=scenario.name,
                run_id=self._session.bus.run_id,
                session_id=session_id,
            )

    def withdraw(self, scenario_id: str) -> None:
        with self._session.store.write() as cursor:
            checks.withdraw(cursor, self._root, scenario_id)

    def distrust(self, before: Status | None, now: Status | None) -> None:
        """Turns passes that were written to the file without a check into claims."""
        already_passed = (
            {scenario.id for scenario in before.scenarios if scenario.passed} if before is not None else set[str]()
        )
        for scenario in now.scenarios if now is not None else ():
            if scenario.passed and scenario.id not in already_passed:
                self.claim(scenario, "")
                status.update(self._root, scenario.id, False)
        features.pin_steps(self._root, now)

    # -------------------------------------------------------------- checks

    async def check(self) -> Checked:
        """Verifies every open claim."""
        turned_back = False
        for claimed in checks.pending(self._session.store, self._root):
            now = status.read(self._root)
            scenarios = now.wanted if now is not None else ()
            scenario = next((candidate for candidate in scenarios if candidate.id == claimed.scenario_id), None)
            if scenario is None or scenario.passed:
                self.withdraw(claimed.scenario_id)
                continue
            if now is not None and (why := features.changed_steps(self._root, now, scenario)):
                self._record(claimed, "failed", why)
                turned_back = True
                continue
            checked = await self._verify([(claimed, scenario)])
            turned_back = turned_back or checked.turned_back
            if checked.ended is not None:
                return Checked(turned_back, checked.ended)
        return Checked(turned_back)

    async def verify_again(self, now: Status, *, everything: bool = False) -> Checked:
        """Verifies again, in one session, what passed before the project last changed; failed scenarios reopen."""
        outdated = now.outdated("") if everything else self.outdated(now)
        turned_back = False
        for first in range(0, len(outdated), MAX_BATCH):
            group = outdated[first : first + MAX_BATCH]
            waiting: list[tuple[Check, Scenario]] = []
            for scenario in group:
                self.claim(scenario, "")
                claimed = next(
                    pending
                    for pending in checks.pending(self._session.store, self._root)
                    if pending.scenario_id == scenario.id
                )
                if why := features.changed_steps(self._root, now, scenario):
                    self._record(claimed, "failed", why)
                    status.update(self._root, scenario.id, False)
                    turned_back = True
                else:
                    waiting.append((claimed, scenario))
            checked = await self._verify(waiting) if waiting else Checked()
            turned_back = turned_back or checked.turned_back
            if checked.ended is not None:
                for scenario in group:
                    self.withdraw(scenario.id)
                return Checked(turned_back, checked.ended)
        return Checked(turned_back)

    def outdated(self, now: Status) -> tuple[Scenario, ...]:
        """Returns passed scenarios that were not verified on the current state of the project."""
        return now.outdated(tree.digest_of(self._root, self._session.config))

    def _run_end(self) -> RunEnd | None:
        """Returns why the run must end now, so that no check begins that could not finish."""
        if self._session.environment.stopped():
            return RunEnd("stopped", "the emergency stop is set")
        try:
            self._session.budget.before_tool_call()
        except LimitError as error:
            return RunEnd("limit", str(error), error.by)
        return None

    async def _verify(self, waiting: Sequence[tuple[Check, Scenario]]) -> Checked:
        """Has one session verify all of them."""
        if (ended := self._run_end()) is not None:
            return Checked(ended=ended)
        session = self._session
        began, cost, on = session.clock.monotonic(), session.budget.cost, tree.digest_of(self._root, session.config)
        claims = [Claim(scenario.id, scenario.name, self._feature(scenario)) for _, scenario in waiting]
        model = session.config.spec.verify_model
        try:
            findings = await verify(session.store, self._spawn, claims, servers=(SERVER,), model=model)
        except LimitError as error:
            return Checked(ended=RunEnd("limit", str(error), error.by))
        except AdderClawError as error:
            return Checked(ended=RunEnd("error", str(error)))
        spent = session.budget.cost - cost if session.budget.cost is not None and cost is not None else None
        seconds, turned_back = session.clock.monotonic() - began, False
        for number, ((claimed, scenario), finding) in enumerate(zip(waiting, findings, strict=True)):
            report = finding.report
            if number:  # the cost of the session counts only once
                finding = replace(finding, report=replace(report, tokens=0))
                seconds, spent = 0.0, None if spent is None else 0.0
            if finding.verdict == "unproven" and (
                report.outcome in ("error", "stopped") or self._run_end() is not None
            ):
                why = f"the check of {scenario.id}: {report.reason or report.outcome}"
                return Checked(turned_back, RunEnd(report.outcome, why, report.ended_by))
            self._settle(claimed, finding, on, seconds, spent)
            turned_back = turned_back or finding.verdict != "passed"
        return Checked(turned_back)

    def _settle(self, claimed: Check, finding: Finding, on: str, seconds: float, cost: float | None) -> None:
        """Stores the row before the file, so that a process killed in between checks again."""
        evidence = [self._keeper.keep(cited) for cited in finding.cited]
        self._record(claimed, finding.verdict, finding.reason, finding.report, evidence, seconds, cost)
        if finding.verdict == "passed":
            status.update(self._root, claimed.scenario_id, True, on)
        elif any(cited.id == claimed.scenario_id and cited.passed for cited in self._scenarios()):
            status.update(self._root, claimed.scenario_id, False)

    def _scenarios(self) -> tuple[Scenario, ...]:
        now = status.read(self._root)
        return now.scenarios if now is not None else ()

    def _record(
        self,
        claimed: Check,
        verdict: Literal["passed", "failed", "unproven"],
        reason: str,
        report: ChildReport | None = None,
        evidence: Sequence[Json] = (),
        seconds: float = 0.0,
        cost: float | None = None,
    ) -> None:
        """Stores a verdict; without a report if no session was needed for it."""
        session = self._session
        by, tokens = (report.session_id, report.tokens) if report is not None else ("", 0)
        with session.store.write() as cursor:
            checks.settle(
                cursor,
                claimed.id,
                verdict,
                reason,
                run_id=session.bus.run_id,
                session_id=by,
                evidence=list(evidence),
                tokens=tokens,
                cost=cost,
                seconds=seconds,
            )
        session.bus.publish(
            {
                "event_type": "scenario_checked",
                "scenario_id": claimed.scenario_id,
                "verdict": verdict,
                "reason": reason[:500],
                "evidence": len(evidence),
                "checked_by": by,
                "tokens": tokens,
                "seconds": round(seconds, 2),
            }
        )

    def _feature(self, scenario: Scenario) -> str:
        """The current text of a scenario's feature file."""
        for path in (f"features/{scenario.feature}", scenario.feature):
            try:
                data, _ = workspace.read_head(WorkspacePath(self._root, path), 4 * FEATURE_CHARS)
            except (OSError, PathRefused):
                continue
            return shorten(data.decode("utf-8", "replace"), FEATURE_CHARS)
        return ""

    # -------------------------------------------------------------- rejected claims

    def rejected_claims(self, now: Status | None) -> str:
        """Describes for the next session which claims and earlier passes were rejected, with the evidence."""
        left = {check.id for check in now.left} if now is not None else set[str]()
        last = checks.last(self._session.store, self._root)
        failed = [check for check in last.values() if check.verdict != "passed" and check.scenario_id in left]
        if not failed:
            return ""
        parts = [text for check in failed[-MAX_REJECTED:] for text in self._describe_rejection(check)]
        head = "A separate session verified these scenarios, and they do not count as passed. What it saw, as data:"
        return "\n\n".join((head, *parts))

    def _describe_rejection(self, check: Check) -> Iterator[str]:
        before = "" if check.claimed_by else ", after it had counted as passed"
        text = f"{check.scenario_id} ({check.verdict}{before}): {check.reason}"
        for cited in check.evidence[:3]:
            results = transcript.results_of(self._session.store, check.checked_by, cited["tool_use_id"])
            shown = next((result for result in results if result.startswith(f"[{cited['id']}]\n")), "")
            text += f"\n\n{cited['tool']} {shorten(str(cited['input']), 300)}\n{shorten(shown, MAX_RESULT_CHARS)}"
        yield framed(content_mark(text), text)
