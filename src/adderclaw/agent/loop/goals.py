"""The goal of a session: what its operator wants reached before a turn ends, asked about whenever the model stops."""

from adderclaw.agent.session.session import Rows, Session
from adderclaw.core.hook_outcome import HookOutcome
from adderclaw.core.types import Json
from adderclaw.storage import transcript

REACHED = "goalReached"
QUESTION = (
    "An agent wants to end its turn. Its operator set this goal: {goal}\n\nThe agent may stop only when the goal is "
    "reached, or cannot be reached. Judge by what its last message shows. $ARGUMENTS"
)
SECONDS = 30.0
OVER = "the goal is reached, or cannot be reached: it is cleared"
_BESIDE = -1
"""Stands where a configured hook has its ordinal."""


def put(session: Session, words: str) -> None:
    """Work until this is reached; without words there is no goal any more. The tape and the transcript have it."""
    words = session.secrets.scrub(words)
    session.tape.began("goal", {"words": words})
    _keep(session, words)


def over(session: Session) -> None:
    """It was judged so at the end of a turn, which a replay comes to by itself."""
    _keep(session, "")
    session.bus.publish({"event_type": "hook_message", "hook_event": "Stop", "message": OVER})


def _keep(session: Session, words: str) -> None:
    with session.store.write() as cursor:
        transcript.append(cursor, session.session_id, "system", {"subtype": "goal", "content": words})
    session.state.goal = words


async def judge(session: Session, fields: Json, rows: Rows | None) -> HookOutcome:
    """A hook of type prompt: the small model says whether the goal is reached."""
    from adderclaw.agent.tool_call import session_hooks
    from adderclaw.tools.hooks.settings import Hook

    asked = QUESTION.format(goal=session.state.goal.replace("$ARGUMENTS", "ARGUMENTS"))
    hook = Hook(_BESIDE, "Stop", kind="prompt", command=asked, seconds=SECONDS, source="/goal")
    merged, kept = await session_hooks.run("Stop", (hook,), session, fields, rows)
    if merged.blocked:
        return HookOutcome(blocked=True, reason=merged.reason.removeprefix(f"[{_BESIDE}] "), ran=1)
    return HookOutcome(specific={REACHED: True} if [row.exit_code for row in kept] == [0] else {}, ran=1)
