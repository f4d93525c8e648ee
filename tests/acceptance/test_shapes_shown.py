"""X-58: what has the shape of a secret is in the rows, and nowhere where the model's answer is shown or leaves."""

import asyncio
import json
from typing import Any

import pytest

from adderclaw import AgentClient, AssistantMessage, PartialMessage, QueryOptions, ResultMessage, UserMessage
from adderclaw.core.deltas import WholeWords
from adderclaw.core.redaction import Secrets, settled_length
from adderclaw.core.types import Delta
from tests.acceptance.test_agentfile import Flow
from tests.acceptance.test_rpc import Rpc
from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text
from tests.rows import rows
from tests.scripted import ScriptedModel

TOKEN = "ghp_" + "Zq8Xw2Lm5Rt9Yb3Nc7Vd1Kf6Hj4Gs0Pa8Ue2"
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\nggSjAgEAAoIBAQC7VJTUt9Us8cKjMzEfYyji"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"
ANSWER = f"The key is {TOKEN} here.\nThen\n{PEM}\nand password: hunter2hunter2 for all."
SHOWN = "The key is [redacted] here.\nThen\n[redacted]\nand password: [redacted] for all."
PARTS = (TOKEN, "MIIEv", "ggSjAgE", "hunter2")


@pytest.fixture
def telling(world: World) -> World:
    """A model that reads a key, says so, and answers with more of them."""
    (world.workspace / "a.txt").write_text(f"{TOKEN}\n", encoding="utf-8")
    world.script({"text": f"I read {TOKEN}.", **call("Read", file_path="a.txt")}, text(ANSWER))
    return world


def clear(*texts: str) -> None:
    for one in texts:
        assert not [part for part in PARTS if part in one], one


FORMATS = {
    "agent": ("agent", "-m", "which?"),
    "agent json": ("agent", "-m", "which?", "--output-format", "json"),
    "agent stream": ("agent", "-m", "which?", "--output-format", "stream-json"),
    "print": ("-p", "which?"),
    "print json": ("-p", "which?", "--output-format", "json"),
    "print stream": ("-p", "which?", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_x58_no_format_shows_a_shape(telling: World, name: str) -> None:
    done = telling.cli(*FORMATS[name])
    assert done.code == 0, done.err
    clear(done.out, done.err)
    assert (SHOWN if name in ("agent", "print") else json.dumps(SHOWN, ensure_ascii=False)[1:-1]) in done.out
    assert telling.rows("SELECT answer FROM runs") == [(ANSWER,)], "the row has all of it"
    (run,) = telling.rows("SELECT run_id FROM runs")
    for output in ("text", "json"):
        clear(telling.cli("runs", "show", str(run[0]), "--output-format", output).out)


def test_x58_a_tool_by_hand_shows_none(telling: World) -> None:
    given = json.dumps({"file_path": str(telling.workspace / "a.txt")})
    for output in ("text", "json"):
        done = telling.cli("tool", "run", "Read", "--json", given, "--output-format", output)
        assert "[redacted]" in done.out, done.err
        clear(done.out, done.err)


def test_x58_rpc_answers_and_reports_without_shapes(world: World) -> None:
    with ScriptedModel() as model:
        flow = Flow(world, model)
        flow.write('GOAL g "Say it"\nRUN r USING g\n')
        flow.add(call("GoalResult", achieved=True, summary=ANSWER))
        rpc = Rpc(world)
        said = rpc.answer(1, "run", agentfile=str(flow.folder / "Agentfile"))["result"]
        status = rpc.answer(2, "status", run_id=said["run_id"])["result"]
        assert rpc.close() == 0
    assert said["answer"] == status["answer"] == SHOWN
    clear(json.dumps(rpc.seen))


def test_x58_the_python_api_gives_no_shape(telling: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in telling.cli.env.items():
        monkeypatch.setenv(name, value)
    options = QueryOptions(cwd=str(telling.workspace), include_partial_messages=True)

    async def collect() -> list[Any]:
        return [one async for one in AgentClient(options).query("which?")]

    messages = asyncio.run(collect())
    assert {AssistantMessage, UserMessage, PartialMessage, ResultMessage} <= {type(one) for one in messages}
    clear(*map(repr, messages))
    assert messages[-1].answer == SHOWN
    parts = "".join(one.text for one in messages if isinstance(one, PartialMessage) and one.kind == "text")
    assert parts == f"I read [redacted].{SHOWN}"


def test_x58_neither_the_screen_nor_plain_lines_show_one(telling: World) -> None:
    done = telling.cli("agent", "--begin-with", "which?", stdin="which?\n")
    clear(done.out, done.err)
    with Tmux(telling, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("which?")
        terminal.press("Enter")
        terminal.wait("[redacted] for all.")
        shown = terminal.all()
        terminal.press("C-d")
        terminal.wait("left with 0")
    clear(shown)
    assert shown.count("[redacted] for all.") == 1, "and it is there once"


TEXTS = [
    ANSWER,
    f"authorization: Bearer {TOKEN[4:]} and basic authentication",
    "your token: valid until noon. token: abcdef12 is new. The password : hunter2hunter2\nMy passphrase:\n its-value",
    "export API_KEY=abcdef123456\nhttps://me:pa55word@example.org/x and https://example.org/y\n",
    "A key begins with `-----BEGIN PRIVATE KEY-----` and a line.\n\nThen comes text that stays.",
    f"cut: -----BEGIN PRIVATE KEY-----\n{BODY}\nggSj",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBg\n-----END CERTIFICATE----- stays",
    "A token. The secret of it - well - is basic: a cookie, a credential; nothing else.",
]


@rows("whole", TEXTS)
@rows("size", [1, 2, 7, 1000])
def test_x58_in_parts_the_same_is_shown_as_of_the_whole(whole: str, size: int) -> None:
    secrets, heard = Secrets(), list[str]()
    words = WholeWords(lambda delta: heard.append(delta.text), secrets.redact, settled_length)
    for place in range(0, len(whole), size):
        words(Delta("text", whole[place : place + size]))
    words.end()
    assert "".join(heard) == secrets.redact(whole)
    clear("".join(heard))


def test_x58_a_mention_of_a_key_hides_nothing_below_it() -> None:
    assert Secrets().redact(TEXTS[4]).endswith("\n\nThen comes text that stays.")


def test_x58_ordinary_text_is_not_held_back() -> None:
    heard = list[str]()
    words = WholeWords(lambda delta: heard.append(delta.text), Secrets().redact, settled_length)
    words(Delta("text", "one two - three: fo"))
    assert heard == ["one two - three: "]
