"""The profile for `sandbox-exec` is made of the same room as bubblewrap's mounts; it is read here, and not run."""

import subprocess
import sys
from pathlib import Path

import pytest

from adderclaw.errors import AdderClawError
from adderclaw.sandbox import seatbelt
from adderclaw.sandbox.bubblewrap import Room

type Form = str | list["Form"]


def read(text: str) -> list[Form]:
    """A small reader of S-expressions: lists, words, and strings with backslashes."""
    stack: list[list[Form]] = [[]]
    at = 0
    while at < len(text):
        char = text[at]
        if char == "(":
            stack.append([])
        elif char == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif char == '"':
            word, at = "", at + 1
            while text[at] != '"':
                at += text[at] == "\\"
                word, at = word + text[at], at + 1
            stack[-1].append(f'"{word}')
        elif not char.isspace():
            start = at
            while at < len(text) and not text[at].isspace() and text[at] not in '()"':
                at += 1
            stack[-1].append(text[start:at])
            continue
        at += 1
    assert len(stack) == 1, "every list is closed"
    return stack[0]


def may(forms: list[Form], what: str, path: str) -> bool:
    """Whether a profile lets somebody do that with a path: the last rule that fits decides."""
    verdict = False
    for form in forms:
        assert isinstance(form, list)
        words = [word for word in form[1:] if isinstance(word, str)]
        places = [place for place in form[1:] if isinstance(place, list)]
        if not any(word == what or (word.endswith("*") and what.startswith(word[:-1])) for word in words):
            continue
        fits = not places
        for place in places:
            kind, named = str(place[0]), str(place[1])[1:]
            fits = fits or path == named or (kind == "subpath" and path.startswith(f"{named}/"))
        verdict = form[0] == "allow" if fits else verdict
    return verdict


ODD = '/Users/ada/a "quoted" (deny) \\ ünï'


def test_hostile_names_stay_names() -> None:
    forms = read(seatbelt.profile(Room(roots=(ODD,), hidden=(f"{ODD}/.env",))))
    assert may(forms, "file-write-data", f"{ODD}/x")
    assert not may(forms, "file-read-data", f"{ODD}/.env")
    assert not may(forms, "file-read-data", "/Users/ada/other")
    for path in ("/a\nb", "/a\x1b", "relative", "/a\udcff"):
        with pytest.raises(AdderClawError, match="Seatbelt"):
            seatbelt.profile(Room(roots=("/w",), hidden=(path,)))


def test_what_a_room_says_is_what_the_profile_holds() -> None:
    room = Room(roots=("/w",), hidden=("/w/.env",), kept=("/w/.git/hooks",), traces=("/w/runs",), fixed=("/w/a/b",))
    forms = read(seatbelt.profile(room, tmp="/private/tmp/s"))
    assert may(forms, "file-read-data", "/usr/bin/env")
    assert not may(forms, "file-write-data", "/usr/bin/env")
    assert not may(forms, "file-read-data", "/Users/ada/.ssh/id")
    assert may(forms, "file-write-data", "/private/tmp/s/x")
    assert may(forms, "file-read-data", "/w/.git/hooks/pre-commit")
    assert not may(forms, "file-write-data", "/w/.git/hooks/pre-commit")
    assert not may(forms, "file-write-data", "/w/runs/x")
    assert not may(forms, "file-write-unlink", "/w/a")
    assert not may(forms, "network-outbound", "")
    assert not may(read(seatbelt.profile(Room(roots=("/w",), read_only=True))), "file-write-data", "/w/x")
    assert may(read(seatbelt.profile(Room(network=True))), "network-outbound", "")
    assert not may(read(seatbelt.profile(Room(network=True), offline=True)), "network-outbound", "")


def test_the_command_is_started_with_its_profile(tmp_path: Path) -> None:
    """With another program in the place of sandbox-exec, which is not here."""
    stand_in = tmp_path / "sandbox-exec"
    stand_in.write_text(f"#!{sys.executable}\nimport os, sys\nos.execvp(sys.argv[3], sys.argv[3:])\n", encoding="utf-8")
    stand_in.chmod(0o755)
    argv = seatbelt.command(seatbelt.profile(Room(roots=("/w",))), ("echo", "a b", '"'), str(stand_in))
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == 'a b "\n'
