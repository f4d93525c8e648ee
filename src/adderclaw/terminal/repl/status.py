"""The lines below the input: the built-in status line, and the output of the operator's status command."""

import asyncio
import json
import os
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.formatted_text import ANSI

from adderclaw import __version__
from adderclaw.agent.run import Run
from adderclaw.agent.view.items import Notice
from adderclaw.agent.view.live import Busy
from adderclaw.core.errors import PathRefused
from adderclaw.core.events import EventRecord
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import transcript
from adderclaw.storage.sdlc import phases
from adderclaw.terminal.repl.here import mode_name

if TYPE_CHECKING:
    from adderclaw.terminal.repl.draw import Fragments
    from adderclaw.terminal.repl.screen import Screen

REFRESH_SECONDS = 2.0
"""How often the branch and the phase are read."""
MAX_HEAD_BYTES = 1_000
_REF = re.compile(r"ref: refs/heads/(.+)")
_ID = re.compile(r"[0-9a-f]{40,64}")


class Status:
    """The built-in status line. Computing it never waits for a program."""

    def __init__(self, run: Run, busy: Busy) -> None:
        self._run, self._busy = run, busy
        self._read_at, self._branch, self._phase = float("-inf"), "", "idle"

    def parts(self) -> list[str]:
        session, busy = self._run.session, self._busy
        root = session.environment.context.workspace.root
        if (now := time.monotonic()) - self._read_at >= REFRESH_SECONDS:
            self._read_at, self._branch = now, current_branch(root)
            self._phase = phases.phase_text(session.store, session.conversation_id)
        folder = visible(os.path.basename(root) or "/", keep_newlines=False)
        folder = f"{folder} ({self._branch})" if self._branch else folder
        parts = [mode_name(session.environment.policy), visible(session.model), folder]
        if self._phase != "idle":
            parts.append(f"phase {self._phase}")
        limit = session.provider.capabilities().context_tokens
        if busy.context and limit:
            parts.append(f"context {100 * busy.context // limit} %")
        if busy.cost:
            parts.append(f"${busy.cost:.2f}")
        if running := _running_tasks(self._run):
            parts.append(f"{running} task{'' if running == 1 else 's'}")
        return parts


def current_branch(root: str) -> str:
    """The branch in HEAD, or the short id of a detached HEAD; empty if the folder is not the top of a repository."""
    try:
        head = workspace.read(WorkspacePath(root, ".git/HEAD"), MAX_HEAD_BYTES).decode("utf-8", "replace").strip()
    except (OSError, PathRefused):
        return ""
    if (match := _REF.fullmatch(head)) is not None:
        return visible(match[1], keep_newlines=False)
    return head[:8] if _ID.fullmatch(head) else ""


def _running_tasks(run: Run) -> int:
    tasks = run.session.environment.kit.tasks
    return sum(task.running for task in tasks.listed()) if tasks is not None else 0


# ------------------------------------------------------------------ the operator's own line

GATHER_SECONDS = 0.3
"""How long events are gathered before a run, which is also the shortest time between two runs."""
START_COST_FACTOR = 20
"""Starting the command blocks the input. Afterwards nothing is started for this many times as long."""
SHOWN_LINES, SHOWN_CHARS = 3, 400
EVENTS = (
    "llm_response_received",
    "tool_completed",
    "tool_failed",
    "turn_finished",
    "task_ended",
    "context_compacted",
)
"""The events after which the command runs again."""
_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,24}m)")


def parse_fragments(text: str, clean: Callable[[str], str], *, colours: bool) -> "list[Fragments]":
    """The first lines of the output. Of its escape sequences only colours are used."""
    lines: list[Fragments] = []
    for row in text.replace("\r", "").strip("\n").split("\n")[:SHOWN_LINES]:
        parts = _COLOUR.split(row.expandtabs(4)[: 4 * SHOWN_CHARS])
        shown = [clean(part)[:SHOWN_CHARS] if not number % 2 else part * colours for number, part in enumerate(parts)]
        lines.append([(style, letter) for style, letter, *_ in ANSI("".join(shown)).__pt_formatted_text__()])
    return lines if text.strip() else []


class StatusCommand:
    """Runs the operator's status command after events, one run at a time, without delaying keys."""

    def __init__(self, run: Run, screen: "Screen", busy: Busy) -> None:
        self._run, self._screen, self._busy = run, screen, busy
        self._began = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._requested = asyncio.Event()
        self._has_complained = False
        self.settings = run.session.config.statusLine

    def start(self) -> None:
        if self.settings.command:
            self._run.runtime.bus.add_sink("status line", self._on_event)
            self._task = asyncio.ensure_future(self._run_on_request())
            self.request_run()

    def request_run(self) -> None:
        """Asks for a run, because something that the command may show has changed."""
        self._requested.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _on_event(self, record: EventRecord) -> None:
        if record.event_type in EVENTS:
            self.request_run()

    async def _run_on_request(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.settings.refreshInterval):
                    await self._requested.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(GATHER_SECONDS)
            self._requested.clear()
            if not self._run.runtime.stopped():
                await asyncio.sleep(START_COST_FACTOR * await self._run_once())

    async def _run_once(self) -> float:
        """Runs the command and shows its output; returns the seconds for which starting it blocked the event loop."""
        from adderclaw.agent.run import status_line

        run, screen = self._run, self._screen
        size = screen.app.output.get_size()
        stdin = json.dumps(run.session.secrets.scrub_all(self._input())).encode()
        running = asyncio.ensure_future(status_line.run(run.runtime, run.session, stdin, size.columns, size.rows))
        before = time.monotonic()
        await asyncio.sleep(0)  # the command is started in this step of the loop
        blocked = time.monotonic() - before
        try:
            printed = await running
        finally:
            running.cancel()
        if printed.failure and not self._has_complained:
            self._has_complained = True
            reason = run.session.secrets.clean(printed.failure)
            screen.show(Notice("", "warning", f"the statusLine command failed ({reason}); its line is not shown"))
        pad = " " * self.settings.padding
        lines = parse_fragments(printed.text, run.session.secrets.clean, colours=screen.manner.colours)
        screen.own_lines = [[("", pad), *line] for line in lines]
        screen.redraw()
        return blocked

    def _input(self) -> Json:
        """The JSON that the command gets: the fields of the reference that are known here, and a few more."""
        session, busy = self._run.session, self._busy
        folders, budget = session.environment.context.workspace, session.budget
        limit = session.provider.capabilities().context_tokens
        used = round(100 * busy.context / limit, 1) if limit else None
        return {
            "hook_event_name": "Status",
            "session_id": session.session_id,
            "conversation_id": session.conversation_id,
            "session_name": transcript.title(session.store, session.conversation_id),
            "cwd": folders.root,
            "model": {"id": session.model, "display_name": session.model},
            "workspace": {
                "current_dir": folders.root,
                "project_dir": folders.root,
                "added_dirs": list(folders.extra),
            },
            "version": __version__,
            "output_style": {"name": "default"},
            "cost": {
                "total_cost_usd": budget.cost,
                "total_duration_ms": int(1000 * (time.monotonic() - self._began)),
            },
            "context_window": {
                "total_input_tokens": budget.usage.input_tokens,
                "total_output_tokens": budget.usage.output_tokens,
                "context_window_size": limit,
                "used_percentage": used,
                "remaining_percentage": None if used is None else round(max(100 - used, 0.0), 1),
            },
            "exceeds_200k_tokens": busy.context > 200_000,
            "permission_mode": mode_name(session.environment.policy),
            "phase": phases.phase_text(session.store, session.conversation_id),
            "running_tasks": _running_tasks(self._run),
        }
