"""The goal of a session: a condition that is checked whenever the model stops, and must hold before the turn ends."""

from adderclaw.agent.session.session import Rows, Session
from adderclaw.core.host import HookOutcome
from adderclaw.core.types import Json
from adderclaw.storage import transcript

REACHED = "goalReached"
QUESTION = (
    "An agent wants to end its turn. Its operator set this goal: {goal}\n\nThe agent may stop only when the goal is "
    "reached, or cannot be reached. Judge by what its last message shows. $ARGUMENTS"
)
SECONDS = 30.0
GOAL_CLEARED = "the goal is reached, or cannot be reached: it is cleared"
_NO_ORDINAL = -1
"""The ordinal of the goal's hook, which is not a configured one."""


def set_goal(session: Session, words: str) -> None:
    """Set the session's goal; an empty text removes it. The change is recorded on the tape and in the transcript."""
    words = session.secrets.scrub(words)
    session.tape.begin_operation("goal", {"words": words})
    _store_goal(session, words)


def clear_reached_goal(session: Session) -> None:
    """Remove a goal that was judged at the end of a turn. It is not recorded on the tape: a replay judges it again."""
    _store_goal(session, "")
    session.bus.publish({"event_type": "hook_message", "hook_event": "Stop", "message": GOAL_CLEARED})


def _store_goal(session: Session, words: str) -> None:
    with session.store.write() as cursor:
        transcript.append(cursor, session.session_id, "system", {"subtype": "goal", "content": words})
    session.state.goal = words


async def judge_goal(session: Session, fields: Json, rows: Rows | None) -> HookOutcome:
    """Ask the small model, by a hook of type prompt, whether the goal is reached."""
    from adderclaw.agent.tool_call import session_hooks
    from adderclaw.tools.hooks.settings import Hook

    asked = QUESTION.format(goal=session.state.goal.replace("$ARGUMENTS", "ARGUMENTS"))
    hook = Hook(_NO_ORDINAL, "Stop", kind="prompt", command=asked, seconds=SECONDS, source="/goal")
    merged, invocations = await session_hooks.run_hooks("Stop", (hook,), session, fields, rows)
    if merged.blocked:
        return HookOutcome(blocked=True, reason=merged.reason.removeprefix(f"[{_NO_ORDINAL}] "), ran=1)
    return HookOutcome(specific={REACHED: True} if [row.exit_code for row in invocations] == [0] else {}, ran=1)
