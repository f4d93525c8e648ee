"""Approvals through the installed program: here, from another process, too late, and "always"."""

import json
import os
import pwd
import sqlite3
import subprocess
import time
from typing import Any

import pytest

from tests.acceptance.world import World, call, text

USER = pwd.getpwuid(os.getuid()).pw_name

type Process = "subprocess.Popen[bytes]"


def asking(world: World, *more: str, message: str | None = "go", prompt: bytes = b"Approve?") -> tuple[Process, str]:
    """The agent with its question on the screen, and the question's id."""
    process = world.cli.start("agent", *(() if message is None else ("-m", message)), *more)
    assert process.stderr is not None
    seen = b""
    while prompt not in seen:
        part = os.read(process.stderr.fileno(), 4096)
        assert part, seen
        seen += part
    (waiting,) = listed(world)
    return process, waiting["id"]


def listed(world: World, *more: str) -> list[dict[str, Any]]:
    done = world.cli("approvals", "list", "--output-format", "json", *more)
    assert done.code == 0, done.err
    return json.loads(done.out)


def write(name: str = "a.txt") -> dict[str, Any]:
    return call("file_write", path=name, content="x")


def ended(process: Process, stdin: bytes | None = None) -> int:
    process.communicate(stdin, timeout=30)
    return process.returncode


# ------------------------------------------------------------------ another process


@pytest.mark.parametrize(("word", "status"), [("no", "denied"), ("yes", "allowed")])
def test_another_process_answers(world: World, word: str, status: str) -> None:
    world.script(write(), text("done"))
    process, id = asking(world)
    done = world.cli("approvals", "answer", id, word, "--comment", "from the other window")
    assert done.code == 0, done.err
    assert process.wait(90) == (0 if word == "yes" else 3)  # its own stdin is still open
    process.communicate()
    (receipt,) = world.receipts()
    assert receipt["status"] == status
    assert receipt["decision"]["by"] == "operator (approvals answer)"
    assert receipt["decision"]["answered_by"] == f"{USER} (approvals)"
    assert receipt["decision"]["approval_id"] == id
    assert receipt["decision"]["comment"] == "from the other window"
    assert (world.workspace / "a.txt").exists() == (word == "yes")
    assert listed(world) == []
    ((shown, plan),) = world.rows("SELECT shown, plan_hash FROM approvals")
    assert json.loads(shown) == {"content": "x", "path": "a.txt"}
    assert len(plan) == 64


def test_the_second_answer_is_told_that_it_does_not_count(world: World) -> None:
    world.script(write(), text("done"))
    process, id = asking(world)
    assert world.cli("approvals", "answer", id, "no").code == 0
    late = world.cli("approvals", "answer", id, "yes")
    assert late.code == 1
    assert "answered no" in late.err
    ended(process)
    assert not (world.workspace / "a.txt").exists()


def test_two_processes_and_the_terminal_at_once(world: World) -> None:
    """Whoever is first decides, and all of them agree on who that was."""
    world.script(write(), text("done"))
    process, id = asking(world)
    others = [world.cli.start("approvals", "answer", id, word) for word in ("no", "yes", "no", "yes")]
    assert process.stdin is not None
    process.stdin.write(b"y\n")
    process.stdin.flush()
    codes = [ended(other) for other in others]
    ended(process)
    ((answer, by),) = world.rows("SELECT answer, answered_by FROM approvals")
    assert codes.count(0) == (0 if by == "operator" else 1)
    assert (world.workspace / "a.txt").exists() == (answer == "yes")
    assert world.receipts()[0]["status"] == ("allowed" if answer == "yes" else "denied")


def test_what_was_approved_is_what_runs(world: World) -> None:
    """The file that is asked about becomes a link while the question waits: the answer is not for that."""
    (world.workspace / "a.txt").write_text("old")
    (world.workspace / "b.txt").write_text("other")
    world.script(write(), text("done"))
    process, id = asking(world)
    (world.workspace / "a.txt").unlink()
    (world.workspace / "a.txt").symlink_to("b.txt")
    assert world.cli("approvals", "answer", id, "yes").code == 0
    ended(process)
    assert world.receipts()[0]["status"] == "denied"
    assert (world.workspace / "b.txt").read_text() == "other"


@pytest.mark.parametrize("arguments", [("nothing", "yes"), ("nothing", "maybe"), ("nothing",)])
def test_answers_that_make_no_sense(world: World, arguments: tuple[str, ...]) -> None:
    done = world.cli("approvals", "answer", *arguments)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert listed(world) == []


def test_whoever_can_only_write_the_database_gives_no_yes(world: World) -> None:
    world.script(write(), text("done"))
    process, id = asking(world)
    with sqlite3.connect(world.database) as connection:
        sql = "UPDATE approvals SET answer = 'yes', answered_by = 'operator (approvals answer)', mac = ? WHERE id = ?"
        connection.execute(sql, ("0" * 64, id))
    assert process.wait(90) == 3
    process.communicate()
    assert not (world.workspace / "a.txt").exists()
    assert "not signed with your key" in world.receipts()[0]["decision"]["comment"]


def test_questions_and_answers_are_events(world: World) -> None:
    world.script(write(), text("done"))
    world.agent("go", stdin="y\n")
    lines = next((world.cli.data / "runs").glob("*/events.jsonl")).read_text().splitlines()
    events = [json.loads(line) for line in lines]
    told = [event for event in events if event["event_type"].startswith("approval_")]
    assert [event["event_type"] for event in told] == ["approval_requested", "approval_answered"]
    assert told[0]["payload"]["approval_id"] == told[1]["payload"]["approval_id"]
    assert (told[1]["payload"]["approved"], told[1]["payload"]["by"]) == (True, "operator")


def test_the_receipt_names_who_answered_at_the_terminal(world: World) -> None:
    world.script(write(), text("done"))
    world.agent("go", stdin="y\n")
    decision = world.receipts()[0]["decision"]
    ((id, who, channel),) = world.rows("SELECT id, answered_who, channel FROM approvals")
    assert (decision["by"], decision["answered_by"], decision["approval_id"]) == ("operator", f"{USER} (cli)", id)
    assert (who, channel) == (f"{USER} (cli)", "cli")


def test_an_answer_to_another_call_is_refused(world: World) -> None:
    world.script(write(), text("done"))
    process, id = asking(world)
    wrong = world.cli("approvals", "answer", id, "yes", "--plan", "0" * 64)
    assert (wrong.code, "about another call" in wrong.err) == (1, True)
    assert listed(world)[0]["state"] == "pending"
    assert world.cli("approvals", "answer", id, "yes", "--plan", listed(world)[0]["plan_hash"]).code == 0
    assert process.wait(90) == 0
    process.communicate()


# ------------------------------------------------------------------ after kill -9


def killed(world: World, *replies: dict[str, Any]) -> tuple[str, str]:
    """A question whose process is dead, and its conversation."""
    world.script(*(replies or (write(), text("done"))))
    process, id = asking(world)
    process.kill()
    ended(process)
    assert listed(world)[0]["state"] == "left"
    ((conversation,),) = world.rows("SELECT conversation_id FROM sessions ORDER BY rowid DESC LIMIT 1")
    return id, str(conversation)


@pytest.mark.parametrize(("word", "status"), [("yes", "allowed"), ("no", "denied")])
def test_an_answer_between_kill_and_resume_counts(world: World, word: str, status: str) -> None:
    id, conversation = killed(world)
    done = world.cli("approvals", "answer", id, word)
    assert (done.code, "when its conversation is resumed" in done.out) == (0, True), done.err
    resumed = world.cli("agent", "--resume", conversation)
    assert "Approve?" not in resumed.err, "nobody is asked again"
    (receipt,) = world.receipts()
    assert (receipt["status"], receipt["decision"]["approval_id"]) == (status, id)
    assert receipt["decision"]["answered_by"] == f"{USER} (approvals)"
    assert (world.workspace / "a.txt").exists() == (word == "yes")
    ((run,),) = world.rows("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1")
    replayed = world.cli("replay", str(run), "--verify")
    assert replayed.code == 0, replayed.out + replayed.err


def test_the_question_is_asked_again_under_the_same_row(world: World) -> None:
    id, conversation = killed(world)
    assert "Approve?" in world.cli("agent", "--resume", conversation, stdin="y\n").err
    assert world.rows("SELECT id, answer, answered_by FROM approvals") == [(id, "yes", "operator")]
    assert world.receipts()[0]["decision"]["approval_id"] == id


def test_an_answer_for_a_call_that_changed_meanwhile_does_not_count(world: World) -> None:
    (world.workspace / "a.txt").write_text("old")
    (world.workspace / "b.txt").write_text("other")
    id, conversation = killed(world)
    assert world.cli("approvals", "answer", id, "yes").code == 0
    (world.workspace / "b.txt").replace(world.workspace / "a.txt")
    assert "Approve?" in world.cli("agent", "--resume", conversation, stdin="n\n").err
    assert (world.workspace / "a.txt").read_text() == "other"
    assert world.receipts()[0]["status"] == "denied"


@pytest.mark.parametrize("mac", [None, "0" * 64])
def test_a_forged_yes_is_no_yes_for_a_resumed_call(world: World, mac: str | None) -> None:
    id, conversation = killed(world)
    with sqlite3.connect(world.database) as connection:
        sql = "UPDATE approvals SET answer = 'yes', answered_by = 'operator (approvals answer)', mac = ? WHERE id = ?"
        connection.execute(sql, (mac, id))
    world.cli("agent", "--resume", conversation, stdin="y\n")
    assert not (world.workspace / "a.txt").exists()
    assert "not signed with your key" in world.receipts()[0]["decision"]["comment"]


def test_a_yes_counts_for_one_call(world: World) -> None:
    """The model makes the same call again, by the same id: that is another question."""
    one = write()
    id, conversation = killed(world, one, one, text("done"))
    assert world.cli("approvals", "answer", id, "yes").code == 0
    resumed = world.cli("agent", "--resume", conversation, stdin="n\n")
    assert resumed.err.count("Approve?") == 1
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed", "denied"]
    assert len(world.rows("SELECT id FROM approvals")) == 2


def used(world: World) -> tuple[str, str]:
    """A question whose yes came from another process and was used, and its conversation.

    The call appends a line to a file, so that nothing of what it touches changes.
    """
    (world.workspace / "a.txt").write_text("")
    id, conversation = killed(world, call("Bash", command="echo x >> a.txt"), text("done"))
    assert world.cli("approvals", "answer", id, "yes").code == 0
    assert world.cli("agent", "--resume", conversation).code == 0
    assert (world.workspace / "a.txt").read_text() == "x\n"
    return id, conversation


def erased(world: World, id: str) -> None:
    """What somebody does who can only write the database: it looks as if the call had never been made."""
    with sqlite3.connect(world.database) as connection:
        connection.execute("UPDATE approvals SET used_at = NULL WHERE id = ?", (id,))
        connection.execute(
            "DELETE FROM transcript_entries WHERE sequence >"
            " (SELECT min(sequence) FROM transcript_entries WHERE entry_type = 'assistant')"
        )


def test_a_yes_whose_use_was_erased_from_the_database_counts_for_no_second_call(world: World) -> None:
    id, conversation = used(world)
    erased(world, id)
    world.cli("agent", "--resume", conversation)
    assert (world.workspace / "a.txt").read_text() == "x\n", "the call ran once more on the same yes"
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed", "denied"]
    assert "used already" in world.receipts()[1]["decision"]["comment"]


def test_the_same_with_the_mirror_of_its_receipt_erased_as_well(world: World) -> None:
    id, conversation = used(world)
    erased(world, id)
    with sqlite3.connect(world.database) as connection:
        connection.execute("DELETE FROM receipts")
    world.cli("agent", "--resume", conversation)
    assert (world.workspace / "a.txt").read_text() == "x\n", "the call ran once more on the same yes"


def test_verify_finds_a_yes_whose_use_was_erased(world: World) -> None:
    id, _ = used(world)
    whole = world.cli("receipt", "verify")
    assert whole.code == 0, whole.out + whole.err
    erased(world, id)
    done = world.cli("receipt", "verify")
    assert (done.code, id in done.out + done.err) == (1, True), done.out + done.err
    assert "used" in done.out + done.err


def test_a_call_that_was_killed_while_it_ran_has_used_its_yes(world: World) -> None:
    world.script(call("Bash", command="echo x >> a.txt && sleep 60"), text("done"))
    process, id = asking(world)
    assert world.cli("approvals", "answer", id, "yes").code == 0
    path = world.workspace / "a.txt"
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    ended(process)
    ((conversation,),) = world.rows("SELECT conversation_id FROM sessions ORDER BY rowid DESC LIMIT 1")
    world.cli("agent", "--resume", str(conversation))
    (receipt,) = world.receipts()
    assert (receipt["status"], receipt["decision"]["by"]) == ("failed", "resume")
    assert receipt["decision"]["approval_id"] == id
    assert world.cli("receipt", "verify").code == 0


def test_a_question_that_expired_meanwhile_is_asked_anew(world: World) -> None:
    world.configure(security="approval_timeout_seconds = 60")
    id, conversation = killed(world)
    with sqlite3.connect(world.database) as connection:
        connection.execute("UPDATE approvals SET expires_at = '2020-01-01T00:00:00.000Z'")
    late = world.cli("approvals", "answer", id, "yes")
    assert (late.code, "too late" in late.err) == (1, True)
    assert "Approve?" in world.cli("agent", "--resume", conversation, stdin="n\n").err
    assert [row[0] for row in world.rows("SELECT answered_by FROM approvals ORDER BY rowid")] == [
        "abandoned",
        "operator",
    ]
    assert not (world.workspace / "a.txt").exists()


# ------------------------------------------------------------------ expiry and the stop


def test_expiry_denies(world: World) -> None:
    world.configure(security="approval_timeout_seconds = 2")
    world.script(write(), text("done"))
    process, id = asking(world)
    assert process.wait(90) == 3
    process.communicate()
    assert world.receipts()[0]["decision"]["by"] == "timeout"
    assert not (world.workspace / "a.txt").exists()
    late = world.cli("approvals", "answer", id, "yes")
    assert late.code == 1
    assert "timeout answered no" in late.err


def test_the_stop_ends_a_question(world: World) -> None:
    world.script(write(), text("done"))
    process, _ = asking(world)
    began = time.monotonic()
    world.cli("estop")
    process.wait(90)
    process.communicate()
    assert time.monotonic() - began < 30
    assert world.receipts()[0]["status"] == "denied"
    assert not (world.workspace / "a.txt").exists()


def test_the_question_cannot_steer_a_terminal_and_is_shown_whole_or_not_asked(world: World) -> None:
    long = f"{'x' * 9_000}in the middle{'y' * 9_000}"
    hidden = call("file_write", path="a.txt", content=f"\x1b]0;x\x07 \u202e p\u0430ypal {long}")
    world.script(call("file_write", path="b.txt", content="z" * 300_000), hidden, text("done"))
    done = world.agent("go", stdin="n\n")
    for shown in (done.err, world.cli("approvals", "list", "--all").out):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "in the middle" in shown
        assert "several alphabets in one word: p\\u{430}ypal" in shown
    assert "denied without asking: it is too long to be shown whole" in done.err
    listed = json.loads(world.cli("approvals", "list", "--all", "--output-format", "json").out)
    marked = {len(row["shown"]) > 200_000: (row["id"], row["lookalikes"]) for row in listed}
    assert marked[False][1] == ["p\\u{430}ypal"]
    late = world.cli("approvals", "answer", marked[True][0], "yes")
    assert (late.code, "too long to be shown whole" in late.err) == (1, True)
    assert [receipt["status"] for receipt in world.receipts()] == ["denied", "denied"]


# ------------------------------------------------------------------ always


def test_always_in_this_session(world: World) -> None:
    world.script(write(), write(), write("b.txt"), text("one"))
    done = world.agent("go", stdin="a\nn\n")
    assert f"always: Write(/{world.workspace}/a.txt)" in done.err
    assert done.err.count("Approve?") == 2, "the same file is not asked about again, another one is"
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed", "allowed", "denied"]
    assert world.receipts()[0]["decision"]["granted"] == [f"Write(/{world.workspace}/a.txt)"]
    world.script(write(), text("two"))
    assert "Approve?" in world.agent("again", stdin="n\n").err, "the next session asks anew"


def test_always_from_now_on(world: World) -> None:
    config = world.cli.data / "config.toml"
    config.write_text("# mine\n" + config.read_text())
    world.script(call("Bash", command="mkdir -p out"), text("one"))
    assert "always: Bash(mkdir -p out)" in world.agent("go", stdin="A\n").err
    assert "Approve?" not in world.agent("again").err
    assert config.read_text().startswith("# mine\n")
    shown = json.loads(world.cli("config", "show", "--output-format", "json").out)
    assert shown["config"]["permissions"]["allow"] == ["Bash(mkdir -p out)"]
    assert world.receipts()[0]["decision"]["granted_in"] == str(config)


def test_always_in_this_project_and_no_longer(world: World) -> None:
    config = (world.cli.data / "config.toml").read_text(encoding="utf-8")
    world.script(call("Bash", command="mkdir -p out"), text("one"))
    asked = world.agent("go", stdin="p\n").err
    assert "that is: `mkdir -p out` may run, word for word, without a question" in asked
    kept = f"{world.cli.data / 'grants.json'} for {world.workspace}"
    assert world.receipts()[0]["decision"]["granted_in"] == kept
    assert (world.cli.data / "config.toml").read_text(encoding="utf-8") == config
    assert "Approve?" not in world.agent("again").err
    other = world.workspace.with_name("other")
    other.mkdir()
    assert "Approve?" in world.agent("go", "--workspace", str(other), stdin="n\n").err
    (verified,) = {world.cli("replay", run, "--verify").code for (run,) in world.rows("SELECT run_id FROM runs")}
    assert verified == 0
    assert world.cli("approvals", "granted").out == f"{world.workspace}  Bash(mkdir -p out)\n"
    assert "nothing is always allowed in" in world.cli("approvals", "granted", "--workspace", str(other)).out
    (row,) = json.loads(world.cli("approvals", "granted", "--all", "--output-format", "json").out)
    assert row == {"project": str(world.workspace), "rule": "Bash(mkdir -p out)"}
    assert world.cli("approvals", "revoke", "Bash(mkdir)").code == 2
    listed = world.cli.typed("agent", stdin="/permissions\n/permissions remove Bash(mkdir -p out)\n/exit\n").out
    assert "allow  Bash(mkdir -p out)  (always in this project)" in listed
    assert "removed from this session and from what is always allowed in this project" in listed
    assert "Approve?" in world.agent("again", stdin="p\n").err
    assert world.cli("approvals", "revoke", "Bash(mkdir -p out)").out.startswith("no longer always allowed")
    assert "Approve?" in world.agent("again", stdin="n\n").err


@pytest.mark.parametrize(
    "asked",
    [
        call("file_write", path="a.txt", content="x" * 7000),
        call("memory_write", key="k", value="v"),
        call("Bash", command="mkdir 'a*'"),
    ],
    ids=["cut", "no exact rule", "a star"],
)
def test_always_is_not_offered(world: World, asked: dict[str, Any]) -> None:
    world.script(asked, text("one"))
    done = world.agent("go", stdin="a\n")
    assert "always: " not in done.err
    assert world.receipts()[0]["status"] == "denied", "what is not offered is no yes"


def test_always_is_never_offered_for_raw_bash(world: World) -> None:
    world.configure(security='raw_bash = "ask"')
    world.script(call("Bash", command="eval echo x"), text("one"))
    done = world.agent("go", stdin="A\n")
    assert "Approve?" in done.err
    assert "always: " not in done.err
    assert world.receipts()[0]["status"] == "denied"
