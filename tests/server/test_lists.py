"""Lists of one folder are as long as was asked, however much happened in others since."""

import asyncio
from pathlib import Path

from adderclaw.server.state import ServerState
from adderclaw.storage import approvals, transcript
from tests.server.conftest import Server


def happened(server: Server, folder: Path, count: int) -> list[str]:
    """Conversations that were held in a folder, each with a question that waits."""
    made: list[str] = []
    with server.state.store.write() as cursor:
        for number in range(count):
            session, id = f"session-{folder.name}-{number}", f"conversation-{folder.name}-{number}"
            transcript.begin(cursor, conversation_id=id, session_id=session, project_dir=str(folder))
            transcript.append(cursor, session, "user", {"content": f"message {number}"})
            approvals.ask(
                cursor, id=f"approval-{folder.name}-{number}", session_id=session, tool_use_id=f"t{number}", tool="B",
                risk="medium", reason="", shown="x", plan_hash="0", now=server.state.clock.now() + number, seconds=None,
            )  # fmt: skip
            cursor.execute("INSERT INTO turns VALUES (?, ?, 0)", (f"turn-{session}", session))
            made.append(id)
    return made


def test_the_limit_counts_what_the_client_sees(server: Server, workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    mine = happened(server, workspace, 3)
    happened(server, other, 120)
    token = server.token("read", folders=[str(workspace)])

    async def asked() -> None:
        async with server.client(token) as client, server.client(server.token("read", name="all")) as every:
            listed = (await client.get("/conversations?limit=3")).json()["conversations"]
            assert {row["id"] for row in listed} == {*mine}
            waiting = (await client.get("/questions?limit=3")).json()["questions"]
            assert [row["id"] for row in waiting] == [f"approval-{workspace.name}-{number}" for number in range(3)]
            assert len((await client.get("/conversations?limit=2")).json()["conversations"]) == 2
            hidden = await client.get("/conversations", params={"workspace": str(other)})
            assert hidden.status_code == 403
            found = await every.get("/conversations", params={"workspace": str(workspace), "limit": 3})
            assert {row["id"] for row in found.json()["conversations"]} == {*mine}
            assert len((await every.get("/questions?limit=120")).json()["questions"]) == 120

    asyncio.run(asked())


def test_a_response_of_another_folder_is_refused_like_an_unknown_one(
    state: ServerState, workspace: Path, tmp_path: Path
) -> None:
    """Whether it is the last one of its conversation, or that one is at work, is not said either."""
    state.openai = True
    server = Server(state)
    other = tmp_path / "other"
    other.mkdir()
    (theirs,) = happened(server, other, 1)
    token = server.token("openai", folders=[str(workspace)])
    for id in (f"resp_1_{theirs}", f"resp_2_{theirs}", "resp_1_nothing"):
        body = {"model": "adderclaw", "input": "go on", "previous_response_id": id}
        answer = server.ask("POST", "/v1/responses", token, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "folder"), answer.text
