"""Runs AdderClaw and other agents side by side with one scripted model, and writes the table in
docs/dev/benchmarks.md.

Each gets a home and a git workspace of its own, in a network namespace that has nothing but 127.0.0.1: no agent
reaches beyond. They take turns, so that whatever else the machine does falls on all of them. Needs root for that.

    scripts/install-peers            # pinned versions, into .cache/peers
    python bench/peers/run.py [--peers floor,adderclaw,goose] [--calls 10 100] [--rounds 3] [--keep]
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from agents import AGENTS, TASK, Agent, Place

from bench.measuring import Memory, Page, gaps, processor

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = Page(HERE / "results.json", ROOT / "docs" / "dev" / "benchmarks.md", "peers")
SECONDS = 600
NEW_NETWORK = 0x40000000
SUBREAPER = 36


class Run(NamedTuple):
    """One run of one agent."""

    first_request: float
    gaps: list[float]
    peak_mb: float
    first_body: int
    kept: float
    tools: int
    wall: float
    aside: int
    others: list[str]


def alone() -> None:
    """From now on this process and all that it starts see a network with 127.0.0.1 alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NETWORK) != 0:
        sys.exit("bench/peers/run.py needs root: a network namespace keeps the agents on this machine")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    libc.prctl(SUBREAPER, 1, 0, 0, 0)  # what an agent leaves behind comes to us


def measure(agent: Agent, place: Place, calls: int) -> Run:
    """Raises RuntimeError with what it printed, where the agent does not play the script to its end."""
    pipe = subprocess.PIPE
    model = subprocess.Popen([sys.executable, str(HERE / "model.py"), str(calls)], stdin=pipe, stdout=pipe, text=True)
    assert model.stdout
    place = place._replace(url=f"http://127.0.0.1:{model.stdout.readline().strip()}")
    agent.prepare(place)
    argv, env = agent.command(place), {**place.env, **agent.env(place)}
    printed = place.home / "printed"
    with printed.open("wb") as out:
        started = monotonic()
        process = subprocess.Popen(
            argv, env=env, cwd=place.work, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        memory = Memory(process.pid, every=0.1)
        try:
            code = process.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        wall = monotonic() - started
        peak = memory.stop()
    reap(model.pid)
    seen: dict[str, Any] = json.loads(model.communicate()[0])
    if code or seen["issued"] != calls or seen["lost"] or len(seen["received"]) != calls + 1:
        said = printed.read_text(errors="replace")[-1500:]
        raise RuntimeError(f"exit code {code}, {seen['issued']} of {calls} calls, lost {seen['lost'][:3]}\n{said}")
    kept = min(seen["kept"], default=100.0)
    first = seen["received"][0] - started
    return Run(first, gaps(seen), peak, seen["bodies"][0], kept, seen["tools"], wall, seen["aside"], seen["others"])


def reap(model: int) -> None:
    """End what an agent left running, which is ours to end: we are its sub-reaper."""
    for _ in range(100):
        mine = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        left = [int(pid) for pid in mine if int(pid) != model]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                pass
        sleep(0.02)


def new_place(folder: Path) -> Place:
    """A fresh home and a fresh git workspace."""
    home, work = folder / "home", folder / "work"
    (home / "tmp").mkdir(parents=True, mode=0o700)
    work.mkdir()
    (work / "README.md").write_text("# bench\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    script = "git init -q && git add -A && git -c user.name=b -c user.email=b@localhost commit -qm init"
    subprocess.run(script, shell=True, cwd=work, check=True, env=env)
    return Place(home, work, "")


def version(agent: Agent) -> str:
    """As the program itself says it; empty where it is not installed."""
    if agent.program is None:
        return sys.version.split()[0]
    if shutil.which(agent.program) is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        place = new_place(Path(folder))
        got = subprocess.run(
            [agent.program, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=120, env={**place.env, **agent.env(place)}, check=False,
        )  # fmt: skip
    found = re.search(r"\d+\.\d+\.\d+\S*", got.stdout + got.stderr)
    return found[0] if found else "?"


# ------------------------------------------------------------------ figures


class Spread(NamedTuple):
    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        return cls(min(values), median(values), max(values))


def figures(runs: dict[int, list[Run]]) -> dict[str, Any]:
    short, long = min(runs), max(runs)
    every = [run for some in runs.values() for run in some]
    steps = [(sum(b.gaps) - sum(a.gaps)) / (long - short) for a, b in zip(runs[short], runs[long], strict=True)]
    return {
        "first_request_ms": Spread.of([1000 * run.first_request for run in every]),
        "step_ms": Spread.of([1000 * one for one in steps]),
        "wall_s": Spread.of([run.wall for run in runs[long]]),
        "peak_mb": max(run.peak_mb for run in every),
        "first_body": every[0].first_body,
        "kept": min(run.kept for run in every),
        "tools": every[0].tools,
        "aside": max(run.aside for run in every),
        "others": sorted({one for run in every for one in run.others}),
    }


def table(results: dict[str, Any]) -> str:
    agents: dict[str, Any] = results["agents"]
    base = agents["floor"].get("figures")
    lines = [
        "| agent | version | first request, ms | × floor | per tool step, ms | × floor | peak memory, MB | tools "
        "| first body, KB | prompt prefix kept, % |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, one in agents.items():
        if "figures" not in one:
            lines.append(f"| {name} | {one['version'] or '–'} | {one['why']} | | | | | | | |")
            continue
        it = one["figures"]
        first, step = Spread(*it["first_request_ms"]), Spread(*it["step_ms"])
        times_first = first.middle / base["first_request_ms"][1]
        times_step = step.middle / base["step_ms"][1]
        lines.append(
            f"| {name} | {one['version']} | {first.middle:,.0f} ({first.low:,.0f}–{first.high:,.0f}) "
            f"| {times_first:.1f} "
            f"| {step.middle:.1f} ({step.low:.1f}–{step.high:.1f}) | {times_step:.1f} | {it['peak_mb']:.0f} "
            f"| {it['tools']} | {it['first_body'] / 1024:.0f} | {it['kept']:.0f} |"
        )
    what = results["machine"]
    calls = " and ".join(map(str, results["calls"]))
    measured = (
        f"Measured {results['when']}: {results['rounds']} rounds of N = {calls} tool calls, the agents in turn; "
        f"medians, with the lowest and the highest in brackets; of memory the highest seen. {what['cpu']}; load "
        f"average {what['before']} before and {what['after']} after, of which the agents are about one."
    )
    return "\n".join([*lines, "", *wrapped(measured)])


def wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 118)


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def played(chosen: list[Agent], calls: list[int], rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """What each agent cost; one that is missing or fails is named with the reason."""
    found: dict[str, Any] = {}
    runs: dict[str, dict[int, list[Run]]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-peers-", ignore_cleanup_errors=True) as folder:
        places: dict[str, Place] = {}
        for number, agent in enumerate(chosen):
            found[agent.name] = {"version": version(agent), "why": "not installed"}
            if not found[agent.name]["version"]:
                say(f"{agent.name}: not installed")
                continue
            places[agent.name] = new_place(Path(folder, str(number)))
            try:
                measure(agent, places[agent.name], 2)  # the first run in a home makes what later ones find
            except RuntimeError as error:
                found[agent.name]["why"] = "did not play the script"
                say(f"{agent.name} {found[agent.name]['version']}: {error}")
                continue
            runs[agent.name] = {one: [] for one in calls}
        for number in range(rounds):
            for count in calls:
                for agent in [one for one in chosen if one.name in runs]:
                    try:
                        run = measure(agent, places[agent.name], count)
                    except RuntimeError as error:
                        found[agent.name]["why"] = f"failed in round {number + 1}"
                        say(f"{agent.name}: {error}")
                        del runs[agent.name]
                        continue
                    runs[agent.name][count].append(run)
                    say(
                        f"round {number + 1}  N={count:<4} {agent.name:24} first {1000 * run.first_request:6.0f} ms, "
                        f"{1000 * median(run.gaps):6.1f} ms a step, {run.peak_mb:4.0f} MB"
                    )
    for name, some in runs.items():
        found[name] = {"version": found[name]["version"], "figures": figures(some)}
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--peers", default=",".join(agent.name for agent in AGENTS), help=f"of them; task: {TASK!r}")
    options.add_argument("--calls", type=int, nargs=2, default=[10, 100])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--keep", action="store_true", help="print only: leave results.json and the page as they are")
    chosen = options.parse_args()
    known = {agent.name: agent for agent in AGENTS}
    names = ["floor", *(name for name in chosen.peers.split(",") if name != "floor")]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no such agent: {', '.join(unknown)}; there is {', '.join(known)}")
    alone()
    before = load()
    agents = played([known[name] for name in names], chosen.calls, chosen.rounds, lambda line: print(line, flush=True))
    machine = {"cpu": f"{os.cpu_count()} × {processor()}", "before": before, "after": load()}
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    results = {"when": when, "rounds": chosen.rounds, "calls": chosen.calls, "machine": machine, "agents": agents}
    print("\n" + table(results))
    if not chosen.keep:
        PAGE.write(results, table(results))


if __name__ == "__main__":
    main()
