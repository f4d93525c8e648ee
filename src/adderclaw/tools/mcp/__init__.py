"""MCP: other programs' tools, resources and prompts for our model, and our tools for other programs."""
