"""A session: the state of one line of work and everything that it uses, assembled by `agent.run`."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from sqlite3 import Cursor
from typing import TYPE_CHECKING, Any, Literal, Protocol

from adderclaw import policy as gate
from adderclaw import tools
from adderclaw.agent.session.instructions import Instructions
from adderclaw.agent.session.limits import Budget, LoopDetector, Pace
from adderclaw.agent.session.prompt import Prompt
from adderclaw.agent.session.tape import NO_TAPE, Tape
from adderclaw.config.paths import followed
from adderclaw.config.schema import Config, Permissions
from adderclaw.core.events import Bus
from adderclaw.core.framing import tagged
from adderclaw.core.history import History
from adderclaw.core.host import NO_HOOKS, NO_SESSION, HookOutcome, Host, ToolContext
from adderclaw.core.overseer import NO_SUPERVISOR, RunSupervisor
from adderclaw.core.questions import Operator
from adderclaw.core.record import NamedTuple, mutable_record
from adderclaw.core.redaction import Secrets
from adderclaw.core.tool_traits import NAMES
from adderclaw.core.types import (
    DEFAULT_THINKING,
    Background,
    Block,
    Clock,
    CommandFact,
    Effort,
    EndedBy,
    Ids,
    Json,
    MediaBlock,
    Outcome,
    PermissionMode,
    Phase,
    Provider,
    TaskEnd,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Touch,
)
from adderclaw.policy.case import Policy
from adderclaw.policy.rules import Rule
from adderclaw.sandbox.legacy.checkpoints import Checkpoints
from adderclaw.storage import Store, runs
from adderclaw.storage.ledger.ledger import Ledger
from adderclaw.tools import Kit, without_withheld

if TYPE_CHECKING:
    from asyncio import Task

    from adderclaw.agent.legacy.later_report import Changes
    from adderclaw.config.legacy.options import CallBack


class NetworkAccess(Protocol):
    """Which hosts commands can reach, for approval questions. `agent.run.sandbox_setup` implements it."""

    def offered_registries(self, command: CommandFact | None) -> tuple[str, ...]: ...
    def allow_registries(self, command: CommandFact | None) -> tuple[str, ...]: ...
    def describe(self, command: CommandFact | None) -> str: ...


class Planning(NamedTuple):
    """The phase of the conversation's workflow."""

    phase: Phase
    plan_approved: bool


class ActivePolicy:
    """The current policy, with the allow rules that skills add until the turn ends."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.lent_rules: tuple[Rule, ...] = ()
        """Allow rules that a skill added. They do not override deny rules, ask rules or guards."""
        self.own = policy
        """The policy without the rules of skills; a child session starts with it."""
        self.initial = policy
        """The policy that the session began with."""
        self.effort: Effort | None = None
        """The effort that a skill asks for, until the turn ends."""

    def lend(self, texts: Sequence[str], effort: Effort | None = None) -> list[str]:
        """Add allow rules and an effort until `end_loans`; returns the rules that were added."""
        self.effort = effort or self.effort
        if not texts:
            return []
        before = self.policy.rules.allow
        self.policy = gate.with_allowed(self.policy, texts)
        added = tuple(rule for rule in self.policy.rules.allow if rule not in before)
        self.lent_rules += added
        return [rule.text for rule in added]

    def update(self, permissions: Permissions, real: Callable[[str], str]) -> None:
        """Replace the permissions from now on; lent rules stay until `end_loans`."""
        self.own = gate.with_permissions(self.initial, permissions, real)
        rules = self.own.rules
        allow = tuple(dict.fromkeys((*rules.allow, *self.lent_rules)))
        self.policy = replace(self.own, rules=rules._replace(allow=allow))

    def end_loans(self) -> None:
        self.policy, self.lent_rules, self.effort = self.own, (), None


@mutable_record
class ToolEnvironment:
    """The environment that calls are judged in: enough to explain a verdict without running anything."""

    tools: Mapping[str, Tool[Any]]
    kit: Kit
    """What the tools are created from; a child session's tools are created from the same."""
    active_policy: ActivePolicy
    context: ToolContext
    stopped: Callable[[], bool]
    planning: Callable[[], Planning]
    protected_ids: Callable[[], frozenset[tuple[int, int]]]
    confinement: str = "none"
    """The kind of sandbox that commands run in, as each receipt says."""
    at_terminal: bool = False
    """Whether the operator is a person at an interactive terminal."""
    unmasked: Callable[[Touch], bool] = lambda _touch: False
    """Whether a command that only reads could see a file that a rule denies to Read."""
    pace: Pace | None = None
    """Counts recent tool calls for rate limits; None: no rate limits."""
    wait_for_tool: Callable[[str], Awaitable[str]] | None = None
    """Waits for a tool of an MCP server that is still starting; returns why it is not available, or an empty text."""
    wait_for_servers: Callable[[], Awaitable[str]] | None = None
    """Waits briefly for MCP servers that are still starting; returns which are missing. None: none is configured."""
    background: Background | None = None
    """Background tasks; the loop tells the model when one ends."""
    policy_inputs: Json = field(default_factory=dict[str, Any])
    """The inputs of the policy other than the configuration, so that a replay can build it again."""
    shorten: Callable[[ToolResult], ToolResult] = lambda result: result
    """Cuts a result that is too long for the model, and stores the whole in a file."""
    network: "NetworkAccess | None" = None
    """Which hosts commands can reach; None if nothing can run."""
    later_changes: "Changes | None" = None
    """Changes that the sandbox found in files that other programs run later; None if nothing checks for them."""

    @property
    def policy(self) -> Policy:
        return self.active_policy.policy

    def update_hidden(self) -> None:
        """Update which files searches skip: those that rules deny, and AdderClaw's own files under any name."""
        self.context.is_hidden = _hidden(gate.hidden_from_search(self.policy), self.protected_ids)
        self.context.is_write_protected = gate.kept_from_deletion(self.policy)

    @property
    def offered_tools(self) -> dict[str, Tool[Any]]:
        """The tools that are advertised to the model: all except those that rules deny regardless of the input.

        A driver's own tools are always offered.
        """

        def withheld(name: str) -> bool:
            return (name in NAMES or name.startswith("mcp__")) and gate.withholds_tool(self.policy, name)

        return without_withheld(self.tools, withheld)


def _hidden(denied: Callable[[str], bool], own: Callable[[], frozenset[tuple[int, int]]]) -> Callable[[str], bool]:
    last = ("", False)

    def hidden(path: str) -> bool:
        nonlocal last
        if path != last[0]:  # a search checks the same file once per line
            last = (path, denied(path) or _is_linked(path, own))
        return last[1]

    return hidden


def _is_linked(path: str, own: Callable[[], frozenset[tuple[int, int]]]) -> bool:
    """Whether the path is a hard link to one of these files."""
    from adderclaw.sandbox import workspace

    status = workspace.stat_target(path)
    return status is not None and status.st_nlink > 1 and (status.st_dev, status.st_ino) in own()


type Rows = list[Callable[[Cursor], None]]
"""Functions that write rows in the transaction of something else."""
type Chain = Callable[["Session", Json, Rows | None], Awaitable[HookOutcome]]
"""The hooks of one event, ready to run."""


@mutable_record
class State:
    """The changing state of a session; a child session begins with a new one."""

    loops: LoopDetector
    history: History = field(default_factory=History)
    unfinished: tuple[ToolCall, ...] = ()
    """Calls of the last reply that never began; a resumed turn starts with them."""
    asks_again: set[str] = field(default_factory=set[str])
    """Ids of unfinished calls that had begun to ask a person; their intent is in the store."""
    answered_blocks: tuple[Block, ...] = ()
    """Results of the other calls of that reply, which are sent together with theirs."""
    lost_tasks: tuple[TaskEnd, ...] = ()
    """Background tasks that an interruption ended; the model is told at its next step."""
    cached_tokens: int = 0
    """Tokens of the last request that the provider has cached."""
    stored_cwd: str = ""
    turn_id: str = ""
    """The id of the current turn; empty in a resumed turn."""
    rounds: int = 0
    """Rounds of tool calls in the current turn, including those before an interruption."""
    watched_paths: dict[str, tuple[int, int, int] | None] = field(
        default_factory=dict[str, tuple[int, int, int] | None]
    )
    """Path that hooks watch → its stamp at the last check."""
    watched_from: str = ""
    """The shell's directory at the last check."""
    hooks_calling: set[int] = field(default_factory=set[int])
    """Ordinals of hooks that wait for an MCP server's tool."""
    background_hooks: set["Task[None]"] = field(default_factory=set["Task[None]"])
    """Hooks that run in the background."""
    due_texts: list[str] = field(default_factory=list[str])
    """Texts that are sent with the user's next message."""
    stays: bool = False
    """Whether a question about a driver's own call stays open if nobody can answer it now."""
    goal: str = ""
    """The condition that must hold before a turn ends; set by `goals.set_goal`."""
    configured: Permissions | None = None
    """The initial permissions; None until an update changes them."""
    last_work_mode: PermissionMode | None = "plan"
    """The mode of the last turn outside plan mode, in which an approved plan continues; `plan` if there is none."""
    planning: Literal["", "mode", "phase"] = ""
    """The reason in the last notice to the model that it may change nothing: plan mode, the planning phase, or none."""


@mutable_record
class Session:
    """Everything that a line of work uses. A child session is a copy with some fields replaced."""

    config: Config
    environment: ToolEnvironment
    store: Store
    ledger: Ledger | None
    bus: Bus
    provider: Provider
    model: str
    prompt: Prompt
    operator: Operator
    budget: Budget
    clock: Clock
    ids: Ids
    secrets: Secrets
    state: State
    thinking: Thinking = DEFAULT_THINKING
    """How much the model thinks; it may change between two calls."""
    home: str = ""
    """AdderClaw's home folder, with the operator's own files."""
    managed: Json = field(default_factory=dict[str, Any])
    """The administrator's settings, which also limit changes while the session runs."""
    supervisor: RunSupervisor = NO_SUPERVISOR
    """Supervises the run from outside its process, in a fleet; a child session has its parent's."""
    save_body: Callable[[str, Json], None] | None = None
    """Saves a whole request or answer in the run folder (logging.debug_llm_bodies); None if that is off."""
    warm: Callable[[], None] = lambda: None
    """Imports what the next step needs, while the model thinks."""
    hooks: Mapping[str, Chain] = field(default_factory=dict[str, "Chain"])
    """Event → its hooks. A child session has its parent's."""
    instructions: Instructions | None = None
    """The instruction files of the user and the project; None if they are switched off."""
    checkpoints: Checkpoints | None = None
    """Records what calls change on disk; a child session has its parent's. None: no checkpoints."""
    agent_id: str = ""
    """The agent's id and, below, its type; empty in a session that is not a child."""
    agent_type: str = ""
    depth: int = 0
    """The number of sessions above it: 0 for a session that a person or a driver began."""
    hooks_ran: set[int] = field(default_factory=set[int])
    """Ordinals of the hooks that ran in this session."""
    start_source: str = "startup"
    """The source of the SessionStart event; empty once its hooks ran."""
    setup_trigger: str = ""
    """The trigger of the Setup event, which comes first: a new project, or maintenance; empty for no event."""
    end_reason: str = "other"
    """The reason of the SessionEnd event; empty once its hooks ran."""
    call_back: "CallBack | None" = None
    """Calls a hook function of the program that embeds AdderClaw."""
    settings_files: dict[str, tuple[str, tuple[int, int] | None]] = field(
        default_factory=dict[str, tuple[str, tuple[int, int] | None]]
    )
    """Path → the source of its settings and its stamp, for ConfigChange hooks."""

    tape: Tape = NO_TAPE
    """Records or replays everything that reaches the session from outside."""
    host: Host = NO_SESSION
    """The session as its tools see it; set once by `set_host`."""

    def set_host(self, host: Host) -> None:
        self.host = self.environment.context.host = host

    async def fire(self, event: str, fields: Json, rows: Rows | None = None) -> HookOutcome:
        """Run the hooks of an event, if there are any.

        Their rows are committed at once, or appended to `rows` for the caller's transaction.
        """
        chain = self.hooks.get(event)
        if chain is None:
            return NO_HOOKS
        return await chain(self, fields, rows)

    def read_outside(self, of: str, query: Json, look: Callable[[], Json]) -> Json:
        """Read external state for a driver through the tape, so that a replay sees the same value."""
        return self.tape.read_outside(self, of, query, look)

    async def await_outside(self, of: str, query: Json, asking: Awaitable[Json]) -> Json:
        """Await external state for a driver through the tape, so that a replay sees the same value."""
        return await self.tape.await_outside(self, of, query, asking)

    async def unit_finished(self, unit: str) -> None:
        """Report a stored unit of work, which a resumed run does not repeat, to the supervisor."""
        if self.supervisor is not NO_SUPERVISOR:
            self._flush()
            await self.supervisor.unit_stored(unit)

    async def call_recorded(self, call: ToolCall) -> None:
        """Report to the supervisor that a call and its result are recorded."""
        if self.supervisor.call_ended(call):
            self._flush()
            await self.supervisor.save_progress()

    def _flush(self) -> None:
        """Write all pending events and tape items, so that a copy of the store is complete."""
        self.bus.deliver()
        with self.store.write():
            pass

    def store_directory(self, cursor: Cursor) -> None:
        """Store the shell's directory for a resumed session; not that of a child session."""
        cwd = self.environment.context.workspace.cwd
        if cwd != self.state.stored_cwd and not self.depth:
            self.state.stored_cwd = cwd
            cursor.execute(
                "INSERT OR REPLACE INTO state(conversation_id, key, value) VALUES (?, 'cwd', ?)",
                (self.conversation_id, cwd),
            )

    def store_spent(self, cursor: Cursor) -> None:
        """Store what the run has used up, so that its limits also hold after it is resumed."""
        runs.record_usage(
            cursor, self.bus.run_id, self.budget.state_if_interrupted, None if self.depth else self.state.rounds
        )

    @property
    def conversation_id(self) -> str:
        return self.environment.context.conversation_id

    @property
    def session_id(self) -> str:
        return self.environment.context.session_id


def hook_text(event: str, texts: Sequence[str]) -> str:
    """The texts of hooks for the model, tagged with their event."""
    return tagged("hook", "\n".join(texts), f' event="{event}"')


def is_hook_text(text: str) -> bool:
    return re.match(r'<hook(?:-\w{16})? event="', text) is not None


class Attached(NamedTuple):
    """What is attached to a message."""

    texts: tuple[str, ...] = ()
    media: tuple[MediaBlock, ...] = ()


NO_ATTACHMENTS = Attached()
"""A message without attachments."""


class TurnResult(NamedTuple):
    outcome: Outcome
    answer: str
    reason: str = ""
    details: Json | None = None
    """Further fields for programs."""
    signal: int = 0
    """The number of the signal that ended the run; 0 if none did."""
    ended_by: EndedBy = ""


def policy_of(config: Config, policy_inputs: Json) -> Policy:
    """Build the policy from `policy_inputs`. Resolved links are recorded in it, and reused if already recorded."""
    inputs = dict(policy_inputs)
    known: dict[str, str] = inputs.pop("real")

    def real(path: str) -> str:
        if path not in known:
            known[path] = followed(path)
        return known[path]

    return gate.policy_of(config, **inputs, aliases=tools.aliases(), known=NAMES, real=real)
