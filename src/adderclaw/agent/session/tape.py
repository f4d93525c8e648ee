"""Where a session meets what is outside of it: each edge passes through here, so that it can be recorded and replayed.

This one passes everything on. `agent.replay.recorder` notes it, `agent.replay.checking` compares it.
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
    """The edges of a session that nobody records."""

    records = False
    """Whether child sessions get a tape, too."""

    # -------------------------------------------------------------- the turns

    def begin_turn(self, session: "Session", message: str | None, *, single: bool, attached: "Attached") -> None:
        """A turn begins."""

    def begin_driver(self, session: "Session", driver: str, inputs: Json) -> None:
        """A driver begins: its turns and calls follow from what it is given here, and from what it looks up."""

    def end_turn(self, outcome: str) -> None:
        """A turn ended; a message that a hook refused never reached the model."""

    def begin_operation(self, kind: str, body: Json) -> None:
        """Something else than a turn, which a person asked for: a compaction, a rewind, a goal."""

    # -------------------------------------------------------------- a driver

    def read_outside(self, session: "Session", of: str, query: Json, look: Callable[[], Json]) -> Json:  # noqa: ARG002
        """What a driver found outside."""
        return look()

    async def await_outside(self, session: "Session", of: str, query: Json, asking: Awaitable[Json]) -> Json:  # noqa: ARG002
        """The same, where the answer has to be waited for."""
        return await asking

    def offer_tools(self, tools: Mapping[str, Tool[Any]]) -> Mapping[str, Tool[Any]]:
        """The tools that a driver lets the model have from here on."""
        return tools

    # -------------------------------------------------------------- the model, the operator

    async def ask_model(self, session: "Session", asking: Awaitable[ChatResponse]) -> ChatResponse:  # noqa: ARG002
        """The model's reply."""
        return await asking

    async def ask_operator(self, session: "Session", asking: Awaitable[Answer]) -> Answer:  # noqa: ARG002
        """What the operator says."""
        return await asking

    # -------------------------------------------------------------- calls

    def record_judgement(self, session: "Session", prepared_call: "PreparedCall") -> "PreparedCall":  # noqa: ARG002
        """A call as it was judged: the facts, and the verdict."""
        return prepared_call

    def record_tool_arrival(self, why_not: str) -> None:
        """A tool that came late, or why it did not."""

    def start_call[T](self, run: Callable[[], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        """One of several calls that run at the same time."""
        return ensure_future(run())

    async def wait_for_call(self, session: "Session", running: Awaitable[Any]) -> None:  # noqa: ARG002
        """Wait until such a call has ended. Whoever interrupts the wait leaves the call as it is."""
        if isinstance(running, Future):
            await wait([running])

    def record_tool_result(self, session: "Session", result: ToolResult) -> None:
        """A tool's result."""

    def record_interruption(self, kind: str, session: "Session") -> None:
        """A tool or a question that was interrupted."""

    def inside_tool(self) -> AbstractContextManager[None]:
        """What begins in here belongs to a tool or a hook: its result counts, and not its steps."""
        return nullcontext()

    # -------------------------------------------------------------- beside the turns

    def record_task_ends(self, ended: list[TaskEnd]) -> None:
        """Background tasks that have ended."""

    def record_wait(self, how: str) -> None:
        """The answer waited for a background task: `ended`, or `timeout`."""

    def record_instructions(self, files: "list[File]") -> None:
        """Instruction files that were met on the way."""

    def record_notice(self, text: str) -> str:
        """What the model is told beside the messages, such as calls that an earlier process had begun."""
        return text


NO_TAPE = Tape()
