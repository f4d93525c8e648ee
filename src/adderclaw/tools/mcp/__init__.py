"""MCP: uses the tools, resources and prompts of other programs, and serves AdderClaw's tools to them."""
