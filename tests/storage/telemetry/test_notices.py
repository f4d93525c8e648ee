"""Notices from a row to a receiver: what is wanted, what leaves, and what hostile or broken receivers can do."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from adderclaw.agent.notices import listener, mail, webhook
from adderclaw.agent.notices.courier import Courier, Place
from adderclaw.agent.notices.letter import Letter
from adderclaw.agent.notices.listener import NoticeContext
from adderclaw.agent.notices.notice import Notice
from adderclaw.agent.notices.subscriptions import awake, body, is_subscribed, send
from adderclaw.agent.session.clock import random_ids
from adderclaw.config.schema import Config, Notices, NoticeTarget
from adderclaw.core.events import Bus
from adderclaw.core.redaction import Secrets
from adderclaw.models.http.signing import new_secret
from adderclaw.storage import Store
from adderclaw.storage import notices as rows_of
from tests.models.credentials.making import Time
from tests.rows import rows
from tests.storage.telemetry.receivers import Certificate, Mailbox, Receiver, certificate, until

SECRET_SHAPE = "sk-proj-abcdefghijklmnop0123456789ABCDEFGH"
HOSTILE = "Bcc: evil@example.org\r\nX: y\r\n\r\n<!channel> @everyone \x1b]0;owned\x07 \u202e"


def target(kind: str, **more: Any) -> NoticeTarget:
    return NoticeTarget(kind=kind, **more)  # pyright: ignore[reportArgumentType]


class Post:
    """A store, and the targets that are configured."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        self.home = folder / "home"
        self.home.mkdir()
        monkeypatch.setenv("ADDERCLAW_HOME", str(self.home))
        self.store = Store.open(str(folder / "memory.sqlite"))
        self.complaints: list[str] = []
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.targets: dict[str, NoticeTarget] = {}

    def set(self, name: str, value: str) -> str:
        self._patch.setenv(name, value)
        return name

    def send(self, notice: Notice | None = None, **targets: NoticeTarget) -> None:
        self.targets = targets or self.targets
        made = notice or Notice("done", "A run in shop is done", "It took 3 s.", workspace=str(self.workspace))
        send(Notices(targets=self.targets), self.store, made, now=time.time())

    def courier(self) -> Courier:
        settings = Config(notices=Notices(targets=self.targets))
        return Courier(Place(self.store.path, str(self.home), lambda: settings, self.complaints.append))

    def deliver(self, seconds: float = 5.0) -> bool:
        return self.courier().close(seconds)

    def only(self) -> rows_of.Row:
        (row,) = rows_of.history(self.store, limit=10)
        return row


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Post]:
    made = Post(tmp_path, monkeypatch)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def cert(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("certificate"))


ENDS = """
import atexit, sys
from adderclaw.config.schema import Config
from adderclaw.agent.notices.courier import Courier, Place
courier = Courier(Place(sys.argv[1], sys.argv[2], Config, print))
atexit.register(courier.close)
"""


def test_a_courier_that_ends_with_its_process_leaves_no_traceback(post: Post) -> None:
    """A command that tells somebody as its last act: by then no thread can be started any more."""
    done = subprocess.run(
        [sys.executable, "-c", ENDS, post.store.path, str(post.home)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ------------------------------------------------------------------ who wants what


DONE = Notice("done", "t", "x", workspace="/w/shop/api", facts={"outcome": "error", "seconds": 40.0})
WANTED = [
    (target("webhook"), DONE, True),
    (target("webhook", enabled=False), DONE, False),
    (target("webhook", on=["needs_you"]), DONE, False),
    (target("webhook", outcomes=["completed"]), DONE, False),
    (target("webhook", outcomes=["completed", "error"]), DONE, True),
    (target("webhook", min_seconds=41), DONE, False),
    (target("webhook", min_seconds=40), DONE, True),
    (target("webhook", workspaces=["/w/shop"]), DONE, True),
    (target("webhook", workspaces=["/w/sho"]), DONE, False),
    (target("webhook", workspaces=["/w/shop"]), DONE._replace(workspace=""), False),
    (target("webhook", workspaces=["/w/shop"]), DONE._replace(workspace="/w/shop/../other"), False),
    (target("webhook", outcomes=["completed"], min_seconds=99), DONE._replace(kind="needs_you"), True),
]


@rows(("one", "notice", "is_wanted"), WANTED)
def test_a_target_has_what_it_wants(one: NoticeTarget, notice: Notice, is_wanted: bool) -> None:
    assert is_subscribed(one, notice) is is_wanted


def test_quiet_hours_end_when_the_clock_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the night in which it is put back: 02:30 of 25 October 2026 in Berlin comes twice."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        noon, night = 1_792_922_400.0, 1_792_886_400.0  # 12:00 and 02:00 summer time
        seven = 1_792_908_000.0  # 07:00 winter time
        assert time.strftime("%H:%M", time.localtime(seven)) == "07:00"
        assert awake("22:00-07:00", noon) == noon
        assert awake("22:00-07:00", night) == seven
        assert awake("22:00-07:00", seven) == seven
        assert awake("", night) == night
        assert time.strftime("%H:%M", time.localtime(awake("11:00-13:30", noon))) == "13:30"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_same_is_written_once_and_a_settled_question_is_not_sent(post: Post) -> None:
    asked = Notice("needs_you", "Bash waits", "x", about="approval-1")
    with Receiver() as receiver:
        post.send(asked, hook=target("webhook", url=receiver.url()))
        post.send(asked)
        with post.store.write() as cursor:
            rows_of.mark_moot(cursor, "approval-1", time.time())
        assert post.deliver()
    assert (post.only().state, receiver.requests) == ("moot", [])


# ------------------------------------------------------------------ what leaves


def test_nothing_secret_and_nothing_that_steers_leaves() -> None:
    secrets = Secrets()
    secrets.add("correct-horse-battery")
    said = f"{HOSTILE} correct-horse-battery {SECRET_SHAPE}"
    notice = Notice("done", said, said * 50, workspace=f"/w/{said}", facts={"reason": said}, full=said * 500)
    for detail in ("summary", "full"):
        made = body(notice, target("webhook", detail=detail), "id", 0.0, secrets.clean)
        text = json.dumps(made, ensure_ascii=False)
        assert "correct-horse" not in text
        assert SECRET_SHAPE not in text
        assert not {"\x1b", "\x07", "\u202e", "\r"} & set("".join(str(value) for value in made.values()))
        assert "\n" not in made["title"] + made["reason"] + made["workspace"]
        assert len(text) < 9_000
    short = body(notice._replace(text="short", full="THE INPUT"), target("webhook"), "id", 0.0, secrets.clean)
    assert "THE INPUT" not in json.dumps(short)


def _letter(made: NoticeTarget, title: str = HOSTILE, text: str = HOSTILE, **more: Any) -> Letter:
    """As if the cleaning had let everything through: the forms hold by themselves."""
    return Letter("needs_you-1", {"kind": "needs_you", "title": title, "text": text}, made, {}, **more)


def test_a_model_cannot_add_a_header_or_a_mention() -> None:
    made = mail.message(_letter(target("email", host="h", sender="a@b.org", to=["c@d.org"]), now=1e9))
    assert made["Bcc"] is None
    assert made["X"] is None
    assert made["To"] == "c@d.org"
    assert "\n" not in str(made["Subject"])
    slack = json.loads(webhook.content(_letter(target("webhook", format="slack"))).body)
    assert "<!channel>" not in slack["text"]
    discord = json.loads(webhook.content(_letter(target("webhook", format="discord"))).body)
    assert discord["allowed_mentions"] == {"parse": []}
    ntfy = webhook.content(_letter(target("webhook", format="ntfy"), title=f"ß\r\nX-Evil: 1 {HOSTILE}"))
    assert ntfy.headers["title"].isascii()
    assert ntfy.headers["title"].isprintable()
    assert set(ntfy.headers) == {"content-type", "title", "priority", "tags"}


# ------------------------------------------------------------------ webhooks


def test_a_signed_request_arrives_as_documented(post: Post) -> None:
    secret = new_secret()
    with Receiver() as receiver:
        one = target("webhook", url=receiver.url(), secret_env=post.set("N_SECRET", secret))
        post.send(Notice("done", "A run is done", "x", run_id="r1", facts={"outcome": "completed"}), hook=one)
        assert post.deliver()
        (request,) = receiver.requests
    sent = json.loads(request.body)
    assert sent["type"] == "notice.done"
    assert sent["data"]["outcome"] == "completed"
    assert sent["data"]["id"] == request.headers["webhook-id"] == post.only().id
    assert request.is_genuine(secret)
    assert not request._replace(body=request.body + b" ").is_genuine(secret)
    assert not request.is_genuine(new_secret())
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 60
    assert (post.only().state, post.complaints) == ("sent", [])


def test_what_fails_is_sent_again_with_the_same_id(post: Post) -> None:
    with Receiver("503", "ok") as receiver:
        post.send(hook=target("webhook", url=receiver.url()))
        assert post.deliver()
        first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert (post.only().state, post.only().attempts) == ("sent", 2)
    (complaint,) = post.complaints
    assert "503" in complaint
    assert "will be retried" in complaint


FINAL = [
    ("404", "answered 404"),
    ("410", "answered 410"),
    ("redirect http://127.0.0.1:1/elsewhere", "redirects (302), which is not followed"),
]


@pytest.mark.parametrize(("mood", "why"), FINAL)
def test_what_will_never_arrive_is_given_up_at_once(post: Post, mood: str, why: str) -> None:
    with Receiver(mood) as receiver:
        post.send(hook=target("webhook", url=receiver.url("/services/T000/very-secret-path")))
        assert post.deliver()
        assert len(receiver.requests) == 1
    row = post.only()
    assert row.state == "failed"
    assert why in row.error
    assert len(post.complaints) == 1
    assert "very-secret" not in row.error + post.complaints[0]


def test_a_receiver_that_asks_for_time_gets_it(post: Post) -> None:
    with Receiver("429 1800") as receiver:
        post.send(hook=target("webhook", url=receiver.url()))
        began = time.monotonic()
        assert post.deliver()
        assert time.monotonic() - began < 4
    assert post.only().state == "waiting"
    assert 1_700 < post.only().due_at - time.time() < 1_900


@pytest.mark.parametrize("mood", ["hang", "drip"])
def test_a_receiver_that_hangs_holds_nobody_up(post: Post, mood: str) -> None:
    """Neither the end of the run, nor another target; and what was not delivered waits."""
    with Receiver(mood) as bad, Receiver() as good:
        post.send(bad=target("webhook", url=bad.url(), timeout_seconds=30), good=target("webhook", url=good.url()))
        began = time.monotonic()
        post.deliver(1.5)
        assert time.monotonic() - began < 3
        assert len(good.requests) == 1
    states = {row.target: row.state for row in rows_of.history(post.store, limit=5)}
    assert states["good"] == "sent"
    until(lambda: {row.target: row.state for row in rows_of.history(post.store, limit=5)}["bad"] == "waiting")


def test_a_huge_answer_is_not_read(post: Post) -> None:
    with Receiver("huge") as receiver:
        post.send(hook=target("webhook", url=receiver.url()))
        assert post.deliver()
    assert post.only().state == "sent"


def test_private_addresses_are_refused_unless_the_operator_says_so(post: Post, cert: Certificate) -> None:
    """A name that leads to this machine is private, too: only what is written as loopback is meant as that."""
    with Receiver(trust=cert.server()) as receiver:
        urls = ("https://10.1.2.3/x", "https://[::ffff:127.0.0.1]:9/x", "https://169.254.169.254/")
        post.targets = {f"p{at}": target("webhook", url=url) for at, url in enumerate(urls)}
        post.send()
        assert post.deliver()
        failed = rows_of.history(post.store, limit=5)
        assert {row.state for row in failed} == {"failed"}
        assert all("private = true" in row.error for row in failed)
        own = target("webhook", url=receiver.url(scheme="https"), ca_file=str(cert.file))
        strange = target("webhook", url=receiver.url(scheme="https"))
        post.send(own=own, strange=strange)
        post.deliver(1.0)
        assert len(receiver.requests) == 1
    states = {row.target: row for row in rows_of.history(post.store, limit=2)}
    assert states["own"].state == "sent"
    assert "certificate" in states["strange"].error.lower()


def test_a_missing_variable_is_named_and_nothing_is_sent(post: Post) -> None:
    post.send(hook=target("webhook", url_env="N_NOWHERE"))
    assert post.deliver()
    assert post.only().error == "the variable N_NOWHERE is not set"


# ------------------------------------------------------------------ e-mail


@pytest.mark.parametrize("mode", ["starttls", "tls"])
def test_an_email_over_tls_with_a_login(post: Post, cert: Certificate, mode: str) -> None:
    with Mailbox(cert, mode=mode, user="me", password="open sesame") as box:
        one = target(
            "email",
            host="127.0.0.1",
            port=box.port,
            security=mode,
            user="me",
            password_env=post.set("N_PASSWORD", "open sesame"),
            sender="agent@example.org",
            to=["me@example.org", "you@example.org"],
            ca_file=str(cert.file),
        )
        post.send(Notice("needs_you", "Grüße: Bash waits", "Antworte: ja\n.\nQUIT", about="approval-7"), mail=one)
        assert post.deliver()
        (message,) = box.messages
    assert box.encrypted == [True]
    assert box.envelopes == [("agent@example.org", ["me@example.org", "you@example.org"])]
    assert message["Subject"] == "Grüße: Bash waits"
    assert message["Message-ID"] == "<needs_you-approval-7@example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content().splitlines() == ["Antworte: ja", ".", "QUIT"]
    assert post.only().state == "sent"


def test_nothing_is_mailed_in_the_clear_or_to_a_stranger(post: Post, cert: Certificate) -> None:
    more: dict[str, Any] = {"host": "127.0.0.1", "sender": "a@example.org", "to": ["b@example.org"]}
    login = {"user": "me", "password_env": post.set("N_PASSWORD", "hunter2-hunter2")}
    with Mailbox(cert, mode="none") as plain, Mailbox(cert, user="me", password="another one") as strict:
        post.send(
            plain=target("email", port=plain.port, **more),
            stranger=target("email", port=strict.port, **more, **login),
            refused=target("email", port=strict.port, ca_file=str(cert.file), **more, **login),
        )
        post.deliver(2.0)
        assert plain.messages == strict.messages == []
    why = {row.target: row.error for row in rows_of.history(post.store, limit=5)}
    assert "STARTTLS" in why["plain"]
    assert "not trusted" in why["stranger"]
    assert "refuses the login" in why["refused"]
    assert "hunter2" not in f"{why}{post.complaints}"


# ------------------------------------------------------------------ programs


# ------------------------------------------------------------------ the outbox

SENDER = """
import sys, time
from adderclaw.storage import Store, notices
store = Store.open(sys.argv[1])
assert notices.claim_due(store, "hook", time.time(), 75) is not None
print("taken", flush=True)
time.sleep(60)
"""


def test_what_a_killed_process_had_in_its_hands_is_sent_by_the_next(post: Post) -> None:
    with Receiver() as receiver:
        post.send(hook=target("webhook", url=receiver.url()))
        argv = [sys.executable, "-c", SENDER, post.store.path]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"taken\n"
            assert post.deliver(1.0)
            assert receiver.requests == []  # it is in somebody's hands
            os.kill(other.pid, signal.SIGKILL)
        assert post.deliver()
        assert len(receiver.requests) == 1
    assert post.only().state == "sent"


def test_a_receiver_that_is_gone_costs_no_disk(post: Post) -> None:
    settings, now = Notices(targets={"hook": target("webhook", url="http://127.0.0.1:9/")}), time.time()
    for number in range(rows_of.MAX_WAITING + 3):
        send(settings, post.store, Notice("done", str(number), "x"), now=now - 1 + number / 1e6)
    send(settings, post.store, Notice("done", "old", "x"), now=now - rows_of.MAX_AGE - 1)
    given_up = rows_of.delete_old(post.store, now)
    assert {row.body["title"] for row in given_up} == {"0", "1", "2", "old"}
    assert rows_of.waiting_counts(post.store) == {"hook": rows_of.MAX_WAITING}
    rows_of.delete_old(post.store, now + 2 * rows_of.KEEP_SECONDS)
    rows_of.delete_old(post.store, now + 4 * rows_of.KEEP_SECONDS)
    assert rows_of.history(post.store, limit=1) == []


def test_an_idle_courier_sends_what_another_process_writes(post: Post) -> None:
    with Receiver() as receiver:
        post.targets = {"hook": target("webhook", url=receiver.url())}
        courier = post.courier()
        time.sleep(0.3)
        post.send()
        courier.poke()
        receiver.waited_for(1, 3)
        assert courier.close()


# ------------------------------------------------------------------ events


def test_in_a_conversation_a_long_turn_is_done_and_not_the_end_of_the_talk(post: Post) -> None:
    """Nor a turn of a child session, nor one that was interrupted."""
    clock = Time()
    bus = Bus(clock, random_ids, Secrets().clean)
    bus.session_id, bus.conversation_id = "s", "c"
    settings = Config(notices=Notices(targets={"hook": target("webhook")}))
    context = NoticeContext(settings, post.store, str(post.home), Secrets().clean, "/w/shop", "repl", "repl", True)
    hear, close = listener.sink(context, bus)
    bus.add_sink("notices", hear)

    def turn(of: Bus, seconds: float, outcome: str = "completed") -> None:
        of.publish({"event_type": "turn_started"})
        clock.at += seconds
        of.publish({"event_type": "turn_finished", "outcome": outcome})

    bus.publish({"event_type": "run_started", "mode": "repl", "task": ""})
    turn(bus, 5)
    turn(bus, 50, "")
    turn(bus.for_session("child"), 70)
    assert rows_of.history(post.store, limit=9) == []
    turn(bus, 95)
    bus.publish({"event_type": "run_failed", "outcome": "stopped", "reason": "", "message": ""})
    close()
    row = post.only()
    assert row.body["title"] == "A turn in shop is done"
    assert "1 min 35 s" in row.body["text"]
