"""What was done and what is here, as programs get it: true to the store, and of what a client may see alone."""

import asyncio
import json
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from adderclaw.agent.run import Options
from adderclaw.server import app, openapi
from adderclaw.server.state import ServerState
from tests.acceptance.world import World, call, text
from tests.program import Cli
from tests.scripted import ScriptedModel
from tests.server.conftest import Server


class Worked:
    """A server on a home in which two projects were worked in: `here` changed a file, `there` was denied."""

    def __init__(self, cli: Cli, root: Path) -> None:
        self.world = World(cli, root)
        self.here, self.there = self.world.workspace, root / "there"
        self.there.mkdir()
        (self.here / "a.txt").write_text("one\n", encoding="utf-8")
        self.world.configure("full")
        self.world.script(
            call("Read", file_path="a.txt"),
            call("Write", file_path="a.txt", content="two\n"),
            text("the aardvark wrote"),
        )
        assert self.world.agent("write", "--workspace", str(self.here)).code == 0
        self.world.script(call("Bash", command="rm -rf /"), text("the badger was denied"))
        self.world.agent("remove", "--workspace", str(self.there))
        self.state = ServerState(
            Options(workspace=str(self.here), log_level="error"), [str(self.here), str(self.there)]
        )
        self.server = Server(self.state)

    def get(self, path: str, token: str | None = None, status: int = 200) -> Any:
        return self._answered("GET", path, token or self.server.token("read"), status)

    def post(self, path: str, body: dict[str, Any], token: str, status: int = 200) -> Any:
        return self._answered("POST", path, token, status, json=body)

    def _answered(self, method: str, path: str, token: str, status: int, **more: Any) -> Any:
        """The answer, which is one that the description has."""
        answer = self.server.ask(method, path, token, **more)
        assert answer.status_code == status, answer.text
        described = openapi.description(app.all_endpoints())
        (one,) = [
            methods[method.lower()]["responses"][str(status)]
            for template, methods in described["paths"].items()
            if re.fullmatch(re.sub(r"{\w+}", r"\\d+", template), path.partition("?")[0]) and method.lower() in methods
        ]
        schema = one["content"]["application/json"]["schema"] | {"components": described["components"]}
        jsonschema.validate(answer.json(), schema)
        return answer.json()


@pytest.fixture
def worked(cli: Cli, tmp_path: Path) -> Any:
    made = Worked(cli, tmp_path)
    yield made
    made.state.store.close()


def test_usage_receipts_and_memory_are_those_of_the_folders_that_a_client_sees(worked: Worked) -> None:
    every = worked.server.token("read")
    one = worked.server.token("read", folders=[str(worked.there)])
    none = worked.server.token("read", folders=[str(worked.there / "deeper")])
    assert worked.get("/usage?by=project", every)["total"]["calls"] == 5
    assert [row["key"] for row in worked.get("/usage?by=project", one)["rows"]] == [str(worked.there)]
    assert worked.get("/usage?by=project", none)["rows"] == []
    assert len(worked.get("/usage/series?by=model", every)) == 1
    assert worked.get("/usage/series", none) == []

    assert [row["tool"] for row in worked.get("/receipts", every)["receipts"]] == ["Bash", "Write", "Read"]
    assert [row["tool"] for row in worked.get("/receipts", one)["receipts"]] == ["Bash"]
    assert worked.get("/receipts", none)["receipts"] == []
    assert worked.get("/receipts/1", every)["next"]["seq"] == 2
    worked.get("/receipts/1", one, 403)
    first = worked.get("/receipts?limit=1", every)
    assert (first["receipts"][0]["seq"], first["next_before"]) == (3, 3)
    assert worked.get("/receipts?limit=1&before=3", every)["receipts"][0]["tool"] == "Write"
    assert [row["seq"] for row in worked.get("/receipts?status=denied", every)["receipts"]] == [3]

    assert [hit["role"] for hit in worked.get("/memory/search?q=aardvark", every)] == ["assistant"]
    assert worked.get("/memory/search?q=aardvark", one) == []
    assert len(worked.get(f"/memory/search?q=badger&workspace={worked.there}", one)) == 1
    worked.get(f"/memory/search?q=aardvark&workspace={worked.here}", one, 403)

    (changed,) = worked.get("/checkpoints", every)
    assert worked.get("/checkpoints", one) == []
    worked.get(f"/checkpoints/{changed['id']}", one, 403)
    worked.get(f"/settings?workspace={worked.here}", one, 403)


def test_a_checkpoint_is_shown_with_its_lines_and_restored_once_that_is_asked_for(worked: Worked) -> None:
    (changed,) = worked.get("/checkpoints")
    (point,) = worked.get(f"/checkpoints/{changed['id']}")
    (change,) = point["changes"]
    assert (change["path"], change["what"], change["diff"][-2:]) == ("a.txt", "changed", ["-one", "+two"])
    path, operates = f"/checkpoints/{changed['id']}/restore", worked.server.token("operate", folders=[str(worked.here)])
    stranger = worked.server.ask("POST", path, worked.server.token("operate"), json={})
    assert (stranger.status_code, stranger.json()["error"]["code"]) == (403, "client"), "it opened nothing of this"
    worked.post(path, {}, worked.server.token("read"), 403)
    worked.post(path, {"paths": ["b.txt"]}, operates, 400)
    assert worked.post(path, {"dry_run": True}, operates)["steps"][0]["fate"] == "restore"
    assert (worked.here / "a.txt").read_text(encoding="utf-8") == "two\n"
    done = worked.post(path, {}, operates)
    assert (worked.here / "a.txt").read_text(encoding="utf-8") == "one\n"
    (told,) = [event for event in worked.server.events("client_request") if event["path"] == path][-1:]
    assert told["client"] == "tester"
    worked.post(f"/checkpoints/{done['undo'][0]}/restore", {}, operates)
    assert (worked.here / "a.txt").read_text(encoding="utf-8") == "two\n"


def test_nothing_is_restored_under_a_turn_that_works(worked: Worked) -> None:
    (changed,) = worked.get("/checkpoints")
    token, conversations = worked.server.token("operate", folders=[str(worked.here)]), worked.state.conversations
    with ScriptedModel([{"hang": 60.0}]) as model:
        entry = {"kind": "openai-compatible", "model": "m", "base_url": model.base_url}

        async def both() -> tuple[int, int]:
            opened = await conversations.open("c", overrides={"providers": {"models": {"local": entry}}})
            await opened.send("wait", client="c")
            while not model.requests:  # noqa: ASYNC110 - it is in another thread
                await asyncio.sleep(0.01)
            async with worked.server.client(token) as client:
                early = await client.post(f"/checkpoints/{changed['id']}/restore", json={})
                await opened.close()
                late = await client.post(f"/checkpoints/{changed['id']}/restore", json={})
            return early.status_code, late.status_code

        assert asyncio.run(asyncio.wait_for(both(), 60)) == (409, 200)


def test_the_chain_of_receipts_is_verified_and_a_changed_byte_is_found(worked: Worked) -> None:
    state = worked.get("/receipts/verification")
    assert (state["valid"], state["complete"], state["receipts"]) == (True, True, 3)
    assert worked.get("/receipts/head")["head"] == state["head"]
    assert worked.get(f"/receipts/verification?against={state['head']}")["valid"] is True
    assert worked.get(f"/receipts/verification?against=3:{'0' * 64}")["valid"] is False
    worked.get("/receipts/verification?against=/etc/passwd", status=400)
    assert "adderclaw_receipt_chain_valid 1.0" in metrics(worked)
    log = worked.world.log
    log.write_bytes(log.read_bytes().replace(b'"seq":1', b'"seq":7', 1))
    assert worked.get("/receipts/verification")["first_broken"] == 1
    while "adderclaw_receipt_chain_valid 1.0" in metrics(worked):  # until the pause after the last look is over
        time.sleep(0.1)
    with sqlite3.connect(worked.world.database) as database:
        database.execute("UPDATE receipts SET line = replace(line, 'denied', 'allowed') WHERE seq = 3")
        database.execute("UPDATE receipts SET line = '{' WHERE seq = 2")
    database.close()
    forged = worked.get("/receipts")["receipts"]
    assert [(row["seq"], row["intact"]) for row in forged] == [(3, False), (2, False), (1, True)]
    assert [row["seq"] for row in worked.get("/receipts?tool=Bash")["receipts"]] == [3]


def metrics(worked: Worked) -> str:
    answer = worked.server.ask("GET", "/metrics", worked.server.token("read"))
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return answer.text


def test_metrics_are_those_of_the_store_and_never_fall(worked: Worked) -> None:
    assert worked.server.ask("GET", "/metrics").status_code == 401
    expected = {"conversations": 2, "tool_calls": 3, "tool_denials": 1, "provider_errors": 0, "model_calls": 5}
    assert counted(worked).items() >= expected.items()
    assert 'adderclaw_conversations_open{state="working"} 0.0' in metrics(worked)
    worked.world.script(call("Read", file_path="a.txt"), text("read"))
    worked.world.agent("once more")
    assert counted(worked).items() >= {**expected, "conversations": 3, "tool_calls": 4, "model_calls": 7}.items()
    worked.world.cli("memory", "clear", "--yes")
    assert counted(worked)["conversations"] == 3


def counted(worked: Worked) -> dict[str, float]:
    families = text_string_to_metric_families(metrics(worked))
    return {one.name.removeprefix("adderclaw_"): one.samples[0].value for one in families if one.type == "counter"}


def test_a_call_is_explained_and_what_is_configured_is_listed(worked: Worked) -> None:
    reads = worked.server.token("read")
    said = worked.post("/policy/explain", {"tool": "Bash", "input": {"command": "rm -rf /"}}, reads)
    by_hand = worked.world.cli(
        "tool", "explain", "Bash", "--json", '{"command": "rm -rf /"}', "--output-format", "json"
    )
    assert said == json.loads(by_hand.out)
    assert said["verdict"] == "deny"
    assert len(said["opinions"]) > 5
    assert worked.post("/policy/explain", {"tool": "Nothing"}, reads)["verdict"] == "deny"
    worked.post("/policy/explain", {"tool": "Bash", "profile": "bold"}, reads, 400)
    assert "Bash" in {tool["name"] for tool in worked.get("/tools")}
    settings = {row["key"]: row for row in worked.get("/settings")["settings"]}
    assert settings["security.autonomy"]["value"] == "full"
    assert settings["security.autonomy"]["origin"].endswith("config.toml")
    assert (worked.get("/mcp"), worked.get("/hooks"), worked.get("/skills")["skills"]) == ([], [], [])
    worked.get("/hooks?event=Nothing", status=400)
    worked.post("/doctor", {}, reads, 403)
    assert {"sandbox", "store"} <= {
        one["name"] for one in worked.post("/doctor", {}, worked.server.token("operate"))["checks"]
    }
