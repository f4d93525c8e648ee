"""A policy from the configuration, and that the gate looks at nothing by itself."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adderclaw import policy as gate
from adderclaw.config.schema import Config, Permissions, Security
from adderclaw.core.types import PathFact, Touch
from adderclaw.policy.case import Case


def policy(config: Config, **more: Any) -> gate.Policy:
    return gate.policy_of(config, "/ws", "/home/u/.adderclaw", real=lambda path: path, **more)


@pytest.mark.parametrize(
    ("profile", "autonomy", "workspace_only"),
    [
        (None, "supervised", True),
        ("supervised", "supervised", True),
        ("sandboxed", "full", True),
        ("readonly", "readonly", True),
        ("permissive", "full", False),
    ],
)
def test_profiles(profile: str | None, autonomy: str, workspace_only: bool) -> None:
    made = policy(Config(), profile=profile)
    assert (made.autonomy, made.workspace_only) == (autonomy, workspace_only)
    assert not made.sandboxed


def test_lists_and_directories() -> None:
    security = Security(additional_directories=["/lib"], forbidden_paths=["/etc"], allowed_commands=["pulumi"])
    permissions = Permissions(
        deny=["shell(git push *)", "Bash("], additionalDirectories=["sub/../other"], defaultMode="bypassPermissions"
    )
    made = policy(Config(security=security, permissions=permissions), aliases={"shell": "Bash"})
    assert made.roots == ("/ws", "/lib", "/ws/other")
    assert made.forbidden_paths == ("/etc",)
    assert [rule.tool for rule in made.rules.deny] == ["Bash"]
    assert len(made.rules.warnings) == 1
    assert made.mode == "bypassPermissions"
    disabled = replace(permissions, disableBypassPermissionsMode="disable")
    assert policy(Config(permissions=disabled)).mode == "default"


def test_links_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    made = gate.policy_of(Config(), str(tmp_path / "link"), str(tmp_path / "home"))
    assert made.roots == (str(tmp_path / "link"), str(tmp_path / "real"))


def test_a_symlinked_home_is_protected_under_both_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "ws").mkdir()
    made = gate.policy_of(Config(), str(tmp_path / "ws"), str(tmp_path / "link"), "permissive")
    for name in ("link", "real"):
        path = str(tmp_path / name / "ESTOP")
        touch = Touch(writes=(PathFact(path, path, str(tmp_path / "real" / "ESTOP")),))
        case = Case(tool="Write", called_as="Write", arguments={}, touch=touch, policy=made)
        assert gate.judge(case).by == "protected"


def test_nothing_heavy_is_imported_and_nothing_is_opened() -> None:
    script = """
import sys
opened = []
import adderclaw.policy, adderclaw.policy.legacy.shell.planner, adderclaw.policy.rules, adderclaw.policy.verdict
import re, unicodedata, ipaddress
heavy = {"tree_sitter", "pydantic", "pathspec", "subprocess", "tempfile", "logging", "urllib.request"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
from adderclaw.policy.case import Case, Policy
from adderclaw.core.types import PathFact, Touch, HostFact
policy = Policy(workspace="/ws", roots=("/ws",), forbidden_paths=("/etc",), home="/h", own_files=("/h/x",))
touch = Touch((PathFact("a", "/ws/a", "/ws/a"),), (PathFact("b", "/ws/b", "/etc/b"),),
              (HostFact("GET", "http://127.0.0.1/", "127.0.0.1", 80, "http"),))
case = Case(tool="Write", called_as="Write", arguments={}, touch=touch, policy=policy)
sys.addaudithook(lambda event, args: opened.append(event) if event in ("open", "os.listdir", "os.scandir") else None)
decision = adderclaw.policy.judge(case)
assert decision.verdict == "deny" and not opened, opened
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
