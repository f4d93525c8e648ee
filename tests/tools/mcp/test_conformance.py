"""The official conformance suite against our client and our server: all passes but what docs/mcp.md names."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.mcp.node import ROOT, SUITE, needed, node

HERE = Path(__file__).parent
SERVER_PASSES = 24


def suite(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(node()).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = [node(), str(needed(SUITE)), *arguments, "-o", str(tmp_path / "out")]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=env, cwd=tmp_path)


def expected(name: str) -> list[str]:
    return re.findall(r"^  - (\S+)$", (HERE / f"expected-{name}.yml").read_text(), re.MULTILINE)


CLIENT = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/basic-cimd",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
)


@pytest.mark.soak
@pytest.mark.parametrize("place", range(len(CLIENT)), ids=CLIENT)
def test_a_client_scenario(place: int, tmp_path: Path, soak: object) -> None:
    from tests.program import Soak

    assert isinstance(soak, Soak)
    if place > 2 and place not in soak.of(len(CLIENT)):
        return  # its turn is another day; `make soak` runs all
    command = f"{sys.executable} {HERE / 'conformance_client.py'}"
    done = suite(tmp_path, "client", "--command", command, "--scenario", CLIENT[place], "--timeout", "60000")
    assert "OVERALL: PASSED" in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]


def test_every_client_scenario_passes_or_is_named() -> None:
    done = subprocess.run([node(), str(needed(SUITE)), "list"], capture_output=True, text=True, timeout=60)
    listed = re.findall(r"^  - (\S+) ", done.stdout.partition("Client scenarios")[2], re.MULTILINE)
    named = expected("client")
    assert sorted(listed) == sorted([*CLIENT, *named])
    page = (ROOT / "docs" / "mcp.md").read_text()
    assert [name for name in named if f"`{name}`" not in page] == []


def test_the_server_scenarios(tmp_path: Path) -> None:
    needed(SUITE)
    # the socket is handed over: nobody else can have its port, and whoever comes early waits in it
    with socket.create_server(("127.0.0.1", 0)) as door:
        port, number = door.getsockname()[1], door.fileno()
        command = [sys.executable, str(HERE / "conformance_server.py"), str(number)]
        server = subprocess.Popen(command, cwd=ROOT, pass_fds=(number,))
    try:
        done = suite(tmp_path, "server", "--url", f"http://127.0.0.1:{port}/mcp", "--suite", "all")
    finally:
        server.kill()
        server.wait()
    rows: list[tuple[str, str]] = re.findall(r"^([✓✗]) (\S+):", done.stdout, re.MULTILINE)
    failed = [name for mark, name in rows if mark == "✗"]
    assert sorted(failed) == sorted(expected("server")), done.stdout[-3000:]
    assert len(rows) - len(failed) == SERVER_PASSES
    page = (ROOT / "docs" / "mcp.md").read_text()
    assert [name for name in failed if f"`{name}`" not in page] == []
