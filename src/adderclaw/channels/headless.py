"""A run with nobody watching: opened, driven to its one outcome, recorded; the answer on stdout."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from adderclaw.channels.cli.common import StreamFormat, print_json
from adderclaw.channels.prepared import Prepared
from adderclaw.channels.terminal import Terminal
from adderclaw.credentials.redaction import visible
from adderclaw.errors import UsageError
from adderclaw.events import EventRecord
from adderclaw.runtime import Resume, Run, Runtime, opened, start
from adderclaw.runtime.drive import Report, drive
from adderclaw.runtime.signals import until_signal
from adderclaw.store import Store, runs
from adderclaw.types import Answer, ApprovalRequest, Json, Operator, Question, Replies

RESUMABLE = frozenset({"agentfile", "task"})
"""Kinds of runs that `run --resume` goes on with."""


class Nobody:
    """No operator is here. Where the operator set a time to answer in, another process may; else it is no at once."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        if self._waits:
            await asyncio.Event().wait()
        return Answer(approved=False, by="no_operator", comment="nobody is here to ask")

    async def ask(self, questions: Sequence[Question]) -> Replies | None:  # noqa: ARG002
        return None


def operator(runtime: Runtime) -> Operator:
    """Whoever sits at the terminal, if there is one."""
    if sys.stdin is not None and sys.stdin.isatty():
        return Terminal()
    return Nobody(waits=runtime.config.security.approval_timeout_seconds > 0)


def execute(prepared: Prepared, output_format: StreamFormat) -> int:
    """Run a driver and print what came of it; the exit code is the outcome's."""
    watched = prepared.kind == "task" and sys.stderr.isatty() and not os.environ.get("ADDERCLAW_LOG")
    runtime = start(replace(prepared.options, live=watched))
    resume = resumed(runtime, prepared.again) if prepared.again is not None else None
    if output_format == "stream-json":
        runtime.bus.listen("stream", _stream)
    who = operator(runtime)
    with opened(runtime, who, kind=prepared.kind, channel="run", again=resume, task=prepared.task) as run:
        return asyncio.run(_driven(run, prepared, output_format))


def resumed(runtime: Runtime, run_id: str) -> Resume:
    """A run goes on under its own id, in its own conversation."""
    store = Store.open(runtime.config.memory.path)
    try:
        row = runs.get(store, run_id)
    finally:
        store.close()
    if row is None:
        raise UsageError(f"there is no run {run_id!r}; `adderclaw runs list` lists them")
    if row.status == "running":
        raise UsageError(f"run {row.run_id} is still running (process {row.pid})")
    if row.outcome == "completed":
        raise UsageError(f"run {row.run_id} is completed: there is nothing left to go on with")
    runtime.bus.go_on_with(row.run_id)
    return Resume(row.conversation_id, go_on=False)


async def _driven(run: Run, prepared: Prepared, output_format: StreamFormat) -> int:
    def show(report: Report) -> None:
        _show(report, prepared.kind, output_format)

    work = until_signal(run, prepared.drive(run), mode=prepared.mode)
    resume = f"run --resume {run.run_id}" if prepared.kind in RESUMABLE else ""
    return (await drive(run, work, mode=prepared.mode, resume=resume, show=show)).exit_code


def _show(report: Report, driver: str, output_format: StreamFormat) -> None:
    result = report.result
    if output_format == "text":
        if result.answer:
            print(visible(result.answer))
    else:
        kind: Json = {"type": "result"} if output_format == "stream-json" else {}
        print_json({**kind, **report.as_json()})
    if result.outcome != "completed":
        print(f"adderclaw: {result.outcome}: {visible(result.reason)}", file=sys.stderr)
    if result.outcome == "stopped" and driver in RESUMABLE:
        print(f"adderclaw: `adderclaw run --resume {report.run.run_id}` goes on with it", file=sys.stderr)
    elif result.outcome in ("stopped", "limit") and driver == "spec":
        print("adderclaw: `adderclaw run` goes on with what is left", file=sys.stderr)


def _stream(record: EventRecord) -> None:
    print_json({"type": "event", **record._asdict()})
