"""Has an isolated session check claims; a verdict counts only if it cites recorded results."""

import os
from collections.abc import Sequence
from typing import Literal

from adderclaw.core.framing import content_mark, framed
from adderclaw.core.host import ChildReport, ChildRequest, Isolation, Spawn, ToolContext
from adderclaw.core.record import record
from adderclaw.core.tool_traits import tools_in_set
from adderclaw.core.types import Json, Tool, ToolResult, Touch, fixed_prepare, rejected
from adderclaw.flows.verifier.results import Cited, Results
from adderclaw.storage import Store

VERDICT = "Verdict"
MISSING = f"There is no verdict yet. Call {VERDICT} now. Use `passed: false` for what you could not try."
MISSING_OF = (
    "There is no verdict yet on {ids}. "
    + f"Call {VERDICT} now, once for each. Use `passed: false` for what you could not try."
)
NO_VERDICT = "the session that checked it ended without a valid verdict"
MOST_CITED = 20
MOST_REASON = 4_000


@record
class Claim:
    """A statement to check, such as a scenario."""

    id: str
    title: str
    text: str
    """The whole text from a file of the project."""


@record
class Finding:
    """The result of checking a claim. `unproven` says nothing about the claim itself."""

    verdict: Literal["passed", "failed", "unproven"]
    reason: str
    cited: tuple[Cited, ...]
    report: ChildReport


@record
class VerdictArguments:
    passed: bool
    evidence: tuple[str, ...]
    reason: str
    scenario: str = ""
    """Its id, if the session checks several."""


class _Verdicts:
    """Collects the verdicts of a session, and rejects those that its recorded results do not support."""

    def __init__(self, store: Store, claims: Sequence[Claim]) -> None:
        self.results = Results()
        self.accepted: dict[str, VerdictArguments] = {}
        self.ids = [claim.id for claim in claims]
        self._store = store

    @property
    def _open(self) -> list[str]:
        return [id for id in self.ids if id not in self.accepted]

    def missing(self) -> str | None:
        if not self._open:
            return None
        return MISSING if len(self.ids) == 1 else MISSING_OF.format(ids=", ".join(self._open))

    async def submit(self, arguments: VerdictArguments, context: ToolContext) -> ToolResult:
        id = self.ids[0] if len(self.ids) == 1 else arguments.scenario
        if id not in self._open:
            return rejected(f"`scenario` must be one of {', '.join(self._open)}, each once")
        if not arguments.passed and not arguments.reason.strip():
            return rejected("`reason` is empty: say what you did, what happened and what should have happened")
        if len(arguments.evidence) > MOST_CITED:
            return rejected(f"cite at most {MOST_CITED} results: those that show the outcome")
        objection = self.results.objection(self._store, context.session_id, arguments.evidence, passed=arguments.passed)
        if objection:
            return rejected(objection, own=False)
        self.accepted[id] = arguments
        if left := self._open:
            return ToolResult(f"Noted. Still to check: {', '.join(left)}.", own=True)
        return ToolResult("Noted.", own=True, ends=True)

    def finding(self, id: str, report: ChildReport) -> Finding:
        if (verdict := self.accepted.get(id)) is None:
            return Finding("unproven", f"{NO_VERDICT}: {report.reason or report.outcome}", (), report)
        cited = self.results.cited(self._store, report.session_id, verdict.evidence)
        return Finding("passed" if verdict.passed else "failed", verdict.reason[:MOST_REASON], tuple(cited), report)


async def verify(
    store: Store, spawn: Spawn, claims: Sequence[Claim], *, servers: tuple[str, ...], model: str | None
) -> list[Finding]:
    """Has one isolated session try all claims; returns the findings in the same order.

    Raises AdderClawError if no session may begin.
    """
    verdicts = _Verdicts(store, claims)
    with open(os.path.join(os.path.dirname(__file__), "verifier.md"), encoding="utf-8") as file:
        system = file.read().strip()
    child = ChildRequest(
        prompt=_prompt(claims),
        agent_type="verifier",
        description=f"checks {', '.join(verdicts.ids)}"[:200],
        system=system,
        tools=tools_in_set("verifier"),
        extra_tools=(_tool(verdicts),),
        before_end=verdicts.missing,
        model=model,
        waits_for_slot=True,
        isolation=Isolation(servers=servers, network=True),
        wrap_tool=verdicts.results.wrap,
    )
    report = await spawn(child)
    return [verdicts.finding(claim.id, report) for claim in claims]


def _prompt(claims: Sequence[Claim]) -> str:
    """Frames the scenarios as data, because a session wrote them. A file with several of them is shown once."""
    if len(claims) == 1:
        text = f"{claims[0].id}: {claims[0].title}\n\n{claims[0].text}".strip()
        return f"Check only this scenario:\n\n{framed(content_mark(text), text)}"
    names = "\n".join(f"{claim.id}: {claim.title}" for claim in claims)
    text = "\n\n".join((names, *dict.fromkeys(claim.text for claim in claims if claim.text)))
    head = f"Check only these scenarios. Call {VERDICT} once for each, as soon as you have tried it:"
    return f"{head}\n\n{framed(content_mark(text), text)}"


def _tool(verdicts: _Verdicts) -> Tool[VerdictArguments]:
    several = len(verdicts.ids) > 1
    scenario: Json = {"type": "string", "enum": verdicts.ids, "description": "The id of the scenario."}
    parameters: Json = {
        "type": "object",
        "properties": {
            **({"scenario": scenario} if several else {}),
            "passed": {"type": "boolean", "description": "true only if you saw every step's outcome."},
            "evidence": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Ids of your results that show the outcome, such as r3.",
            },
            "reason": {
                "type": "string",
                "description": "What you did, what happened, and what should have happened.",
            },
        },
        "required": [*(["scenario"] if several else []), "passed", "evidence", "reason"],
        "additionalProperties": False,
    }
    last = "once for each scenario," if several else "once, as your last call,"
    about = f"Say, {last} whether the scenario holds. A pass needs the ids of results; a description is not enough."
    touch = Touch(why="reports the result of the check", inward=True)
    return Tool(VERDICT, VerdictArguments, fixed_prepare(touch, verdicts.submit), about, parameters)
