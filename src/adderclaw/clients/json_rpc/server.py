"""The JSON-RPC server: reads messages, calls methods and answers, until its input ends."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, cast

from adderclaw import __version__
from adderclaw.agent.conversation import questions
from adderclaw.agent.run import Options
from adderclaw.agent.run.signals import ending
from adderclaw.agent.tool_call.approvals import AnswerRejected
from adderclaw.clients import stdio
from adderclaw.clients.json_rpc import sdlc, wire
from adderclaw.clients.json_rpc.runs import Runs, not_counted
from adderclaw.clients.json_rpc.wire import Call, Id, Outbox, RpcError
from adderclaw.core.decode import Between, Invalid, decode
from adderclaw.core.errors import AdderClawError, AlreadyCompleted, UsageError
from adderclaw.core.questions import Answer, answer_with
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.flows.agentfile.load import load
from adderclaw.flows.agentfile.workflow import InvalidAgentfile
from adderclaw.flows.request import RunParams, prepare_driver

PROTOCOL = "1.0"


@record
class CancelParams:
    """Names a run by its id, or by the id of the request that started it."""

    run_id: str | None = None
    request_id: str | int | float | None = None
    reason: str = "cancelled by the client"


@record
class ApproveParams:
    id: str
    approved: bool
    comment: str = ""
    remember: Literal["", "session", "project", "registries"] = ""
    plan: str = ""
    """Answer only if the question is about the call with this hash."""


@record
class AnswerParams:
    """`replies`: question → the chosen label or free text; without it, the question gets no answer."""

    id: str
    replies: dict[str, str] | None = None


@record
class QuestionsParams:
    all: bool = False
    """Include answered questions."""
    limit: Annotated[int, Between(1, 1_000)] = 100


@record
class ValidateParams:
    agentfile: str


@record
class StatusParams:
    run_id: str | None = None


def _by_our_names(params: "Json | list[Any]") -> "Json | list[Any]":
    """Accept `workflow` as another name for the parameter `agentfile`."""
    if isinstance(params, list) or "workflow" not in params or "agentfile" in params:
        return params
    return {"agentfile" if name == "workflow" else name: value for name, value in params.items()}


class Server:
    """One client's server."""

    def __init__(self, options: Options, outbox: Outbox) -> None:
        self._options, self._outbox = options, outbox
        self.runs = Runs(outbox)
        self._tasks: set[asyncio.Task[None]] = set()
        self._methods: dict[str, tuple[type[object] | None, Callable[[Any, Id], Awaitable[object]]]] = {
            "initialize": (None, self._initialize),
            "ping": (None, self._ping),
            "run": (RunParams, self._run),
            "cancel": (CancelParams, self._cancel),
            "approve": (ApproveParams, self._approve),
            "answer": (AnswerParams, self._answer),
            "questions": (QuestionsParams, self._questions),
            "validate": (ValidateParams, self._validate),
            "status": (StatusParams, self._status),
            **sdlc.Methods(options).table,
        }

    # -------------------------------------------------------------- messages

    def take(self, line: bytes) -> None:
        """Start handling one line of input. Answers are sent as methods finish, in any order."""
        if line.strip():
            self._begin(self._line(line))

    async def room(self) -> None:
        await self._outbox.room()

    def refuse(self, message: str) -> None:
        self._outbox.put(wire.failure(None, RpcError(wire.INVALID_REQUEST, f"Invalid Request: {message}")))

    def _begin(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _line(self, line: bytes) -> None:
        try:
            message = wire.parse(line)
        except RpcError as error:
            self._outbox.put(wire.failure(None, error))
            return
        if not isinstance(message, list):
            answered = await self._message(message)
            if answered is not None:
                self._outbox.put(answered)
            return
        batch = cast("list[object]", message)
        if not batch or len(batch) > wire.MAX_BATCH:
            self.refuse("empty batch" if not batch else f"a batch may have at most {wire.MAX_BATCH} messages")
            return
        answers = await asyncio.gather(*(self._message(part) for part in batch))
        if reply := [part for part in answers if part is not None]:
            self._outbox.put(reply)

    async def _message(self, message: object) -> Json | None:
        """The answer to one message; None for a notification, even if it fails."""
        try:
            call = wire.call_of(message)
        except RpcError as error:
            return wire.failure(_id_of(message), error)
        try:
            result = await self._called(call)
        except RpcError as error:
            return None if call.notification else wire.failure(call.id, error)
        except Exception as error:  # noqa: BLE001 - every request gets an answer
            broken = RpcError(wire.INTERNAL_ERROR, f"Internal error: {type(error).__name__}: {error}")
            return None if call.notification else wire.failure(call.id, broken)
        return None if call.notification else wire.answer(call.id, result)

    async def _called(self, call: Call) -> object:
        entry = self._methods.get(call.method)
        if entry is None:
            known = ", ".join(self._methods)
            raise RpcError(wire.METHOD_NOT_FOUND, f"Method not found: {call.method[:100]!r} (known: {known})")
        kind, method = entry
        if isinstance(call.params, list):
            if call.params:
                raise RpcError(wire.INVALID_PARAMS, "Invalid params: pass them by name, as an object")
            call = call._replace(params={})
        if kind is None:
            return await method(call.params, call.id)
        try:
            params: object = decode(kind, _by_our_names(call.params))
        except Invalid as error:
            problems = [{"key": key, "message": message} for key, message in error.problems]
            raise RpcError(wire.INVALID_PARAMS, f"Invalid params: {error}", problems) from error
        if any("\0" in str(getattr(params, name, "")) for name in NAMES):
            raise RpcError(wire.INVALID_PARAMS, "Invalid params: paths and names cannot contain NUL characters")
        if empty := [name for name in NAMES if getattr(params, name, None) == ""]:
            raise RpcError(wire.INVALID_PARAMS, f"Invalid params: {', '.join(empty)} is empty; set it, or omit it")
        return await method(params, call.id)

    # -------------------------------------------------------------- methods

    async def _initialize(self, params: Json, _id: Id) -> Json:
        """Describe the server, with our own keys and those of MCP. The client's description has no effect."""
        server = {"name": "adderclaw", "version": __version__}
        requested = params.get("protocolVersion")
        return {
            "protocol_version": PROTOCOL,
            "server": server,
            "protocolVersion": requested if isinstance(requested, str) else PROTOCOL,
            "serverInfo": server,
            "capabilities": {
                "methods": list(self._methods),
                "notifications": ["event", "events_dropped", "approval_request", "question_request"],
                "batch": True,
                "approvals": True,
                "questions": True,
                "resume": True,
            },
        }

    async def _ping(self, _params: Json, _id: Id) -> Json:
        return {}

    async def _run(self, params: RunParams, id: Id) -> Json:
        try:
            driver = prepare_driver(self._options, params)
        except AlreadyCompleted as ended:
            return {**ended.as_json(), "exit_code": 0}
        except AdderClawError as error:
            raise RpcError(wire.INVALID_PARAMS, f"Invalid params: {error}", _problems(error)) from error
        planned = driver.dry() if params.dry_run else driver
        return driver.plan() if planned is None else await self.runs.begin(planned, id)

    async def _cancel(self, params: CancelParams, _id: Id) -> Json:
        if (params.run_id is None) == (params.request_id is None):
            raise RpcError(wire.INVALID_PARAMS, "Invalid params: pass exactly one of run_id and request_id")
        return self.runs.cancel(params.run_id, params.request_id, params.reason)

    async def _approve(self, params: ApproveParams, _id: Id) -> Json:
        answer = Answer(params.approved, "operator", params.comment, params.remember)
        if self.runs.answer(params.id, answer, params.plan):
            return {"id": params.id, "approved": params.approved}
        if params.remember:
            raise RpcError(wire.INVALID_PARAMS, "Invalid params: remember works only for questions of your own runs")
        self._by_row(params.id, approved=params.approved, comment=params.comment, plan=params.plan)
        return {"id": params.id, "approved": params.approved}

    async def _answer(self, params: AnswerParams, _id: Id) -> Json:
        if self.runs.answer(params.id, answer_with(params.replies)):
            return {"id": params.id, "answered": params.replies is not None}
        self._by_row(params.id, approved=params.replies is not None, replies=params.replies)
        return {"id": params.id, "answered": params.replies is not None}

    async def _questions(self, params: QuestionsParams, _id: Id) -> Json:
        rows = questions.listed(self._store_path(), everything=params.all, limit=params.limit)
        return {"questions": [questions.as_json(row) for row in rows]}

    def _by_row(self, id: str, **answer: Any) -> None:
        """Answer a question of another process. The client runs as the operator, who could also answer it there."""
        try:
            questions.answered(self._store_path(), id, "rpc", **answer)
        except AnswerRejected as error:
            raise not_counted(error) from error
        except UsageError as error:
            raise RpcError(wire.NO_SUCH_APPROVAL, str(error)) from error

    def _store_path(self) -> str:
        return questions.store_path(self._options.config_file, self._options.workspace)

    async def _validate(self, params: ValidateParams, _id: Id) -> Json:
        from adderclaw.flows.agentfile import show

        try:
            workflow = load(params.agentfile, (os.getcwd(),))
        except AdderClawError as error:
            return {"valid": False, "problems": _problems(error)}
        return {"valid": True, "problems": [], "workflow": show.as_json(workflow)}

    async def _status(self, params: StatusParams, _id: Id) -> Json:
        from adderclaw.agent.replay.trace_file import checked
        from adderclaw.core.redaction import mask_secret_shapes
        from adderclaw.storage import Store, runs

        if params.run_id is not None and params.run_id in self.runs.active:
            return self.runs.active[params.run_id].status()
        if params.run_id is None:
            return {"runs": [active.status() for active in self.runs.active.values()]}
        store = Store.open(self._store_path())
        try:
            row = runs.get(store, params.run_id)
            trace = checked(store, row).as_json() if row is not None else {}
        except AdderClawError as error:
            raise RpcError(wire.INVALID_PARAMS, f"Invalid params: {error}") from error
        finally:
            store.close()
        if row is None:
            raise RpcError(wire.NO_SUCH_RUN, f"there is no run {params.run_id!r}")
        answer = mask_secret_shapes(row.answer) if row.answer else row.answer
        details = {"answer": answer, "reason": row.reason, "trace": trace}
        return {"run_id": row.run_id, "kind": row.kind, "status": row.status, **details}

    async def end(self) -> None:
        """The input ended: stop the runs and write pending answers."""
        self.runs.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10)
        await self._outbox.flush(2)


NAMES = (
    "agentfile",
    "spec",
    "sop",
    "workspace",
    "conversation",
    "config",
    "skills_dir",
    "provider",
    "model",
    "resume",
    "run_id",
)
"""Parameters that are paths or names, which cannot contain NUL characters."""


def _id_of(message: object) -> Id:
    id = cast("Json", message).get("id") if isinstance(message, dict) else None
    return id if wire.is_id(id) else None


def _problems(error: AdderClawError) -> list[Json]:
    if isinstance(error, InvalidAgentfile):
        return [
            {"line": problem.line, "column": problem.column, "message": problem.message} for problem in error.problems
        ]
    return [{"message": str(error)}]


# ------------------------------------------------------------------ stdio


async def serve(options: Options) -> int:
    """Serve the client on stdin and stdout until it disconnects or a signal arrives; returns the exit code."""
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("rpc needs stdin and stdout, which connect it to the client")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=wire.MAX_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdio.readable())
    writer, written = await stdio.writer(loop)
    outbox = Outbox(writer)
    server = Server(options, outbox)
    writing = asyncio.ensure_future(outbox.run())
    signalled: asyncio.Future[int] = loop.create_future()
    for number in ending():
        loop.add_signal_handler(number, lambda got=number: signalled.done() or signalled.set_result(got))
    reading = asyncio.ensure_future(_read(reader, server))
    waits: list[asyncio.Future[Any]] = [signalled, asyncio.ensure_future(outbox.gone.wait())]
    await asyncio.wait([reading, *waits], return_when=asyncio.FIRST_COMPLETED)
    await server.end()
    code = 128 + signalled.result() if signalled.done() else 0
    for task in (reading, writing, *waits):
        task.cancel()
    writer.close()
    written()
    return code


async def _read(reader: asyncio.StreamReader, server: Server) -> None:
    async for line in stdio.lines(reader, server.room):
        if line is None:
            server.refuse(f"a message may have at most {wire.MAX_LINE:,} bytes")
        else:
            server.take(line)
            await asyncio.sleep(0)  # let it start, so that its answer is counted before the next message is read
