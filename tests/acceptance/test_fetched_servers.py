"""Servers that are fetched (npx): once per user, from their own registry, apart from every workspace."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text
from tests.tools.mcp.registry import Registry, registry

OWN = '[mcp_servers.it]\ncommand = "npx"\nargs = ["-y", "a-server"]\nstartupTimeout = 60000\n'
TOKEN = "npm_0123456789abcdefghijABCDEFGHIJ012345"


@pytest.fixture
def shop(world: World, needs: Callable[[str], str]) -> Iterator[Registry]:
    """A registry that the operator's own .npmrc names, with a token."""
    needs("bwrap")
    needs("npx")
    with registry() as made:
        place = made.url.removeprefix("http:")
        npmrc = f"registry={made.url}\n{place}:_authToken={TOKEN}\nupdate-notifier=false\n"
        (Path(world.cli.env["HOME"]) / ".npmrc").write_text(npmrc, encoding="utf-8")
        yield made


def results(world: World) -> list[str]:
    return [entry["content"] for entry in world.entries("tool_result")]


def test_it_is_fetched_unasked_for_all_projects_reaches_the_sessions_servers_and_is_not_changed(
    world: World, shop: Registry, tmp_path: Path
) -> None:
    world.configure("full", more=OWN)
    (world.workspace / "page.txt").write_text("from the session", encoding="utf-8")
    evil = f"registry=http://127.0.0.9:1/\n{shop.url.removeprefix('http:')}:_authToken=evil\n"
    (world.workspace / ".npmrc").write_text(evil, encoding="utf-8")  # which counts for commands alone
    serve = "python3 -m http.server 8765 --bind 127.0.0.1"
    world.script(
        call("Bash", command=serve, run_in_background=True),
        call("Bash", command="sleep 1; env"),
        call("mcp__it__get", url="http://127.0.0.1:8765/page.txt"),
        call("mcp__it__spoil"),
        text("done"),
    )
    done = world.agent("go")
    assert done.code == 0, done.err
    _, environment, page, spoilt = results(world)
    assert "npm_config_globalconfig=" in environment
    assert TOKEN not in environment
    assert "from the session" in page
    assert "EROFS" in spoilt
    assert "/a-server" in shop.asked
    assert shop.logins == []
    written = [path.read_text(encoding="utf-8") for path in (world.cli.data / "cache" / "network").iterdir()]
    assert not any("registry=" not in text or TOKEN in text for text in written if "BEGIN" not in text)
    before, other = list(shop.asked), tmp_path / "other"
    other.mkdir()
    again = world.cli("mcp", "test", "it", "--workspace", str(other))
    assert again.code == 0, again.err
    assert shop.asked == before, "the second project starts it from the cache of the user"


def test_a_client_passes_one_and_it_is_fetched_headless(world: World, shop: Registry) -> None:
    world.script(call("mcp__zz__get", url="http://127.0.0.1:4444/"), text("done"))
    passed = json.dumps({"mcpServers": {"zz": {"command": "npx", "args": ["-y", "a-server"]}}})
    done = world.cli("-p", "go", "--mcp-config", passed, "--permission-mode", "bypassPermissions")
    assert done.code == 0, done.err
    assert "ECONNREFUSED" in results(world)[0]


@pytest.mark.parametrize("beneath", [False, True])
def test_one_that_a_trusted_project_brings_waits_for_a_yes(world: World, shop: Registry, beneath: bool) -> None:
    table = {"mcpServers": {"theirs": {"command": "npx", "args": ["-y", "a-server"]}}}
    (world.workspace / ".mcp.json").write_text(json.dumps(table), encoding="utf-8")
    world.configure("full", more=OWN)
    if beneath:  # where the project works in a folder of its own, its files lie outside of the workspace
        (world.workspace / "inner").mkdir()
        settings = f'workspace_dir = "{world.workspace / "inner"}"\n'
        (world.workspace / "agent.toml").write_text(settings, encoding="utf-8")
        world.cli.configure((world.cli.data / "config.toml").read_text().replace("workspace_dir", "#"))
    assert world.cli("trust", str(world.workspace)).code == 0
    assert world.cli("mcp", "test", "it").code == 0
    before = list(shop.asked)
    world.script(call("mcp__theirs__get", url="http://127.0.0.1:4444/"), text("done"))
    world.agent("go")
    assert "nobody can be asked" in results(world)[0], "what the operator has fetched is not the project's"
    assert shop.asked == before


def test_two_sessions_that_need_it_at_once_fetch_it_once(world: World, shop: Registry, tmp_path: Path) -> None:
    world.configure("full", more=OWN)
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()

    def tested(folder: Path) -> int:
        return world.cli("mcp", "test", "it", "--workspace", str(folder)).code

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(tested, folders)) == [0, 0]
    assert len([path for path in shop.asked if path.endswith(".tgz")]) == 1


def test_commands_use_the_registry_and_a_login_that_it_wants_is_said(world: World, shop: Registry) -> None:
    place = shop.url.removeprefix("http://").strip("/")
    world.configure("full", security=f'allowed_domains = ["{place}"]')
    world.script(call("Bash", command="npm view a-server version"), text("done"))
    world.agent("go")
    assert results(world)[-1].strip().endswith("1.0.0")
    shop.open = False
    world.agent("again")
    assert "E401" in results(world)[-1]
    assert "asked for a login (401). Commands in the sandbox have none" in results(world)[-1]
    assert shop.logins == []


@pytest.mark.parametrize("program", ["pip", "uv"])
def test_pip_and_uv_ask_the_operators_index_without_its_login(
    world: World, needs: Callable[[str], str], program: str
) -> None:
    needs("bwrap")
    config = Path(world.cli.env["HOME"]) / ".config"
    command = "python3 -m pip download -q --no-deps nothing-here"
    if program == "uv":
        chosen = Path(__file__).parents[2] / ".python-version"  # a version manager's own `uv` asks for it
        shutil.copy(chosen, world.workspace)
        asked = [needs("uv"), "--version"]
        if subprocess.run(asked, env=world.cli.env, cwd=world.workspace, capture_output=True, check=False).returncode:
            pytest.skip("uv does not start on this machine")
        command = "uv pip install -q --dry-run --target out nothing-here"
    with registry() as made:
        index = made.url.replace("://", f"://me:{TOKEN}@") + "simple"
        for file, words in (
            ("pip/pip.conf", f"[global]\nindex-url = {index}"),
            ("uv/uv.toml", f'index-url = "{index}"'),
        ):
            (config / file).parent.mkdir(parents=True)
            (config / file).write_text(words, encoding="utf-8")
        world.configure("full", security=f'allowed_domains = ["127.0.0.2:{made.port}"]')
        world.script(call("Bash", command=command), call("Bash", command="env"), text("done"))
        world.agent("go")
    assert "/simple/nothing-here/" in made.asked, results(world)
    assert made.logins == []
    assert TOKEN not in "".join(results(world))


def test_a_registry_that_asks_for_a_login_is_said(world: World, shop: Registry) -> None:
    shop.open = False
    world.configure("full", more=OWN)
    done = world.cli("mcp", "test", "it")
    assert done.code == 1
    assert "requires a login (401), but programs in the sandbox get no tokens" in done.err
    assert shop.logins == []
