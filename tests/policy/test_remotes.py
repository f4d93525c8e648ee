"""Commands of git that reach other machines or say which: asked about, each time where nobody may say "always"."""

from pathlib import Path

import pytest

from adderclaw.core.types import RemoteFact, Touch
from adderclaw.policy import grants, judge
from adderclaw.policy.case import Case, Policy
from adderclaw.policy.legacy.shell.planner import Plan, plan
from adderclaw.policy.rules import Anchors, Rules, parse
from adderclaw.sandbox.broker import Grant, ssh_grant
from adderclaw.tools.legacy.remotes import FORCED as OVERWRITES
from adderclaw.tools.legacy.remotes import Repository, address, reached
from tests.policy.conftest import resolve
from tests.rows import rows

GRANT = Grant("ssh", "git", "host.example", 0, "me/project.git", "git-upload-pack")
CONFIG = """
[remote "origin"]
    url = git@host.example:me/project.git
    pushurl = ssh://git@push.example:2222/me/project.git
[remote "mirror"]
    url = https://name:secret@mirror.example/project.git
[url "https://elsewhere.example/"]
    insteadOf = gh:
[branch "main"]
    remote = mirror
[submodule "lib"]
    url = ../lib.git
"""


def case(command: str, *remotes: RemoteFact, rules: Rules | None = None, interactive: bool = True) -> Case:
    made = plan(command, lambda name: f"/usr/bin/{name}")
    policy = Policy("/w", ("/w",), sandboxed=True, autonomy="full", rules=rules or Rules())
    return Case(
        "Bash", "Bash", {"command": command}, Touch(command=made, remotes=remotes), policy, interactive=interactive
    )


ORIGIN = RemoteFact("push", "ssh://host.example/x")
FORCED = RemoteFact("push", "ssh://host.example/x", "it overwrites or deletes branches there")


def allow(text: str) -> Rules:
    return Rules(allow=(parse(text, "allow", Anchors("/w", "/w", "/home/me")),))


def test_a_remote_is_asked_about_in_full_autonomy_too() -> None:
    decision = judge(case("git push origin main", ORIGIN))
    assert decision.verdict == "ask"
    assert "ssh://host.example/x" in decision.reason
    assert judge(case("git push origin main")).verdict == "allow", "what reaches nothing is not asked about"


def test_a_rule_covers_it_but_never_a_force() -> None:
    rules = allow("Bash(git push:*)")
    assert judge(case("git push origin main", ORIGIN, rules=rules)).verdict == "allow"
    assert judge(case("git push origin main", ORIGIN, rules=rules, interactive=False)).verdict == "allow"
    assert judge(case("git push --force origin main", FORCED, rules=rules)).verdict == "ask"
    assert judge(case("git push --force origin main", FORCED, rules=rules, interactive=False)).verdict == "deny"
    assert judge(case("git push origin main", ORIGIN, interactive=False)).verdict == "deny"


def test_always_is_not_offered_for_a_force() -> None:
    assert grants.exact_rules(case("git push origin main", ORIGIN)) == ("Bash(git push origin main)",)
    assert grants.exact_rules(case("git push --force origin main", FORCED)) == ()


@pytest.fixture
def repository(tmp_path: Path) -> str:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(CONFIG)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("command", "shown", "each"),
    [
        ("git fetch origin", ["git@host.example:me/project.git"], False),
        ("git push origin main", ["ssh://git@push.example:2222/me/project.git"], False),
        ("git fetch", ["https://***@mirror.example/project.git"], False),
        ("git push -f origin", ["ssh://git@push.example:2222/me/project.git"], True),
        ("git push origin +main", ["ssh://git@push.example:2222/me/project.git"], True),
        ("git push origin :main", ["ssh://git@push.example:2222/me/project.git"], True),
        ("git push --delete origin main", ["ssh://git@push.example:2222/me/project.git"], True),
        ("git fetch gh:a/b", ["https://elsewhere.example/a/b"], True),
        ("git clone https://x.example/y", ["https://x.example/y"], True),
        ("git clone ssh://-oProxyCommand=x/y", ["ssh://-oProxyCommand=x/y"], True),
        ("git submodule update", ["https://***@mirror.example/lib.git"], True),
        ("git remote add x https://x.example", ["x https://x.example"], True),
        ("git remote set-url origin https://x.example", ["origin https://x.example"], True),
        ("git fetch --all", ["git@host.example:me/project.git", "https://***@mirror.example/project.git"], False),
        ("cd /tmp; git -C . status", [], False),
    ],
)
def test_what_a_command_reaches(command: str, shown: list[str], each: bool, repository: str) -> None:
    made = plan(command, lambda name: f"/usr/bin/{name}")
    facts = reached(made, repository, (repository,)).facts  # pyright: ignore[reportArgumentType]
    assert [fact.address for fact in facts] == shown
    assert all(bool(fact.each_time) == each for fact in facts)


def test_another_repository_is_not_the_workspaces(repository: str, tmp_path: Path) -> None:
    """A rule for `git push` is for the workspace's own remotes: a planted repository may call anything origin."""
    inner = tmp_path / "inner"
    (inner / ".git").mkdir(parents=True)
    (inner / ".git" / "config").write_text('[remote "origin"]\nurl = https://evil.example/x\n')
    (inner / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    made = plan("git push origin main", lambda name: f"/usr/bin/{name}")
    found = reached(made, str(inner), (repository,))  # pyright: ignore[reportArgumentType]
    assert found.facts[0].each_time
    assert found.facts[0].address == "https://evil.example/x"
    assert Repository.around(repository, (repository,)).top == repository


@rows(
    "words",
    [
        ["git@host.example", "git-receive-pack 'me/project.git'"],
        ["git@host.example", "git-upload-pack 'me/other.git'"],
        ["git@other.example", "git-upload-pack 'me/project.git'"],
        ["root@host.example", "git-upload-pack 'me/project.git'"],
        ["host.example", "git-upload-pack 'me/project.git'"],
        ["-p", "2222", "git@host.example", "git-upload-pack 'me/project.git'"],
        ["-o", "ProxyCommand=id", "git@host.example", "git-upload-pack 'me/project.git'"],
        ["-F", "/tmp/x", "git@host.example", "git-upload-pack 'me/project.git'"],
        ["git@host.example", "git-upload-pack 'me/project.git'; id"],
        ["git@host.example", "git-upload-pack 'me/project.git' x"],
        ["git@host.example", "git-upload-pack", "me/project.git"],
        ["git@host.example", "git-upload-pack 'me/project.git"],
        ["git@host.example"],
        [],
    ],
)
def test_ssh_for_anything_else_is_refused(words: list[str]) -> None:
    assert ssh_grant(words, (GRANT,)) is None


def test_ssh_for_what_was_approved() -> None:
    words = ["-o", "SendEnv=GIT_PROTOCOL", "git@host.example", "git-upload-pack 'me/project.git'"]
    assert ssh_grant(words, (GRANT,)) == GRANT


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c id", "ssh://-oProxyCommand=id/x", "-x:y", "git@-x:y", "https://gіthub.com/x", "git://x/y", "a b:c"],
)
def test_no_grant_for_what_is_no_plain_address(url: str) -> None:
    assert address(url, "git-upload-pack") is None


@pytest.mark.parametrize("words", ["origin --del main", "--mirr origin", "--unheard-of origin main"])
def test_the_beginning_of_an_option_may_be_a_force(tmp_path: Path, words: str) -> None:
    """Git takes `--del` for `--delete`: no rule for `git push` covers what is not spelled out."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\n\turl = https://x.org/a.git\n')
    root = str(tmp_path)
    pushed = plan(f"git push {words}", resolve)
    plain = plan("git push origin main", resolve)
    assert isinstance(pushed, Plan)
    assert isinstance(plain, Plan)
    assert [fact.each_time for fact in reached(pushed, root, (root,)).facts] == [OVERWRITES]
    assert [fact.each_time for fact in reached(plain, root, (root,)).facts] == [""]


@pytest.mark.parametrize("setting", ["push = +refs/heads/*:refs/heads/*", "push = :refs/heads/x", "mirror = true"])
def test_settings_of_a_remote_may_force(tmp_path: Path, setting: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(f'[remote "origin"]\n\turl = https://x.org/a.git\n\t{setting}\n')
    made, root = plan("git push origin", resolve), str(tmp_path)
    assert isinstance(made, Plan)
    assert [fact.each_time for fact in reached(made, root, (root,)).facts] == [OVERWRITES]
