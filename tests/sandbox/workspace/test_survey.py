"""One look at a workspace: git directories by what they are, later places by their names, no link followed."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.config.run_later_names import names
from adderclaw.sandbox.legacy.survey import MOST_INSTALLED, Survey, Surveyor
from adderclaw.sandbox.workspace.gitconfig import parse

HOOK = "#!/bin/sh\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    return folder


def git(*words: str, cwd: Path) -> None:
    options = ["-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *options, *words], cwd=cwd, check=True, timeout=60, capture_output=True)


def bare(folder: Path) -> Path:
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


def with_hook(folder: Path, name: str = "pre-commit") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(HOOK)
    (folder / name).chmod(0o755)
    return folder


def look(root: Path) -> Survey:
    return Surveyor().survey([str(root)])


def rel(paths: object, root: Path) -> set[str]:
    assert isinstance(paths, tuple | dict)
    return {os.path.relpath(path, root) for path in paths}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


# ------------------------------------------------------------------ git directories


def as_folder(root: Path) -> str:
    git("init", "-q", "a", cwd=root)
    return "a/.git"


def deep(root: Path) -> str:
    (root / "a/b/c/d/e/f").mkdir(parents=True)
    git("init", "-q", ".", cwd=root / "a/b/c/d/e/f")
    return "a/b/c/d/e/f/.git"


def in_dist(root: Path) -> str:
    git("init", "-q", "dist/x", cwd=root)
    return "dist/x/.git"


def in_a_dot_folder(root: Path) -> str:
    git("init", "-q", ".cache/x", cwd=root)
    return ".cache/x/.git"


def in_node_modules(root: Path) -> str:
    git("init", "-q", "node_modules/@scope/x", cwd=root)
    return "node_modules/@scope/x/.git"


def by_a_file(root: Path) -> str:
    git("init", "-q", "--separate-git-dir", str(root / "elsewhere"), "a", cwd=root)
    return "elsewhere"


def by_a_file_without_layout(root: Path) -> str:
    """What it leads to may come to be a repository later."""
    (root / "a/odd").mkdir(parents=True)
    (root / "a/.git").write_text("gitdir: odd\n")
    return "a/odd"


def by_a_link(root: Path) -> str:
    bare(root / "store/x")
    (root / "a").mkdir()
    (root / "a/.git").symlink_to("../store/x")
    return "store/x"


def by_links_on_the_way(root: Path) -> str:
    bare(root / "store/x")
    (root / "a").mkdir()
    (root / "way").symlink_to("store")
    (root / "a/.git").write_text("gitdir: ../way/x\n")
    return "store/x"


def by_commondir(root: Path) -> str:
    (root / "common").mkdir()
    (root / "a").mkdir()
    (root / "a/HEAD").write_text("ref: refs/heads/main\n")
    (root / "a/commondir").write_text("../common\n")
    return "common"


def bare_layout(root: Path) -> str:
    bare(root / "docs/fixture")
    return "docs/fixture"


def copied_modules(root: Path) -> str:
    bare(root / "renamed/sub/name")
    return "renamed/sub/name"


def incomplete(root: Path) -> str:
    (root / "a/.git").mkdir(parents=True)
    return "a/.git"


def in_other_letters(root: Path) -> str:
    (root / "a/.GIT").mkdir(parents=True)
    return "a/.GIT"


LAYOUTS = (
    as_folder, deep, in_dist, in_a_dot_folder, in_node_modules, by_a_file, by_a_file_without_layout, by_a_link,
    by_links_on_the_way, by_commondir, bare_layout, copied_modules, incomplete, in_other_letters,
)  # fmt: skip


@pytest.mark.parametrize("make", LAYOUTS, ids=lambda make: make.__name__)
def test_git_directories_and_their_hooks_are_found(make: Callable[[Path], str], root: Path) -> None:
    place = make(root)
    surveyor = Surveyor()
    for _ in range(2):
        assert place in rel(surveyor.survey([str(root)]).gits, root)
    with_hook(root / place / "hooks")
    (root / place / "config").write_text("[core]\n\tfsmonitor = ./evil\n")
    for one in (surveyor, Surveyor()):
        found = one.survey([str(root)])
        assert f"{place}/hooks" in rel(found.hooks, root)
        assert {f"{place}/hooks/pre-commit", f"{place}/config"} <= rel(found.items, root)


def test_submodules_with_a_slash_and_work_trees_lie_in_one_directory(root: Path, tmp_path: Path) -> None:
    git("init", "-q", "-b", "main", "lib", cwd=tmp_path)
    git("commit", "-q", "--allow-empty", "-m", "a", cwd=tmp_path / "lib")
    git("init", "-q", "-b", "main", ".", cwd=root)
    git("submodule", "add", "-q", "--name", "group/lib", str(tmp_path / "lib"), "vendor/lib", cwd=root)
    git("commit", "-qm", "a", cwd=root)
    git("worktree", "add", "-q", "trees/x", cwd=root)
    found = look(root)
    assert rel(found.gits, root) == {".git"}
    assert {".git/hooks", ".git/modules/group/lib/hooks"} <= rel(found.hooks, root)
    assert {"vendor/lib/.git", "trees/x/.git", ".gitmodules"} <= rel(found.places, root)
    assert rel(found.items, root) == {".gitmodules", "trees/x/.gitmodules"}, "what git itself writes runs nothing"
    with_hook(root / ".git/modules/group/lib/hooks")
    assert ".git/modules/group/lib/hooks/pre-commit" in rel(look(root).items, root)


@pytest.mark.parametrize("where", [".", "sub"])
def test_hooks_path_and_included_settings_are_followed(where: str, root: Path) -> None:
    top = root / where
    git("init", "-q", where, cwd=root)
    (root / "more").mkdir()
    (root / "more/settings").write_text("[core]\n\thooksPath = tools/hooks\n")
    with (top / ".git/config").open("a") as file:
        file.write(f"[include]\n\tpath = {os.path.relpath(root / 'more/settings', top / '.git')}\n")
    with_hook(top / "tools/hooks")
    found = look(root)
    assert os.path.normpath(f"{where}/tools/hooks") in rel(found.hooks, root)
    assert "more/settings" in rel(found.places, root)
    assert os.path.normpath(f"{where}/tools/hooks/pre-commit") in rel(found.items, root)


def test_what_leads_out_is_an_item_and_is_not_opened(root: Path, tmp_path: Path) -> None:
    bare(tmp_path / "outside/git")
    with_hook(tmp_path / "outside/git/hooks")
    for name in ("a", "b", "c", "d", "e"):
        (root / name).mkdir()
    (root / "a/.git").write_text(f"gitdir: {tmp_path}/outside/git\n")
    (root / "b/.git").symlink_to("../../outside/git")
    (root / "c/.git").symlink_to("../out/git")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "d/.vscode").symlink_to(tmp_path / "outside")
    bare(root / "e/x")
    (root / "e/x/hooks").symlink_to(tmp_path / "outside/git/hooks")
    found = look(root)
    assert rel(found.gits, root) == {"e/x"}
    assert rel(found.items, root) == {"a/.git", "b/.git", "c/.git", "d/.vscode", "e/x/hooks"}


def test_samples_and_plain_settings_run_nothing(root: Path) -> None:
    git("init", "-q", ".", cwd=root)
    (root / ".git/hooks").mkdir(exist_ok=True)
    (root / ".git/hooks/pre-push.sample").write_text(HOOK)
    git("remote", "add", "origin", "https://example.org/x.git", cwd=root)
    git("config", "user.name", "me", cwd=root)
    assert look(root).items == {}


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tpager = evil\n",
        "[core] pager = evil\n",
        "[alias]\n\tst = !evil\n",
        "[user]\n\tname = a\\\n[core]\n\tfsmonitor = evil\n[core]\n\tsshCommand = evil\n",
        '[remote "o"]\n\turl = ext::evil\n',
        '[remote "o"]\n\turl = --upload-pack=evil\n',
        '[includeIf "gitdir:/"]\n\tpath = evil\n',
        '[filter "x"]\n\tclean = evil\n',
        "[core]\n\tworktree = /\n",
        "no settings at all\n",
        "[core\n",
    ],
)
def test_settings_that_run_something_are_items(text: str, root: Path) -> None:
    git("init", "-q", ".", cwd=root)
    (root / ".git/config").write_text(text)
    assert rel(look(root).items, root) == {".git/config"}


def test_values_are_read_as_git_reads_them() -> None:
    text = '[a "B\\"c"] key="x ; y" # z\n\tother = a\\\nb  c  \n; d\n[core]hooksPath=q;\n\tbare\n'
    assert parse(text).entries == (
        ('a.B"c.key', "x ; y"), ('a.B"c.other', "ab  c"), ("core.hookspath", "q"), ("core.bare", "true"),
    )  # fmt: skip


# ------------------------------------------------------------------ places


@pytest.mark.parametrize(
    "name",
    [
        ".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", "deep/er/.VSCode/tasks.json", ".mcp.json",
        ".envrc", "x.code-workspace", ".cursor/mcp.json", "a/.zed/tasks.json", ".nvim.lua", "mise.toml",
        ".kiro/hooks/x",
        ".husky/pre-commit", "dist/.idea/x.xml", ".adderclaw/config.toml", ".codex/config.toml",
        "odd\nname/.envrc",
    ],
)  # fmt: skip
def test_places_are_found_and_a_change_of_them_is_seen(name: str, root: Path) -> None:
    path = root / name
    path.parent.mkdir(parents=True) if path.parent != root else None
    path.write_text("a")
    surveyor = Surveyor()
    first = surveyor.survey([str(root)])
    assert rel(first.items, root) == {name}
    assert len(first.places) == 1
    path.write_text("b")
    second = surveyor.survey([str(root)])
    assert first.items.keys() == second.items.keys()
    assert first.items != second.items
    path.chmod(0o755)
    assert surveyor.survey([str(root)]).items != second.items
    path.unlink()
    assert surveyor.survey([str(root)]).items == {}


def test_other_peoples_settings_in_installed_packages_are_left_alone(root: Path) -> None:
    for name in ("node_modules/x/.github/workflows", "node_modules/x/.vscode", ".venv/lib/site-packages/x/.vscode"):
        (root / name).mkdir(parents=True)
        (root / name / "a.json").write_text("{}")
    assert look(root).items == {}


# ------------------------------------------------------------------ installed trees


def evil(folder: Path) -> str:
    """A git directory with a hook; the item that it is."""
    with_hook(bare(folder) / "hooks")
    return f"{folder}/hooks/pre-commit"


def large(root: Path) -> Path:
    """An installed tree with more than each look goes into, deep folders in its last package."""
    for number in range(MOST_INSTALLED // 10):
        for inner in range(11):
            (root / f"node_modules/a{number:04}/lib/x/{inner}").mkdir(parents=True)
    return root / "node_modules"


@pytest.mark.parametrize("place", ["node_modules/p/lib/a/b/c/.git", ".venv/lib/python3/site-packages/x/y/z/bare"])
def test_what_is_made_deep_in_a_small_installed_tree_is_found(place: str, root: Path) -> None:
    (root / place).parent.mkdir(parents=True)
    surveyor = Surveyor()
    assert surveyor.survey([str(root)]).items == {}
    item = evil(root / place)
    for _ in range(2):
        found = surveyor.survey([str(root)])
        assert item in found.items
        assert str(root / place) in found.gits


def test_in_a_large_installed_tree_what_came_or_changed_is_looked_at_whole(root: Path) -> None:
    tree = large(root)
    surveyor = Surveyor()
    first = surveyor.survey([str(root)])
    assert first.items == {}
    assert first.folders < MOST_INSTALLED * 1.5
    items = {
        evil(tree / "new/lib/x/y/z/.git"),
        evil(tree / "a0000/lib/more/deep/er/bare"),
        evil(tree / "@scope/package/lib/x/.git"),
        evil(tree / "a0199/lib/x/.git"),
        evil(tree / "a0198/lib/x/new/deep/.git"),
    }
    (tree / "a0197/lib/x").rename(root / "away")
    (tree / "a0197/lib").mkdir(exist_ok=True)
    items.add(evil(tree / "a0197/lib/x/10/.git"))
    for _ in range(3):
        assert {*surveyor.survey([str(root)]).items} == items


def test_a_large_tree_that_is_installed_meanwhile_is_looked_at_whole_once(root: Path) -> None:
    surveyor = Surveyor()
    surveyor.survey([str(root)])
    tree = large(root)
    item = evil(tree / "a0150/lib/x/3/.git")
    counts = [surveyor.survey([str(root)]) for _ in range(3)]
    assert all({*one.items} == {item} for one in counts)
    assert counts[0].folders > MOST_INSTALLED


def test_a_link_in_such_a_place_counts_with_what_it_leads_to(root: Path) -> None:
    (root / "hooks").mkdir()
    (root / "hooks/x").write_text("a")
    (root / ".lefthook.yml").symlink_to("hooks/x")
    found = look(root)
    assert rel(found.items, root) == {".lefthook.yml", "hooks/x"}
    assert rel(found.places, root) == {"hooks/x"}


def test_what_cannot_be_read_or_is_no_file_is_an_item_too(root: Path) -> None:
    os.mkfifo(root / ".envrc")
    (root / ".vscode").mkdir()
    (root / ".vscode/link").symlink_to("/etc/passwd")
    (root / ".idea").mkdir()
    found = look(root)
    assert rel(found.items, root) == {".envrc", ".vscode/link"}
    assert rel(found.places, root) == {".envrc", ".vscode", ".idea"}


def test_a_deep_workspace_is_not_whole_and_costs_no_more_descriptors(root: Path) -> None:
    fd = os.open(root, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    assert not look(root).is_whole


def test_every_name_is_in_small_letters_and_known_once() -> None:
    known = names()
    assert {".git", ".adderclaw"} <= known.denied <= known.single
    assert all(name == name.casefold() and "/" not in name for name in known.single)
    assert known.found(["a", ".github", "workflows", "x"]) == ".github/workflows"
    assert known.found(["a", ".github", "other"]) is None
    assert known.is_denied([".git", "hooks"]) == ".git"
    assert known.is_denied([".vscode", "x"]) is None
