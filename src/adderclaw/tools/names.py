"""The names that a list of tools may have."""

from adderclaw.tools import NAMES, aliases

SERVER = "mcp__"
"""How the name of a server's tool begins: which tools a server has is known once it runs."""


def builtin() -> tuple[str, ...]:
    """The names and aliases of the built-in tools."""
    return (*NAMES, *aliases())
