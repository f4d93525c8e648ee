"""Many conversations in one server, with a model that answers at once: time of a step, memory, streams.

`python bench/server.py [--program .venv/bin/adderclaw] [--few 10] [--many 100] [--streams 1000]` starts a server with a
home of its own, talks to it over HTTP from this process, and prints a table. A turn is `CALLS` calls of Read and an
answer; a step is a turn's time, from the request with the message to the answer, divided by their number.
"""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import httpx2

CALLS = 9
ROUNDS = 5
"""Messages of each conversation that are measured."""
AT_ONCE = 100
"""Streams that are opened together."""
PACE = 8.0
"""Seconds between the messages of a paced conversation, each its own by half: people and models take longer."""
CONFIG = """
default_provider = "local"
[security]
autonomy = "full"
[runtime]
max_tool_rounds = 1000
[limits]
tool_calls = 100000
tokens = 1000000000
[providers.models.local]
kind = "mock"
model = "mock"
fixture = "{fixture}"
"""


class Steps(NamedTuple):
    """Milliseconds of a step."""

    median: float
    p95: float
    per_second: float
    cpu: float
    """Of the server's own processor time."""


class Server:
    """The installed program in a home of its own."""

    def __init__(self, program: str, root: Path, calls: int = CALLS, turns: int = ROUNDS * 5) -> None:
        home, workspace = root / "home", root / "workspace"
        workspace.mkdir()
        home.mkdir(mode=0o700)
        (workspace / "AGENTS.md").write_text("A project.\n")
        (workspace / "notes.txt").write_text("".join(f"line {number}\n" for number in range(1, CALLS + 1)))
        given = ({"file_path": "notes.txt", "offset": number, "limit": 1} for number in range(1, CALLS + 1))
        steps = [{"tool_calls": [{"name": "Read", "arguments": one}]} for one in given]
        turn = [*steps[:calls], {"text": "done"}]
        fixture = home / "script.json"
        fixture.write_text(json.dumps({"steps": turn * turns, "partial": True}))
        (home / "config.toml").write_text(CONFIG.format(fixture=fixture))
        self._env = {**os.environ, "HOME": str(root), "ADDERCLAW_HOME": str(home), "ADDERCLAW_LOG": ""}
        self._program = os.path.abspath(program)
        self.socket = home / "socket"
        command = [self._program, "serve", "--port", "0", "--socket", str(self.socket), "--workspace", str(workspace)]
        self.process = subprocess.Popen(command, env=self._env, stderr=subprocess.PIPE, cwd=workspace)
        assert self.process.stderr is not None
        self.url = ""
        while not self.url:
            line = self.process.stderr.readline().decode()
            assert line, f"the server did not start: {self.process.wait()}"
            found = re.search(r"http://\S+", line)
            self.url = found[0] if found else ""

    def token(self) -> str:
        command = [self._program, "token", "create", "bench", "--scope", "admin", "--output-format", "json"]
        return str(json.loads(subprocess.run(command, env=self._env, check=True, capture_output=True).stdout)["token"])

    def used(self) -> float:
        """Seconds of processor time of the server itself."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> tuple[float, float, int]:
        """MB of the server, MB of all processes that it started (shared pages by share), and their number."""
        pids, at = [self.process.pid], 0
        while at < len(pids):
            for task in Path(f"/proc/{pids[at]}/task").glob("*/children"):
                pids += [int(child) for child in task.read_text().split()]
            at += 1
        sizes = [_pss(pid) for pid in pids]
        return sizes[0], sum(sizes[1:]), len(pids) - 1


def _pss(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


async def opened(client: httpx2.AsyncClient, count: int) -> list[str]:
    """Conversations that have had a turn each."""
    ids: list[str] = []
    for _ in range(count):
        answer = await client.post("/conversations", json={})
        assert answer.status_code == 201, answer.text
        ids.append(answer.json()["id"])
        await turn(client, ids[-1])
    return ids


async def turn(client: httpx2.AsyncClient, id: str) -> float:
    """Seconds of one turn."""
    began = time.monotonic()
    sent = await client.post(f"/conversations/{id}/messages", json={"text": "go"})
    assert sent.status_code == 202, sent.text
    ended: dict[str, str | None] = {"outcome": None}
    while ended["outcome"] is None:
        ended = (await client.get(f"/conversations/{id}/turns/{sent.json()['turn']}")).json()
    assert ended["outcome"] == "completed", ended
    return time.monotonic() - began


async def steps(server: Server, client: httpx2.AsyncClient, ids: list[str], pace: float) -> Steps:
    chance = random.Random(1)

    async def talk(id: str) -> list[float]:
        await asyncio.sleep(chance.random() * pace)
        taken: list[float] = []
        for _ in range(ROUNDS):
            taken.append(await turn(client, id))
            await asyncio.sleep(max(0.0, pace * (0.75 + chance.random() / 2) - taken[-1]))
        return taken

    began, used = time.monotonic(), server.used()
    turns = [taken for each in await asyncio.gather(*map(talk, ids)) for taken in each]
    each = sorted(1000 * taken / (CALLS + 1) for taken in turns)
    count, whole = len(turns) * (CALLS + 1), time.monotonic() - began
    return Steps(median(each), quantiles(each, n=20)[-1], count / whole, 1000 * (server.used() - used) / count)


async def streamed(client: httpx2.AsyncClient, ids: list[str], count: int) -> tuple[float, float]:
    """Seconds until all streams stand, and until the last of them has heard of the end of a turn."""
    standing, heard = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def follow(number: int) -> None:
        path = f"/conversations/{ids[number % len(ids)]}/events"
        async with client.stream("GET", path, timeout=None) as answer:
            assert answer.status_code == 200, await answer.aread()
            standing.release()
            async for line in answer.aiter_lines():
                if line == "event: ended":
                    heard.release()
                    return

    began = time.monotonic()
    following: list[asyncio.Task[None]] = []
    for number in range(count):
        following.append(asyncio.create_task(follow(number)))
        if len(following) % AT_ONCE == 0 or len(following) == count:  # a server has room for 512 who showed no token
            async with asyncio.timeout(60):
                for _ in range(len(following) % AT_ONCE or AT_ONCE):
                    await standing.acquire()
    stood = time.monotonic() - began
    began = time.monotonic()
    await asyncio.gather(*(turn(client, id) for id in ids))
    async with asyncio.timeout(120):
        for _ in range(count):
            await heard.acquire()
    ended = time.monotonic() - began
    await asyncio.gather(*following)
    return stood, ended


async def measured(server: Server, few: int, many: int, streams: int) -> list[tuple[str, str]]:
    limits = httpx2.Limits(max_connections=streams + many + 10, max_keepalive_connections=many + 10)
    headers = {"Authorization": f"Bearer {server.token()}"}
    rows: list[tuple[str, str]] = []
    async with httpx2.AsyncClient(
        base_url=server.url, headers=headers, limits=limits, timeout=600, trust_env=False
    ) as client:
        first = await opened(client, few)
        before = server.memory()
        paced = [await steps(server, client, first, PACE)]
        at_once = [await steps(server, client, first, 0)]
        rest = await opened(client, many - few)
        after = server.memory()
        paced.append(await steps(server, client, [*first, *rest], PACE))
        at_once.append(await steps(server, client, [*first, *rest], 0))
        for name, (little, much) in (("paced", paced), ("all at once", at_once)):
            rows.append(
                (f"step, {name}, {few} conversations: median, p95", f"{little.median:.1f}, {little.p95:.1f} ms")
            )
            rows.append((f"step, {name}, {many} conversations: median, p95", f"{much.median:.1f}, {much.p95:.1f} ms"))
            rows.append((f"p95, {name}, {many} against {few}", f"{much.p95 / little.p95:.2f} ×"))
            cost = f"{little.cpu:.2f}, {much.cpu:.2f} ms: {much.cpu / little.cpu:.2f} ×"
            rows.append((f"processor time of a step, {name}, {few} and {many}", cost))
            rows.append(
                (f"steps in a second, {name}, {few} and {many}", f"{little.per_second:.0f}, {much.per_second:.0f}")
            )
        own, others = (1024 * (after[at] - before[at]) / (many - few) for at in (0, 1))
        rows.append(("memory of an idle conversation: in the server, in its sandbox", f"{own:.0f}, {others:.0f} KB"))
        rows.append((f"processes beside the server, {many} conversations", str(after[2])))
        before = server.memory()
        stood, ended = await streamed(client, first, streams)
        rows.append((f"{streams:,} streams: opened, heard of the end of a turn", f"{stood:.1f} s, {ended:.1f} s"))
        rows.append(("server's memory before, after them", f"{before[0]:.0f}, {server.memory()[0]:.0f} MB"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(Path(sys.executable).with_name("adderclaw")))
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--many", type=int, default=100)
    parser.add_argument("--streams", type=int, default=1_000)
    given: Any = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="adderclaw-bench-") as folder:
        server = Server(given.program, Path(folder))
        try:
            rows = asyncio.run(measured(server, given.few, given.many, given.streams))
        finally:
            server.process.terminate()
            server.process.wait(60)
    for name, figure in rows:
        print(f"| {name} | {figure} |")


if __name__ == "__main__":
    main()
