"""60 conversations in one folder: the rows and bytes that each call leaves, for each program and as a ratio.

`python bench/folder.py before=/path/to/adderclaw now=.venv/bin/adderclaw`; without them, the one beside this Python. A
conversation makes three files, each with one command; eight are at work at once. What a call leaves should not depend
on how many conversations there were: the last lines have the ratio to ten.
"""

import argparse
import sqlite3
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.growth import Version, call
from bench.measuring import versions

CALLS = 3
FEW = 10
AT_ONCE = 8


class Left(NamedTuple):
    """What each call left in the home."""

    rows: float
    bytes: float


def left(version: Version, folder: Path, conversations: int) -> Left:
    folder.mkdir()
    home = version.home(folder)
    steps = [call("Bash", command="mktemp made-XXXXXXXX")] * CALLS
    version.run(home, steps)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for running in [pool.submit(version.run, home, steps) for _ in range(conversations - 1)]:
            running.result()
    made = len(list(folder.glob("made-*")))
    assert made == conversations * CALLS, f"{made} files were made"
    own = home / ".adderclaw"
    size = sum(file.stat().st_size for file in own.rglob("*") if file.is_file() and not file.is_symlink())
    return Left(rows(own / "memory.sqlite") / made, size / made)


def rows(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        listed = database.execute(
            "SELECT name FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        return sum(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in listed.fetchall())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="NAME=PROGRAM")
    parser.add_argument("--conversations", type=int, default=60)
    given = parser.parse_args()
    found: dict[str, tuple[Left, Left]] = {}
    with tempfile.TemporaryDirectory(prefix="adderclaw-bench-") as folder:
        root = Path(folder)
        for name, program in versions(given.programs).items():
            version = Version(name, program, root)
            few = left(version, root / f"{name}-few", FEW)
            found[name] = few, left(version, root / f"{name}-many", given.conversations)
    print(f"| {given.conversations} conversations in one folder | {' | '.join(found)} |\n|---|{'---:|' * len(found)}")
    first = next(iter(found.values()))[1]
    for what in Left._fields:
        print(f"| {what} of a call | {' | '.join(f'{getattr(many, what):,.1f}' for _, many in found.values())} |")
        ratios = (getattr(many, what) / getattr(first, what) for _, many in found.values())
        print(f"| × the first program | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")
        ratios = (getattr(many, what) / getattr(few, what) for few, many in found.values())
        print(f"| × {FEW} conversations | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")


if __name__ == "__main__":
    main()
