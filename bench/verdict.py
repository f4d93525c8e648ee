"""What the gate's verdict of a Bash call costs: facts, plan and judgement, beside a bare parse and a bare process."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from adderclaw import policy as gate
from adderclaw.config.schema import Config, Security
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Workspace
from adderclaw.policy.case import Case
from adderclaw.tools import shell
from adderclaw.tools.shell import BashArguments

USUAL = (
    "ls -la",
    "git status --short",
    "git diff --stat HEAD~1 && git log -3 --oneline",
    "cat src/app.py | head -50",
    "grep -rn 'def main' src --include='*.py' | head -20",
    "cd src && python3 -m pytest -q tests/test_app.py",
    "npm run build 2>&1 | tail -20",
    "for f in src/*.py; do echo $f; head -n 3 $f; done",
    "if [ -f package.json ]; then npm test; else pytest -q; fi",
    "cat > notes.md <<'EOF'\n# Notes\n- one\n- two\nEOF",
    "git commit -m \"$(cat <<'EOF'\nFix the parser\n\nIt read one line too many.\nEOF\n)\"",
    "FOO=bar CI=1 pytest -q -k parse",
    "find src -name '*.py' | xargs wc -l",
    "bash -c 'ls src && git status'",
)
LIMIT_MS = 1.0


def best(work: "object", rounds: int) -> float:
    """Milliseconds of the fastest of some rounds."""
    assert callable(work)
    found = float("inf")
    for _ in range(rounds):
        began = perf_counter()
        work()
        found = min(found, perf_counter() - began)
    return found * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as top:
        root = Path(os.path.realpath(top)) / "ws"
        (root / "src").mkdir(parents=True)
        for name in ("src/app.py", "src/util.py", "package.json"):
            (root / name).write_text("x\n")
        policy = gate.policy_of(Config(security=Security(autonomy="supervised")), str(root), f"{top}/home")
        context = ToolContext("c", "s", Workspace(str(root)))

        def verdict(command: str) -> gate.Decision:
            touch = shell.prepare(BashArguments(command=command), context).touch
            return gate.judge(Case("Bash", "Bash", {"command": command}, touch, policy))

        spawn = best(lambda: subprocess.run(["/bin/true"], check=True), 40)
        rows = {command: best(lambda command=command: verdict(command), 200) for command in USUAL}
    slowest = max(rows, key=lambda command: rows[command])
    middle = sorted(rows.values())[len(rows) // 2]
    found = {
        "commands": {command: round(ms, 3) for command, ms in rows.items()},
        "median_ms": round(middle, 3),
        "slowest_ms": round(rows[slowest], 3),
        "slowest": slowest,
        "over_the_limit": [command for command, ms in rows.items() if ms >= LIMIT_MS],
        "spawn_of_true_ms": round(spawn, 3),
        "ratio_to_spawn": round(middle / spawn, 2),
    }
    print(json.dumps(found, indent=1))
    sys.exit(0 if middle < LIMIT_MS else 1)


if __name__ == "__main__":
    main()
