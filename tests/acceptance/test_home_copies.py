"""A copy of a home is a home of its own: nothing that is done with it touches the one that it was made from."""

import shutil
from pathlib import Path

import pytest

from tests.acceptance.test_backup import everything, made, restored
from tests.acceptance.world import World, call, text
from tests.trial import bubblewrap


def pinned(world: World) -> str:
    """Settings that name the database and the log of this home, as `init` once wrote them."""
    data = world.cli.data
    places = f'[memory]\npath = "{data}/memory.sqlite"\n[receipts]\npath = "{data}/tool_receipts.log"\n'
    world.configure(more=places)
    world.script(call("file_list", path="."), text("done"))
    assert world.agent("look").code == 0
    return places


def test_a_home_that_init_made_and_restore_copied_keeps_its_own_rows(world: World) -> None:
    settings = world.cli.data / "config.toml"
    settings.unlink()
    assert world.cli("init").code == 0
    world.script(call("file_list", path="."), text("done"))
    assert world.agent("look").code == 0
    found = restored(world, made(world, "--with-secrets"), "copy")
    assert not [note for note in found["notes"] if "path is" in note]
    before = everything(world.cli.data)
    copy = str(world.cli.home / "copy")
    world.cli.env["ADDERCLAW_HOME"] = copy
    assert f'memory.path = "{copy}/memory.sqlite"' in world.cli("config", "show", "--origin").out
    world.script(call("file_list", path="."), text("done"))
    assert world.agent("only in the copy").code == 0
    assert "valid: 2 receipts" in world.cli("receipt", "verify").out
    assert everything(world.cli.data) == before


def test_restore_names_settings_that_lead_to_another_database(world: World) -> None:
    pinned(world)
    archive = made(world)
    notes = restored(world, archive, "copy")["notes"]
    copy = world.cli.home / "copy"
    for key, name in (("memory.path", "memory.sqlite"), ("receipts.path", "tool_receipts.log")):
        named = [note for note in notes if note.startswith(f"{key} is {world.cli.data / name}")]
        assert len(named) == 1, notes
        assert f"{copy / name}" in named[0]
        assert f"{copy}/config.toml" in named[0]
    again = world.cli("restore", str(archive), "--replace")
    assert again.code == 0
    assert "memory.path is" not in again.out, "they lead to the database that was restored"


def test_uninstall_of_a_copy_leaves_the_home_that_its_settings_name(world: World) -> None:
    pinned(world)
    restored(world, made(world), "copy")
    before = everything(world.cli.data)
    copy = Path(world.cli.home / "copy")
    world.cli.env["ADDERCLAW_HOME"] = str(copy)
    done = world.cli("uninstall", "--yes")
    assert done.code == 0, done.err
    assert f"the database, which the configuration puts outside the home: {world.cli.data}/memory.sqlite" in done.out
    assert not copy.exists()
    now = everything(world.cli.data)
    assert before.keys() - now.keys() <= {"memory.sqlite-wal"}  # SQLite removes it when nobody has the database open


@pytest.mark.parametrize("how", ["--tmpfs", "--bind"])
def test_a_home_that_is_mounted_is_restored_beneath_it(world: World, how: str) -> None:
    """A container's home is a volume, and what lies around it is often read-only: nothing is swapped there."""
    bwrap = bubblewrap()
    pinned(world)
    archive, volume = made(world), world.cli.home / "volume"
    volume.mkdir()
    (world.cli.home / "kept").mkdir()
    mount = (how, str(volume)) if how == "--tmpfs" else (how, str(world.cli.home / "kept"), str(volume))
    world.cli.before = (bwrap, "--dev-bind", "/", "/", *mount)
    done = world.cli("restore", str(archive), "--to", str(volume))
    assert (done.code, f"Restore to a folder in it with --to {volume}/home, and set ADDERCLAW_HOME" in done.err) == (
        2,
        True,
    ), done
    assert not [*world.cli.home.glob(".volume.*")]
    assert world.cli("restore", str(archive), "--to", f"{volume}/home").code == 0
    world.cli.before = (bwrap, "--dev-bind", "/", "/", *mount, "--remount-ro", "/")
    refused = world.cli("restore", str(archive), "--to", str(world.cli.home / "elsewhere"))
    assert (
        f"{world.cli.home} cannot be written (Read-only file system). Nothing was changed. Choose another place"
        in refused.err
    )


def test_uninstall_removes_nothing_where_a_projects_own_folder_is_the_home(world: World) -> None:
    """Its settings and plugins are named as a home's are; a repository around one's usual home is no such project."""
    project = world.cli.home / "project"
    folder = project / ".adderclaw"
    shutil.copytree(world.cli.data, folder)
    (project / ".git").mkdir()
    (world.cli.home / ".git").mkdir()
    (folder / "settings.json").write_text("{}", encoding="utf-8")
    usual = world.cli.env.get("ADDERCLAW_HOME", str(world.cli.data))
    world.cli.env["ADDERCLAW_HOME"] = str(folder)
    assert world.cli("init").code == 0
    done = world.cli("uninstall", "--yes")
    assert (done.code, "also belongs to a project (" in done.err) == (2, True), done
    assert (folder / "settings.json").exists()
    world.cli.env["ADDERCLAW_HOME"] = usual
    assert world.cli("init").code == 0
    assert world.cli("uninstall", "--yes").code == 0
    assert not world.cli.data.exists()
