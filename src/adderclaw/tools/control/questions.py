"""AskUserQuestion and Brief: questions and messages to the operator during the work."""

import os
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from adderclaw.core.host import ToolContext
from adderclaw.core.questions import Option, Question, QuestionRequest, Replies
from adderclaw.core.record import record
from adderclaw.core.types import (
    Alias,
    Json,
    PathFact,
    Prepared,
    Tool,
    ToolResult,
    Touch,
    fixed_prepare,
    own_words,
    rejected,
)
from adderclaw.tools.paths import catch_refusals, open_file, path_fact, printable
from adderclaw.tools.specs import builtin_tool

if TYPE_CHECKING:
    from adderclaw.tools.kit import Kit

MAX_QUESTIONS, MAX_OPTIONS, MAX_HEADER, MAX_TEXT = 4, 4, 12, 4000
HOST_KEYS = frozenset({"annotations", "metadata"})
"""Keys that models trained on other products send, and that have no effect here."""
NO_OPERATOR = (
    "No operator is there to answer. Decide yourself what is safe to decide, state your assumptions,"
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


def _decode(data: Json) -> AskUserQuestionArguments:
    """Accepts a list of questions, or one plain question (`ask_user`)."""
    from adderclaw.core.decode import decode

    asked = {key: value for key, value in data.items() if key not in HOST_KEYS}
    if isinstance(asked.get("question"), str) and "questions" not in asked:
        options: Any = asked.pop("options", [])
        labels = [{"label": option} if isinstance(option, str) else option for option in cast(list[Any], options or [])]
        asked = {"questions": [{"question": asked.pop("question"), "options": labels}], **asked}
    return decode(AskUserQuestionArguments, asked)


def _question_problem(questions: list[AskQuestion]) -> str | None:
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


def _build_question(asked: AskQuestion) -> Question:
    options = tuple(Option(option.label, option.description, option.preview) for option in asked.options)
    return Question(asked.question, asked.header[:MAX_HEADER] or "Question", options, asked.multiSelect)


def _format_replies(replies: Replies) -> str:
    return "\n".join(f"{printable(question)}\n→ {reply}" for question, reply in replies.items())


# ------------------------------------------------------------------ Brief


MAX_MESSAGE, MAX_ATTACHMENTS = 64 * 1024, 20


@record
class BriefArguments:
    message: str
    attachments: list[str] = field(default_factory=list[str])
    status: Literal["normal", "proactive"] = "normal"


def _describe_attachments(targets: tuple[PathFact, ...], ctx: ToolContext) -> list[str]:
    """Each attachment with its size; raises OSError for a missing one."""
    lines: list[str] = []
    for target in targets:
        descriptor = open_file(target, ctx)
        try:
            lines.append(f"{target.path} ({os.fstat(descriptor).st_size} bytes)")
        finally:
            os.close(descriptor)
    return lines


# ------------------------------------------------------------------ the tools


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    return _ask(kit), _brief()


def _ask(kit: "Kit") -> Tool[Any]:
    async def run(arguments: AskUserQuestionArguments, ctx: ToolContext) -> ToolResult:
        if (wrong := _question_problem(arguments.questions)) is not None:
            return rejected(wrong)
        if arguments.answers and ctx.rewritten:  # only a hook may set answers; those from the model are ignored
            return own_words(_format_replies(arguments.answers), {"answers": arguments.answers})
        notice = {"message": arguments.questions[0].question, "title": "The agent asks"}
        await ctx.host.run_hooks("Notification", {**notice, "notification_type": "agent_needs_input"})
        asked = tuple(_build_question(question) for question in arguments.questions)
        answer = await ctx.host.ask(QuestionRequest(asked, tool_use_id=ctx.tool_use_id))
        if answer.replies is None:
            return replace(rejected(NO_OPERATOR), unanswered=True)
        who = {"answered_by": answer.who, "approval_id": answer.approval_id}
        return own_words(_format_replies(answer.replies), {"answers": answer.replies, "answered": who})

    return builtin_tool(
        "AskUserQuestion",
        AskUserQuestionArguments,
        fixed_prepare(Touch(why="asks the operator"), run),
        (Alias("ask_user"),),
        timeout=lambda _given: kit.config.limits.seconds,
        decode=_decode,
    )


def _brief() -> Tool[Any]:
    def prepare(arguments: BriefArguments, ctx: ToolContext) -> Prepared:
        reads = tuple(path_fact(name, ctx) for name in arguments.attachments[:MAX_ATTACHMENTS])
        return Prepared(Touch(reads=reads, why="tells the operator something"), lambda: run(reads, arguments, ctx))

    async def run(targets: tuple[PathFact, ...], arguments: BriefArguments, ctx: ToolContext) -> ToolResult:
        if not arguments.message.strip():
            return rejected("the message is empty.")
        if len(arguments.message) > MAX_MESSAGE or len(arguments.attachments) > MAX_ATTACHMENTS:
            return rejected(f"at most {MAX_MESSAGE} characters and {MAX_ATTACHMENTS} attachments are sent at once.")
        attached = _describe_attachments(targets, ctx)
        ctx.host.show_message(arguments.message, attached, arguments.status)
        suffix = f" with {len(attached)} attachments" if attached else ""
        return own_words(f"Told the operator{suffix}.", {"attachments": attached})

    return builtin_tool("Brief", BriefArguments, catch_refusals(prepare), (Alias("SendUserMessage"),), deferred=True)
