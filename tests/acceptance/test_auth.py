"""Credentials through the installed program: A1 to A7, O1, L1, `model_config`, and a canary that is found nowhere."""

import base64
import json
import os
import re
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World
from tests.oauth_server import OAuthServer
from tests.program import PROGRAM, Done
from tests.scripted import ScriptedModel
from tests.scripted_anthropic import ScriptedMessages
from tests.scripted_gemini import ScriptedGemini

HI = {"text": "hi there"}
CLAUDE = {"provider": "claude_code_subscription", "model_id": "claude_sonnet_4"}


def model_config(world: World, provider: str, model_id: str, **more: Any) -> None:
    settings = {"model_config": {"provider": provider, "model_id": model_id, **more}}
    (world.cli.data / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def chat(world: World, model: ScriptedModel, more: str = "", autonomy: str = "supervised") -> None:
    """A Chat Completions provider that wants a key, as the default one."""
    entry = f'[providers.models.here]\nkind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
    world.configure(autonomy, more=f"{entry}{more}")


def failures(world: World) -> list[dict[str, Any]]:
    return [json.loads(row[0]) for row in world.rows("SELECT detail FROM events WHERE event_type = 'StopFailure'")]


def run_failures(world: World) -> list[str]:
    rows = world.rows("SELECT detail FROM events WHERE event_type = 'run_failed'")
    return [json.loads(row[0])["reason"] for row in rows]


# ------------------------------------------------------------------ model_config (D-08 to D-15)

INVALID: list[tuple[dict[str, str], str]] = [
    ({"provider": "claude_code_subscription", "model_id": "gpt_4o"}, "claude_opus_4, claude_sonnet_4"),
    ({"provider": "openai_compatible", "model_id": "claude_opus_4"}, "gpt_4o, gpt_4o_mini, o3, o3_mini"),
    ({"provider": "lm_studio_local", "model_id": "gpt_4o"}, "lm_studio_server_routed"),
    ({"provider": "OpenAI_Compatible", "model_id": "gpt_4o"}, "allowed: claude_code_subscription"),
    ({"provider": "claude_code_subscription", "model_id": "Claude_Opus_4"}, "claude_opus_4"),
    ({"provider": "openai_compatible"}, "is not allowed"),
    (CLAUDE | {"temperature": "1"}, "unknown key"),
    (CLAUDE | {"api_key": "abcdefgh12345678"}, "secrets do not belong"),
]


@pytest.mark.parametrize("place", ["settings.json", "settings_snapshot"])
def test_an_invalid_model_config_stops_before_the_network(world: World, place: str) -> None:
    with ScriptedMessages() as server, ScriptedModel() as other:
        urls = {"ANTHROPIC_BASE_URL": server.base_url, "OPENAI_BASE_URL": other.base_url}
        keys = {"ANTHROPIC_API_KEY": "key-1234567", "OPENAI_API_KEY": "key-1234567"}
        if place == "settings_snapshot":
            assert world.cli("init").code == 0
        for config, says in INVALID if place == "settings.json" else (INVALID[0], INVALID[-1]):
            if place == "settings.json":
                (world.cli.data / "settings.json").write_text(json.dumps({"model_config": config}))
            else:
                snapshot(world, {"model_config": config})
            done = world.cli("agent", "-m", "hi", env=urls | keys)
            assert done.code == 2, config
            assert says in done.err
            assert "abcdefgh12345678" not in done.err


def snapshot(world: World, settings: dict[str, Any]) -> None:
    """The operator's own `effective` row (T-12)."""
    assert world.database.exists() or world.cli("init").code == 0
    with sqlite3.connect(world.database) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO settings_snapshot(scope, json, updated_at)"
            " VALUES ('effective', ?, datetime('now'))",
            (json.dumps(settings),),
        )


MISSING: list[tuple[str, str, dict[str, str], str]] = [
    ("claude_code_subscription", "claude_opus_4", {}, "ANTHROPIC_API_KEY"),
    ("openai_compatible", "gpt_4o", {}, "OPENAI_BASE_URL"),
    ("openai_compatible", "gpt_4o", {"OPENAI_API_KEY": "key-1234567"}, "OPENAI_BASE_URL"),
    ("openai_compatible", "gpt_4o", {"OPENAI_BASE_URL": "{url}"}, "OPENAI_API_KEY"),
    ("lm_studio_local", "lm_studio_server_routed", {"LM_STUDIO_BASE_URL": "{url}"}, "LM_STUDIO_MODEL"),
]


@pytest.mark.parametrize(("provider", "model_id", "environment", "says"), MISSING)
def test_a_missing_environment_is_recorded_and_nothing_is_sent(
    world: World, provider: str, model_id: str, environment: dict[str, str], says: str
) -> None:
    with ScriptedModel() as model, ScriptedMessages() as messages:
        model_config(world, provider, model_id)
        env = {name: value.format(url=model.base_url) for name, value in environment.items()}
        done = world.cli("agent", "-m", "hi", env={"ANTHROPIC_BASE_URL": messages.base_url, **env})
        assert done.code == 1
        assert says in done.err
        assert not model.requests
        assert not model.others
        assert not messages.requests
    assert run_failures(world) == ["missing_provider_api_key"]
    assert [failure["error"] for failure in failures(world)] == ["authentication_failed"]
    assert world.rows("SELECT outcome, exit_code FROM runs") == [("error", 1)]


WIRE_NAMES = [
    ("claude_opus_4", "claude-opus-4-20250514"),
    ("claude_sonnet_4", "claude-sonnet-4-20250514"),
    ("claude_3_5_haiku", "claude-3-5-haiku-20241022"),
]


@pytest.mark.parametrize(("model_id", "wire"), WIRE_NAMES)
def test_a1_the_api_key_of_the_environment(world: World, model_id: str, wire: str) -> None:
    model_config(world, "claude_code_subscription", model_id)
    with ScriptedMessages([HI]) as server:
        env = {"ANTHROPIC_API_KEY": "key-of-a1-test", "ANTHROPIC_BASE_URL": server.base_url}
        done = world.cli("agent", "-m", "hello", env=env)
        assert (done.code, done.out) == (0, "hi there\n"), done.err
        (request,) = server.requests
        assert request.path == "/v1/messages"
        assert request.json["model"] == wire
        assert request.headers["x-api-key"] == "key-of-a1-test"
        assert "authorization" not in request.headers


def test_a2_the_bearer_goes_before_the_key(world: World) -> None:
    snapshot(world, {"model_config": CLAUDE})
    with ScriptedMessages([HI]) as server:
        env = {
            "ANTHROPIC_AUTH_TOKEN": "bearer-of-a2-test",
            "ANTHROPIC_API_KEY": "key-of-a2-test",
            "ANTHROPIC_BASE_URL": server.base_url,
        }
        assert world.cli("agent", "-m", "hello", env=env).code == 0
        (request,) = server.requests
        assert request.headers["authorization"] == "Bearer bearer-of-a2-test"
        assert "x-api-key" not in request.headers


CHAT_NAMES = [("gpt_4o", "gpt-4o"), ("gpt_4o_mini", "gpt-4o-mini"), ("o3", "o3"), ("o3_mini", "o3-mini")]


@pytest.mark.parametrize(("model_id", "wire"), CHAT_NAMES)
def test_o1_openai_compatible_by_the_environment(world: World, model_id: str, wire: str) -> None:
    model_config(world, "openai_compatible", model_id)
    with ScriptedModel([HI]) as model:
        env = {"OPENAI_API_KEY": "key-of-o1-test", "OPENAI_BASE_URL": model.base_url}
        assert world.cli("agent", "-m", "hello", env=env).code == 0
        (request,) = model.requests
        assert request.json["model"] == wire
        assert request.headers["authorization"] == "Bearer key-of-o1-test"


@pytest.mark.parametrize(("key", "sent"), [(None, "lm-studio"), ("key-of-l1-test", "key-of-l1-test")])
def test_l1_lm_studio_by_the_environment(world: World, key: str | None, sent: str) -> None:
    model_config(world, "lm_studio_local", "lm_studio_server_routed")
    with ScriptedModel([HI]) as model:
        env = {"LM_STUDIO_BASE_URL": model.base_url, "LM_STUDIO_MODEL": "qwen-local"}
        assert world.cli("agent", "-m", "hello", env=env | ({"LM_STUDIO_API_KEY": key} if key else {})).code == 0
        (request,) = model.requests
        assert request.json["model"] == "qwen-local"
        assert request.headers["authorization"] == f"Bearer {sent}"


def test_lm_studio_with_a_model_by_flag(world: World) -> None:
    with ScriptedModel([HI]) as model:
        flags = ("--provider", "lm_studio_local", "--model", "by-flag")
        done = world.cli("agent", "-m", "hello", *flags, env={"LM_STUDIO_BASE_URL": model.base_url})
        assert done.code == 0, done.err
        assert model.requests[0].json["model"] == "by-flag"


def test_the_environment_wins_over_the_files_endpoint(world: World) -> None:
    """X-27, for seed 003's names only."""
    with ScriptedModel([HI]) as model:
        wrong = 'kind = "openai-compatible"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
        world.configure(more=f"[providers.models.openai_compatible]\n{wrong}[providers.models.other]\n{wrong}")
        env = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "key-1234567"}
        assert world.cli("agent", "-m", "hello", "--provider", "openai_compatible", env=env).code == 0
        assert world.cli("agent", "-m", "hello", "--provider", "other", env=env).code == 1


# ------------------------------------------------------------------ login, logout, status (A3 to A5)


@pytest.fixture
def oauth() -> Generator[OAuthServer]:
    with OAuthServer() as server:
        yield server


def subscription(world: World, oauth: OAuthServer, **more: str) -> None:
    world.configure(more='[auth]\nstorage = "file"\n' + oauth.config("claude_code_subscription", **more))
    model_config(world, **CLAUDE)


def browser(world: World) -> None:
    script = world.cli.home / "browser.py"
    script.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1], timeout=60).read()\n")
    world.cli.env["BROWSER"] = f"{sys.executable} {script} %s"


def logged_in(world: World, oauth: OAuthServer) -> Done:
    subscription(world, oauth)
    browser(world)
    done = world.cli("login")
    assert done.code == 0, done.err
    return done


def test_a3_to_a5_login_use_status_logout(world: World, oauth: OAuthServer) -> None:
    assert world.cli("auth", "status", "claude_code_subscription").code == 1
    done = logged_in(world, oauth)
    assert "logged in to claude_code_subscription" in done.out
    with ScriptedMessages([HI]) as server:
        status = world.cli("auth", "status", "--output-format", "json")
        assert status.code == 0
        (row,) = [row for row in json.loads(status.out) if row["provider"] == "claude_code_subscription"]
        assert (row["usable"], row["class"]) == (True, "login")
        assert abs(row["expires_at"] - time.time() - 3600) < 60
        assert world.cli("agent", "-m", "hello", env={"ANTHROPIC_BASE_URL": server.base_url}).code == 0
        assert server.requests[0].headers["authorization"] == f"Bearer {oauth.issued[1]}"
        shown = world.cli("auth", "status")
        assert "login, until 2" in shown.out
        leaked(world, oauth.issued, shown.out, shown.err, status.out, done.out, done.err)
        for path in world.cli.data.glob("credentials.*"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        out = world.cli("logout")
        assert (out.code, out.out) == (0, "logged out of claude_code_subscription\n")
        assert (oauth.access, oauth.refresh) == (set(), {})
        assert world.cli("auth", "status").code == 1
        assert world.cli("agent", "-m", "hello", env={"ANTHROPIC_BASE_URL": server.base_url}).code == 1
    assert run_failures(world) == ["missing_provider_api_key"]
    assert not list(world.cli.data.glob("credentials.enc*")) + list(world.cli.data.glob("credentials.key*"))


def test_a_person_logs_in_and_out_on_the_screen(world: World, oauth: OAuthServer) -> None:
    subscription(world, oauth)
    browser(world)
    with Tmux(world, "agent", columns=140) as terminal:
        terminal.wait("supervised")
        for line, shown in (
            ("/login", "Passphrase for the stored logins"),
            ("", "logged in to claude_code_subscription; stored in"),
            ("/status", "login, until 2"),
            ("/logout", "left with 0"),
        ):
            terminal.write(line)
            terminal.press("Enter")
            terminal.wait(shown)
        leaked(world, oauth.issued, terminal.all())
    assert (oauth.access, oauth.refresh) == (set(), {})


def test_a3_by_device_code(world: World, oauth: OAuthServer) -> None:
    oauth.quirks["device"] = ["authorization_pending"]
    subscription(world, oauth)
    done = world.cli("login", "claude_code_subscription")
    assert done.code == 0, done.err
    assert "WDJB-MJHT" in done.err
    assert world.cli("auth", "status").code == 0


def test_a3_by_a_pasted_address(world: World, oauth: OAuthServer) -> None:
    subscription(world, oauth)
    process = world.cli.start("login", "--method", "paste")
    assert process.stderr is not None
    line = b""
    while not (found := re.search(rb"http\S+authorize\S+\n", line)):
        more = process.stderr.readline()
        assert more, f"the program ended without an address: {line!r}"
        line += more
    out, err = process.communicate(oauth.location_of(found[0].decode().strip()).encode() + b"\n", 30)
    assert process.returncode == 0, err
    assert b"logged in" in out


def test_25_d22_a_login_to_any_vendor_with_the_endpoints_that_it_publishes(world: World, oauth: OAuthServer) -> None:
    """As docs/credentials.md has it for Google: endpoints and a client of one's own, a header for the project."""
    without = world.cli("login", "claude_code_subscription")
    assert without.code == 2
    assert "docs/credentials.md" in without.err
    with ScriptedGemini([HI]) as server:
        entry = f'[providers.models.google]\nkind = "gemini"\nmodel = "m"\nbase_url = "{server.base_url}"\n'
        headers = '[providers.models.google.headers]\nx-goog-user-project = "mine"\n'
        world.configure(more='[auth]\nstorage = "file"\n' + oauth.config("google") + entry + headers)
        browser(world)
        done = world.cli("login", "google")
        assert done.code == 0, done.err
        spoken = world.cli("agent", "-m", "hello", "--provider", "google")
        assert (spoken.code, spoken.out) == (0, "hi there\n"), spoken.err
        sent = server.asked[0].headers
    assert sent["authorization"] == f"Bearer {oauth.issued[1]}"
    assert sent["x-goog-user-project"] == "mine"
    leaked(world, oauth.issued, done.out, done.err, spoken.out, spoken.err)


DENIED: list[tuple[dict[str, Any], str, str]] = [
    ({"state": "forged"}, "browser", "state differs"),
    ({"deny": True}, "browser", "denied"),
    ({"device": ["access_denied"]}, "device", "denied"),
    ({"token_reply": (502, "text/html", "<html>bad gateway")}, "browser", "without JSON"),
    ({"token_location": "http://127.0.0.1:1/"}, "browser", "redirects are not followed"),
]


@pytest.mark.parametrize(("quirks", "method", "says"), DENIED)
def test_a_login_that_fails_keeps_nothing(world: World, quirks: dict[str, Any], method: str, says: str) -> None:
    with OAuthServer(**quirks) as server:
        subscription(world, server)
        browser(world)
        done = world.cli("login", "--method", method)
        assert done.code == 1
        assert says in done.err
        assert "Traceback" not in done.err
        assert not list(world.cli.data.glob("credentials.enc*"))
        leaked(world, server.issued, done.out, done.err)


def test_logout_without_revocation_still_forgets(world: World, oauth: OAuthServer) -> None:
    logged_in(world, oauth)
    oauth.quirks["revoke_status"] = 503
    done = world.cli("logout")
    assert done.code == 1
    assert "was not revoked" in done.err
    assert world.cli("auth", "status").code == 1


def test_a_passphrase_locks_the_file(world: World, oauth: OAuthServer) -> None:
    world.cli.env["ADDERCLAW_PASSPHRASE"] = "correct horse battery"
    logged_in(world, oauth)
    assert not (world.cli.data / "credentials.key").exists()
    assert world.cli("auth", "status").code == 0
    for wrong in ("", "another one"):
        done = world.cli("auth", "status", "claude_code_subscription", env={"ADDERCLAW_PASSPHRASE": wrong})
        assert done.code == 1
        assert "passphrase" in done.out
    done = world.cli("agent", "-m", "x", env={"ADDERCLAW_PASSPHRASE": "another one"})
    assert done.code == 1
    assert "passphrase is wrong" in done.err
    assert run_failures(world) == ["authentication_failed"]
    assert world.cli("logout", env={"ADDERCLAW_PASSPHRASE": "another one"}).code == 1
    world.cli("logout", "--all", env={"ADDERCLAW_PASSPHRASE": "another one"})
    assert not (world.cli.data / "credentials.enc").exists()


def test_the_passphrase_is_asked_for_in_a_terminal(world: World, oauth: OAuthServer) -> None:
    subscription(world, oauth)
    said, code = in_a_terminal(
        world, ["login", "--method", "device"], ["first words", "other words", "my words", "my words"]
    )
    assert code == 0, said
    assert "They differ." in said
    assert "my words" not in said
    assert not (world.cli.data / "credentials.key").exists()
    assert world.cli("auth", "status").code == 1
    assert world.cli("auth", "status", env={"ADDERCLAW_PASSPHRASE": "my words"}).code == 0
    said, code = in_a_terminal(world, ["auth", "status"], ["my words"])
    assert code == 0, said
    assert "until 2" in said


PROMPT = re.compile(r"(?:hides them\)|Once more|stored logins): $", re.MULTILINE)


def in_a_terminal(world: World, arguments: list[str], answers: list[str]) -> tuple[str, int]:
    """Run the program in a terminal, and answer each prompt that ends in a colon."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [str(PROGRAM), *arguments],
        env=world.cli.env,
        cwd=world.cli.cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, asked = "", 0
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break  # the other side has ended
        said += piece.decode("utf-8", "replace")
        if (
            len(re.findall(r"(?:hides them\)|Once more|stored logins): $", said.replace("\r", ""), re.MULTILINE))
            > asked
        ):
            os.write(ours, answers[asked].encode() + b"\n")
            asked += 1
    os.close(ours)
    return said, process.wait(90)


@pytest.mark.parametrize("name", ["credentials.enc", "credentials.key"])
def test_no_tool_reads_what_is_kept(world: World, oauth: OAuthServer, name: str) -> None:
    logged_in(world, oauth)
    os.link(world.cli.data / name, world.workspace / "linked")
    for path in (world.cli.data / name, world.workspace / "linked"):
        done = world.cli("tool", "run", "Read", "--json", json.dumps({"file_path": str(path)}))
        assert done.code == 3, done.out
        done = world.cli("tool", "run", "Bash", "--json", json.dumps({"command": f"cat {path}"}))
        assert done.code == 3, done.out


def test_two_processes_spend_one_refresh_token(world: World, oauth: OAuthServer) -> None:
    oauth.quirks["expires_in"] = 30  # sooner than the margin: each start renews
    logged_in(world, oauth)
    oauth.quirks["expires_in"] = 3600
    oauth.quirks["slow_seconds"] = 0.5
    with ScriptedMessages([HI, HI, HI]) as server:
        env = {"ANTHROPIC_BASE_URL": server.base_url}
        started = [world.cli.start("agent", "-m", "hello", env=env) for _ in range(3)]
        ended = [process.communicate(timeout=60) for process in started]
        assert [process.returncode for process in started] == [0, 0, 0], ended
        assert len({request.headers["authorization"] for request in server.requests}) == 1
    assert len(oauth.tokens_of("refresh_token")) == 1


def test_an_untrusted_project_names_neither_helper_nor_server(world: World, oauth: OAuthServer) -> None:
    """A6, D-25: what a repository brings does not run and gets no token before it is trusted."""
    mark = world.cli.home / "ran"
    project = world.cli.cwd / "project"
    (project / ".git").mkdir(parents=True)
    helper = {"apiKeyHelper": f"touch {mark}; echo from-the-project"}
    (project / ".adderclaw").mkdir()
    (project / ".adderclaw" / "settings.json").write_text(json.dumps(helper))
    model_config(world, **CLAUDE)
    with ScriptedMessages([HI]) as server:
        env = {"ANTHROPIC_BASE_URL": server.base_url}
        done = world.cli("agent", "-m", "hello", cwd=project, env=env)
        assert done.code == 1
        assert "not trusted" in done.err
        assert not mark.exists()
        assert world.cli("trust", str(project)).code == 0
        assert world.cli("agent", "-m", "hello", "--bare", cwd=project, env=env).code == 1
        assert not mark.exists()
        assert world.cli("agent", "-m", "hello", cwd=project, env=env).code == 0
        assert mark.exists()
        assert server.requests[0].headers["x-api-key"] == "from-the-project"


def test_a6_a_failing_helper_is_an_authentication_failure(world: World) -> None:
    world.configure(more='[auth]\napi_key_helper = "echo vault is locked >&2; exit 4"\n')
    model_config(world, **CLAUDE)
    with ScriptedMessages() as server:
        done = world.cli("agent", "-m", "hello", env={"ANTHROPIC_BASE_URL": server.base_url})
        assert done.code == 1
        assert "exit code 4 and said “vault is locked”" in done.err
        assert not server.requests
    assert run_failures(world) == ["authentication_failed"]
    assert [failure["error"] for failure in failures(world)] == ["authentication_failed"]


def test_a6_the_helper_runs_before_model_calls_only(world: World) -> None:
    count = world.cli.home / "count"
    key = world.cli.home.parent / "the-key"
    key.write_text("key-of-a6-test\n")
    world.configure(more=f'[auth]\napi_key_helper = "echo x >> {count}; cat {key}"\n')
    model_config(world, **CLAUDE)
    for command in (("auth", "status"), ("tool", "list"), ("provider", "list"), ("tool", "run", "time")):
        assert world.cli(*command).code == 0
    assert not count.exists()
    calls: list[dict[str, Any]] = [{"tool_calls": [{"name": "Time", "input": {}}]}, HI]
    with ScriptedMessages(calls) as server:
        assert world.cli("agent", "-m", "hello", env={"ANTHROPIC_BASE_URL": server.base_url}).code == 0
        assert {request.headers["x-api-key"] for request in server.requests} == {"key-of-a6-test"}
    assert count.read_text() == "x\n"
    leaked(world, ["key-of-a6-test"])


def test_a7_bare_uses_no_login_and_no_token(world: World, oauth: OAuthServer) -> None:
    logged_in(world, oauth)
    with ScriptedMessages([HI]) as server:
        env = {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_AUTH_TOKEN": "bearer-1234567"}
        done = world.cli("agent", "-m", "hello", "--bare", env=env)
        assert done.code == 1
        assert "ANTHROPIC_API_KEY" in done.err
        assert world.cli("auth", "status", "--bare", env=env).code == 1
        assert world.cli("agent", "-m", "hello", "--bare", env=env | {"ANTHROPIC_API_KEY": "key-of-a7-test"}).code == 0
        assert server.requests[0].headers["x-api-key"] == "key-of-a7-test"


# ------------------------------------------------------------------ hand-over (D-31)


def test_a_token_is_handed_over_in_a_descriptor(world: World) -> None:
    model_config(world, **CLAUDE)
    reading, writing = os.pipe()
    os.write(writing, b"handed-over-token\n")
    os.close(writing)
    with ScriptedMessages([HI]) as server:
        env = world.cli.env | {
            "ANTHROPIC_BASE_URL": server.base_url,
            "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR": str(reading),
        }
        command = [str(PROGRAM), "agent", "-m", "hello"]
        done = subprocess.run(command, env=env, cwd=world.cli.cwd, pass_fds=(reading,), capture_output=True, input=b"")
        os.close(reading)
        assert done.returncode == 0, done.stderr
        assert server.requests[0].headers["authorization"] == "Bearer handed-over-token"
    leaked(world, ["handed-over-token"], done.stderr.decode())


def test_behind_a_socket_the_proxy_adds_the_credential(world: World, tmp_path: Path) -> None:
    model_config(world, **CLAUDE)
    path = tmp_path / "proxy.sock"
    heads: list[bytes] = []
    answer = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "through the socket"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            heads.append(data.partition(b"\r\n\r\n")[0])
            body = json.dumps(answer).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        env = {"ANTHROPIC_UNIX_SOCKET": str(path), "ANTHROPIC_API_KEY": "must-not-be-sent"}
        done = world.cli("agent", "-m", "hello", env=env)
        thread.join(5)
    assert (done.code, done.out) == (0, "through the socket\n"), done.err
    assert b"host: api.anthropic.com" in heads[0].lower()
    assert b"must-not-be-sent" not in heads[0]
    assert b"authorization" not in heads[0].lower()


# ------------------------------------------------------------------ the canary

CANARY = "canary/8Zq+1f0c7e55+d1b24a/9"


def forms(secret: str) -> list[bytes]:
    """The value as it could turn up: plain, in a URL, in JSON, and in the middle of base64."""
    raw = secret.encode()
    found = {secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1], secret.replace("/", "\\/")}
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + raw).decode()
        core = text[4 : len(text) - 4]
        found |= {core, core.replace("+", "-").replace("/", "_")}
    found |= {secret[:14], secret[-14:]}  # a half would do as well
    return [form.encode() for form in found]


def leaked(world: World, secrets: list[str], *outputs: str) -> None:
    """AssertionError where one of the secrets is in the home or in what was printed."""
    kept = world.cli.data / "checkpoints"  # copies of the workspace's own files, to give them back as they were
    files = [path for path in world.cli.home.rglob("*") if path.is_file() and kept not in path.parents]
    places = {str(path): path.read_bytes() for path in files}
    places |= {f"output {index}": text.encode() for index, text in enumerate(outputs)}
    for secret in secrets:
        for form in forms(secret):
            found = [place for place, data in places.items() if form in data]
            assert not found, f"{form!r} is in {found}"


class Watch:
    """Looks at every process of this machine for as long as a test runs."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        wanted = forms(CANARY)
        while not self._ended.wait(0.005):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    data = path.read_bytes()
                except OSError:
                    continue
                if any(form in data for form in wanted):
                    self.seen.append(f"{path}: {data!r}")


TOLD: dict[str, tuple[int, dict[str, Any]]] = {
    "401 that repeats the key": (
        1,
        {"error": {"status": 401, "body": {"error": {"message": f"bad key {CANARY} ({quote(CANARY, safe='')})"}}}},
    ),
    "401 as a text": (1, {"error": {"status": 401, "body": f"Authorization: Bearer {CANARY}"}}),
    "403 in base64": (1, {"error": {"status": 403, "body": base64.b64encode(f"key={CANARY}".encode()).decode()}}),
    "500": (4, {"error": {"status": 500, "body": {"error": f"token={CANARY}"}}}),
    "a redirect elsewhere": (
        1,
        {"error": {"status": 307, "body": CANARY, "headers": {"Location": f"http://127.0.0.1:1/?key={CANARY}"}}},
    ),
    "HTML": (4, {"html": f"<html><title>{CANARY}</title>{CANARY}</html>"}),
    "no JSON": (4, {"raw": f"data: {CANARY}\n\n", "content_type": "text/event-stream"}),
    "an error inside a 200": (4, {"raw": json.dumps({"error": {"message": CANARY, "code": CANARY}})}),
    "an answer that says it": (1, {"text": f"your key is {CANARY}"}),
    "a tool that does not exist": (1, {"tool_calls": [{"name": CANARY, "arguments": {"key": CANARY}}]}),
    "a tool with the key": (1, {"tool_calls": [{"name": "Read", "arguments": {"file_path": f"{CANARY}.txt"}}]}),
    "the key as an id": (1, {"tool_calls": [{"id": CANARY, "name": "Time", "arguments": {}}]}),
    "broken arguments": (1, {"tool_calls": [{"name": "Read", "arguments": f'{{"file_path": "{CANARY}'}]}),
}
"""Case → how often it is asked for, and what the server sends: it knows the key, and repeats it."""


UNSAID = ("a redirect elsewhere", "HTML", "the key as an id")
"""Where nothing of what the server sent is told to anybody."""


def test_the_canary_is_nowhere_after_a_server_repeated_it(world: World) -> None:
    """One turn for each case, in one conversation: what an earlier one left would go out with a later one."""
    steps: list[dict[str, Any]] = []
    for times, step in TOLD.values():
        steps += [*[step] * times, *([HI] if "tool_calls" in step else [])]
    with ScriptedModel(steps) as model, Watch() as watch:
        chat(world, model, 'api_key_env = "MY_KEY"\n[logging]\ndebug_llm_bodies = true\nlevel = "debug"\n')
        said = "".join(f"{case}?\n" for case in TOLD)
        done = world.cli.typed("agent", "--provider", "here", stdin=f"{said}/exit\n", env={"MY_KEY": CANARY})
        assert len(model.requests) == len(steps)
        for request in model.requests:
            assert request.headers["authorization"] == f"Bearer {CANARY}"
            assert not any(form in request.body for form in forms(CANARY))
    assert "Traceback" not in done.err
    leaked(world, [CANARY], done.out, done.err)
    assert not watch.seen
    (events,) = world.cli.data.glob("runs/*/events.jsonl")
    assert (done.out + done.err + events.read_text()).count("[redacted]") >= len(TOLD) - len(UNSAID)


def test_the_search_finds_what_is_there(world: World) -> None:
    """The same run without a key to look for: the word is in the database, in the run folder and in what is printed."""
    step = {"tool_calls": [{"name": "Read", "arguments": {"file_path": f"{CANARY}.txt"}}]}
    with ScriptedModel([step, HI]) as model:
        chat(world, model)
        done = world.cli("agent", "-m", "hello", "--provider", "here", "--output-format", "stream-json")
    with pytest.raises(AssertionError, match=r"memory\.sqlite.*events\.jsonl|events\.jsonl.*memory\.sqlite"):
        leaked(world, [CANARY], done.out, done.err)
    with pytest.raises(AssertionError, match="output 0"):
        leaked(world, [CANARY], done.out, done.err)


BY_TOOLS: dict[str, dict[str, Any]] = {
    "env": {"name": "Bash", "arguments": {"command": "env"}},
    "the environment of the parent": {"name": "Bash", "arguments": {"command": "cat /proc/self/environ"}},
    "a file that holds it": {"name": "Read", "arguments": {"file_path": "notes.txt"}},
    "a search that finds it": {"name": "Grep", "arguments": {"pattern": "canary"}},
    "a command that prints it": {"name": "Bash", "arguments": {"command": "cat notes.txt encoded.txt"}},
}


def test_the_canary_is_nowhere_after_tools_showed_it(world: World) -> None:
    (world.workspace / "notes.txt").write_text(f"key: {CANARY}\n{quote(CANARY, safe='')}\n")
    (world.workspace / "encoded.txt").write_text(base64.b64encode(f"the key {CANARY}".encode()).decode())
    steps: list[dict[str, Any]] = [{"tool_calls": [asked]} for asked in BY_TOOLS.values()]
    with ScriptedModel([*steps, {"text": "{{last_result}}"}]) as model, Watch() as watch:
        chat(world, model, 'api_key_env = "MY_KEY"\n', autonomy="full")
        done = world.cli("agent", "-m", "look", "--provider", "here", env={"MY_KEY": CANARY})
        assert not any(form in request.body for request in model.requests for form in forms(CANARY))
    assert done.code in (0, 3)
    leaked(world, [CANARY], done.out, done.err)
    assert not watch.seen
    assert len(world.entries("tool_result")) == len(BY_TOOLS)


def test_the_canary_is_nowhere_after_a_person_typed_it(world: World) -> None:
    with ScriptedModel([{"text": "a key does not belong here"}]) as model:
        chat(world, model, 'api_key_env = "MY_KEY"\n')
        said = f"why does {CANARY} not work?\n/exit\n"
        done = world.cli.typed("agent", "--provider", "here", stdin=said, env={"MY_KEY": CANARY})
        assert CANARY.encode() not in model.requests[0].body
    assert done.code == 0, done.err
    leaked(world, [CANARY], done.out, done.err)


def test_the_canary_is_nowhere_after_a_helper_printed_it(world: World) -> None:
    key = world.cli.home.parent / "the-key"
    key.write_text(CANARY)
    with Watch() as watch, ScriptedMessages([{"error": {"status": 401, "message": f"no {CANARY}"}}]) as server:
        outputs: list[str] = []
        for command in (f"cat {key} >&2; exit 1", f"cat {key} {key}; exit 1", f"cat {key}; cat {key} >&2"):
            world.configure(more=f'[auth]\napi_key_helper = "{command}"\n')
            model_config(world, **CLAUDE)
            done = world.cli("agent", "-m", "hello", env={"ANTHROPIC_BASE_URL": server.base_url})
            assert done.code == 1
            outputs += [done.out, done.err]
        assert server.requests[0].headers["x-api-key"] == CANARY
    leaked(world, [CANARY], *outputs)
    assert not watch.seen


IN_URLS = ["https://{}@models.example/v1", "https://u:{}@models.example/v1", "https://models.example/v1?key={}"]


@pytest.mark.parametrize("place", ["file", "environment"])
def test_a_key_in_the_address_is_refused_and_not_kept(world: World, place: str) -> None:
    addresses = [url.format(quote(CANARY, safe="")) for url in IN_URLS]
    given = world.cli.data / "config.toml"
    if place == "file":
        table = '[providers.models.here{}]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "{}"\n'
        world.configure(more="".join(table.format(*one) for one in enumerate(addresses)))
    commands = (("agent", "-m", "hello"), ("config", "show"), ("provider", "list"), ("auth", "status"))
    runs = [(command, "" if place == "file" else addresses[0]) for command in commands]
    runs += [] if place == "file" else [(commands[0], address) for address in addresses[1:]]
    outputs: list[str] = []
    for command, address in runs:
        done = world.cli(*command, env={"OPENAI_BASE_URL": address} if address else {})
        assert done.code == 2, done.out
        assert done.err.count("user name, password or key") == (len(IN_URLS) if place == "file" else 1), done.err
        outputs += [done.out, done.err]
    given.unlink()
    leaked(world, [CANARY], *outputs)


def test_the_canary_is_nowhere_after_every_command(world: World, oauth: OAuthServer) -> None:
    world.configure(more='[auth]\nstorage = "file"\n' + oauth.config("claude_code_subscription"))
    model_config(world, **CLAUDE)
    variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")
    env: dict[str, str] = dict.fromkeys((*variables, "ADDERCLAW_PASSPHRASE"), CANARY)
    commands: list[tuple[str, ...]] = [
        ("init",),
        ("doctor",),
        ("config", "show", "--origin"),
        ("provider", "list"),
        ("auth", "status"),
        ("auth", "status", "--output-format", "json"),
        ("login", "--method", "device"),
        ("auth", "status", "--output-format", "json"),
        ("logout",),
        ("tool", "run", "Bash", "--json", '{"command": "env"}'),
        ("runs", "list"),
        ("memory", "list"),
    ]
    outputs: list[str] = []
    for command in commands:
        done = world.cli(*command, env=env)
        assert "Traceback" not in done.err
        outputs += [done.out, done.err]
    leaked(world, [CANARY, *oauth.issued], *outputs)


def test_nothing_heavy_for_a_key_from_the_environment(world: World) -> None:
    """Vault, OAuth and keyring are imported by those who use them."""
    model_config(world, **CLAUDE)
    with ScriptedMessages([HI, HI]) as server:
        env = {**world.cli.env, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "key-1234567"}
        world.cli("agent", "-m", "warm", env=env)
        program = "from adderclaw.terminal.commands import main; main()"
        command = [sys.executable, "-X", "importtime", "-c", program, "agent", "-m", "hello"]
        done = subprocess.run(command, env=env, cwd=world.cli.cwd, capture_output=True, text=True, input="")
    heavy = (
        "keyring",
        "cryptography",
        "httpx2",
        "adderclaw.models.credentials.vault",
        "adderclaw.models.credentials.oauth",
    )
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert not names & set(heavy)
