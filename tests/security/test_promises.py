"""Sentences of docs/security.md that no other attack shows, each by its effect."""

import asyncio
import json
import os
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

import adderclaw
from adderclaw.config.schema import Limits
from adderclaw.models.http.client import Failed, request
from adderclaw.models.http.urls import Hosts, parse
from tests.acceptance.test_stop_and_limits import running
from tests.acceptance.world import call
from tests.sandbox.test_process import wait_for
from tests.scripted import ScriptedModel
from tests.security.world import Den

PUBLIC = "8.8.8.8"
LATER = (".envrc", ".vscode/tasks.json", ".github/workflows/ci.yml")


@pytest.mark.parametrize("profile", ["supervised", "sandboxed", "permissive"])
def test_write_and_edit_on_what_programs_run_later_ask_in_every_mode(world: Den, profile: str) -> None:
    """Nobody answers here: what was not asked about would have been written."""
    (world.workspace / ".vscode").mkdir()
    (world.workspace / ".vscode" / "tasks.json").write_text("{}")
    writes = [call("Write", file_path=name, content="evil") for name in LATER if name != ".vscode/tasks.json"]
    edit = call("Edit", file_path=".vscode/tasks.json", old_string="{}", new_string="evil")
    world.script(*writes, call("Read", file_path=".vscode/tasks.json"), edit, {"text": "done"})
    world.prepare()
    done = world.cli("agent", "-m", "go", "--profile", profile, stdin="")
    assert done.err.count("decides what other programs run\n  args:") == 3, done.err
    assert [(world.workspace / name).exists() for name in LATER] == [False, True, False]
    assert (world.workspace / ".vscode" / "tasks.json").read_text() == "{}"


def test_our_own_files_are_refused_under_any_name(anyone: Den) -> None:
    den = anyone
    os.link(den.canaries.ours / "receipt.key", den.workspace / "innocent.txt")
    (den.workspace / "link.txt").symlink_to(den.canaries.ours / "receipt.key")
    den.configure(security='allowed_commands = ["cp"]')
    reads = [call("Read", file_path=name) for name in ("innocent.txt", "link.txt")]
    attack = den.attack(
        *reads, call("Delete", path="innocent.txt"), "cat innocent.txt", "cat link.txt", "cp innocent.txt copy.txt"
    )
    copied = (f"{den.workspace}/innocent.txt has", f"{den.canaries.ours}/checkpoints/")  # the file itself, and our copy
    found = [line for line in den.harmed(attack) if not line.startswith(copied)]
    assert not found, "\n".join(found)
    assert [one["status"] for one in attack.receipts] == ["denied"] * 6


def test_memory_and_file_size_have_an_end(anyone: Den) -> None:
    eats = 'python3 -c "x = bytearray(1 << 38)"'
    fills = "python3 -c \"open('big', 'wb').truncate(1 << 40)\""
    attack = anyone.attack(eats, fills)
    assert "MemoryError" in attack.results[0]
    assert not (anyone.workspace / "big").exists() or (anyone.workspace / "big").stat().st_size == 0
    anyone.unharmed(attack)


# ------------------------------------------------------------------ network


def test_a_name_is_resolved_once_and_what_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers with this machine from the second question on gains nothing."""
    asked: list[str] = []

    def resolver(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        address = PUBLIC if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    with socket.create_server(("127.0.0.1", 0)) as inner:
        inner.setblocking(False)
        target = parse(f"http://rebound.example:{inner.getsockname()[1]}/")
        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        with pytest.raises(Failed):
            asyncio.run(request(target, headers={}, hosts=Hosts(), seconds=2, limit=100))
        with pytest.raises(BlockingIOError):
            inner.accept()
    assert [host for host in asked if host != PUBLIC] == ["rebound.example"]


CONNECTS = re.compile(
    r"^\s*(?:import|from) (?:httpx2|httpcore2|http\.client|urllib\.request|aiohttp|requests|smtplib)\b"
    r"|\b(?:create_connection|open_connection|sock_connect|getaddrinfo|psycopg\.connect|Connection\.connect)\(",
    re.MULTILINE,
)
OPENS = {
    "models/http/client.py": "the one client",
    "tools/mcp/streams.py": "MCP over http, on the same checked connections",
    "tools/mcp/oauth.py": "names the types of its requests, which the one client makes",
    "sandbox/proxy.py": "what commands, git and the browser reach",
    "models/providers/wire.py": "models that the operator configured",
    "agent/notices/mail.py": "the mail server that the operator configured",
    "storage/telemetry/records.py": "the collector that the operator configured",
    "terminal/legacy/attach/link.py": "the server of this home, for the operator's own commands",
    "terminal/commands/channel.py": "the same, for `channel test`",
    "fleet/database.py": "the fleet's PostgreSQL that the operator named",
    "models/http/upstream.py": "the proxy that the operator's environment names",
    "models/local_servers.py": "model servers of this machine, asked by `init`",
}


def test_nothing_else_opens_a_connection() -> None:
    source = Path(adderclaw.__file__).parent
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if CONNECTS.search(path.read_text())}
    assert found == {*OPENS}


# ------------------------------------------------------------------ secrets


def test_what_looks_like_a_secret_is_in_no_event_log_receipt_error_or_shown_answer(world: Den) -> None:
    """No key of ours: only its shape tells it. The model reads and writes files as they are."""
    token = "ghp_" + "Zq8Xw2Lm5Rt9Yb3Nc7Vd1Kf6Hj4Gs0Pa8Ue2"
    (world.workspace / "notes.txt").write_text(f"deploy with {token}\n")
    steps: list[Any] = [
        call("Read", file_path="notes.txt"),
        call("Bash", command=f"cat notes.txt {token}"),
        call("Write", file_path=f"{token}.txt", content=token),
        {"text": f"it is {token}"},
    ]
    with ScriptedModel(steps) as model:
        entry = f'[providers.models.here]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "{model.base_url}"\n'
        world.configure("full", more=entry)  # who is asked sees what it is about
        done = world.cli("agent", "-m", f"look for {token}", "--provider", "here", "--output-format", "stream-json")
        assert token.encode() in model.requests[-1].body
    assert token not in done.err
    assert token not in done.out
    assert json.loads(done.out.splitlines()[-1])["answer"] == "it is [redacted]"
    assert world.rows("SELECT answer FROM runs") == [(f"it is {token}",)]
    kept = [path for path in (*world.cli.data.glob("runs/*/*"), world.log) if path.is_file()]
    assert len(kept) > 1
    assert not [path for path in kept if token.encode() in path.read_bytes()]


# ------------------------------------------------------------------ receipts, limits, the stop


def test_every_attempted_call_leaves_a_receipt(world: Den) -> None:
    """Whatever keeps it from running: no such tool, arguments that do not fit or are no JSON, a guard, a hook, a no."""
    hook = {"type": "command", "command": "exit 2", "shell": "sh"}
    hooks = {"hooks": {"PreToolUse": [{"matcher": "LS", "hooks": [hook]}]}}
    (world.cli.data / "settings.json").write_text(json.dumps(hooks))
    broken: dict[str, Any] = {"tool_calls": [{"name": "Read", "arguments": '{"file_path": "a'}]}
    steps = [
        call("NoSuchTool", x=1),
        call("Read", wrong="argument"),
        broken,
        call("Read", file_path="/etc/shadow"),
        call("Bash", command="sudo id"),
        call("LS", path="."),
        call("Write", file_path="new.txt", content="x"),
        call("Bash", command="cat missing.txt"),
        call("Read", file_path="a.txt"),
    ]
    world.script(*steps, {"text": "done"})
    world.prepare()
    done = world.cli("agent", "-m", "go", stdin="n\n" * len(steps))
    receipts = world.receipts()
    assert [one["status"] for one in receipts[3:7]] == ["denied"] * 4, done.err
    assert len(receipts) == len(steps), receipts
    assert len(world.rows("SELECT DISTINCT tool_use_id FROM receipts")) == len(steps)
    assert not (world.workspace / "new.txt").exists()
    assert world.cli("receipt", "verify").code == 0


def test_limits_are_on_where_nobody_set_one(world: Den) -> None:
    """200 calls is the configuration's own word; the model asks for one more in the same breath."""
    calls = [*call("Time")["tool_calls"]] * 201
    world.script({"tool_calls": calls}, {"text": "done"})
    world.prepare()
    done = world.cli("agent", "-m", "go", timeout=300)
    assert done.code == 4, done.err
    ran = [one for one in world.receipts() if one["status"] == "allowed"]
    assert len(ran) <= 200
    for name in ("cost_usd", "tokens", "tool_calls", "seconds"):
        assert 0 < getattr(Limits(), name) < 10**7


def test_the_stop_ends_commands_and_tasks_within_a_second(world: Den) -> None:
    """A busy machine gets several tries at that."""
    (world.workspace / "task98764.py").write_text("import time\nopen('up', 'w').close()\ntime.sleep(600)\n")
    world.configure("full", 'allowed_commands = ["sleep", "python3"]')
    took: list[float] = []
    while len(took) < 8 and min(took, default=9) > 1:
        (world.workspace / "up").unlink(missing_ok=True)
        task = call("Bash", command="python3 task98764.py", run_in_background=True)
        waits = call("Bash", command="until test -e up; do sleep 0.05; done")
        world.script(task, waits, call("Bash", command="sleep 98764.6"))
        world.prepare()
        process = world.cli.start("agent", "-m", "go")
        wait_for(lambda: bool(running("98764.6")), 90, "the command to start")
        assert running("task98764.py")
        assert world.cli("estop").code == 0
        began = time.monotonic()
        wait_for(lambda: not running("98764"), 60, "both to end")
        took.append(time.monotonic() - began)
        process.communicate(timeout=60)
        assert process.returncode == 6
        assert world.cli("estop", "--clear").code == 0
    assert min(took) <= 1, took
