"""Which repositories a worker clones: those of a host elsewhere; what is on its own disk only if it says so itself."""

import subprocess
from pathlib import Path

import pytest

from adderclaw.core.errors import UsageError
from adderclaw.fleet import places
from adderclaw.fleet.state import clone

COMMIT = "0" * 40
CLONED = [
    "https://github.com/o/r",
    "https://git.example:8443/o/r.git",
    "ssh://git@git.example:22/o/r",
    "ssh://git.example/r",
    "git@github.com:o/r.git",
]
REFUSED = [
    "",
    "/srv/secret",
    "./here",
    "../there",
    "~/repo",
    "here",
    "file:///srv/secret",
    "file://localhost/srv/secret",
    "ext::sh -c touch% x",
    "http://git.example/r",
    "git://git.example/r",
    "ftp://git.example/r",
    "https:///srv/secret",
    "https://git.example",
    "https://me:password@git.example/r",
    "https://token@git.example/r",
    "ssh://me:password@git.example/r",
    "ssh://-oProxyCommand=x/r",
    "-oProxyCommand=x@git.example:r",
    "git@-oProxyCommand=x:r",
    "git.example:r",
    "https://git.example/r\n--upload-pack=x",
    "--upload-pack=x",
]


@pytest.mark.parametrize("url", REFUSED)
def test_what_is_no_repository_elsewhere_is_refused_on_both_sides(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        places.resolve_ref_to_commit(f"{url}@{COMMIT}", local=False)
    with pytest.raises(UsageError, match="cannot be cloned by a worker"):
        clone(url, COMMIT, str(tmp_path / "two"))
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize("url", CLONED)
def test_a_repository_elsewhere_is_submitted(url: str) -> None:
    assert places.resolve_ref_to_commit(f"{url}@{COMMIT}", local=False) == {"repo": url, "commit": COMMIT}
    assert places.split_ref(f"{url}@feature/x") == (url, "feature/x")
    assert places.split_ref(url) == (url, "HEAD")  # what is behind this @ is a host


def test_a_branch_is_none_that_only_ends_so(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "tag.gpgSign=false")
        done = subprocess.run(["git", *who, "-C", tmp_path, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "one")
    one = git("rev-parse", "HEAD")
    git("checkout", "-q", "-b", "z/main")
    git("commit", "-q", "--allow-empty", "-m", "two")
    git("tag", "-a", "-m", "x", "v1", one)
    git("branch", "y/v1")
    two = git("rev-parse", "HEAD")
    refs = {"main": one, "z/main": two, "refs/heads/main": one, "v1": one, "tags/v1": one, "heads/main": one}
    for ref, commit in {**refs, "HEAD": two}.items():
        assert places.resolve_ref_to_commit(f"{tmp_path}@{ref}", local=True)["commit"] == commit, ref
    with pytest.raises(UsageError, match="it has no none"):
        places.resolve_ref_to_commit(f"{tmp_path}@none", local=True)


def test_a_path_is_cloned_only_where_the_machine_says_so() -> None:
    assert places.resolve_ref_to_commit(f"/srv/r@{COMMIT}", local=True) == {"repo": "/srv/r", "commit": COMMIT}
    for url in ("./here", "http://git.example/r", "ext::sh", ""):
        with pytest.raises(UsageError):
            places.require_reachable(url, local=True)
