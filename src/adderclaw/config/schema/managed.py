"""What only the administrator of a machine can say, for everybody on it."""

from adderclaw.config.schema.meanings import PathText
from adderclaw.config.schema.models import ModelEntry
from adderclaw.core.record import record


@record
class Managed:
    """What an administrator allows everybody on a machine to use. It only applies in `/etc/adderclaw/managed.toml`."""

    providers: list[str] | None = None
    """Allowed hosts of models, such as `api.anthropic.com` or `*.example.org`; other entries of `providers.models` are
    ignored. Absent: all."""
    mcp: list[str] | None = None
    """MCP servers: hosts of those with a `url`, absolute paths of the programs of the others. Absent: all."""
    plugins: list[str] | None = None
    """Plugins, each by the hash over its content that `adderclaw plugin show` prints. Absent: all."""
    skills: list[PathText] | None = None
    """Folders that skills and commands may come from, in addition to plugins that `plugins` lists. Absent: all."""
    prices: dict[str, ModelEntry] | None = None
    """The least that models cost, for every limit of money: filled in from `[models]` of the same file where it has
    that or `limits.cost_usd`. A model that it does not name costs no less than by the packaged list. Absent: the
    prices of each user."""
