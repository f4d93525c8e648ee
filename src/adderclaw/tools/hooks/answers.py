"""Reads a hook's answer from its exit code and output, and merges the answers of all hooks of an event."""

import json
from typing import Any, NamedTuple, cast

from adderclaw.core.host import HookOutcome
from adderclaw.core.types import Json, Verdict
from adderclaw.tools.hooks import catalogue
from adderclaw.tools.hooks.catalogue import EVENTS

STRICTNESS: dict[Verdict | None, int] = {None: -1, "allow": 0, "ask": 1, "deny": 2}
MAX_SHOWN_CHARS = 10_000
"""Most characters of a hook's text that are shown; the hook's database row has all of it."""
TIMEOUT_BLOCKS = frozenset({"PreToolUse", "UserPromptSubmit"})
"""Events for which a hook that times out blocks."""
ACTIONS = {"accept": 0, "decline": 1, "cancel": 2}


class HookRun(NamedTuple):
    """How one hook ended."""

    exit_code: int | None
    """None if it was not started or has no exit code."""
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    is_cut: bool = False
    """Whether it printed more than the limit."""
    refused: bool = False
    """Whether it was refused although it must run; it then blocks."""


class Answer(NamedTuple):
    """The meaning of one hook's result."""

    block: str | None = None
    """The reason if it blocks."""
    output: Json | None = None
    failure: str = ""
    """Why it failed; the other hooks still run."""
    notes: tuple[str, ...] = ()


def read_answer(event: str, ran: HookRun) -> Answer:
    """Exit 0 with JSON controls the call, exit 2 blocks, any other exit code is a failure that is only logged."""
    if ran.refused:
        return Answer(block=ran.stderr, failure=ran.stderr)
    if ran.timed_out:
        reason = ran.stderr.strip() or "the hook did not answer in time"
        return Answer(block=reason, failure=reason) if event in TIMEOUT_BLOCKS else Answer(failure=reason)
    if ran.is_cut and event in TIMEOUT_BLOCKS and (ran.exit_code is None or ran.stdout.lstrip().startswith("{")):
        reason = ran.stderr.strip() or "the hook printed more than the limit, so its answer is unknown"
        return Answer(block=reason, failure=reason)
    output, problem, notes = _parse_output(event, ran.stdout)
    if ran.exit_code == 2:
        return Answer(ran.stderr.strip() or str(output.get("reason", "")), None, problem, notes)
    if ran.exit_code != 0:
        how = "it could not be run" if ran.exit_code is None else f"exit code {ran.exit_code}"
        failure = f"{how}: {ran.stderr.strip()}" if ran.stderr.strip() else how
        # a failed WorktreeCreate blocks with any exit code
        return Answer(failure if event == "WorktreeCreate" else None, None, failure, notes)
    return Answer(None, output, problem, notes)


def says_async(text: str) -> bool:
    """Whether a text is an object like `{"async": true, "asyncTimeout": 5000}`."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and cast(Json, value).get("async") is True


def _parse_output(event: str, stdout: str) -> tuple[Json, str, tuple[str, ...]]:
    """The checked JSON of stdout, the problem with it, and notes about unknown fields."""
    text = stdout.strip()
    if not text.startswith("{"):
        return _plain_text_output(event, text), "", ()
    if says_async(text.partition("\n")[0]) or says_async(text):
        return {}, "its output says async, so it decides nothing and the rest of its output has no effect", ()
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        return {}, f"its output starts with {{ but is not one JSON value: {error}", ()
    output = cast(Json, value)
    wrong = catalogue.field_problems(catalogue.OUTPUT, output) or _arm_problems(event, output)
    if wrong:
        return {}, f"its output does not fit: {'; '.join(wrong)}", ()
    arm = output.get("hookSpecificOutput", {})
    unknown = catalogue.unknown_fields(catalogue.OUTPUT, output)
    unknown += catalogue.unknown_fields({"hookEventName": catalogue.TEXT, **(EVENTS[event].arm or {})}, arm)
    return output, "", tuple(f"its output has {name}, which has no effect on {event}" for name in unknown)


def _plain_text_output(event: str, text: str) -> Json:
    """Plain text is context for events that allow it, and the path for WorktreeCreate."""
    if not text:
        return {}
    if EVENTS[event].stdout_is_context:
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
    if event == "WorktreeCreate":
        return {"hookSpecificOutput": {"hookEventName": event, "worktreePath": text.splitlines()[-1].strip()}}
    return {}


def _arm_problems(event: str, output: Json) -> list[str]:
    if "hookSpecificOutput" not in output:
        return []
    arm, spec = output["hookSpecificOutput"], EVENTS[event].arm
    if spec is None:
        return [f"hookSpecificOutput must be left out for {event}"]
    if arm.get("hookEventName") != event:
        return [f"hookSpecificOutput.hookEventName must be {event}"]
    return catalogue.field_problems(spec, arm, "hookSpecificOutput.")


# ------------------------------------------------------------------ merging


class Merge:
    """Merges the answers of an event's hooks in order: deny > ask > allow > nothing."""

    def __init__(self, event: str) -> None:
        self.event = event
        self.updated_input: Json | None = None
        self._blocks: list[tuple[int, str]] = []
        self._verdict: Verdict | None = None
        self._why = ""
        self._context: list[str] = []
        self._messages: list[str] = []
        self._stop: str | None = None
        self._specific: Json = {}
        self._ran = 0

    @property
    def is_settled(self) -> bool:
        """Whether the call is already refused, so later hooks cannot change the result."""
        return self.event == "PreToolUse" and (bool(self._blocks) or self._verdict == "deny")

    def add(self, ordinal: int, answer: Answer, *, failure_blocks: bool = False) -> None:
        self._ran += 1
        block = answer.block
        if block is None and answer.failure and failure_blocks:
            block = answer.failure
        if block is not None:
            self._add_block(ordinal, block)
        else:
            self._add_output(ordinal, answer.output or {})

    def _add_block(self, ordinal: int, text: str) -> None:
        match EVENTS[self.event].on_exit_two:
            case "block" | "model":
                self._blocks.append((ordinal, cut_text(text)))
            case "user":
                self._messages += [cut_text(text)] if text else []
            case "ignore":
                pass

    def _add_output(self, ordinal: int, output: Json) -> None:
        if message := output.get("systemMessage"):
            self._messages.append(cut_text(message))
        arm: Json = output.get("hookSpecificOutput", {})
        verdict: Verdict | None = arm.get("permissionDecision")
        why = str(arm.get("permissionDecisionReason", ""))
        legacy = output.get("decision")
        if legacy is not None and self.event == "PreToolUse" and verdict is None:
            verdict, why = ("allow" if legacy == "approve" else "deny"), str(output.get("reason", ""))
        elif legacy == "block":
            self._add_block(ordinal, str(output.get("reason", "")))
        if output.get("continue") is False and self.event != "TaskCreated":
            self._stop = self._stop if self._stop is not None else cut_text(str(output.get("stopReason", "")))
            if self.event == "PreToolUse":
                verdict, why = "deny", self._stop
        if STRICTNESS[verdict] > STRICTNESS[self._verdict]:
            self._verdict, self._why = verdict, cut_text(why)
        self._add_specific(arm)

    def _add_specific(self, arm: Json) -> None:
        for name, value in arm.items():
            match name:
                case "additionalContext":
                    self._context += [cut_text(value)] if value.strip() else []
                case "updatedInput":
                    self.updated_input = value
                case "watchPaths":
                    self._specific[name] = list(dict.fromkeys([*self._specific.get(name, []), *value]))
                case "retry":
                    self._specific[name] = self._specific.get(name, False) or value
                case "decision":
                    if self._specific.get(name, {}).get("behavior") != "deny":
                        self._specific[name] = value
                case "action" | "content":
                    self._add_elicitation(arm)
                case "hookEventName" | "permissionDecision" | "permissionDecisionReason":
                    pass
                case _:
                    self._specific[name] = value

    def _add_elicitation(self, arm: Json) -> None:
        """Keeps the strictest action, with its content."""
        action, before = arm.get("action"), self._specific.get("action")
        if action is not None and (before is None or ACTIONS[action] >= ACTIONS[before]):
            self._specific.pop("content", None)
            self._specific |= {name: arm[name] for name in ("action", "content") if name in arm}

    def result(self) -> HookOutcome:
        blocks = sorted(self._blocks)
        reason = "\n".join(f"[{ordinal}] {text}" for ordinal, text in blocks)
        refused = bool(blocks) or self._verdict == "deny"
        return HookOutcome(
            blocked=bool(blocks),
            reason=reason,
            verdict=self._verdict,
            verdict_reason=self._why,
            updated_input=None if refused else self.updated_input,
            context=tuple(self._context),
            messages=tuple(self._messages),
            stop=self._stop,
            specific=self._specific,
            ran=self._ran,
        )


def cut_text(text: str) -> str:
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]}\n[cut: {len(text)} characters in all, which hook_invocations has]"
