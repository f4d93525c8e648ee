"""The scripted provider: plays the steps of a fixture file, or explains how to set up a real model.

A fixture is `{"steps": [...]}`. A step has `text`, `tool_calls` (each `{"name", "arguments"}`) or both, or `error` (a
kind, or `{"kind", "message"}`); `delay_ms` waits before the step, and alone it delays the next one. `usage` sets the
tokens of an answer. In a text, `{{last_result}}` is the content of the last tool result, and `{{last_user}}` the last
user message. `arguments` as a string are used as if the model had written them, valid or not.

The position in the script is the number of assistant messages of the conversation, so a script continues when another
process resumes the conversation. Errors and delays before an answer are played once per process.
Unplayed steps at the end of a run are an error, unless `"partial": true` allows several runs to share the script.
"""

import json
import os
import re
from typing import Any, NamedTuple, NoReturn, cast, get_args
from weakref import WeakKeyDictionary

from adderclaw.config.legacy.options import FIXTURE_VARIABLE
from adderclaw.core.errors import ConfigError, Problem, ProviderError, ProviderErrorKind
from adderclaw.core.history import History
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Clock,
    Delta,
    Json,
    OnDelta,
    ProviderCapabilities,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    Usage,
)
from adderclaw.models.providers import Parts, arguments_of

KINDS: tuple[str, ...] = get_args(ProviderErrorKind.__value__)

WELCOME = """\
This is the built-in `local` provider. It has no model behind it and no script, so it only says this.

To talk to a real model:
- `adderclaw onboard` asks a few questions and writes the configuration;
- or add an entry under [providers.models] with kind "anthropic", "openai", "gemini", "openrouter", "ollama",
  "lm-studio" or "openai-compatible", name the variable that holds its key in api_key_env, and set default_provider
  to the entry's name.
`adderclaw provider test NAME` then shows whether it works. To play a script instead, set `fixture` in the entry of a
"mock" provider, or the variable ADDERCLAW_MOCK_FIXTURE, to a file with {"steps": [{"text": "Hello."}]}."""


class Step(NamedTuple):
    number: int
    text: str
    calls: tuple[Json, ...]
    error: tuple[ProviderErrorKind, str] | None
    delay: float
    usage: Usage

    @property
    def answers(self) -> bool:
        return self.error is None and (bool(self.calls) or self.text != _NO_TEXT)


_NO_TEXT = "\0"
"""Marks a step without a text, as opposed to an empty text."""


class Script(NamedTuple):
    file: str
    steps: list[Step]
    partial: bool


class _Place:
    """The position of a conversation in the script, including errors and delays that its messages do not show."""

    def __init__(self) -> None:
        self.answered = -1
        self.next = 0


def make(parts: Parts) -> "Mock":
    from adderclaw.config import expand

    path = parts.entry.fixture or os.environ.get(FIXTURE_VARIABLE) or ""
    file = expand(path) if path else ""
    return Mock(parts.name, load(file) if file else None, parts.clock)


class Mock:
    def __init__(self, name: str, script: Script | None, clock: Clock) -> None:
        self._name, self._script, self._clock = name, script, clock
        self._places: WeakKeyDictionary[History, _Place] = WeakKeyDictionary()
        self._furthest = 0

    @property
    def name(self) -> str:
        return self._name

    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities()

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        if self._script is None:
            on_delta(Delta("text", WELCOME))
            return ChatResponse(WELCOME, model=request.model, provider=self._name)
        step = await self._next(self._script, request.messages)
        text = _filled(step.text, request.messages) if step.text != _NO_TEXT else ""
        if text:
            on_delta(Delta("text", text))
        count = _answers_in(request.messages)
        calls = tuple(_call(call, f"call_{count + 1}_{index}") for index, call in enumerate(step.calls))
        for call in calls:
            on_delta(Delta("tool", call.name))
        stop = "tool_use" if calls else "end"
        return ChatResponse(text, calls, step.usage, stop, model=request.model, provider=self._name)

    async def count(self, request: ChatRequest) -> int | None:  # noqa: ARG002 - no counting service
        return None

    async def ready(self) -> None:
        """Always ready: it needs no key."""

    async def close(self) -> None:
        """Does nothing: there is no connection."""

    def finished(self) -> str | None:
        """The error message if steps were not played, or None; the runtime calls it at the end of a one-shot run."""
        if self._script is None or self._script.partial:
            return None
        all_steps = len(self._script.steps)
        if self._furthest >= all_steps:
            return None
        left = f"{all_steps - self._furthest} of {all_steps} steps were not played, from step {self._furthest + 1} on"
        return f"{self._script.file}: {left}"

    async def _next(self, script: Script, history: History) -> Step:
        steps = script.steps
        position = self._places.setdefault(history, _Place())
        answered = _answers_in(history)
        if position.answered != answered:
            position.answered, position.next = answered, _after(steps, answered)
        while position.next < len(steps):
            step = steps[position.next]
            position.next += 1
            self._furthest = max(self._furthest, position.next)
            if step.delay:
                await self._clock.sleep(step.delay)
            if step.error:
                kind, message = step.error
                raise ProviderError(kind, f"provider {self._name!r}: {message}", provider=self._name)
            if step.answers:
                return step
        message = f"{script.file}: all {len(steps)} steps were played, but the conversation continues; add a step"
        raise ProviderError("script", message, provider=self._name)


def _answers_in(history: History) -> int:
    return history.before + sum(message.role == "assistant" for message in history.messages)


def _after(steps: list[Step], answered: int) -> int:
    """The index of the step after a number of answers."""
    for index, step in enumerate(steps):
        if answered == 0:
            return index
        answered -= step.answers
    return len(steps)


def _filled(text: str, history: History) -> str:
    kinds = {"last_result": ToolResultBlock, "last_user": TextBlock}
    return re.sub(r"{{(last_result|last_user)}}", lambda match: _last(history, kinds[match[1]]), text)


def _last(history: History, kind: type[ToolResultBlock] | type[TextBlock]) -> str:
    for message in reversed(history.messages):
        for block in reversed(message.blocks if message.role == "user" else ()):
            if isinstance(block, kind):
                return block.content if isinstance(block, ToolResultBlock) else block.text
    return ""


def _call(call: Json, call_id: str) -> ToolCall:
    arguments: Any = call["arguments"]
    if isinstance(arguments, str):
        parsed = arguments_of(arguments)
        return ToolCall(call_id, call["name"], parsed, arguments if parsed is None else "")
    return ToolCall(call_id, call["name"], arguments)


# ---------------------------------------------------------------------- the fixture file

_STEP_KEYS = {"text", "tool_calls", "error", "delay_ms", "usage"}
_USAGE_KEYS = {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"}


def load(file: str) -> Script:
    """Load the script of a fixture; raises ConfigError with the file, the position and the expected value."""
    try:
        with open(file, encoding="utf-8") as source:
            whole: Any = json.load(source)
    except OSError as error:
        _wrong(
            file, "", f"cannot be read ({error.strerror}); set `fixture` or {FIXTURE_VARIABLE} to a file that exists"
        )
    except ValueError as error:
        _wrong(file, "", f'is not JSON ({error}); it should hold {{"steps": [...]}}')
    table = _table(file, "", whole, {"steps", "partial"})
    steps, partial = cast(Any, table.get("steps")), table.get("partial", False)
    if not isinstance(steps, list):
        _wrong(file, "steps", "should be a list of steps")
    if not isinstance(partial, bool):
        _wrong(file, "partial", "should be true or false")
    played = [_step(file, number, step) for number, step in enumerate(cast(list[Any], steps), 1)]
    return Script(file, played, partial)


def _step(file: str, number: int, value: Any) -> Step:
    where = f"steps[{number - 1}]"
    step = _table(file, where, value, _STEP_KEYS)
    if not step:
        _wrong(file, where, "is empty; give it text, tool_calls, error or delay_ms")
    if "error" in step and ("text" in step or "tool_calls" in step):
        _wrong(file, where, "has both an error and an answer; make two steps of it")
    text: Any = step.get("text", _NO_TEXT)
    if not isinstance(text, str):
        _wrong(file, f"{where}.text", f"should be a text, not {text!r}")
    delay: Any = step.get("delay_ms", 0)
    if not isinstance(delay, (int, float)) or isinstance(delay, bool) or not 0 <= delay <= 3_600_000:
        _wrong(file, f"{where}.delay_ms", f"should be a number of milliseconds up to an hour, not {delay!r}")
    calls = _calls(file, f"{where}.tool_calls", step.get("tool_calls", []))
    error = _error(file, f"{where}.error", step["error"]) if "error" in step else None
    return Step(number, text, calls, error, delay / 1000, _usage(file, f"{where}.usage", step.get("usage", {})))


def _calls(file: str, where: str, value: Any) -> tuple[Json, ...]:
    if not isinstance(value, list):
        _wrong(file, where, 'should be a list of {"name", "arguments"}')
    calls: list[Json] = []
    for index, item in enumerate(cast(list[Any], value)):
        call = _table(file, f"{where}[{index}]", item, {"name", "arguments"})
        name, arguments = call.get("name"), call.get("arguments", {})
        if not isinstance(name, str) or not name:
            _wrong(file, f"{where}[{index}].name", "should be the name of a tool")
        if not isinstance(arguments, (dict, str)):
            _wrong(file, f"{where}[{index}].arguments", "should be an object (or a text, used as the model wrote it)")
        calls.append({"name": name, "arguments": arguments})
    return tuple(calls)


def _error(file: str, where: str, value: Any) -> tuple[ProviderErrorKind, str]:
    table = {"kind": value} if isinstance(value, str) else _table(file, where, value, {"kind", "message"})
    kind: Any = table.get("kind")
    if kind not in KINDS:
        _wrong(file, where, f"unknown error kind {kind!r}; known: {', '.join(KINDS)}")
    return kind, str(table.get("message") or f"scripted error ({kind})")


def _usage(file: str, where: str, value: Any) -> Usage:
    table = _table(file, where, value, _USAGE_KEYS)
    for key, count in table.items():
        if not isinstance(count, int) or count < 0:
            _wrong(file, f"{where}.{key}", f"should be a number of tokens, not {count!r}")
    return Usage(**table)


def _table(file: str, where: str, value: Any, keys: set[str]) -> Json:
    if not isinstance(value, dict):
        _wrong(file, where, f"should be an object with {', '.join(sorted(keys))}")
    table = cast(Json, value)
    if unknown := sorted(set(table) - keys):
        _wrong(file, where, f"has the unknown key {unknown[0]!r}; known: {', '.join(sorted(keys))}")
    return table


def _wrong(file: str, where: str, message: str) -> NoReturn:
    raise ConfigError([Problem(file, where, message)])
