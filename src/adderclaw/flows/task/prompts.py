"""Composes the prompt of a decision: five sections in a fixed order, trimmed to the token budget."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from adderclaw.agent.loop.model_call import SAFETY, estimate_tokens
from adderclaw.agent.session.prompt import Prompt
from adderclaw.core.errors import LimitError, ProviderError
from adderclaw.core.framing import tagged
from adderclaw.core.history import History
from adderclaw.core.json_text import canonical, to_json
from adderclaw.core.record import record
from adderclaw.core.types import ChatRequest, Json, Message, Provider, TextBlock
from adderclaw.flows.task.contracts import StepExecutionResult, TokenBudget

SECTIONS = ("system", "task", "run_state", "candidates", "disclosed")
"""The sections of a prompt, in the order in which the budget is divided among them."""
SHORTENED = 300
"""Characters of an old result after it is shortened."""
TEXT_FIELDS = ("stdout_summary", "stderr_summary", "command")
MIN_EXCERPT = 400
"""An excerpt that would become shorter than this is left out."""
COUNTING_SECONDS = 10.0
ROUNDS = 6
"""How often a prompt is counted and trimmed before the run gives up."""
CUT = "\n[… shortened to fit the token budget]"


class Excerpt(NamedTuple):
    """A disclosed part of a skill."""

    name: str
    """`skill/path`, as the list of trimmed parts shows it."""
    text: str
    weight: int
    """The lowest is trimmed first: references before scripts, scripts before summaries."""


@record
class Parts:
    """The parts of a prompt before trimming."""

    task: str
    results: tuple[StepExecutionResult, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    """The command of each step, by step id."""
    notes: tuple[str, ...] = ()
    """Earlier decisions with their reasons, and remarks for the model; the newest last."""
    candidates: tuple[tuple[str, str], ...] = ()
    """Name and description of each skill, the best match first."""
    disclosed: tuple[Excerpt, ...] = ()


class Composed(NamedTuple):
    text: str
    budget: TokenBudget
    allocated: dict[str, int]
    counted: str
    trimmed: list[str]

    def as_json(self) -> Json:
        return {"allocated": self.allocated, "counted": self.counted, "trimmed": self.trimmed}


def system(workspace: str, instructions: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), "system.md"), encoding="utf-8") as file:
        text = file.read().strip().replace("{workspace}", workspace)
    return f"{text}\n\n{instructions}" if instructions else text


# ------------------------------------------------------------------ the text


class _Draft:
    """A prompt that is being shortened."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.excerpts = list(parts.disclosed)
        self.candidates = list(parts.candidates)
        self.results = [
            {**to_json(result), "command": parts.commands.get(result.step_id, "")} for result in parts.results
        ]
        self.notes = list(parts.notes)
        self.trimmed: list[str] = []

    def sections(self) -> dict[str, str]:
        return {
            "task": tagged("task", self.parts.task),
            "run_state": self._state_text(),
            "candidates": self._candidates_text(),
            "disclosed": self._disclosed_text(),
        }

    def _state_text(self) -> str:
        if not self.results and not self.notes:
            return tagged("run_state", "Nothing was done yet.")
        # `<` is escaped, so that output of a step cannot close this tag or imitate another one
        rows = [canonical(result).replace("<", "\\u003c") for result in self.results]
        return tagged("run_state", "\n".join((*self.notes, *rows)))

    def _candidates_text(self) -> str:
        if not self.candidates:
            return tagged("candidate_skills", "No skill fits this task: work without one.")
        return tagged("candidate_skills", "\n".join(text for _, text in self.candidates))

    def _disclosed_text(self) -> str:
        text = "\n".join(excerpt.text for excerpt in self.excerpts)
        return tagged("disclosed", text) if "<" in text else text

    def text(self) -> str:
        return "\n\n".join(text for text in self.sections().values() if text)

    def trim(self, characters: int) -> bool:
        """Removes about this many characters of the least important text; returns False if nothing can be removed."""
        return self._trim_disclosed(characters) or self._trim_history() or self._trim_candidates()

    def _trim_disclosed(self, characters: int) -> bool:
        if not self.excerpts:
            return False
        lowest = min(range(len(self.excerpts)), key=lambda index: (self.excerpts[index].weight, index))
        excerpt = self.excerpts[lowest]
        rest = len(excerpt.text) - characters - len(CUT)
        if rest >= MIN_EXCERPT:
            self.excerpts[lowest] = excerpt._replace(text=excerpt.text[:rest] + CUT, weight=excerpt.weight - 1)
            if (note := f"shortened {excerpt.name}") not in self.trimmed:  # an excerpt may be shortened twice
                self.trimmed.append(note)
        else:
            del self.excerpts[lowest]
            self.trimmed.append(f"left out {excerpt.name}")
        return True

    def _trim_history(self) -> bool:
        """Shortens the oldest long result, then drops notes and whole results; the newest result stays."""
        for result in self.results:
            if max(len(result[key]) for key in TEXT_FIELDS) > SHORTENED + 20:
                for key in TEXT_FIELDS:
                    result[key] = result[key] if len(result[key]) <= SHORTENED else result[key][:SHORTENED] + " […]"
                self.trimmed.append(f"shortened step {result['step_id']}")
                return True
        if len(self.notes) > 3:
            del self.notes[0]
            self.trimmed.append("left out an earlier decision")
            return True
        if len(self.results) > 1:
            self.trimmed.append(f"left out step {self.results.pop(0)['step_id']}")
            return True
        return False

    def _trim_candidates(self) -> bool:
        """Drops the worse half of the candidates, since there may be thousands if all skills are offered."""
        if len(self.candidates) < 2:
            return False
        half = max(1, len(self.candidates) // 2)
        self.trimmed.append(f"left out {len(self.candidates) - half} candidates")
        del self.candidates[half:]
        return True


# ------------------------------------------------------------------ the budget


class Window(NamedTuple):
    """How many tokens a prompt may use."""

    max_context_tokens: int
    response_headroom_tokens: int

    @property
    def room(self) -> int:
        return max(0, self.max_context_tokens - self.response_headroom_tokens)


type Count = Callable[[str], Awaitable[int | None]]
"""Counts the tokens of a prompt with this text; None if the provider cannot."""


async def compose(count: Count | None, prompt: Prompt, parts: Parts, window: Window) -> Composed:
    """Composes a prompt that fits the window. Estimates its tokens if they cannot be counted, as in a dry run."""
    draft = _Draft(parts)
    head = len(prompt.head)
    for _ in range(ROUNDS):
        _fit(draft, head, window.room, 1.0)
        text = draft.text()
        tokens = await count(text) if count is not None else None
        if tokens is None:
            break
        if tokens <= window.room:
            return _with_shares(draft, head, window, tokens, "provider")
        # the estimate was too low: scale it by the provider's count, then trim again
        guess = max(1, _estimate(head + len(text.encode())))
        if not _fit(draft, head, window.room, tokens / guess * 1.02):
            raise _too_large(window, tokens)
    else:
        raise _too_large(window, window.room + 1)
    return _with_shares(draft, head, window, _estimate(head + len(draft.text().encode())), "estimate")


def compose_ordinary(prompt: Prompt, task: str, window: Window) -> Composed:
    """Composes the first request of the ordinary agent, which is the task unchanged."""
    sizes = {"system": _estimate(len(prompt.head)), "task": _estimate(len(task.encode()))}
    allocated = {name: sizes.get(name, 0) for name in SECTIONS}
    budget = TokenBudget(window.max_context_tokens, window.response_headroom_tokens, sum(sizes.values()), 0)
    return Composed(task, budget, allocated, "estimate", [])


def _estimate(size: int) -> int:
    return int(estimate_tokens(size) * SAFETY)


def _fit(draft: _Draft, head: int, room: int, scale: float) -> bool:
    """Trims until the scaled estimate fits the room; returns whether anything was trimmed."""
    before = len(draft.trimmed)
    while (over := _estimate(head + len(draft.text().encode())) * scale - room) > 0:
        if not draft.trim(int(over * 4 / SAFETY / scale) + 1):
            raise _too_large(Window(room, 0), room + int(over))
    return len(draft.trimmed) > before


def _too_large(window: Window, tokens: int) -> LimitError:
    return LimitError(
        f"prompt_over_budget: the instructions and the task alone take about {tokens:,} tokens, and {window.room:,} "
        "are available; raise runtime.max_context_tokens, or shorten the task",
        "prompt_over_budget",
    )


async def count_tokens(provider: Provider, model: str, prompt: Prompt, text: str) -> int | None:
    request = ChatRequest(
        system_prompt=prompt.system,
        messages=History([Message("user", (TextBlock(text),))]),
        tools=prompt.tools,
        model=model,
        tool_choice=prompt.tool_choice,
        response_schema=prompt.response_schema,
    )
    try:
        async with asyncio.timeout(COUNTING_SECONDS):
            return await provider.count(request)
    except (ProviderError, TimeoutError):
        return None  # the caller estimates instead


def _with_shares(draft: _Draft, head: int, window: Window, tokens: int, counted: str) -> Composed:
    """Divides the counted tokens among the sections, so that the shares add up to the count."""
    sizes = {"system": head, **{name: len(text.encode()) for name, text in draft.sections().items()}}
    whole = max(1, sum(sizes.values()))
    allocated = {name: tokens * sizes[name] // whole for name in SECTIONS}
    allocated["system"] += tokens - sum(allocated.values())
    budget = TokenBudget(window.max_context_tokens, window.response_headroom_tokens, tokens, allocated["disclosed"])
    return Composed(draft.text(), budget, allocated, counted, draft.trimmed)


def describe_candidates(names: Sequence[tuple[str, float, str]], about: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Describes each candidate by its frontmatter and by why it was chosen."""
    return tuple(
        (name, f"- {about[name]}" + (f"\n  (similar to the task: {score:g}; {reason})" if score else ""))
        for name, score, reason in names
    )
