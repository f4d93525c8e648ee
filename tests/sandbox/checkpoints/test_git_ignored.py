"""What git ignores, compared with what git itself says of the same tree."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.sandbox.legacy.checkpoints.git_ignored import ignored
from adderclaw.sandbox.legacy.checkpoints.tree import Forgets, Limits, scan
from adderclaw.storage.checkpoints import State

NAMES = """
a.log keep.log sub/b.log sub/deep/c.log build/out.txt sub/build/x.txt doc/build.txt secret/a secret/b/c
sub/secret/a tmp1/x tmpa/x foo/bar/baz foo/x/y/baz logs/x.txt logs/keep/me.txt [x].txt x.txt q/1.md q/22.md
sub/only.txt only.txt star/a/b/c #hash !bang tracked.log with\u00e4.log
"""
RULES = {
    ".gitignore": "# comment\n*.log\n!keep.log\nbuild/\n/secret\ntmp[0-9]\nfoo/**/baz\nlogs/*\n!logs/keep/\n"
    "\\[x].txt\nq/?.md\nstar/**\n\\#hash\n\\!bang\n",
    "sub/.gitignore": "!b.log\n/only.txt\n",
    ".git/info/exclude": "x.txt\n",
}


def states(root: Path) -> dict[str, State]:
    found = scan(str(root), {}, Limits(10_000, 1 << 20, 1 << 30), Forgets())
    return {path: seen.state for path, seen in found.now.items()}


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.parametrize("version", [2, 4])
def test_the_same_files_as_git_says(tmp_path: Path, needs: Callable[[str], str], version: int) -> None:
    needs("git")
    git(tmp_path, "init", "-q")
    for name in NAMES.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for name, text in RULES.items():
        (tmp_path / name).write_text(text)
    git(tmp_path, "add", "-f", "tracked.log", "sub", "build/out.txt")
    git(tmp_path, "rm", "-q", "--cached", "sub/only.txt", "sub/deep/c.log")
    git(tmp_path, "update-index", "--index-version", str(version))
    said = git(tmp_path, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
    found = ignored(str(tmp_path), states(tmp_path))
    assert {path for path in found if not (tmp_path / path).is_dir()} == set(filter(None, said.split("\0")))


def test_what_counts_although_a_rule_names_it(tmp_path: Path, needs: Callable[[str], str]) -> None:
    """A program that was built, every file where there is no repository, and where its index cannot be read."""
    needs("git")
    (tmp_path / ".gitignore").write_text("*\n")
    for name in ("tool", "data"):
        (tmp_path / name).write_text("x")
    (tmp_path / "tool").chmod(0o755)
    assert ignored(str(tmp_path), states(tmp_path)) == frozenset()
    git(tmp_path, "init", "-q")
    assert ignored(str(tmp_path), states(tmp_path)) == {".gitignore", "data"}
    (tmp_path / ".git" / "index").write_bytes(b"DIRC\0\0\0\x09\0\0\0\1")
    assert ignored(str(tmp_path), states(tmp_path)) == frozenset()
