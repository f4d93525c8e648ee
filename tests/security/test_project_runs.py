"""A project's own folder of runs: what a command changes there is kept by the checkpoint, whatever it is called."""

from tests.acceptance.world import call, text
from tests.security.world import Den


def test_what_is_called_like_a_run_of_ours_is_kept_and_put_back(world: Den) -> None:
    notes = world.workspace / "runs" / "run-1" / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("precious")
    (world.workspace / "change.py").write_text("open('runs/run-1/notes.txt', 'w').write('gone')\n")
    world.script(call("Bash", command="python3 change.py"), text("done"))
    world.agent("go", "--workspace", str(world.workspace), stdin="y\n")
    assert notes.read_text() == "gone"
    (number,) = world.rows("SELECT max(id) FROM checkpoints")[0]
    done = world.cli("checkpoint", "restore", str(number), "--force", "--path", "runs/run-1/notes.txt")
    assert notes.read_text() == "precious", done.err
