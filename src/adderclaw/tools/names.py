"""The names that a list of tools may have."""

from adderclaw.core.tool_traits import NAMES
from adderclaw.tools import aliases

SERVER = "mcp__"
"""How the name of a server's tool begins: which tools a server has is known once it runs."""


def builtin() -> tuple[str, ...]:
    """The names and aliases of the built-in tools."""
    return (*NAMES, *aliases())
