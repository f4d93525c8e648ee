"""Conversations, runs and questions over HTTP, in this process: a client is an operator only of what it opened."""

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx2
import pytest

from adderclaw.server.state import ServerState
from tests.acceptance.world import call, text
from tests.server.conftest import Server

type Json = dict[str, Any]

WRITE = call("Write", file_path="a.txt", content="one\n")
CONFIG = """
default_provider = "local"
[security]
autonomy = "supervised"
[providers.models.local]
kind = "mock"
model = "mock"
fixture = "{fixture}"
"""


def script(home: Path, *steps: Json) -> None:
    """The model plays these steps in every conversation."""
    folder = home / ".adderclaw"
    folder.mkdir(mode=0o700, exist_ok=True)
    fixture = folder / "script.json"
    fixture.write_text(json.dumps({"steps": list(steps), "partial": True}), encoding="utf-8")
    (folder / "config.toml").write_text(CONFIG.format(fixture=fixture), encoding="utf-8")


@pytest.fixture(autouse=True)
def scripted(home: Path) -> None:
    script(home, WRITE, text("done"))


async def got(answer: Coroutine[Any, Any, httpx2.Response], status: int = 200) -> Any:
    """What is answered, with this status."""
    done = await answer
    assert done.status_code == status, done.text
    return done.json()


async def until(state: ServerState, id: str, kind: str) -> None:
    """Wait until a conversation or a run has told of this."""
    one = state.conversations.get(id) or state.runs.get(id)
    assert one is not None
    async with asyncio.timeout(60):
        async for update in one.follow(0):
            if update.kind == kind:
                return
    raise AssertionError(f"it ended without {kind}")


async def question(state: ServerState, client: httpx2.AsyncClient, path: str) -> Json:
    """What it asks, once it does."""
    await until(state, path.rpartition("/")[2], "question")
    return (await got(client.get(path)))["questions"][0]


def run(state: ServerState, work: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        try:
            await work
        finally:
            await state.close()

    asyncio.run(main())


def test_another_clients_conversation_is_seen_and_not_touched(server: Server, workspace: Path) -> None:
    ann, bob = server.token("read", "operate", name="ann"), server.token("read", "operate", name="bob")
    carl, looks = server.token("read", "approve", name="carl"), server.token("read", name="looks")

    async def work() -> None:
        async with server.client(ann) as mine, server.client(bob) as other, server.client(carl) as approver:
            one = await got(mine.post("/conversations", json={"text": "go"}), 201)
            at = f"/conversations/{one['id']}"
            asked = await question(server.state, mine, at)
            assert (asked["kind"], asked["tool"]) == ("approval", "Write")
            assert (await got(other.get(at)))["steers"] is False
            for path, body in (
                ("messages", {"text": "mine now"}),
                ("interrupt", {}),
                ("close", None),
                (f"questions/{asked['id']}/answer", {"approved": True}),
            ):
                refused = await other.post(f"{at}/{path}", json=body)
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "client"), path
            assert (await other.post("/conversations", json={"resume": one["id"]})).status_code == 403
            byrow = f"/questions/{asked['id']}/answer"
            assert (await other.post(byrow, json={"approved": True})).json()["error"]["code"] == "scope"
            assert (await mine.get("/conversations/conversation-none")).status_code == 404
            wrong = {"approved": True, "plan": "0" * 64}
            assert (await approver.post(byrow, json=wrong)).status_code == 409, "it is about another call"
            assert not (workspace / "a.txt").exists()
            settled = await got(approver.post(byrow, json={"approved": True, "plan": asked["plan_hash"]}))
            assert settled["by"].endswith("(http: carl)")
            again = await mine.post(f"{at}/questions/{asked['id']}/answer", json={"approved": False})
            assert again.status_code == 409, "the first answer counts"
            turn = (await got(mine.post(f"{at}/messages", json={"text": "and?"}), 202))["turn"]
            await got(mine.get(f"{at}/turns/{turn}"))
            shown = await got(mine.get(f"{at}/items?limit=1000"))
            assert [item["state"] for item in shown["items"] if item["type"] == "call"] == ["ran"]
            assert (await got(mine.get(f"{at}/items?start=0&limit=1")))["items"] == shown["items"][:1]
            nothing = await mine.post(f"{at}/interrupt", json={})
            assert (nothing.status_code, nothing.json()["error"]["code"]) == (409, "idle")
            copy = await got(other.post(f"{at}/branch"), 201)
            assert copy["id"] != one["id"]
            assert copy["steers"], "who may look may go on in a copy"
        async with server.client(looks) as reader:
            assert (await reader.post("/conversations", json={})).json()["error"]["code"] == "scope"
            listed = (await got(reader.get("/conversations")))["conversations"]
            assert {row["id"] for row in listed} == {one["id"], copy["id"]}

    run(server.state, work())
    assert (workspace / "a.txt").read_text() == "one\n"


def test_a_client_of_another_folder_sees_nothing(server: Server, workspace: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ann = server.token("read", "operate")
    other = server.token("read", "operate", "approve", folders=[str(elsewhere)])

    async def work() -> None:
        async with server.client(ann) as mine, server.client(other) as far:
            one = await got(mine.post("/conversations", json={"text": "go"}), 201)
            at = f"/conversations/{one['id']}"
            asked = await question(server.state, mine, at)
            for path in (at, f"{at}/items", f"{at}/events", f"{at}/prompts"):
                assert (await far.get(path)).status_code == 403, path
            assert (await far.post(f"{at}/branch")).status_code == 403
            assert (await far.get("/metrics")).status_code == 403, "they count what happens in all folders"
            begins = one["id"][:6]  # of its id and of the next one's: no answer names those
            await got(mine.post("/conversations", json={}), 201)
            for answer in (
                await far.get(f"/conversations/{begins}"),
                await far.post("/chat", json={"message": "hi", "conversation_id": begins}),
            ):
                assert answer.status_code == 403
                assert one["id"] not in answer.text
            other_place = await mine.post(
                "/conversations", json={"resume": one["id"], "workspace": str(workspace / "in")}
            )
            assert other_place.status_code in (400, 403), "it is held in its folder"
            assert (await far.post(f"/questions/{asked['id']}/answer", json={"approved": True})).status_code == 403
            assert (await got(far.get("/questions")))["questions"] == []
            assert (await got(far.get("/conversations")))["conversations"] == []
            assert (await far.post("/conversations", json={"workspace": str(workspace)})).status_code == 403
            assert (await mine.post("/conversations", json={"workspace": "/"})).status_code == 403
            assert len((await got(mine.get("/questions")))["questions"]) == 1

    run(server.state, work())
    assert not (workspace / "a.txt").exists()


def test_what_is_to_be_approved_is_shown_whole(server: Server, home: Path) -> None:
    """Also what has the shape of a key: a yes is to exactly that."""
    key = "ghp_" + "Zq8Xw2Lm5Rt9Yb3Nc7Vd1Kf6Hj4Gs0Pa8Ue2"
    script(home, call("Write", file_path="a.txt", content=f"{key}\n"), text("done"))

    async def work() -> None:
        async with server.client(server.token("read", "operate", "approve")) as client:
            at = f"/conversations/{(await got(client.post('/conversations', json={}), 201))['id']}"
            await got(client.post(f"{at}/messages", json={"text": "go"}), 202)
            await question(server.state, client, at)
            (asked,) = (await got(client.get("/questions")))["questions"]
            assert key in asked["shown"]
            await got(client.post(f"/questions/{asked['id']}/answer", json={"approved": False}))
            await until(server.state, at.rpartition("/")[2], "ended")
            (asked,) = (await got(client.get("/questions?all=true")))["questions"]
            assert key not in str(asked), "what was answered is a record like any other"

    run(server.state, work())


def test_going_back_undoes_words_and_files(server: Server, workspace: Path) -> None:
    ann = server.token("read", "operate")

    async def work() -> None:
        async with server.client(ann) as mine:
            one = await got(mine.post("/conversations", json={"text": "go"}), 201)
            at = f"/conversations/{one['id']}"
            asked = await question(server.state, mine, at)
            busy = await mine.post(f"{at}/rewind", json={"sequence": 0})
            assert busy.status_code == 409, "not while a turn works"
            await got(mine.post(f"{at}/questions/{asked['id']}/answer", json={"approved": True}))
            await until(server.state, one["id"], "ended")
            assert (workspace / "a.txt").exists()
            (prompt,) = (await got(mine.get(f"{at}/prompts")))["prompts"]
            assert (prompt["text"], prompt["paths"]) == ("go", 1)
            assert (await mine.post(f"{at}/rewind", json={"sequence": 99})).status_code == 404
            went = await got(mine.post(f"{at}/rewind", json={"sequence": prompt["sequence"]}))
            assert (went["conversation"], went["files"]["refused"]) == (True, False)
            assert (await got(mine.get(f"{at}/items")))["items"] == []

    run(server.state, work())
    assert not (workspace / "a.txt").exists()


def test_a_run_of_any_driver_is_begun_cancelled_and_reported(
    server: Server, home: Path, workspace: Path, tmp_path: Path
) -> None:
    ann, bob = server.token("read", "operate", name="ann"), server.token("read", "operate", name="bob")
    (tmp_path / "Agentfile").write_text("SECRET\n")

    async def work() -> None:
        async with server.client(ann) as mine, server.client(bob) as other:
            for body, word in (
                ({}, "exactly one"),
                ({"message": "a", "task": "b"}, "exactly one"),
                ({"agentfile": "../Agentfile"}, "is not in"),
                ({"agentfile": str(tmp_path / "Agentfile")}, "is not in"),
                ({"message": "a", "inputs": {"x": "y"}}, "`inputs` needs"),
            ):
                refused = await mine.post("/runs", json=body)
                assert refused.status_code == 400, refused.text
                assert word in refused.json()["error"]["message"]
            wider = await mine.post("/runs", json={"message": "go", "limits": {"cost_usd": 1e9, "seconds": 1}})
            assert (wider.status_code, wider.json()["error"]["code"]) == (403, "limits")
            assert "(cost_usd 5):" in wider.json()["error"]["message"]
            one = await got(mine.post("/runs", json={"message": "go", "profile": "supervised"}), 201)
            at = f"/runs/{one['run_id']}"
            asked = await question(server.state, mine, at)
            assert (await other.post(f"{at}/cancel", json={})).status_code == 403
            yes = {"approved": True}
            assert (await other.post(f"{at}/questions/{asked['id']}/answer", json=yes)).status_code == 403
            assert (await other.post("/runs", json={"resume": one["run_id"]})).status_code == 403
            await got(mine.post(f"{at}/cancel", json={"reason": "enough"}))
            await until(server.state, one["run_id"], "ended")
            ended = await got(mine.get(at))
            assert (ended["status"], ended["reason"], ended["here"]) == ("stopped", "enough", False)
            assert (await mine.post(f"{at}/cancel", json={})).status_code == 409
            assert (await mine.get("/runs/none")).status_code == 404
            assert [row["run_id"] for row in (await got(mine.get("/runs")))["runs"]] == [one["run_id"]]
            page = await mine.get(f"{at}/report")
            assert page.headers["content-disposition"].startswith("attachment"), "no page of this origin"

    run(server.state, work())
    assert not (workspace / "a.txt").exists()


def test_a_provider_that_there_is_none_of_is_the_clients_mistake(server: Server) -> None:
    """503 would say: try again."""
    token = server.token("operate")
    for path, more in (("/conversations", {}), ("/runs", {"message": "hi"})):
        answer = server.ask("POST", path, token, json={"provider": "zz", **more})
        assert answer.status_code == 400, answer.text
        assert "known: anthropic" in answer.json()["error"]["message"]


def test_a_looser_run_is_gone_on_with_by_an_administrator_alone(server: Server, home: Path, workspace: Path) -> None:
    """A run keeps its profile: whoever may not ask for that one does not get it by going on with another's run."""
    script(home, {"delay_ms": 600_000, "text": "too late"})
    with (home / ".adderclaw" / "config.toml").open("a", encoding="utf-8") as file:
        file.write('[runtime]\nprofile = "supervised"\n')
    admin = server.token(name="admin")
    ann = server.token("read", "operate", name="ann", folders=[str(workspace)])

    async def work() -> None:
        async with server.client(admin) as loose, server.client(ann) as mine:
            one = await got(loose.post("/runs", json={"task": "go", "profile": "sandboxed"}), 201)
            await got(loose.post(f"/runs/{one['run_id']}/cancel", json={}))
            await until(server.state, one["run_id"], "ended")
            again = {"resume": one["run_id"]}
            refused = await mine.post("/runs", json=again)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "profile"), refused.text
            await got(mine.post("/runs", json={**again, "profile": "readonly"}), 201)

    run(server.state, work())


def test_a_looser_conversation_works_for_administrators_alone(server: Server, home: Path, workspace: Path) -> None:
    """Who may steer what others opened in a folder may not have more done there than the operator lets it."""
    script(home, text("done"))
    with (home / ".adderclaw" / "config.toml").open("a", encoding="utf-8") as file:
        file.write('[runtime]\nprofile = "supervised"\n')
    admin, other = server.token(name="admin"), server.token(name="other")
    ann = server.token("read", "operate", name="ann", folders=[str(workspace)])

    async def work() -> None:
        async with server.client(admin) as loose, server.client(ann) as mine, server.client(other) as also:
            one = await got(loose.post("/conversations", json={"profile": "sandboxed"}), 201)
            at = f"/conversations/{one['id']}"
            for refused in (
                await mine.post(f"{at}/messages", json={"text": "go"}),
                await mine.post("/chat", json={"message": "go", "conversation_id": one["id"]}),
                await mine.post("/conversations", json={"resume": one["id"], "text": "go"}),
            ):
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "profile"), refused.text
            assert (await got(mine.get(f"{at}/items")))["items"] == []
            await got(also.post(f"{at}/messages", json={"text": "go"}), 202)
            plain = await got(loose.post("/conversations", json={}), 201)
            await got(mine.post(f"/conversations/{plain['id']}/messages", json={"text": "go"}), 202)

    run(server.state, work())
