"""Input and output of the policy: the operator's policy, one call with its facts, and the decision."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from adderclaw.config.schema import MODE_AUTONOMY
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Autonomy, Json, PermissionMode, Phase, Risk, Touch, Verdict
from adderclaw.policy.rules import NO_RULES, Rules

if TYPE_CHECKING:
    from adderclaw.policy.policy_file import PolicyFile

type CommandDenial = Literal["forbidden", "destructive", "protected", "outside", "no sandbox", "not listed"]
"""All reasons why a command can be denied."""

STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


class Opinion(NamedTuple):
    """The opinion of one guard or judge on a call; `verdict` None: it has none."""

    by: str
    verdict: Verdict | None
    reason: str
    denial: CommandDenial | None = None
    """Why it denies a command."""


@record
class Policy:
    """What the operator allows, built from the configuration by `adderclaw.policy`."""

    workspace: str
    roots: tuple[str, ...]
    """The workspace and its additional directories, each as named and with links followed."""
    autonomy: Autonomy = "supervised"
    autonomy_set: bool = True
    """Whether the autonomy was chosen explicitly: then the stricter of autonomy and mode decides, else the mode."""
    mode: PermissionMode | None = None
    workspace_only: bool = True
    forbidden_paths: tuple[str, ...] = ()
    forbidden_commands: tuple[str, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    allowed_domains: tuple[str, ...] = ()
    raw_bash: Literal["deny", "ask"] = "deny"
    rules: Rules = NO_RULES
    home: str = ""
    """AdderClaw's own folder: nothing in it is written, and only what is meant for the model is read."""
    user_home: str = ""
    """What `~` stands for."""
    own_files: tuple[str, ...] = ()
    """The database, the receipt log, the key: wherever they are configured to be."""
    started: tuple[str, ...] = ()
    """Files that the operator's hooks, or a trusted project's hooks, servers and helpers run: read, never written."""
    hooked: tuple[str, ...] = ()
    """Those that a hook in the operator's own settings names."""
    settings: tuple[str, ...] = ()
    """The files that say for this project what is denied, there or not: read, never written."""
    run_folders: tuple[str, ...] = ()
    """Folders in which runs may store traces: files with the names of traces are not written."""
    traces: tuple[str, ...] = ()
    """Those of them that belong to AdderClaw as a whole."""
    shown: tuple[str, ...] = ()
    """Folders elsewhere that may be read and started from, but not written: the operator's own skills."""
    kept: str = ""
    """The folder with this session's long outputs: tools may read there, and do nothing else."""
    sandboxed: bool = False
    """Whether commands really run inside an OS sandbox."""
    bubblewrap: bool = False
    """Whether that sandbox is bubblewrap: it has a read-only view, and runs raw bash that a person allows."""
    scratch: str = ""
    """The path of a folder that is empty at the start of each sandbox and belongs to the session alone."""
    fixed_roots: tuple[str, ...] = ()
    """The roots that no change of permissions removes."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other names of tools → the canonical ones, for rules that are added while a session runs."""
    files: "tuple[PolicyFile, ...]" = ()
    """Every policy.toml that applies."""

    @property
    def autonomy_now(self) -> Autonomy:
        """The effective autonomy: the mode's, if the autonomy was not set explicitly."""
        return self.autonomy if self.autonomy_set or self.mode is None else MODE_AUTONOMY[self.mode]


@record
class Case:
    """One call with all facts that the policy uses."""

    tool: str
    """Canonical name."""
    called_as: str
    arguments: Json
    touch: Touch
    policy: Policy
    estop: bool = False
    phase: Phase = "idle"
    plan_approved: bool = False
    trusted: bool = True
    """False when the tool itself comes from project content that the operator has not trusted."""
    interactive: bool = True
    """Whether a person can answer; if not, what would be asked is denied."""
    free_reads: bool = False
    """The operator named the file, so reads may leave the workspace."""
    protected_ids: frozenset[tuple[int, int]] = frozenset()
    """(device, inode) of the files that are protected under every name."""
    at_terminal: bool = False
    """Whether a person at the interactive terminal answers, not a pipe or a client."""
    unmasked: bool = False
    """Whether the command could see files that a rule denies to Read, because the sandbox cannot hide them now."""
    hook_opinion: Opinion | None = None
    recent: int = 0
    """How many calls of this tool and its relatives ran within the last minute."""


@record
class Decision:
    verdict: Verdict
    risk: Risk
    reason: str
    by: str
    opinions: tuple[Opinion, ...] = ()
    tool: str = ""
    denial: CommandDenial | None = None
    """Why a command is denied."""

    def as_json(self) -> Json:
        return {
            "tool": self.tool,
            "verdict": self.verdict,
            "risk": self.risk,
            "reason": self.reason,
            "by": self.by,
            "denial": self.denial,
            "opinions": [{"by": o.by, "verdict": o.verdict, "reason": o.reason} for o in self.opinions],
        }
