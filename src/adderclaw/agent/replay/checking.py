"""Stands where the recorder stood: notes nothing, and compares what happens now with what was noted."""

import re
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from typing import Any

from adderclaw.agent.replay import edges
from adderclaw.agent.replay.edges import Moments, Reel
from adderclaw.agent.replay.recorder import Recorder
from adderclaw.agent.session.session import Attached, Session
from adderclaw.agent.tool_call.permission_check import PreparedCall, unfit_call
from adderclaw.core.types import Json, Tool
from adderclaw.storage import Store

type Differ = Callable[[str, object, object, str], None]
"""Where, what was recorded, what came now, and a note."""


HINT = re.compile(r"; did you mean \w+\?")
"""What another version may guess otherwise of a name that does not exist: it is played as it was answered."""


class Later[T]:
    """Runs when it is waited for, and not before."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, Any, T]:
        return self._run().__await__()


class Checking(Recorder):
    def __init__(self, store: Store, reel: Reel, clock: Moments, differ: Differ) -> None:
        super().__init__(store, "", "", clock, lambda _session: lambda _cursor: {})
        self._reel, self._differ = reel, differ
        self._turns = 0
        self.driven = False
        """A driver is replayed: it begins its turns by itself."""

    def begin_turn(self, session: Session, message: str | None, *, single: bool, attached: Attached) -> None:  # noqa: ARG002 - no driver attaches anything
        """Whoever replays has begun the turn already; a driver has not."""
        if not self.driven:
            return
        body = self._reel.take("turn")
        self._turns += 1
        session.model, session.provider = body["model"], edges.Script(self._reel, body["provider"])
        before, now = (body["message"], body.get("single", False)), (message, single)
        if before != now:
            self._differ(f"prompt of turn {self._turns}", before[0], now[0], "")

    def end_turn(self, outcome: str) -> None:
        if not self.driven or self._reel.over:
            return
        before = self._reel.take("end")["outcome"]
        if before != outcome:
            where = f"outcome of turn {self._turns}"
            self._differ(where, before or "interrupted", outcome or "interrupted", "")

    def begin_driver(self, session: Session, driver: str, inputs: Json) -> None:
        """Whoever replays has begun the driver, too."""

    def read_outside(self, session: Session, of: str, query: Json, look: Callable[[], Json]) -> Json:  # noqa: ARG002
        return self._reel.fact(of, query)

    async def await_outside(self, session: Session, of: str, query: Json, asking: Awaitable[Json]) -> Json:  # noqa: ARG002
        if (close := getattr(asking, "close", None)) is not None:
            close()  # nobody is asked
        return self._reel.fact(of, query)

    def record_notice(self, text: str) -> str:  # noqa: ARG002 - what was told then
        return str(self._reel.take("lost")["told"]) if self._reel.comes("lost") else ""

    def offer_tools(self, tools: Mapping[str, Tool[Any]]) -> Mapping[str, Tool[Any]]:
        """A driver's own tools are judged as they were."""
        own = self._reel.own_tools
        return {name: tool if own.get(name) is tool else edges.driven(self._reel, tool) for name, tool in tools.items()}

    def start_call[T](self, run: Callable[[], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        """Calls that ran at the same time were noted in their order, and come back in it."""
        return Later(run)

    async def wait_for_call(self, session: Session, running: Awaitable[Any]) -> None:  # noqa: ARG002
        """What comes next is what was recorded: the call's result, or that the wait for it was interrupted."""
        if self._reel.comes("together"):
            self._reel.take("together")
            raise CancelledError

    def record_judgement(self, session: Session, prepared_call: PreparedCall) -> PreparedCall:  # noqa: ARG002
        if prepared_call.case is not None:
            now = [prepared_call.decision.verdict, prepared_call.decision.by, prepared_call.decision.risk]
            before = self._reel.case.get("verdict")
            if now != before:
                where = f"verdict on call {prepared_call.call.id} ({prepared_call.call.name})"
                self._differ(where, before, now, prepared_call.decision.reason)
        if prepared_call.tool is None and prepared_call.error is not None:
            recorded = self._reel.answered(prepared_call.call.id)
            if HINT.sub("", recorded) == HINT.sub("", prepared_call.error):
                return unfit_call(prepared_call.call, None, recorded)
        return prepared_call
