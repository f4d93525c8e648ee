"""Scenarios that coding sessions say pass: noted as claims, tried by a session apart, and only then passed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from adderclaw.agent.session.session import Session
from adderclaw.core.child import ChildReport, Spawn
from adderclaw.core.errors import AdderClawError, LimitError, PathRefused
from adderclaw.core.framing import content_mark, framed, shorten
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import EndedBy, Json, Outcome
from adderclaw.flows.spec import features, status, tree
from adderclaw.flows.spec.browser import SERVER
from adderclaw.flows.spec.status import Scenario, Status
from adderclaw.flows.verifier.evidence import Keeper
from adderclaw.flows.verifier.verify import Claim, Finding, verify
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Place
from adderclaw.storage import transcript
from adderclaw.storage.sdlc import checks
from adderclaw.storage.sdlc.checks import Check

UNCHECKED = (
    "what a session says of a scenario is believed here and not checked: a session apart needs bubblewrap (`adderclaw "
    'doctor` says why it is not used; `verify = "off"` under [spec] says that you know)'
)
FEATURE_CHARS = 20_000
"""Of a feature file, for whoever checks a scenario of it."""
TOLD_CHARS = 1_500
"""Of one result, for the session that is to mend what it shows."""
MOST_TOLD = 5
"""Claims that were turned back, in one prompt."""
MOST_AT_ONCE = 40
"""Scenarios that one session verifies again."""


class Cut(NamedTuple):
    """Why a run cannot go on."""

    outcome: Outcome
    reason: str
    by: EndedBy = ""


class Checked(NamedTuple):
    """What came of the claims of a session."""

    turned_back: bool = False
    """One of them did not hold, or could not be shown to."""
    ended: Cut | None = None
    """What was not checked stays to be."""


class Checker:
    """Checks the claims of one run; what an earlier process left unchecked, too."""

    def __init__(self, session: Session, spawn: Spawn) -> None:
        self._session, self._spawn = session, spawn
        self._root = session.scene.context.workspace.root
        runs = workspace.configured(session.config.logging.jsonl_dir, self._root)
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
        """What passed in the file without a check is a claim, whoever wrote it there, and has not passed."""
        held = {one.id for one in before.scenarios if one.passed} if before is not None else set[str]()
        for one in now.scenarios if now is not None else ():
            if one.passed and one.id not in held:
                self.claim(one, "")
                status.update(self._root, one.id, False)
        features.pin(self._root, now)

    # -------------------------------------------------------------- checks

    async def check(self) -> Checked:
        """Try every claim that nobody has tried yet."""
        turned_back = False
        for claimed in checks.pending(self._session.store, self._root):
            now = status.read(self._root)
            wanted = now.wanted if now is not None else ()
            scenario = next((one for one in wanted if one.id == claimed.scenario_id), None)
            if scenario is None or scenario.passed:
                self.withdraw(claimed.scenario_id)
                continue
            if now is not None and (why := features.restated(self._root, now, scenario)):
                self._note(claimed, "failed", why)
                turned_back = True
                continue
            came = await self._tried([(claimed, scenario)])
            turned_back = turned_back or came.turned_back
            if came.ended is not None:
                return Checked(turned_back, came.ended)
        return Checked(turned_back)

    async def verify_again(self, now: Status, *, everything: bool = False) -> Checked:
        """Try what passed before the project last changed, all in one session. What does not pass is open again."""
        outdated = now.outdated("") if everything else self.outdated(now)
        turned_back = False
        for first in range(0, len(outdated), MOST_AT_ONCE):
            group = outdated[first : first + MOST_AT_ONCE]
            waiting: list[tuple[Check, Scenario]] = []
            for scenario in group:
                self.claim(scenario, "")
                claimed = next(
                    one for one in checks.pending(self._session.store, self._root) if one.scenario_id == scenario.id
                )
                if why := features.restated(self._root, now, scenario):
                    self._note(claimed, "failed", why)
                    status.update(self._root, scenario.id, False)
                    turned_back = True
                else:
                    waiting.append((claimed, scenario))
            came = await self._tried(waiting) if waiting else Checked()
            turned_back = turned_back or came.turned_back
            if came.ended is not None:
                for scenario in group:
                    self.withdraw(scenario.id)
                return Checked(turned_back, came.ended)
        return Checked(turned_back)

    def outdated(self, now: Status) -> tuple[Scenario, ...]:
        """What passed, and was not verified on the project as it is now."""
        return now.outdated(tree.digest_of(self._root, self._session.config))

    def _spent(self) -> Cut | None:
        """Nothing is begun that could not be brought to its end."""
        if self._session.scene.stopped():
            return Cut("stopped", "the emergency stop is set")
        try:
            self._session.budget.before_tool_call()
        except LimitError as error:
            return Cut("limit", str(error), error.by)
        return None

    async def _tried(self, waiting: Sequence[tuple[Check, Scenario]]) -> Checked:
        """Have one session try them all."""
        if (ended := self._spent()) is not None:
            return Checked(ended=ended)
        session = self._session
        began, cost, on = session.clock.monotonic(), session.budget.cost, tree.digest_of(self._root, session.config)
        claims = [Claim(one.id, one.name, self._feature(one)) for _, one in waiting]
        model = session.config.spec.verify_model
        try:
            findings = await verify(session.store, self._spawn, claims, servers=(SERVER,), model=model)
        except LimitError as error:
            return Checked(ended=Cut("limit", str(error), error.by))
        except AdderClawError as error:
            return Checked(ended=Cut("error", str(error)))
        spent = session.budget.cost - cost if session.budget.cost is not None and cost is not None else None
        seconds, turned_back = session.clock.monotonic() - began, False
        for number, ((claimed, scenario), found) in enumerate(zip(waiting, findings, strict=True)):
            report = found.report
            if number:  # what the one session took is counted once
                found = replace(found, report=replace(report, tokens=0))
                seconds, spent = 0.0, None if spent is None else 0.0
            if found.verdict == "unproven" and (report.outcome in ("error", "stopped") or self._spent() is not None):
                why = f"the check of {scenario.id}: {report.reason or report.outcome}"
                return Checked(turned_back, Cut(report.outcome, why, report.ended_by))
            self._settle(claimed, found, on, seconds, spent)
            turned_back = turned_back or found.verdict != "passed"
        return Checked(turned_back)

    def _settle(self, claimed: Check, found: Finding, on: str, seconds: float, cost: float | None) -> None:
        """First the row, then the file: whoever is killed in between checks once more."""
        evidence = [self._keeper.keep(one) for one in found.cited]
        self._note(claimed, found.verdict, found.reason, found.report, evidence, seconds, cost)
        if found.verdict == "passed":
            status.update(self._root, claimed.scenario_id, True, on)
        elif any(one.id == claimed.scenario_id and one.passed for one in self._scenarios()):
            status.update(self._root, claimed.scenario_id, False)

    def _scenarios(self) -> tuple[Scenario, ...]:
        now = status.read(self._root)
        return now.scenarios if now is not None else ()

    def _note(
        self,
        claimed: Check,
        verdict: Literal["passed", "failed", "unproven"],
        reason: str,
        report: ChildReport | None = None,
        evidence: Sequence[Json] = (),
        seconds: float = 0.0,
        cost: float | None = None,
    ) -> None:
        """Without a report where no session was needed to know it."""
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
        """The feature file that it stands in, as it is now."""
        for way in (f"features/{scenario.feature}", scenario.feature):
            try:
                data, _ = workspace.start(Place(self._root, way), 4 * FEATURE_CHARS)
            except (OSError, PathRefused):
                continue
            return shorten(data.decode("utf-8", "replace"), FEATURE_CHARS)
        return ""

    # -------------------------------------------------------------- told

    def told(self, now: Status | None) -> str:
        """For the next session: which claims and which earlier passes did not hold, and what was seen."""
        left = {one.id for one in now.left} if now is not None else set[str]()
        last = checks.last(self._session.store, self._root)
        failed = [one for one in last.values() if one.verdict != "passed" and one.scenario_id in left]
        if not failed:
            return ""
        parts = [text for one in failed[-MOST_TOLD:] for text in self._found(one)]
        head = "A separate session tried these, and they do not count as passed. What it saw is data:"
        return "\n\n".join((head, *parts))

    def _found(self, check: Check) -> Iterator[str]:
        before = "" if check.claimed_by else ", after it had counted as passed"
        text = f"{check.scenario_id} ({check.verdict}{before}): {check.reason}"
        for cited in check.evidence[:3]:
            results = transcript.results_of(self._session.store, check.checked_by, cited["tool_use_id"])
            said = next((result for result in results if result.startswith(f"[{cited['id']}]\n")), "")
            text += f"\n\n{cited['tool']} {shorten(str(cited['input']), 300)}\n{shorten(said, TOLD_CHARS)}"
        yield framed(content_mark(text), text)
