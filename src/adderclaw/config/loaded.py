"""The loaded configuration and its sources."""

from adderclaw.config.schema import Config
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json


class Loaded(NamedTuple):
    config: Config
    workspace: str
    workspace_reason: str
    files: tuple[str, ...]
    """The files that were read, lowest layer first."""
    origins: dict[str, str]
    """Key → the file, flag or variable that sets it, or "default"."""
    warnings: tuple[str, ...]
    trusted: bool
    """Whether the project's own files apply in full; true for a project without such files."""
    policies: tuple[Json, ...] = ()
    """The contents of every policy.toml, for `policy.policy_file` to compile."""
    held_hooks: tuple[Json, ...] = ()
    """Hooks of an untrusted project, which do not run. Each has its `source`."""
    started: tuple[str, ...] = ()
    """Files that hooks, MCP servers and helpers of a trusted project start. Only the operator may change them."""
    notes: tuple[str, ...] = ()
    """The warnings that are shown only once."""
    managed: Json = {}  # noqa: RUF012 - never changed
    """The administrator's settings, which bound all others."""
