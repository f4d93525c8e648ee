"""S-15: what `logging.run_id_pattern` names runs, their rows, their folders, and how they are found again."""

import json
import re

from tests.acceptance.world import World, call, text

PATTERN = "ci_YYYYMMDD-HHMMSS-<short-uuid>.b"


def _ran(world: World, more: str = "") -> str:
    world.configure(more=more)
    world.script(call("LS", path="."), text("done"))
    done = world.agent("go", "--output-format", "json")
    assert done.code == 0, done.err
    return str(json.loads(done.out.splitlines()[-1])["run_id"])


def test_s15_a_run_is_named_by_the_pattern_everywhere(world: World) -> None:
    run_id = _ran(world, f'[logging]\nrun_id_pattern = "{PATTERN}"\n')
    assert re.fullmatch(r"ci_20\d{6}-[0-2]\d[0-5]\d[0-5]\d-[0-9a-f]{8}\.b", run_id)
    assert world.rows("SELECT run_id FROM runs") == [(run_id,)]
    assert (world.cli.data / "runs" / run_id / "events.jsonl").exists()
    shown = world.cli("replay", run_id[:12], "--verify")
    assert shown.code == 0, shown.err
    assert f"verified: {run_id}" in shown.out


def test_s15_the_default_has_the_time_first(world: World) -> None:
    run_id = _ran(world)
    assert re.fullmatch(r"20\d{6}-[0-2]\d[0-5]\d[0-5]\d-[0-9a-f]{8}", run_id)
    assert _ran(world) != run_id


def test_s15_the_folder_of_such_a_run_is_not_the_models_to_change(world: World) -> None:
    """In `full`, with the folder of runs in the workspace: what earlier runs left stays as it is."""
    pattern = f'[logging]\nrun_id_pattern = "{PATTERN}"\n'
    world.configure(autonomy="full", more=pattern)
    kept = world.workspace / "runs" / "ci_20260101-000000-0123abcd.b"
    kept.mkdir(parents=True)
    (kept / "plan.json").write_text("{}")
    world.script(call("Write", file_path="runs/ci_20260101-000000-0123abcd.b/plan.json", content="x"), text("done"))
    assert world.agent("go").code == 3
    assert (kept / "plan.json").read_text() == "{}"
