"""The third tree: the workspace as it is, with the programs that a test starts replaced by ones that do nothing.

A test of a new command fails on the tree before the change whatever it asserts, because the command is not there. So
each test also has to fail where the command is there and prints something else.
"""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.flows.sdlc.running import Ran

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
