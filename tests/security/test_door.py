"""The one way to the workspace: no link leads out of it, no matter when it appears, and no place opens by itself."""

import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from adderclaw.config import safe_open
from adderclaw.core.errors import PathRefused
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from tests.program import Soak
from tests.security.swapping import swapping

CANARY = "canary-outside\n"


class Ground(NamedTuple):
    """A workspace, and a folder beside it that nothing may reach."""

    root: Path
    outside: Path

    def place(self, way: str) -> WorkspacePath:
        return WorkspacePath(str(self.root), way)

    def untouched(self) -> None:
        found = {str(path.relative_to(self.outside)) for path in self.outside.rglob("*")}
        assert found == {"secret.txt", "sub", "sub/secret.txt"}
        for name in ("secret.txt", "sub/secret.txt"):
            assert (self.outside / name).read_text() == CANARY
            assert stat.S_IMODE((self.outside / name).stat().st_mode) == 0o600
        assert stat.S_IMODE((self.outside / "sub").stat().st_mode) == 0o750


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    root, outside = (tmp_path / "ws").resolve(), (tmp_path / "outside").resolve()
    (outside / "sub").mkdir(parents=True)
    (outside / "sub").chmod(0o750)
    for name in ("secret.txt", "sub/secret.txt"):
        (outside / name).write_text(CANARY)
        (outside / name).chmod(0o600)
    (root / "door" / "sub").mkdir(parents=True)
    (root / "door" / "secret.txt").write_text("inside\n")
    (root / "door" / "sub" / "secret.txt").write_text("inside\n")
    return Ground(root, outside)


# ------------------------------------------------------------------ the type


def test_no_file_call_of_python_accepts_a_place(ground: Ground) -> None:
    place = cast(Any, ground.place("door/secret.txt"))
    for call in (open, os.stat, os.listdir, os.remove, os.mkdir, os.fspath, Path, os.path.join):
        with pytest.raises(TypeError):
            call(place)
    with pytest.raises(TypeError):
        os.open(place, os.O_RDONLY)
    assert not os.path.isabs(str(place))


@pytest.mark.parametrize("way", ["..", "../x", "a/../../x", "/etc/passwd", "a\0b"])
def test_no_place_leads_up(ground: Ground, way: str) -> None:
    with pytest.raises(PathRefused):
        ground.place(way)


def test_of_roots_in_each_other_the_outermost_counts() -> None:
    found = workspace.within_roots("/w/a/b", ("/w/a", "/w"))
    assert found == WorkspacePath("/w", "a/b")
    assert workspace.within_roots("/wide/a", ("/w",)) is None
    assert workspace.within_roots("/x/y", ("/",)) == WorkspacePath("/", "x/y")


# ------------------------------------------------------------------ links


def _overwrite(place: WorkspacePath) -> None:
    workspace.write(place, b"x")


def _status(place: WorkspacePath) -> object:
    return workspace.status(place / "secret.txt")


CALLS: dict[str, Callable[[WorkspacePath], object]] = {
    "read": lambda place: workspace.read(place / "secret.txt"),
    "start": lambda place: workspace.read_head(place / "secret.txt", 10),
    "open a file": lambda place: os.close(workspace.open_file(place / "secret.txt")),
    "open a folder": lambda place: os.close(workspace.open_folder(place)),
    "status": _status,
    "entries": workspace.entries,
    "current": lambda place: workspace.read_replaceable(place / "secret.txt"),
    "write": lambda place: workspace.write(place / "secret.txt", b"x"),
    "write a new file": lambda place: workspace.write(place / "new.txt", b"x"),
    "replace": lambda place: workspace.replace_unchanged(place / "new.txt", b"x", None),
    "make folders": lambda place: workspace.make_folders(place / "new/deeper"),
    "chmod a file": lambda place: workspace.chmod(place / "secret.txt", 0o666),
    "chmod a folder": lambda place: workspace.chmod(place / "sub", 0o777),
    "remove": lambda place: workspace.remove(place / "secret.txt"),
    "remove a tree": lambda place: workspace.remove_tree(place / "sub"),
    "rename from there": lambda place: workspace.rename(place / "secret.txt", WorkspacePath(place.root, "stolen")),
    "rename to there": lambda place: workspace.rename(WorkspacePath(place.root, "mine"), place / "new.txt"),
    "put a link": lambda place: workspace.put_link(place / "new", "/etc/passwd"),
    "readlink": lambda place: workspace.readlink(place / "secret.txt"),
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_goes_through_a_link_on_the_way(ground: Ground, name: str) -> None:
    (ground.root / "link").symlink_to(ground.outside)
    (ground.root / "mine").write_text("mine")
    with pytest.raises((OSError, PathRefused)):
        CALLS[name](ground.place("link"))
    ground.untouched()


@pytest.mark.parametrize("target", ["/", "..", "../outside", "/proc/self/root", "/proc/self/cwd"])
def test_nor_does_a_walk(ground: Ground, target: str) -> None:
    (ground.root / "link").symlink_to(target)
    found = {entry.path.relative for entry in workspace.walk(ground.place("."))}
    assert found == {"link", "door", "door/sub", "door/secret.txt", "door/sub/secret.txt"}
    assert workspace.readlink(ground.place("link")) == target


def test_a_link_itself_is_neither_read_nor_written_over(ground: Ground) -> None:
    (ground.root / "link").symlink_to(ground.outside / "secret.txt")
    for call in (workspace.read, workspace.read_replaceable, _overwrite, workspace.open_file):
        with pytest.raises(PathRefused):
            call(ground.place("link"))
    workspace.put_link(ground.place("link"), "door/secret.txt")
    assert os.readlink(ground.root / "link") == "door/secret.txt"
    workspace.remove(ground.place("link"))
    assert not os.path.lexists(ground.root / "link")
    ground.untouched()


def test_a_tree_is_removed_with_its_links_and_not_through_them(ground: Ground) -> None:
    (ground.root / "door" / "sub" / "link").symlink_to(ground.outside)
    (ground.root / "door" / "up").symlink_to("..")
    os.link(ground.outside / "secret.txt", ground.root / "door" / "second-name")
    workspace.remove_tree(ground.place("door"))
    assert list(ground.root.iterdir()) == []
    ground.untouched()


def test_a_second_name_of_a_file_is_not_written_over(ground: Ground) -> None:
    os.link(ground.outside / "secret.txt", ground.root / "second-name")
    with pytest.raises(PathRefused, match="2 names"):
        workspace.write(ground.place("second-name"), b"x")
    with pytest.raises(PathRefused, match="2 names"):
        workspace.chmod(ground.place("second-name"), 0o666)
    ground.untouched()


def test_what_is_no_file_is_not_opened(ground: Ground) -> None:
    os.mkfifo(ground.root / "pipe")
    folder = os.open(ground.root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{folder}/sock")
    os.close(folder)
    for name in ("pipe", "sock"):
        with pytest.raises((PathRefused, OSError)):
            workspace.read(ground.place(name))
        with pytest.raises(PathRefused):
            workspace.write(ground.place(name), b"x")


# ------------------------------------------------------------------ what it does


def test_a_write_keeps_the_mode_and_leaves_nothing_beside(ground: Ground) -> None:
    file = ground.root / "door" / "secret.txt"
    file.chmod(0o4751)
    workspace.write(ground.place("door/secret.txt"), b"new")
    workspace.write(ground.place("a/b/c.txt"), b"made", mode=0o640)
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert stat.S_IMODE((ground.root / "a/b/c.txt").stat().st_mode) == 0o640
    assert sorted(os.listdir(file.parent)) == ["secret.txt", "sub"]


def test_a_file_that_others_changed_is_not_replaced(ground: Ground) -> None:
    place = ground.place("door/secret.txt")
    old = workspace.read_replaceable(place)
    (ground.root / "door" / "secret.txt").write_text("others\n")
    with pytest.raises(PathRefused, match="changed by another process"):
        workspace.replace_unchanged(place, b"x", old)
    with pytest.raises(PathRefused):
        workspace.replace_unchanged(place, b"x", None)
    assert workspace.read(place) == b"others\n"


def test_limits_hold(ground: Ground) -> None:
    place = ground.place("big")
    workspace.write(place, b"x" * 5000)
    with pytest.raises(OSError, match="large"):
        workspace.read(place, 4999)
    assert len(workspace.read(place, 5000)) == 5000
    assert workspace.read_head(place, 7) == (b"xxxxxxx", 5000)


def test_the_root_itself_stays(ground: Ground) -> None:
    for call in (workspace.remove, workspace.remove_tree, _overwrite):
        with pytest.raises(PathRefused):
            call(ground.place("."))
    assert ground.root.is_dir()


def test_rename_goes_over_nothing(ground: Ground) -> None:
    with pytest.raises(FileExistsError):
        workspace.rename(ground.place("door/sub/secret.txt"), ground.place("door/secret.txt"))
    workspace.rename(ground.place("door/sub"), ground.place("moved"))
    assert workspace.is_folder(ground.place("moved"))
    assert not workspace.exists(ground.place("door/sub"))


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_moved_out_lies_in_our_folder_alone(ground: Ground, tmp_path: Path, elsewhere: bool) -> None:
    ours = Path(f"/dev/shm/adderclaw-door-{os.getpid()}") if elsewhere else tmp_path / "ours"
    ours.mkdir(mode=0o700)
    (ground.root / "door" / "sub" / "link").symlink_to(ground.outside)
    try:
        workspace.move_out(ground.place("door"), str(ours), "aside")
        assert not (ground.root / "door").exists()
        assert (ours / "aside" / "sub" / "secret.txt").read_text() == "inside\n"
        assert os.readlink(ours / "aside" / "sub" / "link") == str(ground.outside)
        workspace.write(ground.place("door"), b"")
        with pytest.raises(FileExistsError):
            workspace.move_out(ground.place("door"), str(ours), "aside")
    finally:
        workspace.remove_tree(WorkspacePath(str(ours.parent), ours.name))
    ground.untouched()


def test_a_deep_tree_takes_no_descriptor_for_each_level(ground: Ground) -> None:
    way = "/".join(["d"] * 1500)
    workspace.make_folders(ground.place(way))
    workspace.write(ground.place(f"{way}/x"), b"x")
    assert sum(1 for entry in workspace.walk(ground.place("d")) if entry.is_file) == 1
    workspace.remove_tree(ground.place("d"))
    assert not (ground.root / "d").exists()


# ------------------------------------------------------------------ races


def rounds(wanted: range, door: Path) -> Iterator[None]:
    """These, and more on a machine so busy that the door was seldom swapped meanwhile."""
    swaps, was, limit, left = 0, door.is_symlink(), time.monotonic() + 60, len(wanted)
    while left > 0 or (swaps < 10 and time.monotonic() < limit):
        yield
        now, left = door.is_symlink(), left - 1
        swaps, was = swaps + (now != was), now


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("readlink", "rename from there")])
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(ground: Ground, soak: Soak, name: str) -> None:
    bad = ground.root / "bad"
    bad.symlink_to(ground.outside)
    outcomes: set[str] = set()
    with swapping(ground.root / "door", bad) as swapper:
        for _ in rounds(soak.of(6000), ground.root / "door"):
            (ground.root / "mine").write_text("mine")
            try:
                outcomes.add(str(CALLS[name](ground.place("door"))))
            except (OSError, PathRefused):
                outcomes.add("refused")
    ground.untouched()
    assert swapper.count >= 10
    assert not any("canary" in outcome for outcome in outcomes)


@pytest.mark.soak
@pytest.mark.parametrize("by", [safe_open.by_openat2, safe_open.by_walk])
def test_so_do_both_ways_of_opening(ground: Ground, soak: Soak, by: safe_open.Opener) -> None:
    bad = ground.root / "bad"
    bad.symlink_to(ground.outside)
    anchor = os.open(ground.root, safe_open.ANCHOR)
    found: set[bytes] = set()
    with swapping(ground.root / "door", bad) as swapper:
        for _ in rounds(soak.of(20_000), ground.root / "door"):
            try:
                fd = by(anchor, "door/sub/secret.txt", safe_open.READ)
            except OSError:
                continue
            found.add(os.read(fd, 100))
            os.close(fd)
    os.close(anchor)
    assert found <= {b"inside\n"}
    assert swapper.count >= 10
