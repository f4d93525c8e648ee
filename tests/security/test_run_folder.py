"""The folder in which a headless run keeps its events lies in the workspace: no link there leads it out."""

import os

import pytest

from tests.acceptance.world import call, text
from tests.security.world import YES, Den, Rung

AGENTFILE = 'NAME work\nAGENT a "You work." -> open\nGOAL g "Work" USING a\nRUN r USING g\n'


def run(den: Den, *steps: object, arguments: tuple[str, ...] = (), rung: Rung | None = None) -> str:
    den.script(*(call("Bash", command=step) for step in steps if isinstance(step, str)), text("done"))
    (den.workspace / "Agentfile").write_text(AGENTFILE)
    den.prepare(rung)
    done = den.cli("run", "Agentfile", *arguments, stdin=YES, cwd=den.workspace, timeout=200)
    assert "\nTraceback" not in done.err
    return done.err


@pytest.mark.parametrize("name", ["runs", "out/runs"])
def test_a_link_that_a_repository_brings_is_not_followed(world: Den, name: str) -> None:
    world.configure(more=f'[logging]\njsonl_dir = "{name}"\n')
    link = world.workspace / name.split("/")[0]
    link.symlink_to(os.path.relpath(world.neighbour, world.workspace))
    told = run(world)
    world.unharmed()
    assert "the jsonl sink failed and was removed" in told


def test_nor_is_one_in_the_way_of_the_telemetry_file(world: Den) -> None:
    world.configure(more='[telemetry]\nenabled = true\nprotocol = "file"\npath = "out/telemetry.jsonl"\n')
    (world.workspace / "out").symlink_to(os.path.relpath(world.neighbour, world.workspace))
    run(world, "echo hi")
    world.unharmed()


PLANTS = """
import glob, os
(folder,) = glob.glob('runs/*')
for step in range(1, 9):
    for what in ('request', 'response'):
        name = f'{folder}/step-{step:04d}-{what}.json'
        os.path.lexists(name) or os.symlink(TARGET, name)
"""


@pytest.mark.parametrize("rung", ["bubblewrap", "landlock"])
def test_a_link_that_a_command_plants_is_not_written_through(world: Den, rung: Rung) -> None:
    """A mount keeps the folder; where there is none, a link that stands there is not followed."""
    if rung == "landlock":
        world.configure(more='[sandbox]\naccept = "landlock"\n')
    target = str(world.home / ".bashrc")
    (world.workspace / "plant.py").write_text(PLANTS.replace("TARGET", repr(target)))
    told = run(world, "python3 plant.py", "echo two", "echo three", arguments=("--debug-llm",), rung=rung)
    world.unharmed()
    (folder,) = (world.workspace / "runs").glob("*/")
    assert (folder / "step-0001-request.json").is_file(), told
    assert (folder / "step-0002-request.json").is_symlink() == (rung == "landlock")
    assert ("step-0002-request.json could not be saved" in told) == (rung == "landlock")


STREAM = ("--event-stream", "--speed", "0", "--output-format", "json")


@pytest.mark.parametrize("link", ["runs", "runs/one", "runs/one/events.jsonl"])
def test_a_replay_shows_nothing_that_a_link_leads_to(world: Den, link: str) -> None:
    """A repository brings its runs along: nothing is shown of what the store does not know."""
    event = '{"event_type": "brief", "message": "of the neighbour", "session_id": "s", "ts": 1.0}\n'
    (world.neighbour / "one").mkdir()
    (world.neighbour / "one" / "events.jsonl").write_text(event)
    place = world.workspace / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(world.neighbour / link.partition("/")[2])
    world.script(text("hello"))
    world.prepare()
    world.cli("agent", "-m", "hi", cwd=world.workspace)
    for words in (("one",), ("on",)):
        done = world.cli("replay", *words, *STREAM, cwd=world.workspace)
        assert "of the neighbour" not in done.out + done.err
        assert done.code == 2, done.err
