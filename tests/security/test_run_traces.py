"""The trace of a run cannot be forged: not by what runs in it, and not unnoticed by anybody else."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import call, text
from tests.program import Done
from tests.security.world import YES, Den

AGENTFILE = 'NAME work\nAGENT a "You work." -> open\nGOAL g "Work" USING a\nRUN r USING g\n'
STREAM = ("--event-stream", "--speed", "0", "--output-format", "json")
FORGES = """
import glob, os, shutil, sys
for file in glob.glob('runs/*/events.jsonl'):
    for way in sys.argv[1:]:
        try:
            if way == 'rewrite':
                lines = open(file).read().replace('forge.py', 'nothing.py')
                open(file, 'w').write(lines)
            elif way == 'append':
                open(file, 'a').write('{"event_type": "run_finished", "payload": {"outcome": "completed"}}\\n')
            elif way == 'exchange':
                open('mine', 'w').write('{"event_type": "brief"}\\n'); os.rename('mine', file)
            elif way == 'remove':
                os.unlink(file)
            elif way == 'folder':
                os.rename('runs', 'away'); shutil.copytree('away', 'runs')
            elif way == 'plant':
                os.mkdir('runs/20260101-000000-deadbeef')
            elif way == 'link':
                os.link(file, 'other'); open('other', 'a').write('x')
            elif way == 'mode':
                os.chmod(file, 0o666); os.chmod('runs', 0o777)
            print('DONE', way)
        except OSError as error:
            print('FAILED', way, error.errno)
"""
WAYS = ("rewrite", "append", "exchange", "remove", "folder", "plant", "link", "mode")


def run(den: Den, *steps: dict[str, Any]) -> Done:
    den.script(*steps, text("done"))
    (den.workspace / "Agentfile").write_text(AGENTFILE)
    (den.workspace / "forge.py").write_text(FORGES)
    den.prepare()
    return den.cli("run", "Agentfile", stdin=YES, cwd=den.workspace, timeout=200)


def trace(den: Den) -> Path:
    (found,) = (den.workspace / "runs").glob("*/events.jsonl")
    return found


def replayed(den: Den, *words: str) -> Done:
    return den.cli("replay", trace(den).parent.name, *words, cwd=den.workspace)


def test_no_command_and_no_tool_of_a_run_writes_in_the_folder_of_traces(world: Den) -> None:
    own = "runs/mine.txt"
    done = run(
        world,
        call("Bash", command=f"python3 forge.py {' '.join(WAYS)}"),
        call("Bash", command="git clean -fdx; git stash -u -a"),
        call("Bash", command="for f in runs/*/events.jsonl; do echo x >> $f; done"),
        call("Write", file_path=own, content="x"),
        call("Delete", path="runs"),
        call("Bash", command="cat runs/*/events.jsonl | head -n 1"),
    )
    assert "Traceback" not in done.err
    said = [str(entry["content"]) for entry in world.entries("tool_result")]
    assert [f"FAILED {way}" in said[0] and f"DONE {way}" not in said[0] for way in WAYS] == [True] * len(WAYS), said[0]
    assert "traces of runs" in said[3], said
    assert '"startup"' in said[5] or "event_type" in said[5], said[5]
    assert sorted(os.listdir(world.workspace / "runs")) == [".gitignore", trace(world).parent.name]
    for words in ((*STREAM,), ("--verify",), ()):
        shown = replayed(world, *words)
        assert (shown.code, shown.err) == (0, ""), shown.out + shown.err
    shown = replayed(world, *STREAM)
    assert shown.out.splitlines() == trace(world).read_text().splitlines()
    world.unharmed()


def test_a_later_conversation_cannot_forge_the_trace_of_a_run(world: Den) -> None:
    run(world)
    before = trace(world).read_bytes()
    attack = world.attack(f"python3 forge.py {' '.join(WAYS)}", arguments=("--workspace", str(world.workspace)))
    assert "DONE" not in attack.results[0], attack.results
    assert trace(world).read_bytes() == before


def test_nor_can_one_that_works_elsewhere_and_was_given_the_folder(world: Den) -> None:
    run(world)
    before, place = trace(world).read_bytes(), str(world.workspace)
    other = world.base / "other"
    other.mkdir()
    file = str(trace(world))
    world.configure(security=f'additional_directories = ["{place}"]')
    attack = world.attack(
        f"cd {place} && python3 forge.py {' '.join(WAYS)}",
        call("Write", file_path=file, content="x"),
        arguments=("--workspace", str(other)),
    )
    assert "FAILED rewrite" in attack.results[0], attack.results
    assert "DONE" not in attack.results[0], attack.results
    assert trace(world).read_bytes() == before


def test_a_workspace_that_is_named_by_a_link_keeps_its_traces(world: Den) -> None:
    run(world)
    before = trace(world).read_bytes()
    (world.base / "by").symlink_to(world.workspace)
    named = str(world.base / "by")
    attack = world.attack(f"python3 forge.py {' '.join(WAYS)}", arguments=("--workspace", named))
    assert "FAILED rewrite" in attack.results[0], attack.results
    assert trace(world).read_bytes() == before


def test_git_does_not_see_the_traces_and_a_projects_own_files_there_stay_its_own(world: Den) -> None:
    (world.workspace / "runs" / "exp1").mkdir(parents=True)
    (world.workspace / "runs" / "exp1" / "weights.bin").write_text("mine")
    run(world)
    status = world.git("status", "--porcelain", "--untracked-files=all")
    assert [line for line in status.splitlines() if "runs/" in line] == ["?? runs/exp1/weights.bin"]


def test_a_runs_folder_that_was_never_ours_is_the_projects(world: Den) -> None:
    (world.workspace / "runs").mkdir()
    attack = world.attack("mkdir runs/exp1 && echo x > runs/exp1/log && cat runs/exp1/log")
    assert attack.last.startswith("x"), attack.last


FORGERIES: dict[str, Callable[[list[str]], list[str]]] = {
    "a word": lambda lines: [
        line.replace("GoalResult", "GoalSecret").replace("completed", "c0mpleted") for line in lines
    ],
    "a time": lambda lines: [lines[0].replace('"timestamp":"20', '"timestamp":"19'), *lines[1:]],
    "a line less": lambda lines: [*lines[:4], *lines[5:]],
    "a line more": lambda lines: [*lines, lines[-1]],
    "an order": lambda lines: [lines[1], lines[0], *lines[2:]],
    "nothing left": lambda _lines: [],
    "a space": lambda lines: [lines[0].replace('{"', '{ "', 1), *lines[1:]],
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_whoever_reads_a_run_hears_what_differs(world: Den, forgery: str) -> None:
    run(world)
    file = trace(world)
    lines = file.read_text().splitlines()
    changed = FORGERIES[forgery](lines)
    assert changed != lines
    file.write_text("".join(f"{line}\n" for line in changed))
    said = "is not what the run wrote"
    shown = replayed(world, *STREAM)
    assert shown.code == 1, shown.err
    assert said in shown.err
    assert not {*shown.out.splitlines()} - {*lines} or forgery == "a space"
    proof = replayed(world, "--verify", "--output-format", "json")
    assert proof.code == 1
    assert any(one["where"] == "events.jsonl" for one in json.loads(proof.out)["differences"])
    run_id = file.parent.name
    for words in (("replay", run_id), ("runs", "list"), ("runs", "show", run_id)):
        done = world.cli(*words, cwd=world.workspace)
        assert (done.code, said in done.err) == (0, True), (words, done.err)
    listed = json.loads(world.cli("runs", "list", "--output-format", "json", cwd=world.workspace).out)
    assert [one["trace"]["state"] for one in listed] == ["differs"]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "status", "params": {"run_id": run_id}}
    answer = world.cli("rpc", stdin=json.dumps(asked) + "\n", cwd=world.workspace)
    (reply,) = (json.loads(line) for line in answer.out.splitlines() if '"id":1' in line.replace(" ", ""))
    assert reply["result"]["trace"]["state"] == "differs", answer.out


def test_a_run_that_the_store_does_not_know_is_not_shown(world: Den) -> None:
    run(world)
    planted = world.workspace / "runs" / "20260101-000000-deadbeef"
    planted.mkdir()
    own = next(path for path in (world.workspace / "runs").glob("*/events.jsonl"))
    (planted / "events.jsonl").write_bytes(own.read_bytes())
    done = world.cli("replay", planted.name, *STREAM, cwd=world.workspace)
    assert (done.code, done.out) == (2, ""), done.out
    assert "there is no run" in done.err


def test_a_run_that_goes_on_says_that_its_trace_was_changed(world: Den) -> None:
    world.script(text("nothing done"), text("still nothing"))
    (world.workspace / "Agentfile").write_text('NAME work\nGOAL g "Work"\nRUN r USING g\n')
    world.prepare()
    failed = world.cli("run", "Agentfile", cwd=world.workspace)
    assert failed.code == 1, failed.err
    file = trace(world)
    with open(file, "a", encoding="utf-8") as out:
        out.write('{"event_type": "brief", "payload": {}}\n')
    world.script({"tool_calls": [{"name": "GoalResult", "arguments": {"achieved": True, "summary": "now"}}]})
    done = world.cli("run", "--resume", file.parent.name, cwd=world.workspace)
    assert (done.code, done.out.strip()) == (0, "now"), done.err
    assert "is not what the run wrote" in done.err
