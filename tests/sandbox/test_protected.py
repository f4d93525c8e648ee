"""Places in a workspace that a command may neither change nor bring into being."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from adderclaw.sandbox import confinement, protected
from adderclaw.sandbox.bubblewrap import Room
from adderclaw.sandbox.clearing import clear
from adderclaw.sandbox.holder import Box
from adderclaw.sandbox.process import Finished
from tests.sandbox import escapes

type Run = Callable[[str], Finished]


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    """A workspace in which none of the places is there."""
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture(params=["bubblewrap", "landlock"])
def box(request: pytest.FixtureRequest, root: Path, said: list[str]) -> Generator[Box]:
    if why := confinement.trial(request.param):
        pytest.skip(f"{request.param} does not start on this machine: {why}")
    made = confinement.box(request.param, Room((str(root),)), tell=said.append)
    yield made
    made.close()


@pytest.fixture
def run(box: Box, root: Path) -> Run:
    return lambda text: asyncio.run(escapes.bash(text, box, root))


# ------------------------------------------------------------------ what was not there


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mkdir .adderclaw; echo x > .adderclaw/config.toml", ".adderclaw"),
        ("echo x > .adderclaw", ".adderclaw"),
        ("ln -s /etc .adderclaw", ".adderclaw"),
        ("mkfifo .adderclaw", ".adderclaw"),
        ("mkdir -m 0 .vscode", ".vscode"),
        ("mkdir -p .claude/hooks/deep; touch .claude/hooks/deep/x; chmod 0 .claude", ".claude"),
        ("echo '{}' > .mcp.json", ".mcp.json"),
        ("echo 'rm -rf ~' > .envrc; exit 3", ".envrc"),
        ("echo gitdir: elsewhere > .git", ".git"),
        ("mkdir x; ln -s x .git", ".git"),
    ],
)
def test_what_appears_is_taken_away_and_said(
    text: str, name: str, run: Run, root: Path, home: Path, said: list[str]
) -> None:
    done = run(text)
    assert not os.path.lexists(root / name)
    assert f"taken away again: {root / name}" in done.stderr.decode()
    assert str(root / name) in said[0]
    assert [path.name.partition("-")[2] for path in (home / ".adderclaw" / "removed").iterdir()] == [name]


def test_what_appears_is_taken_away_after_a_time_limit_too(box: Box, root: Path) -> None:
    done = asyncio.run(escapes.bash("mkdir .adderclaw; sleep 1000", box, root, timeout=2))
    assert done.timed_out
    assert not (root / ".adderclaw").exists()


@pytest.mark.parametrize(
    "text",
    [
        "mkdir -p .git/hooks; echo 'echo x' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "mkdir -p .git elsewhere; ln -s ../elsewhere .git/hooks; touch elsewhere/pre-commit",
        "mkdir -p .git; printf '[core]\\n\\tfsmonitor = evil\\n' > .git/config",
        "mkdir -p .git; printf '[core]\\n\\thooksPath = evil\\n' > .git/config",
        "mkdir -p .git; printf '[alias]\\n\\tst = !evil\\n' > .git/config",
        "mkdir -p .git; printf '[include]\\n\\tpath = ../evil\\n' > .git/config",
        "mkdir -p .git; printf '[remote \"o\"]\\n\\turl = ext::evil\\n' > .git/config",
        "mkdir -p .git; printf '[user]\\n\\tname = a\\\\\\n[core]\\n\\tpager = evil\\n' > .git/config",
        "mkdir -p .git; printf '[core] pager = evil\\n' > .git/config",
        "mkdir -p .git; printf '[core]\\n\\tworktree = /\\n' > .git/config.worktree",
        "mkdir -p .git; ln -s ../evil .git/config; echo > evil",
    ],
)
def test_a_new_repository_brings_no_code(text: str, run: Run, root: Path) -> None:
    assert "taken away again" in run(text).stderr.decode()
    git = root / ".git"
    assert not os.path.lexists(git / "config")
    assert not os.path.lexists(git / "config.worktree")
    assert not git.joinpath("hooks").is_symlink()
    assert not list(git.glob("hooks/*"))


# ------------------------------------------------------------------ what may be done


def test_a_repository_can_be_made_and_is_kept_from_then_on(
    box: Box, run: Run, root: Path, said: list[str], needs: Callable[[str], str]
) -> None:
    needs("git")
    first = run("git init -q . && git config user.name me && git config user.email me@example.org && echo x > a")
    assert (first.returncode, said) == (0, [])
    done = run("git add a && git commit -qm first && git log --oneline | wc -l; git config core.pager evil; true")
    assert done.stdout == b"1\n"
    assert "a protected place has appeared" in said[0]
    if box.kind == "bubblewrap":
        assert "evil" not in (root / ".git" / "config").read_text()


def test_nothing_is_left_in_the_workspace(run: Run, root: Path, said: list[str]) -> None:
    run("touch new")
    assert [path.name for path in root.iterdir()] == ["new"]
    assert said == []


def test_a_link_stays_what_it_was(run: Run, root: Path) -> None:
    (root / "own").mkdir()
    (root / ".adderclaw").symlink_to("own")
    run("rm .adderclaw; mkdir .adderclaw; touch .adderclaw/x")
    assert os.readlink(root / ".adderclaw") == "own"


# ------------------------------------------------------------------ which places


def test_a_work_tree_keeps_the_repository_that_it_points_to(root: Path, needs: Callable[[str], str]) -> None:
    git = needs("git")
    for command in (
        ["init", "-q", "main"],
        ["-C", "main", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x"],
        ["-C", "main", "worktree", "add", "-q", "../tree"],
    ):
        subprocess.run([git, *command], cwd=root, check=True, capture_output=True)
    found = protected.places((str(root), str(root / "tree")))
    assert str(root / "tree" / ".git") in found.kept
    assert str(root / "main" / ".git" / "hooks") in found.kept
    assert str(root / "main" / ".git" / "config") in found.kept


def test_submodules_are_kept(root: Path) -> None:
    (root / ".git" / "modules" / "sub" / "hooks").mkdir(parents=True)
    assert str(root / ".git" / "modules" / "sub" / "hooks") in protected.places((str(root),)).kept


# ------------------------------------------------------------------ what is only watched


def deep(folder: Path) -> None:
    subprocess.run(["mkdir", "-p", folder / "/".join("d" * 1_200)], check=True, timeout=60)  # ours would recurse


def wide(folder: Path) -> None:
    for number in range(400):
        (folder / f"{number:03}").touch()


def full(folder: Path) -> None:
    for outer in range(60):
        for inner in range(60):
            (folder / str(outer) / str(inner)).mkdir(parents=True)


@pytest.mark.parametrize("fill", [deep, wide, full])
def test_a_place_of_any_size_costs_a_bounded_look_and_hides_no_other(root: Path, fill: Callable[[Path], None]) -> None:
    names = (".yarn", ".husky")
    for name in names:
        (root / name).mkdir()
    (root / ".husky" / "x").touch()
    said: list[str] = []
    made = confinement.box("landlock", Room((str(root),), watched=names), tell=said.append)
    look = lambda: protected.looks([str(root)], names, protected.places([str(root)]))  # noqa: E731
    small = look()
    fill(root / ".yarn")
    try:
        before = made.looks(protected.places([str(root)]))
        assert sum(len(one.held) for one in before.values() if one) <= protected.MOST_LOOKED + len(names)
        assert protected.partly(before) == [f"{root}/.yarn"]
        assert protected.changed(small, before) == [f"{root}/.yarn"], "what filled it is told"
        assert protected.changed(before, look()) == []
        (root / ".husky" / "x").write_text("x")
        made.say_changed(before, protected.places([str(root)]))
        (root / ".yarn" / "new").touch()
        made.say_changed(before, protected.places([str(root)]))
        assert [line.rpartition(": ")[2] for line in said[1:]] == [".husky", ".yarn, .husky"]
        assert "too much lies in .yarn to be watched whole" in said[0]
    finally:
        subprocess.run(["rm", "-rf", root / ".yarn"], check=True, timeout=60)


@pytest.mark.parametrize("others", [0, 2 * protected.MOST_WATCHED], ids=["few others", "too many to list"])
def test_what_comes_to_be_or_changes_is_told_however_many_lie_beside_it(root: Path, others: int) -> None:
    for number in range(others):
        (root / f"a{number}").touch()
    names = (".npmrc", ".github/workflows", ".husky", "lefthook.yml")
    look = lambda: protected.looks([str(root)], names, protected.places([str(root)]))  # noqa: E731
    (root / ".husky").mkdir()
    (root / ".NPMRC").touch()  # another file, where letters count
    before = look()
    of_names = {path.removeprefix(f"{root}/"): seen is not None for path, seen in before.items() if ".git/" not in path}
    assert of_names == {".npmrc": False, ".github/workflows": False, ".husky": True, "lefthook.yml": False}
    (root / ".github" / "workflows").mkdir(parents=True)
    (root / ".npmrc").write_text("x")
    (root / ".husky" / "pre-commit").write_text("x")
    assert sorted(path.removeprefix(f"{root}/") for path in protected.changed(before, look())) == [
        ".github/workflows",
        ".husky",
        ".npmrc",
    ]


# ------------------------------------------------------------------ what is put away


def narrow(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "x").write_text("x")
    (folder / "a" / "link").symlink_to("/etc")
    (folder / "a").chmod(0o500)


def deeper(folder: Path) -> None:
    """Than any path can name."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("d" * 50, dir_fd=here)
        above, here = here, os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(here)


def large(folder: Path) -> None:
    with (folder / "hole").open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("fill", "copied"), [(narrow, True), (deep, True), (deeper, False), (full, False), (large, False)]
)
def test_whatever_appears_is_put_away_from_another_file_system_too(
    root: Path, fill: Callable[[Path], None], copied: bool
) -> None:
    place = root / ".vscode"
    place.mkdir()
    fill(place)
    if Path("/dev/shm").stat().st_dev == root.stat().st_dev:
        pytest.skip("/dev/shm is no other file system here")
    elsewhere = tempfile.mkdtemp(dir="/dev/shm")
    try:
        assert protected.put_away(str(place), f"{elsewhere}/removed") == [str(place)]
        assert not place.exists()
        kept = list(Path(elsewhere, "removed").iterdir())
        assert [path.name.partition("-")[2] for path in kept] == ([".vscode"] if copied else [])
        if fill is narrow:
            assert ((kept[0] / "a/b/x").read_text(), os.readlink(kept[0] / "a/link")) == ("x", "/etc")
        beside = [path.name.partition("-")[0] for path in root.iterdir()]
        assert beside == ([] if copied else ["removed"])
    finally:
        clear(elsewhere)
        clear(str(root))
    assert not os.path.exists(elsewhere)
    assert not root.exists()
