"""The runs that a client started, each with its own runtime in one event loop; the client is the operator."""

from adderclaw.agent.conversation import asking
from adderclaw.agent.conversation.asking import Asking, Cancelling, Request
from adderclaw.agent.run import Runtime, open_run, resume_of_run, start
from adderclaw.agent.run.drive import drive
from adderclaw.agent.run.driver import Driver
from adderclaw.agent.tool_call.approvals import AlreadyAnswered, AnswerRejected
from adderclaw.clients.json_rpc.wire import (
    ALREADY_ANSWERED,
    INVALID_PARAMS,
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
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.questions import Answer, ApprovalRequest
from adderclaw.core.types import Json
from adderclaw.storage.telemetry.log import fields

MOST_RUNS = 8


class Active:
    """One active run."""

    def __init__(self, runtime: Runtime, outbox: Outbox, request_id: Id, kind: str) -> None:
        self.runtime, self.request_id, self.kind = runtime, request_id, kind
        self._outbox = outbox
        self.asking = Asking(self._ask)
        """The client is the operator: it answers with the methods `approve` and `answer`."""
        self.work = Cancelling()

    @property
    def run_id(self) -> str:
        return self.runtime.bus.run_id

    def _ask(self, request: Request) -> None:
        method = "approval_request" if isinstance(request, ApprovalRequest) else "question_request"
        about: Json = {"run_id": self.run_id, "request_id": self.request_id}
        self._outbox.put(notice(method, {**asking.as_json(request), **about}))

    def status(self) -> Json:
        waits: dict[str, list[str]] = {"approvals": [], "questions": []}
        for id, request in self.asking.open.items():
            waits["approvals" if isinstance(request, ApprovalRequest) else "questions"].append(id)
        return {"run_id": self.run_id, "kind": self.kind, "status": "running", **waits}


class Runs:
    """All runs of one client."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.active: dict[str, Active] = {}
        self._ended = False

    async def begin(self, driver: Driver, id: Id) -> Json:
        """Run to the end; the report is the answer to the request."""
        if self._ended:
            raise RpcError(RUN_REFUSED, "the connection is closed")
        if id is not None and any(active.request_id == id for active in self.active.values()):
            raise RpcError(INVALID_REQUEST, f"Invalid Request: a run of the request {id!r} is already active")
        if len(self.active) >= MOST_RUNS:
            raise RpcError(TOO_MANY_RUNS, f"{MOST_RUNS} runs are already active; wait for one of them")
        opening = driver.opening
        try:
            runtime = start(opening.options)
            again = resume_of_run(runtime, opening.again) if opening.again is not None else None
        except AdderClawError as error:
            raise RpcError(RUN_REFUSED, str(error)) from error
        active = Active(runtime, self._outbox, id, opening.kind)
        runtime.bus.add_sink("rpc", lambda record: self._outbox.put_event({"request_id": id, **fields(record)}))
        self.active[active.run_id] = active
        try:
            with open_run(
                runtime,
                active.asking,
                kind=opening.kind,
                channel="rpc",
                again=again,
                task=opening.task,
                more=opening.rows,
            ) as run:
                work = active.work.done(driver.run(run.session))
                report = await drive(run, work, mode=opening.mode, resume=opening.resume(run.run_id))
                return {**report.as_json(), "exit_code": report.exit_code}
        except AdderClawError as error:
            raise RpcError(RUN_REFUSED, str(error)) from error
        finally:
            self.active.pop(active.run_id, None)

    def cancel(self, run_id: str | None, request_id: Id, reason: str) -> Json:
        for active in self.active.values():
            if active.run_id == run_id if run_id is not None else active.request_id == request_id:
                active.work.cancel(reason)
                return {"run_id": active.run_id, "cancelled": True}
        what = f"run {run_id!r}" if run_id is not None else f"run of the request {request_id!r}"
        raise RpcError(NO_SUCH_RUN, f"no {what} is active")

    def answer(self, id: str, reply: Answer, plan: str = "") -> bool:
        """Answer a question of an active run; False if none of them has this question."""
        try:
            return any(active.asking.answer(id, reply, plan) for active in self.active.values())
        except AnswerRejected as error:
            raise not_counted(error) from error
        except UsageError as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from error

    def end(self) -> None:
        """The client disconnected: stop every run and store its outcome."""
        self._ended = True
        for active in self.active.values():
            active.work.cancel("the client closed the connection")


def not_counted(error: AnswerRejected) -> RpcError:
    return RpcError(ALREADY_ANSWERED if isinstance(error, AlreadyAnswered) else NOT_COUNTED, str(error))
