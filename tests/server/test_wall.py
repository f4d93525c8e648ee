"""What a server does so that its own sessions cannot reach it; `tests/security/test_server_wall.py` has the attacks."""

import json
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
    home = Path(server.house.home)
    (home / "config.toml").write_text('[runtime]\nprofile = "permissive"\n')
    asked = server.ask("POST", "/conversations", token, json={})
    assert (asked.status_code, REFUSED in asked.text) == (400, True), asked.text
    asked = server.ask("POST", "/runs", token, json={"task": "go"})
    assert (asked.status_code, REFUSED in asked.text) == (400, True), asked.text
    assert server.house.conversations.all() == []
