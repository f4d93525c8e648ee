"""`mcp login` from the outside: a real authorization server and a server that wants its tokens, both on loopback."""

import json
import sys
from collections.abc import Generator

import pytest

from tests.acceptance.world import World, call, text
from tests.oauth_server import OAuthServer
from tests.tools.mcp.guarded import Guarded


@pytest.fixture
def guarded() -> Generator[Guarded]:
    with OAuthServer() as oauth, Guarded(oauth) as server:
        yield server


def configure(world: World, server: Guarded, *, listed: bool = True) -> None:
    """The operator names the server; where its logins are made is private, and allowed only if it is listed."""
    place = json.dumps([server.oauth.url.removeprefix("http://")] if listed else [])
    table = f'[auth]\nstorage = "file"\n[mcp_servers.notes]\nurl = "{server.url}"\n'
    world.configure("full", security=f"allowed_domains = {place}", more=table)
    script = world.cli.home / "browser.py"
    script.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1], timeout=10).read()\n")
    world.cli.env["BROWSER"] = f"{sys.executable} {script} %s"


def test_login_use_renewal_and_logout(world: World, guarded: Guarded) -> None:
    oauth = guarded.oauth
    configure(world, guarded)
    oauth.quirks["expires_in"] = 30  # it is about to expire as soon as it is there
    done = world.cli("mcp", "login", "notes")
    assert (done.code, done.out) == (0, "logged in to notes\n"), done.err
    assert len(oauth.tokens_of("authorization_code")) == 1

    # two processes at once spend one refresh token; whoever waits takes what the other got
    oauth.quirks["expires_in"], oauth.quirks["slow_seconds"] = 3600, 0.5
    renewed = len(oauth.tokens_of("refresh_token"))
    both = [world.cli.start("mcp", "test", "notes") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert b"whoami" in out
    assert len(oauth.tokens_of("refresh_token")) == renewed + 1

    # a token that the server no longer takes, whatever its time, is renewed without anybody being asked
    oauth.access.clear()
    world.script(call("mcp__notes__whoami"), text("{{last_result}}"))
    used = world.agent("go")
    assert "asked 1 times" in used.out, used.err
    assert len(oauth.tokens_of("refresh_token")) == renewed + 2
    assert len(oauth.tokens_of("authorization_code")) == 1

    # a new login that fails takes nothing away
    oauth.access.clear()
    oauth.quirks["token_reply"] = (503, "text/html", "away")
    failed = world.cli("mcp", "login", "notes")
    assert failed.code == 1
    del oauth.quirks["token_reply"]
    assert world.cli("mcp", "test", "notes").code == 0, "the login of before still renews itself"

    assert world.cli("mcp", "logout", "notes").out == "logged out of notes\n"
    assert "adderclaw mcp login notes" in world.cli("mcp", "test", "notes").err
    for path in world.cli.home.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert not [secret for secret in oauth.issued if secret.encode() in data], path


def test_a_server_cannot_send_us_to_a_private_place(world: World, guarded: Guarded) -> None:
    """Its own address is the operator's word; what it names beside that is not."""
    configure(world, guarded, listed=False)
    done = world.cli("mcp", "login", "notes")
    assert done.code == 1
    assert "127.0.0.1" in done.err
    assert "private" in done.err or "loopback" in done.err
    assert not guarded.oauth.forms
    assert not guarded.oauth.issued


def test_a_person_logs_in_and_out_in_the_conversation(world: World, guarded: Guarded) -> None:
    configure(world, guarded)
    world.script(call("mcp__notes__whoami"), text("{{last_result}}"))
    lines = ("/mcp reconnect notes", "/mcp login notes", "who am I?", "/mcp logout notes", "/mcp reconnect notes")
    done = world.cli.typed("agent", stdin="".join(f"{line}\n" for line in (*lines, "/exit")))
    assert done.code == 0, done.err
    assert [line.split()[:2] for line in done.out.splitlines() if line.startswith("notes ")] == [
        ["notes", "failed"],
        ["notes", "ready"],
        ["notes", "idle"],
        ["notes", "failed"],
    ]
    assert done.out.count("it needs a login: `adderclaw mcp login notes`") == 2
    assert "logged in to notes\n" in done.out
    assert "asked 1 times" in done.out
    assert "logged out of notes\n" in done.out
    assert not [secret for secret in guarded.oauth.issued if secret in done.out + done.err]
    assert len(guarded.oauth.tokens_of("authorization_code")) == 1, "a later connection opens no browser"
