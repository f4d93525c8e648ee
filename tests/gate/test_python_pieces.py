"""Pieces of Python: hostile ones are denied however they are handed over, and what others open is known."""

from collections.abc import Iterator

import pytest

from adderclaw.gate.python import look, project
from tests.gate.test_corpus import World, sections

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


def test_there_are_enough_of_them() -> None:
    assert sum(len(pieces) for _, pieces in HOSTILE) > 400


def test_what_is_exported_is_what_python_has() -> None:
    """`exported.txt` holds at least the names that the installed Python has."""
    assert project.gathered() <= project.exported()


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
