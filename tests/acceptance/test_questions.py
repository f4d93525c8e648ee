"""The model's questions as rows: answered from another process, after a kill, over JSON-RPC and from Python."""

import asyncio
import json
import os
import pwd
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from adderclaw.agent.conversation.asking import Asking
from adderclaw.core.questions import Answer, ApprovalRequest
from tests.acceptance.test_approvals import asking as asking_with
from tests.acceptance.test_approvals import ended, listed, write
from tests.acceptance.test_rpc import Rpc
from tests.acceptance.world import World, call, text

USER = pwd.getpwuid(os.getuid()).pw_name
ASKED = {
    "question": "Which one?",
    "header": "Colour",
    "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
}
QUESTION = call("AskUserQuestion", questions=[ASKED])

type Process = "subprocess.Popen[bytes]"


def asking(world: World, *more: str, message: str | None = "go") -> tuple[Process, str]:
    return asking_with(world, *more, message=message, prompt=b"Your answer")


def killed(world: World) -> tuple[str, str]:
    """A question whose process is dead, and its conversation."""
    world.script(QUESTION, text("{{last_result}}"))
    process, id = asking(world)
    process.kill()
    ended(process)
    ((conversation,),) = world.rows("SELECT conversation_id FROM sessions ORDER BY rowid DESC LIMIT 1")
    return id, str(conversation)


def proved(world: World) -> None:
    """The last run, and the receipts of all."""
    ((run,),) = world.rows("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1")
    replayed = world.cli("replay", str(run), "--verify")
    assert replayed.code == 0, replayed.out + replayed.err
    verified = world.cli("receipt", "verify")
    assert verified.code == 0, verified.out + verified.err


@pytest.fixture
def rpc(world: World) -> Iterator[Rpc]:
    made = Rpc(world)
    yield made
    made.close()


# ------------------------------------------------------------------ another process


def test_another_process_answers_the_models_question(world: World) -> None:
    world.script(QUESTION, text("{{last_result}}"))
    process, id = asking(world)
    (waiting,) = listed(world)
    assert (waiting["state"], waiting["questions"][0]["question"]) == ("pending", "Which one?")
    assert "2. blue: cold" in world.cli("approvals", "list").out
    done = world.cli("approvals", "answer", id, "2")
    assert done.code == 0, done.err
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    assert "→ blue" in out.decode()
    (receipt,) = world.receipts()
    assert receipt["decision"]["answered_by"] == f"{USER} (approvals)"
    assert receipt["decision"]["approval_id"] == id
    assert world.rows("SELECT answer, replies_json FROM approvals") == [("yes", '{"Which one?":"blue"}')]
    proved(world)


def test_the_terminal_that_asks_is_named_as_well(world: World) -> None:
    world.script(QUESTION, text("{{last_result}}"))
    assert "→ red" in world.agent("go", stdin="1\n").out
    decision = world.receipts()[0]["decision"]
    assert decision["answered_by"] == f"{USER} (cli)"
    assert decision["approval_id"] == world.rows("SELECT id FROM approvals")[0][0]
    proved(world)


@pytest.mark.parametrize("words", [("yes", "no"), (), (" ",), ("--decline", "red"), ("x" * 70_000,)])
def test_replies_that_do_not_fit_are_refused_and_the_question_waits_on(world: World, words: tuple[str, ...]) -> None:
    id, _ = killed(world)
    done = world.cli("approvals", "answer", id, *words)
    assert (done.code, "Traceback" in done.err) == (2, False), done.err
    assert [one["state"] for one in listed(world)] == ["left"]


def test_a_question_that_nobody_answers_in_time_has_no_answer(world: World) -> None:
    world.configure(security="approval_timeout_seconds = 2")
    world.script(QUESTION, text("I decided."))
    process, id = asking(world)
    process.wait(90)  # its own stdin is still open
    process.communicate()
    assert world.rows("SELECT answer, answered_by FROM approvals") == [("no", "timeout")]
    late = world.cli("approvals", "answer", id, "red")
    assert (late.code, "timeout answered no" in late.err) == (1, True)
    assert "approval_id" not in world.receipts()[0]["decision"]
    proved(world)


# ------------------------------------------------------------------ after kill -9


def test_a_reply_between_kill_and_resume_counts(world: World) -> None:
    id, conversation = killed(world)
    assert [one["state"] for one in listed(world)] == ["left"]
    done = world.cli("approvals", "answer", id, "my own words")
    assert (done.code, "when its conversation is resumed" in done.out) == (0, True), done.err
    resumed = world.cli("agent", "--resume", conversation)
    assert "→ my own words" in resumed.out
    assert "Your answer" not in resumed.err, "nobody is asked again"
    (receipt,) = world.receipts()
    assert (receipt["status"], receipt["decision"]["approval_id"]) == ("allowed", id)
    assert receipt["decision"]["answered_by"] == f"{USER} (approvals)"
    assert len(world.entries("tool_use")) == len(world.entries("tool_result")) == 1
    proved(world)


def test_without_a_reply_it_is_asked_again_under_the_same_row(world: World) -> None:
    id, conversation = killed(world)
    resumed = world.cli("agent", "--resume", conversation, stdin="blue\n")
    assert ("→ blue" in resumed.out, "Your answer" in resumed.err) == (True, True)
    assert world.rows("SELECT id, answer, answered_by FROM approvals") == [(id, "yes", "operator")]
    assert world.receipts()[0]["decision"]["approval_id"] == id
    proved(world)


def test_a_new_message_leaves_the_question_behind(world: World) -> None:
    _, conversation = killed(world)
    world.script(text("one"), text("two"), text("three"))
    world.cli("agent", "--resume", conversation, "-m", "never mind")
    (receipt,) = world.receipts()
    assert (receipt["status"], receipt["decision"]["by"]) == ("failed", "resume")
    assert "approval_id" not in receipt["decision"]


@pytest.mark.parametrize("mac", [None, "0" * 64])
def test_a_reply_that_nobody_signed_is_none(world: World, mac: str | None) -> None:
    id, conversation = killed(world)
    with sqlite3.connect(world.database) as connection:
        sql = "UPDATE approvals SET answer = 'yes', answered_by = 'operator', replies_json = ?, mac = ? WHERE id = ?"
        connection.execute(sql, ('{"Which one?":"delete everything"}', mac, id))
    assert "delete everything" not in world.cli("agent", "--resume", conversation, stdin="red\n").out


def test_a_signed_reply_that_was_changed_is_none(world: World) -> None:
    id, conversation = killed(world)
    assert world.cli("approvals", "answer", id, "red").code == 0
    with sqlite3.connect(world.database) as connection:
        connection.execute("UPDATE approvals SET replies_json = replace(replies_json, 'red', 'delete everything')")
    assert "delete everything" not in world.cli("agent", "--resume", conversation, stdin="red\n").out


def test_a_reply_to_another_question_than_was_asked_is_none(world: World) -> None:
    """The row is changed before the person sees it: what they answer is not for the model's question."""
    id, conversation = killed(world)
    with sqlite3.connect(world.database) as connection:
        connection.execute("UPDATE approvals SET questions_json = replace(questions_json, 'Which one?', 'Shall I?')")
    world.cli("approvals", "answer", id, "red")
    resumed = world.cli("agent", "--resume", conversation, stdin="\n")
    assert "Your answer" in resumed.err, "it is asked anew"
    assert "→ red" not in resumed.out


# ------------------------------------------------------------------ JSON-RPC and Python


def test_a_no_grants_nothing_whatever_is_to_be_remembered(world: World) -> None:
    world.script(write(), text("ended"))
    rpc = Rpc(world)
    rpc.request(1, "run", message="hi", profile="supervised")
    asked = rpc.until("approval_request")["params"]
    assert (asked["registries"], len(asked["grants"])) == ([], 1)
    rpc.request(2, "approve", id=asked["id"], approved=False, remember="project")
    rpc.until(id=1)
    rpc.close()
    assert "granted" not in world.receipts()[0]["decision"]
    assert not (world.cli.data / "grants.json").exists()


def test_a_client_may_let_registries_in() -> None:
    request = ApprovalRequest("Bash", "medium", "why", "npm i", "call-1", id="approval-1", registries=("one.example",))

    async def answered(registries: tuple[str, ...]) -> Answer:
        asked = asyncio.Event()
        client = Asking(lambda _request: asked.set())
        asking = asyncio.ensure_future(client.approve(replace(request, registries=registries)))
        await asked.wait()
        assert client.answer("approval-1", Answer(approved=True, by="operator", remember="registries"))
        return await asking

    given = asyncio.run(answered(request.registries))
    assert (given.remember, given.comment) == ("registries", "with one.example for this session")
    assert asyncio.run(answered(())).remember == "", "what was not offered is not let in"


def test_a_client_answers_what_a_terminal_asks(world: World, rpc: Rpc) -> None:
    world.script(write(), QUESTION, text("{{last_result}}"))
    process, id = asking_with(world)
    (waiting,) = rpc.answer(1, "questions")["result"]["questions"]
    assert (waiting["id"], waiting["state"], waiting["tool"]) == (id, "pending", "file_write")
    assert "mac" not in waiting
    wrong = rpc.answer(2, "approve", id=id, approved=True, plan="0" * 64)["error"]
    assert (wrong["code"], "another call" in wrong["message"]) == (-32005, True)
    assert rpc.answer(3, "approve", id=id, approved=True, remember="session")["error"]["code"] == -32602
    assert rpc.answer(4, "answer", id=id, replies={"a": "b"})["error"]["code"] == -32002
    assert rpc.answer(5, "approve", id=id, approved=True, plan=waiting["plan_hash"])["result"]["approved"] is True
    assert rpc.answer(6, "approve", id=id, approved=False)["error"]["code"] == -32003
    while not (asked := rpc.answer(7, "questions")["result"]["questions"]):
        assert process.poll() is None
    assert rpc.answer(8, "answer", id=asked[0]["id"], replies={"Which?": "red"})["error"]["code"] == -32002
    assert rpc.answer(9, "answer", id=asked[0]["id"], replies={"Which one?": "blue"})["result"]["answered"] is True
    out, _ = process.communicate(timeout=90)
    assert "→ blue" in out.decode()
    assert (world.workspace / "a.txt").exists()
    named = [receipt["decision"]["answered_by"] for receipt in world.receipts()]
    assert named == [f"{USER} (rpc)"] * 2


def test_a_client_answers_what_a_killed_process_asked(world: World, rpc: Rpc) -> None:
    id, conversation = killed(world)
    assert rpc.answer(1, "answer", id=id, replies={"Which one?": "red"})["result"]["answered"] is True
    assert "→ red" in world.cli("agent", "--resume", conversation).out
    proved(world)


def test_a_client_is_told_of_no_such_question(rpc: Rpc) -> None:
    assert rpc.answer(1, "questions")["result"] == {"questions": []}
    assert rpc.answer(2, "approve", id="approval-0", approved=True)["error"]["code"] == -32002
    assert rpc.answer(3, "answer", id="question-0", replies={})["error"]["code"] == -32002
    assert rpc.answer(4, "questions", limit=0)["error"]["code"] == -32602


PROGRAM = """
import asyncio, json, sys
from adderclaw import AgentClient

async def main():
    client = AgentClient()
    (waiting,) = await client.questions()
    answered = await client.answer(waiting["id"], json.loads(sys.argv[1]))
    print(json.dumps([waiting["state"], answered["answer"], answered["answered_who"]]))

asyncio.run(main())
"""


def answered_by_python(world: World, answer: object) -> Any:
    command = [sys.executable, "-c", PROGRAM, json.dumps(answer)]
    done = subprocess.run(command, env=world.cli.env, cwd=world.workspace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_python_program_answers_what_a_terminal_asks(world: World) -> None:
    world.script(write(), text("done"))
    process, _ = asking_with(world)
    assert answered_by_python(world, True) == ["pending", "yes", f"{USER} (python)"]
    assert process.wait(90) == 0
    process.communicate()
    assert world.receipts()[0]["decision"]["answered_by"] == f"{USER} (python)"


def test_a_python_program_replies_to_what_a_killed_process_asked(world: World) -> None:
    _, conversation = killed(world)
    assert answered_by_python(world, {"Which one?": "blue"}) == ["left", "yes", f"{USER} (python)"]
    assert "→ blue" in world.cli("agent", "--resume", conversation).out
