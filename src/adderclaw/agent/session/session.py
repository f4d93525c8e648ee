"""A session: everything that one line of work reaches, put together by the composition root."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from sqlite3 import Cursor
from typing import TYPE_CHECKING, Any, Literal, Protocol

from adderclaw.agent.session.instructions import Instructions
from adderclaw.agent.session.limits import Budget, LoopDetector, Pace
from adderclaw.agent.session.prompt import Prompt
from adderclaw.agent.session.tape import UNTAPED, Tape
from adderclaw.config.schema.settings import Config, Permissions
from adderclaw.core.events import Bus
from adderclaw.core.framing import tagged
from adderclaw.core.history import History
from adderclaw.core.hook_outcome import NO_HOOKS, HookOutcome
from adderclaw.core.host import NO_SESSION, Host
from adderclaw.core.overseer import NO_SUPERVISOR as NO_OVERSEER
from adderclaw.core.overseer import RunSupervisor
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
    ToolContext,
    ToolResult,
    Touch,
)
from adderclaw.policy.case import Policy
from adderclaw.policy.rules import Rule
from adderclaw.sandbox.legacy.checkpoints import Checkpoints
from adderclaw.storage import Store, runs
from adderclaw.storage.ledger.ledger import Ledger
from adderclaw.tools import Kit, told_of

if TYPE_CHECKING:
    from asyncio import Task

    from adderclaw.agent.legacy.later_report import Changes
    from adderclaw.config.legacy.options import CallBack


class NetworkAccess(Protocol):
    """What commands reach, for who is asked about them. `agent.run.sandbox_setup` has it."""

    def offered(self, command: CommandFact | None) -> tuple[str, ...]: ...
    def let_in(self, command: CommandFact | None) -> tuple[str, ...]: ...
    def words(self, command: CommandFact | None) -> str: ...


class Planning(NamedTuple):
    """Where the conversation stands in its workflow."""

    phase: Phase
    plan_approved: bool


class InForce:
    """The policy that counts now: rules that a skill lends are added to it until the turn ends."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.lent: tuple[Rule, ...] = ()
        """They lift no deny, no ask and no guard."""
        self.own = policy
        """The policy without what is lent: a child session has this."""
        self.begun = policy
        """The policy that the session began with."""
        self.effort: Effort | None = None
        """How much a skill wants the model to think, until the turn ends."""

    def lend(self, texts: Sequence[str], effort: Effort | None = None) -> list[str]:
        """Let allow rules, and an effort, count until `take_back`; the rules that do."""
        self.effort = effort or self.effort
        if not texts:
            return []
        from adderclaw import policy as gate

        before = self.policy.rules.allow
        self.policy = gate.with_allowed(self.policy, texts)
        added = tuple(rule for rule in self.policy.rules.allow if rule not in before)
        self.lent += added
        return [rule.text for rule in added]

    def update(self, permissions: Permissions, real: Callable[[str], str]) -> None:
        """Let other permissions count from now on; what is lent stays so until `take_back`."""
        from adderclaw import policy as gate

        self.own = gate.with_permissions(self.begun, permissions, real)
        rules = self.own.rules
        allow = tuple(dict.fromkeys((*rules.allow, *self.lent)))
        self.policy = replace(self.own, rules=rules._replace(allow=allow))

    def take_back(self) -> None:
        self.policy, self.lent, self.effort = self.own, (), None


@mutable_record
class ToolEnvironment:
    """What a call is judged in: enough to explain a verdict without running anything."""

    tools: Mapping[str, Tool[Any]]
    kit: Kit
    """What its tools were made with: a child session's are made with the same."""
    in_force: InForce
    context: ToolContext
    stopped: Callable[[], bool]
    planning: Callable[[], Planning]
    protected_ids: Callable[[], frozenset[tuple[int, int]]]
    confinement: str = "none"
    """What holds a tool's children, as each receipt says."""
    at_terminal: bool = False
    """Whether who answers is a person at the interactive terminal."""
    unmasked: Callable[[Touch], bool] = lambda _touch: False
    """Whether a command that only looks could see what a rule denies to Read."""
    pace: Pace | None = None
    """How often tools ran of late; without one no rate limit is looked at."""
    arrive: Callable[[str], Awaitable[str]] | None = None
    """Waits, for as long as is sensible, for a tool of this name that comes late; says why it does not come, if so."""
    connecting: Callable[[], Awaitable[str]] | None = None
    """Waits briefly for servers that are still starting; says which are not there. None where none is configured."""
    background: Background | None = None
    """What goes on beside the turns: the loop tells the model of each end."""
    policy_inputs: Json = field(default_factory=dict[str, Any])
    """What the policy was made of beside the configuration, so that it can be made again."""
    shortened: Callable[[ToolResult], ToolResult] = lambda result: result
    """Cuts a result that is too long to be shown, and keeps the whole; what was recorded is cut already."""
    ways_out: "NetworkAccess | None" = None
    """Which hosts its commands reach; None where nothing runs."""
    later: "Changes | None" = None
    """What the sandbox found changed of what other programs run later; None where nothing looks."""

    @property
    def policy(self) -> Policy:
        return self.in_force.policy

    def hide(self) -> None:
        """Let searches pass over what may not be read: by the rules, and our own files under any other name."""
        from adderclaw import policy as gate

        self.context.is_hidden = _hidden(gate.hides(self.policy), self.protected_ids)
        self.context.is_write_protected = gate.keeps(self.policy)

    @property
    def offered(self) -> dict[str, Tool[Any]]:
        """Those of its tools that the model is told of: one that is denied whatever the call says is not among them.

        A driver's own tools, by which it learns how its work ended, are no policy's.
        """
        from adderclaw import policy as gate

        def withheld(name: str) -> bool:
            return (name in NAMES or name.startswith("mcp__")) and gate.withholds(self.policy, name)

        return told_of(self.tools, withheld)


def _hidden(denied: Callable[[str], bool], own: Callable[[], frozenset[tuple[int, int]]]) -> Callable[[str], bool]:
    last = ("", False)

    def hidden(path: str) -> bool:
        nonlocal last
        if path != last[0]:  # a search names a file once for each line
            last = (path, denied(path) or _is_linked(path, own))
        return last[1]

    return hidden


def _is_linked(path: str, own: Callable[[], frozenset[tuple[int, int]]]) -> bool:
    """Whether it is a second name of one of these files."""
    from adderclaw.sandbox import workspace

    status = workspace.reached(path)
    return status is not None and status.st_nlink > 1 and (status.st_dev, status.st_ino) in own()


type Rows = list[Callable[[Cursor], None]]
"""What is to be written in one transaction with something else."""
type Chain = Callable[["Session", Json, Rows | None], Awaitable[HookOutcome]]
"""The hooks of one event, ready to run."""


@mutable_record
class State:
    """What one line of work has for itself, and changes as it goes: a child session begins with a new one."""

    loops: LoopDetector
    history: History = field(default_factory=History)
    unfinished: tuple[ToolCall, ...] = ()
    """Calls of the last reply that never began: a resumed turn starts with them."""
    asks_again: set[str] = field(default_factory=set[str])
    """Ids of those that had begun to ask a person: their intent is in the store."""
    answered: tuple[Block, ...] = ()
    """Results of the other calls of that reply, which the model hears together with them."""
    lost: tuple[TaskEnd, ...] = ()
    """Background tasks that an interruption took along: the model is told at its next step."""
    cached_tokens: int = 0
    """How much of the last request the provider keeps, so that reading it again is cheaper."""
    kept_cwd: str = ""
    turn_id: str = ""
    """Of the turn that goes on; empty in one that was resumed."""
    rounds: int = 0
    """Rounds of tool calls of the turn that goes on, those before an interruption included."""
    watched: dict[str, tuple[int, int, int] | None] = field(default_factory=dict[str, tuple[int, int, int] | None])
    """Paths that hooks want to hear about, with what each looked like at the last look."""
    watched_from: str = ""
    """The directory that the shell was in then."""
    hooks_calling: set[int] = field(default_factory=set[int])
    """Ordinals of those that wait for a server's tool."""
    beside: set["Task[None]"] = field(default_factory=set["Task[None]"])
    """Hooks that run beside the turn."""
    due: list[str] = field(default_factory=list[str])
    """What the model is told with the user's next message."""
    stays: bool = False
    """A question about a call stays open where nobody is there to answer it: a driver's own call, which waits."""
    goal: str = ""
    """What is to be reached before a turn ends; `goals` sets it."""
    configured: Permissions | None = None
    """The permissions that it began with, once an update has changed them."""
    worked_in: PermissionMode | None = "plan"
    """The mode of the last turn outside plan mode: an approved plan goes on in it. `plan` before there was one."""
    planning: Literal["", "mode", "phase"] = ""
    """Whether the model was last told that nothing may be changed: by plan mode, or by the phase planning."""


@mutable_record
class Session:
    """What a line of work reaches. A child has the same but for what `replace` is given."""

    config: Config
    scene: ToolEnvironment
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
    """AdderClaw's own folder, where the operator's file is."""
    managed: Json = field(default_factory=dict[str, Any])
    """What the administrator of this machine says: it bounds what changes while the session runs, too."""
    overseer: RunSupervisor = NO_OVERSEER
    """Who watches the run from outside of its process; a child session is given its parent's."""
    keep_body: Callable[[str, Json], None] | None = None
    """Keeps a whole request or answer in the run folder, where somebody asked for that (logging.debug_llm_bodies)."""
    warm: Callable[[], None] = lambda: None
    """Imports what the next step needs, while the model thinks."""
    hooks: Mapping[str, Chain] = field(default_factory=dict[str, "Chain"])
    """Event → its hooks. A child session is given its parent's."""
    instructions: Instructions | None = None
    """The instruction files of the user and the project; None where none are wanted."""
    checkpoints: Checkpoints | None = None
    """Keeps what calls change on disk; a child session is given its parent's. None: nothing is kept."""
    agent_id: str = ""
    """Of a child session: which agent it is, and of which kind."""
    agent_type: str = ""
    depth: int = 0
    """How many sessions stand above it: 0 for the one that a person or a driver began."""
    hooks_ran: set[int] = field(default_factory=set[int])
    """Ordinals of the hooks that ran in it."""
    began: str = "startup"
    """How it begins, for SessionStart; empty once that was told."""
    setup: str = ""
    """Why Setup is told before that, if it is: the project is new, or the operator wants maintenance."""
    ends_with: str = "other"
    """How it ends, for SessionEnd; empty once that was told."""
    call_back: "CallBack | None" = None
    """Calls a hook of the program that embeds us."""
    settings_files: dict[str, tuple[str, tuple[int, int] | None]] = field(
        default_factory=dict[str, tuple[str, tuple[int, int] | None]]
    )
    """Path → whose settings it has, and what it looked like: for ConfigChange hooks, where there are any."""

    tape: Tape = UNTAPED
    """What reaches it from outside passes through here."""
    host: Host = NO_SESSION
    """What its tools see of it; `hosted` sets it, once for each session."""

    def hosted(self, host: Host) -> None:
        self.host = self.scene.context.host = host

    async def fire(self, event: str, fields: Json, rows: Rows | None = None) -> HookOutcome:
        """Run an event's hooks; where there are none this costs a look into a table.

        Their own rows are committed at once, or left in `rows` for the caller's transaction.
        """
        chain = self.hooks.get(event)
        if chain is None:
            return NO_HOOKS
        return await chain(self, fields, rows)

    def look(self, of: str, given: Json, look: Callable[[], Json]) -> Json:
        """What a driver looks up outside of the session: noted, so that a replay finds the same."""
        return self.tape.looked(self, of, given, look)

    async def ask(self, of: str, given: Json, asking: Awaitable[Json]) -> Json:
        """The same, where the answer has to be waited for."""
        return await self.tape.found(self, of, given, asking)

    async def finished(self, place: str) -> None:
        """A part of the work is stored that whoever resumes the run does not repeat."""
        if self.overseer is not NO_OVERSEER:
            self._complete()
            await self.overseer.unit_stored(place)

    async def called(self, call: ToolCall) -> None:
        """A call is recorded with its result."""
        if self.overseer.call_ended(call):
            self._complete()
            await self.overseer.save_progress()

    def _complete(self) -> None:
        """All that was told and noted so far is in the store: a copy of it is whole."""
        self.bus.deliver()
        with self.store.write():
            pass

    def keep_place(self, cursor: Cursor) -> None:
        """Remember the directory that the shell is in, for whoever resumes; where a child is, is its own affair."""
        cwd = self.scene.context.workspace.cwd
        if cwd != self.state.kept_cwd and not self.depth:
            self.state.kept_cwd = cwd
            cursor.execute(
                "INSERT OR REPLACE INTO state(conversation_id, key, value) VALUES (?, 'cwd', ?)",
                (self.conversation_id, cwd),
            )

    def keep_spent(self, cursor: Cursor) -> None:
        """What the run has used up, with the rows of what used it: its limits hold when it is resumed."""
        runs.spend(cursor, self.bus.run_id, self.budget.owed, None if self.depth else self.state.rounds)

    @property
    def conversation_id(self) -> str:
        return self.scene.context.conversation_id

    @property
    def session_id(self) -> str:
        return self.scene.context.session_id


def told(event: str, texts: Sequence[str]) -> str:
    """What hooks say to the model, marked as theirs."""
    return tagged("hook", "\n".join(texts), f' event="{event}"')


def is_told(text: str) -> bool:
    return re.match(r'<hook(?:-\w{16})? event="', text) is not None


class Attached(NamedTuple):
    """What a message has beside its words."""

    texts: tuple[str, ...] = ()
    media: tuple[MediaBlock, ...] = ()


ALONE = Attached()
"""A message of words alone."""


class TurnResult(NamedTuple):
    outcome: Outcome
    answer: str
    reason: str = ""
    details: Json | None = None
    """What else a program may want to know of it."""
    signal: int = 0
    """The signal that ended it."""
    ended_by: EndedBy = ""
