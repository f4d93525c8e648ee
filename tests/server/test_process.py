"""The server as a process: where it listens, that it is alone, and how it ends."""

import json
import os
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from adderclaw.core.errors import UsageError
from adderclaw.server.listening import Listen, check_address
from tests.acceptance.world import CONFIG
from tests.program import Cli
from tests.scripted import ScriptedModel
from tests.server.conftest import Process

type Serve = Callable[..., Process]


@pytest.fixture
def model(cli: Cli, workspace: Path) -> Generator[ScriptedModel]:
    """Answers as the test says; the home's default."""
    with ScriptedModel() as made:
        entry = f'[providers.models.scripted]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "{made.base_url}"\n'
        config = CONFIG.format(workspace=workspace, autonomy="full", security="", rounds=20, more=entry)
        cli.configure(config.replace('default_provider = "local"', 'default_provider = "scripted"'))
        yield made


def rows(cli: Cli, sql: str) -> list[Any]:
    with sqlite3.connect(f"file:{cli.data / 'memory.sqlite'}?mode=ro", uri=True) as connection:
        return connection.execute(sql).fetchall()


# ------------------------------------------------------------------ where


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_another_address_than_loopback_needs_tls_and_a_token(host: str) -> None:
    for where, has_token in (
        (Listen(host), True),
        (Listen(host), False),
        (Listen(host, tls_cert="c", tls_key="k"), False),
        (Listen(host, tls_cert="c"), True),
    ):
        with pytest.raises(UsageError, match=r"needs|must be given together"):
            check_address(where, has_token=has_token)
    check_address(Listen(host, tls_cert="c", tls_key="k"), has_token=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.3.2.1"])
def test_loopback_needs_neither(host: str) -> None:
    check_address(Listen(host), has_token=False)


def certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    names = "subjectAltName=DNS:claw.example,IP:127.0.0.1"
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    where = ("-keyout", key, "-out", cert, "-subj", "/CN=claw", "-addext", names)
    subprocess.run([*made, *where], check=True, capture_output=True)
    return cert, key


def test_with_tls_and_a_token_it_listens_to_other_machines(
    cli: Cli, serve: Serve, tmp_path: Path, needs: Callable[[str], str], workspace: Path
) -> None:
    needs("openssl")
    cert, key = certificate(tmp_path)
    tls = ("--tls-cert", str(cert), "--tls-key", str(key))
    everywhere = ("--host", "0.0.0.0", *tls)
    refused = cli("serve", "--port", "0", "--workspace", str(workspace), *everywhere)
    assert (refused.code, "needs a token;" in refused.err) == (2, True)
    wrong = cli("serve", "--port", "0", "--tls-cert", str(key), "--tls-key", str(cert))
    assert (wrong.code, "give a PEM certificate" in wrong.err) == (2, True)
    made = cli("token", "create", "phone", "--scope", "read", "--output-format", "json")
    process = serve(*everywhere)
    assert process.url.startswith("https://0.0.0.0:")
    url = process.url.replace("0.0.0.0", "127.0.0.1")
    headers = {"Authorization": f"Bearer {json.loads(made.out)['token']}"}
    trusted = ssl.create_default_context(cafile=str(cert))
    with httpx2.Client(base_url=url, headers=headers, trust_env=False, verify=trusted) as client:
        assert client.get("/status").json()["client"] == "phone"
        assert client.get("/status", headers={"Host": "claw.example"}).status_code == 200
        assert client.get("/status", headers={"Host": "0.0.0.0"}).status_code == 421
        assert client.get("/status", headers={"Host": "evil.example"}).status_code == 421
    plain = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
    plain.sendall(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert not plain.recv(10_000).startswith(b"HTTP")
    plain.close()


def test_a_port_that_is_taken_is_named(cli: Cli, workspace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = str(other.getsockname()[1])
        refused = cli("serve", "--port", number, "--workspace", str(workspace))
    assert refused.code == 2
    assert f"port {number} of 127.0.0.1 is in use by another program: give another --port" in refused.err


def test_a_store_in_files_is_refused(cli: Cli, workspace: Path) -> None:
    cli.configure('[memory]\nbackend = "file"\n')
    refused = cli("serve", "--port", "0", "--workspace", str(workspace))
    assert (refused.code, "allow only one conversation at a time" in refused.err) == (2, True)


def test_a_server_is_alone_in_its_home_until_it_is_killed(cli: Cli, serve: Serve, workspace: Path) -> None:
    """And the peer of its Unix socket is known, and is let in by a token alone."""
    place = cli.data / "server" / "sock"
    first = serve("--socket", str(place))
    second = cli("serve", "--port", "0", "--workspace", str(workspace))
    assert second.code == 2
    assert f"is already running at {first.url} (process {first.process.pid})" in second.err
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    token = first.token()
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(place)), base_url="http://localhost") as client:
        assert client.post("/estop").status_code == 401
        assert client.post("/estop", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    found = json.loads(rows(cli, "SELECT detail FROM events WHERE event_type = 'client_request'")[0][0])
    assert (found["client"], found["peer"]) == ("tester", f"pid {os.getpid()} uid {os.getuid()}")
    first.process.kill()
    first.process.wait(30)
    assert place.exists()  # what a killed one leaves is in nobody's way
    again = serve("--socket", str(place))
    assert again.end() == 0
    assert not place.exists()
    outside = cli("serve", "--port", "0", "--workspace", str(workspace), "--socket", str(workspace / "s"))
    assert (outside.code, "the socket must be in" in outside.err) == (2, True)


# ------------------------------------------------------------------ how it ends


class Asked(threading.Thread):
    """A client in a thread that waits for the answer to its message."""

    def __init__(self, process: Process, token: str, **given: Any) -> None:
        super().__init__(daemon=True)
        self.process, self.token, self.given = process, token, given
        self.answer: Any = None
        self.start()

    def run(self) -> None:
        with self.process.client(self.token) as client:
            try:
                self.answer = client.post("/chat", json=self.given, timeout=60).json()
            except httpx2.HTTPError as error:
                self.answer = error


def test_sigterm_ends_a_turn_at_a_safe_point_and_it_goes_on_later(
    cli: Cli, serve: Serve, model: ScriptedModel, workspace: Path
) -> None:
    process = serve()
    token = process.token()
    mark = workspace / "began"
    os.mkfifo(mark)
    model.add({"tool_calls": [{"name": "Bash", "arguments": {"command": "echo x > began; sleep 60"}}]})
    asked = Asked(process, token, message="work")
    mark.open("rb").read()  # the command runs
    process.process.send_signal(signal.SIGTERM)
    asked.join(30)
    assert asked.answer["outcome"] == "stopped"
    assert process.process.wait(30) == 0
    assert rows(cli, "SELECT outcome FROM runs")[0][0] == "stopped"
    told = [row[0] for row in rows(cli, "SELECT event_type FROM events WHERE session_id IS NULL ORDER BY id")]
    assert told.index("client_request") < told.index("signal_received") < told.index("graceful_shutdown_started")
    again = serve()
    model.add({"text": "It goes on."})
    with again.client(token) as client:
        answer = client.post("/chat", json={"message": "go on", "conversation_id": asked.answer["conversation_id"]})
        assert answer.json()["answer"] == "It goes on."
    assert again.end() == 0


def test_a_kill_in_the_middle_of_a_turn_loses_nothing(
    cli: Cli, serve: Serve, model: ScriptedModel, workspace: Path
) -> None:
    """The store is as after any other kill: the call is reported as interrupted, and never run again by itself."""
    process = serve()
    token = process.token()
    mark = workspace / "began"
    os.mkfifo(mark)
    model.add({"tool_calls": [{"name": "Bash", "arguments": {"command": "echo x > began; sleep 60"}}]})
    asked = Asked(process, token, message="work")
    mark.open("rb").read()
    process.process.kill()
    process.process.wait(30)
    asked.join(30)
    assert isinstance(asked.answer, httpx2.HTTPError)
    mark.unlink()
    conversation = rows(cli, "SELECT id FROM conversations")[0][0]
    again = serve()
    model.add({"text": "I see that it was interrupted."})
    with again.client(token) as client:
        answer = client.post("/chat", json={"message": "go on", "conversation_id": conversation})
        assert answer.json()["answer"] == "I see that it was interrupted."
    assert "was not run again" in str(model.requests[-1])
    assert again.end() == 0
    verified = cli("receipt", "verify", "--output-format", "json")
    assert verified.code == 0, verified.out
