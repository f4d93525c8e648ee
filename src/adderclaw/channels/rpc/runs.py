"""The runs that a client began: each on its own runtime, all in one loop, the client their operator."""

import asyncio
from collections.abc import Awaitable, Callable

from adderclaw.channels.rpc.wire import (
    ALREADY_ANSWERED,
    INVALID_REQUEST,
    NO_SUCH_RUN,
    NOT_COUNTED,
    RUN_REFUSED,
    TOO_MANY_RUNS,
    Id,
    Outbox,
    RpcError,
    notice,
)
from adderclaw.drivers.driver import Driver
from adderclaw.errors import AdderClawError
from adderclaw.events import EventRecord
from adderclaw.kernel.approvals import questions_json, shown, unaskable
from adderclaw.kernel.session import TurnResult
from adderclaw.questions import Answer, ApprovalRequest, QuestionRequest, Replies, reached, replied
from adderclaw.runtime import Run, Runtime, opened, run_again, start
from adderclaw.runtime.drive import drive
from adderclaw.sinks.log import fields
from adderclaw.types import Json

MOST_RUNS = 8


class Client:
    """The client as an operator: what is asked goes out; `approve` brings a verdict, `answer` words."""

    def __init__(self, outbox: Outbox, run_id: Callable[[], str], request_id: Id) -> None:
        self._outbox, self._run_id, self.request_id = outbox, run_id, request_id
        self.waiting: dict[str, asyncio.Future[Answer]] = {}
        self.plans: dict[str, str] = {}
        """The hash of what each of these is about."""
        self.asked: dict[str, asyncio.Future[Replies | None]] = {}
        self.answered: set[str] = set()

    async def approve(self, request: ApprovalRequest) -> Answer:
        if (refused := unaskable(request)) is not None:
            return refused
        seen = shown(request)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.waiting[request.id], self.plans[request.id] = future, request.plan_hash
        asked: Json = {
            "id": request.id,
            "run_id": self._run_id(),
            "request_id": self.request_id,
            "tool": seen.tool,
            "risk": request.risk,
            "reason": seen.reason,
            "shown": seen.text,
            "lookalikes": seen.lookalikes,
            "plan_hash": request.plan_hash,
            "grants": list(request.grants),
            "registries": list(request.registries),
        }
        self._outbox.put(notice("approval_request", asked))
        try:
            given = await future
            return reached(request) if given.approved and given.remember == "registries" else given
        finally:
            del self.waiting[request.id]
            self.answered.add(request.id)

    async def ask(self, request: QuestionRequest) -> Answer:
        future: asyncio.Future[Replies | None] = asyncio.get_running_loop().create_future()
        self.asked[request.id] = future
        about: Json = {"id": request.id, "run_id": self._run_id(), "request_id": self.request_id}
        self._outbox.put(notice("question_request", {**about, "questions": questions_json(request.questions)}))
        try:
            return replied(await future)
        finally:
            del self.asked[request.id]
            self.answered.add(request.id)


class Active:
    """One run that is under way."""

    def __init__(self, runtime: Runtime, client: Client, kind: str) -> None:
        self.runtime, self.client, self.kind = runtime, client, kind
        self.task: asyncio.Future[TurnResult] | None = None
        self.cancelled = ""

    @property
    def run_id(self) -> str:
        return self.runtime.bus.run_id

    def status(self) -> Json:
        waits = {"approvals": list(self.client.waiting), "questions": list(self.client.asked)}
        return {"run_id": self.run_id, "kind": self.kind, "status": "running", **waits}


class Runs:
    """All runs of one client."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.active: dict[str, Active] = {}
        self._ended = False

    async def begin(self, made: Driver, id: Id) -> Json:
        """Run to the end; the report of it is the answer to the request."""
        if self._ended:
            raise RpcError(RUN_REFUSED, "the connection is closed")
        if id is not None and any(one.client.request_id == id for one in self.active.values()):
            raise RpcError(INVALID_REQUEST, f"Invalid Request: a run of the request {id!r} is under way already")
        if len(self.active) >= MOST_RUNS:
            raise RpcError(TOO_MANY_RUNS, f"{MOST_RUNS} runs are under way already; wait for one of them")
        opening = made.opening
        try:
            runtime = start(opening.options)
            again = run_again(runtime, opening.again) if opening.again is not None else None
        except AdderClawError as error:
            raise RpcError(RUN_REFUSED, str(error)) from error
        one = Active(runtime, Client(self._outbox, lambda: runtime.bus.run_id, id), opening.kind)
        runtime.bus.listen("rpc", self._teller(id))
        self.active[one.run_id] = one
        try:
            with opened(runtime, one.client, kind=opening.kind, channel="rpc", again=again, task=opening.task) as run:
                return await _driven(one, run, made)
        except AdderClawError as error:
            raise RpcError(RUN_REFUSED, str(error)) from error
        finally:
            self.active.pop(one.run_id, None)

    def _teller(self, id: Id) -> Callable[[EventRecord], None]:
        def tell(record: EventRecord) -> None:
            self._outbox.put_event({"request_id": id, **fields(record)})

        return tell

    def cancel(self, run_id: str | None, request_id: Id, reason: str) -> Json:
        one = self._find(run_id) if run_id is not None else self._asked_by(request_id)
        one.cancelled = reason
        if one.task is not None:
            one.task.cancel()
        return {"run_id": one.run_id, "cancelled": True}

    def answer(self, id: str, given: Answer, plan: str = "") -> Json | None:
        """Answer what one of its own runs asks; None where none of them does."""
        for one in self.active.values():
            future = one.client.waiting.get(id)
            if future is not None and plan and plan != one.client.plans[id]:
                raise RpcError(NOT_COUNTED, f"{id} is about another call (plan {one.client.plans[id]})")
            if future is not None and not future.done():
                future.set_result(given)
                return {"id": id, "approved": given.approved}
            if id in one.client.answered or future is not None:
                raise RpcError(ALREADY_ANSWERED, f"approval {id} is answered already")
        return None

    def reply(self, id: str, replies: Replies | None) -> Json | None:
        for one in self.active.values():
            future = one.client.asked.get(id)
            if future is not None and not future.done():
                future.set_result(replies)
                return {"id": id, "answered": replies is not None}
            if id in one.client.answered or future is not None:
                raise RpcError(ALREADY_ANSWERED, f"question {id} is answered already")
        return None

    def _asked_by(self, request_id: Id) -> Active:
        for one in self.active.values():
            if request_id is not None and one.client.request_id == request_id:
                return one
        raise RpcError(NO_SUCH_RUN, f"no run of the request {request_id!r} is under way")

    def _find(self, run_id: str) -> Active:
        found = self.active.get(run_id)
        if found is None:
            raise RpcError(NO_SUCH_RUN, f"no run {run_id!r} is under way")
        return found

    def end(self) -> None:
        """The client is gone: every run ends stopped, with its outcome written."""
        self._ended = True
        for one in self.active.values():
            one.cancelled = one.cancelled or "the client closed the connection"
            if one.task is not None:
                one.task.cancel()


async def _driven(one: Active, run: Run, made: Driver) -> Json:
    opening = made.opening
    work = _worked(one, made.run(run.session))
    report = await drive(run, work, mode=opening.mode, resume=opening.resume(run.run_id))
    return {**report.as_json(), "exit_code": report.exit_code}


async def _worked(one: Active, work: Awaitable[TurnResult]) -> TurnResult:
    """Until it is done or cancelled; the client gets an answer in any case."""
    task = one.task = asyncio.ensure_future(work)
    try:
        result = await task
        return result._replace(reason=one.cancelled) if one.cancelled and result.outcome == "stopped" else result
    except asyncio.CancelledError:
        if not one.cancelled:
            task.cancel()
            await asyncio.wait({task})
            one.cancelled = "the client is gone"
        return TurnResult("stopped", "", one.cancelled)
    except AdderClawError as error:
        return TurnResult("error", "", str(error))
