"""AskUserQuestion and Brief: what is asked of the person, and what is told to them while the work goes on."""

import os
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from adderclaw.core.questions import Option, Question, QuestionRequest, Replies
from adderclaw.core.record import record
from adderclaw.core.types import (
    Alias,
    Json,
    PathFact,
    Prepared,
    Tool,
    ToolContext,
    ToolResult,
    Touch,
    fixed_prepare,
    own_words,
    rejected,
)
from adderclaw.tools.paths import answered, fact, open_file, shown
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.tools import Kit

MAX_QUESTIONS, MAX_OPTIONS, MAX_HEADER, MAX_TEXT = 4, 4, 12, 4000
HOST_KEYS = frozenset({"annotations", "metadata"})
"""What the reference's host adds for its own use."""
NOBODY = (
    "Nobody is there to answer: no operator. Decide by yourself what is safe to decide, say what you assumed,"
    " and leave the rest open."
)


@record
class AskOption:
    label: str
    description: str = ""
    preview: str = ""


@record
class AskQuestion:
    question: str
    options: list[AskOption]
    header: str = ""
    multiSelect: bool = False


@record
class AskUserQuestionArguments:
    questions: list[AskQuestion]
    answers: dict[str, str] = field(default_factory=dict[str, str])


def _decode(given: Json) -> AskUserQuestionArguments:
    """The reference's shape, or one plain question (`ask_user`)."""
    from adderclaw.core.decode import decode

    asked = {key: value for key, value in given.items() if key not in HOST_KEYS}
    if isinstance(asked.get("question"), str) and "questions" not in asked:
        options: Any = asked.pop("options", [])
        labels = [{"label": one} if isinstance(one, str) else one for one in cast(list[Any], options or [])]
        asked = {"questions": [{"question": asked.pop("question"), "options": labels}], **asked}
    return decode(AskUserQuestionArguments, asked)


def _unfit(questions: list[AskQuestion]) -> str | None:
    if not 1 <= len(questions) <= MAX_QUESTIONS:
        return f"{len(questions)} questions; ask 1 to {MAX_QUESTIONS} at once."
    if len({question.question for question in questions}) < len(questions):
        return "two of the questions are the same."
    for question in questions:
        if not question.question.strip():
            return "a question is empty."
        labels = [option.label.strip().lower() for option in question.options]
        if len(labels) == 1 or len(labels) > MAX_OPTIONS or not all(labels) or len(set(labels)) < len(labels):
            return f"{question.question[:80]!r} needs 2 to {MAX_OPTIONS} different options (or none, for own words)."
        texts = [question.question, question.header]
        texts += [text for option in question.options for text in (option.label, option.description, option.preview)]
        if max(map(len, texts)) > MAX_TEXT:
            return f"{question.question[:80]!r}: a text of it is longer than {MAX_TEXT} characters."
    return None


def _question(asked: AskQuestion) -> Question:
    options = tuple(Option(option.label, option.description, option.preview) for option in asked.options)
    return Question(asked.question, asked.header[:MAX_HEADER] or "Question", options, asked.multiSelect)


def _said(replies: Replies) -> str:
    return "\n".join(f"{shown(question)}\n→ {reply}" for question, reply in replies.items())


# ------------------------------------------------------------------ Brief


MAX_MESSAGE, MAX_ATTACHMENTS = 64 * 1024, 20


@record
class BriefArguments:
    message: str
    attachments: list[str] = field(default_factory=list[str])
    status: Literal["normal", "proactive"] = "normal"


def _attached(places: tuple[PathFact, ...], ctx: ToolContext) -> list[str]:
    """Each attachment with its size; raises OSError for one that is not there."""
    found: list[str] = []
    for place in places:
        descriptor = open_file(place, ctx)
        try:
            found.append(f"{place.path} ({os.fstat(descriptor).st_size} bytes)")
        finally:
            os.close(descriptor)
    return found


# ------------------------------------------------------------------ the tools


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    return _ask(kit), _brief()


def _ask(kit: "Kit") -> Tool[Any]:
    async def run(given: AskUserQuestionArguments, ctx: ToolContext) -> ToolResult:
        if (wrong := _unfit(given.questions)) is not None:
            return rejected(wrong)
        if given.answers and ctx.rewritten:  # a hook answers; a model that fills this in itself answers nothing
            return own_words(_said(given.answers), {"answers": given.answers})
        said = {"message": given.questions[0].question, "title": "The agent asks"}
        await ctx.host.run_hooks("Notification", {**said, "notification_type": "agent_needs_input"})
        asked = tuple(_question(one) for one in given.questions)
        answer = await ctx.host.ask(QuestionRequest(asked, tool_use_id=ctx.tool_use_id))
        if answer.replies is None:
            return replace(rejected(NOBODY), unanswered=True)
        who = {"answered_by": answer.who, "approval_id": answer.approval_id}
        return own_words(_said(answer.replies), {"answers": answer.replies, "answered": who})

    known = spec("AskUserQuestion")
    return Tool(
        "AskUserQuestion",
        AskUserQuestionArguments,
        fixed_prepare(Touch(why="asks the operator"), run),
        known.description,
        known.parameters,
        (Alias("ask_user"),),
        timeout=lambda _given: kit.config.limits.seconds,
        decode=_decode,
    )


def _brief() -> Tool[Any]:
    def prepare(given: BriefArguments, ctx: ToolContext) -> Prepared:
        reads = tuple(fact(name, ctx) for name in given.attachments[:MAX_ATTACHMENTS])
        return Prepared(Touch(reads=reads, why="tells the operator something"), lambda: run(reads, given, ctx))

    async def run(places: tuple[PathFact, ...], given: BriefArguments, ctx: ToolContext) -> ToolResult:
        if not given.message.strip():
            return rejected("the message is empty.")
        if len(given.message) > MAX_MESSAGE or len(given.attachments) > MAX_ATTACHMENTS:
            return rejected(f"at most {MAX_MESSAGE} characters and {MAX_ATTACHMENTS} attachments are sent at once.")
        attached = _attached(places, ctx)
        ctx.host.show_message(given.message, attached, given.status)
        told = f" with {len(attached)} attachments" if attached else ""
        return own_words(f"Told the operator{told}.", {"attachments": attached})

    known = spec("Brief")
    return Tool(
        "Brief",
        BriefArguments,
        answered(prepare),
        known.description,
        known.parameters,
        (Alias("SendUserMessage"),),
        deferred=True,
    )
