"""Hardened git runs no program that a repository names: a canary in each place where git would look for one."""

import pytest

from tests.security.world import Den

HOOKS = ("reference-transaction", "pre-commit", "commit-msg", "post-commit", "post-checkout", "post-index-change")


def plant_hooks(den: Den, folder: str = ".git/hooks") -> None:
    for name in HOOKS:
        hook = den.workspace / folder / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{den.workspace}/ran-{name}'\n")
        hook.chmod(0o755)


def ran(den: Den) -> list[str]:
    return sorted(path.name for path in den.workspace.rglob("ran-*"))


@pytest.mark.parametrize("profile", ["supervised", "sandboxed"])
def test_no_hook_runs_whether_or_not_git_reads_where_hooks_are(profile: str, anyone: Den) -> None:
    plant_hooks(anyone)
    made = anyone.attack("git bisect start", "git checkout -b other", arguments=("--profile", profile))
    assert ran(anyone) == []
    assert "On branch" in anyone.git("status")
    assert all(receipt["decision"]["verdict"] == "allow" for receipt in made.receipts), made.receipts
