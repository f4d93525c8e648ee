"""Parses, checks, shows and runs Agentfiles."""
