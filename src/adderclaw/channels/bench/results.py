"""What attempts came to: one line each in a file of the home, and the figures that are made of them."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, field

from adderclaw import __version__
from adderclaw.channels.bench import catalogue
from adderclaw.decode import Invalid, decode
from adderclaw.errors import AdderClawError, UsageError
from adderclaw.record import NamedTuple, record
from adderclaw.types import Json

Z = 1.959964
"""95 % of the normal distribution lie within so many standard deviations."""
LAST = "last"


@record
class Terms:
    """On which terms a bench runs: they hold when it goes on, too."""

    tasks: tuple[str, ...]
    digest: str
    version: str
    provider: str | None
    model: str | None
    config: str | None
    repeat: int = 1
    jobs: int = 1
    max_cost: float = 0.0
    """US dollars for all attempts together."""
    rounds: int = 0
    limits: dict[str, float] = field(default_factory=dict[str, float])
    """What one attempt may use up, as `--limit` calls it."""
    unpriced: bool = False
    """The model has no known price, and the user set no limit of the cost: none is enforced."""


@record
class Result:
    """One attempt at one task."""

    task: str
    kind: str
    attempt: int
    passed: bool
    counted: bool
    """False: the provider failed, somebody stopped it, or --max-cost left it too little. --resume tries again."""
    outcome: str
    reason: str
    failed: tuple[str, ...]
    """The checks that did not hold."""
    steps: int
    tool_calls: int
    tokens: int
    cost: float | None
    """US dollars; None where no price is known."""
    seconds: float
    run_id: str
    model: str
    workspace: str = ""


class Interval(NamedTuple):
    low: float
    high: float


def wilson(share: float, count: int) -> Interval:
    """The 95 % interval of a rate that was seen in `count` independent trials."""
    if count == 0:
        return Interval(0.0, 1.0)
    z2 = Z * Z / count
    middle = (share + z2 / 2) / (1 + z2)
    half = Z / (1 + z2) * math.sqrt(share * (1 - share) / count + z2 / (4 * count))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


class Board:
    """The file of one bench: its terms in the first line, then one line for each attempt, each written through."""

    def __init__(self, path: str, terms: Terms, results: list[Result]) -> None:
        self.path, self.terms, self.results = path, terms, results

    @property
    def bench_id(self) -> str:
        return os.path.basename(self.path).removesuffix(".jsonl")

    def add(self, result: Result) -> None:
        self.results.append(result)
        _append(self.path, asdict(result))

    def left(self) -> list[tuple[str, int]]:
        """Attempts that have no result yet, all first ones before all second ones."""
        done = {(one.task, one.attempt) for one in self.results if one.counted}
        every = [(name, number) for number in range(1, self.terms.repeat + 1) for name in self.terms.tasks]
        return [one for one in every if one not in done]

    def spent(self) -> float:
        return sum(one.cost or 0.0 for one in self.results)

    def summary(self) -> Json:
        counted = [one for one in self.results if one.counted]
        tried = sorted({one.task for one in counted})
        rates = [_share(one for one in counted if one.task == name) for name in tried]
        rate = sum(rates) / len(rates) if rates else 0.0
        interval = wilson(rate, len(rates))
        kinds = sorted({one.kind for one in counted})
        costs = [one.cost for one in self.results if one.cost is not None]
        return {
            "bench_id": self.bench_id,
            "adderclaw": self.terms.version,
            "tasks_digest": self.terms.digest,
            "provider": self.terms.provider,
            "model": next((one.model for one in counted if one.model), self.terms.model),
            "tasks": len(self.terms.tasks),
            "repeat": self.terms.repeat,
            "tried": len(tried),
            "attempts": len(counted),
            "passed": sum(one.passed for one in counted),
            "pass_rate": round(rate, 4),
            "interval_95": [round(interval.low, 4), round(interval.high, 4)],
            "always_passed": sum(rate == 1.0 for rate in rates),
            "left": len(self.left()),
            "by_kind": {kind: _count(one for one in counted if one.kind == kind) for kind in kinds},
            "steps": sum(one.steps for one in self.results),
            "tokens": sum(one.tokens for one in self.results),
            "cost": round(sum(costs), 6) if costs else None,
            "seconds": round(sum(one.seconds for one in self.results), 1),
            "results": [asdict(one) for one in self.latest()],
        }

    def latest(self) -> list[Result]:
        """Of each attempt the last that was made of it."""
        found = {(one.task, one.attempt): one for one in self.results}
        return [found[key] for key in sorted(found)]


def _share(results: Iterable[Result]) -> float:
    passed = [one.passed for one in results]
    return sum(passed) / len(passed)


def _count(results: Iterable[Result]) -> str:
    passed = [one.passed for one in results]
    return f"{sum(passed)}/{len(passed)}"


# ------------------------------------------------------------------ the file


def begin(folder: str, bench_id: str, terms: Terms) -> Board:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{bench_id}.jsonl")
    _append(path, {"terms": asdict(terms)})
    return Board(path, terms, [])


def resumed(folder: str, wanted: str) -> Board:
    """A bench that was begun before. Refuses one of other tasks: its figures would be of neither set."""
    there = sorted(_ids(folder))
    if wanted == LAST and there:
        wanted = there[-1]
    if wanted not in there:
        known = f"there is {', '.join(there[-5:])}" if there else "none was begun in this home"
        raise UsageError(f"--resume {wanted}: no bench of that name; {known}")
    board = read(os.path.join(folder, f"{wanted}.jsonl"))
    if board.terms.digest != catalogue.digest():
        raise UsageError(
            f"--resume {wanted}: it was begun with the tasks of AdderClaw {board.terms.version}, and this one "
            f"({__version__}) has others: begin a new one"
        )
    return board


def read(path: str) -> Board:
    """Lines that a crash cut off are left out: their attempts are made again."""
    with open(path, encoding="utf-8") as file:
        rows = [_parsed(line) for line in file]
    try:
        terms = decode(Terms, (rows[0] or {}).get("terms") if rows else None)
        results = [decode(Result, row) for row in rows[1:] if row is not None]
    except Invalid as error:
        raise AdderClawError(f"{path} is no bench of this version: {error}; begin a new one") from error
    return Board(path, terms, results)


def _ids(folder: str) -> Sequence[str]:
    try:
        return [name.removesuffix(".jsonl") for name in os.listdir(folder) if name.endswith(".jsonl")]
    except OSError:
        return []


def _parsed(line: str) -> Json | None:
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _append(path: str, row: Json) -> None:
    with open(path, "ab+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        cut = b"\n" if size and file.read(1) != b"\n" else b""  # a crash in the middle of a line
        file.write(cut + json.dumps(row).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
