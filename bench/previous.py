"""Runs the benches that compare programs with another commit and this one: `python bench/previous.py [--against REV]`.

The other commit (default: the one before) is checked out into a temporary git worktree and run with this environment's
libraries; `--only stream` runs one bench.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCHES = ("stream", "folder", "turn")
RUNS = "import sys; sys.argv[0] = 'adderclaw'; from adderclaw.terminal.entry import main; sys.exit(main())"


def program(tree: Path, place: Path) -> Path:
    """Something to start that runs the source of a worktree."""
    place.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(tree / "src"))} exec {sys.executable} -c {shlex.quote(RUNS)} "$@"\n'
    )
    place.chmod(0o700)
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default="HEAD~1", metavar="REV")
    parser.add_argument("--only", choices=BENCHES)
    given = parser.parse_args()
    now = Path(sys.executable).with_name("adderclaw")
    git = ["git", "-C", str(HERE)]
    with tempfile.TemporaryDirectory(prefix="adderclaw-bench-") as folder:
        tree = Path(folder, "tree")
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), given.against], check=True)
        try:
            before = program(tree, Path(folder, "adderclaw"))
            for name in [given.only] if given.only else BENCHES:
                if (HERE / f"{name}.py").exists():
                    subprocess.run(
                        [sys.executable, str(HERE / f"{name}.py"), f"before={before}", f"now={now}"], check=True
                    )
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


if __name__ == "__main__":
    main()
