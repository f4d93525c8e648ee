"""A command sees what is listed of the machine and nothing else: no other place is read, written or connected to."""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.security.world import Den

LOOK = """
import os, socket
for path in open("places.txt").read().split():
    if path.endswith(".sock"):
        try:
            socket.socket(socket.AF_UNIX).connect(path)
            print("connected", path)
        except OSError as error:
            print("refused", error.errno)
        continue
    for top, folders, files in os.walk(path):
        for name in files:
            try:
                print(open(os.path.join(top, name), errors="replace").read(2000))
            except OSError:
                pass
    for word in ("x", "writable/x"):
        try:
            open(os.path.join(path, word), "w").write("written")
            print("wrote", path)
        except OSError:
            pass
"""
TOPS = ("/var/lib", "/srv", "/opt", "/mnt", "/media", "/var/tmp")


@pytest.fixture
def sockets() -> Generator[list[Path]]:
    """Services of the machine that listen where anybody may connect, in places of which no list of ours speaks."""
    found: list[Path] = []
    with ExitStack() as stack:
        for top in TOPS:
            if not os.access(top, os.W_OK):
                continue
            folder = Path(tempfile.mkdtemp(prefix="adderclaw-socket-", dir=top))
            stack.callback(shutil.rmtree, folder)
            folder.chmod(0o755)
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(str(folder / "s.sock"))
            (folder / "s.sock").chmod(0o777)
            server.listen()
            found.append(folder / "s.sock")
        yield found


def look(den: Den, *places: Path) -> str:
    (den.workspace / "look.py").write_text(LOOK)
    (den.workspace / "places.txt").write_text("\n".join(map(str, places)))  # not in the command, where they are judged
    made = den.attack("python3 look.py", arguments=("--profile", "sandboxed"))
    assert made.results, made.done.err
    return made.last


def test_nothing_of_other_places_is_read_or_written(everywhere: Den) -> None:
    places = (*everywhere.system, everywhere.neighbour, everywhere.home, Path("/boot"), Path("/var/log"), Path("/srv"))
    everywhere.configure(more='[sandbox]\naccept = "landlock"\n')
    said = look(everywhere, *places)
    told = [file for word, file in everywhere.canaries.words.items() if word in said]
    assert [file for file in told if "/.adderclaw/skills/" not in file] == []  # skills are there to be read
    if everywhere.rung == "bubblewrap":
        # its own empty home is the session's to write in, and nobody else's
        assert {line for line in said.splitlines() if "wrote" in line} <= {f"wrote {everywhere.home}"}
    assert not list(everywhere.home.glob("x"))
    assert not [place for place in places if (place / "x").exists() or (place / "writable" / "x").exists()]


def test_no_socket_of_the_machine_is_reached(anyone: Den, sockets: list[Path]) -> None:
    if not sockets:
        pytest.skip("whoever runs the tests can make no socket outside of /tmp")
    said = look(anyone, *sockets)
    assert said.count("refused") == len(sockets), said
    assert "connected" not in said


def test_the_operator_shows_more_and_a_project_does_not(anyone: Den) -> None:
    shown, kept = anyone.base / "shown", anyone.base / "kept"
    for folder in (shown, kept):
        folder.mkdir()
        (folder / "words.txt").write_text(f"in {folder.name}\n")
    anyone.configure(more=f'[sandbox]\nread_paths = ["{shown}"]\n')
    (anyone.workspace / "agent.toml").write_text(f'[sandbox]\nread_paths = ["{shown}", "{kept}"]\n')
    said = look(anyone, shown, kept)
    assert "in shown" in said
    assert "in kept" not in said
    assert "wrote" not in said
    trusted = anyone.cli("trust", str(anyone.workspace), stdin="y\n")
    assert trusted.code == 0, trusted.err
    assert "in kept" not in look(anyone, kept)


def test_doctor_says_what_a_command_sees(anyone: Den) -> None:
    shown = anyone.base / "shown"
    shown.mkdir()
    anyone.configure(more=f'[sandbox]\nread_paths = ["{shown}"]\n')
    anyone.prepare()
    found = json.loads(anyone.cli("doctor", "--output-format", "json").out)
    places: list[str] = found["commands_see"]
    assert str(shown) in places
    assert "/usr" in places
    assert "/etc/passwd" in places
    wrong = ("/srv", "/opt", "/mnt", "/var/lib", "/boot", "/home", "/root", "/etc", "/", "/var", str(anyone.home))
    assert not set(places) & set(wrong)
    said = anyone.cli("doctor").out
    line = next(line for line in said.splitlines() if line.startswith("ok       commands see"))
    assert str(shown) in line
    assert "/usr" in line
