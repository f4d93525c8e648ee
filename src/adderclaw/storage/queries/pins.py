"""The pinned definitions of MCP tools."""

import sqlite3

from adderclaw.storage import Store


def of_server(store: Store, scope: str, server: str) -> list[sqlite3.Row]:
    """Tool, approved definition, who approved it, and the definition that is offered now."""
    return store.read(
        "SELECT tool, definition, approved_by, offered FROM mcp_pins WHERE scope = ? AND server = ? ORDER BY rowid",
        (scope, server),
    )
