"""Schedules over HTTP: who may see, add and begin them, and the pages."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from adderclaw.flows.request import RunRequest
from adderclaw.flows.schedules import adding
from adderclaw.flows.schedules.adding import New
from adderclaw.storage import schedules as rows
from tests.server.conftest import Server

DAILY = {"name": "one", "cron": "30 2 * * *", "zone": "Europe/Berlin", "what": {"message": "look"}}


def _add(server: Server, folder: Path, name: str, **more: Any) -> None:
    state = server.state
    what = RunRequest(message="look", workspace=str(folder))
    new = New(name=name, what=what, zone="UTC", **(more or {"cron": "@daily"}))
    adding.add_schedule(state.store, adding.make_schedule(new, state.options, state.key, state.clock.now(), "test"))


@pytest.mark.parametrize("scope", ["read", "operate", "approve"])
def test_only_an_administrator_adds_approves_and_removes(server: Server, workspace: Path, scope: str) -> None:
    _add(server, workspace, "one")
    token = server.token(scope)
    for method, path in (("POST", "/schedules"), ("POST", "/schedules/one/approve"), ("DELETE", "/schedules/one")):
        given = {"json": DAILY} if method == "POST" and path == "/schedules" else {}
        assert server.ask(method, path, token, **given).status_code == 403, (method, path)
    if scope == "read":
        for what in ("run", "pause", "resume"):
            assert server.ask("POST", f"/schedules/one/{what}", token).status_code == 403


def test_a_client_sees_the_schedules_of_its_folders_alone(server: Server, workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    _add(server, workspace, "here")
    _add(server, other, "there")
    token = server.token("read", "operate", name="narrow", folders=[str(workspace)])
    assert [one["name"] for one in server.ask("GET", "/schedules", token).json()["schedules"]] == ["here"]
    for method, path in (("GET", ""), ("GET", "/history"), ("POST", "/pause"), ("POST", "/run")):
        assert server.ask(method, f"/schedules/there{path}", token).status_code == 403


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cron": "0 0 31 2 *"}, "never fires"),
        ({"cron": "* * * * * *"}, "six fields"),
        ({"zone": "Berlin"}, "Europe/Berlin"),
        ({"every": "1h"}, "exactly one of"),
        ({"what": {"message": "x", "task": "y"}}, "exactly one of"),
        ({"what": {"resume": "20260101-000000-00000000"}}, "remove resume"),
        ({"what": {"agentfile": "/etc/passwd"}}, "is not in"),
        ({"name": "a/b"}, "is not a valid schedule name"),
        ({"name": "{{x}}"}, "is not a valid schedule name"),
    ],
)
def test_what_is_refused(server: Server, change: dict[str, Any], why: str) -> None:
    answer = server.ask("POST", "/schedules", server.token(), json={**DAILY, **change})
    assert (answer.status_code, why in answer.text) == (400, True), answer.text
    assert rows.listing(server.state.store) == []


def test_added_paused_resumed_shown_and_removed(server: Server) -> None:
    token = server.token()
    added = server.ask("POST", "/schedules", token, json=DAILY)
    assert (added.status_code, added.json()["schedule"]["next_text"][0].split()[2]) == (201, "02:30")
    assert server.ask("POST", "/schedules/one/pause", token).json()["state"] == "paused"
    assert server.ask("POST", "/schedules/one/resume", token).json()["state"] == "active"
    assert server.ask("GET", "/schedules/one/history", token).json() == {"history": []}
    assert server.ask("DELETE", "/schedules/one", token).json() == {"name": "one", "removed": True}
    assert server.ask("GET", "/schedules/one", token).status_code == 404
    hook = server.ask("POST", "/schedules", token, json={"name": "h", "webhook": "github", "what": {"message": "x"}})
    assert hook.json()["secret"].startswith("whsec_")


def test_run_by_a_client_begins_it_and_says_why_it_does_not(
    server: Server, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answers.json").write_text('{"steps": [{"text": "looked"}]}', encoding="utf-8")
    monkeypatch.setenv("ADDERCLAW_MOCK_FIXTURE", str(tmp_path / "answers.json"))
    _add(server, workspace, "one")
    token = server.token("read", "operate")
    Path(server.state.stop_path).touch()
    refused = server.ask("POST", "/schedules/one/run", token)
    assert (refused.status_code, "emergency stop" in refused.text) == (409, True)
    Path(server.state.stop_path).unlink()

    async def begun() -> Any:
        async with server.client(token) as client:
            row = (await client.post("/schedules/one/run")).json()
            await server.state.scheduler.settled()
            return row, (await client.get("/schedules/one/history")).json()["history"]

    row, history = asyncio.run(begun())
    assert (row["cause"], row["state"]) == ("hand", "running")
    assert [one["run_id"] for one in history] == [row["run_id"]]


def test_the_pages_show_names_as_text(server: Server, workspace: Path) -> None:
    state = server.state
    what = RunRequest(message="<script>alert(1)</script>", workspace=str(workspace))
    new = New(name="one", what=what, every="1h", zone="UTC")
    adding.add_schedule(
        state.store, adding.make_schedule(new, state.options, state.key, state.clock.now(), "<b>me</b>")
    )
    for path in ("/ui/schedules", "/ui/schedules/one"):
        page = server.ask("GET", path, server.token("read", name=path))
        assert page.status_code == 200
        assert "every 1h" in page.text
        assert "<script>alert" not in page.text
        assert "<b>me" not in page.text
    assert server.ask("GET", "/ui/schedules/none", server.token("read", name="n")).status_code == 404
