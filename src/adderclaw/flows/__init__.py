"""Drivers turn a plan into turns: an Agentfile, a task; each on the one kernel."""
