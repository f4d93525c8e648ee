"""`doctor` tries what a run would need; `onboard` finds, asks again, tries the connection and stores a key."""

import json
from pathlib import Path
from typing import Any

from tests.acceptance.terminal import at_a_terminal
from tests.acceptance.world import World, text
from tests.scripted import ScriptedModel

KEY = "sk-or-v1-0123456789abcdef0123456789abcdef"
NOBODY = "http://127.0.0.1:9/v1"


def examined(world: World, *flags: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the worst check of each name."""
    done = world.cli("doctor", "--output-format", "json", *flags, cwd=world.workspace)
    assert done.err == ""
    order = ("ok", "warning", "broken")
    worst = sorted(json.loads(done.out)["checks"], key=lambda check: order.index(check["state"]))
    return done.code, {check["name"]: check for check in worst}


def chosen(world: World, kind: str, base_url: str = "", more: str = "") -> None:
    url = f'base_url = "{base_url}"\n' if base_url else ""
    entry = f'[providers.models.mine]\nkind = "{kind}"\nmodel = "m"\n{url}{more}'
    world.cli.configure(f'default_provider = "mine"\n{entry}')


def test_20_doctor_finds_what_a_run_would_lack(world: World) -> None:
    chosen(world, "anthropic")
    code, found = examined(world)
    assert code == 1
    assert found["model"]["state"] == "broken"
    assert "ANTHROPIC_API_KEY" in found["model"]["detail"]
    assert "onboard" in found["model"]["fix"]
    world.cli.env["ANTHROPIC_API_KEY"] = KEY
    code, found = examined(world)
    assert (code, found["model"]["state"]) == (0, "ok"), found
    assert KEY not in json.dumps(found)
    assert found["git"]["state"] == "ok"
    assert {"browser", "trust", "sandbox", "ripgrep"} <= found.keys()
    chosen(world, "openai-compatible", NOBODY)
    code, found = examined(world)
    assert (code, found["connection"]["state"]) == (1, "broken"), found
    chosen(world, "anthropic", more='[mcp_servers.gone]\ncommand = "/bin/false"\n')
    code, found = examined(world)
    assert (code, found["mcp"]["state"]) == (1, "broken"), found
    assert "mcp test gone" in found["mcp"]["fix"]
    (world.workspace / ".adderclaw").mkdir()
    allow = {"permissions": {"allow": ["Bash"]}}
    (world.workspace / ".adderclaw" / "settings.json").write_text(json.dumps(allow))
    assert examined(world)[1]["trust"]["state"] == "warning"
    world.cli.configure("")
    world.cli.env["OPENAI_API_KEY"] = KEY
    code, found = examined(world)
    assert (code, found["model"]["state"]) == (1, "broken"), "two keys, and nothing chooses"
    del world.cli.env["OPENAI_API_KEY"], world.cli.env["ANTHROPIC_API_KEY"]
    assert examined(world)[1]["model"]["state"] == "warning", "nothing is chosen"


def test_20_doctor_asks_the_model_where_that_is_wanted(world: World) -> None:
    with ScriptedModel([text("ready")]) as model:
        chosen(world, "openrouter", model.base_url, 'api_key_env = "SOME_KEY"\n')
        world.cli.env["SOME_KEY"] = KEY
        code, found = examined(world, "--connect")
        assert (code, found["connection"]["state"]) == (0, "ok"), found
    code, found = examined(world, "--connect")
    assert (code, found["connection"]["state"]) == (1, "broken"), "it has gone"


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_20_onboard_tries_the_connection_and_stores_the_key(world: World) -> None:
    flags = ("onboard", "--provider", "openrouter", "--model", "m", "--api-key-stdin", "--yes", "--test")
    (world.cli.data / "config.toml").unlink()
    done = world.cli(*flags, "--base-url", NOBODY, stdin=f"{KEY}\n")
    assert done.code == 1, done
    assert "nothing was written" in done.err
    assert not (world.cli.data / "config.toml").exists()
    with ScriptedModel([text("ready"), text("hello")]) as model, ScriptedModel([text("thanks")]) as elsewhere:
        done = world.cli(*flags, "--base-url", model.base_url, stdin=f"{KEY}\n")
        assert done.code == 0, done
        assert "is stored in" in done.out
        said = world.cli("auth", "status", "openrouter")
        assert (said.code, "stored key" in said.out) == (0, True), said
        answered = world.agent("hi", "--workspace", str(world.workspace))
        assert (answered.code, answered.out.strip()) == (0, "hello"), answered.err
        assert model.requests[-1].headers["authorization"] == f"Bearer {KEY}"
        entry = {"providers": {"models": {"openrouter": {"base_url": elsewhere.base_url}}}}
        (world.workspace / "agent.json").write_text(json.dumps(entry))
        assert world.cli("trust", str(world.workspace)).code == 0
        world.agent("hi", "--workspace", str(world.workspace))
        (request,) = elsewhere.requests
        assert KEY not in str(request.headers), "a project's address is not shown the stored key"
    assert KEY.encode() not in everything(world.cli.data)
    assert world.cli(*flags, stdin="\n").code == 2, "no key at all"


def test_20_a_wrong_answer_is_asked_for_again(world: World) -> None:
    with ScriptedModel([text("ready")]) as model:
        first = (("Which provider", "nonsense\n"), ("Which provider", "openai-compatible\n"), ("Which model", "m\n"))
        wrong = (("Where is the API", f"{NOBODY}\n"), ("How much", "\n"), ("Test the connection", "y\n"))
        again = (("Give other answers", "y\n"), ("Which provider", "openai-compatible\n"), ("Which model", "m\n"))
        right = (("Where is the API", f"{model.base_url}\n"), ("Test the connection", "y\n"))
        code, shown = at_a_terminal(world, "onboard", typed=(*first, *wrong, *again, *right))
    assert code == 0, shown
    assert "'nonsense' is not one of: " in shown
    assert "the connection does not work" in shown
    assert model.base_url in (world.cli.data / "config.toml").read_text()
    assert NOBODY not in (world.cli.data / "config.toml").read_text()
