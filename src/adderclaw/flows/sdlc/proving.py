"""The mutation proof: a test counts only if it fails where what it proves is not there."""

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
from adderclaw.storage.sdlc.generated_tests import Test, replaced_digest
from adderclaw.storage.sdlc.generated_tests import Tree as Kind

PASSES_BEFORE = (
    "it passes on the tree as it was before the change, so that it does not prove the change: assert what only the "
    "change brings"
)
FAILS_BEFORE = (
    "it fails on the tree as it was before the change (status {code}), where this criterion holds already: assert what "
    "must go on working, and nothing new"
)
PASSES_BROKEN = (
    "it passes on a tree with the fault that the plan names for this criterion, so that it would not notice it: assert "
    "more of what the criterion says"
)
ENDLESS = "it did not end in {seconds:.0f} s on the tree before the change: do not wait for what may never come"
BROKEN = "it could not run to an assertion: {why}. Mend the test itself"

OF_THE_TEST = ("NameError", "SyntaxError", "ImportError", "AttributeError", "TypeError", "UnboundLocalError")
"""What Python raises for a test that is wrong in itself: no assertion of it was ever tried."""
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?(\w+)(?::|$)", re.ASCII)
_MISSING = re.compile(r"test\.sh: line \d+: (\S+): command not found", re.ASCII)


class Proved(NamedTuple):
    """What a test showed on a tree."""

    kind: Kind
    tree: Tree
    ran: Ran


class Judgement(NamedTuple):
    reason: str
    """Why the test is turned back; empty: it counts."""
    runs: tuple[Proved, ...]


async def prove(trees: Trees, criterion: Criterion, test: Test) -> Judgement:
    before = trees.baseline()
    first = Proved("baseline", before, await trees.run(before, test.language, test.content))
    why = _unproved(first.ran, criterion, test)
    if why or not criterion.keeps:
        return Judgement(why, (first,))
    broken = trees.faulty(faults.parse(criterion.fault))
    second = Proved("fault", broken, await trees.run(broken, test.language, test.content))
    return Judgement(_unnoticed(second.ran, test), (first, second))


async def prove_replaced(trees: Trees, now: Tree, criterion: Criterion, test: Test, ran: Ran) -> Judgement:
    """On the workspace as it is, with the programs that the test starts replaced; `ran` is how it passed there."""
    names = check_shell.programs(test.content) if test.language == "sh" else []
    most = min(SECONDS, 15 + 3 * ran.seconds)

    async def run(how: How, calls: Sequence[Call]) -> Ran:
        return await trees.run(now, test.language, test.content, Replacing(how, names, calls), most)

    reason, came = await judge(run, criterion.text)
    runs = (
        Proved("fault", now._replace(digest=replaced_digest(variant_run.variant, now.digest)), variant_run.ran)
        for variant_run in came
    )
    return Judgement(reason, tuple(runs))


def _unproved(ran: Ran, criterion: Criterion, test: Test) -> str:
    """What of the tests's output the generator hears is said in our own words: nothing that a program printed."""
    if ran.timed_out:
        return ENDLESS.format(seconds=ran.seconds)
    if ran.exit_code and (why := broken(test.language, ran)):
        return BROKEN.format(why=why)
    if criterion.keeps:
        return FAILS_BEFORE.format(code=ran.exit_code) if ran.exit_code else ""
    return "" if ran.exit_code else PASSES_BEFORE


def _unnoticed(ran: Ran, test: Test) -> str:
    if ran.timed_out:
        return ""
    if ran.exit_code and (why := broken(test.language, ran)):
        return BROKEN.format(why=why)
    return "" if ran.exit_code else PASSES_BROKEN


def broken(language: str, ran: Ran) -> str:
    """Why a failure is the test's own; empty where an assertion may have failed, or a program is not there yet."""
    if ran.exit_code < 0:
        return f"it was ended by signal {-ran.exit_code}"
    if language == "python":
        return _raised(ran.stderr)
    if "test.sh: " in ran.stderr and ("syntax error" in ran.stderr or "unbound variable" in ran.stderr):
        return "the shell says syntax error or unbound variable"
    missing = _MISSING.search(ran.stderr)
    if missing and missing[1] in LOOKING:
        return f"{missing[1]} is not installed here"
    return ""


def _raised(stderr: str) -> str:
    """By the last line of a traceback that ends in the test itself."""
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
"""One run of the test on a copy of the workspace as it is; the calls are those that an earlier run recorded."""

UNSTARTED = "it starts no program of the project: exercise the change through a command of its public interface"
_REPLACED = "it passes where each program of the project that it starts is replaced by one that"
_MORE = "compare what was printed, written or stored with what the criterion says"
PASSES_OTHER = f"{_REPLACED} prints something else and exits with the same status, so that it notices nothing: {_MORE}"
PASSES_EMPTY = f"{_REPLACED} prints nothing and exits with the same status: {_MORE}"
_RECORDED = re.compile(r"^adderclaw recorded: (\[.*\])$", re.MULTILINE)
_STATUS = re.compile(r"\b(exit\w*|status|code|fails?|failing|succeeds?)\b", re.IGNORECASE)
_EFFECT = re.compile(
    r"\b(prints?|printing|shows?|says?|outputs?|writes?|writing|lists|reports?|displays?|creates?|deletes?|removes?"
    r"|stores?|saves?|answers?|responds?|contains?|changes?|unchanged|messages?|usage|stdout|stderr)\b",
    re.IGNORECASE,
)
"""Of what a criterion promises, not of a condition such as "where the file cannot be written"."""


class Call(NamedTuple):
    """A program of the project that a test started."""

    key: str
    """A hash of its words, and how many calls of the same words came before."""
    program: str
    status: int | None
    """None: the test ended before it did."""
    printed: bool
    """On standard output."""


class Replaced(NamedTuple):
    variant: Variant
    ran: Ran


async def judge(run: Run, criterion: str) -> tuple[str, list[Replaced]]:
    """Why the test is turned back, empty where it counts, and what it showed with its programs replaced."""
    calls = recorded((await run("record", ())).stdout)
    if not calls:
        return UNSTARTED, []
    came = [Replaced("other", await run("other", calls))]
    if _passed(came[0].ran):
        if not names_only_a_status(criterion):
            return PASSES_OTHER, came
        other = [call._replace(status=0 if call.status else 1) for call in calls]
        came.append(Replaced("status", await run("other", other)))
        return PASSES_OTHER if _passed(came[-1].ran) else "", came
    # where a program prints nothing, a test that asserts just that passes with one that prints nothing, too
    if all(call.printed for call in calls):
        came.append(Replaced("empty", await run("empty", calls)))
    return PASSES_EMPTY if _passed(came[-1].ran) else "", came


def recorded(stdout: str) -> list[Call]:
    matches = _RECORDED.findall(stdout)
    return [Call(*row) for row in json.loads(matches[-1])] if matches else []


def names_only_a_status(criterion: str) -> bool:
    """Whether nothing but how a program exits is promised: then a test need not look at more."""
    text = re.sub(r"`[^`]*`", "", criterion)
    return bool(_STATUS.search(text)) and not _EFFECT.search(text)


def _passed(ran: Ran) -> bool:
    return ran.exit_code == 0 and not ran.timed_out
