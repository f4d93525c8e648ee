"""Measures file checkpoints on a tree of 10,000 files, as multiples of a bare walk with `stat` over the same tree."""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from adderclaw.config.own_paths import OwnPaths
from adderclaw.config.schema import Checkpoints
from adderclaw.sandbox.legacy.checkpoints.tracker import Tracker, Who, limits_of
from adderclaw.storage import Store

FILES, FOLDERS, BYTES, ROUNDS = 10_000, 100, 2_000, 7


def planted(root: Path) -> None:
    for folder in range(FOLDERS):
        place = root / f"d{folder}"
        place.mkdir(parents=True)
        for number in range(FILES // FOLDERS):
            (place / f"f{number}.txt").write_bytes(f"{folder} {number}\n".encode() * (BYTES // 8))


def walked(root: Path) -> float:
    began = perf_counter()
    waiting = [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return perf_counter() - began


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    began = perf_counter()
    await work()
    return perf_counter() - began


async def call(tracker: Tracker, root: Path, *, anything: bool) -> None:
    who = Who("c", "s", "Bash", "t")
    watch = await tracker.begin(who, ("c", "s", 0), [str(root / "d0/f0.txt")], [str(root)], anything=anything)
    if watch is not None:
        await tracker.end(watch, {})


async def measured(folder: Path) -> dict[str, float]:
    root = folder / "work"
    planted(root)
    store = Store.open(str(folder / "memory.sqlite"))
    limits = limits_of(Checkpoints())
    own = OwnPaths(str(folder / "home"), frozenset(), str(root / "runs"))
    floor = median(walked(root) for _ in range(ROUNDS))
    tracker = Tracker(store, own, str(root), limits, print)
    first = await timed(lambda: call(tracker, root, anything=True))
    later = median([await timed(lambda: call(tracker, root, anything=True)) for _ in range(ROUNDS)])
    named = median([await timed(lambda: call(tracker, root, anything=False)) for _ in range(ROUNDS)])
    tracker.close()
    again = Tracker(store, own, str(root), limits, print)
    next_session = await timed(lambda: call(again, root, anything=True))
    again.close()
    store.close()
    return {
        "bare walk with stat": floor,
        "first call that may write anywhere": first,
        "each later one (before and after)": later,
        "first one of the next session": next_session,
        "call that names its file": named,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measured(Path(folder)))
    floor = found["bare walk with stat"]
    print(f"{FILES:,} files in {FOLDERS} folders, {BYTES:,} bytes each\n")
    print("| | ms | × bare walk |\n|---|---:|---:|")
    for name, seconds in found.items():
        print(f"| {name} | {seconds * 1000:.1f} | {seconds / floor:.2f} |")


if __name__ == "__main__":
    main()
