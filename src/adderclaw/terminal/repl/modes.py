"""Shift+Tab: the modes, one after the other."""

from adderclaw.agent.run import Run
from adderclaw.agent.tool_call import permission_updates
from adderclaw.policy import Policy


def next_mode(run: Run) -> str:
    """Take the next mode, and say which it is."""
    permission_updates.next_mode(run.session)
    return f"mode: {mode_name(run.session.environment.policy)}"


def mode_name(policy: Policy) -> str:
    """What a person reads of how much happens unasked: the mode, or the autonomy where there is none."""
    return policy.mode or policy.autonomy_now
