"""For the tests of programs that embed AdderClaw: a client that replays messages, and a model that plays a script.

Both fail when something of the script is left over: then the script and what ran did not agree.
"""

import json
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from adderclaw.clients.python.agent_client import AgentClient, Query
from adderclaw.core.provider_kinds import MOCK
from adderclaw.core.query import AgentMessage, QueryOptions

__all__ = ["MockAgentClient", "ScriptedModel", "call", "text"]


def text(said: str) -> dict[str, Any]:
    """A step of a script: the model says this."""
    return {"text": said}


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A step of a script: the model calls this tool."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


class ScriptedModel:
    """Plays steps in place of a model, under everything else that is real: gate, tools, sandbox, store.

    `with ScriptedModel(call("Read", file_path="a.txt"), text("done")) as model: AgentClient(model.options(cwd=…))`.
    A query that leaves steps over ends with the outcome `error`, unless `partial` says that several queries share them.
    """

    def __init__(self, *steps: Mapping[str, Any], partial: bool = False) -> None:
        self._steps, self._partial = steps, partial
        self._folder = ""

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="adderclaw-script-")
        with open(self.fixture, "w", encoding="utf-8") as file:
            json.dump({"steps": list(self._steps), "partial": self._partial}, file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def fixture(self) -> str:
        return os.path.join(self._folder, "script.json")

    def options(self, options: QueryOptions | None = None, **more: Any) -> QueryOptions:
        """Options with this model in place of the configured one."""
        given = replace(options or QueryOptions(), **more)
        entry = {"kind": MOCK, "model": "scripted", "fixture": self.fixture}
        settings = {**given.settings, "providers": {"models": {"scripted": entry}}}
        return replace(given, provider="scripted", settings=settings)


class MockAgentClient(AgentClient):
    """Replays messages: no model, no tool, no file. Each query takes the next list that was given."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        """What was asked, in order."""
        self._responses: list[Sequence[AgentMessage]] = []

    def set_responses(self, *responses: Sequence[AgentMessage]) -> None:
        """One list of messages for each query to come."""
        self._responses = list(responses)

    def query(self, message: str, *, resume: str | None = None) -> Query:
        self.asked.append(message)
        if not self._responses:
            raise AssertionError(f"query {len(self.asked)} ({message!r}) has no response: give one to set_responses")
        return _Replayed(self.options, message, resume, self._responses.pop(0))

    def finished(self) -> None:
        """Raises AssertionError when responses are left over."""
        if self._responses:
            raise AssertionError(f"{len(self._responses)} responses were not asked for")


class _Replayed(Query):
    def __init__(
        self, options: QueryOptions, message: str, resume: str | None, responses: Sequence[AgentMessage]
    ) -> None:
        super().__init__(options, message, resume)
        self._messages = self._replay(responses)

    async def _replay(self, responses: Sequence[AgentMessage]) -> AsyncGenerator[AgentMessage, None]:
        for response in responses:
            if self._interrupted:
                return
            yield response
