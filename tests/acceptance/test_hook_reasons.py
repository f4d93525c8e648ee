"""Each source, reason and error that hooks can be told of (D-98, D-99) comes about in the program."""

import json
from pathlib import Path

import pytest

from tests.acceptance.test_hook_events import heard, listen
from tests.acceptance.world import World, text


def told(world: World, event: str, field: str) -> list[str]:
    return [one[field] for one in heard(world) if one["hook_event_name"] == event]


def test_19_every_source_of_a_session_is_told(world: World) -> None:
    listen(world, "SessionStart", "SessionEnd")
    world.script(text("one"), text("A SUMMARY"), text("two"), text("three"), text("four"))
    world.fixture.write_text(json.dumps({**json.loads(world.fixture.read_text()), "partial": True}))
    world.agent("hello")
    assert told(world, "SessionStart", "source") == ["startup"]
    assert told(world, "SessionEnd", "reason") == ["other"]
    (world.cli.home / "heard").unlink()
    world.agent("again", "--continue")
    assert told(world, "SessionStart", "source") == ["resume"], "a resumed session is no start"
    ((first,),) = world.rows("SELECT id FROM conversations")
    (world.cli.home / "heard").unlink()
    lines = ("hello", "/compact", "more", "/clear", f"/resume {first}", "and on", "/exit")
    done = world.cli.typed("agent", stdin="".join(f"{line}\n" for line in lines))
    assert done.code == 0, done.err
    assert told(world, "SessionStart", "source") == ["startup", "compact", "clear", "resume"]
    assert told(world, "SessionEnd", "reason") == ["clear", "resume", "prompt_input_exit"]
    started = [one["conversation_id"] for one in heard(world) if one["hook_event_name"] == "SessionStart"]
    assert started[-1] == first
    assert len(set(started)) == 3


def test_19_a_session_ends_where_its_login_or_its_mode_does(world: World) -> None:
    world.configure(more='[auth.oauth.local]\nclient_id = "me"\ntoken_url = "https://127.0.0.1:9/token"')
    listen(world, "SessionEnd")
    settings = world.cli.data / "settings.json"
    given = json.loads(settings.read_text())
    done = world.cli.typed("agent", stdin="/logout local\nnever read\n")
    assert done.code == 0, done.err
    assert told(world, "SessionEnd", "reason") == ["logout"]
    (world.cli.home / "heard").unlink()
    given["permissions"] = {"disableBypassPermissionsMode": "disable"}
    off = json.dumps(given)
    world.script(text("one"))
    given["hooks"]["Stop"] = [
        {"hooks": [{"type": "command", "shell": "sh", "command": f"cp {settings}.new {settings}"}]}
    ]
    del given["permissions"]
    settings.write_text(json.dumps(given))
    Path(f"{settings}.new").write_text(off)
    mode = ("--permission-mode", "bypassPermissions")
    done = world.cli.typed("agent", *mode, stdin="first\nsecond\nnever read\n")
    assert done.code == 0, done.err
    assert "disables bypassPermissions" in done.out
    assert told(world, "SessionEnd", "reason") == ["bypass_permissions_disabled"]
    assert len(world.entries("user")) == 1, "the second message was not sent"


ERRORS = (
    *("authentication_failed", "billing_error", "rate_limit", "invalid_request", "server_error", "unknown"),
    "max_output_tokens",
)


@pytest.mark.parametrize("error", ERRORS)
def test_19_every_error_of_a_model_is_told(world: World, error: str) -> None:
    listen(world, "StopFailure")
    step = {"error": {"kind": error, "message": "scripted"}}
    world.fixture.write_text(json.dumps({"steps": [step] * 8, "partial": True}))
    world.cli.env["ADDERCLAW_MOCK_FIXTURE"] = str(world.fixture)
    assert world.agent("hello").code != 0
    assert told(world, "StopFailure", "error") == [error]


def test_19_what_a_hook_prints_is_kept_as_it_was_decoded(world: World) -> None:
    """5 MB of NUL took 21 MB, as their escapes; bytes that are no text take three each."""
    settings = world.cli.data / "settings.json"
    prints = {"Stop": "head -c 5000000 /dev/zero", "SessionEnd": "head -c 5000000 /dev/zero | tr '\\0' '\\377'"}
    prints["SessionStart"] = "printf 'a\\033[31m\\000b\\377c'"
    hooks = {
        event: [{"hooks": [{"type": "command", "command": command, "shell": "sh"}]}]
        for event, command in prints.items()
    }
    settings.write_text(json.dumps({"hooks": hooks}))
    world.script(text("done"))
    assert world.agent("hello").code == 0
    sql = "SELECT hook_event, length(CAST(stdout_text AS BLOB)) FROM hook_invocations"
    sizes = dict(world.rows(sql))
    assert 4_000_000 < sizes["Stop"] <= 4_194_304 + 100
    assert 4_000_000 < sizes["SessionEnd"] <= 4_194_304 + 100
    ((kept,),) = world.rows("SELECT CAST(stdout_text AS BLOB) FROM hook_invocations WHERE hook_event = 'SessionStart'")
    assert kept == b"a\x1b[31m\x00b\xef\xbf\xbdc"
