"""The event sink that sends notices: about an open question, a login, a finished run or a long turn."""

import asyncio
import atexit
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from adderclaw.agent.notices.courier import GRACE, Courier, Place, of_process
from adderclaw.agent.notices.notice import Clean, Notice
from adderclaw.agent.notices.subscriptions import notice_rows
from adderclaw.config.schema import Config, Notices
from adderclaw.core.errors import StoreError
from adderclaw.core.events import Bus, EventRecord, Sink
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import Store, approvals
from adderclaw.storage import notices as rows

TALKS = frozenset({"repl", "http", "acp", "attach"})
"""Channels of conversations, where the end of a long turn is reported instead of the end of the run."""
MOST_COMPLAINTS = 100
ENDED = {
    "completed": "is done",
    "denied": "was denied something",
    "error": "failed",
    "limit": "reached a limit",
    "stopped": "was stopped",
    "needs_input": "waits for an answer",
}
"""Outcome → its wording in a title."""
SOON = 0.2
"""Seconds after which the rows of a run's end are stored."""


class NoticeContext(NamedTuple):
    """What the notices of one run need to know."""

    config: Config
    store: Store
    home: str
    clean: Clean
    workspace: str
    kind: str
    channel: str
    terminal: bool


def sink(context: NoticeContext, bus: Bus) -> tuple[Sink, Callable[[], None]]:
    """The sink, and a function that closes it and waits briefly for pending deliveries."""
    listener = Listener(context, bus)
    return listener.hear, listener.close


class Listener:
    def __init__(self, context: NoticeContext, bus: Bus) -> None:
        self._scene, self._bus = context, bus
        self._settings = context.config.notices
        self._talks = context.channel in TALKS and context.kind in ("agent", "repl")
        self._complaints: deque[str] = deque(maxlen=MOST_COMPLAINTS)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._courier: Courier | None = None
        self._ours = of_process(context.store.path) is None
        self._root, self._has_asked = "", False
        self._began = self._turn_began = 0.0
        self._cost = self._turn_cost = 0.0
        if self._ours and rows.is_waiting(context.store, [*self._settings.targets]):
            self._poke()  # deliver what an earlier process left

    # ------------------------------------------------------------------ events

    def hear(self, record: EventRecord) -> None:
        payload = record.payload
        match record.event_type:
            case "run_started":
                self._began, self._root = record.timestamp, record.session_id
            case "llm_response_received":
                self._cost += payload.get("cost") or 0.0
                self._turn_cost += payload.get("cost") or 0.0
            case "turn_started" if record.session_id == self._root:
                self._turn_began, self._turn_cost = record.timestamp, 0.0
            case "approval_requested":
                self._asked(record)
            case "approval_answered" | "approval_expired":
                about, now = str(payload.get("approval_id", "")), record.timestamp
                self._scene.store.write_next(lambda cursor: rows.mark_moot(cursor, about, now))
            case "mcp_server" if payload.get("login"):
                self._login(record)
            case "turn_finished" if self._talks and record.session_id == self._root and payload.get("outcome"):
                self._turn_over(record)
            case "run_finished" | "run_failed" if not self._talks and self._scene.kind != "tool":
                self._over(record)
            case _:
                pass
        self._complain()

    def _asked(self, record: EventRecord) -> None:
        payload, context, self._has_asked = record.payload, self._scene, True
        id, tool, risk = (str(payload.get(name, "")) for name in ("approval_id", "tool", "risk"))
        row = approvals.get(context.store, id)
        with_options = row is not None and bool(row.questions)
        is_step = row is not None and row.kind == "step"
        call = tool if is_step else f"{tool} ({risk} risk)"
        what = f"{tool} has a question" if with_options else f"{call} needs your approval"
        command = f"adderclaw approvals answer {id} " + ("REPLY" if with_options else "yes")
        look = "\nadderclaw approvals list shows all of it." if with_options or row is not None else ""
        self._send(
            record,
            Notice(
                "needs_you",
                f"{what} in {self._name}",
                f"Answer it with: {command}{look}",
                about=id,
                facts={"approval_id": id, "tool": tool, "risk": risk, "answer": command},
                full=row.shown if row is not None else "",
            ),
            due_in=self._settings.wait_seconds if context.terminal else GRACE,
        )

    def _login(self, record: EventRecord) -> None:
        server = str(record.payload.get("server", ""))
        command = f"adderclaw mcp login {server}"
        title = f"The MCP server {server} needs a login in {self._name}"
        facts: Json = {"server": server, "answer": command}
        about = f"login-{record.run_id}-{server}"
        self._send(record, Notice("needs_you", title, f"Log in with: {command}", about=about, facts=facts))

    def _turn_over(self, record: EventRecord) -> None:
        seconds = record.timestamp - self._turn_began
        if not self._turn_began or seconds < self._settings.wait_seconds:
            return
        outcome = str(record.payload["outcome"])
        facts: Json = {"outcome": outcome, "seconds": round(seconds, 1), "cost_usd": round(self._turn_cost, 6)}
        took = f"It took {duration(seconds)}{_price(self._turn_cost)}."
        text = f"{took}\nadderclaw agent --resume {record.conversation_id}"
        self._send(record, Notice("done", f"A turn in {self._name} {ENDED.get(outcome, outcome)}", text, facts=facts))

    def _over(self, record: EventRecord) -> None:
        payload, seconds = record.payload, record.timestamp - (self._began or record.timestamp)
        if self._scene.terminal and seconds < self._settings.wait_seconds:
            return
        outcome = str(payload.get("outcome", ""))
        reason = str(payload.get("message") or payload.get("reason") or "")
        cost = payload.get("cost")
        cost = self._cost if cost is None else float(cost)
        facts: Json = {
            "outcome": outcome,
            "reason": reason,
            "seconds": round(seconds, 1),
            "cost_usd": round(cost, 6),
            "mode": self._scene.kind,
        }
        reason_line = f"{' '.join(reason.split())[:300]}\n" if reason else ""
        text = f"{reason_line}It took {duration(seconds)}{_price(cost)}.\nadderclaw runs show {record.run_id}"
        notice = Notice("done", f"A run in {self._name} {ENDED.get(outcome, outcome)}", text, facts=facts)
        self._send(record, notice, soon=True, unasked=outcome == "needs_input" and self._has_asked)

    # ------------------------------------------------------------------ sending

    @property
    def _name(self) -> str:
        return os.path.basename(self._scene.workspace.rstrip("/")) or "/"

    def _send(
        self, record: EventRecord, notice: Notice, *, due_in: float = 0.0, soon: bool = False, unasked: bool = False
    ) -> None:
        """Store a notice and wake the courier.

        `soon`: store it in the next transaction, which has the rows of what is reported. `unasked`: only for targets
        that were not sent the question that the run waits for.
        """
        context, settings = self._scene, self._settings
        if unasked:
            others = {name: target for name, target in settings.targets.items() if "needs_you" not in target.on}
            settings = Notices(settings.wait_seconds, others)
        page = f"/ui/conversations/{record.conversation_id}" if self._talks else f"/ui/runs/{record.run_id}"
        notice = notice._replace(
            workspace=context.workspace,
            run_id=record.run_id,
            conversation_id=record.conversation_id,
            page="/" if notice.kind == "needs_you" else page,
        )
        writes = notice_rows(settings, notice, now=record.timestamp, clean=context.clean, due_in=due_in)
        if not writes:
            return
        for write in writes:
            context.store.write_next(write)
        if soon and self._loop is not None:
            self._loop.call_later(SOON, self._poke)
        elif not soon:
            self._flush()
        self._poke()

    def _flush(self) -> None:
        with suppress(StoreError):  # in a transaction already, so the next one writes it
            self._scene.store.flush()

    def _poke(self) -> None:
        shared = of_process(self._scene.store.path)
        if shared is not None:
            shared.poke()
            return
        if self._courier is None:
            context = self._scene
            self._courier = Courier(
                Place(
                    context.store.path,
                    context.home,
                    lambda: context.config,
                    self._add_complaint,
                    store=context.store if context.store.image is not None else None,
                )
            )
        else:
            self._courier.poke()

    # ------------------------------------------------------------------ failed deliveries

    def _add_complaint(self, message: str) -> None:
        """Called from the courier's thread."""
        self._complaints.append(message)
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._complain)
            except RuntimeError:  # the loop has ended; `close` reports it
                pass

    def _complain(self) -> None:
        if self._loop is None:
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                pass
        while self._complaints:
            self._bus.publish({"event_type": "warning", "message": self._complaints.popleft()})

    def close(self) -> None:
        """End the courier. In a running event loop, only the end of the process waits for it, briefly."""
        courier, self._courier = self._courier, None
        if courier is None:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            courier.close()
        else:
            if self._scene.store.image is not None:
                courier.close()
            else:
                courier.end()
                atexit.register(partial(courier.close, 0.0))
        self._loop = None
        self._complain()


def duration(seconds: float) -> str:
    """A duration in words."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"


def _price(cost: float) -> str:
    return f" and cost ${cost:.2f}" if cost >= 0.005 else ""
