"""The webhook channel of the installed program: its commands, a kill between a claim and its turn, the examples."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.program import Cli
from tests.server.conftest import Process
from tests.server.signed_client import headers, post_now

type Serve = Callable[..., Process]

CONFIG = """
default_provider = "local"
[security]
autonomy = "supervised"
[providers.models.local]
kind = "mock"
model = "mock"
fixture = "{fixture}"
[channels.webhook.chat]
[channels.webhook.chat.senders."alice@example.org"]
workspace = "{workspace}"
[channels.webhook.broken]
reply = "post"
[channels.webhook.broken.senders.bob]
workspace = "{workspace}/nowhere"
"""


@pytest.fixture
def bridged(cli: Cli, workspace: Path) -> Cli:
    cli.configure(CONFIG.format(fixture=cli.data / "script.json", workspace=workspace))
    steps = {"steps": [{"text": "Hello from here."}] * 4, "partial": True}
    (cli.data / "script.json").write_text(json.dumps(steps), encoding="utf-8")
    return cli


def made_secret(cli: Cli) -> str:
    done = cli("channel", "secret", "chat", "--output-format", "json")
    assert done.code == 0, done.err
    return str(json.loads(done.out)["secret"])


def test_the_commands_refuse_what_cannot_work(bridged: Cli) -> None:
    for arguments, words in (
        (("channel", "secret", "nobody"), "there is no channel 'nobody'"),
        (("channel", "secret", "chta"), "did you mean chat"),
        (("channel", "secret", "chat", "--old", "soon"), "--old 'soon' is not a duration"),
        (("channel", "secret", "chat", "--given"), "standard input has no secret"),
        (("channel", "test", "chat", "--sender", "alice@example.org"), "channel chat has no secret"),
    ):
        done = bridged(*arguments)
        assert done.code != 0
        assert words in done.err, done.err
        assert "Traceback" not in done.err
    weak = bridged("channel", "secret", "chat", "--given", stdin="short\n")
    assert "at least 24" in weak.err
    made_secret(bridged)
    nobody = bridged("channel", "test", "chat", "--sender", "alice@example.org")
    assert "no server" in nobody.err
    doctor = bridged("doctor", "--output-format", "json")
    checks = {(one["name"], one["detail"]) for one in json.loads(doctor.out)["checks"] if "channel" in one["name"]}
    assert {name for name, _ in checks} == {"channel broken"}
    assert len(checks) == 3


def test_a_secret_is_shown_once_and_listed_never(bridged: Cli) -> None:
    secret = made_secret(bridged)
    listed = bridged("channel", "list", "--output-format", "json")
    rows = {row["name"]: row for row in json.loads(listed.out)}
    assert (rows["chat"]["secrets"], rows["chat"]["problems"]) == (1, [])
    assert len(rows["broken"]["problems"]) == 3
    text = bridged("channel", "list").out
    assert "alice@example.org" in text
    assert secret not in text + listed.out
    assert (bridged.data / "webhooks.json").stat().st_mode & 0o777 == 0o600


def test_a_message_by_hand_and_who_it_came_from(bridged: Cli, serve: Serve) -> None:
    made_secret(bridged)
    server = serve()
    done = bridged("channel", "test", "chat", "--sender", "alice@example.org")
    assert (done.code, done.out) == (0, "Hello from here.\n"), done.err
    assert "is not listed" in bridged("channel", "test", "chat", "--sender", "mallory").err
    with server.client(server.token()) as client:
        (row,) = client.get("/conversations").json()["conversations"]
        assert row["came_from"] == "alice@example.org over chat"
        assert "from alice@example.org over chat" in client.get("/ui/conversations").text
        assert "from alice@example.org over chat" in client.get(f"/ui/conversations/{row['id']}").text
    assert server.end() == 0


FOREVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1e12) SELECT count(*) FROM n"
"""The database works on this for hours: the server is where it opens the conversation, behind its claim."""


def suppressed(url: str, body: bytes, signed: dict[str, str]) -> None:
    with contextlib.suppress(httpx2.HTTPError):
        post_now(url, "/channels/chat/messages", body, signed)


def test_killed_after_the_claim_nothing_begins_twice_and_the_sender_is_told(bridged: Cli, serve: Serve) -> None:
    """At most once: what a killed server had claimed, and not begun, is sent again with a new id."""
    secret = made_secret(bridged)
    server = serve()
    body = json.dumps({"sender": "alice@example.org", "message_id": "m1", "text": "hi"}).encode()
    signed = headers(body, secret=secret)
    with sqlite3.connect(bridged.data / "memory.sqlite") as other:
        other.execute(f"CREATE TRIGGER slow BEFORE INSERT ON conversations BEGIN SELECT ({FOREVER}); END")
    sending = threading.Thread(target=suppressed, args=(server.url, body, signed))
    sending.start()
    claimed = sqlite3.connect(f"file:{bridged.data / 'memory.sqlite'}?mode=ro", uri=True)
    while not claimed.execute("SELECT 1 FROM deliveries").fetchone():
        time.sleep(0.01)
    claimed.close()
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait(30)
    sending.join(30)
    with sqlite3.connect(bridged.data / "memory.sqlite") as other:
        other.execute("DROP TRIGGER slow")
    again = serve()
    told = post_now(again.url, "/channels/chat/messages", body, signed)
    assert (told.status, told.code) == (409, "unsettled")
    assert "with a new id" in told.json["error"]["message"]
    fresh = json.dumps({"sender": "alice@example.org", "message_id": "m2", "text": "hi"}).encode()
    assert post_now(again.url, "/channels/chat/messages", fresh, headers(fresh, secret=secret)).status == 200


def test_killed_in_the_middle_of_a_turn_the_conversation_goes_on(bridged: Cli, serve: Serve) -> None:
    secret = made_secret(bridged)
    first = serve()

    def say(server: Process, id: str, words: str) -> Any:
        body = json.dumps({"sender": "alice@example.org", "message_id": id, "text": words}).encode()
        return post_now(server.url, "/channels/chat/messages", body, headers(body, secret=secret)).json

    before = say(first, "m1", "hi")["conversation_id"]
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait(30)
    second = serve()
    after = say(second, "m2", "and again")
    assert (after["conversation_id"], after["text"]) == (before, "Hello from here.")
    assert say(second, "m1", "hi")["error"]["code"] == "replayed"


def test_the_bridge_example_carries_messages_both_ways(bridged: Cli, serve: Serve) -> None:
    """examples/channels/bridge.py, as a chat system would run it: lines in, answers out."""
    secret = made_secret(bridged)
    server = serve()
    bridge = subprocess.run(
        [sys.executable, "examples/channels/bridge.py", f"{server.url}/channels/chat/messages"],
        input="alice@example.org: hi\nmallory: let me in\nalice@example.org: again\n",
        env={"PATH": os.environ["PATH"], "BRIDGE_SECRET": secret},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert bridge.returncode == 0, bridge.stderr
    assert bridge.stdout.splitlines() == [
        "to alice@example.org: Hello from here.",
        "to mallory: (refused: 'mallory' is not listed as a sender of this channel)",
        "to alice@example.org: Hello from here.",
    ]
    assert server.end() == 0
