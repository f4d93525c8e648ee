"""Runs attempts at tasks, several at once: each a process of its own in a workspace of its own, then its checks."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from adderclaw.channels.bench import checking
from adderclaw.channels.bench.catalogue import Named
from adderclaw.channels.bench.results import Result, Terms
from adderclaw.config.paths import followed
from adderclaw.errors import AdderClawError
from adderclaw.record import NamedTuple
from adderclaw.types import Json

GRACE = 10.0
"""Seconds that an attempt has to write down its end when it is told to stop."""
ERRORS = 3
"""So many attempts in a row that the provider failed: then the rest would fail, too."""


class Attempt(NamedTuple):
    named: Named
    number: int


class Runner:
    """What is left to do, what it may cost, and when it is over."""

    def __init__(self, terms: Terms, spent: float, keep: str | None, told: Callable[[Result], None]) -> None:
        self._terms, self._keep, self._told = terms, keep, told
        self._spent, self._reserved, self._errors = spent, 0.0, 0
        self._children = set[asyncio.subprocess.Process]()
        self.why = ""
        """Why no further attempt begins."""
        self.interrupted = False

    async def run(self, attempts: Sequence[Attempt]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        waiting = list(reversed(attempts))

        async def work() -> None:
            while waiting and not self.why:
                await self._one(waiting.pop())

        async with asyncio.TaskGroup() as group:
            for _ in range(self._terms.jobs):
                group.create_task(work())

    def _stop(self) -> None:
        """The first time attempts end as by Ctrl-C; the second time they are killed."""
        how = signal.SIGKILL if self.interrupted else signal.SIGINT
        self.interrupted, self.why = True, "interrupted"
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(how)

    async def _one(self, attempt: Attempt) -> None:
        most = min(self._terms.limits["cost_usd"], self._terms.max_cost - self._spent - self._reserved)
        if most <= 0:
            self.why = self.why or f"the next attempt might go beyond --max-cost {self._terms.max_cost:g}"
            return
        self._reserved += most
        try:
            result = await self._tried(attempt, most)
        finally:
            self._reserved -= most
        self._spent += result.cost or 0.0
        self._errors = self._errors + 1 if result.outcome == "error" else 0
        if result.outcome == "stopped":
            self.why = self.why or result.reason
        elif self._errors >= ERRORS:
            self.why = f"{ERRORS} attempts in a row could not be made: {result.reason}"
        if not self.interrupted or result.counted:
            self._told(result)

    async def _tried(self, attempt: Attempt, most: float) -> Result:
        name, task = attempt.named
        began = time.monotonic()
        place = followed(tempfile.mkdtemp(prefix=f"adderclaw-bench-{name}-", dir=self._keep))
        root = os.path.join(place, "work")
        os.mkdir(root)
        bench = checking.Bench(root)
        try:
            await bench.lay_out(task)
            report = await self._driven(root, task.text, most)
            seconds = round(time.monotonic() - began, 2)
            counted = report["outcome"] not in ("error", "stopped")
            failed = await bench.failed(task) if counted else []
        finally:
            bench.close()
            if self._keep is None:
                with contextlib.suppress(OSError):
                    checking.empty(place)
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
            seconds=seconds,
            run_id=report.get("run_id", ""),
            model=report.get("model", ""),
            workspace=root if self._keep is not None else "",
        )

    async def _driven(self, root: str, text: str, most: float) -> Json:
        """How the run ended: by its own word, or by that of its process."""
        terms = self._terms
        order = {"workspace": root, "text": text, "provider": terms.provider, "model": terms.model}
        limits = {name: int(value) if value.is_integer() else value for name, value in terms.limits.items()}
        order |= {"config": terms.config, "limits": {**limits, "cost_usd": most}, "rounds": terms.rounds}
        child = await asyncio.create_subprocess_exec(
            # -P: it works where the model writes, and imports nothing from there
            sys.executable, "-P", "-m", "adderclaw.channels.bench.child",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=root, start_new_session=True,
        )  # fmt: skip
        assert child.stdin
        assert child.stdout
        assert child.stderr
        self._children.add(child)
        try:
            child.stdin.write(json.dumps(order).encode() + b"\n")
            errors = asyncio.create_task(_tail(child.stderr))
            async with asyncio.timeout(terms.limits["seconds"] + GRACE * 6):
                printed = await child.stdout.read()
            return _report(printed, await errors, await child.wait())
        except TimeoutError:
            return {"outcome": "error", "reason": "the process of the attempt did not end in its time"}
        finally:
            self._children.discard(child)
            if child.returncode is None:
                child.kill()
                await child.wait()


async def _tail(stream: asyncio.StreamReader) -> str:
    """The last of what it says beside its report."""
    kept = b""
    while chunk := await stream.read(65536):
        kept = (kept + chunk)[-2000:]
    return kept.decode("utf-8", "replace")


def _report(printed: bytes, said: str, code: int) -> Json:
    try:
        return json.loads(printed.decode("utf-8", "replace").strip().rpartition("\n")[2])
    except json.JSONDecodeError:
        last = said.strip().rpartition("\n")[2]
        return {"outcome": "error", "reason": f"the process of the attempt ended with {code} {last}".strip()}


def require_sandbox() -> None:
    """Refuse at once where no attempt could be made."""
    from adderclaw.sandbox import confinement

    with tempfile.TemporaryDirectory(prefix="adderclaw-bench-") as folder:
        found = confinement.required((followed(folder),))
    if found == "none":
        raise AdderClawError("bench tasks needs a sandbox: `adderclaw doctor` says what is missing")
