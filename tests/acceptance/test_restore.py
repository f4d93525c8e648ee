"""What a restore may touch, and what not: never our own records, never what may be the user's."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.terminal import at_a_terminal
from tests.acceptance.test_agentfile import Flow, result
from tests.acceptance.world import World, call, text
from tests.scripted import ScriptedModel


@pytest.fixture
def flow(world: World) -> Iterator[Flow]:
    with ScriptedModel() as model:
        yield Flow(world, model)


def bash(command: str) -> dict[str, Any]:
    return call("Bash", command=command)


def restored(world: World, *arguments: str) -> Any:
    done = world.cli("checkpoint", "restore", *arguments, "--output-format", "json")
    assert "Traceback" not in done.err
    return json.loads(done.out)


def test_29_checkpoints_keep_nothing_of_our_own(flow: Flow) -> None:
    """After a workflow of many steps its files go back without a conflict, and its proof still holds."""
    flow.configure(more=f'[memory]\npath = "{flow.folder}/kept/memory.sqlite"')
    flow.write('GOAL work "Work."\nRUN r USING work\n')
    flow.add(*(bash(f"echo {n} > made.txt") for n in range(12)), result("done"))
    done = flow.run()
    assert done.code == 0, done.err
    (run,) = flow.folder.glob("runs/*/events.jsonl")
    events = run.read_bytes()
    kept = sum(pack.stat().st_size for pack in (flow.world.cli.data / "checkpoints").glob("pack-*"))
    assert kept < 1000, "more was copied than the files that the commands wrote"
    report = restored(flow.world, "1")
    assert {step["path"] for step in report["steps"]} == {"made.txt"}
    assert (report["refused"], report["failed"]) == (False, {})
    assert not (flow.folder / "made.txt").exists()
    assert run.read_bytes() == events
    verified = flow.world.cli("replay", run.parent.name, "--verify")
    assert verified.code == 0, verified.out + verified.err


def test_29_each_goal_of_each_run_can_be_gone_back_to(flow: Flow) -> None:
    flow.configure()
    flow.write('GOAL one "First."\nGOAL two "Second."\nRUN r USING one, two\n')
    for run in range(2):
        flow.add(bash(f"echo {run} > one.txt"), result("done"), bash(f"echo {run} > two.txt"), result("done"))
        assert flow.run().code == 0
    listed = flow.world.cli("checkpoint", "list").out.splitlines()
    assert [line.partition("Goal `")[2][:3] for line in listed] == ["one", "two", "one", "two"], listed
    restored(flow.world, listed[2].split()[0])
    assert [(flow.folder / name).read_text() for name in ("one.txt", "two.txt")] == ["0\n", "0\n"]


def test_30_what_was_changed_in_another_folder_is_named_with_it(world: World) -> None:
    world.configure("full")
    world.script(call("Write", file_path="w.txt", content="w"), text("done"))
    world.agent("write")
    elsewhere = world.cli.home.parent / "elsewhere"
    elsewhere.mkdir()
    assert f"(in {world.workspace})" in world.cli("checkpoint", "list", cwd=elsewhere).out
    assert "(in " not in world.cli("checkpoint", "list", cwd=world.workspace).out
    refused = world.cli("checkpoint", "restore", "1", "--force", cwd=elsewhere)
    assert refused.code == 2
    assert f"checkpoint 1 is of {world.workspace}, not of {elsewhere}" in refused.err
    assert (world.workspace / "w.txt").exists()
    conversation = refused.err.split()[-1]
    done = world.cli("checkpoint", "restore", conversation, cwd=elsewhere)
    assert done.out.splitlines()[0] == f"in {world.workspace}, which is not the workspace here:"
    assert not (world.workspace / "w.txt").exists()


def test_29_what_is_kept_stays_under_its_cap(world: World) -> None:
    """A file that grows with every command is copied until the cap is reached; that is reported, and the rest too."""
    world.configure(autonomy="full", more="[checkpoints]\nmax_total_mb = 1")
    size = 300_000
    world.script(*(bash(f"head -c {size} /dev/urandom > big-{n}") for n in range(6)), text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    packs = (world.cli.data / "checkpoints").glob("pack-*")
    assert 3 * size <= sum(pack.stat().st_size for pack in packs) <= 1 << 20
    assert "checkpoints.max_total_mb" in done.err
    again = [bash(f"head -c {size} /dev/urandom > big-{n}") for n in range(2)]
    world.script(*again, call("Delete", path="big-1"), text("done"))
    assert world.agent("go").code == 0
    packs = (world.cli.data / "checkpoints").glob("pack-*")
    assert sum(pack.stat().st_size for pack in packs) <= 1 << 20, "the cap holds for all sessions together"
    assert (world.workspace / "big-1").exists(), "what cannot be put back is not deleted without a question"


SCRIPT = """\
echo begun > begun
while [ ! -e go ]; do sleep 0.02; done
echo made > by-script
rm -f begun go
"""


@pytest.fixture
def meanwhile(world: World) -> World:
    """A session in which a person worked while a command ran, and file tools wrote before and after it."""
    work = world.workspace
    world.configure(autonomy="full")
    (work / "work.sh").write_text(SCRIPT)
    (work / "edited.txt").write_text("one\ntwo\n")
    (work / "dropped.txt").write_text("dropped\n")
    world.script(
        call("Write", file_path="tool.txt", content="by the tool"),
        bash("sh work.sh > named.txt"),
        call("Delete", path="work.sh"),
        text("done"),
    )
    process = world.cli.start("agent", "-m", "go")
    limit = time.monotonic() + 60
    while not (work / "begun").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
    (work / "mine.txt").write_text("my own work\n")
    (work / "edited.txt").write_text("one\nmy line\ntwo\n")
    (work / "dropped.txt").unlink()
    (work / "go").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return world


def test_30_what_changed_while_a_command_ran_is_left_unless_it_is_named(meanwhile: World) -> None:
    work = meanwhile.workspace
    shown = meanwhile.cli("checkpoint", "show", "1").out
    assert "mine.txt  (changed during the call, may be yours)" in shown
    assert "tool.txt\n" in shown
    done = meanwhile.cli("checkpoint", "restore", "1")
    assert done.code == 3
    assert "4 paths may be yours and were not restored" in done.out
    assert not (work / "tool.txt").exists(), "what the tool wrote is the tool's"
    assert not (work / "named.txt").exists(), "the command says that it writes it"
    assert (work / "work.sh").read_text() == SCRIPT
    assert (work / "mine.txt").read_text() == "my own work\n"
    assert (work / "edited.txt").read_text() == "one\nmy line\ntwo\n"
    assert not (work / "dropped.txt").exists()
    assert (work / "by-script").exists()
    assert meanwhile.cli("checkpoint", "restore", "1", "--force").code == 3
    assert (work / "mine.txt").exists(), "it has to be named"
    assert restored(meanwhile, "1", "--force", "--path", "by-script")["failed"] == {}
    assert not (work / "by-script").exists()
    assert (work / "mine.txt").exists()
    everything = meanwhile.cli("checkpoint", "restore", "1", "--force", "--path", ".")
    assert everything.code == 0, everything.out
    assert sorted(path.name for path in work.iterdir()) == ["dropped.txt", "edited.txt", "work.sh"]
    assert (work / "edited.txt").read_text() == "one\ntwo\n"


def test_30_a_person_sees_the_difference_and_is_asked_about_each_kind(meanwhile: World) -> None:
    work = meanwhile.workspace
    answers = (("Delete them?", "n\n"), ("Undo the changes?", "y\n"), ("Restore them?", "n\n"))
    code, shown = at_a_terminal(meanwhile, "checkpoint", "restore", "1", typed=answers)
    assert code == 0, shown
    assert "-my own work" in shown
    assert "-my line" in shown
    assert (work / "mine.txt").exists()
    assert (work / "edited.txt").read_text() == "one\ntwo\n"
    assert not (work / "dropped.txt").exists()
    assert not (work / "tool.txt").exists()


def test_30_rewind_goes_the_same_way(world: World) -> None:
    world.configure(autonomy="full")
    (world.workspace / "work.sh").write_text("echo made > by-script\n")
    steps = (bash("sh work.sh"), call("Write", file_path="tool.txt", content="x"), text("done"))
    world.script(*steps)
    typed = "first\n/rewind 1 files\nn\n/rewind 1 files\ny\n/exit\n"
    done = world.cli.typed("agent", stdin=typed)
    assert done.code == 0, done.err
    assert done.err.count("these were created while a command ran, and may be yours") == 2
    assert "left        by-script  (changed while Bash ran, may be yours)" in done.out
    assert "delete      by-script" in done.out
    assert [path.name for path in world.workspace.iterdir()] == ["work.sh"]
