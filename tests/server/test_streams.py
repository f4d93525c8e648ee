"""Streams over real sockets: what is followed, come back to, cut off by a killed server, and gone on with."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.world import call, text
from tests.server.conftest import Process
from tests.server.test_conversations import WRITE, script

type Json = dict[str, Any]


def events(answer: httpx2.Response) -> Iterator[tuple[int, str, Json]]:
    """The events of a stream: id, kind, data; comments are passed over."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.strip()
        elif not line and "data" in fields:
            yield int(fields["id"]), fields["event"], json.loads(fields["data"])
            fields = {}


def until(stream: Iterator[tuple[int, str, Json]], kind: str) -> list[tuple[int, str, Json]]:
    seen: list[tuple[int, str, Json]] = []
    for event in stream:
        seen.append(event)
        if event[1] == kind:
            return seen
    raise AssertionError(f"the stream ended without {kind}: {seen}")


def test_a_killed_turn_is_gone_on_with_by_another_server(
    serve: Callable[..., Process], home: Path, workspace: Path
) -> None:
    script(home, call("Read", file_path="AGENTS.md"), WRITE, text("done"))
    first = serve()
    token = first.token("--scope", "read", "--scope", "operate")
    with first.client(token) as client:
        id = client.post("/conversations", json={}).json()["id"]
        at = f"/conversations/{id}"
        with client.stream("GET", f"{at}/events?after=0") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert client.post(f"{at}/messages", json={"text": "go"}).status_code == 202
            seen = until(events(answer), "question")
        assert [data["state"] for _, kind, data in seen if kind == "item" and data["type"] == "call"][-1] == "asked"
        with client.stream("GET", f"{at}/events", headers={"Last-Event-ID": str(seen[2][0])}) as answer:
            again = until(events(answer), "question")
        assert again == seen[3:], "who comes back gets what it missed, once"
        assert client.get(f"{at}/events", headers={"Last-Event-ID": "x"}).status_code == 400
        asked = seen[-1][2]["id"]
        with client.stream("GET", f"{at}/events?after=0") as answer:
            stream = events(answer)
            until(stream, "question")
            os.kill(first.process.pid, signal.SIGKILL)
            with pytest.raises(httpx2.HTTPError):
                list(stream)
    first.process.wait(30)
    second = serve()
    with second.client(token) as client:
        shown = client.get(at).json()
        assert (shown["state"], shown["awake"], shown["steers"]) == ("idle", False, True)
        with client.stream("GET", f"{at}/events", headers={"Last-Event-ID": str(seen[-1][0])}) as answer:
            (_, kind, _) = next(events(answer))
            assert kind == "dropped", "the new server does not have what the killed one had: it is read anew"
        assert client.post("/conversations", json={"resume": id, "go_on": True}).status_code == 201
        with client.stream("GET", f"{at}/events?after=0") as answer:
            stream = events(answer)
            same = until(stream, "question")[-1][2]
            assert same["id"] == asked, "the question that waited as a row"
            yes = client.post(f"{at}/questions/{asked}/answer", json={"approved": True})
            assert yes.status_code == 200, yes.text
            ended = until(stream, "ended")[-1][2]
        assert (ended["outcome"], ended["answer"]) == ("completed", "done")
        assert (workspace / "a.txt").read_text() == "one\n"
        with client.stream("GET", f"{at}/events") as answer:
            assert second.end() == 0
            assert [kind for _, kind, _ in events(answer)][-1:] in ([], ["state"]), "its end ends the streams"
