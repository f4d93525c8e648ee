"""The line below the input: how much happens unasked, which model, where, how full, what it cost, what goes on."""

import os
import re
import time

from adderclaw.agent.run import Run
from adderclaw.agent.view.live import Busy
from adderclaw.core.errors import PathRefused
from adderclaw.core.redaction import visible
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage.sdlc import phases
from adderclaw.terminal.repl.modes import mode_name

AGAIN = 2.0
"""Seconds for which branch and phase are not looked up again."""
LONGEST = 1_000
"""Bytes of a HEAD that is one."""
_REF = re.compile(r"ref: refs/heads/(.+)")
_ID = re.compile(r"[0-9a-f]{40,64}")


class Status:
    """What the line says now; nothing in it waits for a program."""

    def __init__(self, run: Run, busy: Busy) -> None:
        self._run, self._busy = run, busy
        self._looked, self._branch, self._phase = float("-inf"), "", "idle"

    def parts(self) -> list[str]:
        session, busy = self._run.session, self._busy
        root = session.environment.context.workspace.root
        folder = visible(os.path.basename(root) or "/", keep_newlines=False)
        self._look(root)
        folder = f"{folder} ({self._branch})" if self._branch else folder
        parts = [mode_name(session.environment.policy), visible(session.model), folder]
        if self._phase != "idle":
            parts.append(f"phase {self._phase}")
        limit = session.provider.capabilities().context_tokens
        if busy.context and limit:
            parts.append(f"context {100 * busy.context // limit} %")
        if busy.cost:
            parts.append(f"${busy.cost:.2f}")
        tasks = session.environment.kit.tasks
        if running := sum(task.running for task in tasks.listed()) if tasks is not None else 0:
            parts.append(f"{running} task{'' if running == 1 else 's'}")
        return parts

    def _look(self, root: str) -> None:
        now, session = time.monotonic(), self._run.session
        if now - self._looked >= AGAIN:
            self._looked, self._branch = now, branch(root)
            self._phase = phases.phase_text(session.store, session.conversation_id)


def branch(root: str) -> str:
    """What HEAD names; the short id where that is no branch; nothing where there is no repository of its own."""
    try:
        head = workspace.read(WorkspacePath(root, ".git/HEAD"), LONGEST).decode("utf-8", "replace").strip()
    except (OSError, PathRefused):
        return ""
    if (match := _REF.fullmatch(head)) is not None:
        return visible(match[1], keep_newlines=False)
    return head[:8] if _ID.fullmatch(head) else ""
