"""The runs that a client began: each on its own runtime, all in one loop, the client their operator."""

import asyncio
from collections.abc import Callable, Sequence

from adderclaw.channels import headless
from adderclaw.channels.channel import report
from adderclaw.channels.prepared import Prepared
from adderclaw.channels.rpc.wire import (
    ALREADY_ANSWERED,
    NO_SUCH_APPROVAL,
    NO_SUCH_RUN,
    RUN_REFUSED,
    TOO_MANY_RUNS,
    Id,
    Outbox,
    RpcError,
    notice,
)
from adderclaw.credentials.redaction import visible
from adderclaw.errors import AdderClawError
from adderclaw.events import EventRecord
from adderclaw.kernel.session import TurnResult
from adderclaw.runtime import Run, Runtime, opened, start
from adderclaw.types import Answer, ApprovalRequest, Json, Question, Replies

MOST_RUNS = 8


class Client:
    """The client as an operator: a question goes out, and `approve` brings the answer."""

    def __init__(self, outbox: Outbox, run_id: Callable[[], str], request_id: Id) -> None:
        self._outbox, self._run_id, self._request_id = outbox, run_id, request_id
        self.waiting: dict[str, asyncio.Future[Answer]] = {}
        self.answered: set[str] = set()

    async def approve(self, request: ApprovalRequest) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.waiting[request.id] = future
        asked: Json = {
            "id": request.id,
            "run_id": self._run_id(),
            "request_id": self._request_id,
            "tool": visible(request.tool),
            "risk": request.risk,
            "reason": visible(request.reason),
            "shown": visible(request.shown),
            "plan_hash": request.plan_hash,
            "grants": list(request.grants),
        }
        self._outbox.put(notice("approval_request", asked))
        try:
            return await future
        finally:
            del self.waiting[request.id]
            self.answered.add(request.id)

    async def ask(self, questions: Sequence[Question]) -> Replies | None:  # noqa: ARG002 - the protocol has no such turn
        return None


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
        return {"run_id": self.run_id, "kind": self.kind, "status": "running", "approvals": list(self.client.waiting)}


class Runs:
    """All runs of one client."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.active: dict[str, Active] = {}

    async def begin(self, made: Prepared, id: Id) -> Json:
        """Run to the end; the report of it is the answer to the request."""
        if len(self.active) >= MOST_RUNS:
            raise RpcError(TOO_MANY_RUNS, f"{MOST_RUNS} runs are under way already; wait for one of them")
        try:
            runtime = start(made.options)
            resume = headless.resumed(runtime, made.again) if made.again is not None else None
        except AdderClawError as error:
            raise RpcError(RUN_REFUSED, str(error)) from error
        one = Active(runtime, Client(self._outbox, lambda: runtime.bus.run_id, id), made.kind)
        runtime.bus.listen("rpc", self._teller(id))
        self.active[one.run_id] = one
        try:
            with opened(runtime, one.client, kind=made.kind, channel="rpc", again=resume, task=made.task) as run:
                return await self._driven(one, run, made)
        except AdderClawError as error:
            raise RpcError(RUN_REFUSED, str(error)) from error
        finally:
            self.active.pop(one.run_id, None)

    def _teller(self, id: Id) -> Callable[[EventRecord], None]:
        def tell(record: EventRecord) -> None:
            self._outbox.put_event({"request_id": id, **record._asdict()})

        return tell

    async def _driven(self, one: Active, run: Run, made: Prepared) -> Json:
        task = asyncio.ensure_future(made.drive(run))
        one.task = task
        try:
            result = await task
        except asyncio.CancelledError:
            if not one.cancelled:
                task.cancel()
                await asyncio.wait({task})
                one.cancelled = "the client is gone"
            result = TurnResult("stopped", "", one.cancelled)
        await run.close()
        await run.end()
        code = run.finish(result, mode=made.mode)
        return {**report(run, result), "exit_code": code}

    def cancel(self, run_id: str, reason: str) -> Json:
        one = self._find(run_id)
        one.cancelled = reason
        if one.task is not None:
            one.task.cancel()
        return {"run_id": one.run_id, "cancelled": True}

    def answer(self, id: str, given: Answer) -> Json:
        for one in self.active.values():
            future = one.client.waiting.get(id)
            if future is not None and not future.done():
                future.set_result(given)
                return {"id": id, "approved": given.approved}
            if id in one.client.answered or future is not None:
                raise RpcError(ALREADY_ANSWERED, f"approval {id} is answered already")
        raise RpcError(NO_SUCH_APPROVAL, f"no approval {id!r} waits for an answer")

    def _find(self, run_id: str) -> Active:
        found = self.active.get(run_id)
        if found is None:
            raise RpcError(NO_SUCH_RUN, f"no run {run_id!r} is under way")
        return found

    def end(self) -> None:
        """The client is gone: every run ends stopped, with its outcome written."""
        for one in self.active.values():
            one.cancelled = one.cancelled or "the client closed the connection"
            if one.task is not None:
                one.task.cancel()
