"""Runs conversations: the loop, the tool call, sessions, runs, subagents and replay."""
