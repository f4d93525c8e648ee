"""How far a call may write: nowhere, only where it says, or anywhere in the workspace."""

from typing import Literal

from adderclaw.gate.looking import only_looks
from adderclaw.gate.shell.plan import Plan
from adderclaw.types import Touch

type Reach = Literal["nothing", "named", "anything"]


def reach(touch: Touch) -> Reach:
    """Errs towards `anything`: a call that is taken for one that only looks would not be put back."""
    if touch.opaque:
        return "anything"
    if touch.command is not None:
        if not isinstance(touch.command, Plan) or touch.writes:
            return "anything"
        return "nothing" if touch.looks or only_looks(touch.command) else "anything"
    return "named" if touch.writes else "nothing"
