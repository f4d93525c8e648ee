"""A look that leaves folders to the kernel's watch finds what one finds that asks of each."""

import ctypes
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.sandbox.legacy.survey import MANY_ASKED, Surveyor
from tests.program import Soak
from tests.trial import no_namespaces

FOLDERS = MANY_ASKED + 100
IN_EACH = 20
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
EXCHANGE = 2


def planted(root: Path, folders: int = FOLDERS) -> list[Path]:
    """Folders without anything in them that matters, two deep."""
    made = [root / f"{number // IN_EACH}/{number % IN_EACH}" for number in range(folders)]
    for folder in made:
        folder.mkdir(parents=True)
        (folder / "file.py").touch()
    return made


def settled(surveyor: Surveyor, root: Path, watched: int) -> None:
    """Looks until the kernel watches what can be watched: what was made just now is read once more first."""
    limit = time.monotonic() + 60
    while surveyor.watched < watched:
        assert time.monotonic() < limit, surveyor.watched
        surveyor.survey([str(root)])


def exchange(one: Path, other: Path) -> None:
    assert not ctypes.CDLL(None).renameat2(-100, bytes(one), -100, bytes(other), EXCHANGE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


# ------------------------------------------------------------------ each way to change a folder


def write(leaf: Path) -> None:
    (leaf / ".envrc").write_text("evil")


def write_and_put_times_back(leaf: Path) -> None:
    before = leaf.stat()
    write(leaf)
    os.utime(leaf, ns=(before.st_atime_ns, before.st_mtime_ns))


def rename_a_file(leaf: Path) -> None:
    (leaf / "file.py").rename(leaf / ".envrc")


def link_a_file(leaf: Path) -> None:
    (leaf / ".envrc").hardlink_to(leaf / "file.py")


def symlink(leaf: Path) -> None:
    (leaf / ".envrc").symlink_to("file.py")


def replace_the_folder(leaf: Path) -> None:
    other = leaf.parent / "other"
    other.mkdir()
    write(other)
    leaf.rename(leaf.parent / "old")
    other.rename(leaf)


def exchange_the_folder(leaf: Path) -> None:
    other = leaf.parent.parent / "other"
    other.mkdir()
    write(other)
    exchange(leaf, other)


def exchange_the_folder_above(leaf: Path) -> None:
    other = leaf.parent.parent / "other"
    (other / leaf.name).mkdir(parents=True)
    write(other / leaf.name)
    exchange(leaf.parent, other)


def move_in(leaf: Path) -> None:
    made = leaf.parent.parent.parent / "outside"
    made.write_text("evil")
    made.rename(leaf / ".envrc")


@pytest.mark.parametrize(
    "change",
    [
        *(write, write_and_put_times_back, rename_a_file, link_a_file, symlink, replace_the_folder),
        *(exchange_the_folder, exchange_the_folder_above, move_in),
    ],
)
def test_what_appears_in_a_watched_folder_is_found(change: Callable[[Path], None], root: Path) -> None:
    leaf = planted(root)[-1]
    surveyor = Surveyor()
    settled(surveyor, root, FOLDERS)
    change(leaf)
    assert f"{leaf}/.envrc" in surveyor.survey([str(root)]).items
    assert f"{leaf}/.envrc" in surveyor.survey([str(root)]).items, "also at the look after that"


def test_a_repository_in_a_watched_folder_is_found(root: Path) -> None:
    leaf = planted(root)[-1]
    surveyor = Surveyor()
    settled(surveyor, root, FOLDERS)
    subprocess.run(["git", "init", "-q", "--bare", str(leaf)], check=True, timeout=60)
    assert surveyor.survey([str(root)]).gits == (str(leaf),)


def test_random_changes_are_seen_as_by_a_first_look(root: Path, soak: Soak) -> None:
    leaves, surveyor, dice = planted(root), Surveyor(), random.Random(7)
    settled(surveyor, root, FOLDERS)
    folders = [*leaves, *{leaf.parent for leaf in leaves}]
    for _ in soak.of(600):
        for _ in range(dice.randrange(4)):
            change_something(dice, folders)
        watched, fresh = surveyor.survey([str(root)]), Surveyor().survey([str(root)])
        assert watched == fresh
    assert surveyor.watched


def change_something(dice: random.Random, folders: list[Path]) -> None:
    one, other = dice.sample(folders, 2)
    name = dice.choice((".envrc", ".mcp.json", "plain.txt", ".git", "sub"))
    kind = dice.randrange(6)
    if kind == 0 and one.is_dir() and other.is_dir() and one not in other.parents and other not in one.parents:
        exchange(one, other)
    elif not one.is_dir() or not other.is_dir():
        return
    elif kind == 1 and not (one / name).exists():
        (one / name).mkdir()
    elif kind == 2 and (one / name).is_file():
        (one / name).unlink()
    elif kind == 3 and not (one / name).exists() and (other / "file.py").exists():
        (other / "file.py").rename(one / name)
    elif not (one / name).is_dir():
        (one / name).write_text(str(dice.random()))


# ------------------------------------------------------------------ what a watch cannot be trusted with


def test_more_changes_than_the_kernel_keeps_are_found_all_the_same(root: Path) -> None:
    """Each folder is told of once, by two notices."""
    most = int(QUEUE.read_text())
    if most > 20_000:
        pytest.skip("the kernel keeps more notices than this test makes")
    leaves = planted(root, most // 2 + 500)
    surveyor = Surveyor()
    settled(surveyor, root, len(leaves))
    for leaf in leaves:
        (leaf / "more.py").touch()
    write(leaves[-1])
    assert f"{leaves[-1]}/.envrc" in surveyor.survey([str(root)]).items


def test_another_root_that_takes_a_watch_over_takes_no_notice_away(root: Path) -> None:
    leaf = planted(root / "inner")[-1]
    surveyor, inner = Surveyor(), root / "inner"
    settled(surveyor, inner, FOLDERS)
    for _ in range(3):
        surveyor.survey([str(root)])
    write(leaf)
    for one in (root, inner, root):
        assert f"{leaf}/.envrc" in surveyor.survey([str(one)]).items, one


IN_A_NAMESPACE = """
import os, subprocess, sys, time
from adderclaw.sandbox.legacy.survey import Surveyor
root, leaf, watched = sys.argv[1], sys.argv[2], int(sys.argv[3])
surveyor = Surveyor()
limit = time.monotonic() + 60
for _ in range(3):
    surveyor.survey([root])
while surveyor.watched < watched and time.monotonic() < limit:
    surveyor.survey([root])
assert surveyor.watched == watched, surveyor.watched
{change}
assert f"{{leaf}}/.envrc" in surveyor.survey([root]).items
"""
MOUNT = 'subprocess.run(["mount", "-t", "tmpfs", "none", leaf], check=True)\nopen(f"{leaf}/.envrc", "w").close()'
WRITE = 'open(f"{leaf}/.envrc", "w").close()'


def in_a_namespace(root: Path, leaf: Path, watched: int, change: str, before: str = "true") -> None:
    if why := no_namespaces():
        pytest.skip(why)
    script = IN_A_NAMESPACE.format(change=change)
    command = ["unshare", "-Urm", "sh", "-ec", f'{before}; exec "$@"', "sh"]
    command += [sys.executable, "-c", script, str(root), str(leaf), str(watched)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_what_is_mounted_over_a_watched_folder_is_looked_into(root: Path) -> None:
    leaf = planted(root)[-1]
    settled(Surveyor(), root, FOLDERS)  # so that all have been as they are for long enough
    in_a_namespace(root, leaf, FOLDERS, MOUNT)


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_without_watches_each_folder_is_asked_about(limit: str, root: Path) -> None:
    leaf = planted(root)[-1]
    settled(Surveyor(), root, FOLDERS)
    in_a_namespace(root, leaf, 0, WRITE, f"echo 0 > /proc/sys/user/{limit}")


def test_where_others_may_change_a_folder_unseen_nothing_is_watched(root: Path) -> None:
    leaf = planted(root)[-1]
    settled(Surveyor(), root, FOLDERS)
    upper = 'd=$(mktemp -d); mount -t tmpfs none "$d"; mkdir "$d/u" "$d/w"'
    overlay = f'{upper}; mount -t overlay none -o "lowerdir={root},upperdir=$d/u,workdir=$d/w,userxattr" {root}'
    in_a_namespace(root, leaf, 0, WRITE, overlay)


def test_a_small_workspace_takes_no_watch(root: Path) -> None:
    planted(root, 100)
    surveyor = Surveyor()
    for _ in range(4):
        surveyor.survey([str(root)])
    assert surveyor.watched == 0
