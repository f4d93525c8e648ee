"""What is imported on the way to the first request, and how much is sent there."""

import json
import os
import socket
import subprocess
import sys
from threading import Thread

import pytest

from tests.acceptance.world import World

HEAVY_FOR_VERSION = {"asyncio", "httpx2", "httpcore2", "pydantic", "sqlite3", "typer", "json"}
FIRST_BYTES = 8_000
"""Of a first request with all everyday tools, the question and the path of a usual workspace (60 characters)."""
MODULES_OF_OURS = 141
"""A module costs a quarter of a millisecond. Whoever needs one more before the first request takes another one away,
or raises this by what the measurement in docs/dev/performance.md says that it is worth."""
FOREIGN = """\
abc adderclaw array ast asyncio atexit base64 binascii codecs collections concurrent contextlib contextvars
copy copyreg ctypes dataclasses datetime dis encodings enum errno fcntl functools gc genericpath h11 hashlib heapq hmac
importlib inspect io ipaddress itertools json keyword linecache locale logging marshal math opcode operator os
posix posixpath re reprlib select selectors signal site sitecustomize socket sqlite3 ssl stat string struct
subprocess textwrap threading time token tokenize traceback types typing urllib warnings weakref zipimport
"""
"""All that may be imported of other people's before the first request; what begins with an underscore is part of it."""
IMPORTTIME = [sys.executable, "-X", "importtime", "-c", "from adderclaw.terminal.commands import main; main()"]


def imported(stderr: str) -> set[str]:
    """The modules in the output of `-X importtime`, those apart that were looked for and are not on this system."""
    lines = (line for line in stderr.splitlines() if line.startswith("import time:") and "imported package" not in line)
    return {line.rsplit("|", 1)[1].strip() for line in lines} - {"_wmi", "_winapi", "nt", "msvcrt"}


def tops(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules if not name.startswith("_")}


def test_version_imports_next_to_nothing(world: World) -> None:
    done = subprocess.run([*IMPORTTIME, "--version"], env=world.cli.env, capture_output=True, text=True)
    assert done.stdout == "adderclaw 0.1.0\n"
    assert not tops(imported(done.stderr)) & HEAVY_FOR_VERSION


@pytest.mark.parametrize("asking", [("agent", "-m"), ("-p",)])
def test_nothing_heavy_before_the_first_request(world: World, asking: tuple[str, ...]) -> None:
    """The server kills the program when the request is there: what it had imported by then is on its stderr."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        world.configure(more=f'[providers.models.here]\nkind = "openai-compatible"\nbase_url = "{url}"\nmodel = "m"')
        world.cli("config", "validate")
        world.cli("tool", "list")  # the first start validates the configuration and keeps the result
        command = [*IMPORTTIME, *asking, "hi", "--provider", "here"]
        process = subprocess.Popen(
            command,
            env=world.cli.env,
            cwd=world.cli.cwd,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        requests: list[tuple[bytes, bytes]] = []

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                head = b"".join(iter(stream.readline, b"\r\n"))
                length = int(head.lower().split(b"content-length:")[1].split()[0])
                requests.append((head, stream.read(length)))
                os.kill(process.pid, 9)

        thread = Thread(target=serve)
        thread.start()
        _, stderr = process.communicate(timeout=90)
        thread.join()
    ((head, body),) = requests
    assert head.startswith(b"POST /v1/chat/completions")
    modules = imported(stderr)
    assert sorted(tops(modules) - set(FOREIGN.split())) == []
    ours = sorted(name for name in modules if name.split(".")[0] == "adderclaw")
    assert len(ours) <= MODULES_OF_OURS, ours
    assert not [name for name in ours if "plugin" in name], "no plugin is installed: nothing of them is needed"
    path = str(world.workspace).encode()
    assert path in body
    assert len(body.replace(path, b"x" * 60)) + len("Run the commands that you are asked to run.") <= FIRST_BYTES


def test_the_first_request_is_small_and_reaches_every_tool(world: World) -> None:
    listed = json.loads(world.cli("tool", "list", "--output-format", "json").out)
    names = {tool["name"] for tool in listed}
    expected = "Bash Read Write Edit LS Glob Grep Http Time MemorySearch MemoryRead MemoryWrite"
    assert names >= set(expected.split())
    offered = [tool for tool in listed if tool["usable"] and not tool["deferred"]]
    told = [{key: tool[key] for key in ("name", "description", "parameters")} for tool in offered]
    assert len(json.dumps(told, separators=(",", ":"))) < 7400
