"""Looks at the workspace before and after each command, until transactions replace it."""
