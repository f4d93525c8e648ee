"""Runs attempts at tasks, several at once: each a process of its own in a workspace of its own, then its checks."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence

from adderclaw.channels.bench import checking
from adderclaw.channels.bench.catalogue import Named
from adderclaw.channels.bench.results import Result, Terms
from adderclaw.config.paths import followed
from adderclaw.credentials.unconfined import PIPE, Unconfined
from adderclaw.errors import AdderClawError, Refused, UsageError
from adderclaw.record import NamedTuple
from adderclaw.types import Json

GRACE = 10.0
"""Seconds that an attempt has to write down its end when it is told to stop."""
ERRORS = 3
"""So many attempts in a row that the provider failed: then the rest would fail, too."""
NOT_COUNTED = ("error", "stopped")
MOST_PRINTED = 1 << 20
"""Bytes of what the process of an attempt prints: its report is one line."""


class Attempt(NamedTuple):
    named: Named
    number: int


class Runner:
    """What is left to do, what it may cost, and when it is over."""

    def __init__(self, terms: Terms, spent: float, keep: str | None, told: Callable[[Result], None]) -> None:
        self._terms, self._keep, self._told = terms, keep, told
        self._spent, self._errors = spent, 0
        self._under_way, self._money = list[float](), asyncio.Condition()
        self._children = set[Unconfined]()
        self.why = ""
        """Why no further attempt begins."""
        self.spent_all = False
        self.interrupted = False

    async def run(self, attempts: Sequence[Attempt]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        waiting = list(reversed(attempts))

        async def work() -> None:
            while waiting and not self.why:
                most = await self._share()
                if not waiting or self.why:
                    return
                if most <= 0:
                    self._no_money()
                else:
                    await self._one(waiting.pop(), most)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._terms.jobs):
                group.create_task(work())

    def _stop(self) -> None:
        """The first time attempts end as by Ctrl-C; the second time they are killed."""
        again = self.interrupted
        self.interrupted, self.why = True, "interrupted"
        for child in self._children:
            child.kill() if again else child.signal(signal.SIGINT)

    async def _share(self) -> float:
        """Dollars for the next attempt. Those under way may leave some of theirs: it waits rather than takes less."""
        whole = self._terms.limits["cost_usd"]
        async with self._money:
            await self._money.wait_for(lambda: not self._under_way or self._left() >= whole or self.why)
        return min(whole, self._left())

    def _left(self) -> float:
        return round(self._terms.max_cost - self._spent - sum(self._under_way), 9)

    async def _one(self, attempt: Attempt, most: float) -> None:
        self._under_way.append(most)
        try:
            result = await self._tried(attempt, most)
        finally:
            self._under_way.remove(most)
        self._note(result)
        async with self._money:
            self._money.notify_all()

    def _note(self, result: Result | None) -> None:
        if result is None:
            return
        self._spent += result.cost or 0.0
        self._errors = self._errors + 1 if result.outcome == "error" else 0
        if result.outcome == "stopped":
            self.why = self.why or result.reason
        elif result.outcome == "limit" and not result.counted:
            self._no_money()
        elif self._errors >= ERRORS:
            self.why = f"{ERRORS} attempts in a row could not be made: {result.reason}"
        self._told(result)

    def _no_money(self) -> None:
        self.spent_all = True
        beyond = f"the next attempt might go beyond --max-cost {self._terms.max_cost:g}"
        self.why = self.why or (beyond if self._terms.limits["cost_usd"] else "--limit cost_usd=0 allows no attempt")

    async def _tried(self, attempt: Attempt, most: float) -> Result | None:
        """What came of it; None where it was interrupted before anything of it ran."""
        name, task = attempt.named
        began, failed, root = time.monotonic(), list[str](), ""
        report: Json = {}
        try:
            with self._place(name) as root:
                bench = checking.Bench(root)
                await bench.lay_out(task)
                if self.interrupted:
                    return None
                report = await self._driven(root, task.text, most)
                seconds = time.monotonic() - began
                counted = report["outcome"] not in NOT_COUNTED and not self._cut_short(report, most)
                failed = await bench.failed(task) if counted else []
        except (AdderClawError, OSError) as error:  # no room, no sandbox: it says nothing about the model
            report, counted = {**report, "outcome": "error", "reason": str(error)}, False
            seconds = time.monotonic() - began
        return Result(
            task=name,
            kind=task.kind,
            attempt=attempt.number,
            passed=counted and not failed,
            counted=counted,
            outcome=report["outcome"],
            reason=report.get("reason", ""),
            failed=tuple(failed),
            steps=report.get("steps", 0),
            tool_calls=report.get("tool_calls", 0),
            tokens=report.get("tokens", 0),
            cost=report.get("cost"),
            seconds=round(seconds, 2),
            run_id=report.get("run_id", ""),
            model=report.get("model", ""),
            workspace=root if self._keep is not None else "",
        )

    def _cut_short(self, report: Json, most: float) -> bool:
        """Whether it ended for want of money that --limit would have given it: that says nothing about the model."""
        return report.get("ended_by") == "cost_usd" and most < self._terms.limits["cost_usd"]

    @contextlib.contextmanager
    def _place(self, name: str) -> Generator[str]:
        """A new folder for a workspace; it goes again, unless the workspaces are kept."""
        place = followed(tempfile.mkdtemp(prefix=f"adderclaw-bench-{name}-", dir=self._keep))
        try:
            root = os.path.join(place, "work")
            os.mkdir(root)
            yield root
        finally:
            if self._keep is None:
                with contextlib.suppress(OSError, Refused):
                    checking.empty(place)

    async def _driven(self, root: str, text: str, most: float) -> Json:
        """How the run ended: by its own word, or by that of its process."""
        terms = self._terms
        order = {"workspace": root, "text": text, "provider": terms.provider, "model": terms.model}
        limits = {name: int(value) if value.is_integer() else value for name, value in terms.limits.items()}
        limits["cost_usd"] = most
        if terms.unpriced:
            del limits["cost_usd"]
        order |= {"config": terms.config, "limits": limits, "rounds": terms.rounds}
        # -P: it works where the model writes, and imports nothing from there
        argv = (sys.executable, "-P", "-m", "adderclaw.channels.bench.child")
        with Unconfined(argv, cwd=root, stdin=PIPE, stdout=PIPE, stderr=PIPE) as child:
            self._children.add(child)
            try:
                child.write(json.dumps(order).encode() + b"\n")
                async with asyncio.timeout(terms.limits["seconds"] + GRACE * 6):
                    printed, said = await asyncio.gather(child.head(MOST_PRINTED), child.complaint(2000))
                    report = _report(printed, said, await child.wait())
            except TimeoutError:
                report = {"outcome": "error", "reason": "the process of the attempt did not end in its time"}
            finally:
                self._children.discard(child)
        # a process that a signal ended while it started, or that was killed, had no time to say so
        return {**report, "outcome": "stopped"} if self.interrupted and report["outcome"] == "error" else report


def _report(printed: bytes, said: bytes, code: int) -> Json:
    try:
        return json.loads(printed.decode("utf-8", "replace").strip().rpartition("\n")[2])
    except json.JSONDecodeError:
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return {"outcome": "error", "reason": f"the process of the attempt ended with {code} {last}".strip()}


def require_keep(folder: str) -> None:
    """Refuse a folder in which no workspace can be made, before anything is spent."""
    if not os.path.isdir(folder):
        raise UsageError(f"--keep {folder}: there is no such folder; make it first")
    try:
        with tempfile.TemporaryDirectory(prefix="adderclaw-bench-", dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"--keep {folder}: nothing can be written there: {error.strerror}") from error


def require_sandbox() -> None:
    """Refuse at once where no attempt could be made."""
    from adderclaw.sandbox import confinement

    with tempfile.TemporaryDirectory(prefix="adderclaw-bench-") as folder:
        found = confinement.required((followed(folder),))
    if found == "none":
        raise AdderClawError("bench tasks needs a sandbox: `adderclaw doctor` says what is missing")
