"""Our tools, runs and receipts for other programs, by MCP."""
