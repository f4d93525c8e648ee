"""The domain's nouns and its few protocols. Read this file first.

conversation ⊃ session ⊃ turn (user submit to final answer) ⊃ step (one model call) ⊃ tool call.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from adderclaw.core.framing import Frame, framed
from adderclaw.core.record import NamedTuple, mutable_record, record
from adderclaw.core.tool_traits import ToolTraits, traits

if TYPE_CHECKING:
    from adderclaw.core.history import History
    from adderclaw.core.host import ToolContext

type Json = dict[str, Any]
type Risk = Literal["low", "medium", "high"]
type Verdict = Literal["allow", "ask", "deny"]
type Outcome = Literal["completed", "denied", "error", "limit", "stopped", "needs_input"]
type ProviderErrorKind = Literal[
    "authentication_failed", "billing_error", "rate_limit", "invalid_request", "server_error", "max_output_tokens",
    "unknown", "network", "timeout", "context_overflow", "malformed", "missing_key", "script",
]  # fmt: skip
"""StopFailure hooks know the first seven; `ProviderError.stop_failure` maps the last six to them."""
MISSING_KEY = "missing_provider_api_key"
"""How a run's failure reason names `missing_key`."""
type EndedBy = (
    Literal[
        "", "cost_usd", "tokens", "tool_calls", "seconds", "rounds", "child_rounds", "repeats", "reply", "turns",
        "prompt_over_budget", "hook", "shape", "price", "unplayed", "skill_catalog_failed", "no_candidate_skills",
        "skills_changed", "invalid_decision", "step_failed", "ask_user",
    ]
    | ProviderErrorKind
)  # fmt: skip
"""What ended a turn early: a limit (by its `--limit` name, where it has one), a hook, an answer of the wrong shape, a
model without a known price under a cost limit, a script with unplayed steps, a reason specific to a task, or the kind
of error of a model call."""
type Autonomy = Literal["readonly", "supervised", "full"]
type PermissionMode = Literal["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk"]
type Phase = Literal["idle", "planning", "implement", "test", "verify", "done"]
PHASES: tuple[Phase, ...] = ("idle", "planning", "implement", "test", "verify", "done")
type ErrorClass = Literal["success", "tool_rejected", "internal_failure"]
type CallOutcome = Literal["ok", "rejected", "failed", "timed_out", "invalid", "denied", "not_run", "unknown"]
"""How a tool call ended. rejected: the tool reports an error, such as an exit status. failed: the tool itself broke.
invalid: the tool does not exist, or the arguments do not fit it. denied: a policy, a hook or a person refused it.
not_run: it was interrupted before it began. unknown: it was interrupted after it began, so its effects are not
known."""
type DenialKind = Literal["policy", "hook", "operator", "no_operator", "timeout", "changed", "limit", "estop"]
"""What refused a call. policy: the policy, or a tool that noticed a changed path. timeout: nobody answered in time."""
DENIAL_KINDS: Mapping[str, DenialKind] = {kind: kind for kind in DenialKind.__value__.__args__}
type StopReason = Literal["end", "tool_use", "max_tokens", "refusal", "other"]
type Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""In increasing order. A model with fewer levels gets the nearest lower one, or else its lowest."""


def parse_effort(text: object) -> Effort | None:
    """The effort level of that name; None if there is no such level."""
    return next((effort for effort in EFFORTS if effort == text), None)


type ThinkingMode = Literal["adaptive", "enabled", "disabled"]
THINKING_MODES: tuple[ThinkingMode, ...] = ("adaptive", "enabled", "disabled")


# ------------------------------------------------------------------ messages


@record
class ToolCall:
    """A tool call by the model. `arguments` is None if its JSON was invalid; `raw` then holds the original text."""

    id: str
    name: str
    arguments: Json | None
    raw: str = ""
    cut: bool = False
    """The reply reached its length limit inside this call, so its arguments may be incomplete."""

    @property
    def input(self) -> Json:
        """The arguments as an object, also if their JSON was invalid."""
        return self.arguments if self.arguments is not None else {"_raw": self.raw}


class TextBlock(NamedTuple):
    text: str


class ToolUseBlock(NamedTuple):
    call: ToolCall


class MediaBlock(NamedTuple):
    """An image or a document that the user attached or a tool returned."""

    media_type: str
    data: str
    """Base64."""
    name: str = ""

    @property
    def size(self) -> int:
        """Bytes of text that cost about as many tokens: about 1,600 tokens for an image, more for a longer document."""
        return 6_400 if self.media_type.startswith("image/") else max(6_400, len(self.data) // 8)


class ToolResultBlock(NamedTuple):
    tool_use_id: str
    content: str
    is_error: bool
    media: tuple[MediaBlock, ...] = ()
    frame: Frame | None = None

    @property
    def model_text(self) -> str:
        """The content as the model sees it. This is the only place where a result becomes request text."""
        if self.frame is None:
            return self.content
        mark, length = self.frame
        return framed(mark, self.content[:length]) + self.content[length:]


class OpaqueBlock(NamedTuple):
    """A block that only its own provider understands (thinking, signatures, images), sent back unchanged."""

    wire: str
    payload: Json


type Block = TextBlock | ToolUseBlock | ToolResultBlock | OpaqueBlock | MediaBlock


@record
class Message:
    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock))


# ------------------------------------------------------------------ providers


@record
class ToolSpec:
    """A tool as advertised to a model: canonical name, short description, JSON Schema of its input."""

    name: str
    description: str
    parameters: Json


@record
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: bool = False
    """The server reported no count or an impossible zero, so these counts are estimated from bytes."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.estimated or other.estimated,
        )

    @property
    def input(self) -> int:
        """Tokens sent, including cached ones."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def as_json(self) -> Json:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            **({"estimated": True} if self.estimated else {}),
        }


class Thinking(NamedTuple):
    """How much a model thinks. A field that is None falls back to the provider entry, then to the vendor's default."""

    effort: Effort | None = None
    mode: ThinkingMode | None = None
    """adaptive: the model decides. enabled: it thinks, up to `tokens`. disabled: as little as the model allows."""
    tokens: int | None = None
    """Limit of thinking tokens, for models that take one; 0 means disabled."""

    @property
    def is_off(self) -> bool:
        return self.mode == "disabled" or self.effort == "none" or self.tokens == 0

    @property
    def is_unset(self) -> bool:
        """Whether nothing is chosen."""
        return self == DEFAULT_THINKING

    def with_fallback(self, other: "Thinking") -> "Thinking":
        """Fills fields that are None from `other`, unless that would contradict a field that is set."""
        effort, mode, tokens = other
        if self.mode == "disabled" or ((self.mode or self.tokens) and effort == "none"):
            effort = None
        if (self.effort or self.tokens) and mode == "disabled":
            mode = None
        if self.effort is not None or self.mode in ("adaptive", "disabled") or (self.mode and not tokens):
            tokens = None
        return Thinking(
            self.effort if self.effort is not None else effort,
            self.mode if self.mode is not None else mode,
            self.tokens if self.tokens is not None else tokens,
        )


DEFAULT_THINKING = Thinking()


@record
class ChatRequest:
    system_prompt: str
    messages: "History"
    tools: tuple[ToolSpec, ...]
    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    tool_choice: str | None = None
    """Name of the tool that must be called; None leaves the choice to the model."""
    response_schema: Json | None = None
    """The answer must be JSON of this schema, if the provider can guarantee that."""
    thinking: Thinking = DEFAULT_THINKING
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@record
class ChatResponse:
    final_text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: StopReason = "end"
    model: str = ""
    provider: str = ""
    opaque: tuple[OpaqueBlock, ...] = ()
    raw_provider_payload: Json | None = None


@record
class ProviderCapabilities:
    streaming: bool = True
    tools: bool = True
    tool_choice: bool = True
    images: bool = False
    context_tokens: int | None = None
    structured: Literal["tool", "json"] = "tool"
    """The provider's more reliable way to structured output: a forced tool call, or JSON of a schema."""


class Delta(NamedTuple):
    """A piece of an answer while it arrives."""

    kind: Literal["text", "thinking", "tool", "reset"]
    """reset: discard everything so far, because the answer restarts (a retry or another provider)."""
    text: str


type OnDelta = Callable[[Delta], None]


class Provider(Protocol):
    """The only provider interface. Fallback and routing are providers composed of providers."""

    @property
    def name(self) -> str: ...
    def capabilities(self) -> ProviderCapabilities: ...
    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse: ...
    async def count(self, request: ChatRequest) -> int | None:
        """The request's tokens as counted by the provider; None if it has no such call."""
        ...

    async def ready(self) -> None:
        """Raises ProviderError if no request could succeed because the key is missing. Sends nothing."""
        ...

    async def close(self) -> None: ...


# ------------------------------------------------------------------ tools


@record
class PathFact:
    """A path that a call names, resolved before the policy judges the call."""

    given: str
    """As the model wrote it."""
    path: str
    """Absolute, `.` and `..` folded, links not followed."""
    real: str
    """The path with links followed; if it does not exist yet, its nearest existing parent plus the rest."""
    identity: tuple[int, int] | None = None
    """(device, inode) of the existing file, so that a hard link to a protected file is recognized."""


@record
class HostFact:
    method: str
    url: str
    host: str
    port: int
    scheme: str


@record
class RemoteFact:
    """A git remote that a command would reach or set."""

    verb: Literal["fetch", "push", "set"]
    address: str
    """The address without credentials, for display."""
    each_time: str = ""
    """Why the operator is asked every time; empty if an allow rule may cover it."""


@record
class Touch:
    """Everything that a call would touch. A call whose effects are unknown is opaque."""

    reads: tuple[PathFact, ...] = ()
    writes: tuple[PathFact, ...] = ()
    hosts: tuple[HostFact, ...] = ()
    command: "CommandFact | None" = None
    opaque: bool = False
    removes: tuple[PathFact, ...] = ()
    """Those of `writes` that are removed with everything in them."""
    gits: tuple[str, ...] = ()
    """Git directories (recognized by layout) inside or around the paths that it removes."""
    lost: str = ""
    """Why the removed files could not be restored; empty if a checkpoint contains all of them."""
    beyond: str = ""
    """What it takes from other projects. The operator is asked about that separately, in every mode."""
    why: str = ""
    """A short clause for the person who is asked, such as "writes to workspace"."""
    looks: bool = False
    """A command that only reads the workspace. It runs in a sandbox in which nothing can be written."""
    inward: bool = False
    """It affects only the session itself (a result for its driver), so no allow list needs to name it."""
    remotes: tuple[RemoteFact, ...] = ()
    """Git remotes that it would contact or configure."""


class CommandFact(Protocol):
    """A shell command as the policy sees it: a compiled plan or raw bash. `policy.legacy.shell` defines both."""

    @property
    def text(self) -> str: ...
    @property
    def shown(self) -> str: ...


class Denial(NamedTuple):
    """Why a call was refused."""

    kind: DenialKind
    reason: str


@record
class ToolResult:
    """The result of a tool call. The model sees only `content` and `media`."""

    content: str
    outcome: CallOutcome = "ok"
    metadata: Json = field(default_factory=dict[str, Any])
    denial: Denial | None = None
    """Set when the call was refused. If the tool itself refused it, the receipt takes the reason from here."""
    receipt_id: str | None = None
    media: tuple[MediaBlock, ...] = ()
    """Images and documents that are sent with the text to models that accept them."""
    page: bool = False
    """A page of numbered lines that the model can continue reading, such as Read's view of a text file."""
    unanswered: bool = False
    """The call needed an answer and nobody was there. A turn that ends with this result needs input."""
    ends: bool = False
    """The turn ends with this call, for example because a decision was made or a goal was reached."""
    own: bool = False
    """The text comes from AdderClaw or the operator. All other text is untrusted and is framed for the model."""
    frame: Frame | None = None
    """Set by the agent loop when it passes the result on."""
    diff: str = ""
    """The change of a file as a unified diff, if `content` does not contain it. Models do not see it."""

    @property
    def error_class(self) -> ErrorClass:
        if self.outcome == "ok":
            return "success"
        return "internal_failure" if self.outcome in ("failed", "timed_out") else "tool_rejected"

    @property
    def is_error(self) -> bool:
        return self.outcome != "ok"

    @property
    def success(self) -> bool:
        return not self.is_error

    @property
    def output(self) -> str:
        return self.content

    @property
    def error(self) -> str | None:
        return self.content if self.is_error else None


def rejected(message: str, outcome: CallOutcome = "rejected", *, own: bool = True) -> ToolResult:
    return ToolResult(message, outcome, own=own)


def refused(message: str, kind: DenialKind, reason: str = "") -> ToolResult:
    """A denied call. The receipt records `reason` if it differs from the message."""
    return ToolResult(message, "denied", denial=Denial(kind, reason or message), own=True)


def internal_failure(message: str, outcome: CallOutcome = "failed", *, own: bool = True) -> ToolResult:
    return ToolResult(f"[SDLC_INTERNAL] {message}", outcome, own=own)


def own_words(message: str, metadata: Json | None = None) -> ToolResult:
    """A successful result whose text comes from AdderClaw itself."""
    return ToolResult(message, metadata=metadata or {}, own=True)


@record
class Alias:
    """Another name of a tool, with its own argument names and with defaults that override the tool's."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    """The alias's argument name → the tool's argument name."""
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Prepared(NamedTuple):
    """A prepared call: what it would touch, and a function that does exactly that, at most once, if it is allowed."""

    touch: Touch
    run: Callable[[], Awaitable[ToolResult]]
    overlaps: bool = False
    """It only reads and does not change the session, so it may run concurrently with other such calls."""
    fails: Callable[[], str] = lambda: ""
    """Why the call is certain to fail, if that is known in advance. Checked before the operator is asked."""
    preview: Callable[[], str] = lambda: ""
    """The complete unified diff of the file that would change; empty if unknown or too long."""


type Prepare[A] = "Callable[[A, ToolContext], Prepared]"
"""Gathers everything that a call depends on, without running it. Raises ValueError or OSError if that is impossible."""


def fixed_prepare[A](touch: Touch, run: "Callable[[A, ToolContext], Awaitable[ToolResult]]") -> Prepare[A]:
    """The `prepare` of a tool whose calls all touch the same."""
    return lambda arguments, context: Prepared(touch, lambda: run(arguments, context))


@record
class Tool[A]:
    """A tool as a value. Built-in tools, MCP tools, plugins and skills are all of this type."""

    name: str
    arguments: type[A]
    """A frozen dataclass; `decode` turns the model's JSON into it."""
    prepare: Prepare[A]
    description: str
    parameters: Json
    aliases: tuple[Alias, ...] = ()
    timeout: "Callable[[A], float]" = lambda _arguments: 30.0
    """Seconds after which the agent loop ends the call."""
    decode: "Callable[[Json], A] | None" = None
    """Decodes the model's JSON if no dataclass describes it, because `parameters` is a third party's schema."""
    deferred: bool = False
    """Not listed in the prompt: the model finds it through ToolSearch and calls it through Call."""
    usable: bool = True
    """False if something is not configured: the tool is not advertised, and a call to it reports what is missing."""

    @property
    def traits(self) -> ToolTraits:
        """Traits of a built-in tool; the defaults for every other tool."""
        return traits(self.name)


class Disabled(ValueError):
    """Raised by `prepare` if the tool may not be used now, regardless of the arguments."""

    def __init__(self, by: str, reason: str) -> None:
        super().__init__(reason)
        self.by = by
        """What disabled it, as recorded in the decision."""


@mutable_record
class Workspace:
    """Where a session works: its root, additional directories, and the shell's current directory."""

    root: str
    extra: tuple[str, ...] = ()
    cwd: str = ""

    def __post_init__(self) -> None:
        self.cwd = self.cwd or self.root


class TaskEnd(NamedTuple):
    """A finished background task, as reported to the model."""

    task_id: str
    status: str
    text: str
    """AdderClaw's own description."""
    result: str = ""
    """The task's own output."""


class Background(Protocol):
    """A session's background tasks as the agent loop sees them; implemented in `tools.background`."""

    def finished(self) -> list[TaskEnd]:
        """Finished tasks that were not reported yet. Each is returned exactly once."""
        ...

    async def wait_for_needed(self) -> bool:
        """Waits for a task that the answer depends on; False if there is none."""
        ...


# ------------------------------------------------------------------ time and ids


class Clock(Protocol):
    """Time source, injected so that a run can be replayed."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


type Ids = Callable[[str], str]
"""`ids("receipt")` → "receipt-…". Every id of a run is created by it."""
