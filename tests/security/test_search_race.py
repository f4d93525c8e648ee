"""A background task exchanges folders for links to the home while unasked searches run: none of them reads there."""

from pathlib import Path

import pytest

from adderclaw.agent.session.instructions import Instructions
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.sandbox.workspace.globs import Patterns
from adderclaw.sandbox.workspace.matching import find_matching
from tests.acceptance.world import call, text
from tests.program import Soak
from tests.security.swapping import swapping
from tests.security.world import Den

SWAP = """
import ctypes, os, time
libc = ctypes.CDLL(None)
pairs = [(b"pairs/%d/door" % n, b"pairs/%d/bad" % n) for n in range(12)]
open("started", "w").close()
while True:
    for one, other in pairs:
        libc.renameat2(-100, one, -100, other, 2)
"""
PAIRS = 12


def _prepared(den: Den) -> None:
    for number in range(PAIRS):
        pair = den.workspace / "pairs" / str(number)
        (pair / "door").mkdir(parents=True)
        (pair / "door" / "AGENTS.md").write_text("inside: be kind\n")
        (pair / "door" / "id_rsa").write_text("inside\n")
        (pair / "bad").symlink_to(den.home / ".ssh")
    (den.workspace / "swap.py").write_text(SWAP)


def _raced(den: Den, *steps: dict[str, object], rounds: int) -> None:
    den.configure(rounds=rounds + 10)
    begin = call("Bash", command="python3 swap.py", run_in_background=True)
    wait = call("Bash", command="sleep 1; ls started")
    den.script(begin, wait, *steps, text("done"))
    den.prepare()
    made = den.run()
    assert made.done.code == 0, made.done.err
    assert (den.workspace / "started").exists()
    assert any("inside" in result for result in made.results), made.results[-1]
    den.unharmed(made)


@pytest.mark.soak
def test_no_search_prints_what_lies_outside(everywhere: Den, soak: Soak) -> None:
    _prepared(everywhere)
    rounds = len(soak.of(120))
    greps = [call("Grep", pattern=".", path="pairs", output_mode="content") for _ in range(rounds)]
    _raced(everywhere, *greps, rounds=rounds)


@pytest.mark.soak
def test_no_glob_finds_what_lies_outside(tmp_path: Path, soak: Soak) -> None:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    (root / "sub" / "door" / "deep").mkdir(parents=True)
    (outside / "deep").mkdir(parents=True)
    for folder, name in ((root / "sub" / "door", "inside"), (outside, "canary")):
        (folder / name).touch()
        (folder / "deep" / name).touch()
    (root / "sub" / "bad").symlink_to(outside)
    seen: set[str] = set()
    with swapping(root / "sub" / "door", root / "sub" / "bad") as swapper:
        for _ in soak.of(24_000):
            found = find_matching(WorkspacePath(str(root)), Patterns(["**/*"]), 1000, lambda: False)
            seen |= {path.rpartition("/")[2] for path in found.newest()}
    assert swapper.count > 100
    assert seen == {"inside"}


@pytest.mark.soak
def test_no_instruction_file_imports_what_lies_outside(tmp_path: Path, soak: Soak) -> None:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    (root / "sub" / "door").mkdir(parents=True)
    outside.mkdir()
    (root / "AGENTS.md").write_text("top\n")
    (root / "sub" / "AGENTS.md").write_text("nested @door/id_rsa and @door/more.md\n")
    for folder, content in ((root / "sub" / "door", "inside"), (outside, "canary")):
        for name in ("id_rsa", "more.md", "AGENTS.md"):
            (folder / name).write_text(content)
    (root / "sub" / "bad").symlink_to(outside)
    seen: set[str] = set()
    with swapping(root / "sub" / "door", root / "sub" / "bad") as swapper:
        for _ in soak.of(6000):
            files = Instructions(str(tmp_path / "home"), str(root), lambda _path: False)
            read = {str(root / "sub" / "x"): "", str(root / "sub" / "door" / "x"): ""}
            seen |= {file.text for file in files.load_nested(read)}
    assert swapper.count > 1000
    assert "inside" in seen
    assert "canary" not in seen
