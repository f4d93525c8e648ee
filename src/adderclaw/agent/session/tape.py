"""The interface through which everything external reaches a session, so that it can be recorded and replayed.

`Tape` passes everything on; `agent.replay.recorder` records it and `agent.replay.playing` compares it.
"""

from asyncio import Future, ensure_future, wait
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from adderclaw.core.questions import Answer
from adderclaw.core.types import ChatResponse, Json, TaskEnd, Tool, ToolResult

if TYPE_CHECKING:
    from adderclaw.agent.session.instructions import File
    from adderclaw.agent.session.session import Attached, Session
    from adderclaw.agent.tool_call.permission_check import PreparedCall


class Tape:
    """The tape of a session that is not recorded."""

    records = False
    """Whether child sessions are recorded, too."""

    # -------------------------------------------------------------- the turns

    def begin_turn(self, session: "Session", message: str | None, *, single: bool, attached: "Attached") -> None:
        """A turn begins."""

    def begin_driver(self, session: "Session", driver: str, inputs: Json) -> None:
        """A driver begins. Its inputs and what it reads outside determine its turns and calls."""

    def end_turn(self, outcome: str) -> None:
        """A turn ended; the outcome is empty if it raised an error."""

    def begin_operation(self, kind: str, body: Json) -> None:
        """A person asked for an operation other than a turn: a compaction, a rewind, a goal."""

    # -------------------------------------------------------------- a driver

    def read_outside(self, session: "Session", of: str, query: Json, look: Callable[[], Json]) -> Json:  # noqa: ARG002
        """Read external state for a driver."""
        return look()

    async def await_outside(self, session: "Session", of: str, query: Json, asking: Awaitable[Json]) -> Json:  # noqa: ARG002
        """Await external state for a driver."""
        return await asking

    def offer_tools(self, tools: Mapping[str, Tool[Any]]) -> Mapping[str, Tool[Any]]:
        """The tools that a driver offers the model from now on."""
        return tools

    # -------------------------------------------------------------- the model, the operator

    async def ask_model(self, session: "Session", asking: Awaitable[ChatResponse]) -> ChatResponse:  # noqa: ARG002
        """Wait for the model's reply."""
        return await asking

    async def ask_operator(self, session: "Session", asking: Awaitable[Answer]) -> Answer:  # noqa: ARG002
        """Wait for the operator's answer."""
        return await asking

    # -------------------------------------------------------------- calls

    def record_judgement(self, session: "Session", prepared_call: "PreparedCall") -> "PreparedCall":  # noqa: ARG002
        """A call was judged: record the facts and the verdict."""
        return prepared_call

    def record_tool_arrival(self, why_not: str) -> None:
        """A tool of a slow server became available, or did not for the reason `why_not`."""

    def start_call[T](self, run: Callable[[], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        """Start one of several calls that run in parallel."""
        return ensure_future(run())

    async def wait_for_call(self, session: "Session", running: Awaitable[Any]) -> None:  # noqa: ARG002
        """Wait until a parallel call has ended. Cancelling the wait does not cancel the call."""
        if isinstance(running, Future):
            await wait([running])

    def record_tool_result(self, session: "Session", result: ToolResult) -> None:
        """A tool returned its result."""

    def record_interruption(self, kind: str, session: "Session") -> None:
        """A tool or a question was interrupted."""

    def inside_tool(self) -> AbstractContextManager[None]:
        """A context for the steps of a tool or a hook, of which only the result is recorded."""
        return nullcontext()

    # -------------------------------------------------------------- outside the turns

    def record_task_ends(self, ended: list[TaskEnd]) -> None:
        """Background tasks ended."""

    def record_wait(self, how: str) -> None:
        """The turn waited for a background task: `ended` or `timeout`."""

    def record_instructions(self, files: "list[File]") -> None:
        """Nested instruction files were loaded."""

    def record_notice(self, text: str) -> str:
        """A notice for the model outside the messages, such as calls that an earlier process began."""
        return text


NO_TAPE = Tape()
