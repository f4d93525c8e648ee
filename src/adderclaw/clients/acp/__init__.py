"""Editors by the Agent Client Protocol: a client on stdin and stdout that opens, watches and steers conversations."""
