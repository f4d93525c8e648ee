"""policy.toml through the installed program: in home and in a project, trusted or not, and `policy check`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text
from tests.policy.test_policy_file import SEED


def explained(world: World, tool: str, **arguments: Any) -> dict[str, Any]:
    done = world.cli("tool", "explain", tool, "--json", json.dumps(arguments), "--output-format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def of_home(world: World, policy: str) -> None:
    (world.cli.data / "policy.toml").write_text(policy, encoding="utf-8")


def of_project(world: World, policy: str) -> None:
    folder = world.workspace / ".adderclaw"
    folder.mkdir(exist_ok=True)
    (folder / "policy.toml").write_text(policy, encoding="utf-8")


def test_what_is_not_allowed_is_denied(world: World) -> None:
    world.configure(autonomy="full")
    of_home(world, SEED)
    world.script(
        call("time"), call("Bash", command="find ."), call("file_write", path="a.txt", content="x"), text("ok")
    )
    assert world.agent("go").code == 0
    assert [receipt["status"] for receipt in world.receipts()] == ["denied", "denied", "allowed"]
    assert {receipt["decision"]["by"] for receipt in world.receipts()} == {"policy.toml"}
    assert "no section for Time" in world.receipts()[0]["decision"]["reason"]


def test_a_grant_of_home_is_not_asked_about(world: World) -> None:
    of_home(world, '[write]\nallow = ["$WORKSPACE/out/**"]')
    world.script(
        call("file_write", path="out/a.txt", content="x"), call("file_write", path="b.txt", content="x"), text("ok")
    )
    done = world.agent("go", stdin="n\n")
    assert "Approve?" not in done.err
    assert (world.workspace / "out" / "a.txt").exists()
    assert not (world.workspace / "b.txt").exists(), "the list does not cover it"


def test_a_project_tightens_until_it_is_trusted(world: World) -> None:
    of_project(world, '[write]\nallow = ["$WORKSPACE/**"]\n[time]\nenabled = false')
    write = {"path": "a.txt", "content": "x"}
    assert explained(world, "file_write", **write)["verdict"] == "ask"
    assert explained(world, "time")["verdict"] == "deny"
    assert "not trusted" in world.cli("config", "show").out
    assert world.cli("trust", str(world.workspace)).code == 0
    assert explained(world, "file_write", **write)["verdict"] == "allow"
    assert explained(world, "time")["verdict"] == "deny"
    of_project(world, '[write]\nallow = ["$WORKSPACE/**"]\n[time]\nenabled = true')
    assert explained(world, "file_write", **write)["verdict"] == "ask", "one changed byte asks again"


def test_a_policy_at_the_root_of_a_project_applies(world: World) -> None:
    (world.workspace / "policy.toml").write_text('[read]\nenabled = false\n[write]\nallow = ["$WORKSPACE/out/**"]')
    (world.workspace / "a.txt").write_text("text")
    write = {"path": "out/a.txt", "content": "x"}
    assert explained(world, "Read", file_path="a.txt")["by"] == "policy.toml"
    assert explained(world, "file_write", **write)["verdict"] == "ask", "it allows nothing until it is trusted"
    assert explained(world, "file_write", path="b.txt", content="x")["verdict"] == "deny"
    assert world.cli("tool", "run", "Read", "--json", '{"file_path": "a.txt"}').code == 3
    world.script(call("file_read", path="a.txt"), text("ok"))
    world.agent("go")
    assert [receipt["decision"]["by"] for receipt in world.receipts()][-1] == "policy.toml"
    assert str(world.workspace / "policy.toml") in world.cli("config", "show").out
    world.cli("trust", str(world.workspace))
    assert explained(world, "file_write", **write)["verdict"] == "allow"


def test_a_policy_that_does_not_apply_is_named(world: World) -> None:
    (world.workspace / "policy.toml").write_text('[server]\nport = 1\n[[rules]]\nid = "another program"')
    below = world.workspace / "below"
    below.mkdir()
    (below / "policy.toml").write_text("[time]\nenabled = false")
    shown = world.cli("config", "show", cwd=below).out
    assert f"{world.workspace}/policy.toml: none of its keys (server, rules) is a section of a policy" in shown
    assert f"{below}/policy.toml does not apply: " in shown
    assert explained(world, "time")["verdict"] == "allow"


def test_a_trusted_project_does_not_lift_what_home_denies(world: World) -> None:
    of_home(world, '[write]\ndeny = ["$WORKSPACE/**"]')
    of_project(world, '[write]\nallow = ["$WORKSPACE/**"]')
    world.cli("trust", str(world.workspace))
    assert explained(world, "file_write", path="a.txt", content="x")["verdict"] == "deny"


def test_another_configuration_leaves_no_denial_out(world: World, tmp_path: Path) -> None:
    of_home(world, "[time]\nenabled = false")
    other = tmp_path / "other.toml"
    other.write_text(f'workspace_dir = "{world.workspace}"\n')
    done = world.cli("tool", "explain", "time", "--config", str(other), "--output-format", "json")
    assert json.loads(done.out)["verdict"] == "deny"


def test_a_malformed_file_stops_everything(world: World) -> None:
    of_home(world, 'default_deny = "yes"\n[read]\nallowd = []\n[bash]\nallowlist = 3')
    done = world.cli("agent", "-m", "hi")
    assert done.code == 2
    for said in ("default_deny", 'did you mean "allow"', "bash.allowlist"):
        assert said in done.err
    assert "Traceback" not in done.err


def test_an_example_that_does_not_hold_stops_everything(world: World) -> None:
    of_home(world, "[bash]\ndenylist = [{pattern = 'git push *', match = ['git pull']}]")
    done = world.cli("agent", "-m", "hi")
    assert done.code == 2
    assert "'git push *' does not match its example 'git pull'" in done.err


def test_a_kept_configuration_notices_a_changed_policy(world: World) -> None:
    for policy, verdict in (("[time]\nenabled = false", "deny"), ("[time]\nenabled = true", "allow")) * 2:
        of_home(world, policy)
        assert explained(world, "time")["verdict"] == verdict
        assert explained(world, "time")["verdict"] == verdict


def test_a_rate_limit_holds(world: World) -> None:
    of_home(world, "[time]\nrate_limit = 2")
    world.script(call("time"), call("time"), call("time"), text("ok"))
    world.agent("go")
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed", "allowed", "denied"]
    assert "rate_limit = 2" in world.receipts()[2]["decision"]["reason"]


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
def test_a_search_shows_nothing_of_a_denied_file(world: World, mode: str) -> None:
    of_home(world, '[read]\ndeny = ["**/.env"]')
    (world.workspace / "a").mkdir()
    (world.workspace / "a" / ".env").write_text("KEY=hidden-word\nmore\n")
    (world.workspace / "a" / "b.txt").write_text("KEY=open-word\nmore\n")
    given = json.dumps({"pattern": "KEY", "output_mode": mode, "-A": 1})
    done = world.cli("tool", "run", "Grep", "--json", given)
    assert done.code == 0, done.err
    assert "b.txt" in done.out
    assert ".env" not in done.out
    assert "hidden-word" not in done.out


def test_the_model_cannot_touch_the_policy(world: World) -> None:
    world.configure(autonomy="full")
    of_home(world, "[time]\nenabled = true")
    of_project(world, "[time]\nenabled = true")
    (world.workspace / "twin").hardlink_to(world.workspace / ".adderclaw" / "policy.toml")
    paths = [".adderclaw/policy.toml", str(world.cli.data / "policy.toml"), "twin"]
    world.script(*(call("file_write", path=path, content="") for path in paths), text("ok"))
    world.agent("go")
    assert [receipt["status"] for receipt in world.receipts()] == ["denied"] * 3


# ------------------------------------------------------------------ policy check


def test_policy_check(world: World, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(SEED)
    done = world.cli("policy", "check", str(file))
    assert done.code == 0, done.err
    assert "valid" in done.out
    assert "11 sections" in done.out
    bash = ("policy", "check", str(file), "--tool", "bash", "--output-format", "json", "--json")
    allowed = json.loads(world.cli(*bash, '{"command": "git status"}').out)
    assert (allowed["policy"]["verdict"], allowed["decision"]["verdict"]) == ("allow", "allow")
    denied = json.loads(world.cli(*bash, '{"command": "sudo ls"}').out)
    assert (denied["policy"]["verdict"], denied["decision"]["verdict"]) == ("deny", "deny")
    assert "sudo *" in denied["policy"]["reason"]
    said = world.cli("policy", "check", str(file), "--tool", "Read", "--json", '{"file_path": "a"}').out
    assert "policy: allow" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[read]\nallow = 3", "read.allow"),
        ("[reed]", "reed"),
        ("[bash]\nallowlist = [{pattern='a', match=['b']}]", "a"),
    ],
)
def test_policy_check_of_a_wrong_file(world: World, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(content)
    done = world.cli("policy", "check", str(file))
    assert done.code == 2
    assert said in done.err
    found = json.loads(world.cli("policy", "check", str(file), "--output-format", "json").out)
    assert not found["valid"]
    assert said in found["problems"][0]["key"] + found["problems"][0]["message"]


@pytest.mark.parametrize(
    "arguments",
    [("nowhere.toml",), ("policy.toml", "--tool", "Nothing"), ("policy.toml", "--tool", "Read", "--json", "[]"), ()],
)
def test_policy_check_usage(world: World, arguments: tuple[str, ...]) -> None:
    (world.cli.cwd / "policy.toml").write_text("")
    done = world.cli("policy", "check", *arguments)
    assert done.code == 2
    assert "Traceback" not in done.err
