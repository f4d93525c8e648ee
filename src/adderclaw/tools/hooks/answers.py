"""What hooks answered: one answer read from exit code and output, and the merge of all answers of an event."""

import json
from typing import Any, NamedTuple, cast

from adderclaw.core.hook_outcome import HookOutcome
from adderclaw.core.types import Json, Verdict
from adderclaw.tools.hooks import catalogue
from adderclaw.tools.hooks.catalogue import EVENTS

STRICTNESS: dict[Verdict | None, int] = {None: -1, "allow": 0, "ask": 1, "deny": 2}
TOLD_CHARACTERS = 10_000
"""How much of one hook's text a model or a person is shown; all of it is in the hook's row."""
TIMEOUT_BLOCKS = frozenset({"PreToolUse", "UserPromptSubmit"})
"""Where a hook that does not answer in time counts as one that blocks."""
ACTIONS = {"accept": 0, "decline": 1, "cancel": 2}


class Ran(NamedTuple):
    """How one hook ended."""

    exit_code: int | None
    """None: it was not started, or has none."""
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    is_cut: bool = False
    """Whether it printed more than the limit."""
    refused: bool = False
    """We did not let it run, and it may not be left out: it counts as one that blocks."""


class Answer(NamedTuple):
    """What one hook's end means."""

    block: str | None = None
    """It blocks, for this reason."""
    output: Json | None = None
    failure: str = ""
    """Why it counts as a hook that failed; the chain goes on."""
    notes: tuple[str, ...] = ()


def read(event: str, ran: Ran) -> Answer:
    """Exit 0 with JSON is control, exit 2 blocks, anything else is a failure that is only logged."""
    if ran.refused:
        return Answer(block=ran.stderr, failure=ran.stderr)
    if ran.timed_out:
        said = ran.stderr.strip() or "the hook did not answer in time"
        return Answer(block=said, failure=said) if event in TIMEOUT_BLOCKS else Answer(failure=said)
    if ran.is_cut and event in TIMEOUT_BLOCKS and (ran.exit_code is None or ran.stdout.lstrip().startswith("{")):
        said = ran.stderr.strip() or "the hook printed more than the limit, so its answer is unknown"
        return Answer(block=said, failure=said)
    output, problem, notes = _output(event, ran.stdout)
    if ran.exit_code == 2:
        return Answer(ran.stderr.strip() or str(output.get("reason", "")), None, problem, notes)
    if ran.exit_code != 0:
        how = "it could not be run" if ran.exit_code is None else f"exit code {ran.exit_code}"
        failure = f"{how}: {ran.stderr.strip()}" if ran.stderr.strip() else how
        # a worktree whose making fails is not there, whatever the code
        return Answer(failure if event == "WorktreeCreate" else None, None, failure, notes)
    return Answer(None, output, problem, notes)


def says_async(text: str) -> bool:
    """Whether a text is an object like `{"async": true, "asyncTimeout": 5000}`."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and cast(Json, value).get("async") is True


def _output(event: str, stdout: str) -> tuple[Json, str, tuple[str, ...]]:
    """JSON on stdout, checked; what is wrong with it; which of its fields are not known."""
    text = stdout.strip()
    if not text.startswith("{"):
        return _plain(event, text), "", ()
    if says_async(text.partition("\n")[0]) or says_async(text):
        return {}, "its output says async, so it decides nothing and the rest of its output has no effect", ()
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        return {}, f"its output starts with {{ but is not one JSON value: {error}", ()
    output = cast(Json, value)
    wrong = catalogue.problems(catalogue.OUTPUT, output) or _arm_problems(event, output)
    if wrong:
        return {}, f"its output does not fit: {'; '.join(wrong)}", ()
    arm = output.get("hookSpecificOutput", {})
    unknown = catalogue.strange(catalogue.OUTPUT, output)
    unknown += catalogue.strange({"hookEventName": catalogue.TEXT, **(EVENTS[event].arm or {})}, arm)
    return output, "", tuple(f"its output has {name}, which has no effect on {event}" for name in unknown)


def _plain(event: str, text: str) -> Json:
    """Plain text is context where the event says so; of a worktree it is the path."""
    if not text:
        return {}
    if EVENTS[event].speaks:
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
    return catalogue.problems(spec, arm, "hookSpecificOutput.")


# ------------------------------------------------------------------ all of them together


class Merge:
    """Takes the answers of one event's hooks in their order: deny > ask > allow > nothing."""

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
    def settled(self) -> bool:
        """Nothing that a later hook says could change a call that is refused already."""
        return self.event == "PreToolUse" and (bool(self._blocks) or self._verdict == "deny")

    def add(self, ordinal: int, answer: Answer, *, failure_blocks: bool = False) -> None:
        self._ran += 1
        block = answer.block
        if block is None and answer.failure and failure_blocks:
            block = answer.failure
        if block is not None:
            self._blocked(ordinal, block)
        else:
            self._said(ordinal, answer.output or {})

    def _blocked(self, ordinal: int, text: str) -> None:
        match EVENTS[self.event].on_two:
            case "block" | "model":
                self._blocks.append((ordinal, cut(text)))
            case "user":
                self._messages += [cut(text)] if text else []
            case "ignore":
                pass

    def _said(self, ordinal: int, output: Json) -> None:
        if message := output.get("systemMessage"):
            self._messages.append(cut(message))
        arm: Json = output.get("hookSpecificOutput", {})
        verdict: Verdict | None = arm.get("permissionDecision")
        why = str(arm.get("permissionDecisionReason", ""))
        legacy = output.get("decision")
        if legacy is not None and self.event == "PreToolUse" and verdict is None:
            verdict, why = ("allow" if legacy == "approve" else "deny"), str(output.get("reason", ""))
        elif legacy == "block":
            self._blocked(ordinal, str(output.get("reason", "")))
        if output.get("continue") is False and self.event != "TaskCreated":
            self._stop = self._stop if self._stop is not None else cut(str(output.get("stopReason", "")))
            if self.event == "PreToolUse":
                verdict, why = "deny", self._stop
        if STRICTNESS[verdict] > STRICTNESS[self._verdict]:
            self._verdict, self._why = verdict, cut(why)
        self._arm(arm)

    def _arm(self, arm: Json) -> None:
        for name, value in arm.items():
            match name:
                case "additionalContext":
                    self._context += [cut(value)] if value.strip() else []
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
                    self._elicited(arm)
                case "hookEventName" | "permissionDecision" | "permissionDecisionReason":
                    pass
                case _:
                    self._specific[name] = value

    def _elicited(self, arm: Json) -> None:
        """The strictest action stands, with its own content."""
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


def cut(text: str) -> str:
    if len(text) <= TOLD_CHARACTERS:
        return text
    return f"{text[:TOLD_CHARACTERS]}\n[cut: {len(text)} characters in all, which hook_invocations has]"
