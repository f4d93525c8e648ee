"""The incoming webhook channel, on real sockets: what must not come in does not, and each sender has their own."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from adderclaw.models.credentials import webhook_secrets
from adderclaw.server.limits import Rate, Rates
from adderclaw.storage import transcript
from tests.acceptance.world import call, text
from tests.server.signed_client import PLENTY, SECRET, Got, OnPort, headers, post

type Json = dict[str, Any]

WRITE = call("Write", file_path="a.txt", content="one\n")
CONFIG = """
default_provider = "local"
[security]
autonomy = "supervised"
{security}
[providers.models.local]
kind = "mock"
model = "mock"
fixture = "{fixture}"
[channels.webhook.chat]
{channel}
[channels.webhook.chat.senders."alice@example.org"]
workspace = "{workspace}"
{alice}
[channels.webhook.chat.senders.bob]
workspace = "{other}"
{bob}
[channels.webhook.off]
enabled = false
[channels.webhook.off.senders.bob]
workspace = "{other}"
"""


class Chat(OnPort):
    """A server on a port of this process, with one channel and two senders."""

    def __init__(self, home: Path, workspace: Path, other: Path) -> None:
        super().__init__(home, workspace)
        self.other = other
        self.configure()
        webhook_secrets.make(str(self.home), "channel:chat", time.time(), text=SECRET)
        webhook_secrets.make(str(self.home), "channel:off", time.time(), text=SECRET)
        self.script(*[text("hello")] * 6)

    def configure(
        self, channel: str = "", alice: str = "", bob: str = 'profile = "readonly"', security: str = ""
    ) -> None:
        made = CONFIG.format(
            fixture=self.home / "script.json",
            workspace=self.workspace,
            other=self.other,
            channel=channel,
            alice=alice,
            bob=bob,
            security=security,
        )
        (self.home / "config.toml").write_text(made, encoding="utf-8")

    def script(self, *steps: Json) -> None:
        made = {"steps": list(steps), "partial": True}
        (self.home / "script.json").write_text(json.dumps(made), encoding="utf-8")

    async def say(self, words: str = "hi", sender: str = "alice@example.org", id: str = "", **more: Any) -> Got:
        body = {"sender": sender, "message_id": id or f"m{time.time_ns()}", "text": words, **more}
        return await post(self.url, "/channels/chat/messages", body)

    async def answer(self, question: str, sender: str = "alice@example.org", **more: Any) -> Got:
        body = {"sender": sender, "message_id": f"m{time.time_ns()}", "answer": {"id": question, **more}}
        return await post(self.url, "/channels/chat/messages", body)

    def conversations(self) -> list[str]:
        return [one.id for one in transcript.conversations(self.state.store, 100)]


@pytest.fixture
def chat(home: Path, workspace: Path, tmp_path: Path) -> Generator[Chat]:
    other = tmp_path / "other"
    other.mkdir()
    return Chat(home, workspace, other)  # pyright: ignore[reportReturnType]


# ------------------------------------------------------------------ who does not come in

GOOD: Json = {"sender": "alice@example.org", "message_id": "m1", "text": "hi"}
BODY = json.dumps(GOOD).encode()


def test_what_is_not_signed_gets_one_answer_whatever_is_wrong_with_it(chat: Chat) -> None:
    now = time.time()
    signed = headers(BODY)
    wrong: list[tuple[str, dict[str, str]]] = [
        ("chat", {"content-type": "application/json"}),
        ("chat", headers(BODY, secret="whsec_" + "A" * 44)),
        ("chat", headers(BODY, at=now - 310)),
        ("chat", headers(BODY, at=now + 310)),
        ("chat", headers(BODY + b" ")),
        ("chat", headers(BODY, webhook_id="another")),
        ("chat", headers(BODY, webhook_signature="v1,")),
        ("chat", headers(BODY, webhook_signature="v1a," + signed["webhook-signature"][3:])),
        ("chat", headers(BODY, webhook_timestamp="soon")),
        ("chat", {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}),
        ("nobody", headers(BODY)),
        ("off", headers(BODY)),
        ("../chat", headers(BODY)),
        ("chat%00", headers(BODY)),
        ("%F0%9F%92%A9", headers(BODY)),
        ("c" * 5_000, headers(BODY)),
    ]

    async def work() -> None:
        answers = {
            json.dumps(await post(chat.url, f"/channels/{name}/messages", BODY, given)) for name, given in wrong[:12]
        }
        assert answers == {
            json.dumps(
                [
                    401,
                    {
                        "error": {
                            "code": "signature",
                            "message": "the endpoint does not exist, or the signature is not valid for it",
                        }
                    },
                ]
            )
        }
        for name, given in wrong[12:]:
            assert (await post(chat.url, f"/channels/{name}/messages", BODY, given)).status in (401, 404)
        assert chat.conversations() == []
        assert len(chat.events("delivery_refused")) >= 12

    chat.run(work)


def odd(**change: Any) -> bytes:
    return json.dumps(GOOD | change).encode()


ODD_BODIES: list[tuple[str, bytes, dict[str, str], int]] = [
    ("no JSON", b"hi", {}, 400),
    ("nothing", b"", {}, 400),
    ("a list", b"[]", {}, 400),
    ("bad UTF-8", b'{"sender": "\xff"}', {}, 400),
    ("deep", b'{"sender": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {}, 400),
    ("a key twice", BODY[:-1] + b', "sender": "bob"}', {}, 400),
    ("NaN", BODY[:-1] + b', "turn": NaN}', {}, 400),
    ("wrong type", BODY, {"content_type": "text/plain"}, 415),
    ("no type", BODY, {"content_type": ""}, 415),
    ("a form", b"sender=alice", {"content_type": "application/x-www-form-urlencoded"}, 415),
    ("another folder", odd(workspace="/"), {}, 400),
    ("another profile", odd(profile="permissive"), {}, 400),
    ("two at once", odd(turn="turn-1"), {}, 400),
    ("none of them", odd(text=None), {}, 400),
    ("empty", odd(text="  \n"), {}, 400),
    ("a number", odd(text=1), {}, 400),
    ("half a character", b'{"sender": "bob", "message_id": "m1", "text": "\\ud800"}', {}, 400),
    ("a NUL", odd(text="a\0b"), {}, 400),
    ("an escape", odd(text="\x1b]0;x\x07"), {}, 400),
    ("turned around", odd(text="abc\u202egnp.exe"), {}, 400),
    ("hidden tags", odd(text="hi\U000e0041\U000e0042"), {}, 400),
    ("no id", odd(message_id=""), {}, 400),
    ("long id", odd(message_id="m" * 201), {}, 400),
    ("an id in two lines", odd(message_id="a\nb"), {}, 400),
    ("a thread that hides", odd(thread="a\u200bb"), {}, 400),
    ("another form of the name", odd(sender="ali\u0301ce"), {}, 400),
    ("unknown sender", odd(sender="mallory"), {}, 403),
    ("looks like alice", odd(sender="аlice@example.org"), {}, 403),
    ("case", odd(sender="Alice@example.org"), {}, 403),
    ("a sender of prototypes", odd(sender="__class__"), {}, 403),
]


def test_odd_bodies_are_refused_and_begin_nothing(chat: Chat) -> None:
    async def work() -> None:
        for name, body, more, status in ODD_BODIES:
            signed = headers(body, content_type=more.get("content_type", "application/json"))
            got = await post(chat.url, "/channels/chat/messages", body, signed)
            assert got.status == status, (name, got)
        assert chat.conversations() == []
        unknown = [one for one in chat.events("delivery_refused") if "listed" in one["reason"]]
        assert unknown[0]["sender"] == "mallory"
        # none of them was claimed: the same id is still free
        assert (await chat.say(id="m1")).status == 200

    chat.run(work)


def test_text_in_other_scripts_is_what_people_write(chat: Chat) -> None:
    async def work() -> None:
        for words in ("Grüße 👩‍👩‍👧", "שלום עולם", "नमस्ते", "line\r\nline\ttab"):
            assert (await chat.say(words)).json["text"] == "hello"

    chat.run(work)


async def raw(url: str, data: bytes, *, then: float = 0.0) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    await writer.drain()
    await asyncio.sleep(then)
    answer = await asyncio.wait_for(reader.read(65_536), 10)
    writer.close()
    return answer


def head(given: list[tuple[str, str]] | dict[str, str], *more: str) -> bytes:
    pairs = given.items() if isinstance(given, dict) else given
    lines = ["POST /channels/chat/messages HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in pairs), *more, "", ""]).encode()


def test_huge_slow_chunked_and_doubled_requests(chat: Chat) -> None:
    async def work() -> None:
        signed = headers(BODY)
        huge = await raw(chat.url, head(signed, "Content-Length: 99999999999"))
        assert huge.startswith(b"HTTP/1.1 413")
        big = b"x" * (256 * 1024 + 1)
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(big), big)
        assert (await raw(chat.url, head(signed, "Transfer-Encoding: chunked") + chunks)).startswith(b"HTTP/1.1 413")
        both = head(signed, "Transfer-Encoding: chunked", f"Content-Length: {len(BODY)}")
        assert (await raw(chat.url, both + b"0\r\n\r\n")).startswith(b"HTTP/1.1 401")  # the body is what the chunks say
        chat.state.body_seconds = 0.2
        slow = await raw(chat.url, head(signed, f"Content-Length: {len(BODY)}") + BODY[:5])
        assert slow.startswith(b"HTTP/1.1 408")
        for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
            pairs = [*signed.items(), (name, signed[name])]
            twice = head(pairs, f"Content-Length: {len(BODY)}") + BODY
            assert (await raw(chat.url, twice)).startswith(b"HTTP/1.1 401"), name
        assert chat.conversations() == []
        # chunks of a body that is signed are as good as one piece
        part = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (10, BODY[:10], len(BODY) - 10, BODY[10:])
        assert (await raw(chat.url, head(signed, "Transfer-Encoding: chunked") + part)).startswith(b"HTTP/1.1 200")

    chat.run(work)


def test_strangers_use_up_their_own_rate_and_fill_no_disk(chat: Chat) -> None:
    async def work() -> None:
        got = [(await post(chat.url, "/channels/chat/messages", BODY, {})).status for _ in range(12)]
        assert got == [401] * 10 + [429] * 2
        assert len(chat.events("delivery_refused")) == 3

    monotonic = time.monotonic
    few = Rates(monotonic, failures=Rate(0.001, 3), addresses=Rate(0.001, 10))
    chat.run(work, few)


def test_a_door_takes_so_many_at_once(chat: Chat) -> None:
    async def work() -> None:
        assert [(await chat.say()).status for _ in range(4)] == [200, 200, 200, 429]

    chat.run(work, Rates(time.monotonic, addresses=PLENTY, deliveries=Rate(0.001, 3)))


# ------------------------------------------------------------------ once


def test_a_replay_begins_nothing_in_this_server_or_the_next(chat: Chat) -> None:
    body = odd(message_id="only once")
    signed = headers(body)

    async def first() -> None:
        assert (await post(chat.url, "/channels/chat/messages", body, signed)).status == 200
        again = await post(chat.url, "/channels/chat/messages", body, signed)
        assert (again.status, again.code) == (409, "replayed")

    async def later() -> None:
        assert (await post(chat.url, "/channels/chat/messages", body, signed)).code == "replayed"
        # signed anew, under another id of the request: the message is the same
        assert (await post(chat.url, "/channels/chat/messages", body)).code == "replayed"
        # another message under the id of that request
        assert (
            await post(chat.url, "/channels/chat/messages", odd(), headers(odd(), id=signed["webhook-id"]))
        ).code == "replayed"
        assert len(chat.conversations()) == 1

    chat.run(first)
    chat.run(later)


def test_of_many_identical_deliveries_at_once_one_begins(chat: Chat) -> None:
    async def work() -> None:
        signed = headers(BODY)
        got = await asyncio.gather(*(post(chat.url, "/channels/chat/messages", BODY, signed) for _ in range(8)))
        assert sorted(one.status for one in got) == [200] + [409] * 7
        assert len(chat.conversations()) == 1

    chat.run(work)


def test_what_could_not_begin_may_come_again(chat: Chat) -> None:
    async def work() -> None:
        chat.other.rename(chat.other.with_name("gone"))
        got = await chat.say(sender="bob", id="m1")
        assert (got.status, got.code) == (503, "workspace")
        chat.other.with_name("gone").rename(chat.other)
        assert (await chat.say(sender="bob", id="m1")).status == 200

    chat.run(work)


# ------------------------------------------------------------------ conversations


def test_each_sender_and_thread_has_a_conversation_that_outlives_the_server(chat: Chat) -> None:
    async def first() -> None:
        got = [await chat.say(), await chat.say(), await chat.say(thread="t1"), await chat.say(sender="bob")]
        ids = [one.json["conversation_id"] for one in got]
        assert ids[0] == ids[1]
        assert len({*ids}) == 3
        known.extend(ids)
        folders = [transcript.workspace_of(chat.state.store, id) for id in ids]
        assert folders == [str(chat.workspace)] * 3 + [str(chat.other)]
        store = chat.state.store
        assert transcript.client_of(store, ids[0]) == "webhook:chat:alice@example.org"
        (row,) = store.read("SELECT count(*) FROM sessions WHERE conversation_id = ?", (ids[0],))
        assert row[0] >= 1

    async def later() -> None:
        assert (await chat.say()).json["conversation_id"] == known[0]
        assert (await chat.say(thread="t1")).json["conversation_id"] == known[2]
        assert (await chat.say(sender="bob")).json["conversation_id"] == known[3]
        assert len(chat.conversations()) == 3

    known: list[str] = []
    chat.run(first)
    chat.run(later)


def test_messages_of_a_thread_are_answered_in_their_order(chat: Chat) -> None:
    async def work() -> None:
        sending: list[asyncio.Task[Got]] = []
        for number in range(5):
            sending.append(asyncio.ensure_future(chat.say(f"number {number}")))
            await asyncio.sleep(0.05)
        got = await asyncio.gather(*sending)
        assert {one.status for one in got} == {200}
        said = chat.state.store.read(
            "SELECT payload_json FROM transcript_entries WHERE entry_type = 'user' ORDER BY id"
        )
        assert [f"number {n}" in row[0] for n, row in enumerate(said)] == [True] * 5
        assert len(chat.conversations()) == 1

    chat.run(work)


def test_a_sender_that_was_removed_or_moved_is_so_at_once(chat: Chat, tmp_path: Path) -> None:
    async def work() -> None:
        first = (await chat.say()).json["conversation_id"]
        third = tmp_path / "third"
        third.mkdir()
        config = chat.home / "config.toml"
        before = config.read_text(encoding="utf-8")
        config.write_text(before.replace(f'"{chat.workspace}"', f'"{third}"'), encoding="utf-8")
        second = (await chat.say()).json["conversation_id"]
        assert transcript.workspace_of(chat.state.store, second) == str(third)
        config.write_text(before, encoding="utf-8")
        assert (await chat.say()).json["conversation_id"] == first != second
        config.write_text(before.replace("alice@", "anna@"), encoding="utf-8")
        assert (await chat.say()).code == "sender"
        assert (await chat.say(sender="anna@example.org")).status == 200

    chat.run(work)


def test_a_project_adds_no_sender_and_no_channel(chat: Chat) -> None:
    folder = chat.workspace / ".adderclaw"
    folder.mkdir()
    added = f'[channels.webhook.chat.senders.mallory]\nworkspace = "{chat.workspace}"\n'
    (folder / "config.toml").write_text(added, encoding="utf-8")

    async def work() -> None:
        assert (await chat.say(sender="mallory")).code == "sender"

    chat.run(work)


def test_a_days_messages_and_the_emergency_stop(chat: Chat) -> None:
    chat.configure(alice="messages_per_day = 2")

    async def work() -> None:
        stop = chat.home / "ESTOP"
        stop.touch()
        got = await chat.say(id="m1")
        assert (got.status, got.code) == (503, "stopped")
        stop.unlink()
        assert [(await chat.say(id=id)).status for id in ("m1", "m2", "m3")] == [200, 200, 429]
        assert (await chat.say(sender="bob", id="m3")).status == 200

    chat.run(work)


def test_a_days_cost_refuses_a_model_without_a_price(chat: Chat) -> None:
    chat.configure(alice="cost_usd_per_day = 1")
    config = chat.home / "config.toml"
    entry = (
        '[providers.models.far]\nkind = "openai-compatible"\nbase_url = "https://llm.invalid/v1"\nmodel = "mystery"\n'
    )
    config.write_text(config.read_text().replace('default_provider = "local"', 'default_provider = "far"') + entry)

    async def work() -> None:
        got = await chat.say()
        assert got.json["outcome"] == "limit"

    chat.run(work)
    with closing(sqlite3.connect(chat.home / "memory.sqlite")) as connection:
        ((reason,),) = connection.execute("SELECT reason FROM runs").fetchall()
    assert "the price of the model 'mystery' is unknown" in reason


def test_why_nothing_could_begin_is_for_the_operator(chat: Chat) -> None:
    async def work() -> None:
        (chat.home / "script.json").unlink()
        got = await chat.say(id="m1")
        assert (got.status, got.code) == (503, "unavailable")
        assert str(chat.home) not in json.dumps(got.json)
        assert any("alice@example.org could not begin" in one["message"] for one in chat.events("warning"))
        chat.script(text("hello"))
        assert (await chat.say(id="m1")).status == 200

    chat.run(work)


def test_why_a_turn_failed_is_for_the_operator(chat: Chat) -> None:
    chat.script(text("hello"))

    async def work() -> None:
        assert (await chat.say()).json["text"] == "hello"
        got = await chat.say()  # no step is left: the model fails
        assert got.json["outcome"] == "error"
        assert str(chat.home) not in json.dumps(got.json)

    chat.run(work)


def test_slash_commands_are_words_unless_the_sender_may_use_them(chat: Chat) -> None:
    skill = chat.workspace / ".adderclaw" / "skills" / "greet"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: greet\ndescription: Greets.\n---\nGREETED $ARGUMENTS\n", encoding="utf-8"
    )

    def sent() -> str:
        rows = chat.state.store.read("SELECT payload_json FROM transcript_entries WHERE entry_type = 'user'")
        return "".join(str(row[0]) for row in rows)

    async def without() -> None:
        await chat.say("/greet you")
        assert "/greet you" in sent()
        assert "GREETED" not in sent()

    async def allowed() -> None:
        await chat.say("/greet you")
        assert "GREETED" in sent()

    chat.run(without)
    chat.configure(alice="commands = true")
    chat.run(allowed)


# ------------------------------------------------------------------ what the agent may do for them


def test_a_sender_is_never_stronger_than_the_operator(chat: Chat) -> None:
    chat.script(WRITE, text("done"))
    strong = 'profile = "sandboxed"'

    async def held() -> None:
        got = await chat.say()
        assert got.json["state"] == "answered"
        assert not (chat.workspace / "a.txt").exists()

    for security, more in (
        ("", "[runtime]\nprofile = 'readonly'"),
        ("", "[channels.cli]\ntools_allow = ['Read']"),
    ):
        chat.configure(alice=strong, security=f"{security}\n{more}")
        chat.run(held)
    chat.configure(alice=f"{strong}\ntools_allow = ['Read', 'Grep']")
    chat.run(held)
    chat.configure(alice=strong)

    async def allowed() -> None:
        assert (await chat.say(thread="new")).json["text"] == "done"
        assert (chat.workspace / "a.txt").read_text() == "one\n"

    chat.run(allowed)


def test_who_may_approve_is_asked_and_the_receipt_names_them(chat: Chat) -> None:
    chat.script(WRITE, text("done"))
    chat.configure(alice='profile = "supervised"\nmay_approve = true', bob='profile = "supervised"\nmay_approve = true')

    async def work() -> None:
        asked = await chat.say()
        assert asked.json["state"] == "asking"
        question = asked.json["question"]
        assert question["may_answer"] is True
        assert question["id"] in asked.json["text"]
        assert "a.txt" in asked.json["text"]
        # nobody else's: not another sender's, and an unknown id is answered in the same words
        other, unknown = await chat.answer(question["id"], "bob"), await chat.answer("approval-0", "bob")
        assert (other.status, unknown.status) == (404, 404)
        assert other.json["error"]["message"].replace(question["id"], "approval-0") == unknown.json["error"]["message"]
        assert not (chat.workspace / "a.txt").exists()
        done = await chat.answer(question["id"])
        assert (done.json["state"], done.json["text"]) == ("answered", "done")
        assert (chat.workspace / "a.txt").exists()
        late = await chat.answer(question["id"], approved=False)
        assert late.status in (404, 409)
        row = chat.state.store.read("SELECT answered_who FROM approvals")[0]
        assert row[0] == "alice@example.org (webhook channel chat)"
        receipts = chat.home / "tool_receipts.log"
        assert "alice@example.org (webhook channel chat)" in receipts.read_text(encoding="utf-8")

    chat.run(work)


def test_what_a_chat_is_not_shown_whole_only_the_operator_approves(chat: Chat) -> None:
    """What has the shape of a key does not leave: a command that hides between its lines is not approved there."""
    hidden = "echo '-----BEGIN PRIVATE KEY-----'; touch taken; echo '-----END PRIVATE KEY-----'"
    chat.script(call("Bash", command=hidden), text("done"))
    chat.configure(alice='profile = "supervised"\nmay_approve = true')

    async def work() -> None:
        asked = await chat.say()
        question = asked.json["question"]
        assert question["may_answer"] is False
        assert (await chat.answer(question["id"])).code == "approve"
        assert not (chat.workspace / "taken").exists()

    chat.run(work)


def test_a_no_is_a_no_and_who_may_not_approve_does_not(chat: Chat) -> None:
    chat.script(WRITE, text("done"))
    chat.configure(alice='profile = "supervised"', bob='profile = "supervised"\nmay_approve = true')

    async def work() -> None:
        asked = await chat.say()
        question = asked.json["question"]
        assert question["may_answer"] is False
        assert "a.txt" not in asked.json["text"]
        assert (await chat.answer(question["id"])).code == "approve"
        other = (await chat.say(sender="bob")).json["question"]
        refused = await chat.answer(other["id"], "bob", approved=False, comment="not now")
        assert refused.json["text"] == "done"
        assert not (chat.other / "a.txt").exists()
        assert not (chat.workspace / "a.txt").exists()

    chat.run(work)


def test_what_the_model_wants_to_know_its_sender_may_say(chat: Chat) -> None:
    ask = call(
        "AskUserQuestion",
        questions=[
            {
                "question": "Which colour?",
                "header": "Colour",
                "multiSelect": False,
                "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}],
            }
        ],
    )
    chat.script(ask, text("done"))

    async def work() -> None:
        asked = await chat.say()
        question = asked.json["question"]
        assert (question["kind"], question["may_answer"]) == ("question", True)
        assert question["options"] == [["Red", "Blue"]]
        done = await chat.answer(question["id"], reply="Green")
        assert done.json["state"] == "answered"
        rows = chat.state.store.read("SELECT payload_json FROM transcript_entries ORDER BY id")
        assert any("Green" in row[0] for row in rows)

    chat.run(work)


def test_what_takes_longer_is_asked_for_by_its_turn(chat: Chat) -> None:
    chat.script(WRITE, text("done"))
    chat.configure(channel="reply_seconds = 0.0", alice='profile = "supervised"\nmay_approve = true')

    async def work() -> None:
        first = await chat.say()
        assert (first.status, first.json["state"]) in ((202, "working"), (200, "asking"))
        turn = first.json["turn"]

        async def poll(sender: str = "alice@example.org") -> Got:
            body = {"sender": sender, "message_id": "poll", "turn": turn}
            return await post(chat.url, "/channels/chat/messages", body)

        async def until(state: str) -> Got:
            for _ in range(500):
                if (got := await poll()).json["state"] == state:
                    return got
                await asyncio.sleep(0.02)
            raise AssertionError(state)

        seen = await until("asking")
        assert (await poll("bob")).status == 404
        await chat.answer(seen.json["question"]["id"])
        seen = await until("answered")
        assert (seen.status, seen.json["text"], seen.json["outcome"]) == (200, "done", "completed")

    chat.run(work)


def test_an_operator_at_work_in_a_senders_conversation_is_not_disturbed(chat: Chat) -> None:
    """Nor does the sender go on by the operator's rules."""
    chat.script(text("hello"), WRITE, text("done"), text("hello"))

    async def work() -> None:
        id = (await chat.say()).json["conversation_id"]
        assert await chat.state.conversations.find(id).sleep()
        one = await chat.state.conversations.open("client-operator", resume=id, granted=True)
        await one.send("write it", client="client-operator", granted=True)
        async for update in one.follow(0):
            if update.kind == "question":
                break
        assert (await chat.say()).code == "busy"
        await one.close()
        assert (await chat.say()).json["conversation_id"] == id

    chat.run(work)


# ------------------------------------------------------------------ answers that are posted


class Inbox:
    """Where a chat system takes what is posted, by an HTTP server of its own; the first ones may fail."""

    def __init__(self, fails: int = 0) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self._fails = fails
        self._server: asyncio.Server
        self.url = ""

    async def __aenter__(self) -> "Inbox":
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/in"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head_of = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
        given = {name.lower(): value for name, _, value in (line.partition(": ") for line in head_of)}
        body = await reader.readexactly(int(given["content-length"]))
        self._fails -= 1
        status = b"503 No" if self._fails >= 0 else b"204 No Content"
        if self._fails < 0:
            self.got.append((given, body))
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def number(self, count: int) -> list[Json]:
        for _ in range(1_000):
            if len(self.got) >= count:
                return [json.loads(body) for _, body in self.got]
            await asyncio.sleep(0.02)
        raise AssertionError(self.got)


def test_answers_and_questions_are_posted_signed(chat: Chat) -> None:
    chat.script(WRITE, text("done"))

    async def work() -> None:
        async with Inbox(fails=1) as inbox:
            more = f'reply = "post"\nreply_url = "{inbox.url}"'
            chat.configure(channel=more, alice='profile = "supervised"\nmay_approve = true')
            got = await chat.say(id="m1", thread="t")
            assert (got.status, got.json["state"]) == (202, "working")
            (asked,) = await inbox.number(1)  # the first try failed
            about = {name: asked[name] for name in ("channel", "sender", "thread", "in_reply_to", "state")}
            expected = {"channel": "chat", "sender": "alice@example.org", "thread": "t", "in_reply_to": "m1"}
            assert about == {**expected, "state": "asking"}
            given, body = inbox.got[0]
            again = headers(body, id=given["webhook-id"], at=float(given["webhook-timestamp"]))
            assert given["webhook-signature"] == again["webhook-signature"]
            assert (await chat.answer(asked["question"]["id"])).status == 202
            posted = await inbox.number(2)
            assert posted[1]["text"] == "done"
            await asyncio.wait({*chat.state.posting.values(), asyncio.ensure_future(asyncio.sleep(0.1))})
            assert len(inbox.got) == 2

    chat.run(work)


def test_an_answer_that_nobody_takes_is_reported(chat: Chat) -> None:
    async def work() -> None:
        chat.configure(channel=f'reply = "post"\nreply_url = "{chat.url}/nothing-here"')
        await chat.say()
        await asyncio.wait({*chat.state.posting.values()}, timeout=40)
        (warned,) = [one for one in chat.events("warning") if "posted" in one["message"]]
        assert "alice@example.org" in warned["message"]

    chat.run(work)
