"""How a child and all that it starts is ended: POSIX for real, Windows by the calls that it would get."""

import subprocess
from pathlib import Path

import pytest

from adderclaw.sandbox.process_groups import CREATE_NEW_PROCESS_GROUP, Groups, Posix, Windows, of_system
from tests.sandbox.test_process import gone, pid_in


def test_s_43_posix_ends_a_group(tmp_path: Path) -> None:
    groups: Groups = of_system()
    assert isinstance(groups, Posix)
    note = tmp_path / "pid"
    child = subprocess.Popen(["bash", "-c", f"sleep 600 & echo $! > {note}; wait"], **groups.options())
    try:
        inner = pid_in(note)
        groups.signal(child.pid, 15)
        assert child.wait(20) == -15
        gone(inner)
        groups.kill(child.pid)  # nobody is there any more: no error
    finally:
        child.kill()


def test_s_43_windows_asks_a_group_and_kills_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SystemRoot", "D:\\Windows")
    calls: list[tuple[object, ...]] = []
    groups: Groups = Windows(lambda pid, event: calls.append((pid, event)), lambda argv: calls.append((*argv,)))
    assert groups.options() == {"creationflags": CREATE_NEW_PROCESS_GROUP}
    for number in (2, 15):
        groups.signal(77, number)
    assert calls == [(77, 1), (77, 1)], "CTRL_BREAK_EVENT, by the group's leader"
    calls.clear()
    killed = ("D:\\Windows\\System32\\taskkill.exe", "/T", "/F", "/PID", "77")
    groups.signal(77, 9)
    groups.kill(77)
    assert calls == [killed, killed]


def test_windows_takes_a_child_that_has_ended_for_ended() -> None:
    def refuse(*_: object) -> None:
        raise OSError(87, "The parameter is incorrect")

    groups = Windows(send=refuse, run=refuse)
    groups.signal(77, 15)
    groups.kill(77)
