"""Counts the denials of harmless commands in `supervised`, by reason, in bubblewrap and without a sandbox.

The commands are all harmless lists of tests/policy, judged as `tests/policy/test_corpus.py` judges them: nothing runs.
The figures of docs/security.md are what this prints.
"""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def counted(*, sandboxed: bool) -> Counter[str]:
    """How many commands there are, are allowed and are denied for each reason, by those words."""
    from tests.policy.test_corpus import EVERY_HARMLESS, World, said, sections

    found: Counter[str] = Counter()
    kept = {name: os.environ.get(name, "") for name in ("HOME", "PATH")}
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder).resolve())
        os.environ |= {"HOME": str(world.home), "PATH": str(world.bin)}
        try:
            commands = [command for name in EVERY_HARMLESS for _, listed in sections(name) for command in listed]
            decided = said(commands, world, "supervised", sandboxed=sandboxed)
            for decision in map(decided.__getitem__, commands):
                found["all"] += 1
                found[decision.verdict] += 1
                found[decision.denial or ""] += 1
        finally:
            os.environ |= kept
    return found


def line(name: str, found: Counter[str]) -> str:
    from tests.policy.test_corpus import REASONS

    reasons = ", ".join(f"{reason} {count}" for reason, count in found.most_common() if reason in REASONS)
    share = f"{found['deny'] / found['all']:.1%}".replace("%", " %")
    runs = f"; {found['allow']:,} run without a question" if found["allow"] else ""
    return f"{name}: {found['deny']} of {found['all']:,} ({share}): {reasons}{runs}"


def main() -> int:
    sys.path.insert(0, str(ROOT))
    for name, sandboxed in (("bubblewrap", True), ("none", False)):
        print(line(name, counted(sandboxed=sandboxed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
