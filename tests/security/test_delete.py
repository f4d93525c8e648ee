"""Deleting with an operator who says yes to everything: nothing outside goes, no git directory, nothing of ours."""

import pytest

from tests.acceptance.world import call
from tests.security.world import Den

SWAP = """
import ctypes, os, sys, time
rename = ctypes.CDLL(None).renameat2
open("began", "w").close()
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists("ended"):
    rename(-100, b"door", -100, b"bad", 2)
"""


def delete(path: str) -> dict[str, object]:
    return call("Delete", path=path)


def test_links_paths_and_layouts_lead_nowhere(everywhere: Den) -> None:
    den, workspace = everywhere, everywhere.workspace
    (workspace / "to-home").symlink_to(den.home)
    (workspace / "to-key").symlink_to(den.home / ".ssh" / "id_rsa")
    (workspace / "odd").mkdir()
    (workspace / "odd" / "in").symlink_to(den.neighbour)
    paths = [
        "to-home/.ssh",
        "to-home/.bashrc",
        str(den.home / ".ssh" / "id_rsa"),
        "~/.bashrc",
        "../home",
        str(workspace),
        ".",
        ".git",
        ".git/hooks",
        "odd/../.git",
        "to-home",
        "to-key",
        "odd",
    ]
    made = den.attack(*map(delete, paths))
    den.unharmed(made)
    assert (workspace / ".git" / "HEAD").exists()
    assert [one["status"] for one in made.receipts][:10] == ["denied"] * 10, made.results
    assert not any((workspace / name).is_symlink() for name in ("to-home", "to-key"))
    assert not (workspace / "odd").exists()
    assert "main.py" in den.git("ls-files")


@pytest.mark.parametrize("profile", ["supervised", "sandboxed"])
def test_a_task_that_swaps_a_folder_for_the_home_while_it_is_deleted(world: Den, profile: str) -> None:
    (world.workspace / "swap.py").write_text(SWAP)
    (world.workspace / "door").mkdir()
    for name in (".ssh", ".config"):
        (world.workspace / "door" / name).mkdir()
    (world.workspace / "bad").symlink_to(world.home)
    begin = call("Bash", command="python3 swap.py", run_in_background=True)
    tries = [delete(f"door/{name}") for _ in range(30) for name in (".ssh/id_rsa", ".config", ".bashrc", "x")]
    world.configure(rounds=400)
    made = world.attack(begin, *tries, "touch ended", arguments=("--profile", profile))
    world.unharmed(made)
