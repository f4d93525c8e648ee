"""A home is kept in one file while it is used, put back only if every byte and receipt is right, and taken away."""

import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from adderclaw.core import home_names
from tests.acceptance.test_plugin_packages import install, plugin
from tests.acceptance.world import World, call, text
from tests.rows import rows
from tests.trial import bubblewrap

BOMB = 2 << 30
SECRETS = ("receipt.key", "webhooks.json", "credentials.key")


@pytest.fixture
def used(world: World) -> World:
    (world.workspace / "a.txt").write_text("hello\n", encoding="utf-8")
    world.script(call("file_list", path="."), call("file_read", path="a.txt"), text("done"))
    assert world.agent("look").code == 0
    (world.cli.data / "webhooks.json").write_text('{"door": "s3cret-value"}', encoding="utf-8")
    return world


def made(world: World, *more: str) -> Path:
    target = world.cli.home.parent / "kept.zip"
    done = world.cli("backup", str(target), *more, "--output-format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["receipts"]["valid"]
    return target


def restored(world: World, archive: Path, home: str, *more: str) -> dict[str, Any]:
    done = world.cli("restore", str(archive), "--to", str(world.cli.home / home), *more, "--output-format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_backup_is_restored_whole_and_goes_on(used: World) -> None:
    archive = made(used, "--with-secrets")
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    home = used.cli.home / "again"
    found = restored(used, archive, "again")
    assert found["sealed"]
    assert found["receipts"]["receipts"] == 2
    used.cli.env["ADDERCLAW_HOME"] = str(home)
    assert "valid: 2 receipts" in used.cli("receipt", "verify").out
    assert "look" in used.cli("memory", "list").out or used.cli("runs", "list").code == 0
    used.script(call("file_list", path="."), text("again"))
    assert used.agent("once more").code == 0
    assert "valid: 3 receipts" in used.cli("receipt", "verify").out


def test_secrets_stay_out_unless_they_are_asked_for(used: World) -> None:
    archive = made(used)
    with zipfile.ZipFile(archive) as kept:
        assert not [name for name in kept.namelist() if name.endswith(SECRETS)]
        assert not any(b"s3cret-value" in kept.read(name) for name in kept.namelist())
    said = used.cli("backup", str(archive), "--replace").out
    assert "left out: receipt.key" in said
    assert "webhooks.json" in said
    found = restored(used, archive, "bare")
    assert not found["sealed"]
    assert any("receipt.key" in note for note in found["notes"])


def test_a_backup_while_a_session_writes_is_of_one_moment(used: World) -> None:
    """The writer appends receipts all the time: the copy verifies, and the session loses nothing."""
    for number in range(30):
        (used.workspace / f"{number}.txt").write_text(f"{number}\n", encoding="utf-8")
    used.script(*[call("file_read", path=f"{number}.txt") for number in range(30)], text("done"))
    process = used.cli.start("agent", "-m", "go on")
    for number in range(4):
        target = used.cli.home.parent / f"{number}.zip"
        done = used.cli("backup", str(target), "--output-format", "json")
        assert done.code == 0, done.err
        kept = json.loads(done.out)["receipts"]
        assert kept["valid"]
        assert kept["completeness"]["unmirrored"] == 0
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    assert restored(used, used.cli.home.parent / "3.zip", "middle")["receipts"]["valid"]


def test_a_database_at_another_place_in_the_home_is_restored_to_it(world: World) -> None:
    folder = world.cli.data / "db"
    folder.mkdir()
    places = f'[memory]\npath = "{folder}/mine.sqlite"\n[receipts]\npath = "{folder}/mine.log"\n'
    world.configure(more=places)
    world.script(call("file_list", path="."), text("done"))
    assert world.agent("look").code == 0
    archive = made(world)
    with closing(sqlite3.connect(folder / "mine.sqlite")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        assert "is in use" in world.cli("restore", str(archive), "--replace").err
    assert world.cli("restore", str(archive), "--replace").code == 0
    assert "valid: 1 receipt" in world.cli("receipt", "verify").out
    assert "completed" in world.cli("runs", "list").out
    shown = rewritten(archive, _another_log)
    home = str(world.cli.home / "target")
    assert "do not verify" in world.cli("restore", str(shown), "--to", home).err, "the log at the usual place counts"


def _another_log(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
    data = files["home/db/mine.log"].replace(b"allowed", b"alloweD")
    files["home/tool_receipts.log"] = data
    sealed = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "mode": 0o600}
    manifest["files"]["home/tool_receipts.log"] = sealed


def test_a_database_that_is_named_by_another_path_is_kept_once(world: World) -> None:
    real = world.cli.home / "real"
    world.cli.data.rename(real)
    world.cli.data.symlink_to(real)
    world.configure(more=f'[memory]\npath = "{real}/memory.sqlite"\n')
    world.script(call("file_list", path="."), text("done"))
    assert world.agent("look").code == 0
    assert restored(world, made(world), "again")["receipts"]["receipts"] == 1


def test_a_database_outside_of_the_home_goes_before_one_that_was_left_in_it(used: World) -> None:
    outside = used.cli.home / "outside"
    outside.mkdir()
    used.configure(more=f'[memory]\npath = "{outside}/m.sqlite"\n[receipts]\npath = "{outside}/r.log"\n')
    used.script(call("file_list", path="."), text("done"))
    assert used.agent("look").code == 0
    assert used.cli("receipt", "archive", "--yes").code == 0
    assert used.agent("look").code == 0
    archive = made(used)
    with zipfile.ZipFile(archive) as kept:
        assert [name for name in kept.namelist() if name.startswith("store/r.log.2")], "the chain that was put away"
    found = restored(used, archive, "again")
    assert found["receipts"]["receipts"] == 1
    assert len([note for note in found["notes"] if "outside of the home" in note]) == 2


def test_a_plugin_is_still_trusted_after_a_restore(used: World) -> None:
    """With its lock files, which are no locks of ours."""
    install(used, plugin(used.cli.home, "loud", **{"commands/a.md": "x", "uv.lock": "y", "run.pid": "z"}))
    archive = made(used)
    assert used.cli("restore", str(archive), "--replace").code == 0
    assert re.search(r"loud .* enabled", used.cli("plugin", "list").out)


def test_a_restore_lifts_no_emergency_stop(used: World) -> None:
    archive = made(used)
    assert used.cli("estop").code == 0
    done = used.cli("restore", str(archive), "--replace")
    assert done.code == 0, done.err
    assert "the emergency stop is still set" in done.out
    assert (used.cli.data / "ESTOP").exists()
    assert used.cli("estop", "--clear").code == 0


def test_a_run_folder_with_an_odd_name_in_it_is_kept_without_it(used: World) -> None:
    folder = used.workspace / "runs" / "20260101-000000-abcdef12"
    folder.mkdir(parents=True)
    for name in ("events.jsonl", "a\\b", "c\nd"):
        (folder / name).write_text("{}", encoding="utf-8")
    way = str(folder / "events.jsonl")[1:].encode()
    with closing(sqlite3.connect(used.database)) as database, database:
        columns = "run_id, root, way"
        (row,) = database.execute("SELECT * FROM traces LIMIT 1").fetchall()
        names = [column[1] for column in database.execute("PRAGMA table_info(traces)")]
        table = {
            **dict(zip(names, row, strict=True)),
            **dict(zip(columns.split(", "), ("odd", b"/", way), strict=True)),
        }
        marks = ", ".join("?" * len(table))
        database.execute(f"INSERT INTO traces ({', '.join(table)}) VALUES ({marks})", tuple(table.values()))
    archive = made(used, "--with-secrets")
    with zipfile.ZipFile(archive) as kept:
        assert [name for name in kept.namelist() if name.startswith("runs/")] == ["runs/odd/events.jsonl"]
    said = used.cli("backup", str(archive), "--with-secrets", "--replace").out
    assert "(its name)" in said, "what is left out is said with secrets, too"


def test_a_full_disk_is_named_and_nothing_is_left(used: World) -> None:
    small = used.cli.home / "small"
    small.mkdir()
    (used.cli.data / "large").write_bytes(os.urandom(3 << 20))
    bwrap = bubblewrap()
    for size in (64 << 10, 2 << 20):
        used.cli.before = (bwrap, "--dev-bind", "/", "/", "--size", str(size), "--tmpfs", str(small))
        done = used.cli("backup", str(small / "b.zip"))
        assert done.code == 1
        assert f"the backup cannot be written to {small}" in done.err, done.err
        assert "Traceback" not in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_who_is_ended_leaves_nothing_unfinished(used: World, number: signal.Signals) -> None:
    for name in range(24):
        (used.cli.data / f"large-{name}").write_bytes(os.urandom(4 << 20))
    archive = made(used)
    before = {*used.cli.home.iterdir()}
    for command, unfinished in (
        (("restore", str(archive), "--replace"), "..adderclaw.restoring-*/large-*"),
        (("backup", str(used.cli.home / "b.zip")), ".adderclaw-backup-*/backup.zip"),
    ):
        process = used.cli.start(*command)
        deadline = time.monotonic() + 60
        while not [*used.cli.home.glob(unfinished)]:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number, err
        assert {*used.cli.home.iterdir()} == before
    assert "valid: 2 receipts" in used.cli("receipt", "verify").out


def test_a_home_that_is_there_is_put_aside_only_when_asked_and_unused(used: World) -> None:
    archive = made(used)
    refused = used.cli("restore", str(archive))
    assert refused.code == 2
    assert "is not empty; --replace moves it aside" in refused.err
    with closing(sqlite3.connect(used.database)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        busy = used.cli("restore", str(archive), "--replace")
    assert busy.code == 2
    assert "is in use" in busy.err
    before = sorted(path.name for path in used.cli.data.iterdir())
    found = json.loads(used.cli("restore", str(archive), "--replace", "--output-format", "json").out)
    aside = Path(found["kept_aside"])
    assert sorted(path.name for path in aside.iterdir()) == before
    assert found["sealed"], "the key of the home before fits, and stays"
    assert "webhooks.json" in found["secrets"]
    assert used.cli("receipt", "verify").code == 0
    assert not [*used.cli.home.glob(".*restoring*")]


def test_a_home_that_cannot_be_put_aside_stays(used: World) -> None:
    archive, mine = made(used), used.cli.data / "mine"
    mine.write_text("mine", encoding="utf-8")
    now = time.time()
    for second in range(90):
        stamp = time.strftime("%Y%m%d-%H%M%SZ", time.gmtime(now + second))
        taken = used.cli.data.with_name(f"{used.cli.data.name}.before-restore-{stamp}")
        taken.mkdir()
        (taken / "full").touch()
    done = used.cli("restore", str(archive), "--replace")
    assert done.code != 0
    assert "Traceback" not in done.err
    assert mine.read_text(encoding="utf-8") == "mine"
    assert not [*used.cli.data.parent.glob(".*restoring*")]


def test_a_dry_run_changes_nothing(used: World) -> None:
    archive = made(used)
    home = used.cli.home / "never"
    assert "could be restored" in used.cli("restore", str(archive), "--to", str(home), "--dry-run").out
    assert not home.exists()
    assert not [*used.cli.home.glob(".*restoring*")]
    used.cli("restore", str(archive), "--to", str(used.cli.home / "a" / "b" / "c"), "--dry-run")
    assert not (used.cli.home / "a").exists()


# ------------------------------------------------------------------ hostile archives

type Change = Callable[[dict[str, bytes], dict[str, Any]], None]


def _renamed(name: str) -> Change:
    def change(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
        files[name] = files.pop("home/config.toml")
        manifest["files"][name] = manifest["files"].pop("home/config.toml")

    return change


def _changed(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["store/tool_receipts.log"] = files["store/tool_receipts.log"].replace(b"allowed", b"alloweD")


def _rehashed(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
    """Somebody who knows the format changes a receipt and its hash in the manifest."""
    _changed(files, manifest)
    data = files["store/tool_receipts.log"]
    manifest["files"]["store/tool_receipts.log"] |= {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def _extra(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["home/hooks/evil.sh"] = b"#!/bin/sh"


def _missing(files: dict[str, bytes], _: dict[str, Any]) -> None:
    del files["home/config.toml"]


def _newer(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest |= {"format": 99, "adderclaw": "9.9.9"}


def _rolled_back(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["head"] = f"7:{'a' * 64}"


def _mode(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["files"]["home/config.toml"]["mode"] = 0o4755


def _bomb(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["files"]["home/config.toml"]["size"] = BOMB


def _no_manifest(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest.clear()


HOSTILE: dict[str, tuple[Change, str]] = {
    "absolute": (_renamed("/tmp/evil"), "is an absolute path"),
    "drive": (_renamed("C:/evil"), "is an absolute path"),
    "upwards": (_renamed("home/../../evil"), "leads out of the folder"),
    "backslash": (_renamed("home\\..\\evil"), "is not a valid file name"),
    "control": (_renamed("home/\x1b[2Jevil"), "is not a valid file name"),
    "elsewhere": (_renamed("bin/evil"), "does not belong in a home"),
    "twice": (_renamed("home/memory.sqlite"), "would overwrite another file of the backup"),
    "changed": (_changed, "does not match its hash in the manifest"),
    "rehashed": (_rehashed, "its receipts do not verify"),
    "extra": (_extra, "is not in the manifest"),
    "missing": (_missing, "is in the manifest but missing from the archive"),
    "newer": (_newer, "created by a newer adderclaw (9.9.9, format 99) than this one"),
    "other head": (_rolled_back, "its last receipt is not the one in the manifest"),
    "mode": (_mode, "has the mode 4755"),
    "bomb": (_bomb, "it is a zip bomb"),
    "no manifest": (_no_manifest, "manifest.json is damaged"),
}


def rewritten(archive: Path, change: Change, link: str = "") -> Path:
    with zipfile.ZipFile(archive) as kept:
        files = {name: kept.read(name) for name in kept.namelist()}
    manifest = json.loads(files.pop("manifest.json"))
    change(files, manifest)
    target = archive.with_name("hostile.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            info = zipfile.ZipInfo("placeholder")
            info.filename = name
            kind = stat.S_IFLNK if name == link else stat.S_IFREG
            info.external_attr = (kind | 0o600) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(info, data)
            if manifest.get("files", {}).get(name, {}).get("size") == BOMB:
                info.file_size = BOMB  # what the directory of the archive says, too
    return target


@rows("case", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_is_written(used: World, case: str) -> None:
    change, why = HOSTILE[case]
    kept = used.cli.home.parent / "kept.zip"
    archive = rewritten(kept if kept.exists() else made(used), change)
    home = used.cli.home / "target"
    before = sorted(used.cli.home.rglob("*"))
    done = used.cli("restore", str(archive), "--to", str(home))
    assert done.code == 1, (done.out, done.err)
    assert why in done.err, done.err
    assert "Traceback" not in done.err
    assert "\x1b" not in done.err
    assert not home.exists()
    assert sorted(used.cli.home.rglob("*")) == before
    assert not Path("/tmp/evil").exists()


def test_links_duplicates_and_rubbish_are_refused(used: World) -> None:
    archive = made(used)
    home = str(used.cli.home / "target")
    link = rewritten(archive, lambda files, manifest: None, link="home/config.toml")
    assert "is a link, but a backup contains only files" in used.cli("restore", str(link), "--to", home).err
    twice = archive.with_name("twice.zip")
    shutil.copy(archive, twice)
    with zipfile.ZipFile(twice, "a") as more, pytest.warns(UserWarning, match="Duplicate"):
        more.writestr("home/config.toml", "x")
    assert "occurs twice" in used.cli("restore", str(twice), "--to", home).err
    other = archive.with_name("other.zip")
    with zipfile.ZipFile(other, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("manifest.json", os.urandom(1000))
    damaged = bytearray(other.read_bytes())
    damaged[60:90] = b"\xff" * 30
    other.write_bytes(damaged)
    assert "uses a compression that backups do not use" in used.cli("restore", str(other), "--to", home).err
    cut = archive.with_name("cut.zip")
    cut.write_bytes(archive.read_bytes()[:-200])
    assert "is not a readable backup" in used.cli("restore", str(cut), "--to", home).err
    flipped = bytearray(archive.read_bytes())
    flipped[2000] ^= 1
    cut.write_bytes(flipped)
    assert used.cli("restore", str(cut), "--to", home).code == 1
    assert used.cli("restore", str(used.workspace), "--to", home).code == 2
    assert used.cli("restore", "/no/such/file", "--to", home).code == 2
    assert not Path(home).exists()


def test_what_is_wrong_with_the_file_is_said_before_what_is_wrong_with_the_home(used: World) -> None:
    assert "cannot be read: No such file" in used.cli("restore", "/no/such/file").err
    assert (
        "is not a regular file; give the file that `adderclaw backup` wrote"
        in used.cli("restore", str(used.workspace)).err
    )


def test_bad_targets_are_named(used: World) -> None:
    inside = used.cli("backup", str(used.cli.data / "b.zip"))
    assert inside.code == 2
    assert "is inside of the home" in inside.err
    assert "is not a folder; create it" in used.cli("backup", "/no/such/folder/b.zip").err
    archive = made(used)
    assert "already exists" in used.cli("backup", str(archive)).err
    pipe = used.cli.home / "pipe"
    os.mkfifo(pipe)
    assert "is not a regular file; choose another" in used.cli("backup", str(pipe), "--replace").err
    assert pipe.is_fifo(), "as little as /dev/null"
    used.cli.env["ADDERCLAW_HOME"] = "/no/such/home"
    assert "there is no home" in used.cli("backup", str(archive), "--replace").err


def test_broken_receipts_are_kept_and_said_and_restored_only_on_purpose(used: World) -> None:
    used.log.write_bytes(used.log.read_bytes().replace(b'"status":"allowed"', b'"status":"alloweD"', 1))
    target = used.cli.home.parent / "broken.zip"
    done = used.cli("backup", str(target))
    assert done.code == 1
    assert "do NOT verify" in done.out
    home = str(used.cli.home / "target")
    assert "--unverified restores it anyway" in used.cli("restore", str(target), "--to", home).err
    assert used.cli("restore", str(target), "--to", home, "--unverified").code == 0


# ------------------------------------------------------------------ uninstall


def test_uninstall_lists_first_and_removes_what_it_made(used: World) -> None:
    completion = used.cli.home / ".config/fish/completions/adderclaw.fish"
    completion.parent.mkdir(parents=True)
    completion.write_text(used.cli("--show-completion", "fish").out, encoding="utf-8")
    listed = used.cli("uninstall")
    assert listed.code == 0
    assert f"would be removed: completion: {completion}" in listed.out
    assert "nothing was removed: --yes removes it" in listed.out
    assert used.database.exists()
    with closing(sqlite3.connect(used.database)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        assert "is in use" in used.cli("uninstall", "--yes").err
    assert used.cli("uninstall", "--yes", "--dry-run").code == 0
    assert used.database.exists()
    done = used.cli("uninstall", "--yes", "--output-format", "json")
    found = json.loads(done.out)
    assert done.code == 0
    assert all(item["removed"] for item in found["items"])
    assert found["program"]["remove"]
    assert not used.cli.data.exists()
    assert not completion.exists()
    assert (used.workspace / "a.txt").exists()


def everything(folder: Path) -> dict[str, bytes | str]:
    """Each path beneath a folder with what is in it, or where it leads."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def photos(folder: Path) -> None:
    (folder / "cache").mkdir()
    (folder / "cache" / "cat.jpg").write_text("meow", encoding="utf-8")


def website(folder: Path) -> None:
    (folder / "config.toml").write_text("[server]\nport = 1\n", encoding="utf-8")
    (folder / "server").mkdir()
    (folder / "server" / "main.py").write_text("precious", encoding="utf-8")


def similar(folder: Path) -> None:
    """Every name that could be ours, with what others have in such files."""
    website(folder)
    (folder / "settings.json").write_text("{}", encoding="utf-8")
    (folder / "receipt.key").write_text("mine", encoding="utf-8")
    (folder / "tool_receipts.log").write_text('{"seq": 1, "tool": "hammer"}\n', encoding="utf-8")
    with closing(sqlite3.connect(folder / "memory.sqlite")) as other:
        other.execute("CREATE TABLE events (id)")


NOT_OURS: dict[str, Callable[[Path], None]] = {"photos": photos, "a website": website, "similar names": similar}


@pytest.mark.parametrize("what", NOT_OURS)
def test_uninstall_removes_no_folder_that_is_not_its_own(used: World, what: str) -> None:
    other = used.cli.home / "other"
    other.mkdir()
    NOT_OURS[what](other)
    before = everything(other)
    used.cli.env["ADDERCLAW_HOME"] = str(other)
    done = used.cli("uninstall", "--yes")
    assert (done.code, "is not a home of adderclaw" in done.err) == (2, True), done.err
    assert everything(other).items() >= before.items()


@pytest.mark.parametrize("marker", [".git", "package.json", "SPEC.md"])
def test_uninstall_removes_nothing_of_a_project_that_is_a_home_too(used: World, marker: str) -> None:
    """Its folders `runs` and `server` may be the project's own."""
    (used.cli.data / marker).mkdir()
    (used.cli.data / "server").mkdir(exist_ok=True)
    (used.cli.data / "server" / "main.py").write_text("precious\n")
    before = everything(used.cli.data)
    for option in ("--yes", "--dry-run"):
        done = used.cli("uninstall", option)
        assert (done.code, f"belongs to a project ({marker} is there)" in done.err) == (2, True), done.err
    assert everything(used.cli.data).items() >= before.items()


def test_uninstall_refuses_a_home_that_is_everything_or_a_link(used: World) -> None:
    link = used.cli.home / "link"
    link.symlink_to(used.cli.data)
    before = everything(used.cli.data)
    for home, why in (
        ("/", "contains your home folder"),
        (str(used.cli.home), "contains your home folder"),
        (str(used.cli.home.parent), "contains your home folder"),
        (str(link), "is a link"),
        (str(used.workspace / "a.txt"), "is not a folder"),
    ):
        used.cli.env["ADDERCLAW_HOME"] = home
        done = used.cli("uninstall", "--yes")
        assert (done.code, why in done.err) == (2, True), (home, done.err)
    if os.geteuid() == 0:
        theirs = used.cli.home / "theirs"
        shutil.copytree(used.cli.data, theirs)
        os.chown(theirs, 12345, 0)
        used.cli.env["ADDERCLAW_HOME"] = str(theirs)
        assert "belongs to another user (uid 12345)" in used.cli("uninstall", "--yes").err
    assert everything(used.cli.data) == before


def test_uninstall_leaves_what_others_put_into_its_home_and_places(used: World) -> None:
    """Files of one's own, similar names, links out, a database that the configuration puts elsewhere."""
    home, outside = used.cli.data, used.cli.home / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept", encoding="utf-8")
    for name in ("config.toml.bak", "memory.sqlite.mine", "fleet.key.old", "policy.toml"):
        (home / name).write_text("# mine", encoding="utf-8")
    (home / "skills" / "mine").mkdir(parents=True)
    (home / "skills" / "mine" / "SKILL.md").write_text("mine", encoding="utf-8")
    (home / "caches").mkdir(exist_ok=True)
    (home / "caches" / "out").symlink_to(outside)
    (home / "bench").symlink_to(outside)
    (used.cli.home / ".bashrc").write_text("source ~/.bash_completions/adderclaw.sh\n", encoding="utf-8")
    other = outside / "places.sqlite"
    with closing(sqlite3.connect(other)) as made:
        made.execute("CREATE TABLE bookmarks (id)")
    config = home / "config.toml"
    config.write_text(f'{config.read_text()}\n[memory]\npath = "{other}"\n', encoding="utf-8")
    done = used.cli("uninstall", "--yes")
    assert done.code == 0, (done.out, done.err)
    left = ["bench", "config.toml.bak", "fleet.key.old", "memory.sqlite.mine", "policy.toml", "skills"]
    assert sorted(os.listdir(home)) == left
    assert f"in {home}, not made by adderclaw: {', '.join(left)}" in done.out
    assert "folders of runs in your projects" not in done.out, "those in the home are gone with it"
    assert f"left: the database, which the configuration puts outside the home: {other}" in done.out
    assert "left: a line of ~/.bashrc, which is yours to remove: source ~/.bash_completions/adderclaw.sh" in done.out
    assert sorted(os.listdir(outside)) == ["kept.txt", "places.sqlite"]


def test_every_name_that_the_source_puts_into_a_home_is_known() -> None:
    """What is not would be left behind; a name that people write themselves would be removed."""
    joined = re.compile(r"""join\((?:self\._?|config\.|places\.|configuration\.|runtime\.)?home(?:\(\))?, "([^"]+)\"""")
    source = Path(home_names.__file__).parent
    literal = {name for file in source.rglob("*.py") for name in joined.findall(file.read_text(encoding="utf-8"))}
    assert literal <= home_names.USERS
    named = {value for name, value in vars(home_names).items() if name.isupper() and isinstance(value, str)}
    assert len(named) > 20
    known = home_names.FILES | home_names.FOLDERS | home_names.USERS | {home_names.DATABASE, home_names.RECEIPTS}
    assert not named - known
    assert not home_names.USERS & (home_names.FILES | home_names.FOLDERS)
