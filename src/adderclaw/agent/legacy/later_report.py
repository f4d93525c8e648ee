"""Changes of what other programs run later: found during a call, told with its result, and asked about."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from adderclaw.core.questions import Option, Question, QuestionRequest
from adderclaw.core.types import Json, ToolResult

if TYPE_CHECKING:
    from adderclaw.agent.session.session import Session

KEEP, ASIDE = "keep", "set aside"
QUESTION = "These files take effect later: {names}. Keep them, or set them aside?"
AGAIN = "Answer 1 or 2. " + QUESTION
MOVED = "\nadderclaw: the operator set these aside; they are no longer in the workspace: {names}\n"
REPORT = (
    "these files take effect later; look at them before they do: {names}; then `adderclaw later accept` or "
    "`adderclaw later set-aside`"
)
ANSWERED = {"kept": "the operator keeps {names}", "set_aside": "the operator set aside {names}"}
MOST_NAMED = 20


class Changes(Protocol):
    """Where the sandbox puts what it found, and who keeps the answers."""

    def take(self) -> list[Json]:
        """What was found since the last time: `path` within the workspace, `change`, and the row's `id`."""
        ...

    def edited(self, paths: Sequence[str], *, approved: bool) -> list[Json]:
        """Record instruction files that a tool changed; returns what to report."""
        ...

    def answer(self, found: Sequence[Json], word: Literal["kept", "set_aside"]) -> list[Json]:
        """Keep the operator's answer; those that it was done with."""
        ...

    @property
    def asks(self) -> bool:
        """Whether the operator is to be asked."""
        ...


def named(found: Sequence[Json]) -> str:
    from adderclaw.config.run_later_names import names  # not needed before the first request

    known = names()
    more = {True: ", instructions for later conversations", False: ""}
    shown = [
        f"{one['path']} ({one['change']}{more['as' in one or known.is_instructions(str(one['path']))]})"
        for one in found
    ]
    rest = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return ", ".join(shown[:MOST_NAMED]) + rest


async def with_changes(
    session: "Session", result: ToolResult, edited: Sequence[str] = (), *, approved: bool = False
) -> ToolResult:
    """The result with the changes found while its call ran, after the operator was asked about them.

    `edited`: the files that a tool, and no command, has written; `approved`: a person was asked, and allowed it.
    """
    changes = session.environment.later_changes
    if changes is None:
        return result
    told = changes.edited(edited, approved=approved) if edited and not result.is_error else []
    if not (found := changes.take()):
        return replace(result, metadata={**result.metadata, "changed_later": told}) if told else result
    word = await _answer(session, changes, found)
    done = changes.answer(found, word) if word else []
    entries = [
        {**{key: one[key] for key in one if key != "id"}, **({"answer": word} if one in done else {})} for one in found
    ] + told
    moved = MOVED.format(names=named(done)) if word == "set_aside" and done else ""
    return replace(result, content=result.content + moved, metadata={**result.metadata, "changed_later": entries})


async def _answer(session: "Session", changes: Changes, found: Sequence[Json]) -> Literal["kept", "set_aside"] | None:
    """The operator's answer, where there is one to be had: nobody's is none, and the report is repeated."""
    if not changes.asks or session.depth or session.environment.policy.autonomy_now != "supervised":
        return None
    options = (Option(KEEP, "They stay as they are."), Option(ASIDE, "They are moved out of the workspace."))
    for text in (QUESTION, AGAIN):
        question = Question(text.format(names=named(found)), "Later", options)
        answer = await session.operator.ask(QuestionRequest((question,), "later"))
        reply = (answer.replies or {}).get(question.question, "").strip().casefold()
        if reply in (KEEP, ASIDE):
            return "set_aside" if reply == ASIDE else "kept"
        if not reply:
            break
    return None


def tell(session: "Session", found: Sequence[Json], tool_use_id: str = "") -> None:
    """One event for all that was found."""
    if found:
        entries: list[dict[str, str]] = [
            {name: str(value) for name, value in one.items() if name != "id"} for one in found
        ]
        session.bus.publish(
            {"event_type": "changed_later", "message": _said(found), "changes": entries, "tool_use_id": tool_use_id}
        )


def _said(found: Sequence[Json]) -> str:
    """What is left to look at, and what the operator has answered."""
    waiting = [one for one in found if one.get("answer") not in ANSWERED]
    said = [REPORT.format(names=named(waiting))] if waiting else []
    for word, text in ANSWERED.items():
        if answered := [one for one in found if one.get("answer") == word]:
            said.append(text.format(names=named(answered)))
    return "; ".join(said)
