"""SOPs over HTTP and on the page of their run: begun, looked at, answered, gone on with; and what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.conftest import Server

SOP = """name = "greet"
description = "Greet <b>somebody</b> after a yes"
[inputs.who]
[[steps]]
id = "ok"
kind = "approval"
prompt = "Write it?"
[[steps]]
id = "write"
kind = "tool"
tool = "file_write"
args = { path = "greeting.txt", content_from_input = "who" }
"""


@pytest.fixture
def sops(workspace: Path) -> Path:
    file = workspace / "sops" / "greet" / "SOP.toml"
    file.parent.mkdir(parents=True)
    file.write_text(SOP)
    (workspace / "sops" / "bad").mkdir()
    (workspace / "sops" / "bad" / "SOP.toml").write_text(
        'name = "bad"\n[[steps]]\nid = "a"\nkind = "tool"\ntool = "file_lst"\n'
    )
    return file


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({"sop": "nope"}, 400, "there is no SOP 'nope'"),
        ({"sop": "../../etc/passwd"}, 400, "is not in"),
        ({"sop": "bad"}, 400, "did you mean file_list?"),
        ({"sop": "greet"}, 400, "the input 'who' is missing"),
        ({"sop": "greet", "task": "x"}, 400, "give exactly one of"),
        ({"task": "x", "inputs": {"a": "b"}}, 400, "`inputs` needs an agentfile or a sop"),
    ],
)
def test_what_cannot_begin_is_refused(server: Server, sops: Path, given: Any, status: int, message: str) -> None:
    answer = server.ask("POST", "/runs", server.token(), json=given)
    assert (answer.status_code, message in answer.text) == (status, True), answer.text
    assert sops.exists()


def test_who_may_only_look_begins_and_answers_nothing(server: Server, sops: Path) -> None:
    reader = server.token("read")
    assert server.ask("GET", "/sops", reader).status_code == 200
    assert server.ask("POST", "/runs", reader, json={"sop": "greet", "inputs": {"who": "x"}}).status_code == 403
    assert sops.exists()


def test_one_is_begun_answered_and_gone_on_with(server: Server, sops: Path, workspace: Path) -> None:
    listed = server.ask("GET", "/sops", server.token()).json()
    assert [(row["name"], len(row["problems"])) for row in listed] == [("bad", 1), ("greet", 0)]
    assert server.ask("GET", "/sops/greet", server.token()).json()["inputs"][0]["required"] is True
    assert server.ask("GET", "/sops/..%2Fx", server.token()).status_code == 404

    async def lived() -> dict[str, Any]:
        async with server.client(server.token()) as client:
            begun = (await client.post("/runs", json={"sop": "greet", "inputs": {"who": "Ada"}})).json()
            state = await _until(client, begun["run_id"], "needs_input")
            page = (await client.get(f"/ui/runs/{begun['run_id']}")).text
            assert "Waiting for you" in page
            assert "SOP greet, step ok asks you" in page
            now = (await client.get("/")).text
            assert "SOP greet, step ok asks you" in now, "also where everything stands that waits"
            asked = state["question"]["id"]
            answer = await client.post(f"/questions/{asked}/answer", json={"approved": True, "comment": "go"})
            assert answer.status_code == 200, answer.text
            assert (await client.post("/runs", json={"resume": begun["run_id"]})).status_code == 201
            return await _until(client, begun["run_id"], "completed")

    state = asyncio.run(lived())
    assert [step["status"] for step in state["steps"]] == ["succeeded", "succeeded"]
    assert (workspace / "greeting.txt").read_text() == "Ada"
    assert sops.exists()


async def _until(client: httpx2.AsyncClient, run_id: str, status: str) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for _ in range(600):
        state = (await client.get(f"/runs/{run_id}/steps")).json()
        if state.get("status") == status:
            return state
        await asyncio.sleep(0.05)
    raise AssertionError(state)
