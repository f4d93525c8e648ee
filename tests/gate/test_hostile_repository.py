"""A repository whose own configuration and attributes name programs, a real git, and the real sandbox."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from adderclaw import gate
from adderclaw.config.schema import Config, Security
from adderclaw.gate.case import Case, Decision
from adderclaw.sandbox import confinement, process
from adderclaw.sandbox.bubblewrap import Room
from adderclaw.tools import repository, shell
from adderclaw.tools.shell import BashArguments
from adderclaw.types import ToolContext, Workspace

NEUTRAL = {
    # Settings that what we hand to git takes the effect of: the commands are allowed, and nothing of them runs.
    "core.fsmonitor": "{evil}",
    "core.hooksPath": "{hooks}",
    "core.pager": "{evil}",
    "pager.log": "{evil}",
    "pager.status": "{evil}",
    "core.editor": "{evil}",
    "sequence.editor": "{evil}",
    "core.sshCommand": "{evil}",
    "core.askPass": "{evil}",
    "credential.helper": "!{evil}",
    "gpg.program": "{evil}",
    "gpg.openpgp.program": "{evil}",
    "commit.gpgSign": "true",
    "tag.gpgSign": "true",
    "log.showSignature": "true",
    "alias.st": "!{evil}",
    "alias.status": "!{evil}",
    "protocol.ext.allow": "always",
    "init.templateDir": "{hooks}",
}
NAMED = {
    # Settings that nothing takes the effect of: a git that could come upon them is high risk.
    "filter.x.clean": "{evil}",
    "filter.x.smudge": "{evil}",
    "filter.x.process": "{evil}",
    "diff.external": "{evil}",
    "diff.x.command": "{evil}",
    "diff.x.textconv": "{evil}",
    "merge.x.driver": "{evil} %O %A %B",
    "core.worktree": "/",
    "include.path": "../other",
    "includeIf.gitdir:/.path": "../other",
    "trailer.x.command": "{evil}",
    "trailer.x.cmd": "{evil}",
    "tar.tar.gz.command": "{evil}",
}
REMOTE = {
    "remote.origin.uploadpack": "{evil}",
    "remote.origin.receivepack": "{evil}",
    "remote.origin.vcs": "ext",
    "remote.origin.url": "ext::{evil}",
    "url.ext::x.insteadOf": "https://",
    "core.gitProxy": "{evil}",
    "submodule.x.update": "!{evil}",
}
READING = (
    "git status",
    "git status --short",
    "git diff",
    "git diff --cached",
    "git diff HEAD~1",
    "git log -p -2",
    "git log --stat",
    "git show",
    "git show --stat HEAD",
    "git blame a.txt",
    "git stash list",
    "git grep one",
    "git branch -a",
    "git ls-files",
    "git describe --always",
    "git shortlog -sn HEAD",
    "git cat-file -p HEAD",
)
WRITING = (
    "git add -A",
    "git commit -m more",
    "git checkout -b other",
    "git stash",
    "git stash pop",
    "git merge side",
    "git rebase side",
    "git cherry-pick side",
    "git reset --soft HEAD~1",
    "git tag -a v1 -m v1",
    "git worktree add wt",
    "git format-patch -1",
    "git gc",
)


class Hostile:
    def __init__(self, top: Path) -> None:
        self.root, self.mark = top / "ws", top / "ws" / "ran"
        self.root.mkdir()
        self.hooks = self.root / "hooks"
        self.hooks.mkdir()
        self.evil = self.root / "evil.sh"
        self._program(self.evil)
        for name in (
            "pre-commit",
            "post-commit",
            "post-checkout",
            "post-merge",
            "commit-msg",
            "pre-rebase",
            "post-index-change",
        ):
            self._program(self.hooks / name)
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "n")
        self.git("config", "user.email", "e@example.org")
        (self.root / ".gitattributes").write_text("*.txt filter=x diff=x merge=x\n")
        for text in ("one\n", "one\ntwo\n"):
            (self.root / "a.txt").write_text(text)
            self.git("add", "-A")
            self.git("commit", "-q", "-m", text)
        self.git("branch", "side", "HEAD~1")
        (self.root / "a.txt").write_text("one\ntwo\nthree\n")
        for name in os.listdir(self.hooks):
            self._program(self.root / ".git/hooks" / name)
        self.config = self.root / ".git/config"
        self.plain = self.config.read_text()

    def _program(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {self.mark}\ncat 2>/dev/null\n")
        path.chmod(0o755)

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True)

    def configure(self, settings: dict[str, str]) -> None:
        self.config.write_text(self.plain)
        for key, value in settings.items():
            self.git("config", "--local", "--add", key, value.format(evil=self.evil, hooks=self.hooks))
        self.mark.unlink(missing_ok=True)

    def judge(self, command: str) -> Decision:
        config = Config(security=Security(autonomy="supervised"))
        policy = gate.policy_of(config, str(self.root), str(self.root.parent / "home"))
        context = ToolContext("c", "s", Workspace(str(self.root)))
        touch = shell.touch(BashArguments(command=command), context)
        return gate.judge(Case("Bash", "Bash", {"command": command}, touch, policy))

    def run(self, command: str, start: process.Start | None = None) -> None:
        context = ToolContext("c", "s", Workspace(str(self.root)))
        asyncio.run(shell.run(BashArguments(command=command), context, shell.Means(start)))


@pytest.fixture
def hostile(tmp_path: Path, needs: Callable[[str], str]) -> Hostile:
    needs("git")
    return Hostile(tmp_path)


@pytest.fixture(params=("bare", "bubblewrap"))
def start(request: pytest.FixtureRequest, hostile: Hostile) -> Generator[process.Start | None]:
    if request.param == "bare":
        yield None
        return
    if why := confinement.trial(request.param):
        pytest.skip(why)
    box = confinement.box(request.param, Room((str(hostile.root),), ()))
    try:
        yield box.start
    finally:
        box.close()


def test_what_runs_is_what_was_judged(hostile: Hostile, start: process.Start | None) -> None:
    """Every command that the gate takes, in a repository with all that can be neutralised, runs nothing of it."""
    hostile.configure(NEUTRAL)
    for command in (*READING, *WRITING):
        assert hostile.judge(command).verdict == "ask", command
        hostile.run(command, start)
        assert not hostile.mark.exists(), command


@pytest.mark.parametrize("key", NAMED)
def test_a_program_that_the_repository_names_is_high_risk(hostile: Hostile, key: str) -> None:
    hostile.configure({key: NAMED[key]})
    for command in ("git status", "git diff", "git add -A", "git checkout side", "cd hooks && git log -p"):
        decision = hostile.judge(command)
        assert (decision.verdict, decision.risk) == ("deny", "high"), command
        assert key.split(".")[0] in decision.reason
    assert hostile.judge("git config --list").verdict == "ask"
    assert hostile.judge("git --version").verdict == "ask"


@pytest.mark.parametrize("key", REMOTE)
def test_what_sends_git_elsewhere_counts_where_git_reaches(hostile: Hostile, key: str) -> None:
    hostile.configure({key: REMOTE[key]})
    for command in ("git fetch", "git pull", "git ls-remote origin"):
        assert hostile.judge(command).verdict == "deny", command
    assert hostile.judge("git status").verdict == "ask"


def test_large_file_storage_is_known(hostile: Hostile) -> None:
    hostile.configure({"filter.lfs.clean": "git-lfs clean -- %f", "filter.lfs.process": "git-lfs filter-process"})
    assert hostile.judge("git status").verdict == "ask"
    hostile.configure({"filter.lfs.clean": "git-lfs clean -- %f; id"})
    assert hostile.judge("git status").verdict == "deny"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[filter "x"]\n\tclean = evil\n', True),
        ('[FILTER "x"] CLEAN = evil\n', True),
        ("[filter.x]\nclean=evil", True),
        ('[filter "x"]\n\tcl\\\nean = evil\n', False),
        ('[filter "x"]\n\tclean = "a\\\nb"\n', True),
        ('\ufeff[filter "x"]\nclean = evil\n', True),
        ('[core]\n\teditor = vim ; [filter "x"]\n', False),
        ("# [filter]\n", False),
        ("[include]path=x", True),
        ('[merge "a\\"b"]\r\n driver = x\r\n', True),
        ("[diff]\nexternal", True),
        ("not a file of git", False),
    ],
)
def test_configuration_is_read_as_git_reads_it(tmp_path: Path, text: str, found: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text(text)
    assert bool(repository.helpers((str(tmp_path),))) == found


def test_a_worktree_and_a_submodule_lead_to_their_repository(hostile: Hostile) -> None:
    hostile.git("worktree", "add", "-q", "wt", "side")
    hostile.configure({"diff.external": "{evil}"})
    assert hostile.judge("cd wt && git diff").verdict == "deny"
    assert hostile.judge("git -C wt diff").verdict == "deny"


def test_a_shell_inside_of_the_command_gets_text_of_ours(hostile: Hostile) -> None:
    """What `bash -c` is given is written from its plan: git in it has the same options as git outside of it."""
    hostile.configure({"diff.external": "{evil}"})
    assert hostile.judge("bash -c 'git diff HEAD; git log -p'").verdict == "deny"
    hostile.run("bash -c 'git diff HEAD; git log -p'")
    assert not hostile.mark.exists()
    subprocess.run(["git", "diff", "HEAD"], cwd=hostile.root, check=True, capture_output=True)
    assert hostile.mark.exists(), "a git without these options runs it"
