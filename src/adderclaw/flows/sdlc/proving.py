"""The mutation proof: a test is accepted only if it fails where the thing that it proves is missing."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.flows.sdlc import check_shell
from adderclaw.flows.sdlc.check import LOOKING
from adderclaw.flows.sdlc.running import SECONDS, Ran, Replacing
from adderclaw.flows.sdlc.trees import Tree, Trees
from adderclaw.storage.sdlc import faults
from adderclaw.storage.sdlc.criteria import Criterion
from adderclaw.storage.sdlc.generated_tests import Test, stubbed_tree_digest
from adderclaw.storage.sdlc.generated_tests import Tree as Kind

PASSES_BEFORE = (
    "it passes on the tree before the change, so it does not prove the change: assert something that holds only after "
    "the change"
)
FAILS_BEFORE = (
    "it fails on the tree before the change (status {code}), where this criterion already holds: assert only what must "
    "continue to work, and nothing new"
)
PASSES_BROKEN = (
    "it passes on a tree with the fault that the plan names for this criterion, so it does not detect that fault: "
    "assert more of what the criterion says"
)
ENDLESS = "it did not end within {seconds:.0f} s on the tree before the change: do not wait for what may never happen"
BROKEN = "it failed before it reached an assertion: {why}. Correct the test itself"

OF_THE_TEST = ("NameError", "SyntaxError", "ImportError", "AttributeError", "TypeError", "UnboundLocalError")
"""What Python raises for a test that is itself wrong, so that no assertion was evaluated."""
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?(\w+)(?::|$)", re.ASCII)
_MISSING = re.compile(r"test\.sh: line \d+: (\S+): command not found", re.ASCII)


class Proved(NamedTuple):
    """The result of a test on a tree."""

    kind: Kind
    tree: Tree
    ran: Ran


class Judgement(NamedTuple):
    reason: str
    """Why the test is returned; empty if it is accepted."""
    runs: tuple[Proved, ...]


async def prove(trees: Trees, criterion: Criterion, test: Test) -> Judgement:
    """Runs a test on the tree before the change; if its criterion already holds there, also on a tree with a fault."""
    before = trees.baseline()
    first = Proved("baseline", before, await trees.run(before, test.language, test.content))
    why = _failure_reason(first.ran, test)
    if not why and criterion.keeps and first.ran.exit_code:
        why = FAILS_BEFORE.format(code=first.ran.exit_code)
    elif not why and not criterion.keeps and not first.ran.exit_code:
        why = PASSES_BEFORE
    if why or not criterion.keeps:
        return Judgement(why, (first,))
    faulty = trees.faulty(faults.parse(criterion.fault))
    second = Proved("fault", faulty, await trees.run(faulty, test.language, test.content))
    if second.ran.timed_out:
        return Judgement("", (first, second))
    return Judgement(
        _failure_reason(second.ran, test) or ("" if second.ran.exit_code else PASSES_BROKEN), (first, second)
    )


async def prove_replaced(trees: Trees, now: Tree, criterion: Criterion, test: Test, ran: Ran) -> Judgement:
    """Runs a test on the workspace as it is now, with the programs that it starts replaced; `ran`: its passing run."""
    names = check_shell.programs(test.content) if test.language == "sh" else []
    most = min(SECONDS, 15 + 3 * ran.seconds)

    async def run(how: How, calls: Sequence[Call]) -> Ran:
        return await trees.run(now, test.language, test.content, Replacing(how, names, calls), most)

    reason, replaced_runs = await judge(run, criterion.text)
    runs = (
        Proved("fault", now._replace(digest=stubbed_tree_digest(replaced.variant, now.digest)), replaced.ran)
        for replaced in replaced_runs
    )
    return Judgement(reason, tuple(runs))


def _failure_reason(ran: Ran, test: Test) -> str:
    """Why a run shows a defect of the test itself. Does not quote programs, whose output the generator must not see."""
    if ran.timed_out:
        return ENDLESS.format(seconds=ran.seconds)
    why = broken(test.language, ran) if ran.exit_code else ""
    return BROKEN.format(why=why) if why else ""


def broken(language: str, ran: Ran) -> str:
    """Why a failure is the test's own fault; empty if an assertion may have failed, or a program does not exist yet."""
    if ran.exit_code < 0:
        return f"signal {-ran.exit_code} ended it"
    if language == "python":
        return _raised(ran.stderr)
    if "test.sh: " in ran.stderr and ("syntax error" in ran.stderr or "unbound variable" in ran.stderr):
        return "the shell reported a syntax error or an unbound variable"
    missing = _MISSING.search(ran.stderr)
    if missing and missing[1] in LOOKING:
        return f"{missing[1]} is not installed here"
    return ""


def _raised(stderr: str) -> str:
    """The error in the last line of a traceback, if the test itself raised it."""
    lines = stderr.rstrip().splitlines()
    if "Traceback (most recent call last):" not in lines:
        return ""
    named = _RAISED.match(next((line for line in reversed(lines) if line and not line.startswith(" ")), ""))
    kind = named[1] if named is not None else ""
    if kind == "ModuleNotFoundError":
        kind = "ImportError"
    at = re.findall(r'File ".*/test\.py", line (\d+)', stderr)
    return f"line {at[-1]} raises {kind}" if kind in OF_THE_TEST and at else ""


type How = Literal["record", "other", "empty"]
type Variant = Literal["other", "status", "empty"]
type Run = Callable[[How, "Sequence[Call]"], Awaitable[Ran]]
"""Runs the test on a copy of the workspace as it is now; the calls are those that an earlier run recorded."""

UNSTARTED = "it starts no program of the project: exercise the change through a command of its public interface"
_REPLACED = "it passes when each program of the project that it starts is replaced by one that"
_MORE = "compare what was printed, written or stored with what the criterion says"
PASSES_OTHER = f"{_REPLACED} prints something else and exits with the same status: {_MORE}"
PASSES_EMPTY = f"{_REPLACED} prints nothing and exits with the same status: {_MORE}"
_RECORDED = re.compile(r"^adderclaw recorded: (\[.*\])$", re.MULTILINE)
_STATUS = re.compile(r"\b(exit\w*|status|code|fails?|failing|succeeds?)\b", re.IGNORECASE)
_EFFECT = re.compile(
    r"\b(prints?|printing|shows?|says?|outputs?|writes?|writing|lists|reports?|displays?|creates?|deletes?|removes?"
    r"|stores?|saves?|answers?|responds?|contains?|changes?|unchanged|messages?|usage|stdout|stderr)\b",
    re.IGNORECASE,
)
"""Words for what a criterion promises, not for a condition such as "where the file cannot be written"."""


class Call(NamedTuple):
    """A program of the project that a test started."""

    key: str
    """A hash of its words, and the number of earlier calls with the same words."""
    program: str
    status: int | None
    """None: the test ended first."""
    printed: bool
    """Whether it printed to standard output."""


class ReplacedRun(NamedTuple):
    variant: Variant
    ran: Ran


async def judge(run: Run, criterion: str) -> tuple[str, list[ReplacedRun]]:
    """Why the test is returned, empty if it is accepted, and its results with the programs replaced."""
    calls = recorded((await run("record", ())).stdout)
    if not calls:
        return UNSTARTED, []
    results = [ReplacedRun("other", await run("other", calls))]
    if _passed(results[0].ran):
        if not names_only_a_status(criterion):
            return PASSES_OTHER, results
        other = [call._replace(status=0 if call.status else 1) for call in calls]
        results.append(ReplacedRun("status", await run("other", other)))
        return PASSES_OTHER if _passed(results[-1].ran) else "", results
    # if a program prints nothing, a test that asserts exactly that also passes with a replacement that prints nothing
    if all(call.printed for call in calls):
        results.append(ReplacedRun("empty", await run("empty", calls)))
    return PASSES_EMPTY if _passed(results[-1].ran) else "", results


def recorded(stdout: str) -> list[Call]:
    matches = _RECORDED.findall(stdout)
    return [Call(*row) for row in json.loads(matches[-1])] if matches else []


def names_only_a_status(criterion: str) -> bool:
    """Whether the criterion promises nothing but an exit status, so that a test need not examine more."""
    text = re.sub(r"`[^`]*`", "", criterion)
    return bool(_STATUS.search(text)) and not _EFFECT.search(text)


def _passed(ran: Ran) -> bool:
    return ran.exit_code == 0 and not ran.timed_out
