"""What a project's own type checkers and linters find in a file that was just edited, for the model."""

import os
from collections.abc import Sequence

from adderclaw.agent.run import hook_calls
from adderclaw.agent.run.configured_hooks import roots_of
from adderclaw.agent.run.start import Runtime, operators_own
from adderclaw.agent.session.session import Rows, Session
from adderclaw.agent.tool_call.hooks import AFTER_EDIT
from adderclaw.core.errors import PathRefused
from adderclaw.core.framing import content_mark, framed
from adderclaw.core.hook_outcome import NO_HOOKS, HookOutcome
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import Json, ToolResult
from adderclaw.sandbox import programs, workspace
from adderclaw.tools import checkers
from adderclaw.tools.checkers import MAX_FINDINGS, Checker, Finding

MOST_BYTES = 1 << 20
"""Of a file of settings that is looked into."""
PRINTED = 600
"""Characters of what a checker prints that could not check."""
TIMES = 2
"""So often it may take too long, one time after the other; then it is left out for the rest of the session."""
NOT_FOUND = 127
"""How a shell exits where a program, or the one that a script starts, is not in the sandbox."""


class Checks:
    """The checkers of one project, and what is known of them since the session began."""

    def __init__(self, runtime: Runtime, root: str, there: set[str]) -> None:
        """`there` are the files of its root that may configure one, as they were when the session began."""
        self._runtime, self._root, self._there = runtime, root, there
        self._seconds = runtime.config.after_edit.seconds
        own = operators_own(runtime.options, runtime.loaded, "after_edit.run")
        self._allowed: frozenset[str] = frozenset(runtime.config.after_edit.run if own else ())
        self._found: tuple[Checker, ...] | None = None
        self._known: dict[tuple[str, str], set[str]] = {}
        """Checker and file → what it found there the last time."""
        self._late: dict[str, int] = {}
        self._told: set[str] = set()
        """What a person or the model was told once."""

    async def fire(self, session: Session, fields: Json, _rows: Rows | None) -> HookOutcome:
        paths = [path for path in map(self._named, fields["files"]) if path is not None]
        if self._found is None:
            self._found = checkers.configured_checkers(self._there, self._text)
        messages: list[str] = []
        for checker in self._found:
            changed = [path for path in paths if path.endswith(checker.suffixes)]
            if changed and self._runs(checker) and BASH in session.environment.tools:
                messages += await self._check(session, checker, changed)
        return HookOutcome(context=tuple(messages), ran=len(messages)) if messages else NO_HOOKS

    def _runs(self, checker: Checker) -> bool:
        """Whether it is installed, in the project or on PATH, and has not taken too long too often."""
        if self._late.get(checker.name, 0) >= TIMES:
            return False
        roots = roots_of(self._root, self._runtime.config)
        return any(map(self._own, checker.own)) or programs.resolve(checker.name, roots) is not None

    def _named(self, path: str) -> str | None:
        """Relative to the root; None for what lies elsewhere, or has a name that no line of output could have."""
        name = os.path.relpath(path, self._root)
        return name if name.isprintable() and not name.startswith("../") else None

    def _text(self, name: str) -> str:
        try:
            path = workspace.require_within_roots(os.path.join(self._root, name), (self._root,))
            return workspace.read(path, MOST_BYTES).decode("utf-8", "replace")
        except (OSError, PathRefused):
            return ""

    def _own(self, program: str) -> bool:
        return workspace.is_named(os.path.join(self._root, program))

    async def _check(self, session: Session, checker: Checker, paths: Sequence[str]) -> list[str]:
        """What it has to say. It runs only where the gate lets it run without a question, or the operator has."""
        reason = ""
        for command in checkers.checker_commands(checker, paths, self._own):
            arguments: Json = {"command": command, "timeout": max(int(self._seconds * 1000), 1)}
            why = f"{checker.name} after an edit"
            if checker.name in self._allowed:
                done = await hook_calls.call_read_only(self._runtime, session, arguments, why)
            else:
                done = await hook_calls.call_without_question(self._runtime, session, BASH, arguments, why)
            if isinstance(done, ToolResult):
                return self._read(checker, paths, done)
            reason = reason or done
        if reason:
            self._once(session, checker, reason)
        return []

    def _once(self, session: Session, checker: Checker, reason: str) -> None:
        if checker.name in self._told:
            return
        self._told.add(checker.name)
        rule = (
            f'[after_edit] run = ["{checker.name}"] in your own settings, or a rule "Bash({checker.name}:*)", lets it'
        )
        message = f"{checker.name} is configured here, and does not follow edits: {reason}; {rule}"
        session.bus.publish({"event_type": "hook_message", "hook_event": AFTER_EDIT, "message": message})

    def _read(self, checker: Checker, paths: Sequence[str], done: ToolResult) -> list[str]:
        named = ", ".join(paths)
        if done.outcome == "timed_out":
            self._late[checker.name] = late = self._late.get(checker.name, 0) + 1
            left_out = " It is left out until the session ends." if late >= TIMES else ""
            return [f"{checker.name} did not end within {self._seconds:g} s, so nothing is known of {named}.{left_out}"]
        if done.metadata.get("exit_code") == NOT_FOUND:
            self._late[checker.name] = TIMES
            return []
        self._late.pop(checker.name, None)
        findings = checkers.findings_on(checker.read(done.content), self._root, paths)
        if not findings and done.is_error:
            return self._failed(checker, named, done.content)
        new: list[Finding] = []
        before = 0
        for path in paths:
            here = [finding for finding in findings if finding.path == path]
            known = self._known.get((checker.name, path), set())
            self._known[(checker.name, path)] = {finding.message for finding in here}
            new += [finding for finding in here if finding.message not in known]
            before += sum(finding.message in known for finding in here)
        return _words(checker, named, new, before)

    def _failed(self, checker: Checker, named: str, printed: str) -> list[str]:
        """It says nothing of the changed files: of others, or that it cannot work. The same words come once."""
        if any(True for _ in checker.read(printed)) or printed in self._told:
            return []
        self._told.add(printed)
        return [f"{checker.name} could not check {named}:\n{_framed(printed[:PRINTED])}"]


def _words(checker: Checker, named: str, new: list[Finding], before: int) -> list[str]:
    if not new:
        return []
    listed = [f"{finding.path}:{finding.line}: {finding.message}" for finding in new[:MAX_FINDINGS]]
    more = f", of which the first {MAX_FINDINGS} are shown" if len(new) > MAX_FINDINGS else ""
    same = f"; {before} as before" if before else ""
    count = "1 new finding" if len(new) == 1 else f"{len(new)} new findings"
    return [f"{checker.name} has {count} in {named}{more}{same}:\n{_framed(chr(10).join(listed))}"]


def _framed(text: str) -> str:
    """What a program of the project printed is data."""
    return framed(content_mark(text), text)
