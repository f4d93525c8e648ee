"""Trust is given to bytes: any change takes it back, and a broken trust file trusts nothing."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from adderclaw.config.trust import folders, trust
from adderclaw.core.errors import ConfigError
from tests.config.conftest import World


@pytest.fixture
def trusted(world: World) -> World:
    world.project("agent_id: x")
    world.settings(permissions={"allow": ["Read"]})
    world.trust()
    assert world.load().trusted
    assert world.load().config.agent_id == "x"
    return world


def test_one_changed_byte(trusted: World) -> None:
    trusted.project("agent_id: y")
    assert not trusted.load().trusted
    assert trusted.load().config.agent_id == "adderclaw"
    trusted.project("agent_id: x")
    assert trusted.load().trusted


@pytest.mark.parametrize("name", ["agent.toml", "agent.json", ".adderclaw/settings.json", "policy.toml"])
def test_one_more_file(trusted: World, name: str) -> None:
    (trusted.root / name).write_text("")
    assert not trusted.load().trusted


def test_one_file_less(trusted: World) -> None:
    (trusted.root / ".adderclaw" / "agent.json").unlink()
    assert not trusted.load().trusted


def test_another_directory_with_the_same_files(trusted: World) -> None:
    os.rename(trusted.root, trusted.root.with_name("moved"))
    assert not trusted.load(cwd=str(trusted.root.with_name("moved"))).trusted


def test_revoked(trusted: World) -> None:
    assert trust.revoke(str(trusted.own), str(trusted.root))
    assert not trusted.load().trusted
    assert not trust.revoke(str(trusted.own), str(trusted.root))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', '{"%s": "%s"}', "\xff"])
def test_a_broken_trust_file_trusts_nothing(trusted: World, text: str) -> None:
    found = trust.survey(str(trusted.root))
    text = text.replace("%s", str(trusted.root), 1).replace("%s", found.sha256)
    (trusted.own / "trust.json").write_text(text, encoding="latin-1")
    assert not trusted.load().trusted


def test_the_file_is_private_and_keeps_the_others(trusted: World) -> None:
    path = trusted.own / "trust.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    trust.record(str(trusted.own), "/elsewhere", trust.Fingerprint("0", {}), "now")
    assert set(trust.known(str(trusted.own))) == {str(trusted.root), "/elsewhere"}


def test_nothing_to_trust(world: World) -> None:
    assert world.load().trusted


# ------------------------------------------------------------------ all that a repository brings


BROUGHT = [
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".adderclaw/policy.toml",
    ".adderclaw/hooks/check.sh",
    ".adderclaw/plugins/p/plugin.json",
    ".adderclaw/agents/helper.md",
    ".claude/hooks/deep/er/check.py",
    ".claude/skills/s/SKILL.md",
    ".claude/commands/c.md",
    "skills/s/SKILL.md",
    "skills/a/b/c/skill.md",
    "sops/s/SOP.toml",
    "plugins/p/manifest.toml",
    "plugins/p/.claude-plugin/plugin.json",
]


def put(world: World, name: str, text: str) -> None:
    path = world.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("name", BROUGHT)
@pytest.mark.parametrize("warm", [False, True])
def test_everything_that_runs_or_grants_is_covered(trusted: World, name: str, warm: bool) -> None:
    put(trusted, name, "{}" if name.endswith(".json") else "")
    assert not trusted.load().trusted, "a new file"
    trusted.trust()
    assert trusted.load().trusted
    if warm:
        assert trusted.load().trusted, "from what is kept"
    put(trusted, name, "{} " if name.endswith(".json") else "# changed")
    assert not trusted.load().trusted, "a changed byte"
    put(trusted, name, "{}" if name.endswith(".json") else "")
    assert trusted.load().trusted, "as it was"
    (trusted.root / name).unlink()
    assert not trusted.load().trusted, "gone"


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        ("plugins/p/manifest.toml", ["plugins/p/run.py", "plugins/p/deep/er/x"]),
        ("plugins/p/.claude-plugin/plugin.json", ["plugins/p/hooks/x.sh"]),
        ("skills/s/SKILL.md", ["skills/s/scripts/run.sh", "skills/s/__pycache__/run.cpython-312.pyc"]),
        ("skills/SKILL.md", ["skills/scripts/run.sh"]),
        ("sops/s/SOP.toml", ["sops/s/steps/a.md"]),
    ],
)
def test_all_of_a_plugin_a_skill_and_a_sop_is_covered(trusted: World, unit: str, names: list[str]) -> None:
    put(trusted, unit, "")
    for name in names:
        put(trusted, name, "one")
        assert not trusted.load().trusted, name
        trusted.trust()
        assert trusted.load().trusted
        put(trusted, name, "two, changed")
        assert not trusted.load().trusted, name
        trusted.trust()


@pytest.mark.parametrize("top", ["plugins", "skills", "sops"])
def test_a_folder_that_only_has_the_name_is_the_projects_own_code(trusted: World, top: str) -> None:
    """Many repositories have a `plugins/` that no agent reads: editing it takes no trust away."""
    for name in ("foo.js", "loader/index.js", "loader/deep/er/x.py", "a/README.md"):
        put(trusted, f"{top}/{name}", "one")
        assert trusted.load().trusted, name
        put(trusted, f"{top}/{name}", "two, changed")
        assert trusted.load().trusted, name
    assert not trust.survey(str(trusted.root)).files.keys() - {"agent.yaml", ".adderclaw/agent.json"}
    assert not any(top in warning for warning in trusted.load().warnings)


def test_many_files_of_the_projects_own_code_are_no_obstacle(trusted: World) -> None:
    for number in range(folders.MOST_FILES // 100 + 1):
        folder = trusted.root / "plugins" / "data" / str(number)
        folder.mkdir(parents=True)
        for name in range(100):
            (folder / str(name)).touch()
    trusted.trust()
    assert trusted.load().trusted


def test_a_link_to_the_folder_of_a_plugin_cannot_be_trusted(trusted: World) -> None:
    put(trusted, "tools/p/manifest.toml", "")
    (trusted.root / "plugins").mkdir()
    (trusted.root / "plugins" / "p").symlink_to("../tools/p")
    (trusted.root / "plugins" / "q").symlink_to("../tools")
    assert not trusted.load().trusted
    with pytest.raises(ConfigError, match="plugins/p: is a link to a folder"):
        trusted.trust()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".adderclaw/settings.json", '{"hooks": {"PreToolUse": [{"hooks": [{"command": "bash tools/check.sh -x"}]}]}}'),
        (
            ".adderclaw/settings.json",
            '{"hooks": [{"hook_event_name": "Stop", "command": "\\"$CLAUDE_PROJECT_DIR\\"/x"}]}',
        ),
        (".mcp.json", '{"mcpServers": {"s": {"command": "sh", "args": ["./tools/check.sh"]}}}'),
        (".claude/settings.json", '{"apiKeyHelper": "tools/check.sh --print"}'),
        (".adderclaw/settings.json", '{"hooks": {"Stop": [{"hooks": [{"command": "cd tools;../tools/check.sh"}]}]}}'),
    ],
    ids=["hook", "nothing", "server", "helper", "from another folder"],
)
def test_scripts_that_the_configuration_names_are_covered(world: World, name: str, text: str) -> None:
    put(world, "tools/check.sh", "true")
    put(world, name, text)
    world.trust()
    covered = "tools/check.sh" in trust.survey(str(world.root)).started
    assert covered == ("tools/check.sh" in text)
    assert world.load().trusted
    assert world.load().started == ((str(world.root / "tools" / "check.sh"),) if covered else ())
    put(world, "tools/check.sh", "evil")
    assert world.load().trusted != covered
    put(world, "tools/check.sh", "true")
    assert world.load().trusted


def test_a_link_to_a_folder_cannot_be_trusted(trusted: World) -> None:
    put(trusted, "elsewhere/check.sh", "true")
    (trusted.root / ".claude").mkdir()
    (trusted.root / ".claude" / "hooks").mkdir()
    (trusted.root / ".claude" / "hooks" / "more").symlink_to(trusted.root / "elsewhere")
    with pytest.raises(ConfigError, match="a link to a folder"):
        trusted.trust()
    loaded = trusted.load()
    assert not loaded.trusted
    assert any("a link to a folder" in warning for warning in loaded.warnings)


def test_a_link_to_a_file_counts_with_what_it_leads_to(trusted: World) -> None:
    put(trusted, "elsewhere.sh", "true")
    (trusted.root / ".adderclaw" / "hooks").mkdir()
    (trusted.root / ".adderclaw" / "hooks" / "check.sh").symlink_to(trusted.root / "elsewhere.sh")
    trusted.trust()
    assert trusted.load().trusted
    put(trusted, "elsewhere.sh", "evil")
    assert not trusted.load().trusted


def test_too_much_cannot_be_trusted(trusted: World) -> None:
    for number in range(folders.MOST_FILES + 1):
        folder = trusted.root / "skills" / "s" / str(number // 500)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).touch()
    put(trusted, "skills/s/SKILL.md", "")
    with pytest.raises(ConfigError, match="more than"):
        trusted.trust()
    assert not trusted.load().trusted


@pytest.mark.parametrize("kind", ["fifo", "unreadable"])
def test_what_cannot_be_read_cannot_be_trusted(trusted: World, kind: str) -> None:
    put(trusted, "skills/SKILL.md", "")
    path = trusted.root / "skills" / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif os.geteuid() == 0:
        path.symlink_to(path.name)
    else:
        path.touch(mode=0)
    with pytest.raises(ConfigError):
        trusted.trust()
    assert not trusted.load().trusted


def test_what_changed_is_said(trusted: World) -> None:
    put(trusted, "skills/s/SKILL.md", "new")
    trusted.project("agent_id: z")
    said = "\n".join(trusted.load().warnings)
    assert "has changed since you trusted it" in said
    assert "+ skills/s/SKILL.md" in said
    assert "~ agent.yaml" in said


def test_servers_that_wait_are_said(world: World) -> None:
    put(world, ".mcp.json", "{}")
    assert any("nothing from .mcp.json runs" in warning for warning in world.load().warnings)


@pytest.mark.parametrize("name", [".adderclaw/settings.json", ".claude/skills", "skills", ".adderclaw", ".mcp.json"])
def test_what_leads_out_of_the_project_is_not_read(world: World, tmp_path: Path, name: str) -> None:
    """A repository may bring a link to anything of the operator's."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    secret = elsewhere / "settings.json"
    secret.write_text("{no JSON: a word of the operator}")
    is_file = name.endswith(".json")
    place = world.root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(secret if is_file else elsewhere)
    seen = secret.stat().st_mtime_ns
    os.utime(secret, ns=(seen - 10**9, seen))
    before = secret.stat().st_atime_ns
    for _ in range(2):
        loaded = world.load()
        assert not loaded.held_hooks
        assert any("leads out of the project" in warning for warning in loaded.warnings), loaded.warnings
    assert secret.stat().st_atime_ns == before, "not opened"


COUNTED = """
import sys
from adderclaw.config.trust import folders as trusted_folders
opened = []
sys.addaudithook(lambda event, _given: opened.append(event) if event in ("open", "os.readlink") else None)
found = list(trusted_folders.stamps(sys.argv[1], ()))
print(len(found), len(opened))
"""


def test_33_a_look_at_many_skills_opens_no_file(tmp_path: Path) -> None:
    """Their folders are listed, and the status of what is in them is asked by the folder's descriptor."""
    for number in range(400):
        folder = tmp_path / "skills" / f"s{number}"
        folder.mkdir(parents=True)
        for name in ("SKILL.md", "a.txt", "b.txt"):
            (folder / name).touch()
    (tmp_path / "skills" / "s0" / "link").symlink_to(tmp_path / "skills" / "s1" / "a.txt")
    done = subprocess.run([sys.executable, "-c", COUNTED, tmp_path], capture_output=True, text=True, check=True)
    files, opened = map(int, done.stdout.split())
    assert files == 1201
    assert opened < 200 + 2 * 400, "none of them by itself; without openat2 a folder costs two"


@pytest.mark.parametrize("kind", ["content", "time", "exchanged", "link"])
def test_33_the_look_sees_every_change(tmp_path: Path, kind: str) -> None:
    skill = tmp_path / "skills" / "a" / "b" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("one")
    (skill.parent / "linked.md").symlink_to("../../../elsewhere.md")
    (tmp_path / "elsewhere.md").write_text("two")
    before = list(folders.stamps(str(tmp_path), ()))
    assert [path for path, *_ in before] == ["skills/a/b/SKILL.md", "skills/a/b/linked.md"]
    assert list(folders.stamps(str(tmp_path), ())) == before
    match kind:
        case "content":
            skill.write_text("one more")
        case "time":
            os.utime(skill, ns=(1, 1))
        case "exchanged":
            (tmp_path / "new").write_text("one")
            (tmp_path / "new").replace(skill)
        case _:
            (tmp_path / "elsewhere.md").write_text("other")
    assert list(folders.stamps(str(tmp_path), ())) != before
