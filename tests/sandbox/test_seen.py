"""Which toolchains PATH leads to: what their programs need is shown, what lies beside it is not."""

import os
from pathlib import Path

import pytest

from adderclaw.sandbox import seen


class Machine:
    """A home and a folder of other things, and what is shown of them for a PATH."""

    def __init__(self, home: Path, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.top, self._patch = home, top, monkeypatch

    def put(self, path: Path, text: str = "#!/bin/sh\n") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def shows(self, path: Path, *entries: Path) -> bool:
        self._patch.setenv("PATH", os.pathsep.join(map(str, entries)))
        return any(path == Path(place) or Path(place) in path.parents for place in seen.toolchains(()))


@pytest.fixture
def machine(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(home, tmp_path / "else", monkeypatch)


def test_a_toolchain_of_its_own_is_shown_whole_and_nothing_beside_it(machine: Machine) -> None:
    bin = machine.put(machine.top / "node/bin/node").parent
    assert machine.shows(machine.put(machine.top / "node/lib/npm.js"), bin)
    assert not machine.shows(machine.put(machine.top / "secret"), bin)


def test_a_folder_of_programs_in_a_project_shows_no_project(machine: Machine) -> None:
    bin = machine.put(machine.top / "project/bin/tool").parent
    machine.put(machine.top / "project/lib/x")
    machine.put(machine.top / "project/.git/config")
    assert machine.shows(bin / "tool", bin)
    assert not machine.shows(machine.put(machine.top / "project/.env"), bin)


@pytest.mark.parametrize("name", [".cargo", ".local", "go", "tools"])
def test_a_folder_in_the_home_shows_its_programs_alone(name: str, machine: Machine) -> None:
    bin = machine.put(machine.home / name / "bin/tool").parent
    machine.put(machine.home / name / "lib/x")
    assert machine.shows(bin / "tool", bin)
    assert not machine.shows(machine.put(machine.home / name / "credentials.toml"), bin)
    assert not machine.shows(machine.put(machine.home / name / "share/keyrings/login"), bin)


def test_version_managers_work(machine: Machine) -> None:
    shims = machine.put(machine.home / ".pyenv/shims/python").parent
    named = (".pyenv/versions/3.12/bin/python", ".pyenv/libexec/pyenv", ".rustup/toolchains/stable/bin/rustc")
    programs = [machine.put(machine.home / name) for name in (*named, ".local/share/uv/python/cpython/bin/python3")]
    assert [path for path in programs if not machine.shows(path, shims)] == []


def test_links_among_programs_are_followed_to_what_they_need(machine: Machine) -> None:
    bin = machine.home / ".local/bin"
    bin.mkdir(parents=True)
    tool = machine.home / ".local/share/uv/tools/ruff"
    (bin / "ruff").symlink_to(machine.put(tool / "bin/ruff"))
    base = machine.put(machine.top / "cpython/bin/python3").parent
    machine.put(machine.top / "cpython/lib/os.py")
    machine.put(tool / "pyvenv.cfg", f"home = {base}\nversion = 3.12\n")
    package = machine.put(machine.top / "x/node_modules/tsc/cli.js")
    (bin / "tsc").symlink_to(package)
    (bin / "alone").symlink_to(machine.put(machine.top / "versions/1.2"))
    assert machine.shows(tool / "pyvenv.cfg", bin)
    assert machine.shows(machine.top / "cpython/lib/os.py", bin)
    assert machine.shows(machine.put(machine.top / "x/node_modules/other/index.js"), bin)
    assert machine.shows(machine.top / "versions/1.2", bin)
    assert not machine.shows(machine.put(machine.top / "versions/1.3"), bin)
    assert not machine.shows(machine.put(machine.top / "x/.env"), bin)


@pytest.mark.parametrize("entry", ["home", "home/..", "/srv", "/var", "/", "/home", "home/.adderclaw"])
def test_path_cannot_show_a_home_or_what_holds_one(entry: str, machine: Machine) -> None:
    folder = Path(entry) if entry.startswith("/") else machine.home.parent / entry
    folder.mkdir(exist_ok=True)
    key = machine.put(machine.home / ".ssh/id")
    own = machine.put(machine.home / ".adderclaw/receipt.key")
    assert not machine.shows(key, folder)
    assert not machine.shows(own, folder)
    assert str(folder.resolve()) not in seen.readable_outside_etc(())


def test_links_on_the_way_to_a_place_are_known(machine: Machine) -> None:
    machine.put(machine.top / "node-v20/bin/node")
    (machine.top / "node").symlink_to("node-v20")
    assert list(seen.links_on_path(str(machine.top / "node/bin"))) == [(str(machine.top / "node"), "node-v20")]
