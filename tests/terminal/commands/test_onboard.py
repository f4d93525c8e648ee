"""`adderclaw onboard` finds keys and model servers by itself, and says what it found."""

import json
import os
import select
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

from adderclaw.models import local_servers
from tests.listening import listening
from tests.program import PROGRAM, Cli
from tests.rows import rows
from tests.scripted import ScriptedModel


@contextmanager
def answering(raw: bytes) -> Generator[int]:
    """A server that says the same to everybody; nothing at all when that is empty."""
    over = threading.Event()

    def talk(connection: socket.socket) -> None:
        with connection:
            if raw:
                connection.recv(4096)
                connection.sendall(raw)
            else:
                over.wait()

    with listening(talk) as port:
        yield port
        over.set()


def http(body: str, status: int = 200) -> bytes:
    return f"HTTP/1.1 {status} x\r\ncontent-length: {len(body.encode())}\r\n\r\n{body}".encode()


# ------------------------------------------------------------------ refusals


@rows(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        http("<html>It works!</html>"),
        http("[]"),
        http("{}"),
        http('{"data": "no list"}'),
        http('{"data": [{"id": "m"}]}', 401),
        http('{"data": [{"id": "m"}]}', 302),
        http("[" * 100_000),
    ],
)
def test_what_is_no_model_server_is_not_taken_for_one(raw: bytes) -> None:
    with answering(raw) as port:
        assert local_servers.servers({port: "ollama"}) == []


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert local_servers.servers({port: "ollama"}) == []
    assert local_servers.servers({}) == []


@pytest.mark.parametrize("host", ["example.org:11434", "10.0.0.1:1234", "127.0.0.1", ":99999", "", "127.0.0.1:0"])
def test_no_other_machine_is_asked(home: object, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert local_servers.usual_ports() == {11434: "ollama", 1234: "lm-studio", 8080: "openai-compatible"}


def test_names_cannot_steer_the_terminal() -> None:
    with answering(http(json.dumps({"data": [{"id": "m\x1b[2J"}, {"id": 3}, "x", {"id": ""}]}))) as port:
        (found,) = local_servers.servers({port: "ollama"})
    assert "\x1b" not in str(found)
    assert len(found.models) == 1


# ------------------------------------------------------------------ what is found


def test_a_server_and_its_models_are_named_and_used(cli: Cli) -> None:
    with ScriptedModel([{"text": "hello from here"}]) as model:
        env = {"OLLAMA_HOST": f"127.0.0.1:{model.port}"}
        done = cli("onboard", "--yes", env=env)
        assert done.code == 0, done.err
        assert f"ollama at {model.base_url} (scripted)" in done.out
        assert "ollama with the model scripted" in done.out
        said = cli("agent", "-m", "hi", env=env)
    assert said.out == "hello from here\n"


def test_a_key_goes_before_a_server_and_is_never_shown(cli: Cli) -> None:
    with ScriptedModel([]) as model:
        env = {"OLLAMA_HOST": f"http://127.0.0.1:{model.port}", "GEMINI_API_KEY": "canary-0123456789abcdef"}
        done = cli("onboard", "--yes", env=env)
    assert "keys in the environment: GEMINI_API_KEY" in done.out
    assert "gemini with the model" in done.out
    assert "canary" not in done.out + done.err + (cli.data / "config.toml").read_text()


def test_a_server_without_a_model_is_said_and_not_chosen() -> None:
    with answering(http('{"object": "list", "data": null}')) as port:
        (found,) = local_servers.servers({port: "ollama"})
    assert str(found).endswith("(no model loaded)")


def test_many_models_are_shortened() -> None:
    names = [{"id": f"m{number}"} for number in range(9)]
    with answering(http(json.dumps({"object": "list", "data": names}))) as port:
        (found,) = local_servers.servers({port: "lm-studio"})
    assert str(found) == f"lm-studio at http://127.0.0.1:{port}/v1 (m0, m1, m2 and 6 more)"


def test_where_nothing_can_be_suggested_yes_is_no_way_out(cli: Cli) -> None:
    done = cli("onboard", "--provider", "ollama", "--yes", env={"OLLAMA_HOST": "127.0.0.1:9"})
    assert done.code == 5
    assert done.err.strip().endswith("There is no terminal to ask at: give --model")


@pytest.mark.parametrize(
    ("key", "code", "said"),
    [(b"\x03", 130, b"adderclaw: interrupted"), (b"\x04", 5, b"adderclaw: the question was not answered")],
)
def test_ctrl_c_and_ctrl_d_at_a_question_end_as_the_exit_codes_say(
    cli: Cli, key: bytes, code: int, said: bytes
) -> None:
    terminal, theirs = os.openpty()
    begun = ["setsid", "--ctty", "--wait", PROGRAM, "onboard"]
    with subprocess.Popen(begun, env=cli.env, cwd=cli.cwd, stdin=theirs, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        shown = b""
        while b"Which provider" not in shown or not shown.endswith(b": "):
            shown += os.read(terminal, 4096)
        os.write(terminal, key)
        with suppress(OSError):  # the program has ended
            while True:
                if not select.select([terminal], [], [], 1)[0]:
                    os.write(terminal, key)  # the first came between the prompt and the read, where readline loses it
                    continue
                shown += os.read(terminal, 4096)
        assert program.wait() == code
    os.close(terminal)
    assert said in shown
    assert not (cli.data / "config.toml").exists()
