"""The process of one run on a worker, which opens and drives it like `adderclaw run`, supervised by the worker.

It has neither an address nor a key of the fleet. It asks the worker for what it needs, over one socket.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

from adderclaw.agent.run import open_run, start
from adderclaw.agent.run.drive import drive, show_nothing
from adderclaw.agent.run.driver import RESUMABLE, Driver, MessageDriver, Opening
from adderclaw.agent.run.opened import Resume
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.agent.tool_call.approvals import refuse_unaskable
from adderclaw.config import Loaded, load
from adderclaw.config.legacy.options import Options
from adderclaw.core import home_names
from adderclaw.core.decode import decode
from adderclaw.core.errors import EXIT_CODES, AdderClawError, AlreadyCompleted, LimitError, Stopped, outcome_of
from adderclaw.core.events import EventRecord
from adderclaw.core.overseer import BudgetReserved, ModelCallEstimate, PendingToolCall, Reservation, RunSupervisor
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest
from adderclaw.core.types import Json, ToolCall
from adderclaw.fleet import places, tracing
from adderclaw.fleet.link import Link, now
from adderclaw.flows.request import RunParams, prepare_driver
from adderclaw.storage import Store, runs
from adderclaw.storage.telemetry.log import fields

TAKEN = "the worker's lease on this run expired or was taken over; another worker continues it"
UNTOLD = frozenset({"llm_delta", "memory_persisted", "config_path", "workspace_path"})
"""Events that are not sent to the fleet."""

WAITS = (0.3, 3.0)
"""Seconds between two queries for an answer, at first and at most."""

LOST = """\
An earlier worker ended during this work. The files of the workspace are as they were when the state was last saved. \
These tool calls had started after that, and their outcome is unknown; their effects outside of the workspace may have \
happened. Check before you repeat them.
{calls}"""


class WorkerLink(RunSupervisor):
    """The worker, as the process of its run sees it."""

    def __init__(self, link: Link, order: Json) -> None:
        self._link, self._deadline = link, float(order["lease"])
        self._lost: list[Json] = list(order["lost"])
        self._every, self._calls = int(order["save_every"]), 0
        self._asked, self._answers = 0, dict[int, Json]()
        self._answered = threading.Condition()
        self.why = ""
        """Why the run no longer belongs to this process."""
        threading.Thread(target=self._hear, name="worker", daemon=True).start()

    def has_lost_run(self) -> bool:
        if not self.why and now() >= self._deadline:
            self.why = TAKEN
        return bool(self.why)

    def seconds_to_wait(self, model: str) -> float:
        return float(self._ask({"do": "pause", "model": model})["seconds"])

    def report_rate_limit(self, model: str, seconds: float | None) -> None:
        self._ask({"do": "slow", "model": model, "seconds": seconds})

    def reserve(self, call: ModelCallEstimate) -> Reservation:
        reply = self._ask({"do": "reserve", **call._asdict()})
        if "limit" in reply:
            raise LimitError(str(reply["limit"]), reply["by"])
        if "held" not in reply:
            raise BudgetReserved
        return Reservation(str(reply["held"]), reply["answer"])

    def settle(self, held: str, tokens: int, price: float | None) -> None:
        self._tell({"do": "settle", "held": held, "tokens": tokens, "price": price})

    def calls_started(self, calls: Sequence[PendingToolCall]) -> None:
        self._ask({"do": "begins", "calls": [list(call) for call in calls]})

    def call_ended(self, call: ToolCall) -> bool:
        self._tell({"do": "called", "call": call.id})
        self._calls += 1
        return self._every > 0 and self._calls % self._every == 0

    async def save_progress(self) -> None:
        await asyncio.to_thread(self._ask, {"do": "save"})

    async def unit_stored(self, unit: str) -> None:
        await asyncio.to_thread(self._ask, {"do": "unit", "place": unit})

    def interrupted_calls_notice(self) -> str:
        calls, self._lost = self._lost, []
        if not calls:
            return ""
        return LOST.format(calls="\n".join(f"- {call['tool']} {call['shown']}" for call in calls))

    async def answered(self, id: str) -> Json:
        """Waits for the answer to a question. Meanwhile the worker gives the slot to another run."""
        await asyncio.to_thread(self._ask, {"do": "question", "id": id})
        wait = WAITS[0]
        while (answer := (await asyncio.to_thread(self._ask, {"do": "answered", "id": id}))["answer"]) is None:
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, WAITS[1])
        reply: Json = answer
        return reply

    def hear(self, record: EventRecord) -> None:
        """A sink for the events that `fleet logs` shows."""
        if record.event_type not in UNTOLD:
            self._tell({"do": "event", "event": fields(record)})

    def end(self, report: Json) -> None:
        """Sends the final report. This process ends, and the worker stores the run."""
        self._tell({"do": "ended", "report": report, "halted": self.why})

    def _tell(self, message: Json) -> None:
        try:
            self._link.send(message)
        except OSError:
            _leave()

    def _ask(self, message: Json) -> Json:
        """Asks the worker and returns its answer. If the worker is gone, this process ends."""
        with self._answered:
            self._asked += 1
            number = self._asked
        self._tell({**message, "ask": number})
        with self._answered:
            while number not in self._answers:
                self._answered.wait()
            answer = self._answers.pop(number)
        if "fenced" in answer:
            self.why = self.why or str(answer["fenced"])
            raise Stopped(self.why)
        return answer

    def _hear(self) -> None:
        while (message := self._link.receive()) is not None:
            if "lease" in message:
                self._deadline = float(message["lease"])
            else:
                with self._answered:
                    self._answers[message["reply"]] = message
                    self._answered.notify_all()
        _leave()


def _leave() -> None:
    """Ends this process because the worker is gone. Calls in progress are already recorded."""
    os.kill(os.getpid(), signal.SIGKILL)


class RemoteOperator:
    """The operators of the fleet, who answer with `fleet approve`, on the dashboard or by a signed request."""

    def __init__(self, worker: WorkerLink) -> None:
        self._worker = worker
        self.session: Session | None = None

    async def approve(self, request: ApprovalRequest) -> Answer:
        if request.stays:  # the process ends; the resumed run finds the answer
            return Answer(approved=False, by="no_operator")
        return refuse_unaskable(request) or await self._answered(request.id)

    async def ask(self, request: QuestionRequest) -> Answer:
        return await self._answered(request.id)

    async def _answered(self, id: str) -> Answer:
        began = now()
        reply = await self._worker.answered(id)
        if self.session is not None:
            self.session.budget.exclude_wait(now() - began)  # waiting does not count as the run's time
        by = "operator" if reply["by"] else "no_operator"
        who = f"{reply['by']} (fleet)" if reply["by"] else ""
        return Answer(bool(reply["approved"]), by, str(reply["comment"]), who=who, replies=reply.get("replies"))


def main(end: socket.socket) -> None:
    """Runs in a separate process (fleet/warm.py) with the run's home, in its workspace."""
    link = Link(end)
    order = link.receive()
    if order is None:
        _leave()
        return
    link.send({"do": "up"})
    worker = WorkerLink(link, order)
    worker.end(_ran(order, worker))


def _ran(order: Json, worker: WorkerLink) -> Json:
    """Drives the run. Returns exactly one outcome, whatever happens."""
    try:
        return _drive(order, worker)
    except AlreadyCompleted as ended:
        return {"outcome": "completed", "answer": ended.answer, "reason": "", "exit_code": 0}
    except AdderClawError as error:
        outcome = outcome_of(error)
        return {"outcome": outcome, "answer": "", "reason": str(error), "exit_code": EXIT_CODES[outcome]}


def _drive(order: Json, worker: WorkerLink) -> Json:
    if order["trace"]:
        os.environ[tracing.VARIABLE] = order["trace"]
    home = os.environ["ADDERCLAW_HOME"]
    params = decode(RunParams, {**order["wanted"], "workspace": order["workspace"]})
    places.require_fit(params, order["workspace"])
    places.require_allowed(params, load(workspace=order["workspace"]).config)
    options = Options(
        workspace=order["workspace"],
        headless=True,
        asks="must",
        supervisor=worker,
        amend=lambda loaded: _bounded(loaded, order["seconds"]),
        overrides={
            "memory": {"path": os.path.join(home, home_names.DATABASE), "backend": "sqlite"},
            "receipts": {"path": os.path.join(home, home_names.RECEIPTS), "enabled": True},
        },
    )
    driver, again = _made(options, params, order["run"], os.path.join(home, home_names.DATABASE))
    opening = driver.opening
    runtime = start(opening.options)
    runtime.bus.continue_run(order["run"])
    runtime.bus.add_sink("fleet", worker.hear)
    kind = opening.kind
    far = RemoteOperator(worker)
    with open_run(runtime, far, kind=kind, channel="fleet", again=again, task=opening.task, more=opening.rows) as run:
        far.session = run.session
        run.session.state.stays = kind == "message"  # the steps of a SOP set this themselves
        work: Awaitable[TurnResult] = until_signal(run, driver.run(run.session), mode=opening.mode)
        return asyncio.run(_finished(run, work, opening, worker))


def _bounded(loaded: Loaded, seconds: float | None) -> Loaded:
    """Limits the time of the run to its deadline, if that is earlier."""
    limits = loaded.config.limits
    if seconds is None or seconds >= limits.seconds:
        return loaded
    return loaded._replace(config=replace(loaded.config, limits=replace(limits, seconds=max(0.0, seconds))))


async def _finished(run: Any, work: Awaitable[TurnResult], opening: Opening, worker: WorkerLink) -> Json:
    report = await drive(run, _with_stop_reason(work, worker), mode=opening.mode, show=show_nothing)
    return {**report.as_json(), "exit_code": report.exit_code, "tokens": run.session.budget.usage.total}


async def _with_stop_reason(work: Awaitable[TurnResult], worker: WorkerLink) -> TurnResult:
    """Replaces the reason of a stop by that of a lost lease."""
    result = await work
    return result._replace(outcome="stopped", reason=worker.why) if worker.why else result


def _made(options: Options, fields: RunParams, run_id: str, path: str) -> tuple[Driver, Resume | None]:
    """The driver, and how to resume if the state has a run that did not end."""
    row = _row(run_id, path)
    if row is None or row.kind == "spec":  # the progress of a specification is in its workspace
        return prepare_driver(options, fields), None
    if row.outcome == "completed":
        raise AlreadyCompleted(row.run_id, row.answer or "")
    driver = prepare_driver(options, fields)
    if row.kind in RESUMABLE and row.kind != "message":
        driver, turn = _resumed_driver(driver, row, path)
        return driver, Resume(row.conversation_id, go_on=turn)
    if isinstance(driver, MessageDriver):
        driver = replace(driver, again=row.run_id)
    return driver, Resume(row.conversation_id, go_on=True)


def _resumed_driver(driver: Driver, row: runs.Run, path: str) -> tuple[Driver, bool]:
    """The driver of a resumed run. The signed request determines what it does. The state, which another worker wrote,
    only says how far it came and whether it is a turn of the ordinary agent."""
    from adderclaw.flows.schedules.work import continuing
    from adderclaw.storage import workflows

    store = Store.open(path, read_only=True)
    try:
        begun, turn = workflows.get(store, row.run_id), workflows.is_turn(store, row.run_id, row.kind)
    finally:
        store.close()
    return driver if begun is None else continuing(driver, begun), turn


def _row(run_id: str, path: str) -> runs.Run | None:
    if not os.path.exists(path):
        return None
    store = Store.open(path)
    try:
        return runs.get(store, run_id)
    finally:
        store.close()
