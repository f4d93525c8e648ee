"""Checks what a run needs, and says how to fix what is missing."""
