"""Notices of the installed program: who is told what, that nothing waits for it, and what a project cannot do."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from adderclaw.models.http.signing import new_secret
from tests.acceptance.world import World, call, text
from tests.program import keyboard
from tests.storage.telemetry.receivers import Receiver, certificate, until

CANARY = "canary-7f3a9b2c-never-to-leave"


def targets(world: World, more: str, autonomy: str = "supervised", **options: Any) -> None:
    world.configure(autonomy, more=more, **options)


def webhook(receiver: Receiver, more: str = "", name: str = "hook") -> str:
    return f'[notices.targets.{name}]\nkind = "webhook"\nurl = "{receiver.url()}"\n{more}\n'


def notices(world: World) -> list[tuple[Any, ...]]:
    return world.rows("SELECT target, kind, state, attempts, error FROM notices ORDER BY rowid")


def sent(receiver: Receiver) -> list[dict[str, Any]]:
    return [json.loads(one.body)["data"] for one in receiver.requests]


def test_a_run_that_ended_is_reported_signed_and_before_the_process_is_gone(world: World) -> None:
    secret = new_secret()
    world.script(text("hello"))
    with Receiver() as receiver:
        targets(world, webhook(receiver, 'secret_env = "HOOK_SECRET"'))
        done = world.cli("agent", "-m", "hi", env={"HOOK_SECRET": secret})
        assert done.code == 0, done.err
        (request,) = receiver.requests  # it is there now, not a moment later
    (data,) = sent(receiver)
    assert request.is_genuine(secret)
    assert (data["kind"], data["outcome"], data["workspace"]) == ("done", "completed", "workspace")
    ((run_id,),) = world.rows("SELECT run_id FROM runs")
    assert data["run_id"] == run_id
    assert data["seconds"] >= 0
    assert secret not in done.out + done.err + json.dumps(world.rows("SELECT * FROM settings_snapshot"))
    assert notices(world) == [("hook", "done", "sent", 1, "")]


def test_an_outcome_other_than_completed_says_why(world: World) -> None:
    steps = (call("file_list", path="."), call("file_list", path="."), text("unreached"))
    with Receiver() as receiver:
        for wanted in ("limit", "completed"):
            targets(world, webhook(receiver, f'outcomes = ["{wanted}"]'), rounds=1)
            world.script(*steps)
            assert world.agent("look").code not in (0, 1)
        (data,) = sent(receiver)
    assert data["outcome"] == "limit"
    assert data["reason"]
    assert data["title"] == "A run in workspace reached a limit"


def test_a_projects_file_brings_no_target_trusted_or_not(world: World) -> None:
    """Nor changes one of the operator's, nor switches one off."""
    with Receiver() as mine, Receiver() as theirs:
        targets(world, webhook(mine))
        (world.workspace / "agent.toml").write_text(
            f'[notices.targets.evil]\nkind = "webhook"\nurl = "{theirs.url()}"\n'
            f'[notices.targets.hook]\nenabled = false\nurl = "{theirs.url()}"\n[notices]\nwait_seconds = 99\n',
            encoding="utf-8",
        )
        for trusts in (False, True):
            if trusts:
                assert world.cli("trust", str(world.workspace), stdin="y\n").code == 0
            world.script(text("hello"))
            done = world.agent("hi")
            assert done.code == 0
            assert "notices.targets.evil.url" in done.err
            assert "only your own configuration can set this" in done.err
        assert (len(mine.requests), len(theirs.requests)) == (2, 0)
    shown = json.loads(world.cli("notices", "list", "--output-format", "json").out)
    assert [row["name"] for row in shown] == ["hook"]


def test_a_receiver_that_hangs_delays_the_end_by_its_bound_and_fails_nothing(world: World) -> None:
    world.script(text("hello"))
    with Receiver("hang") as receiver:
        targets(world, webhook(receiver, "timeout_seconds = 60"))
        began = time.monotonic()
        done = world.agent("hi")
        took = time.monotonic() - began
        receiver.moods[:] = ["ok"]
        assert done.code == 0
        assert "hello" in done.out
        assert 4.5 < took < 12
        assert [row[:3] for row in notices(world)] == [("hook", "done", "waiting")]
        world.script(text("again"))
        assert world.agent("hi").code == 0  # and the next run delivers what was left
        ids = [one.headers["webhook-id"] for one in receiver.requests]
    assert len(ids) == 3
    assert len(set(ids)) == 2
    assert ids[1] == ids[0]
    assert {row[2] for row in notices(world)} == {"sent"}


def test_what_fails_is_one_warning_with_the_reason_and_no_address(world: World) -> None:
    world.script(text("hello"))
    with Receiver("404") as receiver:
        targets(world, '[notices.targets.team]\nkind = "webhook"\nformat = "slack"\nurl_env = "TEAM"\n')
        address = receiver.url("/services/T0/B0/not-to-be-shown")
        done = world.cli("agent", "-m", "hi", env={"TEAM": address})
    assert done.code == 0
    assert done.err.count("was not delivered") == 1
    assert "'team': 127.0.0.1 answered 404" in done.err
    everything = done.err + done.out + str(notices(world)) + world.cli("notices", "history").out
    assert "not-to-be-shown" not in everything
    assert world.rows("SELECT count(*) FROM events WHERE event_type = 'warning' AND detail LIKE '%was not delivered%'")[
        0
    ] == (1,)


def test_a_question_that_waits_is_reported_and_answered_by_what_it_says(world: World) -> None:
    """With nobody at the terminal it is sent at once; the notice has the command, and no input of the call."""
    world.script(call("file_write", path="new.txt", content=f"{CANARY} x"), text("done"))
    with Receiver() as short, Receiver() as long:
        targets(world, webhook(short) + webhook(long, 'detail = "full"\non = ["needs_you"]', "long"))
        ours, theirs = keyboard()
        with ours, world.cli.start("agent", "-m", "write it", stdin=theirs) as process:
            os.close(theirs)
            try:
                (request,) = short.waited_for(1)
                data = json.loads(request.body)["data"]
                assert data["kind"] == "needs_you"
                assert (data["tool"], data["risk"]) == ("file_write", "medium")
                assert CANARY not in request.body.decode()
                assert "new.txt" not in request.body.decode()
                assert CANARY in long.waited_for(1)[0].body.decode()
                words = str(data["answer"]).split()
                assert words[:3] == ["adderclaw", "approvals", "answer"]
                assert world.cli(*words[1:]).code == 0
                assert process.wait(20) == 0
            finally:
                process.kill()
        assert (world.workspace / "new.txt").read_text() == f"{CANARY} x"
        assert [one["kind"] for one in sent(short)] == ["needs_you", "done"]


def test_a_question_that_gets_its_no_at_once_is_not_reported(world: World) -> None:
    world.script(call("file_write", path="new.txt", content="x"), text("done"))
    with Receiver() as receiver:
        targets(world, webhook(receiver))
        assert world.agent("write it").code in (0, 3)
        assert [one["kind"] for one in sent(receiver)] == ["done"]
    assert ("hook", "needs_you", "moot") in [row[:3] for row in notices(world)]


def test_killed_between_row_and_delivery_the_next_process_delivers(world: World) -> None:
    """kill -9 while the receiver has not answered: it is sent again, once, with the same id."""
    world.script(text("hello"))
    with Receiver("hang", "ok") as receiver:
        targets(world, webhook(receiver, "timeout_seconds = 60"))
        with world.cli.start("agent", "-m", "hi") as process:
            assert process.stdin is not None
            process.stdin.close()
            receiver.waited_for(1)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert world.rows("SELECT outcome FROM runs") == [("completed",)]
        assert [row[:3] for row in notices(world)] == [("hook", "done", "waiting")]
        world.script(text("again"))
        assert world.agent("hi").code == 0
        first, again, *_ = receiver.requests
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert len(receiver.requests) == 3


def test_no_secret_leaves_in_any_notice(world: World) -> None:
    world.script(text(f"the key is {CANARY} and sk-proj-abcdefghijklmnop0123456789ABCDEFGH"))
    with Receiver() as receiver:
        targets(world, webhook(receiver, 'detail = "full"\nsecret_env = "HOOK_SECRET"'))
        done = world.cli("agent", "-m", "hi", env={"HOOK_SECRET": CANARY})
        assert done.code == 0
        (request,) = receiver.requests
    assert "the key is [redacted]" in request.body.decode()
    everything = request.body.decode() + str(request.headers) + done.out + done.err
    assert CANARY not in everything
    assert "sk-proj-abc" not in everything
    with sqlite3.connect(world.database) as database:
        assert CANARY not in "\n".join(database.iterdump())


def test_at_a_terminal_only_what_takes_long_is_reported(world: World) -> None:
    """A question is sent once it has waited; a short run is not."""
    world.script(call("file_write", path="new.txt", content="x"), text("done"))
    with Receiver() as receiver:
        targets(world, webhook(receiver) + "[notices]\nwait_seconds = 2\n")
        assert world.cli("init").code == 0
        asked = at_terminal(world)
        try:
            until(lambda: world.database.exists() and bool(world.rows("SELECT 1 FROM approvals")), 20)
            began = time.monotonic()
            receiver.waited_for(1)
            assert time.monotonic() - began > 1
            assert [one["kind"] for one in sent(receiver)] == ["needs_you"]
            until(lambda: notices(world)[0][2] == "sent", 20)  # else the next start would send it again
        finally:
            asked.kill()
            asked.wait()
        world.script(text("hello"))
        targets(world, webhook(receiver))
        assert at_terminal(world).wait(20) == 0
        assert len(receiver.requests) == 1


def at_terminal(world: World) -> "subprocess.Popen[bytes]":
    """The program with a person at it."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        world.cli.argv("agent", "-m", "hi"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=world.cli.env,
        cwd=world.workspace,
        start_new_session=True,
    )
    os.close(theirs)
    threading.Thread(target=_read, args=(ours,), daemon=True).start()
    return process


def _read(fd: int) -> None:
    """What a terminal shows is read, or its program would wait."""
    with contextlib.suppress(OSError):
        while os.read(fd, 65_536):
            pass


def test_the_stop_is_reported(world: World) -> None:
    with Receiver() as receiver:
        targets(world, webhook(receiver))
        assert world.cli("estop").code == 0
        assert [one["kind"] for one in sent(receiver)] == ["estop"]
        assert world.cli("estop", "--status").code == 0
        assert world.cli("estop", "--clear").code == 0
        assert len(receiver.requests) == 1


def test_the_command_tries_lists_and_remembers(world: World, tmp_path: Path) -> None:
    cert = certificate(tmp_path)
    with Receiver() as good, Receiver("500") as bad, Receiver(trust=cert.server()) as sealed:
        more = f'[notices.targets.sealed]\nkind = "webhook"\nstored = ["url", "secret"]\nca_file = "{cert.file}"\n'
        targets(world, webhook(good, name="good") + webhook(bad, name="bad") + more)
        done = world.cli("notices", "test", "good")
        assert (done.code, done.out.startswith("good (webhook): delivered")) == (0, True), done.err
        done = world.cli("notices", "test")
        assert done.code == 1
        assert "bad (webhook): not delivered: 127.0.0.1 answered 500" in done.out
        assert "`adderclaw notices secret sealed url` stores it" in done.out
        url = sealed.url(scheme="https")
        assert world.cli("notices", "secret", "sealed", "url", stdin=url).code == 0
        made = json.loads(world.cli("notices", "secret", "sealed", "secret", "--new", "--output-format", "json").out)
        assert world.cli("notices", "test", "sealed").code == 0
        assert sealed.requests[0].is_genuine(made["secret"])
        history = json.loads(world.cli("notices", "history", "--state", "failed", "--output-format", "json").out)
        assert {row["target"] for row in history} == {"bad", "sealed"}
        shown = world.cli("notices", "list").out
        assert url not in shown
        assert world.cli("notices", "secret", "sealed", "url", "--forget").out == "removed\n"


def test_the_settings_show_no_address_of_a_webhook(world: World) -> None:
    targets(world, '[notices.targets.a]\nkind = "webhook"\nurl = "https://hooks.example.org/services/T0/unguessable"\n')
    for command in (("config", "show"), ("config", "show", "--origin"), ("notices", "list")):
        said = world.cli(*command).out
        assert "hooks.example.org" in said
        assert "unguessable" not in said


def test_doctor_names_what_a_target_lacks(world: World) -> None:
    more = '[notices.targets.a]\nkind = "webhook"\nurl = "https://example.org"\nca_file = "/nowhere/ca.pem"\n'
    targets(world, f'{more}[notices.targets.b]\nkind = "webhook"\nurl_env = "NOT_THERE"\n')
    said = world.cli("doctor").out
    assert "a (webhook): /nowhere/ca.pem cannot be read" in said
    assert "b (webhook): the variable NOT_THERE is not set" in said


@pytest.mark.parametrize("more", ["", '[notices.targets.a]\nkind = "webhook"\nurl = "http://127.0.0.1:9"\n'])
def test_nothing_of_it_is_imported_where_nothing_is_configured(world: World, more: str) -> None:
    targets(world, more)
    world.script(text("hello"))
    done = world.cli("agent", "-m", "hi", env={"PYTHONVERBOSE": "1"})
    assert done.code == 0
    assert ("adderclaw.agent.notices" in done.err) is bool(more)


def test_the_server_delivers_what_others_left(world: World) -> None:
    """And its runs leave their notices to its one courier."""
    world.script(text("hello"))
    with Receiver("hang", "ok") as receiver:
        targets(world, webhook(receiver, "timeout_seconds = 60"))
        with world.cli.start("agent", "-m", "hi") as process:
            assert process.stdin is not None
            process.stdin.close()
            receiver.waited_for(1)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        with world.cli.start("serve", "--port", "0") as server:
            try:
                receiver.waited_for(2, 15)
                until(lambda: notices(world)[0][2] == "sent")
            finally:
                server.send_signal(signal.SIGTERM)
                server.communicate(timeout=20)


SOP = 'name = "p"\n[[steps]]\nid = "ok"\nkind = "approval"\nprompt = "Go on?"\n'


def sop(world: World) -> None:
    file = world.workspace / "sops" / "p" / "SOP.toml"
    file.parent.mkdir(parents=True)
    file.write_text(SOP, encoding="utf-8")


def test_an_approval_step_is_reported_once_and_answered_later(world: World) -> None:
    """Who is sent the question need not be told that its run waits."""
    sop(world)
    with Receiver() as receiver, Receiver() as ends:
        targets(world, webhook(receiver) + webhook(ends, 'on = ["done"]', "ends"))
        assert world.cli("sop", "run", "p").code == 5
        (asked,) = sent(receiver)
        assert asked["kind"] == "needs_you"
        assert [one["outcome"] for one in sent(ends)] == ["needs_input"]
        assert world.cli(*str(asked["answer"]).split()[1:]).code == 0
        assert world.cli("sop", "resume", asked["run_id"]).code == 0
        assert [one["kind"] for one in sent(receiver)] == ["needs_you", "done"]
        assert sent(receiver)[1]["outcome"] == "completed"


def test_a_run_whose_process_was_killed_is_reported_by_the_next(world: World) -> None:
    sop(world)
    world.script(text("hello"))
    with Receiver() as receiver:
        other = '[notices.targets.b]\nkind = "webhook"\nurl = "http://127.0.0.1:9"\non = ["needs_you"]\n'
        targets(world, webhook(receiver, 'on = ["done"]') + other)
        assert world.cli("notices", "test", "hook").code == 0
        ours, theirs = keyboard()
        with ours, world.cli.start("sop", "run", "p", stdin=theirs) as process:
            os.close(theirs)
            until(lambda: bool(world.rows("SELECT 1 FROM approvals")), 20)
            process.kill()
            process.wait()
        assert world.agent("hi").code == 0
        found = {one.get("outcome"): one for one in sent(receiver)}
        assert set(found) == {None, "interrupted", "completed"}
        assert found["interrupted"]["title"] == "A run in workspace was interrupted"
        world.script(text("hello"))
        assert world.agent("hi").code == 0
        assert [one.get("outcome") for one in sent(receiver)].count("interrupted") == 1
