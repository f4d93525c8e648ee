"""What a server does so that its own sessions cannot reach it; `tests/security/test_server_wall.py` has the attacks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.server.conftest import Server

REFUSED = "opens no session without a sandbox"


def test_no_session_begins_without_a_sandbox(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the client's word, or by what the operator's own file says."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"steps": [{"text": "hello"}]}))
    monkeypatch.setenv("ADDERCLAW_MOCK_FIXTURE", str(script))
    token = server.token()
    asked = server.ask("POST", "/conversations", token, json={"profile": "permissive"})
    assert (asked.status_code, REFUSED in asked.text) == (400, True), asked.text
    home = Path(server.state.home)
    (home / "config.toml").write_text('[runtime]\nprofile = "permissive"\n')
    asked = server.ask("POST", "/conversations", token, json={})
    assert (asked.status_code, REFUSED in asked.text) == (400, True), asked.text
    asked = server.ask("POST", "/runs", token, json={"task": "go"})
    assert (asked.status_code, REFUSED in asked.text) == (400, True), asked.text
    assert server.state.conversations.all() == []


@pytest.mark.parametrize("how", ["settings", "start"])
def test_no_client_loosens_the_operators_profile(server: Server, how: str) -> None:
    """A stricter one it may want; a looser one needs the scope admin."""
    home = Path(server.state.home)
    if how == "settings":
        (home / "config.toml").write_text('[runtime]\nprofile = "supervised"\n')
    else:
        server.state.options = replace(server.state.options, profile="supervised")
    operates, admin = server.token("read", "operate", name="operates"), server.token(name="admin")
    for path, body in (("/runs", {"message": "go"}), ("/conversations", {})):
        asked = server.ask("POST", path, operates, json={**body, "profile": "sandboxed"})
        assert (asked.status_code, asked.json()["error"]["code"]) == (403, "profile"), asked.text
        assert "the operator's profile is supervised" in asked.text
    assert server.state.conversations.all() == []
    for token, profile in ((operates, "readonly"), (operates, "supervised"), (admin, "sandboxed")):
        asked = server.ask("POST", "/conversations", token, json={"profile": profile})
        assert "no model is configured" in asked.text, "nothing but that is missing"
