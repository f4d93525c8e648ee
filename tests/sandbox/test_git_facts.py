"""What a look at the workspace says of git's settings, so that git needs no other process: real git, real folders."""

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.sandbox import git_facts
from adderclaw.sandbox.legacy.survey import Surveyor
from adderclaw.sandbox.workspace import gitconfig

ENV = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def git(place: Path, *words: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *words], cwd=place, check=True, capture_output=True, env=ENV)


@pytest.fixture
def root(tmp_path: Path, needs: Callable[[str], str]) -> Path:
    needs("git")
    place = Path(os.path.realpath(tmp_path)) / "ws"
    place.mkdir()
    git(place, "init", "-q")
    (place / "sub").mkdir()
    (place / "sub" / "a").write_text("a\n")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "x")
    return place


def told(root: Path, cwd: str = ".") -> dict[str, str]:
    return git_facts.git_environment(Surveyor().survey([str(root)]), str(root / cwd), [str(root)])


def test_a_plain_repository_is_known(root: Path) -> None:
    assert told(root) == {"ADDERCLAW_PLAIN": "yes", "ADDERCLAW_HOOKS": ""}
    assert told(root, "sub") == told(root)
    git(root, "worktree", "add", "-q", "trees/one")
    git(root, "config", "core.hooksPath", ".husky")
    git(root, "config", "filter.lfs.clean", "anything")
    git(root, "config", "core.fsmonitor", "anything")
    assert told(root, "trees/one")["ADDERCLAW_PLAIN"] == "yes", "what is overridden in any case needs no look"
    git(root, "config", "user.email", "e@example.org")
    assert told(root)["ADDERCLAW_PLAIN"] == "named"


@pytest.mark.parametrize(
    "key",
    [
        "filter.x.clean",
        "diff.external",
        "diff.x.textconv",
        "merge.x.driver",
        "include.path",
        "includeIf.onbranch:main.path",
        "gc.recentObjectsHook",
        "remote.origin.uploadpack",
        "http.proxy",
        "pager.status",
        "unheard.of",
    ],
)
def test_any_other_setting_is_looked_at(key: str, root: Path) -> None:
    """Of this repository, and of any other in the workspace."""
    git(root, "config", key, "x")
    assert told(root) == {"ADDERCLAW_PLAIN": ""}
    git(root, "config", "--unset", key)
    assert told(root)["ADDERCLAW_PLAIN"] == "yes"
    inner = root / "dist" / "deep" / "inner"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    git(inner, "config", key, "x")
    assert told(root) == {"ADDERCLAW_PLAIN": ""}


def evil(root: Path) -> Path:
    """A repository beside the workspace, whose settings name a program."""
    other = root.parent / "evil"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "config", "filter.x.clean", "sh evil.sh")
    return other


def test_what_leads_out_of_the_workspace_is_not_known(root: Path) -> None:
    other = evil(root)
    (root / "out").symlink_to(other)
    assert told(root)["ADDERCLAW_PLAIN"] == "yes"
    assert told(root, "out") == {"ADDERCLAW_PLAIN": ""}, "git would run over there"
    (root / "sub" / ".git").write_text(f"gitdir: {other}/.git\n")
    assert told(root, "sub") == {"ADDERCLAW_PLAIN": ""}


@pytest.mark.parametrize("text", ["gitdir:  x\n", "gitdir: a\nb\n", "gitdir: x \n"])
def test_a_pointer_that_git_reads_otherwise_is_not_known(text: str, root: Path) -> None:
    git(root, "init", "-q", "x")
    git(root, "init", "-q", "a")
    assert told(root)["ADDERCLAW_PLAIN"] == "yes"
    (root / "sub" / ".git").write_text(text)
    assert told(root) == {"ADDERCLAW_PLAIN": ""}


def test_a_git_directory_or_settings_behind_a_link_are_not_known(root: Path) -> None:
    (root / ".git" / "config").rename(root / "settings")
    (root / ".git" / "config").symlink_to("../settings")
    assert told(root) == {"ADDERCLAW_PLAIN": ""}


@pytest.mark.parametrize("place", ["node_modules/a/b/c/d", ".git/objects/inner", "nowhere"])
def test_a_repository_that_no_look_finds_is_not_known(place: str, root: Path) -> None:
    if place == "nowhere":
        (root / ".git").rename(root / "moved")
        assert told(root) == {"ADDERCLAW_PLAIN": ""}, "git looks further up"
        return
    (root / place).mkdir(parents=True)
    git(root / place, "init", "-q")
    assert told(root, place) == {"ADDERCLAW_PLAIN": ""}


def test_hooks_are_named(root: Path) -> None:
    (root / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    assert told(root)["ADDERCLAW_HOOKS"] == "pre-commit"
    (root / ".git" / "hooks").rename(root / "hooks-of-ours")
    (root / ".git" / "hooks").symlink_to("../hooks-of-ours")
    assert "*" in told(root)["ADDERCLAW_HOOKS"].split()


WORDS = [
    *("[core]", "[Core]", '[filter "x"]', "[filter.x]", '[core "\\"]', '[gc "a]"]', "[user]", "[color", "]"),
    *("clean", "bare", "name", "diff", "=", " = ", "true", "sh x", '"', "\\", "\\\\", '\\"', "\\n"),
    *(
        "#",
        ";",
        " ",
        "\t",
        "\n",
        "\n",
        "\n",
        "\r\n",
        "\r",
        "\\\n",
        "\\\r\n",
        "\v",
        "\f",
        "\x85",
        "\u2028",
        "\ufeff",
        "\0",
    ),
]


def test_no_setting_that_git_reads_is_missed(root: Path) -> None:
    """Text by chance: where our reader finds nothing that runs a program, git reads nothing else, or refuses it."""
    chance, file, plain = random.Random(5), root / "settings", 0
    for _ in range(250):
        text = "[core]\n" + "".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 14)))
        found = gitconfig.parse(text)
        if not found.is_read or found.running:
            continue
        plain += 1
        file.write_bytes(text.encode())
        done = subprocess.run(
            ["git", "config", "--file", str(file), "--list", "-z"], capture_output=True, check=False, env=ENV
        )
        if done.returncode == 0:
            keys = {entry.split("\n")[0] for entry in done.stdout.decode().split("\0") if entry}
            assert keys <= {key for key, _ in found.entries}, repr(text)
    assert plain > 20
