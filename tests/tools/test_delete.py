"""Delete as a tool: what it says that it would touch, what it refuses when it runs, and that no link is followed."""

import os
import socket
from contextlib import suppress

import pytest

from adderclaw.config.schema import Checkpoints, Config
from tests.program import Soak
from tests.security.swapping import swapping
from tests.tools.conftest import Bench


def fill(bench: Bench, *names: str) -> None:
    for name in names:
        path = bench.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_what_is_not_there_or_holds_the_working_directory_is_said(bench: Bench) -> None:
    assert "does not exist" in bench.call("Delete", path="nothing").content
    assert not bench.touch("Delete", path="nothing").writes
    fill(bench, "sub/deeper/x")
    bench.ctx.workspace.cwd = str(bench.root / "sub" / "deeper")
    for path in ("..", ".", str(bench.root / "sub")):
        assert "contains the working directory" in bench.call("Delete", path=path).content
    assert (bench.root / "sub" / "deeper" / "x").exists()


def test_the_root_and_what_lies_outside_go_to_the_gate_as_they_are_and_never_go(bench: Bench) -> None:
    fill(bench, "a")
    (bench.outside / "b").write_text("b")
    (bench.root / "out").symlink_to(bench.outside)
    for path in (
        ".",
        str(bench.root),
        "/",
        str(bench.outside),
        str(bench.outside / "b"),
        "out/b",
        "../" + bench.outside.name,
    ):
        touch = bench.touch("Delete", path=path)
        assert touch.removes == touch.writes, path
        assert bench.call("Delete", path=path).is_error, path
    assert (bench.root / "a").exists()
    assert (bench.outside / "b").exists()


def test_a_link_goes_and_not_what_it_leads_to(bench: Bench) -> None:
    (bench.outside / "b").write_text("b")
    fill(bench, "folder/kept")
    for name, target in (
        ("file", bench.outside / "b"),
        ("tree", bench.outside),
        ("broken", "nowhere"),
        ("own", "folder"),
    ):
        (bench.root / name).symlink_to(target)
        result = bench.call("Delete", path=name)
        assert not result.is_error, result.content
        assert not os.path.lexists(bench.root / name)
    assert (bench.outside / "b").read_text() == "b"
    assert (bench.root / "folder" / "kept").exists()


def test_links_within_a_folder_are_not_followed(bench: Bench) -> None:
    (bench.outside / "b").write_text("b")
    fill(bench, "folder/sub/x")
    (bench.root / "folder" / "sub" / "out").symlink_to(bench.outside)
    result = bench.call("Delete", path="folder")
    assert "with 3 files and folders in it" in result.content
    assert not (bench.root / "folder").exists()
    assert (bench.outside / "b").exists()


@pytest.mark.parametrize("layout", [("HEAD", "objects/x", "refs/x"), ("head", "commondir")])
def test_a_git_directory_of_any_name_is_told_within_and_around(bench: Bench, layout: tuple[str, ...]) -> None:
    fill(bench, *(f"far/store/{name}" for name in layout), "far/other/x")
    store = str(bench.root / "far" / "store")
    for path in ("far", "far/store", f"far/store/{layout[0]}"):
        assert bench.touch("Delete", path=path).gits == (store,), path
        assert bench.call("Delete", path=path).is_error
    assert bench.touch("Delete", path="far/other").gits == ()
    assert (bench.root / "far" / "store" / layout[0]).exists()


def test_names_that_run_code_later_are_told_one_by_one(bench: Bench) -> None:
    fill(
        bench, "p/.git", "p/.vscode/tasks.json", "p/deep/.github/workflows/ci.yml", "p/plain", "p/node_modules/q/.npmrc"
    )
    told = {fact.path for fact in bench.touch("Delete", path="p").writes}
    root = bench.root / "p"
    assert told == {str(root / name) for name in ("", ".git", ".vscode", "deep/.github/workflows")}


def test_what_a_rule_keeps_is_told(bench: Bench) -> None:
    fill(bench, "p/secret/x", "p/y")
    bench.ctx.is_write_protected = lambda path: path.endswith("/secret/x")
    assert str(bench.root / "p/secret/x") in {fact.path for fact in bench.touch("Delete", path="p").writes}


def test_what_no_checkpoint_keeps_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(bench, "p/x", "p/node_modules/q/index.js", "env/pyvenv.cfg", "env/bin/y", "fine/z", ".venv/bin/python")
    with open(bench.root / "big", "wb") as file:
        file.truncate(17 << 20)
    pipe = bench.root / "pipe"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as made:
        monkeypatch.chdir(bench.root)  # a socket's whole path would be too long
        made.bind("socket")
    cases = {
        "p": "p/node_modules (left out by its name)",
        "p/node_modules/q": "what lies in p/node_modules",
        "env": "what is in env (a cache or an environment)",
        "env/bin": "what lies in env",
        ".venv": ".venv (left out by its name)",
        "big": "big (17 MB)",
        "pipe": "pipe (no file, link or folder)",
        "socket": "socket (no file, link or folder)",
    }
    for path, lost in cases.items():
        assert lost in bench.touch("Delete", path=path).lost, path
    for path in ("fine", "p/x"):
        assert bench.touch("Delete", path=path).lost == ""


def test_without_checkpoints_nothing_can_be_undone(bench: Bench) -> None:
    fill(bench, "a")
    off = bench._replace(config=Config(checkpoints=Checkpoints(enabled=False)))
    assert "checkpoints are off" in off.touch("Delete", path="a").lost


def test_what_was_read_of_it_counts_no_more(bench: Bench) -> None:
    fill(bench, "d/a", "b")
    bench.ctx.files_read.update({str(bench.root / "d/a"): "x", str(bench.root / "b"): "x"})
    bench.call("Delete", path="d")
    assert list(bench.ctx.files_read) == [str(bench.root / "b")]


@pytest.mark.soak
def test_a_folder_that_is_swapped_for_a_link_takes_nothing_outside_with_it(bench: Bench, soak: Soak) -> None:
    """A background task exchanges the folder above for a link to one outside that looks the same."""
    (bench.outside / "sub").mkdir()
    (bench.outside / "sub" / "x").write_text("kept")
    (bench.root / "top").mkdir()
    (bench.root / "bad").symlink_to(bench.outside)
    top = os.open(bench.root / "top", os.O_RDONLY | os.O_DIRECTORY)
    with swapping(bench.root / "top", bench.root / "bad") as swapper:
        for _ in soak.of(6000, share=24):
            with suppress(FileExistsError):
                os.mkdir("sub", dir_fd=top)
            os.close(os.open("sub/x", os.O_CREAT | os.O_WRONLY, dir_fd=top))
            bench.call("Delete", path="top/sub")
    with suppress(FileExistsError):
        os.mkdir("sub", dir_fd=top)
    os.close(top)
    assert (bench.outside / "sub" / "x").read_text() == "kept"
    assert sorted(os.listdir(bench.outside)) == ["secret.txt", "sub"]
    assert swapper.count > 100
    folder = "bad" if (bench.root / "top").is_symlink() else "top"
    assert not bench.call("Delete", path=f"{folder}/sub").is_error, "nothing swaps it any more"


def test_one_is_one(bench: Bench) -> None:
    fill(bench, "folder/x")
    assert "folder with 1 file or folder in it" in bench.call("Delete", path="folder").content
