"""`receipt anchor` and `receipt verify --against FILE` through the installed program, and the script beside it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.world import World

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "verify_receipts.py"


def calls(world: World, number: int) -> None:
    for _ in range(number):
        assert world.cli("tool", "run", "time").code == 0


def script(world: World, *more: str) -> int:
    key = world.cli.data / "receipt.key"
    line = [sys.executable, "-I", "-S", str(SCRIPT), str(world.log), "--key", str(key), *more]
    return subprocess.run(line, capture_output=True, timeout=30).returncode


def test_a_rollback_of_log_and_database_is_found(world: World, tmp_path: Path) -> None:
    kept = str(tmp_path / "elsewhere")
    calls(world, 2)
    saved = {path: path.read_bytes() for path in world.cli.data.iterdir() if path.is_file()}
    calls(world, 1)
    done = world.cli("receipt", "anchor", kept)
    assert done.code == 0, done.err
    assert "anchored receipt 3" in done.out
    assert world.cli("receipt", "verify", "--against", kept).code == 0
    assert script(world, "--against", kept) == 0
    for path in world.cli.data.iterdir():
        if path.is_file():
            path.unlink()
    for path, data in saved.items():
        path.write_bytes(data)
    assert world.cli("receipt", "verify").code == 0, "what is here is whole: only what was kept elsewhere tells"
    found = world.cli("receipt", "verify", "--against", kept)
    assert found.code == 1
    assert "invalid chain at receipt 3" in found.out
    assert "rolled back" in found.out
    assert script(world, "--against", kept) == 1


def test_anchors_are_appended(world: World, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere"
    for _ in range(3):
        calls(world, 1)
        world.cli("receipt", "anchor", str(kept))
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert all(line.keys() == {"log_id", "seq", "hash", "time", "mac"} for line in lines)
    assert len({line["log_id"] for line in lines}) == 1
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_line_for_a_git_note(world: World, tmp_path: Path) -> None:
    calls(world, 1)
    line = world.cli("receipt", "anchor", "-").out
    (tmp_path / "note").write_text(line)
    assert world.cli("receipt", "verify", "--against", str(tmp_path / "note")).code == 0


@pytest.mark.parametrize("file", ["tool_receipts.log", "receipt.key"])
def test_the_ledger_is_not_its_own_anchor(world: World, file: str) -> None:
    calls(world, 1)
    before = (world.cli.data / file).read_bytes()
    done = world.cli("receipt", "anchor", str(world.cli.data / file))
    assert done.code == 2
    assert (world.cli.data / file).read_bytes() == before


def test_nothing_to_anchor(world: World, tmp_path: Path) -> None:
    world.cli("init")
    done = world.cli("receipt", "anchor", str(tmp_path / "elsewhere"))
    assert done.code == 2
    assert "nothing to anchor" in done.err
    assert not (tmp_path / "elsewhere").exists()


def test_a_broken_chain_is_not_anchored(world: World, tmp_path: Path) -> None:
    calls(world, 2)
    world.log.write_bytes(world.log.read_bytes().replace(b'"time"', b'"Read"', 1))
    done = world.cli("receipt", "anchor", str(tmp_path / "elsewhere"))
    assert done.code == 1
    assert "proves nothing" in done.err
    assert not (tmp_path / "elsewhere").exists()


def test_a_place_that_cannot_be_written(world: World) -> None:
    calls(world, 1)
    done = world.cli("receipt", "anchor", "/proc/nowhere")
    assert done.code == 1
    assert "cannot be written" in done.err
