"""The operator's own line below the input: what their command prints, drawn without anything that steers a terminal."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.formatted_text import ANSI

from adderclaw import __version__
from adderclaw.agent.run import Run
from adderclaw.agent.view.items import Notice
from adderclaw.agent.view.live import Busy
from adderclaw.core.events import EventRecord
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.terminal.repl.draw import Fragments
    from adderclaw.terminal.repl.screen import Screen

SOON = 0.3
"""Seconds for which what happens is gathered, and between two runs at least."""
SPARING = 20
"""So many times as long as starting it held up the keys, they are left alone after it."""
LINES, LONGEST = 3, 400
"""Lines that are shown, and characters of each."""
HAPPENED = (
    "llm_response_received",
    "tool_completed",
    "tool_failed",
    "turn_finished",
    "task_ended",
    "context_compacted",
)
_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,24}m)")


def parse_fragments(text: str, clean: Callable[[str], str], *, colours: bool) -> "list[Fragments]":
    """The first lines; of escape sequences colours alone remain."""
    lines: list[Fragments] = []
    for row in text.replace("\r", "").strip("\n").split("\n")[:LINES]:
        parts = _COLOUR.split(row.expandtabs(4)[: 4 * LONGEST])
        shown = [clean(part)[:LONGEST] if not number % 2 else part * colours for number, part in enumerate(parts)]
        lines.append([(style, letter) for style, letter, *_ in ANSI("".join(shown)).__pt_formatted_text__()])
    return lines if text.strip() else []


class StatusCommand:
    """Runs the command whenever something has happened, one run at a time, and never while a key waits for it."""

    def __init__(self, run: Run, screen: "Screen", busy: Busy) -> None:
        self._run, self._screen, self._busy = run, screen, busy
        self._began = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._has_complained = False
        self.settings = run.session.config.statusLine

    def start(self) -> None:
        if self.settings.command:
            self._run.runtime.bus.add_sink("status line", self._hear)
            self._task = asyncio.ensure_future(self._follow())
            self.request_run()

    def request_run(self) -> None:
        """Something that it may show has changed."""
        self._wanted.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _hear(self, record: EventRecord) -> None:
        if record.event_type in HAPPENED:
            self.request_run()

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.settings.refreshInterval):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(SOON)
            self._wanted.clear()
            if not self._run.runtime.stopped():
                await asyncio.sleep(SPARING * await self._run_once())

    async def _run_once(self) -> float:
        """Run it and show what it prints; the seconds for which nothing else could be done."""
        from adderclaw.agent.run import status_line

        run, screen = self._run, self._screen
        size = screen.app.output.get_size()
        stdin = json.dumps(run.session.secrets.scrub_all(self._input())).encode()
        running = asyncio.ensure_future(status_line.run(run.runtime, run.session, stdin, size.columns, size.rows))
        before = time.monotonic()
        await asyncio.sleep(0)  # it is started in this step of the loop
        held = time.monotonic() - before
        try:
            printed = await running
        finally:
            running.cancel()
        if printed.failure and not self._has_complained:
            self._has_complained = True
            about = f"the command of statusLine: {run.session.secrets.clean(printed.failure)}; its line is left out"
            screen.show(Notice("", "warning", about))
        pad = " " * self.settings.padding
        lines = parse_fragments(printed.text, run.session.secrets.clean, colours=screen.manner.colours)
        screen.own_lines = [[("", pad), *line] for line in lines]
        screen.redraw()
        return held

    def _input(self) -> Json:
        """What it gets: the fields of the reference as far as they are known here, and a few of ours."""
        from adderclaw.storage import transcript
        from adderclaw.storage.sdlc import phases
        from adderclaw.terminal.repl.modes import mode_name

        session, busy = self._run.session, self._busy
        workspace, budget = session.environment.context.workspace, session.budget
        limit = session.provider.capabilities().context_tokens
        used = round(100 * busy.context / limit, 1) if limit else None
        tasks = session.environment.kit.tasks
        return {
            "hook_event_name": "Status",
            "session_id": session.session_id,
            "conversation_id": session.conversation_id,
            "session_name": transcript.title(session.store, session.conversation_id),
            "cwd": workspace.root,
            "model": {"id": session.model, "display_name": session.model},
            "workspace": {
                "current_dir": workspace.root,
                "project_dir": workspace.root,
                "added_dirs": list(workspace.extra),
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
            "running_tasks": sum(task.running for task in tasks.listed()) if tasks is not None else 0,
        }
