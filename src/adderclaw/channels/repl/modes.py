"""Shift+Tab: the modes, one after the other."""

from adderclaw.runtime import Run


def next_mode(run: Run) -> str:
    """Take the next mode, and say which it is."""
    return f"mode: {run.session.scene.policy.autonomy}"
