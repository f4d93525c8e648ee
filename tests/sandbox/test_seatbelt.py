"""The profile for macOS, as text: no Mac runs these tests."""

from typing import Any

import pytest

from adderclaw.sandbox import seatbelt
from adderclaw.sandbox.bubblewrap import Room


def profile(**more: Any) -> list[str]:
    return seatbelt.profile(
        Room(("/Users/me/ws",), hidden=("/Users/me/ws/memory.sqlite",), **more),
        homes=("/Users",),
        toolchains=("/Users/me/.local/bin",),
        kept=("/Users/me/ws/.git/hooks", "/Users/me/ws/.adderclaw"),
        tmp="/private/tmp/x",
    ).splitlines()


def test_all_is_denied_that_is_not_allowed() -> None:
    lines = profile()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert not [
        line for line in lines if line.startswith(("(allow default", "(allow file-write*)", "(allow network*)"))
    ]


def test_what_denies_comes_after_what_it_takes_back() -> None:
    lines = profile()
    order = [
        "(allow file-read*)",
        '(deny file-read* (subpath "/Users"))',
        '(allow file-read* (subpath "/Users/me/.local/bin"))',
        '(allow file-write* (subpath "/Users/me/ws"))',
        '(deny file-write* (subpath "/Users/me/ws/.git/hooks") (subpath "/Users/me/ws/.adderclaw"))',
        '(deny file-read* file-write* (subpath "/Users/me/ws/memory.sqlite"))',
    ]
    places = [lines.index(line) for line in order]
    assert places == sorted(places)


def test_a_readonly_session_writes_only_its_tmp() -> None:
    writes = [line for line in profile(read_only=True) if line.startswith("(allow") and "file-write*" in line]
    assert len(writes) == 2
    assert "/dev/null" in writes[0]
    assert "/private/tmp/x" in writes[1]


def test_the_network_is_the_loopback_unless_it_is_allowed() -> None:
    assert profile()[-1] == '(allow network* (local ip "localhost:*") (remote ip "localhost:*"))'
    assert profile(network=True)[-1] == "(allow network*)"


@pytest.mark.parametrize(("path", "text"), [('/a"b', '"/a\\"b"'), ("/a\\b", '"/a\\\\b"'), ("/a b)", '"/a b)"')])
def test_names_cannot_end_their_string(path: str, text: str) -> None:
    assert seatbelt.quoted(path) == text


def test_a_line_end_in_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be named"):
        seatbelt.quoted("/a\n(allow default)")


def test_the_command_comes_last() -> None:
    assert seatbelt.wrap(["/bin/ls", "-l"], "(version 1)") == [
        "/usr/bin/sandbox-exec",
        "-p",
        "(version 1)",
        "--",
        "/bin/ls",
        "-l",
    ]
