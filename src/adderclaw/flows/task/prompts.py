"""The prompt of one reasoning step: five sections in a fixed order, trimmed until they fit."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from adderclaw.agent.loop.tokens import SAFETY, estimate_tokens
from adderclaw.agent.session.prompt import Prompt
from adderclaw.core.errors import LimitError, ProviderError
from adderclaw.core.framing import tagged
from adderclaw.core.history import History
from adderclaw.core.json_text import canonical
from adderclaw.core.record import record
from adderclaw.core.types import ChatRequest, Json, Message, Provider, TextBlock
from adderclaw.flows.task.contracts import StepExecutionResult, TokenBudget

SECTIONS = ("system", "task", "run_state", "candidates", "disclosed")
"""In the order in which they get their share of the budget."""
SHORT = 300
"""Characters of an old result when there is no room for more."""
LONG = ("stdout_summary", "stderr_summary", "command")
LEAST = 400
"""Characters below which an excerpt is left out rather than shortened."""
COUNTING_SECONDS = 10.0
ROUNDS = 6
"""How often a prompt is counted and trimmed again before it is given up."""
CUT = "\n[… shortened to fit the token budget]"


class Excerpt(NamedTuple):
    """Something that was disclosed."""

    name: str
    """`skill/path`, as the trimming names it."""
    text: str
    weight: int
    """The least goes first when there is no room: references before scripts, before summaries."""


@record
class Parts:
    """What a prompt is made of, before anything is trimmed."""

    task: str
    results: tuple[StepExecutionResult, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    """Step id → what was carried out."""
    notes: tuple[str, ...] = ()
    """What was decided so far and why, and what else the model has to know; the newest last."""
    candidates: tuple[tuple[str, str], ...] = ()
    """Name → what is told of the skill; the best first."""
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
    """A prompt that becomes shorter."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.excerpts = list(parts.disclosed)
        self.candidates = list(parts.candidates)
        self.results = [
            {**result.as_json(), "command": parts.commands.get(result.step_id, "")} for result in parts.results
        ]
        self.notes = list(parts.notes)
        self.trimmed: list[str] = []

    def sections(self) -> dict[str, str]:
        return {
            "task": tagged("task", self.parts.task),
            "run_state": self._state(),
            "candidates": self._offered(),
            "disclosed": self._disclosed(),
        }

    def _state(self) -> str:
        if not self.results and not self.notes:
            return tagged("run_state", "Nothing was done yet.")
        # what a step printed is a JSON text without a `<`: it cannot end this part, or look like another one
        rows = [canonical(result).replace("<", "\\u003c") for result in self.results]
        return tagged("run_state", "\n".join((*self.notes, *rows)))

    def _offered(self) -> str:
        if not self.candidates:
            return tagged("candidate_skills", "There is no skill for this: work without one.")
        return tagged("candidate_skills", "\n".join(text for _, text in self.candidates))

    def _disclosed(self) -> str:
        text = "\n".join(excerpt.text for excerpt in self.excerpts)
        return tagged("disclosed", text) if "<" in text else text

    def text(self) -> str:
        return "\n\n".join(text for text in self.sections().values() if text)

    def trim(self, characters: int) -> bool:
        """Take away about so many characters from what matters least; False where nothing is left to take."""
        return self._less_disclosed(characters) or self._less_history() or self._fewer_candidates()

    def _less_disclosed(self, characters: int) -> bool:
        if not self.excerpts:
            return False
        place = min(range(len(self.excerpts)), key=lambda index: (self.excerpts[index].weight, index))
        excerpt = self.excerpts[place]
        rest = len(excerpt.text) - characters - len(CUT)
        if rest >= LEAST:
            self.excerpts[place] = excerpt._replace(text=excerpt.text[:rest] + CUT, weight=excerpt.weight - 1)
            if (note := f"shortened {excerpt.name}") not in self.trimmed:  # it may take a second cut
                self.trimmed.append(note)
        else:
            del self.excerpts[place]
            self.trimmed.append(f"left out {excerpt.name}")
        return True

    def _less_history(self) -> bool:
        """The oldest long result first, then whole results; the newest stays."""
        for result in self.results:
            if max(len(result[key]) for key in LONG) > SHORT + 20:
                for key in LONG:
                    result[key] = result[key] if len(result[key]) <= SHORT else result[key][:SHORT] + " […]"
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

    def _fewer_candidates(self) -> bool:
        """Where all skills are offered there may be thousands: those that fit least go, by halves."""
        if len(self.candidates) < 2:
            return False
        kept = max(1, len(self.candidates) // 2)
        self.trimmed.append(f"left out {len(self.candidates) - kept} candidates")
        del self.candidates[kept:]
        return True


# ------------------------------------------------------------------ the budget


class Window(NamedTuple):
    """How much a prompt may take."""

    max_context_tokens: int
    response_headroom_tokens: int

    @property
    def room(self) -> int:
        return max(0, self.max_context_tokens - self.response_headroom_tokens)


type Count = Callable[[str], Awaitable[int | None]]
"""The tokens of a prompt with this text, where somebody can count them."""


async def compose(count: Count | None, prompt: Prompt, parts: Parts, window: Window) -> Composed:
    """The prompt of a step, small enough. Where nobody counts (a dry run) its tokens are estimated."""
    draft = _Draft(parts)
    head = len(prompt.head)
    for _ in range(ROUNDS):
        _fit(draft, head, window.room, 1.0)
        text = draft.text()
        tokens = await count(text) if count is not None else None
        if tokens is None:
            break
        if tokens <= window.room:
            return _composed(draft, head, window, tokens, "provider")
        # the estimate was too low by this much: trim to what the provider's own counting leaves
        guess = max(1, _estimate(head + len(text.encode())))
        if not _fit(draft, head, window.room, tokens / guess * 1.02):
            raise _too_large(window, tokens)
    else:
        raise _too_large(window, window.room + 1)
    return _composed(draft, head, window, _estimate(head + len(draft.text().encode())), "estimate")


def ordinary(prompt: Prompt, task: str, window: Window) -> Composed:
    """The first request of the ordinary agent: the task in its own words."""
    sizes = {"system": _estimate(len(prompt.head)), "task": _estimate(len(task.encode()))}
    allocated = {name: sizes.get(name, 0) for name in SECTIONS}
    budget = TokenBudget(window.max_context_tokens, window.response_headroom_tokens, sum(sizes.values()), 0)
    return Composed(task, budget, allocated, "estimate", [])


def _estimate(size: int) -> int:
    return int(estimate_tokens(size) * SAFETY)


def _fit(draft: _Draft, head: int, room: int, scale: float) -> bool:
    """Trim until the estimate, scaled, is within the room; whether anything was trimmed."""
    before = len(draft.trimmed)
    while (over := _estimate(head + len(draft.text().encode())) * scale - room) > 0:
        if not draft.trim(int(over * 4 / SAFETY / scale) + 1):
            raise _too_large(Window(room, 0), room + int(over))
    return len(draft.trimmed) > before


def _too_large(window: Window, tokens: int) -> LimitError:
    return LimitError(
        f"prompt_over_budget: the instructions and the task alone take about {tokens:,} tokens of {window.room:,};"
        " raise runtime.max_context_tokens, or say less",
        "prompt_over_budget",
    )


async def counted(provider: Provider, model: str, prompt: Prompt, text: str) -> int | None:
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
        return None  # what cannot be counted can still be estimated


def _composed(draft: _Draft, head: int, window: Window, tokens: int, counted: str) -> Composed:
    """Each section's share, so that together they are what was counted."""
    sizes = {"system": head, **{name: len(text.encode()) for name, text in draft.sections().items()}}
    whole = max(1, sum(sizes.values()))
    allocated = {name: tokens * sizes[name] // whole for name in SECTIONS}
    allocated["system"] += tokens - sum(allocated.values())
    budget = TokenBudget(window.max_context_tokens, window.response_headroom_tokens, tokens, allocated["disclosed"])
    return Composed(draft.text(), budget, allocated, counted, draft.trimmed)


def offered(names: Sequence[tuple[str, float, str]], about: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """What is told of each candidate: why it is one, and what its frontmatter says."""
    return tuple(
        (name, f"- {about[name]}" + (f"\n  (similar to the task: {score:g}; {reason})" if score else ""))
        for name, score, reason in names
    )
