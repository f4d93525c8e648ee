"""Serves AdderClaw's tools, runs and receipts to other programs over MCP."""
