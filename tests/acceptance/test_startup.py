"""What is imported on the way to the first request, and how much is sent there."""

import json
import os
import socket
import subprocess
import sys
from threading import Thread

from tests.acceptance.world import World

HEAVY_FOR_VERSION = {"asyncio", "httpx2", "httpcore2", "pydantic", "sqlite3", "typer", "json"}
HEAVY = {"pydantic", "rich", "prompt_toolkit", "yaml", "tomllib", "tomlkit", "httpx2", "anyio", "mcp", "tree_sitter"}
IMPORTTIME = [sys.executable, "-X", "importtime", "-c", "from adderclaw.channels.cli import main; main()"]


def imported(stderr: str) -> set[str]:
    """Top-level names in the output of `-X importtime`."""
    lines = (line for line in stderr.splitlines() if line.startswith("import time:"))
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


def test_version_imports_next_to_nothing(world: World) -> None:
    done = subprocess.run([*IMPORTTIME, "--version"], env=world.cli.env, capture_output=True, text=True)
    assert done.stdout == "adderclaw 0.1.0\n"
    assert not imported(done.stderr) & HEAVY_FOR_VERSION


def test_nothing_heavy_before_the_first_request(world: World) -> None:
    """The server kills the program when the request is there: what it had imported by then is on its stderr."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        world.configure(more=f'[providers.models.here]\nkind = "openai-compatible"\nbase_url = "{url}"\nmodel = "m"')
        world.cli("config", "validate")
        world.cli("tool", "list")  # the first start validates the configuration and keeps the result
        command = [*IMPORTTIME, "agent", "-m", "hi", "--provider", "here"]
        process = subprocess.Popen(command, env=world.cli.env, cwd=world.cli.cwd, stderr=subprocess.PIPE, text=True)
        bodies: list[bytes] = []

        def serve() -> None:
            connection, _ = server.accept()
            bodies.append(connection.recv(1 << 20))
            os.kill(process.pid, 9)
            connection.close()

        thread = Thread(target=serve)
        thread.start()
        _, stderr = process.communicate(timeout=90)
        thread.join()
    assert bodies[0].startswith(b"POST /v1/chat/completions")
    assert not imported(stderr) & HEAVY


def test_the_first_request_is_small_and_reaches_every_tool(world: World) -> None:
    listed = json.loads(world.cli("tool", "list", "--output-format", "json").out)
    names = {tool["name"] for tool in listed}
    expected = "Bash Read Write Edit LS Glob Grep Http Time MemorySearch MemoryRead MemoryWrite"
    assert names >= set(expected.split())
    offered = [tool for tool in listed if tool["usable"] and not tool["deferred"]]
    told = [{key: tool[key] for key in ("name", "description", "parameters")} for tool in offered]
    assert len(json.dumps(told, separators=(",", ":"))) < 7400
