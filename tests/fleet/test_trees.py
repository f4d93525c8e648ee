"""Folders as objects: what was there comes back, what did not change is not sent again, nothing leads out."""

import ctypes
import fcntl
import json
import os
import stat
import threading
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.types import Json
from adderclaw.fleet import keys, trees
from adderclaw.fleet.boxes import Sealer
from adderclaw.fleet.keys import Key
from adderclaw.fleet.objects import Boxes, Bucket, Objects
from adderclaw.fleet.state import AttemptFolder, WorkerFolder, clone, remove


class Memory:
    """A place that counts."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def put(self, name: str, body: bytes) -> None:
        self.held[name] = body

    def get(self, name: str) -> bytes | None:
        return self.held.get(name)

    def has(self, name: str) -> bool:
        return name in self.held


@pytest.fixture
def place() -> Memory:
    return Memory()


@pytest.fixture
def objects(place: Memory) -> Objects:
    return Objects(place, Key(bytes(32)))


def filled(folder: Path) -> Path:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a.txt").write_text("a" * 1000)
    (folder / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "deep" / "run.sh").chmod(0o755)
    (folder / "empty").write_text("")
    (folder / "odd \udcff name").write_text("odd")
    (folder / "link").symlink_to("deep/run.sh")
    (folder / "out").symlink_to("/etc/passwd")
    return folder


def test_what_was_there_comes_back(objects: Objects, tmp_path: Path) -> None:
    name = trees.Saver(objects).save({"workspace": str(filled(tmp_path / "one"))})
    trees.restore(objects, name, {"workspace": str(tmp_path / "two")})
    two = tmp_path / "two"
    assert (two / "a.txt").read_text() == "a" * 1000
    assert (two / "deep" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (two / "empty").read_text() == ""
    assert (two / "odd \udcff name").read_text() == "odd"
    assert os.readlink(two / "out") == "/etc/passwd"
    assert (two / "deep" / "er").is_dir()


def test_large_files_and_many_small_ones_come_back(objects: Objects, tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.mkdir()
    bodies = {f"{number}": os.urandom(number * 37) for number in range(100)}
    for name, body in bodies.items():
        (one / name).write_bytes(body)
    name = trees.Saver(objects, part=1000).save({"w": str(one)})
    trees.restore(objects, name, {"w": str(tmp_path / "two")})
    assert {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()} == bodies


def test_what_did_not_change_is_not_sent_again(objects: Objects, place: Memory, tmp_path: Path) -> None:
    one = filled(tmp_path / "one")
    (one / "large").write_bytes(os.urandom(500_000))
    saver = trees.Saver(objects)
    first = saver.save({"w": str(one)})
    (one / "a.txt").write_text("changed")
    second = saver.save({"w": str(one)})
    assert len(place.held[second]) < 5_000 < len(place.held[first])
    later = trees.Saver(objects, trees.load(objects, second))  # another worker goes on from there
    trees.restore(objects, second, {"w": str(tmp_path / "two")})
    third = later.save({"w": str(tmp_path / "two")})
    assert len(place.held[third]) < 5_000
    trees.restore(objects, third, {"w": str(tmp_path / "three")})
    assert (tmp_path / "three" / "large").read_bytes() == (one / "large").read_bytes()


def test_a_path_that_leads_out_is_refused(objects: Objects, tmp_path: Path) -> None:
    bad = trees.Tree({"w/../../x": trees.File(0o600, 0, 0, "", ())}, {}, {})
    name = objects.put(trees._packed(bad, b""))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(UsageError, match="leads out of its folder"):
        trees.restore(objects, name, {"w": str(tmp_path / "two")})


def test_a_link_is_not_written_through(objects: Objects, tmp_path: Path) -> None:
    """A manifest with a link and a file below it: the file is there first, and the link cannot take its place."""
    bad = trees.Tree({"w/d/x": trees.File(0o600, 0, 0, sha256().hexdigest(), ())}, {"w/d": str(tmp_path)}, {})
    name = objects.put(trees._packed(bad, b""))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(FileExistsError):
        trees.restore(objects, name, {"w": str(tmp_path / "two")})
    assert not (tmp_path / "x").exists()


LEADING = [{"w": "{out}"}, {"w/": "{out}"}, {"w/a": "{out}", "w/a/b": "x"}, {"w/a": "{out}", "w/a/b/c": "x"}]


@pytest.mark.parametrize("links", LEADING)
def test_a_link_leads_no_other_out(objects: Objects, tmp_path: Path, links: dict[str, str]) -> None:
    """Not by a folder that is a link, and not by one in the place of the whole."""
    out = tmp_path / "out"
    out.mkdir()
    bad = trees.Tree({}, {name: target.format(out=out) for name, target in links.items()}, {})
    name = objects.put(trees._packed(bad, b""))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(UsageError, match="leads out of its folder"):
        trees.restore(objects, name, {"w": str(tmp_path / "two")})
    assert not list(out.iterdir())
    assert not (tmp_path / "two").is_symlink()


def test_a_state_brings_no_configuration(objects: Objects, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "config.toml").write_text("")
    row: Json = {"id": "one", "submitter": "me", "saved": trees.Saver(objects).save({"home": str(saved)}), "place": {}}
    with pytest.raises(AdderClawError, match="which does not belong to a state"):
        AttemptFolder(str(tmp_path / "run")).fill(objects, row, Key(bytes(32)), str(tmp_path / "none"))


def test_a_commit_is_no_option_of_git(tmp_path: Path) -> None:
    with pytest.raises(AdderClawError, match="that is not a commit"):
        clone(str(tmp_path), "--orphan=x", str(tmp_path / "two"), local=True)
    assert not (tmp_path / "two").exists()


def test_what_is_no_file_is_passed_over(objects: Objects, tmp_path: Path) -> None:
    one = filled(tmp_path / "one")
    os.mkfifo(one / "pipe")
    name = trees.Saver(objects).save({"w": str(one)}, leave_out=frozenset({"w/deep"}))
    tree = trees.load(objects, name)
    assert "w/pipe" not in tree.files
    assert not any("deep/" in path for path in tree.files)


@pytest.mark.parametrize("damage", ["changed", "other", "gone", "key"])
def test_a_changed_object_is_found(objects: Objects, place: Memory, tmp_path: Path, damage: str) -> None:
    name = trees.Saver(objects).save({"w": str(filled(tmp_path / "one"))})
    other = objects.put(b"other")
    match damage:
        case "changed":
            place.held[name] = place.held[name][:-1] + bytes([place.held[name][-1] ^ 1])
        case "other":
            place.held[name] = place.held[other]
        case "gone":
            del place.held[name]
        case _:
            objects = Objects(place, Key(b"1" * 32))
    with pytest.raises(Exception, match=r"does not open|does not match its name|was removed"):
        trees.load(objects, name)


def test_nothing_of_a_content_can_be_read_where_it_is_kept(objects: Objects, place: Memory, tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.mkdir()
    (one / "a").write_text("canary-canary-canary")
    trees.Saver(objects).save({"w": str(one)})
    assert not any(b"canary" in body for body in place.held.values())


def test_a_folder_is_an_object_store(tmp_path: Path) -> None:
    objects = Objects(Bucket(str(tmp_path / "store")), Key(bytes(32)))
    name = objects.put(b"hello")
    assert objects.put(b"hello") == name
    assert objects.get(name) == b"hello"
    assert not any(b"hello" in path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())


def submitted(place: Memory, folder: Path, who: str) -> str:
    """As somebody does who has the public key alone."""
    return trees.Saver(Boxes(place, Sealer(Key(bytes(32)).boxes.public, who))).save({"workspace": str(folder)})


def begun(objects: Objects, tmp_path: Path, who: str, archive: str) -> Path:
    """The workspace that a run of this submitter begins with."""
    folder = AttemptFolder(str(tmp_path / f"run-{who}"))
    row: Json = {"id": "one", "submitter": who, "saved": None, "place": {"archive": archive}}
    folder.fill(objects, row, Key(bytes(32)), str(tmp_path / "none"))
    return Path(folder.workspace)


def test_who_submits_seals_for_workers_alone(objects: Objects, place: Memory, tmp_path: Path) -> None:
    one = filled(tmp_path / "one")
    (one / "canary").write_text("canary-canary-canary")
    name = submitted(place, one, "bob")
    assert not any(b"canary" in body for body in place.held.values())
    assert (begun(objects, tmp_path, "bob", name) / "canary").read_text() == "canary-canary-canary"
    own = Sealer(Key(bytes(32)).boxes.public, "bob", b"1" * 32), Sealer(Key(bytes(32)).boxes.public, "eve", b"1" * 32)
    assert own[0].sealed(b"x") == own[0].sealed(b"x")  # what is there already is not sent again
    assert own[0].sealed(b"x")[1][:32] != own[1].sealed(b"x")[1][:32]


def test_nobody_begins_with_the_files_of_another(objects: Objects, place: Memory, tmp_path: Path) -> None:
    """Neither by their name, nor by an archive that says its files are in objects of others."""
    one = filled(tmp_path / "one")
    bobs, state = submitted(place, one, "bob"), trees.Saver(objects).save({"workspace": str(one)})
    boxes = Boxes(place, Sealer(Key(bytes(32)).boxes.public, "eve"))
    stolen = [
        boxes.put(trees._packed(trees.load(objects, name), b""))  # pyright: ignore[reportPrivateUsage]
        for name in (bobs, state)
    ]
    for number, name in enumerate((bobs, state, *stolen)):
        with pytest.raises(AdderClawError, match="was not submitted"):
            begun(objects, tmp_path / str(number), "eve", name)


@pytest.mark.parametrize("path", ["elsewhere/x", "workspace/x"])
def test_nobody_goes_on_with_the_state_of_another(objects: Objects, place: Memory, tmp_path: Path, path: str) -> None:
    """An archive says of a file that is put nowhere that an object of another has it; the run then makes that file."""
    one = tmp_path / "one"
    one.mkdir()
    (one / "canary").write_text("canary-canary-canary")
    state = trees.Saver(objects).save({"workspace": str(one)})
    eves = Boxes(place, Sealer(Key(bytes(32)).boxes.public, "eve"))
    made, own = b"x" * 1000, eves.put(zlib.compress(b"small"))
    held = state if path.startswith("elsewhere") else own
    bad = trees.Tree({path: trees.File(0o600, 1000, 0, sha256(made).hexdigest(), ((held, 0, 10**6),))}, {}, {})
    name = eves.put(trees._packed(bad._replace(folders={"workspace": 0o700}), b""))  # pyright: ignore[reportPrivateUsage]
    folder = AttemptFolder(str(tmp_path / "run"))
    row: Json = {"id": "one", "submitter": "eve", "saved": None, "place": {"archive": name}}
    if held == own:  # what a file is said to be is what it is
        with pytest.raises(UsageError, match="'x' in the archive does not match its hash"):
            folder.fill(objects, row, Key(bytes(32)), str(tmp_path / "none"))
        return
    saver = folder.fill(objects, row, Key(bytes(32)), str(tmp_path / "none"))
    (Path(folder.workspace) / "made").write_bytes(made)
    later = AttemptFolder(str(tmp_path / "later"))
    later.fill(objects, {**row, "saved": folder.save(saver)}, Key(bytes(32)), str(tmp_path / "none"))
    assert (Path(later.workspace) / "made").read_bytes() == made


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a//b", "x\0", "box-", "x" * 300])
def test_what_is_no_name_of_an_object_is_none(tmp_path: Path, name: str) -> None:
    """Who submits may write anything: it keeps `fleet prune` from nothing."""
    objects = Objects(Bucket(str(tmp_path / "store")), Key(bytes(32)))
    with pytest.raises(UsageError, match="not a valid object name"):
        trees.load(objects, name)


@pytest.mark.parametrize("when", [10**30, -(10**30)])
def test_a_time_that_no_system_knows_is_no_error(objects: Objects, place: Memory, tmp_path: Path, when: int) -> None:
    file = trees.File(0o600, 0, when, sha256().hexdigest(), ())
    bad = trees.Tree({"workspace/a": file}, {}, {})
    boxes = Boxes(place, Sealer(Key(bytes(32)).boxes.public, "eve"))
    archive = boxes.put(trees._packed(bad, b""))  # pyright: ignore[reportPrivateUsage]
    assert (begun(objects, tmp_path, "eve", archive) / "a").exists()


def test_a_variable_that_says_nothing_is_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keys.VARIABLE, "")
    assert not keys.found(str(tmp_path))


def test_a_root_keeps_what_is_not_the_workers(tmp_path: Path) -> None:
    """`--root` may be a folder with files of somebody: of a killed worker's alone is anything removed."""
    (tmp_path / "uv").mkdir()
    kept = [tmp_path / name for name in ("uv.lock", ".lock", "uv/file", "x-0123abcd.lock")]
    for path in kept:
        path.write_text("x")
    dead = tmp_path / "w1-00000000"
    (dead / "run").mkdir(parents=True)
    (tmp_path / "w1-00000000.lock").touch()
    WorkerFolder(str(tmp_path)).take("w1-00000001")
    assert [path.exists() for path in kept] == [True] * 4
    assert not dead.exists()
    assert not (tmp_path / "w1-00000000.lock").exists()


def test_workers_that_start_at_once_have_a_lock_each(tmp_path: Path) -> None:
    """One that sees the other's lock file before it is locked takes it for a dead one's; the other notices."""
    path = tmp_path / "w1-00000001.lock"
    with path.open("wb") as between:
        fcntl.flock(between, fcntl.LOCK_EX)
        starting = threading.Thread(target=WorkerFolder(str(tmp_path)).take, args=("w1-00000001",))
        starting.start()
        inode = str(path.stat().st_ino)
        while not any("->" in line and f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines()):
            assert starting.is_alive()
        path.unlink()
    starting.join()
    WorkerFolder(str(tmp_path)).take("w1-00000002")
    assert (path.exists(), (tmp_path / "w1-00000001").is_dir()) == (True, True)


@pytest.mark.parametrize("damage", ["changed", "gone", "key", "short"])
def test_a_changed_box_is_found(objects: Objects, place: Memory, tmp_path: Path, damage: str) -> None:
    name = submitted(place, filled(tmp_path / "one"), "bob")
    match damage:
        case "changed":
            place.held[name] = place.held[name][:-1] + bytes([place.held[name][-1] ^ 1])
        case "gone":
            del place.held[name]
        case "short":
            place.held[name] = b""
        case _:
            objects = Objects(place, Key(b"1" * 32))
    with pytest.raises(AdderClawError, match=r"does not open|does not match its name|was removed"):
        begun(objects, tmp_path, "bob", name)


LARGE = zlib.compress(bytes(trees.PART + 1))
FILES: dict[str, Any] = {"files": {"workspace/a": [0o644, 5, 0, "", [["", 0, len(LARGE)]]]}, "links": {}, "folders": {}}
NO_FOLDERS = [
    b"",
    b"no manifest",
    b"[]",
    b"{}",
    json.dumps({**FILES, "files": {"workspace/a": 1}}).encode(),
    json.dumps({**FILES, "files": {"workspace/a": ["x", 5, 0, "", []]}}).encode(),
    json.dumps({**FILES, "files": {"workspace/a": [0, 5 * 1024**3, 0, "", []]}}).encode(),
    json.dumps({**FILES, "links": [1]}).encode(),
    json.dumps({**FILES, "folders": {f"workspace{'/d' * 1900}": 0o755}}).encode(),
    json.dumps({**FILES, "files": {f"workspace{'/d' * 1900}": FILES["files"]["workspace/a"]}}).encode(),
    json.dumps({**FILES, "folders": {f"workspace/{number}": 0o755 for number in range(200_001)}}).encode(),
    b"[" * 100_000,
    json.dumps(FILES).encode(),
]


@pytest.mark.parametrize("manifest", NO_FOLDERS)
def test_an_archive_of_nonsense_is_refused(objects: Objects, place: Memory, tmp_path: Path, manifest: bytes) -> None:
    """Who submits may write anything: it is never more than it says, and no other error than ours."""
    boxes, body = Boxes(place, Sealer(Key(bytes(32)).boxes.public, "eve")), zlib.compress(manifest)
    name = boxes.put(LARGE + body + len(body).to_bytes(8))
    with pytest.raises(UsageError, match=r"is not a saved folder|too large|too deep|does not match its manifest"):
        begun(objects, tmp_path, "eve", name)


def deep(folder: Path, levels: int, name: str = "d") -> None:
    """Folders in one another, as no path names them."""
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("leaf", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


@pytest.mark.parametrize(("levels", "name"), [(200, "d"), (3000, "d"), (100, "d" * 200)])
def test_folders_without_end_are_too_deep_and_go_away(objects: Objects, tmp_path: Path, levels: int, name: str) -> None:
    """A run makes them in a second: nothing of the worker's is as deep, and nothing of them is left."""
    deep(tmp_path / "one", levels, name)
    with pytest.raises(UsageError, match="too deep for an archive"):
        trees.Saver(objects).save({"workspace": str(tmp_path / "one")})
    dead = tmp_path / "root" / "w1-00000000"
    dead.mkdir(parents=True)
    (tmp_path / "one").rename(dead / "run")
    (tmp_path / "root" / "w1-00000000.lock").touch()
    WorkerFolder(str(tmp_path / "root")).take("w1-00000001")
    assert not dead.exists()


def test_as_deep_as_may_be_comes_back(objects: Objects, tmp_path: Path) -> None:
    deep(tmp_path / "one", trees.DEEPEST - 1)
    name = trees.Saver(objects).save({"workspace": str(tmp_path / "one")})
    trees.restore(objects, name, {"workspace": str(tmp_path / "two")})
    assert (tmp_path / "two" / "/".join("d" * (trees.DEEPEST - 1)) / "leaf").exists()


def test_a_file_that_grows_while_it_is_read_is_too_much(tmp_path: Path) -> None:
    """A sparse one of a million terabytes takes no room on the disk, and the rest of a worker's life to read."""
    file = tmp_path / "one" / "file"
    file.parent.mkdir()
    file.write_bytes(bytes(3000))

    class Growing(Memory):
        def put(self, name: str, body: bytes) -> None:
            os.truncate(file, 2**40)
            super().put(name, body)

    saver = trees.Saver(Objects(Growing(), Key(bytes(32))), part=1000, most=100_000)
    with pytest.raises(UsageError, match="too large for an archive"):
        saver.save({"workspace": str(file.parent)})


def test_what_a_run_closed_goes_away_and_nothing_else(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    (kept / "a").mkdir(parents=True)
    (folder / "shut" / "inner").mkdir(parents=True)
    (folder / "link").symlink_to(kept)
    (folder / "shut" / "link").symlink_to(kept)
    os.mkfifo(folder / "shut" / "inner" / "pipe")
    for path in (folder / "shut" / "inner", folder / "shut"):
        path.chmod(0)
    remove(str(folder))
    assert (folder.exists(), (kept / "a").is_dir()) == (False, True)
    remove(str(folder))  # it is gone already


def test_what_a_run_left_running_has_nothing_else_removed(tmp_path: Path) -> None:
    """It exchanges its folders with links that lead out of the run's folder, while that is removed."""
    kept, done = tmp_path / "kept", threading.Event()
    (kept / "folder").mkdir(parents=True)
    (kept / "file").write_text("of the operator")
    (kept / "folder").chmod(0o755)
    exchange = ctypes.CDLL(None).renameat2

    def exchanging(work: Path) -> None:
        pairs = [(bytes(work / f"d{n}"), bytes(work / f"l{n}")) for n in range(40)]
        while not done.is_set():
            for one, other in pairs:
                exchange(-100, one, -100, other, 2)

    for number in range(20):
        folder = tmp_path / str(number)
        for n in range(40):
            (folder / "work" / f"d{n}" / "inner").mkdir(parents=True)
            (folder / "work" / f"l{n}").symlink_to(kept)
        done.clear()
        hostile = threading.Thread(target=exchanging, args=(folder / "work",))
        hostile.start()
        try:
            remove(str(folder))
        finally:
            done.set()
            hostile.join()
        assert (kept / "folder").is_dir(), number
        assert (kept / "file").exists(), number
        assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IMODE((kept / "folder").stat().st_mode) == 0o755, number
        assert not folder.exists(), number


def test_a_manifest_is_no_more_to_read_than_of_a_folder(objects: Objects) -> None:
    """A few bytes may stand for many, and each three of those for an object of Python's."""
    packed = zlib.compress(b"[" + b"[]," * 4_000_000 + b"[]]", 1)
    name = objects.put(packed + len(packed).to_bytes(8))
    with pytest.raises(UsageError, match="too large for an archive"):
        trees.load(objects, name)
