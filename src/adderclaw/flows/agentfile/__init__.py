"""Agentfiles: parsed, checked, shown and run."""
