"""A workflow that somebody names in a hostile repository: no link of it has a file of this machine told."""

import json
from pathlib import Path

import pytest

from tests.program import Cli, Done
from tests.rows import rows

SECRET = "deadbeef-of-the-operator"
FLOW = 'NAME x\nGOAL g "x"\nRUN all USING g\n'
CONFIG = """
default_provider = "local"
[providers.models.local]
kind = "mock"
model = "mock"
fixture = "{fixture}"
"""


@pytest.fixture
def repository(cli: Cli) -> Path:
    """With links to the operator's key, and to a folder that has it under the names that are looked for."""
    fixture = cli.home / "fixture.json"
    fixture.write_text(
        json.dumps({"steps": [{"error": {"kind": "invalid_request", "message": "no"}}], "partial": True})
    )
    cli.configure(CONFIG.format(fixture=fixture))
    own = cli.home / "own"
    own.mkdir()
    for name in ("key", "Agentfile", "SOP.toml", "policy.toml"):
        (own / name).write_text(f'{SECRET}\n[{SECRET}]\nenabled = "{SECRET}"\n')
    (own / "policy.toml").write_text(f'[bash]\nenabled = "{SECRET}"\n')
    root = cli.cwd / "repository"
    for folder in (".git", "sub", "sop", "flow", "chain"):
        (root / folder).mkdir(parents=True)
    (root / "Agentfile").symlink_to(own / "key")
    (root / "sub" / "Agentfile").symlink_to(own / "key")
    (root / "sop" / "SOP.toml").symlink_to(own / "key")
    (root / "folder").symlink_to(own)
    (root / "chain" / "Agentfile").symlink_to("../folder/key")
    (root / "flow" / "Agentfile").write_text(FLOW)
    (root / "flow" / "policy.toml").symlink_to(own / "policy.toml")
    return root


def told(done: Done) -> bool:
    return SECRET in done.out + done.err


@rows(
    "words",
    [
        ("run", "--agentfile", "Agentfile"),
        ("run", "--agentfile", "sub"),
        ("run", "--agentfile", "sub/"),
        ("run", "--agentfile", "chain"),
        ("run", "--agentfile", "folder"),
        ("run", "--agentfile", "folder/key"),
        ("validate", "sub"),
        ("inspect", "Agentfile"),
        ("fmt", "--check", "sub"),
        ("sop", "run", "./sop"),
        ("sop", "show", "sop/SOP.toml"),
        ("sop", "show", "folder/key.toml"),
        ("sop", "validate", "./folder"),
    ],
)
def test_no_link_of_a_repository_has_a_file_told(cli: Cli, repository: Path, words: tuple[str, ...]) -> None:
    done = cli(*words, cwd=repository)
    assert (done.code, told(done), "Traceback" in done.err) == (2, False, False), done.err
    assert "leads out of the workspace" in done.err, done.err


@rows(
    "words",
    [
        ("validate", "{top}/sub"),
        ("inspect", "{top}/Agentfile"),
        ("run", "--agentfile", "{top}/folder/key"),
        ("sop", "show", "{top}/sop/SOP.toml"),
    ],
)
@rows("where", ["flow", ".."])
def test_from_within_and_from_elsewhere_its_links_lead_nowhere_either(
    cli: Cli, repository: Path, words: tuple[str, ...], where: str
) -> None:
    done = cli(*(word.format(top=repository) for word in words), cwd=repository / where)
    assert (done.code, told(done), "Traceback" in done.err) == (2, False, False), done.err
    assert "leads out of the workspace" in done.err, done.err


def test_a_link_that_stays_and_one_of_the_operators_own_are_followed(cli: Cli, repository: Path) -> None:
    (repository / "inner").symlink_to("flow/Agentfile")
    (cli.home / "own" / "flow").symlink_to(repository / "flow" / "Agentfile")
    for name in ("inner", str(cli.home / "own" / "flow")):
        done = cli("validate", name, cwd=repository)
        assert done.code == 0, done.err


def test_a_policy_beside_a_workflow_is_no_link_out_of_the_project(cli: Cli, repository: Path) -> None:
    done = cli("run", "--agentfile", "flow/Agentfile", cwd=repository)
    assert (told(done), "flow/policy.toml: this link leads out" in done.err) == (False, True), done.err
    (cli.home / "empty").mkdir()
    workflow = str(repository / "flow" / "Agentfile")
    done = cli("run", "--agentfile", workflow, "--workspace", str(cli.home / "empty"), cwd=cli.home)
    assert (told(done), "flow/policy.toml: this link leads out" in done.err) == (False, True), done.err
    (repository / "flow" / "policy.toml").unlink()
    (repository / "flow" / "policy.toml").write_text('[bash]\nenabled = "no"\n')
    done = cli("run", "--agentfile", "flow/Agentfile", cwd=repository)
    assert (done.code, 'expected true or false, not "no"' in done.err) == (2, True), done.err


def test_a_workflow_that_became_a_link_is_resumed_by_nobody(cli: Cli, repository: Path) -> None:
    done = cli("run", "--agentfile", "flow/Agentfile", "--output-format", "json", cwd=repository)
    run_id = json.loads(done.out.splitlines()[-1])["run_id"]
    (repository / "flow" / "Agentfile").unlink()
    (repository / "flow" / "Agentfile").symlink_to(cli.home / "own" / "key")
    done = cli("run", "--resume", run_id, cwd=repository)
    assert (done.code, told(done), "leads out of" in done.err) == (2, False, True), done.err
    (repository / "flow" / "Agentfile").unlink()
    (repository / "flow" / "Agentfile").write_text(f"{SECRET}\n")
    done = cli("run", "--resume", run_id, cwd=repository)
    assert (done.code, told(done), "has changed since" in done.err) == (2, False, True), done.err


@rows(
    "words",
    [
        ("validate", "{alias}/Agentfile"),
        ("run", "--agentfile", "{alias}/sub"),
        ("run", "--agentfile", "{alias}/folder/key"),
        ("sop", "show", "{alias}/sop/SOP.toml"),
        ("sop", "validate", "{alias}/folder"),
    ],
)
def test_by_another_name_of_the_repository_its_links_lead_nowhere_either(
    cli: Cli, repository: Path, words: tuple[str, ...]
) -> None:
    alias = cli.home / "alias"
    if not alias.exists():
        alias.symlink_to(repository)
    done = cli(*(word.format(alias=alias) for word in words), cwd=repository)
    assert (done.code, told(done), "Traceback" in done.err) == (2, False, False), done.err
    assert "leads out of the workspace" in done.err, done.err
