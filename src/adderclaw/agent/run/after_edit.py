"""Runs a project's type checkers and linters on edited files, and tells the model about new findings."""

import os
from collections.abc import Sequence

from adderclaw.agent.run import hook_calls
from adderclaw.agent.run.start import Runtime, operators_own, workspace_folders
from adderclaw.agent.session.session import Rows, Session
from adderclaw.agent.tool_call.hooks import AFTER_EDIT
from adderclaw.core.errors import PathRefused
from adderclaw.core.framing import content_mark, framed
from adderclaw.core.host import NO_HOOKS, HookOutcome
from adderclaw.core.tool_traits import BASH
from adderclaw.core.types import Json, ToolResult
from adderclaw.sandbox import programs, workspace
from adderclaw.tools import checkers
from adderclaw.tools.checkers import MAX_FINDINGS, Checker, Finding

MOST_BYTES = 1 << 20
"""Maximum bytes that are read of a checker's settings file."""
PRINTED = 600
"""Characters that are shown of the output of a checker that failed."""
TIMES = 2
"""After this many timeouts in a row, a checker is not run again in the session."""
NOT_FOUND = 127
"""A shell's exit code if a program does not exist in the sandbox."""


class Checks:
    """The checkers of one project, and their earlier findings in this session."""

    def __init__(self, runtime: Runtime, root: str, settings_files: set[str]) -> None:
        """`settings_files`: the files in the root that may configure a checker, when the session began."""
        self._runtime, self._root, self._settings_files = runtime, root, settings_files
        self._seconds = runtime.config.after_edit.seconds
        own = operators_own(runtime.options, runtime.loaded, "after_edit.run")
        self._allowed: frozenset[str] = frozenset(runtime.config.after_edit.run if own else ())
        self._checkers: tuple[Checker, ...] | None = None
        self._known: dict[tuple[str, str], set[str]] = {}
        """Checker and file → its last findings there."""
        self._timeouts: dict[str, int] = {}
        """Checker → its timeouts in a row."""
        self._shown: set[str] = set()
        """Checkers and outputs that were reported, since each is reported only once."""

    async def fire(self, session: Session, fields: Json, _rows: Rows | None) -> HookOutcome:
        paths = [path for path in map(self._relative, fields["files"]) if path is not None]
        if self._checkers is None:
            self._checkers = checkers.configured_checkers(self._settings_files, self._text)
        messages: list[str] = []
        for checker in self._checkers:
            changed = [path for path in paths if path.endswith(checker.suffixes)]
            if changed and self._runs(checker) and BASH in session.environment.tools:
                messages += await self._check(session, checker, changed)
        return HookOutcome(context=tuple(messages), ran=len(messages)) if messages else NO_HOOKS

    def _runs(self, checker: Checker) -> bool:
        """Whether a checker is installed, in the project or on PATH, and has not timed out too often."""
        if self._timeouts.get(checker.name, 0) >= TIMES:
            return False
        roots = workspace_folders(self._root, self._runtime.config)
        return any(map(self._own, checker.own)) or programs.resolve(checker.name, roots) is not None

    def _relative(self, path: str) -> str | None:
        """The path relative to the root; None if it is outside, or cannot appear in a line of output."""
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
        """Run a checker, if the policy allows that without a question or the operator's settings do."""
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
        if reason and checker.name not in self._shown:
            self._shown.add(checker.name)
            fix = f'[after_edit] run = ["{checker.name}"] in your own settings, or a rule "Bash({checker.name}:*)"'
            message = (
                f"{checker.name} is configured here, but does not run after edits: {reason}; to allow it, add {fix}"
            )
            session.bus.publish({"event_type": "hook_message", "hook_event": AFTER_EDIT, "message": message})
        return []

    def _read(self, checker: Checker, paths: Sequence[str], done: ToolResult) -> list[str]:
        named = ", ".join(paths)
        if done.outcome == "timed_out":
            self._timeouts[checker.name] = count = self._timeouts.get(checker.name, 0) + 1
            disabled = " It will not run again in this session." if count >= TIMES else ""
            return [f"{checker.name} did not end within {self._seconds:g} s, so {named} was not checked.{disabled}"]
        if done.metadata.get("exit_code") == NOT_FOUND:
            self._timeouts[checker.name] = TIMES
            return []
        self._timeouts.pop(checker.name, None)
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
        return _findings_message(checker, named, new, before)

    def _failed(self, checker: Checker, named: str, printed: str) -> list[str]:
        """The output of a checker that failed, once; nothing if it only has findings in other files."""
        if any(True for _ in checker.read(printed)) or printed in self._shown:
            return []
        self._shown.add(printed)
        return [f"{checker.name} could not check {named}:\n{_framed(printed[:PRINTED])}"]


def _findings_message(checker: Checker, named: str, new: list[Finding], before: int) -> list[str]:
    if not new:
        return []
    listed = [f"{finding.path}:{finding.line}: {finding.message}" for finding in new[:MAX_FINDINGS]]
    more = f", of which the first {MAX_FINDINGS} are shown" if len(new) > MAX_FINDINGS else ""
    same = f"; {before} as before" if before else ""
    count = "1 new finding" if len(new) == 1 else f"{len(new)} new findings"
    return [f"{checker.name} has {count} in {named}{more}{same}:\n{_framed(chr(10).join(listed))}"]


def _framed(text: str) -> str:
    """The output of a project's program, framed as data."""
    return framed(content_mark(text), text)
