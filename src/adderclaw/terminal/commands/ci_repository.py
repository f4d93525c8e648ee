"""A repository as it was before a run, and a commit of what the run changed, made without anything the run wrote."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.types import Json
from adderclaw.sandbox.programs import resolve

AUTHOR = ("AdderClaw", "adderclaw@noreply.invalid")


def copy_of(workspace: str, to: str, branch: str) -> Json:
    """Copy the repository of a workspace, and say where its top is and which branch a commit belongs to.

    A folder of the project that looks like a repository itself is none: its settings could start programs.
    """
    asked = ["-c", "safe.bareRepository=explicit"]
    top = _git([*asked, "rev-parse", "--show-toplevel"], os.environ, workspace)
    folder = _git([*asked, "rev-parse", "--absolute-git-dir"], os.environ, workspace)
    if not branch:
        try:
            branch = _git([*asked, "symbolic-ref", "--short", "HEAD"], os.environ, workspace)
        except AdderClawError:
            fix = "give actions/checkout the branch, such as `ref: ${{ github.head_ref }}`"
            raise UsageError(f"no branch is checked out, so nothing can be committed to one: {fix}") from None
    shutil.copytree(folder, to, symlinks=True)
    return {"top": top, "branch": branch}


class Repository:
    """The copy, the working tree that the run changed, and where commits are pushed to."""

    def __init__(self, folder: str, top: str, remote: str, authorization: str) -> None:
        self._top, self._remote = top, remote
        # an empty value first: what the checkout left for the same server would be a second, refused header
        header = f"http.{remote}.extraheader"
        settings = [
            ("core.hooksPath", os.devnull),
            ("core.fsmonitor", "false"),
            ("credential.helper", ""),
            (header, ""),
            (header, f"AUTHORIZATION: basic {authorization}"),
        ]
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_CONFIG")}
        self._env = {
            "GIT_AUTHOR_NAME": AUTHOR[0],
            "GIT_AUTHOR_EMAIL": AUTHOR[1],
            "GIT_COMMITTER_NAME": AUTHOR[0],
            "GIT_COMMITTER_EMAIL": AUTHOR[1],
            **own,
            "GIT_DIR": folder,
            "GIT_WORK_TREE": top,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (key, value) in enumerate(settings):
            self._env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}

    def changed(self, leave_out: str) -> list[str]:
        """The paths that differ from the index. Submodules and other repositories in the tree are not looked into."""
        entries = self._run(["ls-files", "-z", "--stage"]).split("\0")
        submodules = {entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")}
        words = ["ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--", "."]
        if leave_out:
            words.append(f":(exclude,top,literal){leave_out}")
        paths = self._run(words).split("\0")
        return sorted({path for path in paths if path and not path.endswith("/")} - submodules)

    def commit(self, paths: Sequence[str], message: str) -> str:
        """Commit these paths as they are now, on top of what was checked out. Nothing of the copy's HEAD moves."""
        self._run(["update-index", "-z", "--add", "--remove", "--replace", "--stdin"], "\0".join(paths))
        return self._run(["commit-tree", self._run(["write-tree"]), "-p", "HEAD"], message)

    def push(self, commit: str, branch: str, options: Sequence[str]) -> None:
        self._run(["push", "--quiet", *options, self._remote, f"{commit}:refs/heads/{branch}"])

    def _run(self, words: Sequence[str], stdin: str = "") -> str:
        return _git(words, self._env, self._top, stdin)


def _git(words: Sequence[str], env: Mapping[str, str], at: str, stdin: str = "") -> str:
    if (git := resolve("git", (at,))) is None:
        raise AdderClawError("git is not installed, or only in a folder that commands can write to")
    try:
        done = subprocess.run(
            [git, *words], cwd=at, env=env, input=stdin.encode("utf-8", "surrogateescape"), capture_output=True
        )
    except OSError as error:
        raise AdderClawError(f"git cannot be started in {at}: {error.strerror}") from error
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()
        name = next(word for word in words if not word.startswith("-") and "=" not in word)
        raise AdderClawError(f"git {name} failed in {at}: {why or f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")
