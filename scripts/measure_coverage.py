"""Measure which lines of the core modules the tests run, children included; fails where a module has too few.

.venv/bin/python scripts/measure_coverage.py [pytest's arguments]
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = 85.0
"""Per cent of the lines of each module."""
CORE = {
    "runtime": (
        *("flows/task", "agent/run/skills.py"),
        *(f"storage/telemetry/{name}.py" for name in ("console", "jsonl", "log")),
    ),
    "llm": ("models/providers",),
    "skills": ("tools/skills",),
}
"""The parts that seed 002 names, by where they are here."""
ACCEPTANCE = (
    *("tasks", "replay_tasks", "skills", "resume", "auth", "wire_anthropic", "wire_gemini", "wire_openai"),
    *("slash", "claude_folder", "plugins", "messages"),  # skills that are called by name; the log as JSON
)
TESTS = (
    *("tests/tools/skills", "tests/flows/test_task.py", "tests/models/providers", "tests/storage/telemetry"),
    *(f"tests/acceptance/test_{name}.py" for name in ACCEPTANCE),
)


def measured(folder: str, arguments: list[str]) -> dict[str, tuple[int, int]]:
    """Module → lines that ran, and lines that could; from a run of the tests."""
    env = {**os.environ, "COVERAGE_FILE": f"{folder}/data", "COVERAGE_RCFILE": str(ROOT / "pyproject.toml")}
    coverage = [sys.executable, "-m", "coverage"]
    tests = [*arguments] if any(not one.startswith("-") for one in arguments) else [*TESTS, *arguments]
    done = subprocess.run([*coverage, "run", "-m", "pytest", "-n", "2", *tests], cwd=ROOT, env=env, check=False)
    if done.returncode > 1:
        sys.exit(done.returncode)
    if done.returncode:
        print("some tests failed while they were measured: whether they hold, `make test` says\n", file=sys.stderr)
    subprocess.run([*coverage, "combine", "-q", folder], cwd=ROOT, env=env, check=True)
    subprocess.run([*coverage, "json", "-q", "-o", f"{folder}/all.json"], cwd=ROOT, env=env, check=True)
    files = json.loads(Path(folder, "all.json").read_text())["files"]
    found = {str(Path(name)): one["summary"] for name, one in files.items()}
    return {name: (one["covered_lines"], one["num_statements"]) for name, one in found.items()}


def modules(part: str) -> list[str]:
    """The modules of a part that have something to run, whether a test imports them or not."""
    places = [ROOT / "src" / "adderclaw" / place for place in CORE[part]]
    found = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    return [str(file.relative_to(ROOT)) for file in found]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = measured(folder, sys.argv[1:])
    below = 0
    for part in CORE:
        rows = [(name, *lines.get(name, (0, 1))) for name in modules(part)]
        rows = [row for row in rows if row[2]]
        for name, ran, could in rows:
            below += (short := ran * 100 < LEAST * could)
            print(f"{ran * 100 / could:6.1f} %  {name}{'  <- too few' if short else ''}")
        ran, could = sum(row[1] for row in rows), sum(row[2] for row in rows)
        print(f"{ran * 100 / could:6.1f} %  of {part}: {ran:,} of {could:,} lines\n")
    if below:
        sys.exit(f"{below} modules are below {LEAST:g} %")


if __name__ == "__main__":
    main()
