"""A project's file: what it may set before it is trusted, after, and never. A table of cases."""

import json
from typing import Any

import pytest
import yaml

from adderclaw.config.baseline import BASELINE, EVERYWHERE, TIGHTEN
from adderclaw.config.leaves import leaves
from adderclaw.config.schema import Config
from adderclaw.core.json_text import to_json
from tests.config.conftest import World

USER = """
[security]
allowed_commands = ["just", "tox"]
[channels.cli]
tools_allow = ["Read", "LS", "Bash"]
"""


def nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def value_of(world: World, key: str) -> Any:
    here: Any = to_json(world.load().config)
    for part in key.split("."):
        here = here[part]
    return here


LOOSENS: list[tuple[str, Any]] = [
    ("security.autonomy", "full"),
    ("security.workspace_only", False),
    ("security.allowed_commands", ["curl"]),
    ("security.allowed_domains", ["evil.example"]),
    ("security.additional_directories", ["/srv"]),
    ("security.raw_bash", "ask"),
    ("security.network", "allow"),
    ("runtime.max_tool_rounds", 50),
    ("runtime.shell_timeout_seconds", 900.0),
    ("limits.cost_usd", 500.0),
    ("limits.tokens", 9_999_999),
    ("channels.cli.tools_allow", ["*"]),
    ("channels.cli.tools_allow", ["Read", "LS", "Bash", "Write"]),
    ("channels.cli.enabled", False),
    ("permissions.allow", ["Bash"]),
    ("permissions.defaultMode", "acceptEdits"),
    ("permissions.additionalDirectories", ["/srv"]),
    ("telemetry.path", "/tmp/t"),
    ("logging.debug_llm_bodies", True),
    ("logging.jsonl_dir", "/tmp/runs"),
    ("default_model", "x"),
    ("agent_id", "x"),
    ("workspace_dir", "/srv"),
    ("web.gateway_url", "https://evil.example"),
    ("providers.models.openai_compatible.base_url", "https://evil.example"),
    ("providers.models.evil", {"kind": "openai", "model": "x"}),
    ("hooks", [{"hook_event_name": "Stop", "command": "id"}]),
    ("mcp_servers.evil", {"command": "id"}),
]


@pytest.mark.parametrize(("key", "value"), LOOSENS)
def test_an_untrusted_project_cannot_loosen(world: World, key: str, value: Any) -> None:
    world.user(USER)
    before = to_json(world.load().config)
    project = world.project(yaml.safe_dump(nested(key, value)))
    loaded = world.load()
    assert to_json(loaded.config) == before
    assert loaded.trusted is False
    (warning,) = loaded.warnings
    assert warning.startswith(f"{project}: ")
    assert key.rpartition(".")[2] in warning
    assert f"adderclaw trust {world.root}" in warning


@pytest.mark.parametrize(
    ("key", "value"), [case for case in LOOSENS if case[0] not in ("providers.models.evil", "logging.jsonl_dir")]
)
def test_a_trusted_project_can(world: World, key: str, value: Any) -> None:
    world.user(USER)
    world.project(yaml.safe_dump(nested(key, value)))
    world.trust()
    loaded = world.load()
    assert loaded.trusted
    assert loaded.warnings == ()
    assert value_of(world, key) == value


def test_no_project_lets_another_programs_settings_count(world: World) -> None:
    world.user(USER)
    world.project(yaml.safe_dump(nested("compat.claude", True)))
    world.trust()
    assert "is ignored" in world.load().warnings[0]
    assert value_of(world, "compat.claude") is False


TIGHTENS: list[tuple[str, Any, Any]] = [
    ("security.autonomy", "readonly", "readonly"),
    ("security.forbidden_commands", ["curl"], ["rm", "shutdown", "reboot", "mkfs", "dd", "curl"]),
    ("security.allowed_commands", ["just"], ["just"]),
    ("runtime.profile", "readonly", "readonly"),
    ("runtime.max_turns", 2, 2),
    ("limits.tool_calls", 0, 0),
    ("limits.seconds", 60.0, 60.0),
    ("channels.cli.tools_allow", ["LS"], ["LS"]),
    ("channels.cli.tools_allow", [], []),
    ("permissions.deny", ["Write"], ["Write"]),
    ("permissions.ask", ["Bash(git push:*)"], ["Bash(git push:*)"]),
    ("permissions.defaultMode", "plan", "plan"),
    ("permissions.disableBypassPermissionsMode", "disable", "disable"),
]


@pytest.mark.parametrize(("key", "value", "expected"), TIGHTENS)
def test_an_untrusted_project_can_tighten(world: World, key: str, value: Any, expected: Any) -> None:
    world.user(USER)
    world.project(yaml.safe_dump(nested(key, value)))
    loaded = world.load()
    assert value_of(world, key) == expected
    assert loaded.warnings == ()


WEAKENS: list[tuple[str, Any]] = [
    ("security.forbidden_commands", []),
    ("security.forbidden_commands", ["rm"]),
    ("security.forbidden_paths", []),
    ("security.audit_log", False),
    ("receipts.enabled", False),
    ("receipts.path", "/tmp/r.log"),
    ("memory.path", "/tmp/m.sqlite"),
    ("runtime.profile", "permissive"),
    ("runtime.shell_linux", "/tmp/bash"),
    ("runtime.shell_windows", "/tmp/pwsh"),
    ("logging.redact_secrets", False),
    ("logging.sanitize_control_chars", False),
    ("permissions.defaultMode", "bypassPermissions"),
]


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(("key", "value"), WEAKENS)
def test_no_project_weakens_the_baseline(world: World, key: str, value: Any, trusted: bool) -> None:
    before = value_of(world, key)
    world.project(yaml.safe_dump(nested(key, value)))
    if trusted:
        world.trust()
    loaded = world.load()
    assert value_of(world, key) == before
    (warning,) = loaded.warnings
    assert f"{key} = " in warning
    assert "is ignored" in warning


def test_tools_of_an_untrusted_project_are_those_that_the_user_allows_too(world: World) -> None:
    world.user(USER)
    world.project("channels: {cli: {tools_allow: [Write, LS]}}")
    loaded = world.load()
    assert loaded.config.channels.cli.tools_allow == ["LS"]
    assert "channels.cli.tools_allow" in loaded.warnings[0]


def test_the_user_may_do_all_that_except_show_secrets(world: World) -> None:
    world.user(
        "[security]\nforbidden_commands = []\naudit_log = false\n[receipts]\nenabled = false\n"
        "[runtime]\nprofile = 'permissive'\n[logging]\nredact_secrets = false"
    )
    loaded = world.load()
    assert loaded.config.security.forbidden_commands == []
    assert not loaded.config.receipts.enabled
    assert loaded.config.runtime.profile == "permissive"
    assert loaded.config.logging.redact_secrets
    assert "cannot be turned off" in loaded.warnings[0]


def test_the_sandbox_cannot_be_switched_off_by_settings(world: World) -> None:
    world.settings(sandbox={"enabled": False})
    world.trust()
    loaded = world.load()
    assert loaded.config.runtime.profile == "sandboxed"
    assert "cannot change the sandbox" in loaded.warnings[0]


SANDBOX = {
    "enabled": True,
    "failIfUnavailable": True,
    "autoAllowBashIfSandboxed": True,
    "excludedCommands": ["docker *"],
    "filesystem": {"denyRead": ["~/.aws", "./priv/**"], "denyWrite": ["./fixed"], "allowWrite": ["/opt"]},
    "credentials": {"files": [{"path": "./token", "mode": "mask"}], "envVars": [{"name": "X", "mode": "deny"}]},
    "network": {"allowedDomains": ["a.example"], "deniedDomains": ["*.b.example"], "strictAllowlist": True},
}
DENIED = ["Read(~/.aws)", "Read(./priv/**)", "Edit(./fixed)", "Read(./token)", "WebFetch(domain:*.b.example)"]


def test_what_tightens_in_the_sandbox_of_a_settings_file_counts(world: World) -> None:
    own = {"sandbox": SANDBOX, "permissions": {"deny": ["Grep"], "defaultMode": "manual"}}
    world.user(json.dumps(own), "settings.json")
    loaded = world.load()
    assert loaded.config.permissions.deny == ["Grep", *DENIED]
    assert loaded.config.permissions.defaultMode == "default"
    assert loaded.config.security.sandbox_required
    assert loaded.config.security.allowed_domains == ["a.example"]
    (said,) = [warning for warning in loaded.warnings if "have no effect" in warning]
    told = said.rpartition(": ")[2].replace("sandbox.", "").split(", ")
    assert told == ["autoAllowBashIfSandboxed", "excludedCommands", "filesystem.allowWrite"]


def test_a_project_that_is_not_trusted_only_tightens_the_sandbox(world: World) -> None:
    outside = {"blockReadsOutsideWorkingDirectories": True}
    world.user("[security]\nworkspace_only = false")
    world.settings(sandbox=SANDBOX, permissions=outside)
    loaded = world.load()
    assert loaded.config.permissions.deny == DENIED
    assert loaded.config.security.sandbox_required
    assert loaded.config.security.workspace_only
    assert loaded.config.security.allowed_domains == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (True, "sandbox: expected a table"),
        ({"enabledd": True}, "sandbox.enabledd: unknown key"),
        ({"network": {"denied": []}}, "sandbox.network.denied: unknown key"),
        ({"filesystem": {"denyRead": "x"}}, "sandbox.filesystem.denyRead: expected a list of texts"),
        ({"filesystem": 3}, "sandbox.filesystem: unknown key"),
        ({"credentials": {"files": ["x"]}}, "sandbox.credentials.files: expected a list of texts"),
        ({"filesystem": {"denyRead": [""]}}, "expected a list of texts"),
    ],
)
def test_a_sandbox_that_makes_no_sense_is_refused(world: World, given: Any, said: str) -> None:
    world.settings(sandbox=given)
    assert any(said in problem for problem in world.problems())


def test_allow_rules_of_a_project_when_only_managed_ones_count(world: World) -> None:
    world.user("[permissions]\nallowManagedPermissionRulesOnly = true\nallow = ['Read']")
    world.settings(permissions={"allow": ["Bash"], "deny": ["Write"]})
    world.trust()
    loaded = world.load()
    assert loaded.config.permissions.allow == ["Read"]
    assert loaded.config.permissions.deny == ["Write"]
    assert "permissions.allow" in loaded.warnings[0]


def test_every_key_of_the_tables_is_in_the_schema() -> None:
    known = {leaf.key for leaf in leaves(to_json(Config()))}
    assert {*TIGHTEN, *BASELINE, *EVERYWHERE} <= known


def test_a_project_in_the_users_workspace_is_no_different(world: World) -> None:
    """What the agent wrote into its own workspace must not loosen the next run."""
    (world.home / "adderclaw-workspace" / "agent.yaml").write_text("security: {autonomy: full}\nlimits: {tokens: 7}")
    loaded = world.load(cwd="/")
    assert loaded.workspace == str(world.home / "adderclaw-workspace")
    assert (loaded.config.security.autonomy, loaded.config.limits.tokens) == ("supervised", 7)
    assert not loaded.trusted
