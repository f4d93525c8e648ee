"""The gateway on this machine as a program uses it (C-26): every path, a chat with an approval, a stop."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager

import httpx2

from tests.acceptance.world import World, call, text
from tests.server.conftest import Process


@contextmanager
def serving(world: World) -> Generator[Process]:
    process = Process(world.cli, "--workspace", str(world.workspace))
    try:
        yield process
        assert process.end() == 0
    finally:
        process.process.kill()
        process.process.wait(30)


def test_c26_every_path_of_the_gateway(world: World) -> None:
    world.script(call("file_write", path="a.txt", content="aardvark\n"), text("Written: an aardvark."))
    with serving(world) as server, server.client(server.token(name="laptop")) as client:
        assert client.get("/health").json()["status"] == "ok"
        assert client.get("/status").json()["workspaces"] == [str(world.workspace)]
        assert {"Read", "Bash"} <= {tool["name"] for tool in client.get("/tools").json()}

        chat = _Chat(server, client, "write a.txt")
        question = _question(client)
        assert "aardvark" in question["shown"]
        answered = client.post(f"/questions/{question['id']}/answer", json={"approved": True})
        assert answered.status_code == 200, answered.text
        said = chat.answer()
        assert (said["outcome"], said["answer"]) == ("completed", "Written: an aardvark.")
        assert (world.workspace / "a.txt").read_text() == "aardvark\n"

        found = client.get("/memory/search", params={"q": "aardvark"}).json()
        assert said["conversation_id"] in json.dumps(found)
        receipt = client.get("/receipts").json()["receipts"][0]
        assert (receipt["tool"], receipt["status"], receipt["intact"]) == ("file_write", "allowed", True)
        assert "laptop" in json.dumps(receipt["decision"])  # who answered
        assert "laptop" in world.rows("SELECT answered_who FROM approvals")[0][0]

        assert client.post("/estop").json() == {"stopped": True}
        assert (world.cli.data / "ESTOP").exists()
        assert client.delete("/estop").json() == {"stopped": False}
    requests = [json.loads(row[0]) for row in world.rows("SELECT detail FROM events WHERE event_type='client_request'")]
    assert [(one["client"], one["method"], one["path"]) for one in requests] == [
        ("laptop", "POST", "/chat"),
        ("laptop", "POST", f"/questions/{question['id']}/answer"),
        ("laptop", "POST", "/estop"),
        ("laptop", "DELETE", "/estop"),
    ]


class _Chat(threading.Thread):
    """A client that waits for its answer while another one answers what is asked."""

    def __init__(self, server: Process, client: httpx2.Client, message: str) -> None:
        super().__init__(daemon=True)
        self._server, self._headers, self._message = server, client.headers, message
        self._answer: httpx2.Response | None = None
        self.start()

    def run(self) -> None:
        with self._server.client() as client:
            given = {"message": self._message}
            self._answer = client.post("/chat", json=given, headers=self._headers, timeout=60)

    def answer(self) -> dict[str, str]:
        self.join(60)
        assert self._answer is not None
        return self._answer.json()


def _question(client: httpx2.Client) -> dict[str, str]:
    while not (waiting := client.get("/questions").json()["questions"]):
        pass
    return waiting[0]
