"""Ends that say what was: exit codes and messages where something is missing, damaged, closed or far away."""

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text
from tests.program import PROGRAM


@pytest.fixture
def looked(world: World) -> World:
    (world.workspace / "a.txt").write_text("heliotrope\n")
    world.script(
        call("Read", file_path="a.txt"), call("Glob", pattern="*.txt"), call("Glob", pattern="*"), text("done")
    )
    assert world.agent("look").code == 0
    assert world.cli("receipt", "verify").code == 0
    return world


def test_37_verify_of_an_incomplete_ledger_is_no_success(looked: World) -> None:
    older = looked.database.read_bytes()
    looked.script(*(call("Glob", pattern=f"{n}") for n in range(3)), text("done"))
    assert looked.agent("more").code == 0
    for file in looked.database.parent.glob("memory.sqlite-*"):
        file.unlink()
    looked.database.write_bytes(older)  # put back
    done = looked.cli("receipt", "verify")
    assert done.code == 1, done.out
    assert "incomplete" in done.out
    assert "put back to an older state" in done.out


def test_37_calls_without_receipts_because_these_were_off_are_told_apart(looked: World) -> None:
    looked.configure(more="[receipts]\nenabled = false\n")
    looked.script(call("Glob", pattern="*"), call("Glob", pattern="a*"), text("done"))
    assert looked.agent("without").code == 0
    done = looked.cli("receipt", "verify")
    assert done.code == 0, done.out
    assert "complete: 5 tool calls in the transcript, none of them answered without a receipt; 2 made while" in done.out
    assert "receipts were switched off (receipts.enabled = false)" in done.out
    looked.configure()
    again = json.loads(looked.cli("receipt", "verify", "--output-format", "json").out)["completeness"]
    assert (again["complete"], again["without_receipt"], again["switched_off"]) == (True, 0, 2)
    with sqlite3.connect(looked.database) as database:  # nothing says any more that they were off
        database.execute("DELETE FROM tape")
    lost = looked.cli("receipt", "verify")
    assert lost.code == 1
    assert "incomplete: 5 tool calls" in lost.out
    assert "2 of them answered without a receipt" in lost.out


def test_37_a_damaged_database_leaves_the_log_to_be_verified(looked: World) -> None:
    for file in looked.database.parent.glob("memory.sqlite-*"):
        file.unlink()
    looked.database.write_bytes(b"no database at all" * 1000)
    done = looked.cli("receipt", "verify")
    assert done.code == 1, "what could not be compared is not confirmed"
    assert "valid: 3 receipts" in done.out
    assert "the database cannot be read" in done.out
    assert "neither its mirror nor calls, results and answers could be compared" in done.out
    found = json.loads(looked.cli("receipt", "verify", "--output-format", "json").out)
    assert (found["valid"], found["receipts"]) == (True, 3)
    looked.log.write_bytes(looked.log.read_bytes().replace(b"allowed", b"refused", 1))
    assert "invalid chain at receipt 1" in looked.cli("receipt", "verify").out


@pytest.mark.parametrize(
    ("sql", "seq"),
    [
        ("UPDATE transcript_entries SET payload_json = replace(payload_json, '*.txt', '*.md')", 2),
        ("UPDATE transcript_entries SET payload_json = replace(payload_json, '\"Read\"', '\"Grep\"')", 1),
        ("DELETE FROM transcript_entries WHERE tool_use_id = (SELECT tool_use_id FROM receipts WHERE seq = 3)", 3),
    ],
)
def test_37_verify_names_the_call_whose_arguments_were_changed(looked: World, sql: str, seq: int) -> None:
    with sqlite3.connect(looked.database) as database:
        database.execute(f"{sql} {'AND' if sql.startswith('DELETE') else 'WHERE'} entry_type = 'tool_use'")
    done = looked.cli("receipt", "verify")
    assert done.code == 1, done.out
    assert f"invalid chain at receipt {seq}: the arguments of its call" in done.out
    assert "differ from the transcript" in done.out


def test_37_calls_with_broken_json_and_odd_text_verify(world: World) -> None:
    odd = [call("Glob", pattern="\ud800*"), {"tool_calls": [{"name": "Glob", "arguments": {"pattern": 1.5e300}}]}]
    world.script(*odd, call("NoSuchTool", a=[1, {"b": None}]), text("done"))
    assert world.agent("go").code == 0
    done = world.cli("receipt", "verify")
    assert done.code == 0, done.out


def test_37_a_stderr_that_nobody_reads_changes_no_exit_code(looked: World) -> None:
    looked.script(call("Bash", command="touch x"), text("done"))
    for arguments in (("agent", "-m", "go"), ("memory", "nonsense"), ("receipt", "verify", "--against", "x"), ("run",)):
        plain = subprocess.run([PROGRAM, *arguments], env=looked.cli.env, cwd=looked.workspace, capture_output=True)
        ours, theirs = os.pipe()
        os.close(ours)
        with open("/dev/full", "wb") as full:
            for stderr in (theirs, full):
                done = subprocess.run(
                    [PROGRAM, *arguments],
                    env=looked.cli.env,
                    cwd=looked.workspace,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                )
                assert done.returncode == plain.returncode, arguments
        os.close(theirs)


def test_37_what_the_system_refuses_is_not_blamed_on_standard_output(looked: World) -> None:
    """Of many places where descriptors run out, each says something true."""
    seen: set[str] = set()
    for most in range(8, 16):
        limited = f'ulimit -n {most}; exec "$0" agent -m go'
        done = subprocess.run(
            ["bash", "-c", limited, str(PROGRAM)],
            env=looked.cli.env,
            cwd=looked.workspace,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            seen |= {line for line in done.stderr.decode().splitlines() if line.startswith("adderclaw: ")}
    assert "adderclaw: the operating system refused a call: Too many open files" in seen
    assert not [line for line in seen if "standard output" in line or "None" in line]
    for words in ("receipt list", "--version"):
        full = subprocess.run(
            ["bash", "-c", f'"$0" {words} > /dev/full', str(PROGRAM)], env=looked.cli.env, capture_output=True
        )
        assert (full.returncode, full.stderr) == (1, b"adderclaw: standard output: No space left on device\n")


def test_37_far_into_a_large_file_is_read(world: World) -> None:
    world.configure(autonomy="full")
    big: Path = world.workspace / "big.txt"
    lines = 20_000_000
    with big.open("wb") as file:
        for _ in range(20):
            file.write((b"x" * 13 + b"\n") * (lines // 20))
        file.write(b"the end")
    assert big.stat().st_size > 256 << 20
    reads = [call("Read", file_path="big.txt", offset=offset, limit=3) for offset in (lines, lines + 2, 1)]
    world.script(*reads, text("done"))
    assert world.agent("read").code == 0
    last, beyond, _ = (entry["content"] for entry in world.entries("tool_result"))
    assert f"{lines + 1}\tthe end" in last
    assert f"has {lines + 1} lines: offset {lines + 2} is past its end" in beyond
