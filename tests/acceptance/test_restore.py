"""What a restore may touch, and what not: never our own records, never what may be the user's."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

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
