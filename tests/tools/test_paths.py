"""Paths with every trick: none leads out of the workspace, and nobody can turn one while we look."""

import ctypes
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.config import safe_open
from adderclaw.config.paths import followed
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Workspace
from adderclaw.sandbox.workspace.reading import FOLDER
from adderclaw.tools import paths
from adderclaw.tools.paths import PathRefused
from tests.tools.conftest import SECRET, Bench, result_of

# ------------------------------------------------------------------ refusals


def link(bench: Bench, name: str, target: str | Path) -> str:
    (bench.root / name).symlink_to(target)
    return name


def pipe(bench: Bench) -> str:
    os.mkfifo(bench.root / "pipe")
    return "pipe"


def bound_socket(bench: Bench) -> str:
    folder = os.open(bench.root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{folder}/sock")
    os.close(folder)
    return "sock"


OUTSIDE: dict[str, Callable[[Bench], str]] = {
    "dots": lambda bench: "../outside/secret.txt",
    "dots behind a directory": lambda bench: "sub/../../outside/secret.txt",
    "many dots": lambda bench: "../" * 64 + "etc/passwd",
    "absolute": lambda bench: str(bench.outside / "secret.txt"),
    "two slashes": lambda bench: f"/{bench.outside / 'secret.txt'}",
    "passwd": lambda bench: "/etc/passwd",
    "home": lambda bench: "~/.profile",
    "another user's home": lambda bench: "~root/.profile",
    "name that begins like the root": lambda bench: f"{bench.root}-other/x",
    "link to a file": lambda bench: link(bench, "l", bench.outside / "secret.txt"),
    "link by a relative way": lambda bench: link(bench, "l", "../outside/secret.txt"),
    "link to a directory": lambda bench: link(bench, "d", bench.outside) + "/secret.txt",
    "link to a link": lambda bench: link(bench, "m", link(bench, "l", bench.outside / "secret.txt")),
    "dangling link": lambda bench: link(bench, "l", bench.outside / "new.txt"),
    "dangling directory link": lambda bench: link(bench, "d", bench.outside / "new") + "/x/y.txt",
    "link to the root": lambda bench: link(bench, "r", "/") + "/etc/passwd",
    "link to itself": lambda bench: link(bench, "loop", "loop"),
    "proc root": lambda bench: f"/proc/self/root{bench.outside}/secret.txt",
    "proc cwd by link": lambda bench: link(bench, "p", "/proc/self/root") + "/etc/passwd",
    "stdin": lambda bench: "/dev/stdin",
    "device by link": lambda bench: link(bench, "zero", "/dev/zero"),
    "pipe": pipe,
    "socket": bound_socket,
    "nul": lambda bench: "a.txt\0.png",
    "empty": lambda bench: "",
    "long name": lambda bench: "x" * 5000,
    "long name of few characters": lambda bench: "ü" * 200,
    "long path": lambda bench: "x/" * 2500 + "y",
}


@pytest.mark.parametrize("trick", OUTSIDE)
@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
def test_no_trick_leads_out(trick: str, tool: str, bench: Bench) -> None:
    path = OUTSIDE[trick](bench)
    more = {"Read": {}, "Write": {"content": "x"}, "Edit": {"old_string": SECRET, "new_string": "x"}}
    bench.ctx.called_as = "write"
    before = sorted(bench.outside.iterdir())
    result = bench.call(tool, file_path=path, **more[tool])
    assert result.is_error
    # a socket cannot even be opened: the system's own error says so
    assert result.denial or (trick == "socket" and tool == "Read"), result.content
    assert SECRET not in result.content
    assert sorted(bench.outside.iterdir()) == before
    assert (bench.outside / "secret.txt").read_text() == SECRET + "\n"


@pytest.mark.parametrize("trick", ["dots", "absolute", "link to a directory", "proc root", "dangling link"])
@pytest.mark.parametrize("tool", ["LS", "Grep", "Glob"])
def test_no_trick_leads_a_search_out(trick: str, tool: str, bench: Bench) -> None:
    path = OUTSIDE[trick](bench).removesuffix("/secret.txt")
    pattern = {} if tool == "LS" else {"pattern": "*"} if tool == "Glob" else {"pattern": "."}
    result = bench.call(tool, path=path, **pattern)
    assert result.denial, result.content
    assert "secret.txt" not in result.content.replace(path, "")


@pytest.mark.parametrize("name", ["\udcff.txt", "a\ud800b"])
def test_what_is_not_unicode_is_refused(name: str, bench: Bench) -> None:
    with pytest.raises(PathRefused, match="not valid Unicode"):
        paths.path_fact(name, bench.ctx)


def test_a_second_name_of_a_file_is_not_written(bench: Bench) -> None:
    os.link(bench.outside / "secret.txt", bench.root / "twin")
    result = bench.call("write", path="twin", content="x")
    assert result.denial
    assert "2 names" in result.content
    assert (bench.outside / "secret.txt").read_text() == SECRET + "\n"


def test_a_link_to_a_file_inside_is_read_but_not_written(bench: Bench) -> None:
    link(bench, "inside", "a.txt")
    link(bench, "absolute", bench.root / "a.txt")
    assert "line1" in bench.call("Read", file_path="inside").content
    assert "line1" in bench.call("Read", file_path="absolute").content
    assert "symbolic link" in str(bench.call("write", path="inside", content="x").denial)
    assert (bench.root / "inside").is_symlink()


def test_free_reads_are_reads_only(bench: Bench) -> None:
    bench.ctx.free_reads = True
    assert SECRET in bench.call("Read", file_path=str(bench.outside / "secret.txt")).content
    assert bench.call("Read", file_path="/dev/zero").denial
    assert bench.call("write", path=str(bench.outside / "new.txt"), content="x").denial
    assert bench.call("edit", path=str(bench.outside / "secret.txt"), old=SECRET, new="x").denial


# ------------------------------------------------------------------ facts


def test_a_fact_tells_where_a_path_leads(bench: Bench) -> None:
    link(bench, "l", bench.outside / "secret.txt")
    found = paths.path_fact("sub/../l", bench.ctx)
    secret = bench.outside / "secret.txt"
    assert (found.given, found.path, found.real) == ("sub/../l", str(bench.root / "l"), str(secret))
    assert found.identity == (secret.stat().st_dev, secret.stat().st_ino)


def test_a_fact_of_what_does_not_exist_yet(bench: Bench) -> None:
    link(bench, "d", bench.outside)
    found = paths.path_fact("d/new/x", bench.ctx)
    assert (found.real, found.identity) == (str(bench.outside / "new/x"), None)


@pytest.mark.parametrize("name", ["grüße.txt", "名前", "a.", "a..", " a ", "-rf", "a'b\"c", "~a", "é", "…"])
def test_odd_names_are_names(name: str, bench: Bench) -> None:
    given = f"./{name}"
    assert not bench.call("Write", file_path=given, content="odd\n").is_error
    assert (bench.root / name).read_text() == "odd\n"
    assert "odd" in bench.call("Read", file_path=given).content


def test_relative_paths_start_where_the_shell_stands(bench: Bench) -> None:
    bench.ctx.workspace.cwd = str(bench.root / "sub")
    bench.call("Write", file_path="x", content="1")
    assert (bench.root / "sub/x").read_text() == "1"
    assert "line1" in bench.call("Read", file_path="../a.txt").content


def test_every_root_is_allowed_also_by_a_link_from_another(tmp_path: Path, bench: Bench) -> None:
    bench.ctx.workspace.extra = (str(bench.outside),)
    link(bench, "d", bench.outside)
    assert SECRET in bench.call("Read", file_path="d/secret.txt").content
    assert not bench.call("Write", file_path="d/new/x.txt", content="1").is_error
    assert (bench.outside / "new/x.txt").read_text() == "1"


def test_a_root_that_is_itself_a_link(tmp_path: Path, bench: Bench) -> None:
    (tmp_path / "way").symlink_to(bench.root)
    bench.ctx.workspace = Workspace(followed(str(tmp_path / "way")))  # as the session does, once
    assert "line1" in bench.call("Read", file_path="a.txt").content
    assert not bench.call("Write", file_path=str(tmp_path / "way/new"), content="1").is_error


# ------------------------------------------------------------------ opening


OPENERS = [safe_open.by_openat2, safe_open.by_walk]


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("way", ["l", "d/secret.txt", "inside"])
def test_no_opener_passes_a_link(opener: safe_open.Opener, way: str, bench: Bench) -> None:
    link(bench, "l", bench.outside / "secret.txt")
    link(bench, "d", bench.outside)
    link(bench, "inside", "a.txt")
    root = os.open(bench.root, safe_open.ANCHOR)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        opener(root, way, safe_open.READ)
    os.close(root)


@pytest.mark.parametrize("opener", OPENERS)
def test_each_opener_opens_what_is_there(opener: safe_open.Opener, bench: Bench) -> None:
    (bench.root / "sub/deep").mkdir()
    (bench.root / "sub/deep/f").write_text("x")
    root = os.open(bench.root, safe_open.ANCHOR)
    for way, flags in (("sub/deep/f", safe_open.READ), (".", FOLDER), ("sub", FOLDER)):
        os.close(opener(root, way, flags))
    os.close(root)


def test_what_was_judged_is_what_is_opened(bench: Bench) -> None:
    (bench.root / "b.txt").write_text("other\n")
    link(bench, "l", "a.txt")
    prepared = bench.prepare("Read", file_path="l")
    (bench.root / "l").unlink()
    link(bench, "l", "b.txt")
    assert "line1" in result_of(prepared).content
    assert "other" in bench.call("Read", file_path="l").content


# ------------------------------------------------------------------ writing


def test_a_write_keeps_the_mode_and_leaves_nothing_behind(bench: Bench) -> None:
    target = bench.root / "a.txt"
    target.chmod(0o755)
    bench.call("Read", file_path="a.txt")
    bench.call("Write", file_path="a.txt", content="new\n")
    assert target.stat().st_mode & 0o777 == 0o755
    assert sorted(os.listdir(bench.root)) == ["a.txt", "sub"]


def test_a_new_file_has_the_mode_that_the_umask_gives(bench: Bench) -> None:
    before = os.umask(0o027)
    try:
        bench.call("Write", file_path="deep/er/new", content="x")
    finally:
        os.umask(before)
    assert (bench.root / "deep/er/new").stat().st_mode & 0o777 == 0o640


def test_a_file_that_changes_under_the_write_is_kept(bench: Bench) -> None:
    place = paths.path_fact("a.txt", bench.ctx)
    old = paths.read_current(place, bench.ctx)
    (bench.root / "a.txt").write_text("somebody else\n")
    with pytest.raises(PathRefused, match="changed by another process"):
        paths.replace_file(place, bench.ctx, b"mine", old)
    assert (bench.root / "a.txt").read_text() == "somebody else\n"
    assert sorted(os.listdir(bench.root)) == ["a.txt", "sub"]


RENAME_EXCHANGE = 2
AT_FDCWD = -100


@pytest.mark.parametrize("tool", ["Write", "Read"])
def test_nobody_can_turn_a_directory_into_a_link_while_we_work(tool: str, bench: Bench) -> None:
    door, bad = bench.root / "door", bench.root / "bad"
    door.mkdir()
    (door / "secret.txt").write_text("inside\n")
    bad.symlink_to(bench.outside)
    exchange = ctypes.CDLL(None).renameat2
    done, swaps = threading.Event(), list[int]()

    def swap() -> None:
        while not done.is_set():
            swaps.append(exchange(AT_FDCWD, bytes(door), AT_FDCWD, bytes(bad), RENAME_EXCHANGE))

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        results = [attempt(tool, bench) for _ in range(500)]
    finally:
        done.set()
        swapper.join()
    assert len(swaps) > 50
    assert set(swaps) == {0}
    assert not any(SECRET in result for result in results)
    assert {"inside\n", "written"} & set(results)
    assert any(result.startswith("refused") for result in results)
    assert os.listdir(bench.outside) == ["secret.txt"]
    assert (bench.outside / "secret.txt").read_text() == SECRET + "\n"


def attempt(tool: str, bench: Bench) -> str:
    ctx = ToolContext("c", "s", bench.ctx.workspace)
    try:
        place = paths.path_fact("door/secret.txt", ctx)
        if tool == "Read":
            fd = paths.open_file(place, ctx)
            try:
                return os.read(fd, 100).decode()
            finally:
                os.close(fd)
        paths.replace_file(place, ctx, b"inside again\n", paths.read_current(place, ctx))
    except (OSError, PathRefused) as error:
        return f"refused: {type(error).__name__}"
    return "written"
