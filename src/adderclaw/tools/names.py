"""The names that a list of tools may have."""

from adderclaw.core.tool_traits import NAMES
from adderclaw.tools import aliases

SERVER_PREFIX = "mcp__"
"""Prefix of an MCP server's tools, whose names are known only when the server runs."""


def builtin_names() -> tuple[str, ...]:
    """The names and aliases of the built-in tools."""
    return (*NAMES, *aliases())
