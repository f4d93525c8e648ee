"""`adderclaw ci`: delivers what a run in a CI job changed: as a commit, a pull or merge request, or a comment.

The agent can write everything in the workspace, including `.git`. So the repository is copied before the run, and the
commit is made with that copy: no hook and no setting written by the agent is used.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import typer

from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.sandbox.programs import resolve
from adderclaw.terminal.commands.ci_service import Service, json_object_of, service
from adderclaw.terminal.commands.common import OutputFormat, group
from adderclaw.terminal.output import print_json

app = group("Deliver the changes of a CI run: as a commit, a pull or merge request, or a comment.")

Finish = Literal["commit", "pull-request", "comment"]
StateFolder = Annotated[str, typer.Option("--state", metavar="DIR", help="A folder outside the workspace.")]
HowToFinish = Annotated[Finish, typer.Argument(metavar="FINISH", help="commit, pull-request or comment.")]
BRANCH_PREFIX = "adderclaw/"
"""Of the branches of pull requests."""
MAX_COMMENT_CHARS = 50_000
RUN_BY_CI = (".github/", ".gitlab-ci.yml", ".gitlab/ci/", ".gitea/", ".forgejo/")
"""Paths whose content a CI service runs."""


@app.command()
def begin(
    finish: HowToFinish,
    state: StateFolder,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="The title of the work.")],
    workspace: Annotated[str, typer.Option("--workspace", metavar="DIR", help="The folder the agent works in.")] = ".",
    leave_out: Annotated[str, typer.Option("--leave-out", metavar="PATH", help="A path to leave out.")] = "",
    output_format: OutputFormat = "text",
) -> None:
    """Check that a job can finish this way, and copy the repository. Run it before the agent.

    Example: adderclaw ci begin pull-request --state /tmp/state --title "Fix the failing test"
    """
    there = service(os.environ)
    body: Json = {"title": title}
    if finish == "comment":
        there.require_thread()
    else:
        there.require_own_repository()
        body |= copy_repository(workspace, os.path.join(state, "git"), there.branch())
        below = os.path.relpath(os.path.realpath(leave_out or os.devnull), body["top"])
        body["leave_out"] = "" if below.startswith("..") else below
        if str(body["branch"]).startswith(BRANCH_PREFIX):
            raise UsageError(f"the branch {body['branch']} was made by an earlier run: run this job on other branches")
    with open(os.path.join(state, "begun.json"), "w", encoding="utf-8") as file:
        json.dump(body, file)
    if output_format == "json":
        print_json({"finish": finish, "branch": body.get("branch", "")})


@app.command()
def finish(
    finish: HowToFinish,
    state: StateFolder,
    result: Annotated[str, typer.Option("--result", metavar="FILE", help="The JSON that the run printed.")],
    output_format: OutputFormat = "text",
) -> None:
    """Commit and push what the run changed, or comment with its answer. Prints the URL of the result.

    The token is GITHUB_TOKEN or GITLAB_TOKEN in the environment.

    Example: adderclaw ci finish pull-request --state /tmp/state --result result.json
    """
    begun = _read(os.path.join(state, "begun.json"))
    if not begun:
        raise UsageError(
            f"{state} has no state of a CI job: run `adderclaw ci begin {finish} --state {state}` before the run"
        )
    url, why = _deliver(finish, state, begun, _read(result))
    if output_format == "json":
        print_json({"finish": finish, "url": url, "reason": why})
    elif why:
        print(f"adderclaw: {why}", file=sys.stderr)
    else:
        print(url)


def _deliver(finish: Finish, state: str, begun: Json, run: Json) -> tuple[str, str]:
    """Delivers the result; returns its URL, or why nothing was delivered."""
    there = service(os.environ)
    outcome = str(run.get("outcome", "error"))
    if finish == "comment":
        return there.comment(_body(run, there)), ""
    if outcome != "completed":
        return "", f"the run ended as {outcome}: nothing is committed"
    repository = Repository(os.path.join(state, "git"), begun["top"], there.remote(), there.authorization())
    changed = repository.changed(begun["leave_out"])
    if not changed:
        return "", "the run changed no file: nothing is committed"
    branch, title, run_id = str(begun["branch"]), _title(str(begun["title"])), str(run.get("run_id", ""))
    message = f"{title}\n\nAdderClaw run {run_id}\n"
    if finish == "commit":
        if of_ci := [path for path in changed if path.startswith(RUN_BY_CI)]:
            path = visible(of_ci[0], keep_newlines=False)  # no line of the log may be a command to the runner
            raise UsageError(f"{path} would run in CI without a review: use finish: pull-request")
        commit = repository.commit(changed, message)
        repository.push(commit, branch, there.push_options())
        return there.commit_address(commit), ""
    commit, own = repository.commit(changed, message), f"{BRANCH_PREFIX}{run_id}"
    repository.push(commit, own, ())
    return there.request_merge(own, branch, title, _body(run, there)), ""


def _read(path: str) -> Json:
    """The JSON object in a file; empty without one, for example if the run never started."""
    try:
        with open(path, encoding="utf-8") as file:
            return json_object_of(json.load(file))
    except (OSError, ValueError):
        return {}


def _title(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    first = visible(lines[0], keep_newlines=False) if lines else "Work of a run"
    return first if len(first) <= 72 else f"{first[:71]}…"


def _body(run: Json, there: Service) -> str:
    """The comment, with the answer in a fence: as Markdown it could mention people, and leak data in image URLs."""
    answer = visible(str(run.get("result") or run.get("answer") or run.get("reason") or "The run did not begin."))
    if len(answer) > MAX_COMMENT_CHARS:
        answer = f"{answer[:MAX_COMMENT_CHARS]}\n[shortened]"
    longest = max((len(part) for part in answer.split() if set(part) == {"~"}), default=0)
    fence = "~" * max(longest + 1, 4)
    head = f"AdderClaw run {run.get('run_id', '')}: {run.get('outcome', 'not begun')} ([job]({there.job()}))"
    return f"{head}\n\n{fence}text\n{answer}\n{fence}\n"


AUTHOR = ("AdderClaw", "adderclaw@noreply.invalid")


def copy_repository(workspace: str, to: str, branch: str) -> Json:
    """Copies the repository of a workspace; returns the top of the working tree and the branch for a commit.

    A folder of the project that looks like a bare repository is ignored, because its settings could start programs.
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
    """The copy of the repository, the working tree that the run changed, and the remote for pushes."""

    def __init__(self, folder: str, top: str, remote: str, authorization: str) -> None:
        self._top, self._remote = top, remote
        # an empty value first, because a header left by the checkout for the same server would be sent too, and refused
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
        """The paths that differ from the index, without submodules and other repositories in the tree."""
        entries = self._run(["ls-files", "-z", "--stage"]).split("\0")
        submodules = {entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")}
        words = ["ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--", "."]
        if leave_out:
            words.append(f":(exclude,top,literal){leave_out}")
        paths = self._run(words).split("\0")
        return sorted({path for path in paths if path and not path.endswith("/")} - submodules)

    def commit(self, paths: Sequence[str], message: str) -> str:
        """Commits these paths on top of the checked-out commit, without moving HEAD; returns the commit."""
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
