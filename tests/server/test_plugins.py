"""Plugins in the server: programs read what they bring, one of them with `admin` switches one off, none enables one."""

import json
from html import escape
from pathlib import Path

from adderclaw.config import home
from adderclaw.tools.plugins import changes
from tests.server.conftest import Server

HOSTILE = "<img src=x onerror=alert(1)>"


def made(root: Path, name: str = "kit") -> Path:
    folder = root / name
    hook = {"type": "command", "command": f"echo '{HOSTILE}'"}
    files = {
        ".claude-plugin/plugin.json": {"name": name, "version": "1.0", "description": f"Brings {HOSTILE}"},
        "hooks/hooks.json": {"hooks": {"Stop": [{"hooks": [hook]}]}},
        "commands/hi.md": "Say hello.",
    }
    for way, content in files.items():
        (folder / way).parent.mkdir(parents=True, exist_ok=True)
        (folder / way).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def test_it_is_read_and_switched_off_by_whoever_may(server: Server, tmp_path: Path) -> None:
    changes.install_plugin(home(), str(made(tmp_path)), lambda _offer: True)
    (row,) = server.ask("GET", "/plugins", server.token("read")).json()
    assert (row["name"], row["state"], row["version"]) == ("kit", "enabled", "1.0")
    assert row["sha256"] == row["trusted_sha256"]
    assert [(one["what"], one["name"]) for one in row["brings"]] == [("hook", "Stop"), ("command", "commands/hi.md")]
    for scope in ("read", "operate", "approve", "openai"):
        assert server.ask("POST", "/plugins/kit/disable", server.token(scope)).status_code == 403
    assert server.ask("POST", "/plugins/kit/enable", server.token("admin")).status_code == 404
    for name in ("none", "..", "%2e%2e%2fconfig.toml"):
        assert server.ask("POST", f"/plugins/{name}/disable", server.token("admin")).status_code == 404
    done = server.ask("POST", "/plugins/kit/disable", server.token("admin"))
    assert (done.status_code, done.json()["state"]) == (200, "disabled")
    Path(home(), "plugins", "kit", "commands", "hi.md").write_text("Say something else.", encoding="utf-8")
    found = server.ask("GET", "/plugins/kit", server.token("read")).json()
    assert (found["state"], found["problems"]) == ("changed", ["since it was trusted: ~ commands/hi.md"])


def test_what_a_plugin_says_is_text_on_the_page(server: Server, tmp_path: Path) -> None:
    changes.install_plugin(home(), str(made(tmp_path)), lambda _offer: True)
    page = server.ask("GET", "/ui/settings", server.token("read")).text
    assert f"Brings {escape(HOSTILE)}" in page
    assert "hook Stop, command commands/hi.md" in page
    assert HOSTILE not in page
    assert "/plugins/kit/disable" not in page
    assert "/plugins/kit/disable" in server.ask("GET", "/ui/settings", server.token("admin", name="root")).text
    bound = server.token("read", folders=[server.state.workspaces[0]], name="bound")
    assert "commands/hi.md" not in server.ask("GET", "/ui/settings", bound).text, "they are of the whole machine"
