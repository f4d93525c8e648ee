"""Fetch, pull, push and clone over ssh and http, to servers on loopback: asked about, by the operator's own keys."""

import json
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.acceptance.test_git import bash, git
from tests.acceptance.world import World, call, text
from tests.git_servers import Http, Ssh, certificate, http_server, missing, ssh_server
from tests.trial import why_not

PROFILES = ["supervised", "sandboxed"]
PASSWORD = "correct-horse-battery"


@pytest.fixture(autouse=True)
def _bubblewrap(home: Path) -> None:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """What the servers have: `project.git` with one commit."""
    first, folder = tmp_path / "first", tmp_path / "served"
    first.mkdir()
    folder.mkdir()
    (first / "a.txt").write_text("one\n")
    git(first, "init", "-q", "-b", "main")
    git(first, "add", "-A")
    git(first, "commit", "-q", "-m", "first")
    for name in ("project.git", "other.git"):
        git(first, "clone", "-q", "--bare", ".", str(folder / name))
    return folder


@pytest.fixture
def ssh(world: World, tmp_path: Path) -> Generator[Ssh]:
    if names := missing():
        pytest.skip(f"not installed on this machine: {names}")
    with ssh_server(tmp_path / "ssh") as server:
        world.cli.env["SSH_AUTH_SOCK"] = server.agent
        world.cli.env["PATH"] = f"{server.bin}{os.pathsep}{world.cli.env['PATH']}"
        yield server


@pytest.fixture
def web(world: World, served: Path) -> Generator[Http]:
    with http_server(served, "ada", PASSWORD) as server:
        secrets = world.cli.home / "passwords"
        secrets.write_text(f"http://ada:{PASSWORD}@127.0.0.1:{server.port}\n")
        secrets.chmod(0o600)
        (world.cli.home / ".gitconfig").write_text(
            f"[user]\n\tname = Ada\n\temail = ada@example.org\n[credential]\n\thelper = store --file={secrets}\n"
        )
        yield server


def cloned(world: World, served: Path, url: str) -> Path:
    git(world.workspace, "clone", "-q", str(served / "project.git"), ".")
    git(world.workspace, "remote", "set-url", "origin", url)
    git(world.workspace, "config", "user.name", "Ada")
    git(world.workspace, "config", "user.email", "ada@example.org")
    return world.workspace


def moved_on(served: Path, tmp_path: Path) -> None:
    """Somebody else pushes a commit."""
    theirs = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", str(served / "project.git"), str(theirs))
    (theirs / "b.txt").write_text("theirs\n")
    git(theirs, "add", "-A")
    git(theirs, "commit", "-q", "-m", "theirs")
    git(theirs, "push", "-q", "origin", "main")


def both(world: World, profile: str, served: Path, tmp_path: Path) -> None:
    moved_on(served, tmp_path)
    place = world.workspace
    (place / "c.txt").write_text("ours\n")
    seen = bash(
        world,
        profile,
        "git fetch origin",
        "git pull --ff-only",
        "git add -A && git commit -m ours && git push origin main",
        "git ls-remote origin",
    )
    assert (place / "b.txt").read_text() == "theirs\n", seen
    assert git(served / "project.git", "log", "-1", "--format=%s %an", "main") == "ours Ada", seen
    assert git(place, "rev-parse", "HEAD") in seen[3]


@pytest.mark.parametrize("profile", PROFILES)
def test_fetch_pull_and_push_over_ssh(profile: str, world: World, ssh: Ssh, served: Path, tmp_path: Path) -> None:
    cloned(world, served, f"ssh://127.0.0.1:{ssh.port}{served}/project.git")
    both(world, profile, served, tmp_path)


@pytest.mark.parametrize("profile", PROFILES)
def test_fetch_pull_and_push_over_http(profile: str, world: World, web: Http, served: Path, tmp_path: Path) -> None:
    git(served / "project.git", "config", "http.receivepack", "true")
    cloned(world, served, f"http://127.0.0.1:{web.port}/project.git")
    both(world, profile, served, tmp_path)


@pytest.fixture
def secure(world: World, served: Path, tmp_path: Path) -> Generator[Http]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed on this machine")
    with http_server(served, "ada", PASSWORD, shows=certificate(tmp_path)) as server:
        secrets = world.cli.home / "passwords"
        secrets.write_text(f"https://ada:{PASSWORD}@127.0.0.1:{server.port}\n")
        (world.cli.home / ".gitconfig").write_text(f"[credential]\n\thelper = store --file={secrets}\n")
        git(served / "project.git", "config", "http.receivepack", "true")
        cloned(world, served, f"https://127.0.0.1:{server.port}/project.git")
        yield server


@pytest.mark.parametrize("profile", PROFILES)
def test_over_https_the_operators_own_authorities_count(
    profile: str, world: World, secure: Http, served: Path, tmp_path: Path
) -> None:
    with (world.cli.home / ".gitconfig").open("a") as settings:
        url = f"https://127.0.0.1:{secure.port}"
        settings.write(f'[http "{url}"]\n\tsslCAInfo = {tmp_path}/server.pem\n')
    both(world, profile, served, tmp_path)


def test_a_certificate_that_nobody_vouches_for_ends_the_call(world: World, secure: Http, tmp_path: Path) -> None:
    """Also where the operator's settings would leave it unchecked: what is granted is that server, and no other."""
    with (world.cli.home / ".gitconfig").open("a") as settings:
        settings.write(
            f'[http]\n\tsslVerify = false\n[http "https://elsewhere"]\n\tsslCAInfo = {tmp_path}/server.pem\n'
        )
    seen = bash(world, "sandboxed", "git fetch origin", "git push origin HEAD:x")
    assert all(f"unable to access 'https://127.0.0.1:{secure.port}/project.git/'" in result for result in seen), seen
    assert all("certificate" in result and result.startswith("Exit code 128") for result in seen), seen
    assert secure.requests == []


@pytest.fixture
def lfs() -> None:
    if shutil.which("git-lfs") is None:
        pytest.skip("git-lfs is not installed on this machine")


LARGE = b"large " * 100


@pytest.mark.parametrize("profile", PROFILES)
def test_large_files_go_and_come_with_what_is_pushed_and_fetched(
    profile: str, world: World, web: Http, served: Path, lfs: None
) -> None:
    git(served / "project.git", "config", "http.receivepack", "true")
    url = f"http://127.0.0.1:{web.port}/project.git"
    place = cloned(world, served, url)
    (place / "big.bin").write_bytes(LARGE)
    (place / "more.bin").write_bytes(b"larger " * 100)
    seen = bash(
        world,
        profile,
        "git lfs track '*.bin'",
        "git add -A && git commit -m large",
        "git push origin main",
        f"git clone -q {url} again",
    )
    assert git(served / "project.git", "show", "main:big.bin").startswith("version https://git-lfs"), seen
    assert sorted(web.large.values()) == [LARGE, b"larger " * 100], seen
    assert (place / "again" / "big.bin").read_bytes() == LARGE, seen
    changed = b"changed " * 100
    (place / "big.bin").write_bytes(changed)
    seen = bash(world, profile, "git commit -am changed && git push", "git -C again pull -q", "git status --short")
    assert changed in web.large.values(), seen
    assert (place / "again" / "big.bin").read_bytes() == changed, seen


def test_large_files_by_commands_of_their_own(world: World, web: Http, served: Path, lfs: None) -> None:
    """They are asked about with the address, as other commands that reach a remote are."""
    place = cloned(world, served, f"http://127.0.0.1:{web.port}/project.git")
    (place / "big.bin").write_bytes(LARGE)
    bash(world, "sandboxed", "git lfs track '*.bin'", "git add -A && git commit -m large")
    world.script(call("Bash", command="git lfs push origin main"), text("done"))
    done = world.agent("go", "--profile", "sandboxed", stdin="n\n")
    assert f"git sends to http://127.0.0.1:{web.port}/project.git" in done.out + done.err
    assert web.requests == []
    seen = bash(world, "sandboxed", "git lfs push origin main")
    assert [*web.large.values()] == [LARGE], seen
    shutil.rmtree(place / ".git" / "lfs")
    (place / "big.bin").unlink()
    seen = bash(world, "sandboxed", "GIT_LFS_SKIP_SMUDGE=1 git checkout big.bin", "git lfs pull")
    assert (place / "big.bin").read_bytes() == LARGE, seen


def test_a_push_without_its_large_files_is_not_made(world: World, ssh: Ssh, served: Path, lfs: None) -> None:
    """A remote with pointers that lead nowhere would be worse than a push that did not happen."""
    place = cloned(world, served, f"ssh://127.0.0.1:{ssh.port}{served}/project.git")
    before = git(served / "project.git", "rev-parse", "main")
    (place / "big.bin").write_bytes(LARGE)
    (place / "more.bin").write_bytes(b"larger " * 100)
    seen = bash(
        world,
        "sandboxed",
        "git lfs track '*.bin'",
        "git add -A && git commit -m large",
        "git push origin main",
        "git push",
        "git push -u origin HEAD:x",
    )
    assert git(place, "show", "HEAD:big.bin").startswith("version https://git-lfs"), seen
    assert all("2 large files (LFS)" in result and result.startswith("Exit code 128") for result in seen[2:]), seen
    assert git(served / "project.git", "for-each-ref", "--format=%(objectname)") == before
    git(place, "update-ref", "refs/remotes/origin/main", "HEAD")  # as after a push of the user's own
    git(served / "project.git", "fetch", "-q", str(place), "main:main")
    seen = bash(
        world,
        "sandboxed",
        "git commit --allow-empty -m after",
        "git push origin main",
        f"git clone -q ssh://127.0.0.1:{ssh.port}{served}/project.git again",
    )
    assert git(served / "project.git", "log", "-1", "--format=%s", "main") == "after"
    assert (place / "again" / "big.bin").read_text().startswith("version https://git-lfs"), seen


def test_clone_is_asked_about_with_its_address(world: World, ssh: Ssh, served: Path) -> None:
    url = f"ssh://127.0.0.1:{ssh.port}{served}/project.git"
    world.script(call("Bash", command=f"git clone {url} sub"), text("done"))
    done = world.agent("go", "--profile", "sandboxed", stdin="y\n")
    assert url in done.out + done.err
    assert (world.workspace / "sub" / "a.txt").read_text() == "one\n", world.entries("tool_result")


def test_nobody_there_means_no_unless_a_rule_says_yes(world: World, ssh: Ssh, served: Path, tmp_path: Path) -> None:
    place = cloned(world, served, f"ssh://127.0.0.1:{ssh.port}{served}/project.git")
    moved_on(served, tmp_path)
    world.script(call("Bash", command="git pull --ff-only"), text("done"))
    world.agent("go", "--profile", "sandboxed")
    denied = world.entries("tool_result")[-1]["content"]
    assert denied.startswith("Denied by no_operator")
    assert "[permissions] allow" in denied
    assert not (place / "b.txt").exists()
    world.configure(more=f"[permissions]\nallow = {json.dumps(['Bash(git pull:*)', 'Bash(git push:*)'])}\n")
    world.script(call("Bash", command="git pull --ff-only"), text("done"))
    world.agent("go", "--profile", "sandboxed")
    assert (place / "b.txt").exists(), world.entries("tool_result")[-1]
    before = git(served / "project.git", "rev-parse", "main")
    world.script(call("Bash", command="git push --force origin HEAD~1:main"), text("done"))
    world.agent("go", "--profile", "sandboxed")
    assert "each time" in world.entries("tool_result")[-1]["content"]
    assert git(served / "project.git", "rev-parse", "main") == before


def test_a_force_is_never_granted_for_longer(world: World, ssh: Ssh, served: Path) -> None:
    cloned(world, served, f"ssh://127.0.0.1:{ssh.port}{served}/project.git")
    world.script(
        call("Bash", command="git push --force origin main"),
        call("Bash", command="git push --force origin main"),
        text("done"),
    )
    world.agent("go", stdin="a\n")
    assert [receipt["decision"]["verdict"] for receipt in world.receipts()] == ["deny", "deny"], "there is no always"
    world.agent("go", stdin="y\nn\n")
    assert [receipt["decision"]["verdict"] for receipt in world.receipts()][2:] == ["allow", "deny"]
