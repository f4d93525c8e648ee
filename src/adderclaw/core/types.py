"""The nouns and the few protocols: read this file first.

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
    from adderclaw.core.host import Host

type Json = dict[str, Any]
type Risk = Literal["low", "medium", "high"]
type Verdict = Literal["allow", "ask", "deny"]
type Outcome = Literal["completed", "denied", "error", "limit", "stopped", "needs_input"]
type ProviderErrorKind = Literal[
    "authentication_failed", "billing_error", "rate_limit", "invalid_request", "server_error", "max_output_tokens",
    "unknown", "network", "timeout", "context_overflow", "malformed", "missing_key", "script",
]  # fmt: skip
"""The last six are ours, beside the seven that StopFailure knows (`ProviderError.stop_failure` maps them)."""
MISSING_KEY = "missing_provider_api_key"
"""What `missing_key` is called where a run says why it failed."""
type EndedBy = (
    Literal[
        "", "cost_usd", "tokens", "tool_calls", "seconds", "rounds", "child_rounds", "repeats", "reply", "turns",
        "prompt_over_budget", "hook", "shape", "price", "unplayed", "skill_catalog_failed", "no_candidate_skills",
        "skills_changed", "invalid_decision", "step_failed", "ask_user",
    ]
    | ProviderErrorKind
)  # fmt: skip
"""What ended a turn before it was done: a limit (by its name in `--limit`, where it has one), a hook, an answer without
the shape that was asked for, a model without a price where the cost is limited, a script with steps left over, a reason
of a task's own, or the kind of error of the model call."""
type Autonomy = Literal["readonly", "supervised", "full"]
type PermissionMode = Literal["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk"]
type Phase = Literal["idle", "planning", "implement", "test", "verify", "done"]
PHASES: tuple[Phase, ...] = ("idle", "planning", "implement", "test", "verify", "done")
type ErrorClass = Literal["success", "tool_rejected", "internal_failure"]
type CallOutcome = Literal["ok", "rejected", "failed", "timed_out", "invalid", "denied", "not_run", "unknown"]
"""How a tool call ended. rejected: the tool reports an error, such as an exit status. failed: the tool itself broke.
invalid: there is no such tool, or the arguments do not fit it. denied: something or somebody refused it. not_run: it
was interrupted before it began. unknown: it was interrupted after it began, so what it did is not known."""
type DenialKind = Literal["policy", "hook", "operator", "no_operator", "timeout", "changed", "limit", "estop"]
"""What refused a call. policy: the gate, or a tool that found a path changed. timeout: nobody answered in time."""
DENIAL_KINDS: Mapping[str, DenialKind] = {kind: kind for kind in DenialKind.__value__.__args__}
type StopReason = Literal["end", "tool_use", "max_tokens", "refusal", "other"]
type Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""From the least to the most. A model that has fewer levels gets the nearest lower one, or else its lowest."""


def effort_of(text: object) -> Effort | None:
    """A level by its name; None for another word."""
    return next((one for one in EFFORTS if one == text), None)


type ThinkingMode = Literal["adaptive", "enabled", "disabled"]
THINKING_MODES: tuple[ThinkingMode, ...] = ("adaptive", "enabled", "disabled")


# ------------------------------------------------------------------ messages


@record
class ToolCall:
    """What the model asked for. `arguments` is None when its JSON was broken; then `raw` is what it wrote."""

    id: str
    name: str
    arguments: Json | None
    raw: str = ""
    cut: bool = False
    """The reply reached its length limit in this call: what does not fit may be half of what was meant."""

    @property
    def input(self) -> Json:
        """The arguments as an object, whatever was written."""
        return self.arguments if self.arguments is not None else {"_raw": self.raw}


class TextBlock(NamedTuple):
    text: str


class ToolUseBlock(NamedTuple):
    call: ToolCall


class MediaBlock(NamedTuple):
    """An image or a document that the user gave, or that a tool found."""

    media_type: str
    data: str
    """Base64."""
    name: str = ""

    @property
    def size(self) -> int:
        """Bytes of text that cost about as many tokens: an image is some 1,600, a document grows with its pages."""
        return 6_400 if self.media_type.startswith("image/") else max(6_400, len(self.data) // 8)


class ToolResultBlock(NamedTuple):
    tool_use_id: str
    content: str
    is_error: bool
    media: tuple[MediaBlock, ...] = ()
    frame: Frame | None = None

    @property
    def told(self) -> str:
        """The content as the model is shown it: the one place where a result becomes text of a request."""
        if self.frame is None:
            return self.content
        mark, length = self.frame
        return framed(mark, self.content[:length]) + self.content[length:]


class OpaqueBlock(NamedTuple):
    """What only its own provider understands (thinking, signatures, images): kept and sent back as it came."""

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
    """A tool as it is advertised: canonical name, short description, JSON Schema of its input."""

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
    """A server left out a count, or said zero where it cannot be: what is here was estimated from bytes."""

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
        """Tokens that were sent, cached ones included."""
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
    """How much a model thinks. What is None is left to the entry, and then to what the vendor recommends."""

    effort: Effort | None = None
    mode: ThinkingMode | None = None
    """adaptive: the model decides. enabled: it thinks, within `tokens`. disabled: as little as the model allows."""
    tokens: int | None = None
    """The most tokens of thought, for models that take a number; 0 is the same as disabled."""

    @property
    def is_off(self) -> bool:
        return self.mode == "disabled" or self.effort == "none" or self.tokens == 0

    @property
    def is_open(self) -> bool:
        """Nothing is chosen."""
        return self == DEFAULT_THINKING

    def over(self, other: "Thinking") -> "Thinking":
        """What this leaves open is taken from `other`, unless that would contradict what this says."""
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
    """Name of the one tool that must be called; None leaves the choice to the model."""
    response_schema: Json | None = None
    """The answer must be JSON of this schema, where the provider can promise that."""
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
    """By what it gives an answer of a wanted shape most surely: a tool that must be called, or JSON of a schema."""


class Delta(NamedTuple):
    """A piece of an answer while it arrives."""

    kind: Literal["text", "thinking", "tool", "reset"]
    """reset: what came so far is void, since the answer begins anew (another try, another provider)."""
    text: str


type OnDelta = Callable[[Delta], None]


class Provider(Protocol):
    """The one provider interface. Fallback and routing are providers made of providers."""

    @property
    def name(self) -> str: ...
    def capabilities(self) -> ProviderCapabilities: ...
    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse: ...
    async def count(self, request: ChatRequest) -> int | None:
        """Tokens of a request by the provider's own counting; None where it offers none."""
        ...

    async def ready(self) -> None:
        """Raises ProviderError where no request could be made at all: its key is missing. Nothing is sent."""
        ...

    async def close(self) -> None: ...


# ------------------------------------------------------------------ tools


@record
class PathFact:
    """What is known of one path that a call names, gathered before the gate judges it."""

    given: str
    """As the model wrote it."""
    path: str
    """Absolute, `.` and `..` folded, links not followed."""
    real: str
    """Where it leads when links are followed; of what does not exist yet, its nearest parent plus the rest."""
    identity: tuple[int, int] | None = None
    """(device, inode) of what is there, so that a second name of a protected file is still that file."""


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
    """As people may see it."""
    each_time: str = ""
    """Why it is asked about each time; empty where an allow rule may cover it."""


@record
class Touch:
    """What a call would touch. A tool that cannot say is opaque."""

    reads: tuple[PathFact, ...] = ()
    writes: tuple[PathFact, ...] = ()
    hosts: tuple[HostFact, ...] = ()
    command: "CommandFact | None" = None
    opaque: bool = False
    removes: tuple[PathFact, ...] = ()
    """Of what it writes, what goes with all that lies in it."""
    gits: tuple[str, ...] = ()
    """Git directories, by their layout, that lie in what it removes, or around it."""
    lost: str = ""
    """Why what it removes could not be put back; empty where a checkpoint keeps all of it."""
    beyond: str = ""
    """What it brings from other projects: a question of its own, in every mode."""
    why: str = ""
    """One short clause for the person who is asked: "writes to workspace"."""
    looks: bool = False
    """A command that only looks, and at the workspace alone: it runs in the room in which nothing can be written."""
    inward: bool = False
    """It reaches nothing but the session itself (a result for its driver): no list of tools needs to name it."""
    remotes: tuple[RemoteFact, ...] = ()
    """The git remotes that it would reach or set."""


class CommandFact(Protocol):
    """A shell command as the gate sees it: a plan that we compiled, or raw bash. `policy.legacy.shell` has both."""

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
    """One result for the model. `content` and `media` are all that it sees."""

    content: str
    outcome: CallOutcome = "ok"
    metadata: Json = field(default_factory=dict[str, Any])
    denial: Denial | None = None
    """Set when the call was refused. Where the tool itself refused it, the receipt gets the reason from here."""
    receipt_id: str | None = None
    media: tuple[MediaBlock, ...] = ()
    """Images and documents that are shown beside the text, where the model can see them."""
    page: bool = False
    """What was asked for line by line, and can be asked for further on: Read's view of a text file."""
    unanswered: bool = False
    """Somebody had to be asked and nobody was there: a turn that ends on this needs input."""
    ends: bool = False
    """Nothing is left to say after this call: the turn ends with it (a decision was made, a goal is reached)."""
    own: bool = False
    """Every word is ours or the operator's. All else came from outside, and the model is shown it in a frame."""
    frame: Frame | None = None
    """Given by the kernel where the result leaves."""
    diff: str = ""
    """What became of a file, as a unified diff, where `content` does not say it: no model sees it."""

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
    """A denied call; the receipt has the `reason`, where it is not the message."""
    return ToolResult(message, "denied", denial=Denial(kind, reason or message), own=True)


def internal_failure(message: str, outcome: CallOutcome = "failed", *, own: bool = True) -> ToolResult:
    return ToolResult(f"[SDLC_INTERNAL] {message}", outcome, own=own)


def own_words(message: str, metadata: Json | None = None) -> ToolResult:
    """A result in words of our own."""
    return ToolResult(message, metadata=metadata or {}, own=True)


@record
class Alias:
    """Another seed's name of a tool: its argument names, and its own defaults, which win over the tool's."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    """Their name of an argument → ours."""
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Prepared(NamedTuple):
    """A call that is ready: what it would touch, and the run of exactly that. It is run once, if it is allowed."""

    touch: Touch
    run: Callable[[], Awaitable[ToolResult]]
    overlaps: bool = False
    """It only reads, and changes nothing in the session either: it may run at the same time as other such calls."""
    fails: Callable[[], str] = lambda: ""
    """Why it can only fail, as far as that is known before it runs: it is asked where else the operator would be."""
    preview: Callable[[], str] = lambda: ""
    """Of a file that would change: a unified diff, whole; empty where that is not known or would be too long."""


type Prepare[A] = "Callable[[A, ToolContext], Prepared]"
"""Gathers all that a call depends on; raises ValueError or OSError for what cannot be prepared. Nothing runs yet."""


def preparing[A](touch: Touch, run: "Callable[[A, ToolContext], Awaitable[ToolResult]]") -> Prepare[A]:
    """How a tool prepares of which each call touches the same."""
    return lambda arguments, context: Prepared(touch, lambda: run(arguments, context))


@record
class Tool[A]:
    """A tool is a value. Built-ins, MCP tools, plugins and skills all become this one."""

    name: str
    arguments: type[A]
    """A frozen dataclass; `decode` turns the model's JSON into it."""
    prepare: Prepare[A]
    description: str
    parameters: Json
    aliases: tuple[Alias, ...] = ()
    timeout: "Callable[[A], float]" = lambda _arguments: 30.0
    """Seconds; the kernel ends the call then."""
    decode: "Callable[[Json], A] | None" = None
    """How the model's JSON becomes the arguments where no dataclass says it: `parameters` is somebody else's schema."""
    deferred: bool = False
    """Stays out of the prompt: it is found through ToolSearch and called through Call."""
    usable: bool = True
    """False: neither advertised nor found, since something is not configured; a call is told what."""

    @property
    def traits(self) -> ToolTraits:
        """What else other code needs to know about a built-in tool; the defaults for every other tool."""
        return traits(self.name)


class Disabled(ValueError):
    """What a tool's `prepare` raises when the tool itself may not be used now, whatever the call says."""

    def __init__(self, by: str, reason: str) -> None:
        super().__init__(reason)
        self.by = by
        """Who says so, as the decision names it."""


@mutable_record
class Workspace:
    """Where a session works: its root, further directories, and the directory that the shell is in."""

    root: str
    extra: tuple[str, ...] = ()
    cwd: str = ""

    def __post_init__(self) -> None:
        self.cwd = self.cwd or self.root


def _nobody() -> "Host":
    from adderclaw.core.host import NOBODY

    return NOBODY


@mutable_record
class ToolContext:
    """What a tool is told of the session, and of the call that it prepares: each call has a context of its own.

    What else a tool needs is bound when it is made.
    """

    conversation_id: str
    session_id: str
    workspace: Workspace
    files_read: dict[str, str] = field(default_factory=dict[str, str])
    """Real path → hash of the content that the model has seen: Edit and Write look here."""
    free_reads: bool = False
    """The operator named the file by hand (`--eval`): reads outside the workspace are theirs to make."""
    called_as: str = ""
    """The name in the call, which may be an alias."""
    tool_use_id: str = ""
    """The call's id."""
    rewritten: bool = False
    """A hook, and not the model, wrote the call's input as it is."""
    approved: bool = False
    """Somebody was asked about the call, and said yes."""
    hidden: Callable[[str], bool] = lambda _path: False
    """Whether a file that a search comes upon may not be read: what is in it is then not shown."""
    unchanged: Callable[[str], bool] = lambda _path: False
    """Whether a rule denies that a file is read or changed: what holds it is not deleted either."""
    kept: str = ""
    """The folder of this session's long outputs: Read, Grep and LS may look into it, nobody may write there."""
    shown: tuple[str, ...] = ()
    """Folders of skills and of trusted plugins outside of the workspace: they may be read, too."""
    keep: Callable[[str], str | None] = lambda _text: None
    """Keeps a text that is too long to be shown whole; the path to Read it by, or None where nothing is kept."""
    printing: dict[str, Callable[[], bytes]] = field(default_factory=dict[str, Callable[[], bytes]])
    """Call → the last whole lines that it has printed so far; of calls that run, for who watches them."""
    host: "Host" = field(default_factory=_nobody)
    """The session that calls the tool."""


class TaskEnd(NamedTuple):
    """A background task that has ended, as the model is told of it."""

    task_id: str
    status: str
    text: str
    """Words of our own."""
    result: str = ""
    """What the task itself has to say."""


class Background(Protocol):
    """A session's background tasks as the loop sees them; `tools.background` has them."""

    def finished(self) -> list[TaskEnd]:
        """Those that have ended and that nobody was told of yet: each is handed over exactly once."""
        ...

    async def awaited(self) -> bool:
        """Wait for one that the answer depends on; False where there is none."""
        ...


# ------------------------------------------------------------------ time and ids


class Clock(Protocol):
    """Injected, so that a run can be replayed."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


type Ids = Callable[[str], str]
"""`ids("receipt")` → "receipt-…": every id of a run comes from here."""
