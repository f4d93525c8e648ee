"""Measures how many of 50 small tasks a model solves, by checks that it never sees.

Each attempt is one `adderclaw -p` in a temporary workspace. Its result is a line in a file of results. Attempts that
the file has are not repeated, so that an interrupted bench continues when it is started again with the same file.
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from adderclaw.core.errors import AdderClawError, PathRefused
from bench.tasks import catalogue, checking
from bench.tasks.catalogue import Named

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("adderclaw")
HIDDEN = [f"{tool}(/{ROOT}/{folder}/**)" for tool in ("Read", "Edit") for folder in ("bench", "tests")]
"""Rules: no tool and no command of an attempt reads the checks, or the reference solutions."""
LIMITS = {"tokens": 400_000, "tool_calls": 60, "seconds": 600}
"""Of one attempt."""
ROUNDS = 40
COST = 0.25
"""US dollars for one attempt, where --max-cost bounds all of them."""
ERRORS = 3
"""After so many failed attempts in a row the rest would fail, too."""
NOT_COUNTED = ("error", "stopped")

type Result = dict[str, Any]


class Attempt(NamedTuple):
    named: Named
    number: int


class Bench:
    """The attempts that are left, and their results."""

    def __init__(self, options: argparse.Namespace, tasks: Sequence[Named]) -> None:
        self._options = options
        self._words = ["--output-format", "json", "--profile", "sandboxed", "--max-turns", str(ROUNDS)]
        self._words += ["--disallowed-tools", *HIDDEN]
        for name in ("provider", "model", "config"):
            if (value := getattr(options, name)) is not None:
                self._words += [f"--{name}", value]
        limits = LIMITS | ({"cost_usd": COST} if options.max_cost is not None else {})
        self._words += [word for name, value in limits.items() for word in ("--limit", f"{name}={value}")]
        self.results = read(options.results)
        tried = {(result["task"], result["attempt"]) for result in self.results if result["counted"]}
        every = [Attempt(task, number) for number in range(1, options.repeat + 1) for task in tasks]
        self.left = [attempt for attempt in every if (attempt.named.name, attempt.number) not in tried]
        self._running, self._errors = 0, 0
        self.stopped = ""
        """Why no further attempt begins."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._options.jobs):
                group.create_task(self._work())

    async def _work(self) -> None:
        while self.left and not self.stopped:
            if not self._affordable():
                if not self._running:
                    self.stopped = f"the next attempt might exceed --max-cost {self._options.max_cost:g}"
                return
            attempt = self.left.pop(0)
            self._running += 1
            try:
                self._record(await self._try(attempt))
            finally:
                self._running -= 1

    def _affordable(self) -> bool:
        """Whether the cost limit of one more attempt is left. Those that run may use up theirs."""
        most = self._options.max_cost
        spent = sum(result["cost"] or 0.0 for result in self.results)
        return most is None or spent + COST * (self._running + 1) <= most + 1e-9

    def _record(self, result: Result) -> None:
        self._errors = 0 if result["counted"] else self._errors + 1
        if self._errors >= ERRORS:
            self.stopped = f"{ERRORS} attempts in a row failed: {result['reason']}"
        self.results.append(result)
        with open(self._options.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        verdict = ("pass" if result["passed"] else "fail") if result["counted"] else result["outcome"]
        why = "" if result["passed"] else f"  ({'; '.join(result['failed']) or result['reason']})"
        print(
            f"{verdict:<5} {result['task']:<26} {result['seconds']:>6.1f} s  {result['run_id']}{why[:200]}", flush=True
        )

    async def _try(self, attempt: Attempt) -> Result:
        name, task = attempt.named
        began, failed = time.monotonic(), list[str]()
        with tempfile.TemporaryDirectory(prefix=f"adderclaw-bench-{name}-") as folder:
            root = os.path.join(os.path.realpath(folder), "work")
            os.mkdir(root)
            workspace = checking.Workspace(root)
            try:
                await workspace.lay_out(task)
                report = await self._agent(root, task.text)
                if counted := report["outcome"] not in NOT_COUNTED:
                    failed = await workspace.failed(task)
            except (AdderClawError, OSError) as error:  # no space, no sandbox: it says nothing about the model
                report, counted = {"outcome": "error", "reason": str(error)}, False
            with contextlib.suppress(OSError, PathRefused):
                checking.empty(root)
        return {
            "task": name,
            "kind": task.kind,
            "attempt": attempt.number,
            "counted": counted,
            "passed": counted and not failed,
            "outcome": report["outcome"],
            "reason": report.get("reason", ""),
            "failed": failed,
            "cost": report.get("total_cost_usd"),
            "steps": report.get("num_turns", 0),
            "run_id": report.get("run_id", ""),
            "seconds": round(time.monotonic() - began, 1),
            "tasks": catalogue.digest(),
        }

    async def _agent(self, root: str, text: str) -> dict[str, Any]:
        """The result object of one run of the program."""
        argv = [str(PROGRAM), "-p", text, "--workspace", root, *self._words]
        child = await asyncio.create_subprocess_exec(*argv, cwd=root, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
        try:
            out, err = await child.communicate()
        finally:
            if child.returncode is None:
                child.terminate()
                await child.wait()
        try:
            report = json.loads(out)
        except ValueError:
            reason = err.decode("utf-8", "replace").strip().rpartition("\n")[2]
            return {"outcome": "error", "reason": f"exit code {child.returncode}: {reason}"}
        return {**report, "reason": "; ".join(report.get("errors", []))}


def read(path: str) -> list[Result]:
    """The results of a file. Results for other tasks are refused: figures of two sets are not comparable."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    results = [json.loads(line) for line in lines]
    if any(result["tasks"] != catalogue.digest() for result in results):
        sys.exit(f"{path} has results for another version of the tasks: name a new file")
    return results


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a rate that was observed in `count` independent trials."""
    if count == 0:
        return 0.0, 1.0
    z2 = 1.959964**2 / count
    middle = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * share * (1 - share) + z2 * z2 / 4) / (1 + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


def summary(results: Iterable[Result]) -> str:
    """The rate with its interval; with several attempts the rate of a task is their mean."""
    by_task: dict[str, list[bool]] = {}
    for result in results:
        if result["counted"]:
            by_task.setdefault(result["task"], []).append(result["passed"])
    rates = [sum(passed) / len(passed) for passed in by_task.values()]
    rate = sum(rates) / len(rates) if rates else 0.0
    low, high = wilson(rate, len(rates))
    passed, every = sum(map(sum, by_task.values())), sum(map(len, by_task.values()))
    return f"{passed} of {every} attempts at {len(rates)} tasks passed: {rate:.0%} (95 %: {low:.0%} to {high:.0%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the tasks; nothing runs")
    parser.add_argument("--only", action="append", default=[], metavar="NAME|KIND", help="only these; may be repeated")
    for name in ("provider", "model", "config"):
        parser.add_argument(f"--{name}", help="as for `adderclaw -p`")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="attempts at each task")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="attempts at once")
    parser.add_argument("--max-cost", type=float, metavar="USD", help="what all attempts may cost together")
    default = ROOT / "bench" / "runs" / f"tasks-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    parser.add_argument("--results", default=str(default), metavar="FILE", help="results are appended here")
    options = parser.parse_args()
    try:
        tasks = catalogue.chosen(options.only)
    except AdderClawError as error:
        parser.error(str(error))
    if options.list:
        for name, task in tasks:
            print(f"{name:<26} {task.kind:<9} {task.text.strip().partition('\n')[0][:100]}")
        return
    missing = {name: checking.lacking(task) for name, task in tasks}
    for name, programs in missing.items():
        if programs:
            print(f"{name} is skipped: it needs {', '.join(programs)}", file=sys.stderr)
    os.makedirs(os.path.dirname(os.path.abspath(options.results)), exist_ok=True)
    bench = Bench(options, [task for task in tasks if not missing[task.name]])
    try:
        asyncio.run(bench.run())
    except KeyboardInterrupt:
        bench.stopped = "interrupted"
    print(summary(bench.results))
    print(f"results: {options.results}")
    if bench.left or bench.stopped:
        sys.exit(f"attempts are left: {bench.stopped}; the same command with --results {options.results} continues")


if __name__ == "__main__":
    main()
