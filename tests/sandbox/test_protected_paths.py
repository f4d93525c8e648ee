"""Git directories and what other programs run later: no other command changes what is there, the rest is reported."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from adderclaw.sandbox import confinement, process
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.process import Finished
from adderclaw.sandbox.protected_paths import Change
from tests.sandbox import escapes
from tests.sandbox.test_confinement import as_nobody
from tests.sandbox.test_process import wait_for
from tests.trial import why_not

FILES = {
    ".github/workflows/ci.yml": "on: push\n",
    ".gitlab-ci.yml": "job: {}\n",
    "Jenkinsfile": "pipeline {}\n",
    ".husky/pre-commit": "npm test\n",
    "web/.husky/pre-commit": "npm test\n",
    "sub/.git/config": "[core]\n\tbare = false\n",
    "sub/.git/hooks/pre-commit": "true\n",
    "sub/deep/a.txt": "alpha\n",
    "linked/hooks/x": "true\n",
}
LINKS = {".lefthook.yml": "linked/hooks/x"}


class Recorded:
    """Notes what is reported, by names within the workspace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.names: list[str] = []

    def record_first(self, items: Mapping[str, str], roots: Sequence[str]) -> Sequence[Change]:
        return ()

    def record_widened(self, items: Mapping[str, str], roots: Sequence[str]) -> None:
        raise AssertionError("no directory is added here")

    def record_changes(self, changes: Sequence[Change], items: Mapping[str, str]) -> None:
        assert all(items[change.path] == change.mark for change in changes)
        self.names += [f"{os.path.relpath(change.path, self._root)} {change.how}" for change in changes]

    def taken(self) -> list[str]:
        found, self.names = sorted(self.names), []
        return found


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    for name, target in LINKS.items():
        (folder / name).symlink_to(target)
    subprocess.run(["git", "init", "-q", folder], check=True, timeout=60)
    return folder


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def report(root: Path) -> Recorded:
    return Recorded(root)


def made(kind: str, root: Path, said: list[str], report: Recorded | None = None) -> Box:
    if why := why_not(kind):
        pytest.skip(f"{kind} does not start on this machine: {why}")
    return confinement.create_box(kind, SandboxSpec((str(root),)), tell=said.append, recorder=report)


@pytest.fixture(params=["bubblewrap", "landlock"])
def box(request: pytest.FixtureRequest, root: Path, said: list[str], report: Recorded) -> Generator[Box]:
    one = made(request.param, root, said, report)
    yield one
    one.close()


@pytest.fixture
def bubble(root: Path, said: list[str], report: Recorded) -> Generator[Box]:
    one = made("bubblewrap", root, said, report)
    yield one
    one.close()


async def as_git(text: str, box: Box, root: Path) -> Finished:
    """A command that counts as git alone, whatever it is."""
    argv = ["/bin/bash", "-c", text]
    start = process.in_view(box.start, "git")
    return await process.run(argv, cwd=str(root), env=process.environment(workspace_roots=()), timeout=60, start=start)


def is_as_it_was(root: Path) -> list[str]:
    """What is not."""
    wrong = [
        name for name, content in FILES.items() if not (root / name).is_file() or (root / name).read_text() != content
    ]
    new = ("sub/.git/hooks/post-merge", "sub/.git/config.worktree", "sub/.git/commondir", ".git/commondir")
    return wrong + [name for name in new if os.path.lexists(root / name)]


WRITES: dict[str, tuple[str, list[str]]] = {
    "CI settings": ("echo x >> .github/workflows/ci.yml", []),
    "a new file among them": ("touch .github/workflows/evil.yml", []),
    "by a rename over it": ("echo x > new; mv -f new .gitlab-ci.yml", []),
    "by another name for it": ("ln Jenkinsfile hard && echo x >> hard", []),
    "another folder in its place": (
        "mv .github/workflows w; mkdir .github/workflows; echo x > .github/workflows/a",
        [],
    ),
    "another folder above it": ("mv .github g; mkdir -p .github/workflows; echo x > .github/workflows/ci.yml", []),
    "removed and made anew": ("rm -rf .husky; mkdir .husky; echo x > .husky/pre-commit", []),
    "a folder above, further down": ("mv web w; mkdir -p web/.husky; echo x > web/.husky/pre-commit", []),
    "hooks of a repository beneath": ("echo x > sub/.git/hooks/post-merge; echo x > sub/.git/hooks/pre-commit", []),
    "its settings": ("git -C sub config core.pager evil; printf '[core]\\n\\tpager = x\\n' > sub/.git/config", []),
    "anything of it": ("echo x > sub/.git/new; touch .git/index; git add -A; git commit -qm x", []),
    "another repository in its place": ("mv sub/.git s; rm -rf sub/.git; mkdir sub/.git", []),
    "the whole folder in another's place": ("mv sub s; rm -rf sub/.git", []),
    "settings of another folder for it": ("mkdir e; cp sub/.git/config e; echo ../../e > sub/.git/commondir", []),
    "the same for the workspace's own": ("mkdir -p e; cp .git/config e; echo ../e > .git/commondir", []),
    "what a link leads to": ("echo x > linked/hooks/x", []),
    "unmounted": ("umount .husky; umount -l .git; mount -o remount,rw .husky; echo x > .husky/pre-commit", []),
    "git, called by another program": ("make -f <(printf 'a:\\n\\tgit -C sub config core.editor evil\\n') a", []),
    "mode and times": ("chmod 777 .husky/pre-commit && touch -d 2001-01-01 .husky/pre-commit", []),
    "another link": (
        "rm .lefthook.yml; ln -s sub/deep/a.txt .lefthook.yml",
        [".lefthook.yml changed", "sub/deep/a.txt new"],
    ),
    "a file in place of the link": ("rm .lefthook.yml; echo x > .lefthook.yml", [".lefthook.yml changed"]),
    "what is not there": (
        "mkdir .circleci; echo x > .circleci/config.yml; echo x > .travis.yml",
        [".circleci/config.yml new", ".travis.yml new"],
    ),
    "what is not there, within what is": (
        "mkdir -p .github/actions/x; echo x > .github/actions/x/action.yml",
        [".github/actions/x/action.yml new"],
    ),
    "a link where nothing is": ("ln -s ../../../etc .circleci", [".circleci new"]),
    "a repository of one's own": (
        "cp -r sub/.git own; echo x > own/hooks/pre-push; echo ref: a > own/HEAD; mkdir -p own/objects own/refs",
        ["own/hooks/pre-commit new", "own/hooks/pre-push new"],
    ),
    "a `.git` that leads out": ("echo gitdir: /etc > web/.git", ["web/.git new"]),
    "nothing": ("mkdir -p a/b; echo x > a/b/c; git init -q fresh", []),
}


@pytest.mark.parametrize("name", WRITES)
def test_no_other_command_changes_what_is_there_and_the_rest_is_reported(
    name: str, bubble: Box, root: Path, report: Recorded
) -> None:
    text, expected = WRITES[name]
    done = asyncio.run(escapes.bash(f"{text}; true", bubble, root))
    assert (is_as_it_was(root), report.taken()) == ([], sorted(expected))
    shown = [line for line in done.stderr.decode().splitlines() if line.startswith("adderclaw: ")]
    assert len(shown) == bool(expected)
    assert all(entry.replace(" new", " (new)").replace(" changed", " (changed)") in shown[0] for entry in expected)
    assert asyncio.run(escapes.bash("true", bubble, root)).stderr == b""


def test_no_other_command_of_a_normal_user_changes_it(
    root: Path, home: Path, bubble: Box, needs: Callable[[str], str]
) -> None:
    needs("setpriv")
    if os.geteuid() != 0:
        pytest.skip("whoever runs the tests is a normal user already")
    for folder, _, files in os.walk(root):
        for name in files:
            os.chown(Path(folder, name), 65534, 65534, follow_symlinks=False)
    as_nobody("bubblewrap", root, home, {name: text for name, (text, _) in WRITES.items()})
    assert is_as_it_was(root) == []


LANDLOCK: dict[str, tuple[str, list[str]]] = {
    "CI settings": ("echo x >> .github/workflows/ci.yml", [".github/workflows/ci.yml changed"]),
    "a hook": ("echo x > sub/.git/hooks/post-merge", ["sub/.git/hooks/post-merge new"]),
    "settings of git": ("git config core.pager evil", [".git/config new"]),
    "a folder above": (
        "mv web w; mkdir -p web/.husky; echo x > web/.husky/y",
        ["w/.husky/pre-commit new", "web/.husky/y new"],
    ),
    "hooks as a link": ("rm -r sub/.git/hooks; ln -s ../../off sub/.git/hooks", ["sub/.git/hooks new"]),
    "gone": ("rm -r .husky", []),
    "its mode": ("chmod +x Jenkinsfile", ["Jenkinsfile changed"]),
}


@pytest.mark.parametrize("name", LANDLOCK)
def test_without_mounts_what_changed_is_reported_and_left_as_it_is(
    name: str, root: Path, said: list[str], report: Recorded
) -> None:
    text, expected = LANDLOCK[name]
    box = made("landlock", root, said, report)
    done = asyncio.run(escapes.bash(f"{text}; ls -lR > /dev/null; true", box, root))
    box.close()
    assert report.taken() == sorted(expected)
    assert (b"look at them before they do" in done.stderr) == bool(expected)


def test_what_came_between_two_commands_is_read_only_to_the_next(bubble: Box, root: Path, report: Recorded) -> None:
    """Without another sandbox: a server that runs in it would end with that."""

    def bash(text: str) -> int:
        return asyncio.run(escapes.bash(text, bubble, root)).returncode

    assert bash("mkdir -p .vscode own; echo a > .vscode/tasks.json; git init -q own; touch /tmp/here") == 0
    (root / "mine/.git/hooks").mkdir(parents=True)
    (root / ".envrc").write_text("mine")
    assert report.taken() == [".vscode/tasks.json new"]
    for text in ("echo b > .vscode/tasks.json", "touch own/.git/x", "mv own o", "touch mine/.git/hooks/x", "rm .envrc"):
        assert bash(text) == 1, text
    assert bash("test -e /tmp/here") == 0
    assert report.taken() == [], "the operator's own work is no change"


# ------------------------------------------------------------------ git, and what runs beside it


def test_git_alone_changes_it_and_that_is_reported(box: Box, root: Path, report: Recorded) -> None:
    text = "echo new > .github/workflows/ci.yml && rm -rf .husky && mkdir .circleci && echo x > .circleci/config.yml"
    assert asyncio.run(as_git(text, box, root)).returncode == 0
    assert (root / ".github/workflows/ci.yml").read_text() == "new\n"
    assert not (root / ".husky").exists()
    assert report.taken() == [".circleci/config.yml new", ".github/workflows/ci.yml changed"]
    writes = "echo evil > .circleci/config.yml; echo evil > .github/workflows/ci.yml"
    done = asyncio.run(escapes.bash(writes, box, root))
    if box.kind == "bubblewrap":
        assert (root / ".circleci/config.yml").read_text() == "x\n", "what git made is kept from then on"
        assert (done.returncode, report.taken()) == (1, [])
    else:
        assert report.taken() == [".circleci/config.yml changed", ".github/workflows/ci.yml changed"]


def test_git_itself_cannot_change_hooks_nor_our_settings(bubble: Box, root: Path, report: Recorded) -> None:
    (root / "tools/hooks").mkdir(parents=True)
    (root / ".adderclaw").mkdir()
    subprocess.run(["git", "config", "core.hooksPath", "tools/hooks"], cwd=root, check=True, timeout=60)
    for place in (".git/hooks", "sub/.git/hooks", "tools/hooks", ".adderclaw"):
        (root / place).mkdir(exist_ok=True)
        assert asyncio.run(as_git(f"touch {place}/evil", bubble, root)).returncode == 1, place
        assert asyncio.run(as_git(f"mv {place} away", bubble, root)).returncode == 1, place
    assert asyncio.run(as_git("git config user.name me && touch .git/fine", bubble, root)).returncode == 0
    assert report.taken() == []


TASK = """
touch ready
while sleep 0.01; do
  for f in .github/workflows/ci.yml .circleci/config.yml .travis.yml Jenkinsfile; do echo evil > $f; done
  echo x >> beats
done 2>/dev/null
"""
"""Writes all the time, also while git works."""
SLOW_GIT = """
wc -l < beats; mkdir .circleci; for i in 1 2 3 4 5; do
  rm -f Jenkinsfile .github/workflows/ci.yml; sleep 0.05
  echo $i > Jenkinsfile; echo $i > .circleci/config.yml; echo $i > .github/workflows/ci.yml; sleep 0.05
done; wc -l < beats
"""


def test_a_task_that_runs_while_git_does_changes_nothing_unreported(box: Box, root: Path, report: Recorded) -> None:
    beats = root / "beats"
    made = ("Jenkinsfile", ".circleci/config.yml", ".github/workflows/ci.yml")

    async def beside() -> tuple[list[str], str]:
        task = asyncio.ensure_future(escapes.bash(TASK, box, root))
        await asyncio.to_thread(wait_for, beats.exists, 60, "the task to write")
        git = asyncio.ensure_future(as_git(SLOW_GIT, box, root))
        later = asyncio.ensure_future(escapes.bash("cat Jenkinsfile", box, root))
        (began, counted), cat = map(int, (await git).stdout.split()), (await later).stdout.decode()
        assert counted == began, "it was held"
        await asyncio.to_thread(wait_for, lambda: beats.read_text().count("x") > counted + 3, 60, "the task to go on")
        kept = [(root / name).read_text() for name in made]
        task.cancel()
        await asyncio.wait({task})
        return kept, cat

    kept, cat = asyncio.run(beside())
    changed = report.taken()
    if box.kind == "bubblewrap":
        assert kept == ["5\n"] * 3, "mounts keep what git made, though the task had begun before"
        assert [(root / name).read_text() for name in made] == ["5\n"] * 3
    assert cat in (("5\n",) if box.kind == "bubblewrap" else ("5\n", "evil\n")), "it waited for git"
    assert {".travis.yml new", ".circleci/config.yml new"} <= {*changed}


def test_what_stands_in_a_folder_or_begins_beside_git_changes_nothing_either(bubble: Box, root: Path) -> None:
    """One has its working directory there from before; the other would find git's own view by its process."""
    (root / "deep" / ".github").mkdir(parents=True)
    inside = "cd deep/.github; exec 7< ..; touch ready; until [ -e go ]; do sleep 0.01; done"
    writes = "echo evil > workflows/ci.yml; echo evil > /proc/self/fd/7/.github/workflows/ci.yml; touch over"
    through = "for p in /proc/[0-9]*; do echo evil > $p/root$PWD/Jenkinsfile; echo evil > $p/cwd/Jenkinsfile; done"
    slow = "rm Jenkinsfile; touch began; sleep 0.3; echo git > Jenkinsfile; mkdir deep/.github/workflows; "

    async def beside() -> None:
        task = asyncio.ensure_future(escapes.bash(f"{inside}; {writes}; sleep 1000", bubble, root))
        await asyncio.to_thread(wait_for, (root / "deep/.github/ready").exists, 60, "the task to begin")
        await as_git(f"{slow} echo git > deep/.github/workflows/ci.yml", bubble, root)
        (root / "deep/.github/go").touch()
        await asyncio.to_thread(wait_for, (root / "deep/.github/over").exists, 60, "the task to try")
        assert (root / "deep/.github/workflows/ci.yml").read_text() == "git\n"
        task.cancel()
        await asyncio.wait({task})
        git = asyncio.ensure_future(as_git("rm began; rm -r deep/.github/workflows; " + slow, bubble, root))
        await asyncio.to_thread(wait_for, (root / "began").exists, 60, "git to begin")
        await escapes.bash(through, bubble, root)
        await git

    asyncio.run(beside())
    assert (root / "Jenkinsfile").read_text() == "git\n"
    assert not (root / "deep/.github/workflows/ci.yml").exists()


TICKS = "while sleep 0.01; do echo x >> beats; done"
STARTS = "import subprocess\nwhile True: subprocess.run(['/bin/true'])"


async def goes_on(box: Box, root: Path) -> bool:
    """Whether a task that ticks is not left behind stopped, nor what begins after it."""
    before = (root / "beats").stat().st_size
    await asyncio.to_thread(wait_for, lambda: (root / "beats").stat().st_size > before, 60, "the task to go on")
    return (await escapes.bash("echo there", box, root)).stdout == b"there\n"


def test_what_was_stopped_for_git_goes_on_however_that_ends(box: Box, root: Path) -> None:
    async def beside() -> None:
        task = asyncio.ensure_future(escapes.bash(TICKS, box, root))
        await asyncio.to_thread(wait_for, (root / "beats").exists, 60, "the task to begin")
        for argv, env in ((["no-such-program"], {}), (["/bin/true"], {"": "x"}), (["/bin/true"], {"a=b": "x"})):
            start = process.in_view(box.start, "git")
            with pytest.raises((OSError, ValueError)):
                await process.run(
                    argv, cwd=str(root), env=process.environment(env, workspace_roots=()), timeout=60, start=start
                )
            assert await goes_on(box, root), f"git that could not be started: {argv} {env}"
        git = asyncio.ensure_future(as_git("touch began; sleep 0.1", box, root))
        await asyncio.to_thread(wait_for, (root / "began").exists, 60, "git to begin")
        box.set_spec(replace(box.requested, read_only=True))
        await git
        assert await goes_on(box, root), "git during which everything became read-only"
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(beside())


def test_what_starts_programs_all_the_time_is_stopped_too(bubble: Box, root: Path) -> None:
    """Its child, stopped before it has become the program, would keep it from stopping."""

    async def beside() -> list[int]:
        argv = [f"{sys.base_prefix}/bin/python3", "-c", f"open('beats', 'w').close()\n{STARTS}"]
        runs = [
            process.run(
                argv, cwd=str(root), env=process.environment(workspace_roots=()), timeout=600, start=bubble.start
            )
            for _ in range(3)
        ]
        tasks = [asyncio.ensure_future(run) for run in runs]
        await asyncio.to_thread(wait_for, (root / "beats").exists, 60, "the tasks to begin")
        codes = [(await as_git("true", bubble, root)).returncode for _ in range(40)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return codes

    assert asyncio.run(beside()) == [0] * 40


def test_what_is_replaced_from_outside_while_a_task_runs_is_kept_again(
    bubble: Box, root: Path, report: Recorded
) -> None:
    """As an editor does it, or git in another session: the mount goes with the file that it was on."""
    evil = "for f in .gitlab-ci.yml .github/workflows/ci.yml sub/.git/hooks/x; do echo evil > $f; done"

    async def beside() -> None:
        task = asyncio.ensure_future(escapes.bash(TICKS, bubble, root))
        await asyncio.to_thread(wait_for, (root / "beats").exists, 60, "the task to begin")
        (root / "mine").write_text("mine\n")
        (root / "mine").replace(root / ".gitlab-ci.yml")
        (root / ".github/workflows/ci.yml").write_text("mine\n")
        (root / "sub/.git").rename(root.parent / "was")
        (root / "sub/.git/hooks").mkdir(parents=True)
        for _ in range(2):
            await escapes.bash(evil, bubble, root)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(beside())
    assert [(root / name).read_text() for name in (".gitlab-ci.yml", ".github/workflows/ci.yml")] == ["mine\n"] * 2
    assert not (root / "sub/.git/hooks/x").exists()
    assert report.taken() == [".github/workflows/ci.yml changed", ".gitlab-ci.yml changed"], "a task ran meanwhile"


def kill_sandbox() -> None:
    for name in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if "bwrap" in Path(f"/proc/{name}/comm").read_text():
            os.kill(int(name), signal.SIGKILL)
            os.waitid(os.P_PID, int(name), os.WEXITED | os.WNOWAIT)


def test_the_next_sandbox_keeps_it_too_though_the_last_one_was_killed(root: Path, said: list[str]) -> None:
    """While its commands are not known yet to have ended: what runs in the new one is judged by itself."""

    async def beside(box: Box, *, git: bool) -> Finished:
        task = asyncio.ensure_future((as_git if git else escapes.bash)("touch began; exec sleep 1000", box, root))
        await asyncio.to_thread(wait_for, (root / "began").exists, 60, "the task to begin")
        (root / "began").unlink()
        kill_sandbox()
        done = await escapes.bash("echo evil > Jenkinsfile", box, root)
        await task
        return done

    for git in (False, True):
        box = made("bubblewrap", root, said)
        done = asyncio.run(beside(box, git=git))
        box.close()
        assert (done.returncode, is_as_it_was(root)) == (1, []), git
    assert sum("it had ended" in line for line in said) == 2


def test_a_new_clone_brings_no_hooks_and_git_removes_its_own_work_tree(
    bubble: Box, root: Path, report: Recorded
) -> None:
    def bash(text: str) -> int:
        return asyncio.run(escapes.bash(text, bubble, root)).returncode

    def git(text: str) -> int:
        return asyncio.run(as_git(f"export GIT_CONFIG_COUNT=0; {text}", bubble, root)).returncode

    name = "git -c user.name=a -c user.email=a@b"
    assert git("git init -q clone && touch clone/a") == 0
    assert bash("mkdir clone/.git/hooks; echo x > clone/.git/hooks/pre-commit") == 1
    assert git(f"cd clone && git add a && {name} commit -qm a && git worktree add -q ../tree && touch ../tree/b") == 0
    assert bash("echo x > tree/b && mv tree t") == 1
    assert git("cd clone && git worktree remove --force ../tree") == 0
    assert not (root / "tree").exists()
    assert report.taken() == []
