"""Pieces of Python: hostile ones are denied however they are handed over, and what others open is known."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adderclaw.gate.python import look, project
from tests.gate.test_corpus import World, said, sections

HOSTILE = sections("python_hostile.txt")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("pieces"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made.home))
        patch.setenv("PATH", str(made.bin))
        yield made


def forms(piece: str) -> Iterator[str]:
    code = piece.replace("␤", "\n")
    yield f"python3 - <<'EOF'\n{code}\nEOF"
    yield "python3 -c '" + code.replace("'", "'\\''") + "'"


@pytest.mark.parametrize(("title", "pieces"), HOSTILE)
def test_a_hostile_piece_is_denied_in_a_sandbox_too(title: str, pieces: list[str], world: World) -> None:
    told = ((command, world.judge(command, "supervised", sandboxed=True)) for p in pieces for command in forms(p))
    loose = [command for command, decision in told if decision.verdict != "deny"]
    assert not loose, "\n".join((title, *loose))


@pytest.mark.parametrize(("title", "commands"), sections("python_confined.txt"))
def test_asked_in_a_sandbox_and_denied_without(title: str, commands: list[str], world: World) -> None:
    asked = said(commands, world, "supervised", sandboxed=True)
    assert not {c: d.reason for c, d in asked.items() if d.verdict != "ask"}, title
    denied = said(commands, world, "supervised")
    assert not {c: d.verdict for c, d in denied.items() if d.verdict != "deny"}, title


def test_there_are_enough_of_them() -> None:
    assert sum(len(pieces) for _, pieces in HOSTILE) > 400


def test_what_is_exported_is_what_python_has() -> None:
    """`exported.txt` holds at least the names that the installed Python has."""
    assert project.gathered() <= project.exported()


def test_what_is_private_is_what_python_has() -> None:
    """`private.txt` holds every name with one underscore that stands in the library of the installed Python."""
    assert project.gathered_private() <= project.private(top=False)
    assert {"_exit", "_getframe", "_posixsubprocess", "_dlopen"} <= project.private(top=True)


@pytest.mark.parametrize(
    ("code", "reads", "writes", "confined"),
    [
        ("open('a.txt')", {"a.txt"}, set[str](), False),
        ("open('a.txt', 'w')", set[str](), {"a.txt"}, False),
        ("open('a.txt', 'r+')", {"a.txt"}, {"a.txt"}, False),
        ("for n in ('a', 'b'): open(n + '.txt')", {"a.txt", "b.txt"}, set[str](), False),
        ("from pathlib import Path\n(Path('a/') / 'b').write_text('x')", set[str](), {"a/b"}, False),
        ("import os\nopen(os.path.join('a', '/etc/x'))", {"/etc/x"}, set[str](), False),
        ("import sys\n[open(f) for f in sys.argv[1:]]", {"x.yml"}, set[str](), False),
        ("import os\nfor f in os.listdir('a'): open('a/' + f)", {"a"}, set[str](), True),
        ("from pathlib import Path\nfor p in Path('a').rglob('*.py'): p.write_text('x')", {"a"}, {"a"}, True),
    ],
)
def test_what_it_opens_is_known(code: str, reads: set[str], writes: set[str], confined: bool) -> None:
    piece = look(code, ("x.yml",))
    assert (piece.why, set(piece.reads), set(piece.writes), piece.confined) == ("", reads, writes, confined)


RUNNER = """
import json, os, sys
told, on = [], []
def hear(event, given):
    if on and event == "open" and isinstance(given[0], str):
        told[-1].append([given[0], str(given[1])])
    elif on and event.split(".")[0] in ("subprocess", "socket", "ctypes", "shutil", "os") and event not in LOOKS:
        told[-1].append([event, "event"])
LOOKS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "socket.__new__")  # the pair by which a loop is woken
import ast, asyncio, collections, csv, functools, glob, itertools, pathlib, re, sqlite3, statistics, timeit
import xml.etree.ElementTree
sys.addaudithook(hear)
pieces = json.load(sys.stdin)
sys.argv = ["-c", "a.txt"]
out, sys.stdout = sys.stdout, open(os.devnull, "w")
for piece in pieces:
    code = compile(piece, "piece", "exec")
    told.append([])
    on.append(1)
    exec(code, {"__name__": "__main__"})
    on.clear()
json.dump(told, out)
"""


def test_what_is_taken_opens_nothing_else(tmp_path: Path) -> None:
    """Python itself tells what each piece that is taken opens: it is among what was said of it before."""
    for name in ("a.txt", "b.txt", "k/c.txt", "k/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("hello x\n")
    pieces = [piece.replace("␤", "\n") for _, listed in sections("python_taken.txt") for piece in listed]
    seen = [look(piece, ("a.txt",)) for piece in pieces]
    assert not [(piece, one.why) for piece, one in zip(pieces, seen, strict=True) if one.why]
    run = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(pieces),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert run.returncode == 0, run.stderr
    for piece, one, told in zip(pieces, seen, json.loads(run.stdout), strict=True):
        for name, mode in told:
            place = os.path.normpath(name)
            if place.startswith((sys.prefix, sys.base_prefix)):
                continue  # a module of Python's own
            assert mode != "event", (piece, name)
            named = one.writes if set(mode) & set("wax+") else (*one.reads, *one.writes)
            found = any(place.startswith(f"{os.path.normpath(folder)}/") for folder, _ in one.walks)
            assert found or place in map(os.path.normpath, named), (piece, name, mode)
