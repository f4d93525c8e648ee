"""A turn through `serve` on a kept-alive connection, as a ratio to the same turn over the server's Unix socket.

`python bench/turn.py before=/path/to/adderclaw now=.venv/bin/adderclaw`; without them, the one beside this Python. The
model answers at once, so that what is left is the server. A Unix socket holds nothing back: over TCP a turn takes about
the same time, unless packets wait. With several programs, each is also a ratio to the first.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.server import Server, opened, turn

WARM = 20
"""Turns before the measured ones: a new connection acknowledges its first packets at once."""
TURNS = 60
MOST = 2.0
"""The ratio to the Unix socket above which the program exits with 1."""


async def measured(server: Server) -> tuple[float, float]:
    """Milliseconds of a turn over TCP and over the Unix socket, in turn."""
    headers = {"Authorization": f"Bearer {server.token()}"}
    port = server.url.rpartition(":")[2]
    transports = (httpx2.AsyncHTTPTransport(), httpx2.AsyncHTTPTransport(uds=str(server.socket)))
    clients = [
        httpx2.AsyncClient(transport=one, base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60)
        for one in transports
    ]
    (id,) = await opened(clients[0], 1)
    for client in clients:
        for _ in range(WARM):
            await turn(client, id)
    pairs = [[await turn(client, id) for client in clients] for _ in range(TURNS)]
    for client in clients:
        await client.aclose()
    tcp, beside = (1000 * median(pair[side] for pair in pairs) for side in (0, 1))
    return tcp, beside


def main() -> None:
    programs = sys.argv[1:] or [f"now={Path(sys.executable).with_name('adderclaw')}"]
    rows: dict[str, dict[str, float]] = {}
    for name, _, program in (one.partition("=") for one in programs):
        with tempfile.TemporaryDirectory(prefix="adderclaw-bench-") as folder:
            server = Server(program, Path(folder), calls=0, turns=2 * (WARM + TURNS) + 1)
            try:
                tcp, beside = asyncio.run(measured(server))
            finally:
                server.process.terminate()
                server.process.wait(60)
        rows[name] = {"turn_ms": round(tcp, 2), "socket_ms": round(beside, 2), "ratio": round(tcp / beside, 2)}
        rows[name]["to_first"] = round(tcp / next(iter(rows.values()))["turn_ms"], 2)
        print(json.dumps({name: rows[name]}), flush=True)
    sys.exit(0 if [*rows.values()][-1]["ratio"] <= MOST else 1)


if __name__ == "__main__":
    main()
