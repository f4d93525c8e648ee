"""Sentences of docs/security.md that no other attack shows, each by its effect."""

import os

import pytest

from tests.acceptance.world import call
from tests.security.world import Den

LATER = (".envrc", ".vscode/tasks.json", ".github/workflows/ci.yml")


@pytest.mark.parametrize("profile", ["supervised", "sandboxed", "permissive"])
def test_write_and_edit_on_what_programs_run_later_ask_in_every_mode(world: Den, profile: str) -> None:
    """Nobody answers here: what was not asked about would have been written."""
    (world.workspace / ".vscode").mkdir()
    (world.workspace / ".vscode" / "tasks.json").write_text("{}")
    writes = [call("Write", file_path=name, content="evil") for name in LATER if name != ".vscode/tasks.json"]
    edit = call("Edit", file_path=".vscode/tasks.json", old_string="{}", new_string="evil")
    world.script(*writes, call("Read", file_path=".vscode/tasks.json"), edit, {"text": "done"})
    world.prepare()
    done = world.cli("agent", "-m", "go", "--profile", profile, stdin="")
    assert done.err.count("decides what other programs run\n  args:") == 3, done.err
    assert [(world.workspace / name).exists() for name in LATER] == [False, True, False]
    assert (world.workspace / ".vscode" / "tasks.json").read_text() == "{}"


def test_our_own_files_are_refused_under_any_name(anyone: Den) -> None:
    den = anyone
    os.link(den.canaries.ours / "receipt.key", den.workspace / "innocent.txt")
    (den.workspace / "link.txt").symlink_to(den.canaries.ours / "receipt.key")
    den.configure(security='allowed_commands = ["cp"]')
    reads = [call("Read", file_path=name) for name in ("innocent.txt", "link.txt")]
    attack = den.attack(
        *reads, call("Delete", path="innocent.txt"), "cat innocent.txt", "cat link.txt", "cp innocent.txt copy.txt"
    )
    copied = (f"{den.workspace}/innocent.txt has", f"{den.canaries.ours}/checkpoints/")  # the file itself, and our copy
    found = [line for line in den.harmed(attack) if not line.startswith(copied)]
    assert not found, "\n".join(found)
    assert [one["status"] for one in attack.receipts] == ["denied"] * 6


def test_memory_and_file_size_have_an_end(anyone: Den) -> None:
    eats = 'python3 -c "x = bytearray(1 << 38)"'
    fills = "python3 -c \"open('big', 'wb').truncate(1 << 40)\""
    attack = anyone.attack(eats, fills)
    assert "MemoryError" in attack.results[0]
    assert not (anyone.workspace / "big").exists() or (anyone.workspace / "big").stat().st_size == 0
    anyone.unharmed(attack)
