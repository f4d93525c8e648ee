"""The thinking settings of each model family: their form in a request and the supported levels.

Last compared with the vendors' documentation and SDKs in November 2026. If a server refuses a setting, `adapter` omits
it from the next attempt.
"""

import re
from typing import TYPE_CHECKING

from adderclaw.config.model_facts.catalogue import bare, facts, never_thinks, thinks
from adderclaw.config.schema import Config
from adderclaw.core.provider_kinds import ANTHROPIC, BY_NAME, MOCK
from adderclaw.core.types import EFFORTS, Effort, Json, Thinking

if TYPE_CHECKING:
    from adderclaw.models.providers.adapter import Detail

BUDGETS: dict[Effort, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 16_000,
    "xhigh": 24_000,
    "max": 31_999,
}
"""Thinking tokens by level, for models that take a number."""
PLAIN: tuple[Effort, ...] = ("low", "medium", "high")

REFUSED_SETTINGS = re.compile(r"think|thought|reasoning|effort|output_config|budget|summary", re.IGNORECASE)
"""Words in the error of a server that refuses thinking settings."""
REFUSED_THOUGHTS = re.compile(
    r"signature|encrypted|(?:thinking|reasoning)\W+(?:blocks?|content|items?)\b|expected\W+thinking"
    r"|of type\W+reasoning\b|reasoning_(?:content|details)",
    re.IGNORECASE,
)
"""Words in the error of a server that refuses returned thoughts."""


def level(limit: Effort, available: tuple[Effort, ...]) -> Effort:
    """The highest available effort up to the limit, or else the lowest available."""
    best = available[0]
    for effort in available:
        if EFFORTS.index(effort) <= EFFORTS.index(limit):
            best = effort
    return best


def effort_of_tokens(tokens: int) -> Effort:
    """The effort level for a number of thinking tokens."""
    if tokens <= 0:
        return "none"
    if tokens <= 4096:
        return "low"
    return "medium" if tokens <= 16_384 else "high"


def effort_in(chosen: Thinking) -> Effort | None:
    """The chosen effort level, from a level or a number of tokens; None if nothing is chosen."""
    if chosen.is_off:
        return "none"
    return chosen.effort or (effort_of_tokens(chosen.tokens) if chosen.tokens is not None else None)


def can_think(model: str, config: Config, *, by_name: bool) -> bool:
    """Whether a model can think, by the operator's configuration, else by its name or the catalogue."""
    for pattern, known in config.models.items():
        fits = model.startswith(pattern[:-1]) if pattern.endswith("*") else model == pattern
        if fits and known.thinking is not None:
            return known.thinking
    return by_name or facts(model, config).thinking


def sends_thinking(kind: str, model: str, chosen: Thinking, config: Config) -> bool:
    """Whether a request to such an entry contains any of the chosen settings. The server may still ignore them."""
    if kind == ANTHROPIC:
        able = can_think(model, config, by_name=Claude(model).has_thinking)
        settings = anthropic(model, chosen, BUDGETS["max"], thinks=able, forced=False, detail="full")
        return settings != (None, None)
    if BY_NAME[kind].states_thinking:
        return True
    return kind != MOCK and not never_thinks(model) and not (thinks(model) and not levels(model))


def vendor_of(model: str) -> str:
    """The vendor of a model by its name; empty if unknown. Thoughts are never sent to another vendor's model."""
    name = model.lower()
    match = _VENDOR.search(name)
    if match is not None:
        return _MADE_BY.get(match[0], match[0])
    return name.partition("/")[0] if "/" in name else ""


_VENDOR = re.compile(
    r"\b(?:claude|gpt|codex|o(?=\d)|gemini|gemma|deepseek|qwen|qwq|glm|kimi|minimax|mistral|grok|llama)"
)
_MADE_BY = {
    "claude": "anthropic",
    **dict.fromkeys(("gpt", "codex", "o"), "openai"),
    **dict.fromkeys(("gemini", "gemma"), "google"),
    "qwq": "qwen",
}

# ---------------------------------------------------------------------- Anthropic


class Claude:
    """The thinking settings that a Claude model supports. A name without a version means one of the newest."""

    def __init__(self, model: str) -> None:
        name = model.lower()
        _, self.is_claude, rest = name.rpartition("claude-")
        parts = re.split(r"[-.@]", rest) if self.is_claude else []
        self.version = tuple(int(part) for part in parts if part.isdigit() and len(part) < 3)
        preview = "mythos" in name and not self.version
        self.is_adaptive = bool(self.is_claude) and (self.version >= (4, 6) or preview)
        self.has_thinking = self.is_adaptive or self.version >= (4,) or self.version[:2] == (3, 7)
        self.always_thinks = "mythos" in name or "fable" in name or ("opus" in name and self.version >= (5, 5))
        self.thinks_unasked = self.always_thinks or self.version >= (5,)
        self.hides_thoughts = preview or self.version >= (4, 7)
        """Whether thoughts are returned only on request."""
        self.off = "between_tools" if "sonnet" in name and self.version >= (5, 5) else "disabled"
        self.forces_tools = not self.always_thinks and self.off == "disabled"
        """Whether a tool call can be forced."""
        self.levels: tuple[Effort, ...] = ()
        if self.version >= (4, 7):
            self.levels = ("low", "medium", "high", "xhigh", "max")
        elif self.is_adaptive:
            self.levels = ("low", "medium", "high", "max")
        elif "opus" in name and self.version[:2] == (4, 5):
            self.levels = PLAIN


def anthropic(
    model: str, chosen: Thinking, room: int, *, thinks: bool, forced: bool, detail: "Detail"
) -> tuple[Json | None, Effort | None]:
    """The values of `thinking` and of `output_config.effort`. `room`: the most thinking tokens that fit.

    `forced`: a tool call is forced, which no Claude supports while it thinks.
    """
    claude = Claude(model)
    if detail == "nothing":
        return None, None
    effort = _effort(claude, chosen, detail)
    idle = chosen.is_unset and not thinks
    if chosen.is_off or forced or (idle and claude.thinks_unasked):
        return _off(claude, effort)
    if idle:
        return None, None
    if claude.is_adaptive:
        shown = claude.hides_thoughts and detail == "full"
        return {"type": "adaptive", **({"display": "summarized"} if shown else {})}, effort
    budget = _budget(chosen, room) if thinks or not claude.is_claude or chosen.mode or chosen.tokens else 0
    return ({"type": "enabled", "budget_tokens": budget} if budget else None), effort


def _effort(claude: Claude, chosen: Thinking, detail: "Detail") -> Effort | None:
    if not claude.levels or chosen.effort is None:
        return None
    return level(chosen.effort, PLAIN if detail == "plain" else claude.levels)


def _off(claude: Claude, effort: Effort | None) -> tuple[Json | None, Effort | None]:
    """The settings for as little thinking as the model allows; without thinking, the effort is at most `high`."""
    if claude.always_thinks:
        return None, "low"
    effort = level(effort, PLAIN) if effort is not None else None
    return ({"type": claude.off} if claude.thinks_unasked else None), effort


def _budget(chosen: Thinking, room: int) -> int:
    """The thinking tokens that fit into `room`; 0 if too few fit."""
    tokens = chosen.tokens if chosen.tokens is not None else BUDGETS[chosen.effort or "high"]
    budget = min(max(tokens, BUDGETS["minimal"]), room)
    return budget if budget >= BUDGETS["minimal"] else 0


def thinking_tokens(model: str, chosen: Thinking, *, thinks: bool) -> int:
    """The tokens reserved for the thoughts of a Claude model's answer."""
    if chosen.is_off or (chosen.is_unset and not (thinks or Claude(model).thinks_unasked)):
        return 0
    return chosen.tokens if chosen.tokens is not None else BUDGETS[chosen.effort or "high"]


# ---------------------------------------------------------------------- OpenAI


def gpt_version(model: str) -> tuple[int, int]:
    match = re.match(r"gpt-(\d+)(?:\.(\d+))?", bare(model))
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def levels(model: str) -> tuple[Effort, ...]:
    """The effort levels of an OpenAI model; empty if its effort cannot be set."""
    name, version = bare(model), gpt_version(model)
    if re.match(r"o1-(?:mini|preview)", name):
        return ()
    if "chat" in name:
        return ("medium",)
    if "-pro" in name and version >= (5, 0):
        return ("medium", "high", "xhigh") if version >= (5, 2) else ("high",)
    if version < (5, 0) or (version < (5, 2) and "codex" in name and "max" not in name):
        return PLAIN
    if version == (5, 0):
        return ("minimal", *PLAIN)
    first: tuple[Effort, ...] = () if "codex" in name or name.startswith(("gpt-6-astra", "gpt-6.1-sol")) else ("none",)
    last: tuple[Effort, ...] = ("xhigh", "max") if version >= (5, 6) else ("xhigh",)
    return (*first, *PLAIN, *(last if version >= (5, 2) or "max" in name else ()))


def openai(model: str, chosen: Thinking, detail: "Detail") -> Effort | None:
    """The effort to send to an OpenAI model, or None. The default is `medium`, because newer models default to none."""
    known = levels(model)
    if detail == "nothing" or not known:
        return None
    effort = effort_in(chosen)
    if effort is None:
        return "medium" if "medium" in known else None
    return level(effort, PLAIN if detail == "plain" and effort != "none" else known)


# ---------------------------------------------------------------------- Google

_GEMINI = re.compile(r"(?:models/)?gemini-(\d+)(?:\.(\d+))?")


def gemini_version(model: str) -> tuple[int, int]:
    match = _GEMINI.match(model)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def gemini(model: str, chosen: Thinking, *, thinks: bool, detail: "Detail") -> Json | None:
    """The value of `thinkingConfig`: a level from Gemini 3 on, tokens before; -1 lets the model decide."""
    if detail == "nothing" or (chosen.is_unset and not thinks) or (chosen.mode == "disabled" and not thinks):
        return None
    effort = effort_in(chosen)
    shown: Json = {"includeThoughts": effort != "none"} if detail == "full" else {}
    if gemini_version(model) >= (3, 0):
        if effort is not None:
            shown["thinkingLevel"] = level(effort, PLAIN if detail == "plain" else _levels_of(model)).upper()
        return shown or None
    return {**shown, "thinkingBudget": _gemini_budget(model, chosen, effort)}


def _levels_of(model: str) -> tuple[Effort, ...]:
    if "pro" not in model:
        return ("minimal", *PLAIN)
    return PLAIN if gemini_version(model) >= (3, 1) else ("low", "high")


def _gemini_budget(model: str, chosen: Thinking, effort: Effort | None) -> int:
    """The budget for Gemini 2.5: Pro cannot turn thinking off, and Flash-Lite needs at least 512 tokens."""
    least, most = (128, 32_768) if "pro" in model else (512 if "lite" in model else 1, 24_576)
    if effort == "none":
        return 128 if "pro" in model else 0
    if effort is None:
        return -1
    return min(max(BUDGETS[effort] if chosen.tokens is None else chosen.tokens, least), most)


# ---------------------------------------------------------------------- OpenRouter


def openrouter(chosen: Thinking, *, thinks: bool, detail: "Detail") -> Json | None:
    """The value of `reasoning`, which OpenRouter translates for each vendor."""
    if detail == "nothing" or (chosen.is_unset and not thinks):
        return None
    if chosen.is_off:
        return {"enabled": False} if thinks or chosen.effort else None
    if chosen.tokens is not None:
        return {"max_tokens": chosen.tokens}
    if chosen.effort is None:
        return {"enabled": True}
    return {"effort": level(chosen.effort, PLAIN) if detail == "plain" else chosen.effort}
