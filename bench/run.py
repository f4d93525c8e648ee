"""Measures what AdderClaw costs beside its model, as multiples of a standard-library loop in the same run.

Both play the same script (`model.py`) in turn, so that whatever else the machine does falls on both.
"""

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.measuring import CONFIG, Memory, Page, gaps, processor

HERE = Path(__file__).resolve().parent
PROGRAM = Path(sys.executable).with_name("adderclaw")
TASK = "Run the commands that you are asked to run."
RUNS = "echo turn-{}"
PAGE = Page(HERE / "results.json", HERE.parent / "docs" / "dev" / "performance.md", "bench")


class Run(NamedTuple):
    """One run of one program."""

    first_request: float
    gaps: list[float]
    peak_mb: float
    first_body: int
    prefix_kept: float
    tools: int
    wall: float


class Place(NamedTuple):
    """A home, a workspace and a port of a program's own, used again by all its runs."""

    home: Path
    work: Path
    port: int

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": os.defpath, "HOME": str(self.home), "LANG": "C.UTF-8", "BENCH_KEY": "none"}


type Command = Callable[[Place], list[str]]


def floor(place: Place) -> list[str]:
    return [sys.executable, str(HERE / "floor.py"), str(place.port), TASK]


def adderclaw(*options: str, edited: bool = False) -> Command:
    """`edited`: the config file has changed since the last run, so that nothing kept of it can be used."""

    def command(place: Place) -> list[str]:
        config = place.home / ".adderclaw" / "config.toml"
        config.parent.mkdir(mode=0o700, exist_ok=True)
        text = CONFIG.format(work=place.work, url=f"http://127.0.0.1:{place.port}", key="BENCH_KEY")
        config.write_text(f"{text}# edited {monotonic()}\n" if edited else text)
        return [str(PROGRAM), "agent", *options, "-m", TASK]

    return command


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def measure(command: Command, place: Place, calls: int, runs: str = RUNS) -> Run:
    """`runs` is what the model asks for, again and again: `{}` in it is the number of the call."""
    pipe = subprocess.PIPE
    script = [sys.executable, str(HERE / "model.py"), str(calls), str(place.port), runs]
    model = subprocess.Popen(script, stdin=pipe, stdout=pipe, text=True)
    assert model.stdout
    model.stdout.readline()
    argv = command(place)
    started = monotonic()
    process = subprocess.Popen(argv, env=place.env, cwd=place.work, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    memory = Memory(process.pid, every=0.03)
    out, err = process.communicate(timeout=600)
    wall = monotonic() - started
    peak = memory.stop()
    seen: dict[str, Any] = json.loads(model.communicate()[0])
    answered = len(seen["answered"]) == calls + 1 and not seen["lost"] and out.strip() == b"done"
    if process.returncode or not answered:
        sys.exit(f"{argv} did not play {calls} calls (exit code {process.returncode}):\n{(out + err)[-3000:].decode()}")
    kept = min(seen["kept"], default=100.0)
    return Run(seen["received"][0] - started, gaps(seen), peak, seen["bodies"][0], kept, seen["tools"], wall)


# ------------------------------------------------------------------ figures


class Figures(NamedTuple):
    """What a program cost, over all its runs."""

    first_request_ms: float
    step_ms: float
    first_ten_ms: float
    last_ten_ms: float
    growth_ms: float
    peak_mb: float
    first_body: int
    prefix_kept: float
    tools: int
    wall_s: float


def figures(runs: dict[int, list[Run]]) -> Figures:
    short, long = sorted(runs)[-2:]
    slopes = [(sum(b.gaps) - sum(a.gaps)) / (long - short) for a, b in zip(runs[short], runs[long], strict=True)]
    first = median(median(run.gaps[:10]) for run in runs[long])
    last = median(median(run.gaps[-10:]) for run in runs[long])
    every = [run for some in runs.values() for run in some]
    return Figures(
        first_request_ms=1000 * median(run.first_request for run in every),
        step_ms=1000 * median(slopes),
        first_ten_ms=1000 * first,
        last_ten_ms=1000 * last,
        growth_ms=1000 * (last - first),
        peak_mb=max(run.peak_mb for run in every),
        first_body=every[0].first_body,
        prefix_kept=min(run.prefix_kept for run in every),
        tools=every[0].tools,
        wall_s=median(run.wall for run in runs[long]),
    )


def machine() -> dict[str, str]:
    return {
        "cpu": f"{os.cpu_count()} × {processor()}",
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "niceness": str(os.nice(0)),
    }


def table(results: dict[str, Any]) -> str:
    base = Figures(**results["programs"]["floor"])
    lines = [
        "| | first request, ms | per tool step, ms | first ten, ms | last ten, ms | growth, ms | peak memory, MB "
        "| first body, bytes | prompt prefix kept, % |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, values in results["programs"].items():
        it = Figures(**values)
        times = f"{it.first_request_ms:.0f} | {it.step_ms:.2f} | {it.first_ten_ms:.2f} | {it.last_ten_ms:.2f}"
        lines.append(
            f"| {name} | {times} | {it.growth_ms:.2f} | {it.peak_mb:.0f} | {it.first_body:,} | {it.prefix_kept:.1f} |"
        )
        if it != base:
            growth = f"{max(0.0, it.growth_ms) / base.growth_ms:.2f}" if base.growth_ms > 0 else "–"
            first, step = it.first_request_ms / base.first_request_ms, it.step_ms / base.step_ms
            lines.append(f"| **× floor** | **{first:.2f}** | **{step:.2f}** | | | **{growth}** | | | |")
    what = results["machine"]
    calls = ", ".join(map(str, results["calls"]))
    lines += ["", ""]
    measured = (
        f"Measured {results['when']}: {results['rounds']} rounds of N = {calls} tool calls, the programs in turn; "
        f"medians, but of memory the highest seen. {what['cpu']}, {what['system']}, Python {what['python']}; "
        f"load average {what['load']} before the run, niceness {what['niceness']}."
    )
    return "\n".join(lines) + textwrap.fill(measured, 118)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--calls", type=int, nargs="+", default=[1, 10, 200])
    options.add_argument("--command", default=RUNS, help="what each call runs; it has to print turn-{}, its number")
    options.add_argument("--keep", action="store_true", help="print only: leave results.json and the page as they are")
    chosen = options.parse_args()
    programs: dict[str, Command] = {
        "floor": floor,
        "adderclaw": adderclaw(),
        "adderclaw, config just edited": adderclaw(edited=True),
        "adderclaw, no sandbox": adderclaw("--profile", "permissive"),
    }
    about = machine()
    runs: dict[str, dict[int, list[Run]]] = {name: {calls: [] for calls in chosen.calls} for name in programs}
    with tempfile.TemporaryDirectory(prefix="adderclaw-bench-") as folder:
        places = {
            name: Place(Path(folder, f"home{i}"), Path(folder, f"work{i}"), free_port())
            for i, name in enumerate(programs)
        }
        for name, place in places.items():
            place.home.mkdir(mode=0o700)
            place.work.mkdir()
            measure(programs[name], place, 1, chosen.command)
        for number in range(chosen.rounds):
            for calls in chosen.calls:
                for name, command in programs.items():
                    run = measure(command, places[name], calls, chosen.command)
                    runs[name][calls].append(run)
                    steps = f"{1000 * median(run.gaps):6.2f} ms a step, {run.peak_mb:4.0f} MB"
                    start = f"first request {1000 * run.first_request:5.0f} ms"
                    print(f"round {number + 1}  N={calls:<4} {name:30} {start}, {steps}", flush=True)
    results: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "rounds": chosen.rounds,
        "calls": chosen.calls,
        "machine": about,
        "programs": {name: figures(some)._asdict() for name, some in runs.items()},
    }
    print("\n" + table(results))
    if not chosen.keep:
        PAGE.write(results, table(results))


if __name__ == "__main__":
    main()
