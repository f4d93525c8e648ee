"""What both benches share: a served script, how much of a prompt comes again, memory of processes, the page."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

CONFIG = """\
workspace_dir = "{work}"
default_provider = "bench"
[security]
autonomy = "full"
[runtime]
max_tool_rounds = 100000
[providers.models.bench]
kind = "openai-compatible"
base_url = "{url}/v1"
model = "scripted"
api_key_env = "{key}"
"""
"""AdderClaw's settings for a run."""


class Seen(Protocol):
    def seen(self) -> dict[str, Any]: ...


def serve(script: Seen, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
    """Print the port, serve until stdin closes, then print what the script saw as JSON."""
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    print(json.dumps(script.seen()), flush=True)


class Prompts:
    """How much of each prompt, in the order in which a provider reads it, the next one repeats."""

    def __init__(self) -> None:
        self.kept: list[float] = []
        self._last = ""

    def add(self, prompt: str) -> None:
        before, self._last = self._last, prompt
        if before:
            self.kept.append(100 * _shared(before, prompt) / len(before))


def _shared(one: str, other: str) -> int:
    if other.startswith(one):
        return len(one)
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def gaps(seen: dict[str, Any]) -> list[float]:
    """Seconds from each answer to the next request."""
    times = zip(seen["received"], seen["answered"], strict=False)
    return [after[0] - before[1] for before, after in pairwise(times)]


class Memory:
    """Samples the proportional set size of a process and its children, and keeps the highest sum."""

    def __init__(self, pid: int, every: float) -> None:
        self._pid, self._every, self._peak, self._over = pid, every, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        self._over.set()
        self._thread.join()
        return self._peak / 1024

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            self._peak = max(self._peak, tree(self._pid))


def tree(pid: int, parents: bytes = b"") -> int:
    """KB of a process and all below it."""
    folder = Path(f"/proc/{pid}")
    try:
        command = (folder / "cmdline").read_bytes()
        lines = (folder / "smaps_rollup").read_text().splitlines()
        children = [one for task in (folder / "task").iterdir() for one in (task / "children").read_text().split()]
    except OSError:
        return 0
    if command == parents:  # between vfork and exec a child has its parent's memory, which is counted already
        return 0
    own = next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return own + sum(tree(int(child), command) for child in children)


class Page(NamedTuple):
    """Where the results are kept, and the page whose table is between two marks."""

    results: Path
    page: Path
    mark: str

    def write(self, results: dict[str, Any], table: str) -> None:
        self.results.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        begin, end = f"<!-- {self.mark}: begin -->", f"<!-- {self.mark}: end -->"
        head, rest = self.page.read_text(encoding="utf-8").split(begin)
        self.page.write_text(f"{head}{begin}\n{table}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "an unknown processor")


def versions(given: list[str]) -> dict[str, str]:
    """Programs to compare, from `NAME=PROGRAM`; without any, the one beside this Python."""
    pairs = [one.partition("=") for one in given]
    return {name: program for name, _, program in pairs} or {"now": str(Path(sys.executable).with_name("adderclaw"))}
