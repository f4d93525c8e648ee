"""What /etc/adderclaw says binds everybody: no file, variable, option or project loosens it, and nothing ignores it.

The program runs in a mount namespace with an /etc of its own; the place itself cannot be changed.
"""

import json
import os
from typing import Any

import pytest

from adderclaw.config import managed
from tests.acceptance.test_plugin_packages import hooks, install, plugin
from tests.acceptance.world import World, call, text
from tests.managed import Machine
from tests.program import Done
from tests.scripted import ScriptedModel

BOUNDS = """
[security]
autonomy = "supervised"
raw_bash = "deny"
network = "deny"
sandbox_required = true
forbidden_commands = ["curl"]
allowed_domains = ["docs.corp.example"]
registries = ["pypi.corp.example"]
[limits]
cost_usd = 1.0
tool_calls = 7
[runtime]
max_turns = 3
[receipts]
enabled = true
[telemetry]
enabled = false
[permissions]
deny = ["Read(secret.txt)"]
allowManagedPermissionRulesOnly = true
[managed]
providers = ["api.anthropic.com", "*.corp.example"]
mcp = ["mcp.corp.example", "/opt/servers/good"]
plugins = []
skills = ["/opt/skills"]
"""

LOOSE = """
[security]
autonomy = "full"
raw_bash = "ask"
network = "allow"
sandbox_required = false
forbidden_commands = ["rm"]
allowed_domains = ["*"]
registries = ["evil.example"]
[limits]
cost_usd = 500.0
tool_calls = 5
[runtime]
max_turns = 99
profile = "permissive"
[receipts]
enabled = false
[telemetry]
enabled = true
protocol = "otlp"
endpoint = "https://evil.example"
[permissions]
allow = ["Bash", "Read(secret.txt)"]
defaultMode = "bypassPermissions"
[managed]
providers = ["*"]
"""


class Managed(Machine):
    """A world whose /etc/adderclaw is a folder of the test's own."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cli)
        self.world = world

    def shown(self, *more: str) -> dict[str, Any]:
        done = self.world.cli("config", "show", "--origin", "--output-format", "json", *more)
        assert done.code == 0, done.err
        return json.loads(done.out)


@pytest.fixture
def bounded(world: World) -> Managed:
    made = Managed(world)
    made.write(BOUNDS)
    return made


def value(found: dict[str, Any], key: str) -> Any:
    here: Any = found["config"]
    for part in key.split("."):
        here = here[part]
    return here


BOUND: dict[str, object] = {
    "security.autonomy": "supervised",
    "security.raw_bash": "deny",
    "security.network": "deny",
    "security.sandbox_required": True,
    "security.forbidden_commands": ["curl", "rm"],
    "security.allowed_domains": ["docs.corp.example"],
    "security.registries": ["pypi.corp.example"],
    "limits.cost_usd": 1.0,
    "limits.tool_calls": 5,
    "runtime.max_turns": 3,
    "runtime.profile": "supervised",
    "receipts.enabled": True,
    "telemetry.enabled": False,
    "permissions.deny": ["Read(secret.txt)"],
    "permissions.allow": [],
    "permissions.defaultMode": "default",
    "managed.providers": ["api.anthropic.com", "*.corp.example"],
}


def test_nothing_that_a_user_sets_loosens_it(bounded: Managed) -> None:
    """By the user's own file, by a project's that is trusted, by `--config`: the same bounds hold."""
    world = bounded.world
    (world.cli.data / "config.toml").write_text(LOOSE, encoding="utf-8")
    elsewhere = world.workspace / "other.toml"
    elsewhere.write_text(LOOSE, encoding="utf-8")
    wrong: list[str] = []
    for options in ((), ("--config", str(elsewhere))):
        found = bounded.shown(*options)
        for key, wanted in BOUND.items():
            if value(found, key) != wanted:
                wrong.append(f"{options} {key}: {value(found, key)!r}, not {wanted!r}")
        origins = found["origins"]
        assert origins["limits.cost_usd"] == managed.FILE
        assert origins["security.autonomy"] == managed.FILE
        assert str(origins["limits.tool_calls"]) != managed.FILE, "a lower limit is the user's own"
        assert any(managed.FILE in warning for warning in found["warnings"])
    assert not wrong, "\n".join(wrong)
    assert not [*world.cli.data.glob("cache/config-*")], "what is kept lies where the user can write"


def test_options_variables_and_rows_do_not_either(bounded: Managed) -> None:
    world = bounded.world
    (world.workspace / "secret.txt").write_text("s\n", encoding="utf-8")
    world.script(text("hi"))
    for options in (("--profile", "permissive"), ("--profile", "sandboxed")):
        done = world.agent("hi", *options)
        assert done.code == 2, done.err
        assert f"{managed.FILE} allows supervised at most" in done.err
    world.script(call("file_read", path="secret.txt"), text("done"))
    done = world.agent("read it", "--permission-mode", "bypassPermissions", "--limit", "cost_usd=100")
    assert "permissions.defaultMode" in done.err
    assert "limits.cost_usd = 100" in done.err
    assert [receipt["status"] for receipt in world.receipts()] == ["denied"]
    row = json.dumps({"permissions": {"allow": ["Read"], "deny": [], "ask": []}, "hooks": []})
    import sqlite3

    with sqlite3.connect(world.database) as connection:
        connection.execute("UPDATE settings_snapshot SET json = ? WHERE scope = 'effective'", (row,))
    done = world.agent("read it again")
    assert [receipt["status"] for receipt in world.receipts()] == ["denied", "denied"], done.err


def test_a_provider_that_is_not_on_the_list_is_not_asked(bounded: Managed) -> None:
    world = bounded.world
    other = '[providers.models.other]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "{url}"\n'
    world.configure(more=other.format(url="https://evil.example/v1"))
    assert "no provider has the name 'other'" in world.agent("hi", "--provider", "other").err
    world.configure(more=other.format(url="https://llm.corp.example/v1"))
    assert "other" in value(bounded.shown(), "providers.models")
    chosen = 'default_provider = "other"\n' + other.format(url="https://evil.example/v1")
    (world.cli.data / "config.toml").write_text(chosen, encoding="utf-8")
    done = world.agent("hi")
    assert done.code == 2
    assert "uses evil.example, which the administrator of this machine does not allow" in done.err
    done = world.cli("config", "show", env={"OPENAI_BASE_URL": "https://evil.example"})
    assert done.code == 2


def test_no_variable_leads_an_allowed_provider_elsewhere(bounded: Managed) -> None:
    for variable, entry in (
        ("ANTHROPIC_BASE_URL", "anthropic"),
        ("ANTHROPIC_UNIX_SOCKET", "anthropic"),
        ("GOOGLE_GEMINI_BASE_URL", "gemini"),
    ):
        there = '[managed]\nproviders = ["api.anthropic.com", "generativelanguage.googleapis.com"]\n'
        bounded.write(there)
        bounded.world.cli.configure(f'default_provider = "{entry}"\n')
        assert bounded.world.cli("config", "show").code == 0
        done = bounded.world.cli("config", "show", env={variable: "https://evil.example"})
        stops(done, "which the administrator of this machine does not allow")


def test_bypass_that_is_switched_off_stays_off(world: World) -> None:
    made = Managed(world)
    made.write('[permissions]\ndisableBypassPermissionsMode = "disable"\n')
    world.cli.configure('[permissions]\ndefaultMode = "bypassPermissions"\n')
    found = made.shown()
    assert (value(found, "permissions.defaultMode"), value(found, "security.autonomy")) == ("default", "supervised")
    world.script(call("Write", file_path="a.txt", content="a"), text("done"))
    world.agent("write", "--permission-mode", "bypassPermissions")
    assert not (world.workspace / "a.txt").exists()


def test_options_that_count_after_the_files_are_bound_too(world: World) -> None:
    made = Managed(world)
    made.write("[runtime]\nmax_tool_rounds = 6\n[permissions]\nadditionalDirectories = []\n")
    other = world.cli.home / "other"
    other.mkdir()
    (other / "a.txt").write_text("elsewhere", encoding="utf-8")
    world.script(call("file_read", path=str(other / "a.txt")), *[call("file_list", path=".")] * 9, text("done"))
    world.cli("-p", "look", "--add-dir", str(other), cwd=world.workspace)
    statuses = [receipt["status"] for receipt in world.receipts()]
    assert statuses[0] == "denied", statuses
    assert len(statuses) <= 7, "the rounds, and the call that is one too many"


def test_a_hook_adds_no_rule_where_only_the_administrators_count(world: World) -> None:
    Managed(world).write("[permissions]\nallowManagedPermissionRulesOnly = true\n")
    rule = {"type": "addRules", "rules": [{"toolName": "Write"}], "behavior": "allow", "destination": "session"}
    decision = {"behavior": "allow", "updatedPermissions": [rule]}
    said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    answer = world.cli.home / "answer.json"
    answer.write_text(json.dumps(said), encoding="utf-8")
    hook = f'[[hooks]]\nhook_event_name = "PermissionRequest"\nmatcher = "*"\ncommand = "cat {answer}"\n'
    world.configure(more=hook)
    world.script(call("Write", file_path="a.txt", content="a"), text("done"))
    assert "only its administrator's allow rules count" in world.agent("write").err


def test_no_policy_of_a_user_allows_where_only_the_administrators_rules_do(world: World) -> None:
    made = Managed(world)
    made.write("[permissions]\nallowManagedPermissionRulesOnly = true\n")
    own = world.cli.data / "policy.toml"
    own.write_text('[write]\nallow = ["**"]\ndeny = ["**/b.txt"]\n', encoding="utf-8")
    world.script(call("Write", file_path="a.txt", content="a"), text("done"))
    done = world.agent("write")
    assert not (world.workspace / "a.txt").exists(), done.err
    assert f"{own}: its allow rules are ignored: {managed.FILE} permits none in other files" in done.err
    made.write('[write]\nallow = ["**"]\n', "policy.toml")
    world.script(
        call("Write", file_path="a.txt", content="a"), call("Write", file_path="b.txt", content="b"), text(".")
    )
    done = world.agent("write")
    assert (world.workspace / "a.txt").exists(), done.err
    assert not (world.workspace / "b.txt").exists(), "what the user's own denies counts"


@pytest.mark.parametrize("mode", ["plan", "dontAsk", "default"])
def test_no_session_goes_beyond_the_managed_mode(world: World, mode: str) -> None:
    Managed(world).write(f'[permissions]\ndefaultMode = "{mode}"\n')
    world.script(call("Write", file_path="a.txt", content="a"), text("done"))
    done = world.cli.typed("agent", stdin="/config mode=acceptEdits\nwrite\nn\n/exit\n")
    assert f"the mode acceptEdits is looser than {managed.FILE} allows" in done.err
    assert not (world.workspace / "a.txt").exists(), done.err
    done = world.cli.typed("agent", stdin="/config mode=plan\n/exit\n")
    assert "mode: plan, until this session ends" in done.out, "a stricter one is the user's own"


@pytest.mark.parametrize(
    ("mode", "profile"),
    [("plan", "supervised"), ("dontAsk", "supervised"), ("default", "supervised"), ("acceptEdits", "sandboxed")],
)
def test_a_managed_mode_bounds_autonomy_and_profile(world: World, mode: str, profile: str) -> None:
    made = Managed(world)
    made.write(f'[permissions]\ndefaultMode = "{mode}"\n')
    loose = '[security]\nautonomy = "full"\n[runtime]\nprofile = "permissive"\n'
    world.cli.configure(f'workspace_dir = "{world.workspace}"\n{loose}')
    found = made.shown()
    assert (value(found, "security.autonomy"), value(found, "runtime.profile")) == ("supervised", profile)
    stops(world.agent("hi", "--profile", "permissive"), f"{managed.FILE} allows {profile} at most")
    world.script(call("Write", file_path="a.txt", content="a"), call("Bash", command="docker run x"), text("done"))
    world.agent("write")
    written = "allowed" if mode == "acceptEdits" else "denied"
    assert [receipt["status"] for receipt in world.receipts()] == [written, "denied"]


@pytest.mark.parametrize("key", ["security.additional_directories", "permissions.additionalDirectories"])
def test_further_directories_are_bound_by_either_key_and_in_a_session(world: World, key: str) -> None:
    made = Managed(world)
    allowed, other = world.cli.home / "allowed", world.cli.home / "other"
    for folder in (allowed, other):
        (folder / "in").mkdir(parents=True)
        (folder / "in" / "a.txt").write_text("elsewhere", encoding="utf-8")
    made.write(f'{key} = ["{allowed}"]\n')
    there = f'["{other}"]'
    world.configure(
        security=f"additional_directories = {there}", more=f"[permissions]\nadditionalDirectories = {there}"
    )
    found = made.shown()
    for one in ("security.additional_directories", "permissions.additionalDirectories"):
        assert value(found, one) == [str(allowed)]
        assert any(f"{one} = " in warning and "is ignored" in warning for warning in found["warnings"])
    world.configure()
    read = [call("file_read", path=str(folder / "in" / "a.txt")) for folder in (other, allowed)]
    world.script(*read, text("done"))
    done = world.cli.typed("agent", stdin=f"/add-dir {other}\n/add-dir {allowed / 'in'}\nread\n/exit\n")
    assert f"is not added: {managed.FILE} allows {allowed}" in done.err
    assert [receipt["status"] for receipt in world.receipts()] == ["denied", "allowed"], done.err


@pytest.mark.parametrize("bound", ['network = "deny"', "workspace_only = true"])
def test_what_the_sandbox_holds_rules_out_the_profile_without_one(world: World, bound: str) -> None:
    made = Managed(world)
    made.write(f"[security]\n{bound}\n")
    world.configure(autonomy="full", more="")
    world.script(text("hi"))
    stops(world.agent("hi", "--profile", "permissive"), f"{managed.FILE} allows sandboxed at most")
    assert world.agent("hi", "--profile", "sandboxed").code == 0
    assert value(made.shown(), "security.autonomy") == "full", "nothing else is bound by it"


def test_no_variable_says_what_a_managed_path_is(world: World) -> None:
    Managed(world).write('[security]\nforbidden_paths = ["$CORP/secret"]\n')
    for value in ("/nowhere", "/srv"):
        stops(world.cli("config", "show", env={"CORP": value}), "contains a variable, which every user could set")


def test_servers_plugins_and_skills_come_from_the_list(bounded: Managed) -> None:
    world = bounded.world
    server = '[mcp_servers.bad]\nurl = "https://evil.example/mcp"\n[mcp_servers.worse]\ncommand = "npx"\nargs = ["x"]\n'
    world.configure(more=server)
    skill = world.cli.data / "skills" / "mine"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: mine\ndescription: d\n---\nhello\n", encoding="utf-8")
    plugin = world.cli.home / "plug"
    (plugin / "commands").mkdir(parents=True)
    (plugin / "commands" / "c.md").write_text("do it", encoding="utf-8")
    (plugin / ".claude-plugin").mkdir()
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "plug"}', encoding="utf-8")
    world.script(text("hi"))
    done = world.agent("hi", "--plugin-dir", str(plugin))
    assert "'bad' is denied" in done.err, done.err
    assert "'worse' is denied" in done.err
    assert "is not used: the administrator of this machine has not allowed its content" in done.err
    assert "mine" not in world.cli("skills", "list").out


def test_a_plugin_brings_skills_only_where_plugins_are_listed(world: World) -> None:
    made = Managed(world)
    folder = plugin(world.cli.home, "plug", **{"skills/mine/SKILL.md": "---\nname: mine\ndescription: d\n---\nhello\n"})
    content = install(world, folder)
    for more, counts in (("", False), (f'plugins = ["{content}"]\n', True)):
        made.write(f'[managed]\nskills = ["/opt/skills"]\n{more}')
        world.script(call("Skill", skill="plug:mine"), text("done"))
        world.agent("go")
        assert (world.receipts()[-1]["status"] == "allowed") is counts, more


def test_no_variable_leads_an_allowed_server_elsewhere(bounded: Managed) -> None:
    world = bounded.world
    world.configure(more='[mcp_servers.corp]\nurl = "https://${WHERE}@mcp.corp.example/mcp"\n')
    world.script(text("hi"))
    for where in ("evil.example/", "evil.example/?", "evil.example#", "evil.example\\", ""):
        world.cli.env["WHERE"] = where
        assert "'corp' is denied" in world.agent("hi").err, where
    world.configure(more='[mcp_servers.corp]\nurl = "https://${WHERE}corp.example/mcp"\n')
    world.cli.env["WHERE"] = "mcp."
    assert "'corp' is denied" not in world.agent("hi").err


def test_a_plugin_that_the_user_trusted_needs_the_administrators_word_too(world: World) -> None:
    """Installed and trusted by its hash, it brings nothing until that hash is on the list; a changed one is off it."""
    made = Managed(world)
    made.write("[managed]\nplugins = []\n")
    marker = world.cli.home / "ran"
    folder = plugin(world.cli.home, "loud", **{"hooks/hooks.json": hooks(f"touch {marker}", matcher="*")})
    content = install(world, folder)

    def listed() -> str:
        world.script(call("file_list", path="."), text("done"))
        return world.agent("look").err

    assert "the administrator of this machine has not allowed its content" in listed()
    assert not marker.exists()
    made.write(f'[managed]\nplugins = ["{content}"]\n')
    listed()
    assert marker.exists()
    marker.unlink()
    (folder / "more.txt").write_text("changed", encoding="utf-8")
    assert install(world, folder, "--upgrade") != content
    assert "has not allowed its content" in listed()
    assert not marker.exists()


def test_managed_hooks_run_whatever_the_user_switches_off(world: World) -> None:
    made = Managed(world)
    marker = world.cli.home / "seen"
    made.write(
        'allowManagedHooksOnly = true\n[[hooks]]\nhook_event_name = "PreToolUse"\nmatcher = "*"\n'
        f'command = "echo managed >> {marker}"\n'
    )
    mine = world.cli.home / "mine"
    loose = 'disableAllHooks = true\n[[hooks]]\nhook_event_name = "PreToolUse"\nmatcher = "*"\ncommand = "touch {}"\n'
    world.cli.configure(loose.format(mine) + '[providers.models.local]\nkind = "mock"\nmodel = "mock"\n')
    world.script(call("file_list", path="."), text("done"))
    done = world.agent("look")
    assert done.code == 0, done.err
    assert marker.exists(), done.err
    assert not mine.exists()
    marker.unlink()
    world.script(call("file_list", path="."), text("done"))
    world.cli.env["SDLC_DISABLE_ALL_HOOKS"] = "1"
    world.agent("look")
    assert marker.exists(), "a variable does not switch them off either"
    plugin = world.cli.home / "plug"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "plug"}', encoding="utf-8")
    (plugin / "hooks").mkdir()
    hook = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": f"touch {mine}"}]}]}}
    (plugin / "hooks" / "hooks.json").write_text(json.dumps(hook), encoding="utf-8")
    world.script(call("file_list", path="."), text("done"))
    world.agent("look", "--plugin-dir", str(plugin))
    assert not mine.exists(), "nor does a plugin bring others"


def test_a_managed_policy_denies_for_everybody(world: World) -> None:
    made = Managed(world)
    made.write('[file_read]\ndeny = ["*.secret"]\n', "policy.toml")
    (world.workspace / "a.secret").write_text("x", encoding="utf-8")
    world.configure(autonomy="full", more='[permissions]\nallow = ["Read"]\n')
    world.script(call("file_read", path="a.secret"), text("done"))
    world.agent("read")
    assert [receipt["status"] for receipt in world.receipts()] == ["denied"]


def stops(done: Done, why: str) -> None:
    assert done.code == 2, (done.out, done.err)
    assert why in done.err, done.err
    assert "Traceback" not in done.err


def test_what_is_broken_stops_the_program(bounded: Managed) -> None:
    world, file = bounded.world, bounded.folder / "managed.toml"
    for content, why in (
        ("limits = [", "managed.toml"),
        ("[limits]\ncost = 1\n", "unknown key"),
        ('[limits]\ncost_usd = "much"\n', "limits.cost_usd"),
        ('[permissions]\ndeny = ["Read("]\n', "is not a valid rule and is ignored"),
    ):
        bounded.write(content)
        stops(world.cli("config", "validate"), why)
    bounded.write(BOUNDS)
    bounded.write("nonsense = [", "policy.toml")
    stops(world.cli("config", "validate"), "policy.toml")
    (bounded.folder / "policy.toml").unlink()
    file.chmod(0o666)
    stops(world.cli("config", "validate"), "is writable by users other than root (mode 666)")
    assert "is writable by users other than root" in world.cli("doctor").out
    file.chmod(0o644)
    file.unlink()
    file.symlink_to("/dev/null")
    stops(world.cli("config", "validate"), "cannot be read")
    file.unlink()
    file.mkdir()
    stops(world.cli("config", "validate"), "managed.toml: is not a regular file")
    file.rmdir()
    bounded.folder.chmod(0o777)
    stops(world.cli("config", "validate"), "/etc/adderclaw: is writable by users other than root")
    bounded.folder.chmod(0o755)
    if os.geteuid() == 0:
        bounded.write(BOUNDS)
        os.chown(file, 12345, 0)
        stops(world.cli("config", "validate"), "belongs to the user 12345 instead of root")


# ------------------------------------------------------------------ money


DEAR = "input_per_mtok = 10.0\noutput_per_mtok = 100.0\n"
LEAST = f'[limits]\ncost_usd = 0.65\n[models."priced*"]\n{DEAR}'
FREE = "input_per_mtok = 0.0\noutput_per_mtok = 0.0\n"
USAGE = {"prompt_tokens": 10_000, "completion_tokens": 1_000}
"""$0.20 at the administrator's prices."""


def test_nobody_makes_a_model_cheaper_than_the_administrator(world: World) -> None:
    """By its name, or by a pattern: the money of the limit is counted by the administrator's prices."""
    Managed(world).write(LEAST)
    for named in ("priced-1", "priced-*", "*"):
        with ScriptedModel([{**call("Time"), "usage": USAGE}] * 3) as server:
            here = f'kind = "openai-compatible"\nbase_url = "{server.base_url}"\nmodel = "priced-1"\n'
            world.configure(more=f'[providers.models.here]\n{here}[models."{named}"]\n{FREE}')
            done = world.agent("go", "--provider", "here")
        assert done.code == 4, (named, done.err)
        assert "$0.6000 spent" in done.err, done.err
        assert len(server.requests) == 3


def test_prices_that_only_the_managed_table_names_bind_every_limit(world: World) -> None:
    Managed(world).write(f'[managed.prices."priced*"]\n{DEAR}')
    with ScriptedModel([{**call("Time"), "usage": USAGE}] * 3) as server:
        here = f'kind = "openai-compatible"\nbase_url = "{server.base_url}"\nmodel = "priced-1"\n'
        limit = "[limits]\ncost_usd = 0.65\n"
        world.configure(more=f'{limit}[providers.models.here]\n{here}[models."priced-1"]\n{FREE}')
        done = world.agent("go", "--provider", "here")
    assert done.code == 4, done.err
    assert "$0.6000 spent" in done.err, done.err


def test_the_packaged_prices_are_the_least_where_money_is_limited(world: World) -> None:
    made = Managed(world)
    made.write("[limits]\ncost_usd = 0.000001\n")
    with ScriptedModel([]) as server:
        here = f'kind = "openai-compatible"\nbase_url = "{server.base_url}"\nmodel = "gpt-4o"\n'
        world.configure(more=f'[providers.models.here]\n{here}[models."gpt-4o"]\n{FREE}')
        done = world.agent("go", "--provider", "here")
    assert done.code == 4, done.err
    assert server.requests == []


def test_a_dearer_price_of_ones_own_counts(world: World) -> None:
    Managed(world).write(LEAST)
    with ScriptedModel([]) as server:
        here = f'kind = "openai-compatible"\nbase_url = "{server.base_url}"\nmodel = "priced-1"\n'
        mine = '[models."priced-1"]\ninput_per_mtok = 9000.0\noutput_per_mtok = 9000.0\n'
        world.configure(more=f"[providers.models.here]\n{here}{mine}")
        done = world.agent("go", "--provider", "here")
    assert done.code == 4, done.err
    assert server.requests == []


# ------------------------------------------------------------------ schedules


def test_a_schedule_begins_its_run_within_the_bounds(world: World) -> None:
    """Its own limits and profile, and the user's settings, loosen nothing of what a tick begins."""
    made = Managed(world)
    made.write('[limits]\ntool_calls = 1\n[permissions]\ndeny = ["Read(secret.txt)"]\n')
    (world.workspace / "secret.txt").write_text("s\n", encoding="utf-8")
    world.configure(autonomy="full", more='[permissions]\nallow = ["Read"]\n')
    world.script(call("file_read", path="secret.txt"), *[call("file_list", path=".")] * 3, text("done"))
    what = ("--message", "read it", "--limit", "tool_calls=50")
    done = world.cli("schedule", "add", "one", "--every", "1h", *what)
    assert done.code == 0, done.err
    done = world.cli("schedule", "run", "one")
    assert world.receipts()[0]["status"] == "denied", done.err
    ((outcome, reason),) = world.rows("SELECT outcome, reason FROM runs")
    assert (outcome, "limits.tool_calls" in reason) == ("limit", True)


@pytest.mark.parametrize(
    ("bound", "key"),
    [
        ('[permissions]\ndefaultMode = "default"', "security.autonomy"),
        ('[runtime]\nprofile = "readonly"', "security.autonomy"),
        ("[permissions]\nallowManagedPermissionRulesOnly = true", "permissions.allow"),
        ("allowManagedHooksOnly = true", "hooks"),
        ('[[hooks]]\nhook_event_name = "Stop"\ncommand = "true"', "disableAllHooks"),
        ("", "managed.prices.gpt*.input_per_mtok"),
    ],
)
def test_what_does_not_count_is_said(world: World, bound: str, key: str) -> None:
    made = Managed(world)
    made.write(f"{bound}\n")
    hook = '[[hooks]]\nhook_event_name = "Stop"\ncommand = "false"\n'
    rules = '[permissions]\nallow = ["Read"]\n[managed.prices."gpt*"]\ninput_per_mtok = 0.1\n'
    world.cli.configure(f'disableAllHooks = true\n[security]\nautonomy = "full"\n{rules}{hook}')
    found = made.shown()
    assert len([one for one in found["warnings"] if f": {key} = " in one and managed.FILE in one]) == 1, found
    assert key not in found["origins"] or found["origins"][key] == managed.FILE


def test_doctor_shows_it(bounded: Managed) -> None:
    out = bounded.world.cli("doctor").out
    assert "managed" in out
    assert "/etc/adderclaw limits" in out
    assert "not read" not in out
    bounded.write("[limits]\ncost_usd = 1.0\n", "config.toml")
    assert "/etc/adderclaw has files that are not read: config.toml" in bounded.world.cli("doctor").out
