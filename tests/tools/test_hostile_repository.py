"""A repository whose own configuration and attributes name programs, a real git, and the real sandbox."""

import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from adderclaw.core.host import ToolContext
from adderclaw.core.types import Workspace
from adderclaw.sandbox import confinement, process
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.tools import shell
from adderclaw.tools.shell import BashArguments
from tests.tools.conftest import result_of
from tests.trial import why_not

SETTINGS = {
    "core.fsmonitor": "{evil}",
    "core.hooksPath": "{hooks}",
    "core.pager": "{evil}",
    "pager.log": "{evil}",
    "pager.status": "{evil}",
    "core.editor": "{evil}",
    "sequence.editor": "{evil}",
    "core.sshCommand": "{evil}",
    "core.askPass": "{evil}",
    "core.alternateRefsCommand": "{evil}",
    "credential.helper": "!{evil}",
    "credential.https://example.org.helper": "!{evil}",
    "gpg.program": "{evil}",
    "gpg.openpgp.program": "{evil}",
    "gpg.ssh.defaultKeyCommand": "{evil}",
    "commit.gpgSign": "true",
    "tag.gpgSign": "true",
    "log.showSignature": "true",
    "alias.st": "!{evil}",
    "alias.status": "!{evil}",
    "protocol.ext.allow": "always",
    "init.templateDir": "{hooks}",
    "filter.x.clean": "{evil}",
    "filter.x.smudge": "sh {evil}",
    "filter.y.process": "{evil}",
    "filter.lfs.clean": "{evil}",
    "filter.lfs.smudge": "{evil}",
    "diff.external": "{evil}",
    "diff.x.command": "{evil}",
    "diff.y.textconv": "{evil}",
    "diff.z.textconv": "sh",
    "merge.x.driver": "sh {evil} %O %A %B",
    "merge.default": "x",
    "interactive.diffFilter": "{evil}",
    "trailer.x.command": "{evil}",
    "trailer.x.cmd": "{evil}",
    "trailer.x.key": "X-Ran",
    "tar.tar.gz.command": "{evil}",
    "man.viewer": "x",
    "man.x.cmd": "{evil}",
    "browser.x.cmd": "{evil}",
    "web.browser": "x",
    "help.format": "web",
    "mergetool.x.cmd": "{evil}",
    "merge.tool": "x",
    "uploadpack.packObjectsHook": "{evil}",
    "hook.x.command": "{evil}",
    "hook.x.event": "pre-commit",
    "remote.local.url": "other",
    "remote.local.fetch": "+refs/heads/*:refs/remotes/local/*",
    "remote.ext.url": "ext::sh {evil}",
    "url.ext::sh {evil} .insteadOf": "rewritten:",
    "core.gitProxy": "{evil}",
    "submodule.x.update": "!sh {evil}",
    "submodule.x.url": "./other",
    "submodule.x.active": "true",
}
"""All at once; {evil} leaves a mark when it runs."""
REFUSED = {
    "include.path": "../other.config",
    "includeIf.onbranch:side.path": "../other.config",
    "remote.origin.vcs": "ext",
    "remote.origin.uploadpack": "sh {evil}",
    "remote.origin.receivepack": "sh {evil}",
    "lfs.extension.x.clean": "{evil}",
    "lfs.customtransfer.x.path": "{evil}",
    "lfs.standalonetransferagent": "x",
    "gc.recentObjectsHook": "{evil}",
}
"""What nothing takes the effect of: git is not run, and it is said why."""
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
    "git checkout side",
    "git checkout main",
    "git fetch local",
    "git pull local main",
    "git fetch ext",
    "git fetch rewritten:x",
    "git ls-remote local",
    "git submodule update",
    "git archive --format=tar.gz -o x.tar.gz HEAD",
    "git bisect start",
    "git bisect reset",
    "timeout 20 git status",
    "env A=1 git diff HEAD",
    "nice -n 5 timeout 20 git add -A",
    "bash -c 'git diff HEAD; git log -p; git status'",
    "git diff | cat",
    'echo "$(git diff HEAD)"',
)


class Hostile:
    def __init__(self, top: Path, *, confined: bool) -> None:
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
            *(("reference-transaction",) if confined else ()),
        ):
            self._program(self.hooks / name)
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "n")
        self.git("config", "user.email", "e@example.org")
        (self.root / ".gitattributes").write_text(
            "*.txt filter=x diff=x merge=x\n*.md filter=y diff=y\n*.c diff=z filter=lfs\n"
        )
        for text in ("one\n", "one\ntwo\n"):
            for name in ("a.txt", "b.md", "c.c"):
                (self.root / name).write_text(text)
            self.git("add", "-A")
            self.git("commit", "-q", "-m", text)
        self.git("branch", "side", "HEAD~1")
        for name in ("a.txt", "b.md"):
            (self.root / name).write_text("one\ntwo\nthree\n")
        # Its text is a program, for whatever takes it for one.
        (self.root / "c.c").write_text(f"touch {self.mark}\n")
        self.git("clone", "-q", "--bare", ".", "other")
        for name in os.listdir(self.hooks):
            self._program(self.root / ".git/hooks" / name)
        self.config = self.root / ".git/config"
        self.plain = self.config.read_text()

    def _program(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {self.mark}\ncat 2>/dev/null\n")
        path.chmod(0o755)

    def git(self, *words: str) -> None:
        # Without the system's own settings, which may be git-lfs's.
        env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1"}
        argv = ["git", "-c", "core.hooksPath=/dev/null", *words]
        subprocess.run(argv, cwd=self.root, check=True, capture_output=True, env=env)

    def configure(self, settings: dict[str, str]) -> None:
        self.config.write_text(self.plain)
        for key, value in settings.items():
            self.git("config", "--local", "--add", key, value.format(evil=self.evil, hooks=self.hooks))
        self.mark.unlink(missing_ok=True)

    def run(self, command: str, start: process.Starter | None = None) -> str:
        context = ToolContext("c", "s", Workspace(str(self.root)))
        arguments, means = BashArguments(command=command), shell.CommandSetup(start)
        return result_of(shell.prepare(arguments, context, means)).content


@pytest.fixture(params=("bare", "bubblewrap"))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def hostile(tmp_path: Path, kind: str, needs: Callable[[str], str]) -> Hostile:
    needs("git")
    return Hostile(tmp_path, confined=kind != "bare")


@pytest.fixture
def start(kind: str, hostile: Hostile) -> Generator[process.Starter | None]:
    if kind == "bare":
        yield None
        return
    if why := why_not(kind):
        pytest.skip(why)
    box = confinement.create_box(kind, SandboxSpec((str(hostile.root),), ()))
    try:
        yield box.start
    finally:
        box.close()


def test_git_runs_no_program_that_a_repository_names(hostile: Hostile, start: process.Starter | None) -> None:
    """Every way at once, and each command that we know."""
    hostile.configure(SETTINGS)
    for command in (*READING, *WRITING):
        seen = hostile.run(command, start)
        assert not hostile.mark.exists(), f"{command}: {seen}"
    log = hostile.run("git log --format=%s", start)
    assert "more" in log, "the commit was made"


@pytest.mark.parametrize("key", ["filter.x.clean", "diff.external", "merge.x.driver", "core.fsmonitor"])
def test_without_us_it_would_run(key: str, tmp_path: Path) -> None:
    """That the mark is left at all: the test above could not fail otherwise."""
    hostile = Hostile(tmp_path, confined=False)
    hostile.configure({key: SETTINGS[key]})
    for words in (("diff",), ("stash",), ("merge", "side"), ("add", "-A"), ("cherry-pick", "side")):
        subprocess.run(["git", *words], cwd=hostile.root, check=False, capture_output=True)
    if key == "merge.x.driver":
        hostile.git("checkout", "-qf", "side")
        (hostile.root / "a.txt").write_text("another\n")
        hostile.git("commit", "-qam", "another")
        subprocess.run(["git", "merge", "main"], cwd=hostile.root, check=False, capture_output=True)
    assert hostile.mark.exists()


@pytest.mark.parametrize("key", REFUSED)
@pytest.mark.parametrize("kind", ["bubblewrap"], indirect=True)
def test_what_cannot_be_taken_away_is_named(key: str, hostile: Hostile, start: process.Starter | None) -> None:
    hostile.configure({key: REFUSED[key]})
    (hostile.root / "other.config").write_text(f'[filter "x"]\nclean = {hostile.evil}\n')
    seen = hostile.run("git commit --allow-empty -m x", start)
    assert "git was not run" in seen
    assert key.casefold() in seen.casefold()
    hostile.run("git checkout side", start)
    assert (hostile.root / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    assert not hostile.mark.exists()


@pytest.mark.parametrize("kind", ["bubblewrap"], indirect=True)
def test_a_submodules_own_settings_count(hostile: Hostile, start: process.Starter | None) -> None:
    """`git status` and `git commit` call git in there, which reads what is set there."""
    hostile.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(hostile.root / "other"), "sub/odd/name"
    )
    hostile.git("commit", "-qm", "with a submodule")
    sub = hostile.root / "sub/odd/name"
    (sub / ".gitattributes").write_text("* filter=inner\n")
    subprocess.run(["git", "config", "filter.inner.clean", f"sh {hostile.evil}"], cwd=sub, check=True)
    text = (sub / "a.txt").read_text()  # with another length git would know it for changed without asking the filter
    (sub / "a.txt").write_text(text.swapcase())
    hostile.mark.unlink(missing_ok=True)
    for command in ("git commit --allow-empty -m x", "git add sub", "git stash", "git checkout side"):
        seen = hostile.run(command, start)
        assert not hostile.mark.exists(), f"{command}: {seen}"
    hostile.git("checkout", "-qf", "main")
    (sub / "a.txt").write_text(text.upper())
    hostile.git("status")
    assert hostile.mark.exists(), "the user's own git runs it"


@pytest.mark.parametrize(
    "command",
    [
        "git config filter.x.clean 'sh {evil}' && git add -A",
        "git config filter.x.clean 'sh {evil}'; git stash",
        "cd /tmp/away && git add -A",
        "git -C /tmp/away add -A",
    ],
)
@pytest.mark.parametrize("kind", ["bubblewrap"], indirect=True)
def test_what_was_known_before_the_call_counts_for_nothing_else(
    command: str, hostile: Hostile, start: process.Starter | None
) -> None:
    """A plain repository, and in the same call settings that are new, or a repository that no look has found."""
    hostile.configure({})
    assert "git was not run" not in hostile.run("git add -A", start)
    (hostile.root / "make.sh").write_text(
        f"git init -q /tmp/away; git -C /tmp/away config filter.x.clean 'sh {hostile.evil}'\n"
        "echo '* filter=x' > /tmp/away/.gitattributes; echo x > /tmp/away/file\n"
    )
    hostile.run("bash make.sh", start)
    (hostile.root / "a.txt").write_text("changed\n")
    hostile.mark.unlink(missing_ok=True)
    seen = hostile.run(command.format(evil=hostile.evil), start)
    assert not hostile.mark.exists(), seen


@pytest.mark.parametrize("kind", ["bubblewrap"], indirect=True)
def test_a_negated_git_and_what_follows_it_go_on(hostile: Hostile, start: process.Starter | None) -> None:
    hostile.configure({})
    assert "Exit code 1" in hostile.run("! git status", start)
    assert hostile.run("git rev-parse --is-inside-work-tree && echo after", start).split() == ["true", "after"]
    assert "Exit code 128" in hostile.run("git show nothing", start)


@pytest.mark.parametrize("name", ["plain", "a\nb", "back\\slash", "dist/deep/er/still"])
@pytest.mark.parametrize("kind", ["bubblewrap"], indirect=True)
def test_so_do_those_of_a_repository_within(name: str, hostile: Hostile, start: process.Starter | None) -> None:
    """A folder with a `.git` of its own that was added to the index: git calls git in there, too."""
    inner = hostile.root / name
    inner.mkdir(parents=True)
    for words in (("init", "-q"), ("config", "filter.inner.clean", f"sh {hostile.evil}"), ("add", "-A")):
        subprocess.run(["git", *words], cwd=inner, check=True, capture_output=True)
        (inner / "x").write_text("x")
    who = ("-c", "user.name=n", "-c", "user.email=e")
    subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=inner, check=True, capture_output=True)
    (inner / ".gitattributes").write_text("* filter=inner\n")
    hostile.git("add", name)
    (inner / "x").write_text("y")
    hostile.mark.unlink(missing_ok=True)
    for command in ("git commit -m x", "git stash", "git checkout side"):
        seen = hostile.run(command, start)
        assert not hostile.mark.exists(), f"{command}: {seen}"
    hostile.git("checkout", "--quiet", "--force", "main")  # where git-lfs changed c.c, git stayed there
    hostile.git("status")
    assert hostile.mark.exists(), "the user's own git runs it"


@pytest.mark.parametrize("kind", ["bubblewrap"], indirect=True)
def test_content_that_must_be_filtered_is_not_stored_without(hostile: Hostile, start: process.Starter | None) -> None:
    hostile.configure({"filter.x.clean": "{evil}", "filter.x.required": "true"})
    seen = hostile.run("git add a.txt", start)
    assert "clean filter 'x' failed" in seen
    assert "filters not run: x" in seen
    hostile.configure({"filter.x.clean": "{evil}"})
    assert "filters not run: x" in hostile.run("git add a.txt", start)


def test_a_merge_with_a_driver_of_the_repository_is_gits_own(hostile: Hostile, start: process.Starter | None) -> None:
    (hostile.root / ".git/info/attributes").write_text("*.c !filter\n")
    hostile.git("checkout", "-qf", "side")
    (hostile.root / "a.txt").write_text("zero\none\n")
    hostile.git("commit", "-qam", "zero")
    hostile.configure(SETTINGS)
    hostile.git("config", "user.name", "n")
    seen = hostile.run("git merge -m merged main", start)
    assert "conflict" in seen.lower() or (hostile.root / "a.txt").read_text() == "zero\none\ntwo\n", seen
    assert not hostile.mark.exists()
