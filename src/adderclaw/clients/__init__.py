"""Programs that drive AdderClaw: editors, JSON-RPC, Python, MCP."""
