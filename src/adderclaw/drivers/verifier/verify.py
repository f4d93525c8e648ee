"""One claim, tried by a session apart; only a verdict that cites what is recorded counts."""

import os
from typing import Literal

from adderclaw.child import Apart, Child, ChildReport, Spawn
from adderclaw.drivers.verifier.results import Cited, Results
from adderclaw.framing import framed, sealed
from adderclaw.record import record
from adderclaw.store import Store
from adderclaw.types import Json, Tool, ToolContext, ToolResult, Touch, preparing, rejected

VERDICT = "Verdict"
TOOLS = ("Bash", "Read", "LS", "Glob", "Grep", "TaskOutput", "TaskStop", "ToolSearch", "Call")
"""None of them writes; what a command writes stays in the sandbox of its session."""
MISSING = f"There is no verdict yet. Call {VERDICT} now: what you could not try is `passed: false`."
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


class _Bench:
    """Hears the verdict of one session, and takes none that its own record does not carry."""

    def __init__(self, store: Store) -> None:
        self.results = Results()
        self.given: VerdictArguments | None = None
        self._store = store

    def missing(self) -> str | None:
        return MISSING if self.given is None else None

    async def hear(self, given: VerdictArguments, context: ToolContext) -> ToolResult:
        if not given.passed and not given.reason.strip():
            return rejected("say what you did, what came and what should have come")
        if len(given.evidence) > MOST_CITED:
            return rejected(f"cite at most {MOST_CITED} results: those that show it")
        against = self.results.objection(self._store, context.session_id, given.evidence, passed=given.passed)
        if against:
            return rejected(against, own=False)
        self.given = given
        return ToolResult("Noted.", own=True, ends=True)

    def finding(self, report: ChildReport) -> Finding:
        if self.given is None:
            return Finding("unproven", f"{NO_VERDICT}: {report.reason or report.outcome}", (), report)
        cited = self.results.cited(self._store, report.session_id, self.given.evidence)
        verdict = "passed" if self.given.passed else "failed"
        return Finding(verdict, self.given.reason[:MOST_REASON], tuple(cited), report)


async def verify(store: Store, spawn: Spawn, claim: Claim, *, servers: tuple[str, ...], model: str | None) -> Finding:
    """Have a session apart try a claim. Raises AdderClawError where none may begin."""
    bench = _Bench(store)
    with open(os.path.join(os.path.dirname(__file__), "verifier.md"), encoding="utf-8") as file:
        system = file.read().strip()
    child = Child(
        prompt=_asked(claim),
        agent_type="verifier",
        description=f"checks {claim.id}",
        system=system,
        tools=TOOLS,
        extra=(_tool(bench),),
        until=bench.missing,
        model=model,
        waits=True,
        apart=Apart(servers=servers, network=True),
        wrap=bench.results.wrap,
    )
    return bench.finding(await spawn(child))


def _asked(claim: Claim) -> str:
    """The scenario is data as well: a session wrote it down."""
    text = f"{claim.id}: {claim.title}\n\n{claim.text}".strip()
    return f"Check this scenario, and no other:\n\n{framed(sealed(text), text)}"


def _tool(bench: _Bench) -> Tool[VerdictArguments]:
    touch = Touch(why="says what the check found", inward=True)
    about = "Say, once and last, whether the scenario holds. The ids of your results carry a pass; words do not."
    return Tool(VERDICT, VerdictArguments, preparing(touch, bench.hear), about, _PARAMETERS)


_PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "passed": {"type": "boolean", "description": "true only if you saw every step's outcome."},
        "evidence": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Ids of your results, such as r3, in which it can be seen.",
        },
        "reason": {"type": "string", "description": "What you did, what came, what should have come."},
    },
    "required": ["passed", "evidence", "reason"],
    "additionalProperties": False,
}
