"""What grows with use: long conversations, many conversations, large workspaces; versions in turn, as ratios.

`python bench/growth.py before=/path/to/adderclaw now=.venv/bin/adderclaw`; without them, the one beside this Python.
"""

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

CONFIG = """
workspace_dir = "{workspace}"
default_provider = "local"
[security]
autonomy = "full"
allowed_commands = ["touch"]
[runtime]
max_tool_rounds = 100000
[limits]
tool_calls = 100000
tokens = 1000000000


[providers.models.local]
kind = "mock"
model = "mock"
"""
IN_A_FOLDER = 20
WORD = "needle"


class Size(NamedTuple):
    files: int
    steps: int
    conversations: int
    notes: int


class Version:
    """An installed program with a home of its own."""

    def __init__(self, name: str, program: str, root: Path) -> None:
        self.name, self.program, self.root = name, os.path.abspath(program), root / name
        self.root.mkdir()
        self._homes = 0
        self._workspaces: dict[Path, str] = {}

    def home(self, workspace: Path) -> Path:
        self._homes += 1
        home = self.root / str(self._homes)
        (home / ".adderclaw").mkdir(parents=True)
        self._workspaces[home] = str(workspace)
        (home / ".adderclaw" / "config.toml").write_text(CONFIG.format(workspace=workspace))
        return home

    def run(self, home: Path, steps: Sequence[object], *more: str) -> float:
        """Seconds of one `agent -m` from its start to its end."""
        script = home / "script.json"
        text = json.dumps({"steps": [*steps, {"text": "done"}]})
        if not script.exists() or script.read_text() != text:  # runs of the same steps may be at work together
            script.write_text(text)
        env = {**os.environ, "HOME": str(home), "ADDERCLAW_HOME": f"{home}/.adderclaw"}
        env["ADDERCLAW_MOCK_FIXTURE"] = str(script)
        began = time.perf_counter()
        command = [self.program, "agent", "-m", "go", "--workspace", self._workspaces[home], *more]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        took = time.perf_counter() - began
        if done.returncode:
            sys.exit(f"{self.name}: {done.stderr[-2000:]}")
        return took

    def command(self, home: Path, *words: str) -> float:
        """Seconds of another command."""
        env = {**os.environ, "HOME": str(home), "ADDERCLAW_HOME": f"{home}/.adderclaw"}
        began = time.perf_counter()
        subprocess.run([self.program, *words], env=env, capture_output=True, check=True)
        return time.perf_counter() - began

    def calls(self, home: Path, steps: Sequence[object]) -> list[float]:
        """Seconds of each call of a run: from the reply that asks for it to the request that carries its result."""
        self.run(home, steps)
        last = max((home / ".adderclaw" / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)
        took: list[float] = []
        began: datetime | None = None
        for line in (last / "events.jsonl").read_text().splitlines():
            event: dict[str, Any] = json.loads(line)
            if event["event_type"] == "tool_requested":
                began = datetime.fromisoformat(event["timestamp"])
            elif event["event_type"] == "llm_request_sent" and began is not None:
                took.append((datetime.fromisoformat(event["timestamp"]) - began).total_seconds())
                began = None
        return took


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def plant(root: Path, files: int) -> None:
    for number in range(files):
        folder = root / f"{number // IN_A_FOLDER // 100}" / f"{number // IN_A_FOLDER % 100}"
        if number % IN_A_FOLDER == 0:
            folder.mkdir(parents=True)
        ending = "py" if number % 2 else "txt"
        (folder / f"{number % IN_A_FOLDER}.{ending}").write_text(f"{WORD if number % 1000 == 0 else 'line'}\n" * 3)


def alone(root: Path, *options: str) -> float:
    began = time.perf_counter()
    subprocess.run(["rg", "--hidden", *options], cwd=root, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


# ------------------------------------------------------------------ what is measured


def long_conversation(version: Version, small: Path, size: Size) -> Callable[[], dict[str, float]]:
    home = version.home(small)
    past: list[object] = [call("Glob", pattern=f"{number}.txt") for number in range(size.steps)]
    version.run(home, past)

    def measure() -> dict[str, float]:
        fresh = version.home(small)
        version.run(fresh, [])
        new = version.run(fresh, [])
        past.append({"text": "done"})  # the scripted model counts what it has answered
        return {f"resume after {size.steps:,} steps, × a new conversation": version.run(home, past, "--continue") / new}

    return measure


def many_conversations(version: Version, small: Path, size: Size) -> Callable[[], dict[str, float]]:
    home, one = version.home(small), version.home(small)
    version.run(one, [])
    for _ in range(size.conversations):
        version.run(home, [])
    key = f"start with {size.conversations:,} conversations, × with a few"
    return lambda: {key: version.run(home, []) / version.run(one, [])}


def many_notes(version: Version, small: Path, size: Size) -> Callable[[], dict[str, float]]:
    home, one = version.home(small), version.home(small)
    write = [call("MemoryWrite", key="a", value="b")] * 3
    for place in (home, one):
        version.run(place, write)
    with sqlite3.connect(home / ".adderclaw" / "memory.sqlite") as database:
        notes = ((f"kv:{n}", f"key {n}", f"content {n}") for n in range(size.notes))
        database.executemany("INSERT INTO memories VALUES (?,'kv',?,?,'','','','',1,1,1,1,0,0.5)", notes)
    key = f"MemoryWrite with {size.notes:,} notes, × with one"
    return lambda: {key: median(version.calls(home, write)) / median(version.calls(one, write))}


def many_receipts(version: Version, small: Path, size: Size) -> Callable[[], dict[str, float]]:
    home, one = version.home(small), version.home(small)
    version.run(one, [call("Glob", pattern="1")])
    version.run(home, [call("Glob", pattern=f"{number}") for number in range(size.steps)])

    def measure() -> dict[str, float]:
        of = f"with {size.steps:,} receipts, × with one"
        return {
            f"`receipt {word}` {of}": version.command(home, "receipt", word) / version.command(one, "receipt", word)
            for word in ("head", "list")
        }

    return measure


def large_workspace(version: Version, large: Path, size: Size) -> Callable[[], dict[str, float]]:
    touch = call("Bash", command="touch made.txt")
    finds = [call("Glob", pattern=pattern) for pattern in ("**/*", "**/*.py", "**/7.py")]

    def measure() -> dict[str, float]:
        home = version.home(large)
        first, *later = version.calls(home, [touch] * 6)
        _, search = version.calls(home, [touch, call("Grep", pattern=WORD)])
        every, half, few = version.calls(home, finds)
        searched, listed = alone(large, "-l", WORD), alone(large, "--files")
        of = f"in {size.files:,} files"
        return {
            f"first command {of}, s": first,
            f"later command {of}, ms": median(later) * 1000,
            f"Grep {of}, × ripgrep": search / searched,
            f"Glob `**/*` {of}, × `rg --files`": every / listed,
            f"Glob `**/*.py` {of}, × `rg --files`": half / listed,
            f"Glob `**/7.py` {of}, × `rg --files`": few / listed,
        }

    return measure


SMALL = (long_conversation, many_conversations, many_notes, many_receipts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="NAME=PROGRAM")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--conversations", type=int, default=400)
    parser.add_argument("--notes", type=int, default=100_000)
    given = parser.parse_args()
    programs: list[str] = given.programs or [f"now={Path(sys.executable).with_name('adderclaw')}"]
    size = Size(given.files, given.steps, given.conversations, given.notes)
    root = Path(tempfile.mkdtemp(prefix="adderclaw-growth-"))
    try:
        small, large = root / "small", root / "large"
        small.mkdir()
        plant(large, size.files)
        pairs = [program.partition("=") for program in programs]
        versions = [Version(name, path, root) for name, _, path in pairs]
        made = [(version, [make(version, small, size) for make in SMALL]) for version in versions]
        for version, measures in made:
            measures.append(large_workspace(version, large, size))
        found: dict[str, dict[str, list[float]]] = {}
        for _ in range(given.rounds):
            for version, measures in made:
                for measure in measures:
                    for key, value in measure().items():
                        found.setdefault(key, {}).setdefault(version.name, []).append(value)
        show(found, [version.name for version in versions], given.rounds)
    finally:
        shutil.rmtree(root)


def show(found: dict[str, dict[str, list[float]]], names: list[str], rounds: int) -> None:
    print(f"| | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for key, by_name in found.items():
        print(f"| {key} | {' | '.join(f'{median(by_name[name]):.2f}' for name in names)} |")
    load = os.getloadavg()[0]
    print(f"\n{rounds} rounds, the versions in turn, medians; load average {load:.0f} at the end.")


if __name__ == "__main__":
    main()
