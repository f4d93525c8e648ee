"""Claims, tried by a session apart; only a verdict that cites what is recorded counts."""

import os
from collections.abc import Sequence
from typing import Literal

from adderclaw.core.child import ChildReport, ChildRequest, Isolation, Spawn
from adderclaw.core.framing import content_mark, framed
from adderclaw.core.record import record
from adderclaw.core.tool_traits import tools_in_set
from adderclaw.core.types import Json, Tool, ToolContext, ToolResult, Touch, fixed_prepare, rejected
from adderclaw.flows.verifier.results import Cited, Results
from adderclaw.storage import Store

VERDICT = "Verdict"
MISSING = f"There is no verdict yet. Call {VERDICT} now: what you could not try is `passed: false`."
MISSING_OF = (
    "There is no verdict yet of {ids}. "
    + f"Call {VERDICT} now, once for each: what you could not try is `passed: false`."
)
NO_VERDICT = "the session that checked it ended without a verdict that counts"
MOST_CITED = 20
MOST_REASON = 4_000


@record
class Claim:
    """What is said to hold."""

    id: str
    title: str
    text: str
    """In full, as a file of the project has it."""


@record
class Finding:
    """What a session found of a claim. A verdict of `unproven` says nothing of the claim itself."""

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
    """Which one, where the session checks several."""


class _Bench:
    """Hears the verdicts of one session, and takes none that its own record does not carry."""

    def __init__(self, store: Store, claims: Sequence[Claim]) -> None:
        self.results = Results()
        self.given: dict[str, VerdictArguments] = {}
        self.ids = [claim.id for claim in claims]
        self._store = store

    @property
    def _open(self) -> list[str]:
        return [id for id in self.ids if id not in self.given]

    def missing(self) -> str | None:
        if not self._open:
            return None
        return MISSING if len(self.ids) == 1 else MISSING_OF.format(ids=", ".join(self._open))

    async def hear(self, arguments: VerdictArguments, context: ToolContext) -> ToolResult:
        id = self.ids[0] if len(self.ids) == 1 else arguments.scenario
        if id not in self._open:
            return rejected(f"`scenario` is one of {', '.join(self._open)}, each once")
        if not arguments.passed and not arguments.reason.strip():
            return rejected("say what you did, what came and what should have come")
        if len(arguments.evidence) > MOST_CITED:
            return rejected(f"cite at most {MOST_CITED} results: those that show it")
        against = self.results.objection(self._store, context.session_id, arguments.evidence, passed=arguments.passed)
        if against:
            return rejected(against, own=False)
        self.given[id] = arguments
        if left := self._open:
            return ToolResult(f"Noted. Still to be checked: {', '.join(left)}.", own=True)
        return ToolResult("Noted.", own=True, ends=True)

    def finding(self, id: str, report: ChildReport) -> Finding:
        if (verdict := self.given.get(id)) is None:
            return Finding("unproven", f"{NO_VERDICT}: {report.reason or report.outcome}", (), report)
        cited = self.results.cited(self._store, report.session_id, verdict.evidence)
        return Finding("passed" if verdict.passed else "failed", verdict.reason[:MOST_REASON], tuple(cited), report)


async def verify(
    store: Store, spawn: Spawn, claims: Sequence[Claim], *, servers: tuple[str, ...], model: str | None
) -> list[Finding]:
    """Have one session apart try all claims; the findings are in their order. Raises AdderClawError where none may
    begin."""
    bench = _Bench(store, claims)
    with open(os.path.join(os.path.dirname(__file__), "verifier.md"), encoding="utf-8") as file:
        system = file.read().strip()
    child = ChildRequest(
        prompt=_asked(claims),
        agent_type="verifier",
        description=f"checks {', '.join(bench.ids)}"[:200],
        system=system,
        tools=tools_in_set("verifier"),
        extra_tools=(_tool(bench),),
        before_end=bench.missing,
        model=model,
        waits_for_slot=True,
        isolation=Isolation(servers=servers, network=True),
        wrap_tool=bench.results.wrap,
    )
    report = await spawn(child)
    return [bench.finding(claim.id, report) for claim in claims]


def _asked(claims: Sequence[Claim]) -> str:
    """The scenarios are data as well: a session wrote them down. A file that several are in is shown once."""
    if len(claims) == 1:
        text = f"{claims[0].id}: {claims[0].title}\n\n{claims[0].text}".strip()
        return f"Check this scenario, and no other:\n\n{framed(content_mark(text), text)}"
    names = "\n".join(f"{claim.id}: {claim.title}" for claim in claims)
    text = "\n\n".join((names, *dict.fromkeys(claim.text for claim in claims if claim.text)))
    head = f"Check each of these scenarios, and no other. Call {VERDICT} once for each, as soon as you have tried it:"
    return f"{head}\n\n{framed(content_mark(text), text)}"


def _tool(bench: _Bench) -> Tool[VerdictArguments]:
    touch = Touch(why="says what the check found", inward=True)
    several = len(bench.ids) > 1
    last = "once for each scenario," if several else "once and last,"
    about = f"Say, {last} whether the scenario holds. The ids of your results carry a pass; words do not."
    return Tool(
        VERDICT, VerdictArguments, fixed_prepare(touch, bench.hear), about, _parameters(bench.ids if several else [])
    )


def _parameters(ids: Sequence[str]) -> Json:
    which: Json = {"scenario": {"type": "string", "enum": list(ids), "description": "The id of the scenario."}}
    return {
        "type": "object",
        "properties": {
            **(which if ids else {}),
            "passed": {"type": "boolean", "description": "true only if you saw every step's outcome."},
            "evidence": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Ids of your results, such as r3, in which it can be seen.",
            },
            "reason": {"type": "string", "description": "What you did, what came, what should have come."},
        },
        "required": [*(["scenario"] if ids else []), "passed", "evidence", "reason"],
        "additionalProperties": False,
    }
